//! The example of docs/embedding.md: a switch with one entry forwards a packet.

use p4jet_embed::*;

/// Forwards a packet by an entry.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = "programs/basic_l2/basic_l2.p4";
    let switch = p4jet_embed::switch(path, &std::fs::read_to_string(path)?)?;
    let control = Control::new(switch.clone());

    let table = control.schema().table("forward")?;
    let set_dest = control.schema().action(table, "set_dest")?;
    let act = Act::Action(Action { action: set_dest, data: vec![BigUint::from(2u32)] });
    let key = vec![KeyMatch::Exact(BigUint::from(0x0200_0000_0002u64))];
    let entry = Update::Insert { table, key, priority: 0, act };
    control.write(vec![entry], Atomicity::AllOrNothing).results.remove(0)?;

    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.resize(60, 0);
    let processed = p4jet_embed::worker(&switch, EngineKind::Jit, 0)?.process_one(1, &frame);
    assert_eq!(processed.sent, [(2, frame)]);
    Ok(())
}
