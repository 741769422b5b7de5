//! Replaces a block parameter that has the same value on every entry by that value. Cranelift does not do this where
//! the value is itself a parameter, such as the current packet.

use crate::blocks::{Caller, callers, passed, remove_param};
use cranelift_codegen::ir::{Block, Function, Value};

/// How often each value that is passed to a block is looked at, on average: what takes longer to be found is not worth it.
const LOOKS_MAX: usize = 64;

/// Takes such parameters away.
pub fn remove_same_params(func: &mut Function) {
    let blocks: Vec<Block> = func.layout.blocks().collect();
    let callers = callers(func);
    let passed =
        callers.iter().map(|(block, callers)| callers.len() * (1 + func.dfg.num_block_params(*block)));
    let mut left = LOOKS_MAX * passed.sum::<usize>();
    loop {
        let mut changed = false;
        // The first block's are the function's.
        for block in &blocks[1..] {
            let Some(callers) = callers.get(block) else { continue };
            for number in (0..func.dfg.num_block_params(*block)).rev() {
                let param = func.dfg.block_params(*block)[number];
                let (value, looks) = only_value(func, callers, number, param);
                match left.checked_sub(looks) {
                    Some(rest) => left = rest,
                    None => return,
                }
                let Some(value) = value else { continue };
                let dfg = &mut func.dfg;
                remove_param(dfg, callers, number, param);
                dfg.change_to_alias(param, value);
                changed = true;
            }
        }
        if !changed {
            return;
        }
    }
}

/// The value that all callers of a block pass as this parameter, leaving out those that pass the parameter itself on; and
/// how many callers were looked at.
fn only_value(func: &Function, callers: &[Caller], number: usize, param: Value) -> (Option<Value>, usize) {
    let dfg = &func.dfg;
    let mut only = None;
    for (looked, &caller) in callers.iter().enumerate() {
        let Some(value) = passed(dfg, caller, number) else { return (None, looked + 1) };
        let value = dfg.resolve_aliases(value);
        if value != param && *only.get_or_insert(value) != value {
            return (None, looked + 1);
        }
    }
    (only, callers.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cranelift_codegen::cursor::{Cursor, FuncCursor};
    use cranelift_codegen::ir::{BlockArg, InstBuilder, types};

    #[test]
    fn what_a_loop_passes_round_stays_and_what_it_passes_on_goes() {
        let mut func = Function::new();
        let [entry, head, one, other, both] = std::array::from_fn(|_| func.dfg.make_block());
        let first = func.dfg.append_block_param(entry, types::I64);
        let now = func.dfg.append_block_param(head, types::I64);
        let met = func.dfg.append_block_param(both, types::I64);
        let mut cursor = FuncCursor::new(&mut func);
        cursor.insert_block(entry);
        cursor.ins().jump(head, &[BlockArg::Value(first)]);
        cursor.insert_block(head);
        cursor.ins().brif(now, one, &[], other, &[]);
        for block in [one, other] {
            cursor.insert_block(block);
            cursor.ins().jump(both, &[BlockArg::Value(now)]);
        }
        cursor.insert_block(both);
        let next = cursor.ins().iadd(met, met);
        cursor.ins().jump(head, &[BlockArg::Value(next)]);
        remove_same_params(&mut func);
        assert_eq!(func.dfg.num_block_params(head), 1);
        assert_eq!(func.dfg.num_block_params(both), 0);
        assert_eq!(func.dfg.resolve_aliases(met), now);
    }
}
