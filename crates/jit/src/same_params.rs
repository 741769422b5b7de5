//! Replaces a block parameter that has the same value on every entry by that value. Cranelift does not do this where
//! the value is itself a parameter, such as the current packet.

use crate::blocks::{Caller, callers, passed, remove_param};
use cranelift_codegen::entity::SecondaryMap;
use cranelift_codegen::ir::{Block, Function, Value, ValueDef};
use cranelift_codegen::packed_option::PackedOption;
use std::collections::{BTreeMap, HashMap};

/// The average number of visits of each block argument. Finding more is not worth the time.
const LOOKS_MAX: usize = 16;

/// A parameter of a block: the block's place in the order of blocks, and its number.
type Param = (usize, usize);

/// Removes such parameters.
pub fn remove_same_params(func: &mut Function) {
    let blocks: Vec<Block> = func.layout.blocks().collect();
    let callers = callers(func);
    let mut search = Search::new(func, &blocks, &callers);
    search.run();
    let Search { same, found, .. } = search;
    // From the last parameter of each block on, so that the numbers of those before do not change.
    for ((block, number), param) in found.into_iter().rev() {
        let callers = &callers[blocks[block]];
        remove_param(&mut func.dfg, callers, number, param);
        func.dfg.change_to_alias(param, same.at(param));
    }
}

/// The results so far.
struct Search<'f> {
    func: &'f Function,
    blocks: &'f [Block],
    callers: &'f SecondaryMap<Block, Vec<Caller>>,
    same: Same,
    /// For each value, the parameters for which blocks pass it, also under equal names.
    passed_on: HashMap<Value, Vec<Param>>,
    found: BTreeMap<Param, Value>,
    work: Vec<Param>,
    /// The number of values that may still be visited.
    left: usize,
}

/// The value that replaces each parameter. A later step may have replaced that value, too.
struct Same(SecondaryMap<Value, PackedOption<Value>>);

impl Same {
    /// The value to which a chain of replacements leads.
    fn at(&self, mut value: Value) -> Value {
        while let Some(next) = self.0[value].expand() {
            value = next;
        }
        value
    }

    /// Like [`Self::at`], and shortens the chain.
    fn find(&mut self, value: Value) -> Value {
        let last = self.at(value);
        let mut now = value;
        while let Some(next) = self.0[now].expand() {
            if next != last {
                self.0[now] = last.into();
            }
            now = next;
        }
        last
    }
}

impl<'f> Search<'f> {
    fn new(
        func: &'f Function,
        blocks: &'f [Block],
        callers: &'f SecondaryMap<Block, Vec<Caller>>,
    ) -> Search<'f> {
        let mut passed_on: HashMap<Value, Vec<Param>> = HashMap::new();
        let mut work = Vec::new();
        let mut left = 0;
        // The parameters of the first block are those of the function.
        for (at, block) in blocks.iter().enumerate().skip(1) {
            let callers = &callers[*block];
            for number in 0..func.dfg.num_block_params(*block) {
                work.push((at, number));
                left += LOOKS_MAX * callers.len();
                for value in callers.iter().filter_map(|&caller| passed(&func.dfg, caller, number)) {
                    let value = func.dfg.resolve_aliases(value);
                    if matches!(func.dfg.value_def(value), ValueDef::Param(..)) {
                        passed_on.entry(value).or_default().push((at, number));
                    }
                }
            }
        }
        work.reverse();
        let same = Same(SecondaryMap::new());
        Search { func, blocks, callers, same, passed_on, found: BTreeMap::new(), work, left }
    }

    fn run(&mut self) {
        while let Some((at, number)) = self.work.pop() {
            let block = self.blocks[at];
            let param = self.func.dfg.block_params(block)[number];
            if self.found.contains_key(&(at, number)) {
                continue;
            }
            let callers = self.callers;
            let (value, looks) = self.only_value(&callers[block], number, param);
            match self.left.checked_sub(looks) {
                Some(left) => self.left = left,
                None => return,
            }
            let Some(value) = value else { continue };
            self.found.insert((at, number), param);
            self.same.0[param] = value.into();
            // The other value now takes its place where the parameter was passed on.
            let there = self.passed_on.remove(&param).unwrap_or_default();
            self.left = self.left.saturating_sub(there.len());
            self.work.extend(&there);
            if matches!(self.func.dfg.value_def(value), ValueDef::Param(..)) {
                self.passed_on.entry(value).or_default().extend(there);
            }
        }
    }

    /// The value that all callers of a block pass as this parameter, leaving out those that pass the parameter itself on; and
    /// the number of visited callers.
    fn only_value(&mut self, callers: &[Caller], number: usize, param: Value) -> (Option<Value>, usize) {
        let dfg = &self.func.dfg;
        let mut only = None;
        for (looked, &caller) in callers.iter().enumerate() {
            let Some(value) = passed(dfg, caller, number) else { return (None, looked + 1) };
            let value = self.same.find(dfg.resolve_aliases(value));
            if value != param && *only.get_or_insert(value) != value {
                return (None, looked + 1);
            }
        }
        (only, callers.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cranelift_codegen::cursor::{Cursor, FuncCursor};
    use cranelift_codegen::ir::{BlockArg, InstBuilder, types};

    #[test]
    fn loop_carried_values_stay_and_passed_on_values_go() {
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
