//! Lookups in tables.

use super::once::Once;
use super::values::Limbs;
use super::{Buffer, Codegen, Error, plain};
use crate::graph::Place;
use crate::memo_cells;
use crate::plan::Prefetch;
use crate::runtime::Ctx;
use crate::widths::limb_count;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, Value, types};
use p4jet_ir::{Expr, TableId};
use p4jet_tables::{Structure, View};
use std::mem::offset_of;

impl<'a> Codegen<'a, '_> {
    pub(super) fn pack_key(&mut self, table: TableId, keys: &[Expr]) -> Result<Limbs, Error> {
        let widths: Vec<u32> = self.program().tables[table.index()].keys.iter().map(|k| k.width).collect();
        let mut out = vec![None; limb_count(widths.iter().sum())];
        let mut at = 0;
        for (expr, width) in keys.iter().zip(widths) {
            let limbs = self.expr(expr)?;
            self.place_limbs(&mut out, &limbs, width, at);
            at += width;
        }
        Ok(self.filled(out))
    }

    /// Looks for a tag in a bucket of [`Structure::Quotient`]: goes to `found` with the difference to the word that has it, or
    /// to `done` with 0 if the search ends there; otherwise continues in a cold block.
    pub(super) fn look_into_bucket(&mut self, at: Value, tag: Value, step: Value, found: Block, done: Block) {
        // Compares all four words at once, because the matching one is hard to predict. A word with the key has the least difference.
        let [first, second, third, last] = [0, 8, 16, 24].map(|offset| {
            let at = if offset == 0 { at } else { self.b.ins().iadd_imm_u(at, offset) };
            let word = self.b.ins().atomic_load(types::I64, plain(), at);
            self.b.ins().bxor(word, tag)
        });
        let nearest = self.b.ins().umin(first, second);
        let of_others = self.b.ins().umin(third, last);
        let nearest = self.b.ins().umin(nearest, of_others);
        let is_one = self.b.ins().icmp(IntCC::UnsignedLessThan, nearest, step);
        let (other, next) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(is_one, found, &[BlockArg::Value(nearest)], other, &[]);
        self.b.switch_to_block(other);
        let none = self.iconst(0);
        let ends = self.b.ins().icmp(IntCC::Equal, last, tag);
        self.b.ins().brif(ends, done, &[BlockArg::Value(none)], next, &[]);
        self.b.switch_to_block(next);
        self.b.set_cold_block(next);
    }

    /// The slot number where the probe for a key begins.
    pub(super) fn hash(&mut self, table: TableId, key: &[Value]) -> Value {
        let seed = self.view_word(table, offset_of!(View, seed));
        let shift = self.view_word(table, offset_of!(View, shift));
        let mut h = self.b.ins().imul(key[0], seed);
        for &limb in &key[1..] {
            let turned = self.b.ins().rotl_imm_u(h, 32);
            let mixed = self.b.ins().bxor(turned, limb);
            h = self.b.ins().imul(mixed, seed);
        }
        self.b.ins().ushr(h, shift)
    }

    /// The address of the bucket where the search for a key begins, and the value to compare with its words.
    pub(super) fn quotient_home(&mut self, table: TableId, key: Value) -> (Value, Value) {
        let seed = self.view_word(table, offset_of!(View, seed));
        let product = self.b.ins().imul(key, seed);
        let buckets = self.view_word(table, offset_of!(View, buckets));
        let index = self.b.ins().umulhi(product, buckets);
        let base = self.view_word(table, offset_of!(View, base));
        let at = self.b.ins().ishl_imm_u(index, 5);
        let at = self.b.ins().iadd(base, at);
        let shift = self.view_word(table, offset_of!(View, shift));
        let remainder = self.b.ins().ishl(product, shift);
        let step = self.view_word(table, offset_of!(View, step));
        (at, self.b.ins().iadd(remainder, step))
    }

    pub(super) fn lpm_key(&mut self, table: TableId, key: Value) -> Value {
        let width = self.program().tables[table.index()].keys[0].width;
        if width == 32 { key } else { self.b.ins().ishl_imm_u(key, i64::from(32 - width)) }
    }

    /// The address a lookup will touch first.
    pub(super) fn first_address(&mut self, table: TableId, key: &[Value]) -> Value {
        let base = self.view_word(table, offset_of!(View, base));
        match self.plan.shapes.structure(table) {
            Structure::Quotient => self.quotient_home(table, key[0]).0,
            Structure::Hash => {
                let index = self.hash(table, key);
                let at = self.b.ins().imul_imm_u(index, 8 * (key.len() as i64 + 1));
                self.b.ins().iadd(base, at)
            }
            _ => {
                let key = self.lpm_key(table, key[0]);
                let index = self.b.ins().ushr_imm_u(key, 8);
                let at = self.b.ins().ishl_imm_u(index, 2);
                self.b.ins().iadd(base, at)
            }
        }
    }

    /// The row that a lookup finds, or found the last time that the same row led there.
    pub(super) fn lookup_at(&mut self, place: Place, table: TableId, key: &[Value]) -> Value {
        let Some((id, memo)) = self.plan.memos.at(place) else { return self.lookup(table, key) };
        let row = self.get(self.slots().row(memo.row_table))[0];
        let cells = self.once(Once::Indirect(offset_of!(Ctx, memos), 8 * id.as_u32() as i32));
        let age = self.once(Once::Indirect(offset_of!(Ctx, ages), 8 * id.as_u32() as i32));
        let wanted = self.b.ins().bor(row, age);
        let index = self.b.ins().band_imm_u(row, memo_cells::CELLS as i64 - 1);
        let at = self.b.ins().ishl_imm_u(index, 4);
        let at = self.b.ins().iadd(cells, at);
        let known = self.b.create_block();
        let search = self.b.create_block();
        let done = self.b.create_block();
        self.b.set_cold_block(search);
        self.b.append_block_param(done, types::I64);
        let word = self.b.ins().load(types::I64, plain(), at, 0);
        let is_known = self.b.ins().icmp(IntCC::Equal, word, wanted);
        self.b.ins().brif(is_known, known, &[], search, &[]);

        self.b.switch_to_block(known);
        let found = self.b.ins().load(types::I64, plain(), at, 8);
        self.b.ins().jump(done, &[BlockArg::Value(found)]);

        self.b.switch_to_block(search);
        let found = self.in_cold(|cg| cg.lookup(table, key));
        // The action of row 0 may change at any time.
        let nothing = self.iconst(memo_cells::NOTHING);
        let wanted = self.b.ins().select(row, wanted, nothing);
        self.b.ins().store(plain(), wanted, at, 0);
        self.b.ins().store(plain(), found, at, 8);
        self.b.ins().jump(done, &[BlockArg::Value(found)]);

        self.b.switch_to_block(done);
        self.b.block_params(done)[0]
    }

    /// The row of the entry that matches, 0 if none.
    pub(super) fn lookup(&mut self, table: TableId, key: &[Value]) -> Value {
        match self.plan.shapes.structure(table) {
            Structure::Keyless => self.iconst(0),
            Structure::Direct => {
                let base = self.view_word(table, offset_of!(View, base));
                let at = self.b.ins().ishl_imm_u(key[0], 2);
                let at = self.b.ins().iadd(base, at);
                self.load_row(at)
            }
            Structure::Lpm32 => {
                let at = self.first_address(table, key);
                let aux = self.view_word(table, offset_of!(View, aux));
                let key = self.lpm_key(table, key[0]);
                let row = self.load_row(at);
                let long = self.b.create_block();
                let done = self.b.create_block();
                self.b.append_block_param(done, types::I64);
                let bits = self.b.ins().ireduce(types::I32, row);
                let extended = self.b.ins().icmp_imm_s(IntCC::SignedLessThan, bits, 0);
                self.b.ins().brif(extended, long, &[], done, &[BlockArg::Value(row)]);
                self.b.set_cold_block(long);
                self.b.switch_to_block(long);
                let low = self.mask(key, 8);
                let group = self.b.ins().band_imm_u(bits, (1 << 31) - 1);
                let group = self.b.ins().uextend(types::I64, group);
                let index = self.b.ins().ishl_imm_u(group, 8);
                let index = self.b.ins().bor(index, low);
                let at = self.b.ins().ishl_imm_u(index, 2);
                let at = self.b.ins().iadd(aux, at);
                let row = self.load_row(at);
                self.b.ins().jump(done, &[BlockArg::Value(row)]);
                self.b.switch_to_block(done);
                let row = self.b.block_params(done)[0];
                // Loaded last and unconditionally, because a branch on the need would be hard to predict.
                let top = self.b.ins().ushr_imm_u(key, 24);
                let at = self.b.ins().ishl_imm_u(top, 2);
                let at = self.b.ins().iadd(aux, at);
                let short = self.load_row(at);
                self.b.ins().select(row, row, short)
            }
            Structure::Quotient => {
                let (home, tag) = self.quotient_home(table, key[0]);
                let step = self.view_word(table, offset_of!(View, step));
                let found = self.b.create_block();
                let done = self.b.create_block();
                self.b.append_block_param(found, types::I64);
                self.b.append_block_param(done, types::I64);
                // The first bucket is checked outside the loop, so that most lookups skip the setup of the loop.
                self.look_into_bucket(home, tag, step, found, done);
                let again = self.b.create_block();
                self.b.append_block_param(again, types::I64);
                self.b.append_block_param(again, types::I64);
                let at = self.b.ins().iadd_imm_u(home, 32);
                let tag = self.b.ins().iadd(tag, step);
                self.b.ins().jump(again, &[BlockArg::Value(at), BlockArg::Value(tag)]);

                self.b.switch_to_block(again);
                self.b.set_cold_block(again);
                let &[at, tag] = self.b.block_params(again) else { unreachable!("it has two") };
                self.look_into_bucket(at, tag, step, found, done);
                let at = self.b.ins().iadd_imm_u(at, 32);
                let tag = self.b.ins().iadd(tag, step);
                // The distance is the six bits of the tag from `step` on, 1 in the first bucket.
                let bits = self.b.ins().imul_imm_s(step, 63);
                let distance = self.b.ins().band(tag, bits);
                let too_far = self.b.ins().imul_imm_s(step, View::BUCKETS_MAX as i64 + 1);
                let is_too_far = self.b.ins().icmp(IntCC::Equal, distance, too_far);
                let none = self.iconst(0);
                let next = [BlockArg::Value(at), BlockArg::Value(tag)];
                self.b.ins().brif(is_too_far, done, &[BlockArg::Value(none)], again, &next);

                self.b.switch_to_block(found);
                let mask = self.view_word(table, offset_of!(View, mask));
                let nearest = self.b.block_params(found)[0];
                let row = self.b.ins().band(nearest, mask);
                self.b.ins().jump(done, &[BlockArg::Value(row)]);

                self.b.switch_to_block(done);
                self.b.block_params(done)[0]
            }
            Structure::Hash => {
                let base = self.view_word(table, offset_of!(View, base));
                let start = self.hash(table, key);
                let probe = self.b.create_block();
                let compare = self.b.create_block();
                let live = self.b.create_block();
                let step = self.b.create_block();
                let done = self.b.create_block();
                self.b.append_block_param(probe, types::I64);
                self.b.append_block_param(done, types::I64);
                self.b.ins().jump(probe, &[BlockArg::Value(start)]);

                self.b.switch_to_block(probe);
                let index = self.b.block_params(probe)[0];
                let at = self.b.ins().imul_imm_u(index, 8 * (key.len() as i64 + 1));
                let at = self.b.ins().iadd(base, at);
                // The value word before the key: the writer stores them in the opposite order.
                let word = self.b.ins().iadd_imm_u(at, 8 * key.len() as i64);
                let row = self.load_row(word);
                self.b.ins().brif(row, compare, &[], done, &[BlockArg::Value(row)]);

                self.b.switch_to_block(compare);
                let found: Limbs = (0..key.len())
                    .map(|i| self.b.ins().load(types::I64, plain(), at, 8 * i as i32))
                    .collect();
                let equal = self.equal(&found, key);
                self.b.ins().brif(equal, live, &[], step, &[]);

                self.b.switch_to_block(live);
                let bits = self.b.ins().ireduce(types::I32, row);
                let tombstone = self.b.ins().icmp_imm_s(IntCC::Equal, bits, -1);
                self.b.ins().brif(tombstone, step, &[], done, &[BlockArg::Value(row)]);

                self.b.switch_to_block(step);
                self.b.set_cold_block(step);
                let mask = self.view_word(table, offset_of!(View, mask));
                let next = self.b.ins().iadd_imm_u(index, 1);
                let next = self.b.ins().band(next, mask);
                self.b.ins().jump(probe, &[BlockArg::Value(next)]);

                self.b.switch_to_block(done);
                self.b.block_params(done)[0]
            }
            Structure::Generic => {
                let key = self.spill(Buffer::Key, key);
                let view = self.view(table);
                let lookup = self.view_word(table, offset_of!(View, lookup));
                let call = self.b.ins().call_indirect(self.helpers.lookup, lookup, &[view, key]);
                let row = self.b.inst_results(call)[0];
                self.b.ins().uextend(types::I64, row)
            }
        }
    }

    /// Loads a row number that the writer may change at any time; later loads are at least as new.
    pub(super) fn load_row(&mut self, at: Value) -> Value {
        // There every load is ordered, and this one extends as it loads.
        if cfg!(target_arch = "x86_64") {
            return self.b.ins().uload32(plain(), at, 0);
        }
        let row = self.b.ins().atomic_load(types::I32, plain(), at);
        self.b.ins().uextend(types::I64, row)
    }

    /// Prefetches memory for the next stage; `words` are the key, or the row that was found.
    pub(super) fn prefetch(&mut self, memory: Prefetch, words: &[Value]) {
        let Some(prefetch) = self.helpers.prefetch else { return };
        match memory {
            Prefetch::Lookup(table) => {
                let address = self.first_address(table, words);
                self.b.ins().call(prefetch, &[address]);
            }
            Prefetch::Row(table) => {
                let row = self.row_address(table, words[0], self.plan.row_words(table).entry);
                self.b.ins().call(prefetch, &[row]);
                for instance in &self.program().tables[table.index()].direct {
                    let cell = self.counter_cell(*instance, words[0]);
                    self.b.ins().call(prefetch, &[cell]);
                }
            }
        }
    }
}
