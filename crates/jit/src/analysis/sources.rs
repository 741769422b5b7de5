//! The source of each read. This module decides it, once for each read and once for each value that a stage takes
//! over from the one before; code generation and liveness follow.

use super::constants::{Evaluator, Facts};
use super::extracts::{Extracts, InFrame};
use crate::graph::{Graph, Place};
use crate::slots::{Slot, SlotSet};
use p4jet_ir::{FieldId, FieldKind, HeaderId, Intrinsic, PipelineHalf};

/// The source of a slot's value where it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// This constant.
    Known(u64),
    /// 0: no statement has set the field, and its header is invalid and always was.
    Zero,
    /// The frame, which still has the value.
    Frame(InFrame),
    /// Like [`Source::Frame`] if the header is valid; 0 if not.
    FrameIfValid(InFrame),
    /// The slot itself: registers or memory.
    Kept,
}

/// The origin of a slot's value where a stage begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// 0: nothing has set the slot.
    Zero,
    /// This constant.
    Known(u64),
    /// An intrinsic, which no statement has set.
    Intrinsic(Intrinsic),
    /// The frame if the header is valid; else 0.
    Frame(InFrame),
    /// The PHV, where the stage before stored it.
    Phv,
}

/// The inputs of the decisions.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// The graph.
    pub graph: &'a Graph<'a>,
    /// The positions of headers.
    pub extracts: &'a Extracts,
    /// Constant facts.
    pub eval: &'a Evaluator<'a>,
    /// True if the length of frames may change before egress ends.
    truncates: bool,
}

impl<'a> Sources<'a> {
    /// Creates the sources from these analysis results.
    pub fn new(graph: &'a Graph<'a>, extracts: &'a Extracts, eval: &'a Evaluator<'a>) -> Sources<'a> {
        Sources { graph, extracts, eval, truncates: graph.truncates() }
    }

    /// The source of a slot at a program point with these may-defined slots and facts.
    pub fn source(&self, place: Place, slot: Slot, defined: &SlotSet, facts: &Facts) -> Source {
        if let Some(value) = self.eval.known(facts, slot) {
            return Source::Known(value);
        }
        if self.is_untouched(slot, defined, facts) {
            return Source::Zero;
        }
        let Some(at) = self.framed(place, slot, defined) else { return Source::Kept };
        match self.eval.known_valid(facts, at.header) {
            Some(true) => Source::Frame(at),
            // Where the header always is at the same place, extraction loads the field once.
            _ if at.is_fixed => Source::Kept,
            _ => Source::FrameIfValid(at),
        }
    }

    /// The source of a slot whose own value is live, in the frame or not.
    pub fn source_as_is(&self, slot: Slot, facts: &Facts) -> Source {
        self.eval.known(facts, slot).map_or(Source::Kept, Source::Known)
    }

    /// The origin of a slot that is live at a cut.
    pub fn origin(&self, place: Place, slot: Slot, defined: &SlotSet, facts: &Facts) -> Origin {
        if let Some(value) = self.eval.known(facts, slot) {
            return Origin::Known(value);
        }
        if self.is_untouched(slot, defined, facts) {
            return Origin::Zero;
        }
        let Some(field) = self.graph.slots.as_field(slot) else { return Origin::Phv };
        if defined.contains(slot) {
            return Origin::Phv;
        }
        match self.graph.program.fields[field.index()].kind {
            FieldKind::Header(_) if let Some(at) = self.framed(place, slot, defined) => Origin::Frame(at),
            FieldKind::Header(header) | FieldKind::Valid(header) if self.extracts.contains(header) => {
                Origin::Phv
            }
            FieldKind::Header(_) => Origin::Zero,
            _ => self.origin_of_metadata(place, field),
        }
    }

    fn origin_of_metadata(&self, place: Place, field: FieldId) -> Origin {
        let intrinsic = self.graph.program.intrinsics.iter().find(|(_, f)| *f == field);
        match intrinsic {
            // Loaded when egress begins.
            Some((intrinsic, _))
                if intrinsic.begin() == PipelineHalf::Egress
                    && self.graph.half(place) == PipelineHalf::Ingress =>
            {
                Origin::Zero
            }
            Some((Intrinsic::PacketLength, _)) if self.truncates || self.graph.deparsed_before(place) => {
                Origin::Phv
            }
            Some((intrinsic, _)) => Origin::Intrinsic(*intrinsic),
            // Lengths of varbits are set by extraction.
            None if self.is_varbit_length(field) => Origin::Phv,
            None => Origin::Zero,
        }
    }

    fn is_varbit_length(&self, field: FieldId) -> bool {
        let mut headers = self.graph.program.headers.iter();
        headers.any(|h| h.fields.iter().any(|f| f.varbit_length == Some(field)))
    }

    fn valid(&self, header: HeaderId) -> FieldId {
        self.graph.program.headers[header.index()].valid
    }

    /// The position of a field whose value the frame still has if its header is valid, and which is 0 otherwise.
    fn framed(&self, place: Place, slot: Slot, defined: &SlotSet) -> Option<InFrame> {
        let field = self.graph.slots.as_field(slot)?;
        let FieldKind::Header(header) = self.graph.program.fields[field.index()].kind else { return None };
        if defined.contains(slot) || defined.contains_field(self.valid(header)) {
            return None;
        }
        self.extracts.in_frame(self.graph, place, header, field)
    }

    /// True if a slot is a field that no statement has set, of a header that is invalid and always was: the field is 0.
    fn is_untouched(&self, slot: Slot, defined: &SlotSet, facts: &Facts) -> bool {
        let Some(field) = self.graph.slots.as_field(slot) else { return false };
        let FieldKind::Header(header) = self.graph.program.fields[field.index()].kind else { return false };
        !defined.contains(slot)
            && !defined.contains_field(self.valid(header))
            && self.eval.known_valid(facts, header) == Some(false)
    }
}
