//! Removes instructions and parameters that nothing uses. Cranelift removes pure instructions, but keeps every load and
//! every block parameter.

use crate::blocks::{callers, passed, remove_param};
use cranelift_codegen::entity::EntitySet;
use cranelift_codegen::ir::{Block, Function, Inst, InstructionData, Value, ValueDef};

/// Removes instructions and block parameters without effect whose results are unused.
pub fn remove_unused(func: &mut Function) {
    let blocks: Vec<Block> = func.layout.blocks().collect();
    let insts: Vec<Inst> = blocks.iter().flat_map(|&block| func.layout.block_insts(block)).collect();
    let callers = callers(func);
    let dfg = &func.dfg;
    let mut needed: EntitySet<Value> = EntitySet::with_capacity(dfg.num_values());
    let mut kept: EntitySet<Inst> = EntitySet::with_capacity(dfg.num_insts());
    let mut work: Vec<Value> = Vec::new();
    for &inst in insts.iter().filter(|&&inst| has_effect(func, inst)) {
        kept.insert(inst);
        work.extend(dfg.inst_args(inst));
    }
    while let Some(value) = work.pop() {
        let value = dfg.resolve_aliases(value);
        if !needed.insert(value) {
            continue;
        }
        match dfg.value_def(value) {
            ValueDef::Result(inst, _) => {
                if kept.insert(inst) {
                    work.extend(dfg.inst_args(inst));
                }
            }
            ValueDef::Param(block, number) => {
                let callers = callers[block].iter();
                work.extend(callers.filter_map(|&caller| passed(dfg, caller, number)));
            }
            ValueDef::Union(..) => {}
        }
    }
    for inst in insts.into_iter().filter(|&inst| !kept.contains(inst)) {
        func.layout.remove_inst(inst);
    }
    let dfg = &mut func.dfg;
    // The parameters of the first block are those of the function.
    for &block in &blocks[1..] {
        let params: Vec<(usize, Value)> = dfg.block_params(block).iter().copied().enumerate().collect();
        for (number, param) in params.into_iter().rev().filter(|&(_, param)| !needed.contains(param)) {
            remove_param(dfg, &callers[block], number, param);
        }
    }
}

/// True if an instruction has an effect besides its result.
fn has_effect(func: &Function, inst: Inst) -> bool {
    let data = &func.dfg.insts[inst];
    let opcode = data.opcode();
    let may_trap = match data {
        InstructionData::Load { .. } | InstructionData::LoadNoOffset { .. } => {
            data.memflags_data(&func.dfg).is_none_or(|flags| !flags.notrap())
        }
        _ => opcode.can_load() || opcode.can_trap(),
    };
    may_trap
        || opcode.is_call()
        || opcode.is_terminator()
        || opcode.can_store()
        || opcode.other_side_effects()
}
