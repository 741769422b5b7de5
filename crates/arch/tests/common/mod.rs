//! From a program's text to the output of the switch, on both engines.

#[path = "../../../externs/tests/common/group.rs"]
pub mod group;

use p4jet_dataplane::{EngineKind, Processed, Switch};
use p4jet_externs::{Replica, Session, State};
use p4jet_ir::Program;
use p4jet_lower::Architecture;
use p4jet_syntax::diagnostic::Diagnostic;

/// Returns the IR of a program as lowering produces it.
pub fn lower(text: &str) -> Program {
    lower_by(text, p4jet_lower::lower)
}

/// Like [`lower`], with output queues.
#[allow(dead_code)]
pub fn lower_queued(text: &str) -> Program {
    lower_by(text, p4jet_lower::lower_queued)
}

type Lower = fn(&p4jet_analysis::typed::Program, &dyn Architecture, &str) -> Result<Program, Vec<Diagnostic>>;

fn lower_by(text: &str, lower: Lower) -> Program {
    let options = p4jet_syntax::Options {
        builtins: p4jet_analysis::BUILTINS.to_vec(),
        ..p4jet_syntax::Options::default()
    };
    let parsed = p4jet_syntax::parse_text("test.p4", text, &options);
    let (typed, diagnostics) = p4jet_analysis::analyse(&parsed.program, parsed.sources);
    let Some(typed) = typed else { panic!("{:?} {diagnostics:?}\n{text}", parsed.diagnostics) };
    let arch = p4jet_arch::detect(&typed).expect("an architecture");
    let program = lower(&typed, arch, "test").unwrap_or_else(|d| panic!("{d:?}\n{text}"));
    p4jet_ir::verify::verify(&program).unwrap_or_else(|e| panic!("{e:?}"));
    program
}

/// Checks the result of [`run`] for a program. With unlimited output queues it is the same, in another order.
#[track_caller]
#[allow(dead_code)]
pub fn run_text(text: &str, frame: &[u8]) -> Processed {
    let found = run(&lower(text), frame);
    let sorted = |mut processed: Processed| {
        processed.sent.sort();
        processed.dropped.sort();
        processed
    };
    assert_eq!(
        sorted(run(&lower_queued(text), frame)),
        sorted(found.clone()),
        "with output queues (left) and without"
    );
    found
}

/// Returns the result for a packet received on port 3 at time 0, and for its copies: the same on both engines.
#[track_caller]
pub fn run(program: &Program, frame: &[u8]) -> Processed {
    let mut optimised = program.clone();
    p4jet_ir::passes::run(&mut optimised);
    let by = |program: Program, engine| {
        let switch = Switch::new(program).expect("tables and state");
        set_destinations(switch.state());
        let mut worker = switch.worker(engine, 0).expect("an engine");
        worker.set_time(Some(0));
        worker.process_one(3, frame)
    };
    let found = by(program.clone(), EngineKind::Interp);
    assert_eq!(by(optimised, EngineKind::Jit), found, "the machine code (left) and the interpreter");
    found
}

/// Session 5 copies to port 5 as instance 3 with class of service 4, session 6 to port 6 with at most 5 bytes; group 7 has
/// port 8 (instance 1) and port 9 (instance 2).
fn set_destinations(state: &State) {
    let to = |port, replication_id| Replica { port, replication_id };
    let session = Session { replicas: vec![to(5, 3)], class_of_service: 4, ..Session::default() };
    let short = Session { replicas: vec![to(6, 0)], bytes_max: Some(5), ..Session::default() };
    state.change_destinations(|d| {
        d.sessions.set(5, Some(session.into()));
        d.sessions.set(6, Some(short.into()));
    });
    group::set_group(state, 7, [to(8, 1), to(9, 2)]);
}
