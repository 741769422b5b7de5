//! Slots that copies inherit from the packet that creates them.

use super::effects::copy_sets;
use crate::graph::{Graph, Place};
use crate::slots::{Slot, SlotKind, SlotSet};
use p4jet_ir::{CopyFrame, FieldId, Keep, PacketCopy, PipelineHalf};

/// Slots that some copy may inherit, by where the copy begins.
pub struct Inherited([SlotSet; 2]);

impl Inherited {
    /// Slots that copies which begin there may inherit.
    pub fn at(&self, begin: PipelineHalf) -> &SlotSet {
        &self.0[begin as usize]
    }

    /// True if any copy may inherit a field.
    pub fn contains(&self, graph: &Graph, field: FieldId) -> bool {
        PipelineHalf::ALL.iter().any(|&begin| graph.has_copies(begin) && self.at(begin).contains_field(field))
    }
}

/// Finds the slots that copies may inherit.
pub fn inherited(graph: &Graph) -> Inherited {
    let mut all = PipelineHalf::ALL.map(|_| graph.slots.none());
    for (_, copy) in graph.copies() {
        all[copy.begin as usize].union(&inherited_by(graph, copy));
    }
    Inherited(all)
}

/// Slots that the copies of one statement may inherit.
pub fn inherited_by(graph: &Graph, copy: &PacketCopy) -> SlotSet {
    let mut set = graph.slots.none();
    match &copy.keep {
        Keep::All => graph.slots.fields().for_each(|slot| set.insert(slot)),
        Keep::Fields(fields) => fields.iter().for_each(|f| set.insert_field(*f)),
    }
    copy_sets(copy, &mut |f| set.insert_field(f));
    if copy.begin == PipelineHalf::Egress {
        set.insert(graph.slots.cursor());
        graph.slots.offsets().for_each(|slot| set.insert(slot));
    }
    if copy.queue.is_some() {
        let given = graph.program.intrinsics.iter().filter(|(i, _)| i.begin() == PipelineHalf::Egress);
        given.for_each(|(_, f)| set.insert_field(*f));
    }
    set
}

/// True if the copies of a statement keep the packet's cursor.
pub fn keeps_cursor(copy: &PacketCopy) -> bool {
    copy.begin == PipelineHalf::Egress && copy.frame == CopyFrame::Current
}

/// True if the copies of a statement keep the packet's value of a slot, unless the statement sets it.
pub fn keeps(graph: &Graph, place: Place, copy: &PacketCopy, slot: Slot) -> bool {
    match (graph.slots.kind(slot), &copy.keep) {
        (SlotKind::Field(_), Keep::All) => true,
        (SlotKind::Field(field), Keep::Fields(fields)) => fields.contains(&field),
        (SlotKind::Cursor, _) => keeps_cursor(copy),
        (SlotKind::Offset(_) | SlotKind::Row(_) | SlotKind::Sum(_), _) => graph.keeps_headers(place, copy),
    }
}
