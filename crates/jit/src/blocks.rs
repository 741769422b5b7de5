//! Predecessors of blocks, and the arguments that they pass.

use cranelift_codegen::entity::SecondaryMap;
use cranelift_codegen::ir::dfg::DataFlowGraph;
use cranelift_codegen::ir::{Block, BlockCall, Function, Inst, Value};

/// An edge into a block: an instruction, and the number of the edge among those of the instruction.
pub type Caller = (Inst, usize);

/// The edges into each block.
pub fn callers(func: &Function) -> SecondaryMap<Block, Vec<Caller>> {
    let mut callers: SecondaryMap<Block, Vec<Caller>> = SecondaryMap::new();
    let dfg = &func.dfg;
    for inst in func.layout.blocks().flat_map(|block| func.layout.block_insts(block)) {
        for (number, call) in destinations(dfg, inst).iter().enumerate() {
            callers[call.block(&dfg.value_lists)].push((inst, number));
        }
    }
    callers
}

/// The blocks to which an instruction leads.
pub fn destinations(dfg: &DataFlowGraph, inst: Inst) -> &[BlockCall] {
    dfg.insts[inst].branch_destination(&dfg.jump_tables, &dfg.exception_tables)
}

/// The argument that a caller passes for the block's parameter with this number.
pub fn passed(dfg: &DataFlowGraph, (inst, call): Caller, number: usize) -> Option<Value> {
    destinations(dfg, inst)[call].args(&dfg.value_lists).nth(number)?.as_value()
}

/// Removes the parameter of a block with this number, and the arguments that callers pass for it.
pub fn remove_param(dfg: &mut DataFlowGraph, callers: &[Caller], number: usize, param: Value) {
    for &(inst, call) in callers {
        let calls = dfg.insts[inst].branch_destination_mut(&mut dfg.jump_tables, &mut dfg.exception_tables);
        calls[call].remove(number, &mut dfg.value_lists);
    }
    dfg.remove_block_param(param);
}
