//! Packets of a script that failed, once more: their traces, and where the headers are in what left.

use super::Statement;
use super::decode::Layout;
use super::run::{Device, run};
use p4jet_control::Control;
use p4jet_dataplane::{EngineKind, Processed, Switch, Worker};
use p4jet_ir::Program;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Makes the switch that a script ran on once more, as it was before the script.
pub type Fresh<'a> = &'a dyn Fn() -> Result<Control, String>;

/// What a packet went through.
pub(super) struct Replayed {
    /// Step by step.
    pub trace: String,
    /// What became of it.
    pub processed: Processed,
    /// Of what left, in the same order.
    pub layouts: Vec<Layout>,
}

/// The packets that were carried out once more, and the switch on which that was done.
pub(super) struct Replay {
    switch: Arc<Switch>,
    /// By the place of the packet in the script.
    pub packets: BTreeMap<usize, Replayed>,
}

impl Replay {
    /// Carries the script out once more, on a fresh switch in the interpreter, and traces the packets `wanted`, by their
    /// places among the packets of the script: so each is traced with the tables and registers that it met.
    pub(super) fn new(script: &[Statement], wanted: &[usize], fresh: Fresh<'_>) -> Result<Replay, String> {
        let control = fresh()?;
        let switch = Arc::clone(control.switch());
        let mut worker = switch.worker(EngineKind::Interp, 0)?;
        // Traces are of time 0; it must not run backwards between packets.
        worker.set_time(Some(0));
        let mut tracer = Tracer { switch, worker, wanted, count: 0, packets: BTreeMap::new() };
        run(script, &control, &mut tracer);
        Ok(Replay { switch: tracer.switch, packets: tracer.packets })
    }

    /// The program that the packets went through.
    pub(super) fn program(&self) -> &Program {
        self.switch.program()
    }

    /// Where a frame that arrives has its headers. The switch of this replay is used up by it: registers change.
    pub(super) fn arriving(&self, port: u32, frame: &[u8]) -> Option<Layout> {
        let (trace, _) = self.switch.trace(port, frame).ok()?;
        Layout::of_arriving(self.program(), &trace)
    }
}

struct Tracer<'a> {
    switch: Arc<Switch>,
    worker: Worker,
    wanted: &'a [usize],
    /// Packets so far.
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
            // The worker could be made of the same program, so this cannot be.
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

    fn wait(&mut self) -> Vec<(u64, Processed)> {
        self.worker.run_queues_out()
    }
}

/// Most lines of a trace.
const TRACE_LINES_MAX: usize = 400;
