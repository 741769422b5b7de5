//! A parameter of a block that is the same value wherever the block is entered from is that value. Cranelift does not see it
//! where the value itself is a parameter, as the packet whose turn it is.

use cranelift_codegen::ir::{Block, Function, Inst, Value};
use std::collections::HashMap;

/// Takes such parameters away.
pub fn remove_same_params(func: &mut Function) {
    let blocks: Vec<Block> = func.layout.blocks().collect();
    let mut callers: HashMap<Block, Vec<(Inst, usize)>> = HashMap::new();
    for inst in blocks.iter().flat_map(|&block| func.layout.block_insts(block)) {
        let dfg = &func.dfg;
        let calls = dfg.insts[inst].branch_destination(&dfg.jump_tables, &dfg.exception_tables);
        for (number, call) in calls.iter().enumerate() {
            callers.entry(call.block(&dfg.value_lists)).or_default().push((inst, number));
        }
    }
    loop {
        let mut changed = false;
        // The first block's are the function's.
        for block in &blocks[1..] {
            let Some(callers) = callers.get(block) else { continue };
            for number in (0..func.dfg.num_block_params(*block)).rev() {
                let param = func.dfg.block_params(*block)[number];
                let Some(value) = only_value(func, callers, number, param) else { continue };
                let dfg = &mut func.dfg;
                for &(inst, call) in callers {
                    let calls = dfg.insts[inst]
                        .branch_destination_mut(&mut dfg.jump_tables, &mut dfg.exception_tables);
                    calls[call].remove(number, &mut dfg.value_lists);
                }
                dfg.remove_block_param(param);
                dfg.change_to_alias(param, value);
                changed = true;
            }
        }
        if !changed {
            return;
        }
    }
}

/// The value that all callers of a block pass as this parameter, leaving out those that pass the parameter itself on.
fn only_value(func: &Function, callers: &[(Inst, usize)], number: usize, param: Value) -> Option<Value> {
    let dfg = &func.dfg;
    let mut only = None;
    for &(inst, call) in callers {
        let calls = dfg.insts[inst].branch_destination(&dfg.jump_tables, &dfg.exception_tables);
        let value = dfg.resolve_aliases(calls[call].args(&dfg.value_lists).nth(number)?.as_value()?);
        if value != param && *only.get_or_insert(value) != value {
            return None;
        }
    }
    only
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
