//! Values that are loaded once per batch.

use super::{Codegen, fixed, plain};
use crate::runtime::Ctx;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value, types};
use p4jet_ir::TableId;
use p4jet_tables::View;
use std::mem::offset_of;

/// A value outside the packet that nothing changes while a batch runs. Cranelift would keep a load in the loop for
/// every packet, because stores could change the value.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Once {
    /// A word of [`Ctx`], at this offset.
    Ctx(usize),
    /// The target of the pointer at this offset of [`Ctx`]: the PHVs' base, a queue and so on.
    Indirect(usize, i32),
    /// A word of the view of a table, at this offset.
    View(TableId, usize),
    /// The number of the default row of a table, 32 bits.
    Default(TableId),
}

/// Most values of a stage that are loaded once. The register allocator would only spill more.
const ONCE_MAX: usize = 32;

fn load_once<'f>(
    ins: impl InstBuilder<'f>,
    what: Once,
    flags: MemFlagsData,
    base: Value,
    offset: i32,
) -> Value {
    match what {
        Once::Default(_) => ins.uload32(flags, base, offset),
        _ => ins.load(types::I64, flags, base, offset),
    }
}

impl Codegen<'_, '_> {
    /// A value that is loaded once per batch. Cold code reloads it, starting from the context, so that no register holds it.
    pub(super) fn once(&mut self, what: Once) -> Value {
        if let Some(&value) = self.once.values.get(&what).filter(|_| !self.once.in_cold) {
            return value;
        }
        let (base, offset) = match what {
            Once::Ctx(offset) => (self.current.ctx, offset as i32),
            Once::Indirect(ctx, offset) => (self.once(Once::Ctx(ctx)), offset),
            Once::View(table, offset) => (self.view(table), offset as i32),
            Once::Default(table) => (self.view(table), offset_of!(View, default_row) as i32),
        };
        if self.once.in_cold {
            return load_once(self.b.ins(), what, plain(), base, offset);
        }
        if self.once.values.len() >= ONCE_MAX {
            return load_once(self.b.ins(), what, fixed(), base, offset);
        }
        let mut at_entry = FuncCursor::new(self.b.func).at_last_inst(self.once.entry);
        let value = load_once(at_entry.ins(), what, plain(), base, offset);
        self.once.values.insert(what, value);
        value
    }

    /// Emits cold code: see [`Self::once`].
    pub(super) fn in_cold<T>(&mut self, emit: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.once.in_cold, true);
        let result = emit(self);
        self.once.in_cold = before;
        result
    }

    pub(super) fn view(&mut self, table: TableId) -> Value {
        self.once(Once::Indirect(offset_of!(Ctx, views), 8 * table.0 as i32))
    }

    pub(super) fn view_word(&mut self, table: TableId, offset: usize) -> Value {
        self.once(Once::View(table, offset))
    }
}
