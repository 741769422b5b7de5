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
