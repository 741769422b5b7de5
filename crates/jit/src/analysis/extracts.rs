//! The positions of headers in the frame.

use crate::graph::{Graph, Place};
use p4jet_ir::{FieldId, HeaderId};

/// Buffers have at least this many bytes, so fields below this offset can be read before their presence is known.
pub const READABLE_BYTES: u32 = 1024;

/// The positions at which parsers extract headers.
pub struct Extracts {
    /// For each header: its offset in bytes, if every extraction puts it at the same one.
    pub fixed_offset: Vec<Option<u32>>,
    /// For each header: whether some parser extracts it.
    pub is_extracted: Vec<bool>,
}

/// The position of a header, or of a part of it, in the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFrame {
    /// The header.
    pub header: HeaderId,
    /// Bits from the start of the frame if the header is always at the same place, else from the start of the header.
    pub bit: u32,
    /// True if the header is always at the same place.
    pub is_fixed: bool,
}

impl Extracts {
    /// True if some parser extracts a header.
    pub fn contains(&self, header: HeaderId) -> bool {
        self.is_extracted[header.index()]
    }

    /// The position of a header's field in the frame, if it is known at `place`.
    pub fn in_frame(&self, graph: &Graph, place: Place, header: HeaderId, field: FieldId) -> Option<InFrame> {
        if graph.deparsed_before(place) || !self.contains(header) {
            return None;
        }
        let offset = self.fixed_offset[header.index()];
        let is_fixed = offset.is_some();
        let mut bit = offset.unwrap_or(0) * 8;
        for f in &graph.program.headers[header.index()].fields {
            if f.varbit_length.is_some() {
                return None;
            }
            let end = bit + graph.program.width(f.field);
            if f.field == field {
                return (end <= READABLE_BYTES * 8).then_some(InFrame { header, bit, is_fixed });
            }
            bit = end;
        }
        None
    }
}
