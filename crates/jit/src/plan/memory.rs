//! The locations of slots: registers, the PHV all the time, or the PHV across a cut.

use super::cuts::Cut;
use super::pressure::too_many;
use crate::analysis::Analyses;
use crate::analysis::liveness::{Carried, Ends, Liveness};
use crate::analysis::sources::Origin;
use crate::graph::Graph;
use crate::slots::Slot;
use crate::widths::limb_count;
use p4jet_ir::{FieldKind, HeaderId, PipelineHalf, Terminator};
use std::collections::HashMap;

/// The layout of the PHV.
pub struct PhvLayout {
    /// The slots that copies inherit, by where the copies begin.
    pub entered: [Vec<Slot>; 2],
    /// The length of the image of copies at the start of the PHV, in bytes.
    pub image_bytes: u32,
    /// PHV offset of each slot that lives across some cut or comes with copies, in bytes.
    pub phv: HashMap<Slot, i32>,
    /// PHV offset of each slot that lies in the PHV all the time: because the register allocator would take too long, or
    /// because an index accesses it.
    pub in_memory: HashMap<Slot, i32>,
    /// The columns that unknown indices access.
    pub columns: Columns,
    /// PHV offset of the key of the pending lookup, or of the found row; the selector follows.
    pub key: i32,
    /// PHV bytes per packet.
    pub stride: u32,
}

/// A field in the image of a copy.
#[derive(Clone, Copy, Debug)]
pub struct ImageCell {
    /// Its first limb.
    pub limb: usize,
    /// Its width in bits.
    pub width: u32,
}

impl ImageCell {
    /// Gives the field a value, cut to its width.
    pub fn put(self, image: &mut [u64], value: u64) {
        let limbs = &mut image[self.limb..][..self.width.div_ceil(64) as usize];
        limbs.fill(0);
        limbs[0] = if self.width < 64 { value & ((1 << self.width) - 1) } else { value };
    }
}

impl PhvLayout {
    /// Lays out the PHV. At most `live_limbs_max` limbs, summed over the nodes where they are live, lie in registers.
    pub fn new(
        analyses: &Analyses,
        live: &Liveness,
        cuts: &[(Cut, Vec<Carried>)],
        live_limbs_max: usize,
    ) -> PhvLayout {
        let graph = analyses.graph;
        let mut columns = Columns::new(graph, &analyses.is_indexed);
        let mut in_columns = graph.slots.none();
        columns.slots.keys().for_each(|slot| in_columns.insert(*slot));
        let in_memory = too_many(analyses, live, live_limbs_max, &in_columns);
        let bytes = |slot: Slot| 8 * limb_count(graph.slot_width(slot)) as i32;
        let mut phv = HashMap::new();
        let mut key_limbs = 1;
        let mut offset = 0;
        let mut place = |slot: Slot| {
            phv.entry(slot).or_insert_with(|| {
                let at = offset;
                offset += bytes(slot);
                at
            });
            offset
        };
        let entered = PipelineHalf::ALL.map(|begin| live.entered(begin));
        let image_bytes = entered.iter().flatten().map(|&slot| place(slot)).last().unwrap_or(0) as u32;
        for (cut, carried) in cuts {
            for &(slot, origin) in carried {
                if origin == Origin::Phv && !in_memory.contains(slot) && !in_columns.contains(slot) {
                    place(slot);
                }
            }
            if let Terminator::Apply { table, keys, .. } = &graph.node(cut.place).terminator {
                let bits: u32 = keys.iter().map(|k| k.width(graph.program)).sum();
                let selector = usize::from(graph.program.tables[table.index()].profile.is_some());
                key_limbs = key_limbs.max(limb_count(bits).max(1) + selector);
            }
        }
        columns.at = offset;
        offset += columns.bytes;
        let mut in_memory: HashMap<Slot, i32> = in_memory
            .iter_without(&in_columns)
            .map(|slot| {
                let at = offset;
                offset += bytes(slot);
                (slot, at)
            })
            .collect();
        in_memory.extend(columns.slots.iter().map(|(slot, behind)| (*slot, columns.at + behind)));
        let key = offset;
        let stride = (key as u32 + 8 * key_limbs as u32).next_multiple_of(64);
        PhvLayout { entered, image_bytes, phv, in_memory, columns, key, stride }
    }

    /// The ends of stages, and the slots stored there.
    pub fn ends(&self, graph: &Graph, cuts: &[(Cut, Vec<Carried>)]) -> Ends {
        // Slots that lie in memory all the time belong to no stage.
        let is_kept = |&(slot, origin): &Carried| origin == Origin::Phv || self.in_memory.contains_key(&slot);
        let stored = |carried: &[Carried]| {
            let mut slots = graph.slots.none();
            carried.iter().copied().filter(is_kept).for_each(|(slot, _)| slots.insert(slot));
            slots
        };
        cuts.iter().map(|(cut, carried)| ((cut.place, cut.at), stored(carried))).collect()
    }

    /// The location of a slot in the image of a copy.
    pub fn cell(&self, graph: &Graph, begin: PipelineHalf, slot: Slot) -> Option<ImageCell> {
        self.entered[begin as usize].binary_search(&slot).ok()?;
        Some(ImageCell { limb: self.phv[&slot] as usize / 8, width: graph.slot_width(slot) })
    }
}

/// The columns that unknown indices access. The fields of each lie side by side. A spare field lies after them: an index beyond
/// the end writes to the spare field, and nothing reads it.
pub struct Columns {
    /// PHV offset of the first column.
    pub at: i32,
    /// The size of all columns, in bytes.
    pub bytes: i32,
    /// The offset of each slot from `at`.
    pub slots: HashMap<Slot, i32>,
    /// The offset of each whole column from `at`.
    pub begins: Vec<Option<i32>>,
    /// For each whole column of validity bits: the offset at which the offsets of the headers begin.
    pub offsets_begin: Vec<Option<i32>>,
}

impl Columns {
    fn new(graph: &Graph, is_indexed: &[bool]) -> Columns {
        let none = vec![None; graph.columns.whole.len()];
        let mut columns =
            Columns { at: 0, bytes: 0, slots: HashMap::new(), begins: none.clone(), offsets_begin: none };
        for (number, column) in graph.columns.whole.iter().enumerate() {
            if !is_indexed[number] {
                continue;
            }
            let bytes = 8 * limb_count(graph.program.width(column[0])) as i32;
            columns.begins[number] = Some(columns.bytes);
            for &field in column.iter() {
                columns.slots.insert(graph.slots.field(field), columns.bytes);
                columns.bytes += bytes;
            }
            columns.bytes += bytes;
            let headers: Option<Vec<HeaderId>> = column
                .iter()
                .map(|field| match graph.program.fields[field.index()].kind {
                    FieldKind::Valid(header) => Some(header),
                    _ => None,
                })
                .collect();
            if let Some(headers) = headers {
                columns.offsets_begin[number] = Some(columns.bytes);
                for header in headers {
                    columns.slots.insert(graph.slots.offset(header), columns.bytes);
                    columns.bytes += 8;
                }
                columns.bytes += 8;
            }
        }
        columns
    }
}
