//! The example of docs/embedding.md, and the promises of that page.

use p4jet_embed::*;

const PROGRAM: &str = include_str!("../../../programs/basic_l2/basic_l2.p4");

/// The lines between the two marks are those of docs/embedding.md.
fn example(source: &str, frame: &[u8]) -> Result<Processed, Box<dyn std::error::Error>> {
    // example
    let switch = p4jet_embed::switch("basic_l2.p4", source)?;
    let control = Control::new(switch.clone());
    let table = control.schema().table("forward")?;
    let set_dest = control.schema().action(table, "set_dest")?;
    let act = Act::Action(Action { action: set_dest, data: vec![2u32.into()] });
    let key = vec![KeyMatch::Exact(0x0200_0000_0002u64.into())];
    let entry = Update::Insert { table, key, priority: 0, act };
    control.write(vec![entry], Atomicity::AllOrNothing).results.remove(0)?;
    let mut worker = switch.worker(EngineKind::Jit, 0)?;
    let processed = worker.process_one(1, frame);
    // end of the example
    Ok(processed)
}

fn frame_to(last: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, last, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.resize(60, 0);
    frame
}

#[test]
fn the_example_forwards_a_packet() {
    let known = example(PROGRAM, &frame_to(2)).unwrap();
    assert_eq!(known.sent, [(2, frame_to(2))]);
    let unknown = example(PROGRAM, &frame_to(3)).unwrap();
    assert_eq!((unknown.sent.len(), unknown.dropped.len()), (0, 1));
}

#[test]
fn the_page_shows_the_example() {
    let page = include_str!("../../../docs/embedding.md");
    let lines = include_str!("embed.rs").lines();
    let example: Vec<&str> = lines
        .skip_while(|line| line.trim() != "// example")
        .skip(1)
        .take_while(|line| !line.contains("// end"))
        .collect();
    assert!(example.len() >= 10);
    for line in example {
        assert!(page.contains(line.trim()), "docs/embedding.md lacks `{}`", line.trim());
    }
}

#[test]
fn refusals_are_diagnostics() {
    let error = p4jet_embed::switch("x.p4", "control c() { apply { nonsense(); } }").err().unwrap();
    assert!(error.contains("x.p4:1:"), "{error}");
    let error = p4jet_embed::switch("x.p4", "").err().unwrap();
    assert!(error.contains("main"), "{error}");
}
