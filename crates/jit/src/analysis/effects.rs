//! The fields that statements, copies and lookups set.

use p4jet_ir::{FieldId, Op, PacketCopy, Terminator};

/// The element with this number, if there is one.
pub fn element<T: Copy>(column: &[T], number: u64) -> Option<T> {
    column.get(usize::try_from(number).ok()?).copied()
}

/// Calls `set` for every field that has its own value in a copy.
pub fn copy_sets(copy: &PacketCopy, set: &mut impl FnMut(FieldId)) {
    copy.set.iter().for_each(|(f, _)| set(*f));
    if let Some(replicas) = &copy.replicas {
        let fields = [replicas.port, replicas.instance, replicas.class_of_service];
        fields.into_iter().flatten().for_each(set);
    }
}

/// Calls `set` for every field a statement sets; extraction does not count.
pub fn op_sets(op: &Op, set: &mut impl FnMut(FieldId)) {
    match op {
        Op::Set { dest, .. } | Op::Lookahead { dest } => set(*dest),
        Op::SetElement { column, .. } => column.iter().for_each(|f| set(*f)),
        Op::Extern { outs, .. } => outs.iter().for_each(|f| set(*f)),
        Op::ExtractElement { .. }
        | Op::Extract { .. }
        | Op::Advance { .. }
        | Op::Emit { .. }
        | Op::Copy(_)
        | Op::Truncate { .. } => {}
    }
}

/// Calls `set` for every field that a table's lookup sets.
pub fn apply_sets(terminator: &Terminator, set: &mut impl FnMut(FieldId)) {
    if let Terminator::Apply { hit, action_run, entry, .. } = terminator {
        [hit, action_run, entry].into_iter().flatten().for_each(|f| set(*f));
    }
}
