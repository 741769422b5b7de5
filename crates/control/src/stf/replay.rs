//! Traces of packets of a script that failed.

use super::Statement;
use super::run::{Device, run};
use crate::Control;
use p4jet_dataplane::{EngineKind, Processed, Switch, Worker};
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
}

/// Carries the script out once more, on a fresh switch in the interpreter, and traces the packets `wanted`, by their
/// places among the packets of the script: so each is traced with the tables and registers that it met.
pub(super) fn replay(
    script: &[Statement],
    wanted: &[usize],
    fresh: Fresh<'_>,
) -> Result<BTreeMap<usize, Replayed>, String> {
    let mut control = fresh()?;
    let switch = Arc::clone(control.switch());
    let mut worker = switch.worker(EngineKind::Interp)?;
    // Traces are of time 0; it must not run backwards between packets.
    worker.set_time(Some(0));
    let mut tracer = Tracer { switch, worker, wanted, packets: 0, replayed: BTreeMap::new() };
    run(script, &mut control, &mut tracer);
    Ok(tracer.replayed)
}

struct Tracer<'a> {
    switch: Arc<Switch>,
    worker: Worker,
    wanted: &'a [usize],
    /// Packets so far.
    packets: usize,
    replayed: BTreeMap<usize, Replayed>,
}

impl Device for Tracer<'_> {
    fn process(&mut self, ingress_port: u32, frame: &[u8]) -> Processed {
        let index = self.packets;
        self.packets += 1;
        if !self.wanted.contains(&index) {
            return self.worker.process_one(ingress_port, frame);
        }
        let (trace, processed) = match self.switch.trace(ingress_port, frame) {
            Ok((trace, processed)) => (trace.render(self.switch.program()), processed),
            // The worker could be made of the same program, so this cannot be.
            Err(why) => return Processed { sent: vec![], dropped: vec![why] },
        };
        self.replayed.insert(index, Replayed { trace, processed: processed.clone() });
        processed
    }
}
