//! Marks blocks as cold that lead only to cold blocks or are reached only from them. Cranelift moves cold blocks aside,
//! so the blocks of ordinary packets are adjacent.

use crate::blocks::callers;
use cranelift_codegen::entity::SecondaryMap;
use cranelift_codegen::ir::{Block, Function};

/// Marks such blocks.
pub fn spread_cold(func: &mut Function) {
    let blocks: Vec<Block> = func.layout.blocks().collect();
    let Some(&entry) = blocks.first() else { return };
    let mut from: SecondaryMap<Block, Vec<Block>> = SecondaryMap::new();
    let mut to: SecondaryMap<Block, Vec<Block>> = SecondaryMap::new();
    let callers = callers(func);
    for &next in &blocks {
        for block in callers[next].iter().filter_map(|(inst, _)| func.layout.inst_block(*inst)) {
            from[next].push(block);
            to[block].push(next);
        }
    }
    // For each block: how many of those before it, and of those after it, are not cold.
    let mut warm: SecondaryMap<Block, [usize; 2]> = SecondaryMap::new();
    blocks.iter().for_each(|&block| warm[block] = [from[block].len(), to[block].len()]);
    let mut work: Vec<Block> = blocks.iter().copied().filter(|&block| func.layout.is_cold(block)).collect();
    while let Some(block) = work.pop() {
        for (near, side) in [(&to[block], 0), (&from[block], 1)] {
            for &near in near {
                let left = &mut warm[near][side];
                *left -= 1;
                if *left == 0 && near != entry && !func.layout.is_cold(near) {
                    func.layout.set_cold(near);
                    work.push(near);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cranelift_codegen::cursor::{Cursor, FuncCursor};
    use cranelift_codegen::ir::{InstBuilder, types};

    #[test]
    fn blocks_only_before_or_after_cold_blocks_are_cold() {
        let mut func = Function::new();
        let blocks: [Block; 6] = std::array::from_fn(|_| func.dfg.make_block());
        let [entry, to_cold, warm, cold, from_cold, last] = blocks;
        let value = func.dfg.append_block_param(entry, types::I64);
        let mut cursor = FuncCursor::new(&mut func);
        cursor.insert_block(entry);
        cursor.ins().brif(value, to_cold, &[], warm, &[]);
        for (block, next) in [(to_cold, cold), (warm, last), (cold, from_cold), (from_cold, last)] {
            cursor.insert_block(block);
            cursor.ins().jump(next, &[]);
        }
        cursor.insert_block(last);
        cursor.ins().return_(&[]);
        func.layout.set_cold(cold);
        spread_cold(&mut func);
        assert_eq!(blocks.map(|block| func.layout.is_cold(block)), [false, true, false, true, true, false]);
    }
}
