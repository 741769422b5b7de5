//! The example of docs/embedding.md, and the promises of that page.

use p4jet_embed::*;

#[path = "../examples/forward.rs"]
mod forward;

const PROGRAM: &str = include_str!("../../../programs/basic_l2/basic_l2.p4");

#[test]
fn the_example_forwards_a_packet() {
    // The example names its program from the root of the repository.
    std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).unwrap();
    forward::main().unwrap();
}

#[test]
fn the_page_shows_the_example() {
    let page = include_str!("../../../docs/embedding.md");
    let program = include_str!("../examples/forward.rs");
    let program = program.split_once("\n\n").unwrap().1.trim_end().replace("pub fn main", "fn main");
    assert!(page.contains(&program), "docs/embedding.md does not have the text of examples/forward.rs");
}

#[test]
fn refused_programs_are_diagnostics() {
    let error = p4jet_embed::switch("x.p4", "control c() { apply { nonsense(); } }").err().unwrap();
    assert!(&*error.code == "PROGRAM_REFUSED" && error.message.contains("x.p4:1:"), "{error}");
    let error = p4jet_embed::switch("x.p4", "").err().unwrap();
    assert!(&*error.code == "PROGRAM_REFUSED" && error.message.contains("main"), "{error}");
}

#[test]
fn programs_see_the_macro_of_the_target() {
    p4jet_embed::switch("x.p4", &format!("#ifndef __TARGET_BMV2__\n#error no target\n#endif\n{PROGRAM}"))
        .unwrap();
}

#[test]
fn refused_updates_carry_their_place_and_the_choices() {
    let switch = p4jet_embed::switch("basic_l2.p4", PROGRAM).unwrap();
    let control = Control::new(switch);
    let error = control.schema().table("foward").unwrap_err();
    assert_eq!((&*error.code, error.field.as_deref()), ("UNKNOWN_NAME", Some("table")));
    assert!(error.choices.iter().any(|choice| choice.ends_with("forward")), "{:?}", error.choices);
    let table = control.schema().table("forward").unwrap();
    let set_dest = control.schema().action(table, "set_dest").unwrap();
    let act = Act::Action(Action { action: set_dest, data: vec![BigUint::from(1u32) << 40] });
    let key = vec![KeyMatch::Exact(BigUint::from(1u32))];
    let entry = Update::Insert { table, key, priority: 0, act };
    let error = control.write(vec![entry], Atomicity::AllOrNothing).results.remove(0).unwrap_err();
    assert_eq!(error.subject, Subject::Table);
    assert!(error.entity.as_deref().is_some_and(|entity| entity.ends_with("forward")), "{error:?}");
    assert!(error.field.as_deref().is_some_and(|field| field.starts_with("parameter ")), "{error:?}");
}

/// A host that supports only `stop` and one port, written with exported types alone.
struct Bare;

impl Host for Bare {
    fn prepare(&self, _: &Program<'_>, _: &Cancel) -> Result<Swap, ControlError> {
        Err(ControlError::unsupported("one program"))
    }

    fn prepare_queues(&self) -> Result<Swap, ControlError> {
        Err(ControlError::unsupported("no queues"))
    }

    fn subscribe(&self, _: Topics) -> Result<NoticeSubscription, ControlError> {
        Err(ControlError::unsupported("no messages"))
    }

    fn ports(&self) -> Vec<PortStats> {
        vec![PortStats { port: 7, ..PortStats::default() }]
    }

    fn add_port(&self, _: u32, _: &str, _: &Rights) -> Result<(), ControlError> {
        Err(ControlError::unsupported("fixed ports"))
    }

    fn remove_port(&self, _: u32) -> Result<(), ControlError> {
        Err(ControlError::unsupported("fixed ports"))
    }

    fn stop(&self) {}
}

#[test]
fn a_host_can_be_implemented() {
    let control = Control::new(p4jet_embed::switch("basic_l2.p4", PROGRAM).unwrap());
    let unsupported = |code: &ControlError| assert_eq!(&*code.code, "UNSUPPORTED");
    let alone = SharedControl::new(control.clone(), None);
    unsupported(&alone.ports().unwrap_err());
    unsupported(&alone.subscribe(Topics::default()).err().unwrap());
    unsupported(&alone.host().err().unwrap());
    unsupported(&alone.load_program(&Program::Whole(&Source::default()), &Cancel::default()).unwrap_err());
    let shared = SharedControl::new(control, Some(std::sync::Arc::new(Bare)));
    assert_eq!(shared.ports().unwrap()[0].port, 7);
    unsupported(&shared.subscribe(Topics::default()).err().unwrap());
    unsupported(&shared.host().unwrap().stats().unwrap_err());
}

#[test]
fn workers_run_on_threads_of_their_own() {
    let switch = p4jet_embed::switch_with_workers("basic_l2.p4", PROGRAM, 2).unwrap();
    for engine in [EngineKind::Jit, EngineKind::Interp] {
        let first = p4jet_embed::worker(&switch, engine, 0).unwrap();
        let error = p4jet_embed::worker(&switch, engine, 0).err().unwrap();
        assert_eq!((&*error.message, error.field.as_deref()), ("worker 0: it runs already", Some("index")));
        let error = p4jet_embed::worker(&switch, engine, 2).err().unwrap();
        assert!(error.message.contains("workers 0 to 1"), "{error}");
        let second = p4jet_embed::worker(&switch, engine, 1).unwrap();
        let threads = [first, second].map(|mut worker| {
            std::thread::spawn(move || {
                let long = worker.process_one(1, &[0; 65_536]);
                (worker.process_one(1, &[0; 60]).sent.len(), long.dropped.len())
            })
        });
        // No entry matches.
        assert_eq!(threads.map(|thread| thread.join().unwrap()), [(0, 1); 2]);
    }
    let error = p4jet_embed::switch_with_workers("basic_l2.p4", PROGRAM, 0).err().unwrap();
    assert_eq!((&*error.code, error.field.as_deref()), ("INVALID_ARGUMENT", Some("workers")));
}
