//! Traces of packets, by the interpreter.

use crate::copies::{Carrier, Processed, Step, TOO_MANY_COPIES, copied, join, run_out, run_queued};
use crate::queues::{Queues, Serving};
use crate::switch::Switch;
use p4jet_externs::Env;
use p4jet_interp::{Arrival, Machine, Outcome, Trace, TraceEvent};
use p4jet_ir as ir;
use std::sync::Arc;

/// Number of packets and copies after which a trace ends, if others still wait in output queues.
const TRACED_OUTCOMES_MAX: usize = 4096;

impl Switch {
    /// Like [`Self::trace`], but at the given time, and without changing state. Returns the trace and the outcome of the packet
    /// itself.
    pub fn trace_dry(
        &self,
        ingress_port: u32,
        frame: &[u8],
        now_us: u64,
    ) -> Result<(Trace, Outcome), String> {
        let mut env = self.state().env(0);
        env.keep_dry();
        let arrival = Arrival { port: ingress_port, frame, now_us };
        let traced = self.trace_with(self.traced_program(), env, &arrival);
        traced.map(|(trace, outcome, _)| (trace, outcome))
    }

    /// Runs one packet and its copies through the interpreter and records each step. The packet arrives at time 0, so
    /// that traces can be compared.
    pub fn trace(&self, ingress_port: u32, frame: &[u8]) -> Result<(Trace, Processed), String> {
        let arrival = Arrival { port: ingress_port, frame, now_us: 0 };
        let (trace, _, processed) = self.trace_with(self.program(), self.state().env(0), &arrival)?;
        Ok((trace, processed))
    }

    /// Traces a packet and its copies. Returns the trace, the packet's own outcome, and the result with all copies.
    fn trace_with(
        &self,
        program: &ir::Program,
        mut env: Env<'_>,
        arrival: &Arrival<'_>,
    ) -> Result<(Trace, Outcome, Processed), String> {
        let machine = Machine::new(program)?;
        let mut trace = Trace::new();
        let first = machine.run(self.tables.as_slice(), &mut env, arrival, Some(&mut trace));
        let outcome = first.outcome.clone();
        let first = copied(program, first);
        let mut tracer = Tracer { switch: self, program, machine, env, trace };
        let processed = match program.is_queued() {
            false => run_out(first, |copy| tracer.run(copy, None, arrival.now_us)),
            true => self.trace_queued(first, arrival.now_us, &mut tracer),
        };
        let mut trace = tracer.trace;
        if let Some(why) = processed.dropped.iter().find(|why| *why == TOO_MANY_COPIES) {
            trace.add(TraceEvent::CopiesDropped { why: why.clone() });
        }
        Ok((trace, outcome, processed))
    }

    /// Runs a packet's copies through private output queues with the switch's configuration.
    fn trace_queued(
        &self,
        first: Step<p4jet_interp::Copied>,
        now_us: u64,
        tracer: &mut Tracer<'_, '_>,
    ) -> Processed {
        let queues = Queues::default();
        queues.configure(|config| *config = self.queues().config());
        let mut serving = Serving::new(Arc::new(queues));
        let mut all = run_queued(&mut serving, Some((0, first)), now_us, tracer);
        while let Some(due) = serving.next_due_ns()
            && all.len() < TRACED_OUTCOMES_MAX
        {
            all.extend(run_queued(&mut serving, None, due.div_ceil(1000), tracer));
        }
        if serving.packets() > 0 {
            tracer.trace.add(TraceEvent::Ends { waiting: serving.packets() });
        }
        join(all.into_iter().map(|(_, processed)| processed))
    }
}

/// Runs copies in the interpreter and records their steps.
struct Tracer<'s, 'e> {
    switch: &'s Switch,
    program: &'s ir::Program,
    machine: Machine<'s>,
    env: Env<'e>,
    trace: Trace,
}

impl Carrier<p4jet_interp::Copied> for Tracer<'_, '_> {
    fn run(
        &mut self,
        mut copy: p4jet_interp::Copied,
        queued: Option<ir::Queued>,
        now_us: u64,
    ) -> Step<p4jet_interp::Copied> {
        copy.queued = queued;
        let (tables, trace) = (self.switch.tables.as_slice(), Some(&mut self.trace));
        copied(self.program, self.machine.run_copy(tables, &mut self.env, copy, now_us, trace))
    }

    fn entered(&mut self, (port, queue): (u32, u32), result: Result<(), &str>) {
        let why = result.err().map(str::to_string);
        self.trace.add(TraceEvent::Enqueued { port, queue, why });
    }
}
