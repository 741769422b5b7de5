//! Keeps values in memory between a definition and distant uses. The single-pass register allocator spends time on each value at
//! each block between the value's first and last mention, in code order, whether the value is live there or not.

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::dominator_tree::DominatorTree;
use cranelift_codegen::entity::SecondaryMap;
use cranelift_codegen::flowgraph::ControlFlowGraph;
use cranelift_codegen::ir::immediates::Imm64;
use cranelift_codegen::ir::{
    Block, Function, Inst, InstBuilder, InstructionData, Opcode, StackSlotData, StackSlotKind, Value, types,
};
use std::collections::HashMap;

/// A value whose first and last mention are at most this many blocks apart stays in a register.
const NEAR_BLOCKS: u32 = 32;

/// So does a value that at least one block in this many uses.
const BLOCKS_PER_USE: u32 = 8;

/// The blocks that mention a value, by number in code order.
#[derive(Clone, Copy, Default)]
struct Met {
    first: u32,
    last: u32,
    /// The number of blocks that use it.
    blocks: u32,
}

impl Met {
    fn is_far(self) -> bool {
        let between = self.last - self.first;
        between > NEAR_BLOCKS && between / BLOCKS_PER_USE > self.blocks
    }
}

/// Stores such values at their definitions, and loads them in each other block that uses them.
pub fn spill_long_ranges(func: &mut Function) {
    let cfg = ControlFlowGraph::with_function(func);
    let order: Vec<Block> = DominatorTree::with_function(func, &cfg).cfg_rpo().copied().collect();
    let met = find(func, &order);
    // The stack offset of each value. Constants need none: each block that uses one defines it again.
    let mut offsets: SecondaryMap<Value, Option<i32>> = SecondaryMap::new();
    let mut bytes = 0;
    let far: Vec<Value> = met.keys().filter(|value| met[*value].is_far()).collect();
    if far.is_empty() {
        return;
    }
    for value in far {
        offsets[value] = Some(bytes);
        if constant(func, value).is_none() {
            bytes += func.dfg.value_type(value).bytes().next_multiple_of(8) as i32;
        }
    }
    let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes as u32, 4);
    let slot = func.create_sized_stack_slot(slot);
    let mut loaded: HashMap<Value, Value> = HashMap::new();
    for (number, &block) in order.iter().enumerate() {
        loaded.clear();
        let insts: Vec<Inst> = func.layout.block_insts(block).collect();
        for &value in &func.dfg.block_params(block).to_vec() {
            if let Some(offset) = offsets[value] {
                FuncCursor::new(func).at_first_insertion_point(block).ins().stack_store(
                    types::I64,
                    value,
                    slot,
                    offset,
                );
            }
        }
        for inst in insts {
            let mut far: Vec<Value> = Vec::new();
            for value in func.dfg.inst_values(inst) {
                let value = func.dfg.resolve_aliases(value);
                if offsets[value].is_some()
                    && met[value].first != number as u32
                    && !loaded.contains_key(&value)
                {
                    far.push(value);
                }
            }
            for value in far {
                let (ty, offset) = (func.dfg.value_type(value), offsets[value].unwrap_or_default());
                let here = match constant(func, value) {
                    Some(constant) => FuncCursor::new(func).at_inst(inst).ins().iconst(ty, constant),
                    None => {
                        FuncCursor::new(func).at_inst(inst).ins().stack_load(types::I64, ty, slot, offset)
                    }
                };
                loaded.insert(value, here);
            }
            if !loaded.is_empty() {
                let aliases: HashMap<Value, Value> = func
                    .dfg
                    .inst_values(inst)
                    .map(|value| (value, func.dfg.resolve_aliases(value)))
                    .collect();
                func.dfg.map_inst_values(inst, |value| {
                    let value = aliases.get(&value).copied().unwrap_or(value);
                    loaded.get(&value).copied().unwrap_or(value)
                });
            }
            for &value in &func.dfg.inst_results(inst).to_vec() {
                if let Some(offset) = offsets[value]
                    && constant(func, value).is_none()
                {
                    FuncCursor::new(func).after_inst(inst).ins().stack_store(types::I64, value, slot, offset);
                }
            }
        }
    }
}

/// The blocks in which the function mentions each value.
fn find(func: &Function, order: &[Block]) -> SecondaryMap<Value, Met> {
    let dfg = &func.dfg;
    let mut met: SecondaryMap<Value, Met> = SecondaryMap::with_capacity(dfg.num_values());
    for (number, &block) in order.iter().enumerate() {
        let here = Met { first: number as u32, last: number as u32, blocks: 0 };
        dfg.block_params(block).iter().for_each(|&value| met[value] = here);
        for inst in func.layout.block_insts(block) {
            dfg.inst_results(inst).iter().for_each(|&value| met[value] = here);
        }
    }
    for (number, &block) in order.iter().enumerate() {
        for value in func.layout.block_insts(block).flat_map(|inst| dfg.inst_values(inst)) {
            let met = &mut met[dfg.resolve_aliases(value)];
            if met.last < number as u32 {
                met.last = number as u32;
                met.blocks += 1;
            }
        }
    }
    met
}

/// The constant that defines a value, if one does. Each block that uses the value repeats the definition.
fn constant(func: &Function, value: Value) -> Option<Imm64> {
    let inst = func.dfg.value_def(value).inst()?;
    match func.dfg.insts[inst] {
        InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } => Some(imm),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chain of blocks. Each block uses the value that the block before defines; the last block also uses the value of the first one.
    fn chain(blocks: usize) -> Function {
        let mut func = Function::new();
        let all: Vec<Block> = (0..blocks).map(|_| func.dfg.make_block()).collect();
        let first = func.dfg.append_block_param(all[0], types::I64);
        let mut now = first;
        let mut cursor = FuncCursor::new(&mut func);
        for (i, &block) in all.iter().enumerate() {
            cursor.insert_block(block);
            now = cursor.ins().iadd_imm_s(now, 1);
            match all.get(i + 1) {
                Some(&next) => _ = cursor.ins().jump(next, &[]),
                None => {
                    let sum = cursor.ins().iadd(now, first);
                    cursor.ins().return_(&[sum]);
                }
            }
        }
        func
    }

    #[test]
    fn values_used_far_away_are_stored_and_loaded_once() {
        let count = |func: &Function, opcode| {
            let insts = func.layout.blocks().flat_map(|block| func.layout.block_insts(block));
            insts.filter(|inst| func.dfg.insts[*inst].opcode() == opcode).count()
        };
        for (blocks, expected) in [(NEAR_BLOCKS as usize, 0), (100, 1)] {
            let mut func = chain(blocks);
            spill_long_ranges(&mut func);
            assert_eq!(count(&func, Opcode::Store), expected, "{blocks} blocks");
            assert_eq!(count(&func, Opcode::Load), expected, "{blocks} blocks");
        }
    }
}
