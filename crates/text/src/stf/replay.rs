//! Replays packets of a failed script for their traces and the headers of the packets that left.

use super::decode::Layout;
use super::runner::{Device, play};
use super::script::Statement;
use p4jet_control::Control;
use p4jet_dataplane::{EngineKind, Processed, Switch, Worker};
use p4jet_ir::Program;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Creates the switch of a script again, in its state before the script.
pub type Fresh<'a> = &'a dyn Fn() -> Result<Control, String>;

/// The replay of a packet.
pub(super) struct Replayed {
    /// Its steps.
    pub trace: String,
    /// Its outcome.
    pub processed: Processed,
    /// The layouts of the packets that left, in the same order.
    pub layouts: Vec<Layout>,
}

/// The replayed packets, and the switch that processed them.
pub(super) struct Replay {
    switch: Arc<Switch>,
    /// By the position of the packet in the script.
    pub packets: BTreeMap<usize, Replayed>,
}

impl Replay {
    /// Replays the script on a fresh switch in the interpreter, and traces the packets `wanted`, by their
    /// positions among the packets of the script: each trace has the tables and registers of that moment.
    pub(super) fn new(script: &[Statement], wanted: &[usize], fresh: Fresh<'_>) -> Result<Replay, String> {
        let control = fresh()?;
        let switch = Arc::clone(control.switch());
        let mut worker = switch.worker(EngineKind::Interp, 0)?;
        // Traces use time 0; time must not decrease between packets.
        worker.set_time(Some(0));
        let mut tracer = Tracer { switch, worker, wanted, count: 0, packets: BTreeMap::new() };
        play(script, &control, &mut tracer);
        Ok(Replay { switch: tracer.switch, packets: tracer.packets })
    }

    /// The program that processed the packets.
    pub(super) fn program(&self) -> &Program {
        self.switch.program()
    }

    /// The headers of an arriving frame. This changes registers, so the switch of the replay cannot be used afterwards.
    pub(super) fn arriving(&self, port: u32, frame: &[u8]) -> Option<Layout> {
        let (trace, _) = self.switch.trace(port, frame).ok()?;
        Layout::of_arriving(self.program(), &trace)
    }
}

struct Tracer<'a> {
    switch: Arc<Switch>,
    worker: Worker,
    wanted: &'a [usize],
    /// Number of packets so far.
    count: usize,
    packets: BTreeMap<usize, Replayed>,
}

impl Device for Tracer<'_> {
    fn process(&mut self, ingress_port: u32, frame: &[u8]) -> Processed {
        let index = self.count;
        self.count += 1;
        if !self.wanted.contains(&index) {
            return self.worker.process_one(ingress_port, frame);
        }
        let (trace, processed) = match self.switch.trace(ingress_port, frame) {
            Ok(traced) => traced,
            // The same program has already given a worker, so this cannot fail.
            Err(why) => return Processed { sent: vec![], dropped: vec![why] },
        };
        let program = self.switch.program();
        let replayed = Replayed {
            trace: trace.render_shortened(program, TRACE_LINES_MAX),
            processed: processed.clone(),
            layouts: Layout::of_sent(program, &trace),
        };
        self.packets.insert(index, replayed);
        processed
    }

    fn wait(&mut self, us: Option<u32>) -> Vec<(u64, Processed)> {
        self.worker.wait(us)
    }
}

/// Maximum number of lines of a trace.
const TRACE_LINES_MAX: usize = 400;
