//! Slots: the values that belong to one packet, and sets of them.

use cranelift_codegen::entity::{EntityRef, entity_impl};
use p4jet_ir::{Algorithm, Cfg, Expr, FieldId, HeaderId, Op, Program, TableId};

/// A value that belongs to one packet: a field, or one of the machine's own variables ([`SlotKind`]).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(u32);
entity_impl!(Slot, "slot");

/// A checksum that is kept for a later one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SumId(u32);
entity_impl!(SumId, "sum");

/// The kind of value that a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotKind {
    /// A field of the program.
    Field(FieldId),
    /// The packet cursor, in bytes.
    Cursor,
    /// The offset of a header in the frame in bytes, plus one; 0 if the header did not come from the frame.
    Offset(HeaderId),
    /// The row that a lookup in the table found.
    Row(TableId),
    /// A checksum that is kept for a later one.
    Sum(SumId),
}

/// The slots of a program, by number: fields, the cursor, offsets, rows, sums.
#[derive(Clone, Copy, Debug)]
pub struct Slots {
    fields: usize,
    headers: usize,
    tables: usize,
    sums: usize,
}

impl Slots {
    /// Counts the slots of a program, which takes a walk over all of it.
    pub fn of(program: &Program) -> Slots {
        Slots {
            fields: program.fields.len(),
            headers: program.headers.len(),
            tables: program.tables.len(),
            sums: program.blocks.iter().flat_map(|block| sums_in(&block.body)).count(),
        }
    }

    /// The number of slots.
    pub fn count(&self) -> usize {
        self.first_sum() + self.sums
    }

    /// All slots, in order.
    pub fn all(&self) -> impl Iterator<Item = Slot> + use<> {
        (0..self.count()).map(Slot::new)
    }

    /// The slots of all fields.
    pub fn fields(&self) -> impl Iterator<Item = Slot> + use<> {
        (0..self.fields).map(Slot::new)
    }

    /// The slots of the offsets of all headers.
    pub fn offsets(&self) -> impl Iterator<Item = Slot> + use<> {
        let first = self.fields + 1;
        (first..first + self.headers).map(Slot::new)
    }

    /// The slots for sums.
    pub fn sums(&self) -> impl Iterator<Item = Slot> + use<> {
        (self.first_sum()..self.count()).map(Slot::new)
    }

    /// The slot of a field.
    pub fn field(&self, field: FieldId) -> Slot {
        Slot::new(field.index())
    }

    /// The slot of the cursor.
    pub fn cursor(&self) -> Slot {
        Slot::new(self.fields)
    }

    /// The slot of a header's offset.
    pub fn offset(&self, header: HeaderId) -> Slot {
        Slot::new(self.fields + 1 + header.index())
    }

    /// The slot of the row that a lookup in a table finds.
    pub fn row(&self, table: TableId) -> Slot {
        Slot::new(self.fields + 1 + self.headers + table.index())
    }

    /// The kind of value that a slot holds.
    pub fn kind(&self, slot: Slot) -> SlotKind {
        let number = slot.index();
        let Some(number) = number.checked_sub(self.fields) else {
            return SlotKind::Field(FieldId(number as u32));
        };
        let Some(number) = number.checked_sub(1) else { return SlotKind::Cursor };
        let Some(number) = number.checked_sub(self.headers) else {
            return SlotKind::Offset(HeaderId(number as u32));
        };
        match number.checked_sub(self.tables) {
            None => SlotKind::Row(TableId(number as u32)),
            Some(number) => SlotKind::Sum(SumId::new(number)),
        }
    }

    /// The field that a slot holds, if it holds one.
    pub fn as_field(&self, slot: Slot) -> Option<FieldId> {
        (slot.index() < self.fields).then_some(FieldId(slot.index() as u32))
    }

    /// The empty set.
    pub fn none(&self) -> SlotSet {
        SlotSet::new(self.count())
    }

    fn first_sum(&self) -> usize {
        self.fields + 1 + self.headers + self.tables
    }
}

/// The checksums that a graph computes.
fn sums_in(body: &Cfg) -> impl Iterator<Item = &[Expr]> {
    body.nodes.iter().flat_map(|node| &node.stmts).filter_map(|stmt| summed(&stmt.op))
}

/// The arguments of a statement that computes a checksum.
pub fn summed(op: &Op) -> Option<&[Expr]> {
    match op {
        Op::Extern { function, args, .. } if function.plain_hash() == Some(Algorithm::Csum16) => Some(args),
        _ => None,
    }
}

/// A set of slots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotSet(Vec<u64>);

impl SlotSet {
    /// An empty set with room for `count` slots.
    pub fn new(count: usize) -> Self {
        SlotSet(vec![0; count.div_ceil(64)])
    }

    /// Adds a slot.
    pub fn insert(&mut self, slot: Slot) {
        self.0[slot.index() / 64] |= 1 << (slot.index() % 64);
    }

    /// Adds the slot of a field.
    pub fn insert_field(&mut self, field: FieldId) {
        self.insert(Slot::new(field.index()));
    }

    /// Removes a slot.
    pub fn remove(&mut self, slot: Slot) {
        self.0[slot.index() / 64] &= !(1 << (slot.index() % 64));
    }

    /// Removes the slot of a field.
    pub fn remove_field(&mut self, field: FieldId) {
        self.remove(Slot::new(field.index()));
    }

    /// True if no slot is in the set.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// True if `slot` is in the set.
    pub fn contains(&self, slot: Slot) -> bool {
        self.0[slot.index() / 64] >> (slot.index() % 64) & 1 == 1
    }

    /// True if the slot of a field is in the set.
    pub fn contains_field(&self, field: FieldId) -> bool {
        self.contains(Slot::new(field.index()))
    }

    /// Keeps the slots that `other` has too.
    pub fn intersect(&mut self, other: &SlotSet) {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a &= b);
    }

    /// Adds the slots of `other`. Returns whether any was new.
    pub fn union(&mut self, other: &SlotSet) -> bool {
        let mut changed = false;
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            let new = *a | b;
            changed |= new != *a;
            *a = new;
        }
        changed
    }

    /// The members in order.
    pub fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        members(self.0.iter().copied())
    }

    /// The members that `others` lacks, in order.
    pub fn iter_without<'s>(&'s self, others: &'s SlotSet) -> impl Iterator<Item = Slot> + 's {
        members(self.0.iter().zip(&others.0).map(|(word, other)| word & !other))
    }
}

fn members(words: impl Iterator<Item = u64>) -> impl Iterator<Item = Slot> {
    words.enumerate().flat_map(|(number, mut word)| {
        std::iter::from_fn(move || {
            let bit = (word != 0).then(|| word.trailing_zeros() as usize)?;
            word &= word - 1;
            Some(Slot::new(64 * number + bit))
        })
    })
}

/// The number of sets that contain each slot.
pub fn memberships<'s>(sets: impl Iterator<Item = &'s SlotSet>, slots: usize) -> Vec<u32> {
    // Bit `n` of the counts of 64 slots, by `n`: a set adds its word to bit 0, and the carry goes to the next bit.
    let mut counts = vec![[0u64; 32]; slots.div_ceil(64)];
    for set in sets {
        for (bits, &word) in counts.iter_mut().zip(&set.0) {
            let mut carry = word;
            for bit in bits.iter_mut() {
                if carry == 0 {
                    break;
                }
                (*bit, carry) = (*bit ^ carry, *bit & carry);
            }
        }
    }
    let count = |slot: usize| {
        let bits = &counts[slot / 64];
        (0..32).map(|bit| ((bits[bit] >> (slot % 64) & 1) as u32) << bit).sum()
    };
    (0..slots).map(count).collect()
}
