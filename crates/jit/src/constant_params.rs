//! Replaces a block parameter for which every caller passes the same value by that value, also where blocks of a cycle
//! pass the parameter to each other. Cranelift does the same, but its time grows with the square of the number of such blocks.

use crate::blocks::{callers, passed, remove_param};
use cranelift_codegen::entity::SecondaryMap;
use cranelift_codegen::ir::{Block, Function, Value};

/// The known values that are passed for a parameter.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Passed {
    /// No value yet, or the value is no parameter.
    #[default]
    Nothing,
    One(Value),
    Many,
}

/// Removes such parameters.
pub fn remove_constant_params(func: &mut Function) {
    let callers = callers(func);
    let dfg = &func.dfg;
    // The parameters of the first block are those of the function.
    let blocks: Vec<Block> = func.layout.blocks().skip(1).collect();
    let mut is_param: SecondaryMap<Value, bool> = SecondaryMap::new();
    blocks.iter().flat_map(|block| dfg.block_params(*block)).for_each(|&param| is_param[param] = true);
    let mut known: SecondaryMap<Value, Passed> = SecondaryMap::new();
    let mut passed_on: SecondaryMap<Value, Vec<Value>> = SecondaryMap::new();
    let mut work = Vec::new();
    for block in &blocks {
        for (number, &param) in dfg.block_params(*block).iter().enumerate() {
            for &caller in &callers[*block] {
                match passed(dfg, caller, number).map(|value| dfg.resolve_aliases(value)) {
                    Some(value) if is_param[value] => passed_on[value].push(param),
                    Some(value) => join(&mut known, &mut work, param, Passed::One(value)),
                    None => join(&mut known, &mut work, param, Passed::Many),
                }
            }
        }
    }
    while let Some(param) = work.pop() {
        let now = known[param];
        for &to in &passed_on[param] {
            join(&mut known, &mut work, to, now);
        }
    }
    for block in blocks {
        let params: Vec<(usize, Value)> = func.dfg.block_params(block).iter().copied().enumerate().collect();
        for (number, param) in params.into_iter().rev() {
            if let Passed::One(value) = known[param] {
                remove_param(&mut func.dfg, &callers[block], number, param);
                func.dfg.change_to_alias(param, value);
            }
        }
    }
}

fn join(known: &mut SecondaryMap<Value, Passed>, work: &mut Vec<Value>, param: Value, other: Passed) {
    let joined = match (known[param], other) {
        (Passed::Nothing, other) => other,
        (before, Passed::Nothing) => before,
        (Passed::One(a), Passed::One(b)) if a == b => Passed::One(a),
        _ => Passed::Many,
    };
    if known[param] != joined {
        known[param] = joined;
        work.push(param);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cranelift_codegen::cursor::{Cursor, FuncCursor};
    use cranelift_codegen::ir::{BlockArg, InstBuilder, types};

    #[test]
    fn values_passed_in_a_circle_are_removed() {
        let mut func = Function::new();
        let [entry, one, other, done] = std::array::from_fn(|_| func.dfg.make_block());
        let first = func.dfg.append_block_param(entry, types::I64);
        let params = [one, other].map(|block| func.dfg.append_block_param(block, types::I64));
        let different = func.dfg.append_block_param(done, types::I64);
        let mut cursor = FuncCursor::new(&mut func);
        cursor.insert_block(entry);
        let arg = BlockArg::Value(first);
        cursor.ins().brif(first, one, &[arg], other, &[arg]);
        for (block, param, next) in [(one, params[0], other), (other, params[1], one)] {
            cursor.insert_block(block);
            let sum = cursor.ins().iadd(param, first);
            cursor.ins().brif(sum, next, &[BlockArg::Value(param)], done, &[BlockArg::Value(sum)]);
        }
        cursor.insert_block(done);
        cursor.ins().return_(&[different]);
        remove_constant_params(&mut func);
        assert_eq!([one, other, done].map(|block| func.dfg.num_block_params(block)), [0, 0, 1]);
        assert!(params.iter().all(|&param| func.dfg.resolve_aliases(param) == first));
    }
}
