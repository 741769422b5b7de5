//! Predecessors of blocks, and the arguments that they pass.

use cranelift_codegen::ir::dfg::DataFlowGraph;
use cranelift_codegen::ir::{Block, Function, Inst, Value};
use std::collections::HashMap;

/// A way into a block: an instruction, and which of those that it has.
pub type Caller = (Inst, usize);

/// The ways into each block.
pub fn callers(func: &Function) -> HashMap<Block, Vec<Caller>> {
    let mut callers: HashMap<Block, Vec<Caller>> = HashMap::new();
    let dfg = &func.dfg;
    for inst in func.layout.blocks().flat_map(|block| func.layout.block_insts(block)) {
        let calls = dfg.insts[inst].branch_destination(&dfg.jump_tables, &dfg.exception_tables);
        for (number, call) in calls.iter().enumerate() {
            callers.entry(call.block(&dfg.value_lists)).or_default().push((inst, number));
        }
    }
    callers
}

/// What a caller passes as the block's parameter of that number.
pub fn passed(dfg: &DataFlowGraph, (inst, call): Caller, number: usize) -> Option<Value> {
    let calls = dfg.insts[inst].branch_destination(&dfg.jump_tables, &dfg.exception_tables);
    calls[call].args(&dfg.value_lists).nth(number)?.as_value()
}

/// Takes a parameter of a block away, which has that number, and what its callers pass as such.
pub fn remove_param(dfg: &mut DataFlowGraph, callers: &[Caller], number: usize, param: Value) {
    for &(inst, call) in callers {
        let calls = dfg.insts[inst].branch_destination_mut(&mut dfg.jump_tables, &mut dfg.exception_tables);
        calls[call].remove(number, &mut dfg.value_lists);
    }
    dfg.remove_block_param(param);
}
