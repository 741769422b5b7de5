//! Passes block arguments through memory: one store and one load take the register allocator and other passes less time
//! than parameters of many blocks in cycles.

use crate::blocks::destinations;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::entity::SecondaryMap;
use cranelift_codegen::ir::{
    Block, Function, InstBuilder, Opcode, StackSlotData, StackSlotKind, Value, types,
};

/// Stores the arguments of blocks before the jumps and loads them in the blocks. Arguments that a jump table passes are stored after it.
pub fn pass_in_memory(func: &mut Function) {
    let blocks: Vec<Block> = func.layout.blocks().collect();
    // The parameters of the first block are those of the function.
    let of = |func: &Function, block: &Block| func.dfg.block_params(*block).to_vec();
    let mut offsets: SecondaryMap<Value, i32> = SecondaryMap::new();
    let mut bytes = 0;
    for param in blocks[1..].iter().flat_map(|block| of(func, block)) {
        offsets[param] = bytes;
        bytes += func.dfg.value_type(param).bytes().next_multiple_of(8) as i32;
    }
    if bytes == 0 {
        return;
    }
    let slot = func.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, bytes as u32, 4));
    for &block in &blocks {
        let Some(inst) = func.layout.last_inst(block) else { continue };
        let is_table = func.dfg.insts[inst].opcode() == Opcode::BrTable;
        let count = destinations(&func.dfg, inst).len();
        for number in 0..count {
            let call = destinations(&func.dfg, inst)[number];
            let to = call.block(&func.dfg.value_lists);
            let args: Vec<Value> =
                call.args(&func.dfg.value_lists).filter_map(|arg| arg.as_value()).collect();
            if args.is_empty() {
                continue;
            }
            let dfg = &mut func.dfg;
            let calls =
                dfg.insts[inst].branch_destination_mut(&mut dfg.jump_tables, &mut dfg.exception_tables);
            calls[number].clear(&mut dfg.value_lists);
            let before = if is_table {
                let between = dfg.make_block();
                let calls =
                    dfg.insts[inst].branch_destination_mut(&mut dfg.jump_tables, &mut dfg.exception_tables);
                calls[number].set_block(between, &mut dfg.value_lists);
                func.layout.insert_block_after(between, block);
                FuncCursor::new(func).at_bottom(between).ins().jump(to, &[])
            } else {
                inst
            };
            for (param, arg) in of(func, &to).into_iter().zip(args) {
                FuncCursor::new(func).at_inst(before).ins().stack_store(
                    types::I64,
                    arg,
                    slot,
                    offsets[param],
                );
            }
        }
    }
    for &block in &blocks[1..] {
        for param in of(func, &block).into_iter().rev() {
            let ty = func.dfg.value_type(param);
            func.dfg.remove_block_param(param);
            let mut at = FuncCursor::new(func).at_first_insertion_point(block);
            let loaded = at.ins().stack_load(types::I64, ty, slot, offsets[param]);
            func.dfg.change_to_alias(param, loaded);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cranelift_codegen::ir::BlockArg;

    #[test]
    fn a_value_for_one_of_two_blocks_is_stored_before_the_branch() {
        let mut func = Function::new();
        let [entry, one, other] = std::array::from_fn(|_| func.dfg.make_block());
        let first = func.dfg.append_block_param(entry, types::I64);
        let got = func.dfg.append_block_param(one, types::I64);
        let mut cursor = FuncCursor::new(&mut func);
        cursor.insert_block(entry);
        cursor.ins().brif(first, one, &[BlockArg::Value(first)], other, &[]);
        cursor.insert_block(one);
        let sum = cursor.ins().iadd(got, first);
        cursor.ins().brif(sum, one, &[BlockArg::Value(sum)], other, &[]);
        cursor.insert_block(other);
        cursor.ins().return_(&[]);
        pass_in_memory(&mut func);
        let opcodes = |block| -> Vec<Opcode> {
            func.layout.block_insts(block).map(|inst| func.dfg.insts[inst].opcode()).collect()
        };
        assert!(opcodes(entry).contains(&Opcode::Store) && opcodes(one).contains(&Opcode::Store));
        assert!(opcodes(one).contains(&Opcode::Load) && !opcodes(other).contains(&Opcode::Load));
        assert_eq!([one, other].map(|block| func.dfg.num_block_params(block)), [0, 0]);
    }
}
