//! The work of deparsers where they end, and of emits.

use crate::analysis::Analyses;
use crate::analysis::constants::Facts;
use crate::analysis::deparse::Mode;
use crate::analysis::reads::Known;
use crate::graph::{Place, StatementSite};
use crate::slots::SlotSet;
use p4jet_ir::{FieldId, HeaderId, Op, Terminator};
use std::collections::HashMap;

/// The way in which a header is written to the frame that leaves.
#[derive(Clone, Debug)]
pub struct EmitPlan {
    /// The header.
    pub header: HeaderId,
    /// The validity of the header, if known.
    pub valid: Option<bool>,
    /// True if some parser extracts the header.
    pub is_extracted: bool,
    /// True if the header lies at its offset in the frame that arrived, if that is known.
    pub has_offset: Option<bool>,
    /// The offset of the header in the frame, if every extraction puts it at the same one.
    pub fixed_offset: Option<u32>,
    /// Fields that may differ from the frame.
    pub changed: SlotSet,
    /// True if the validity of the header may have changed.
    pub valid_changed: bool,
    /// True if a varbit field, or its length, may have changed.
    pub varbit_changed: bool,
    /// Slots of the header, or the cursor, that are constants here.
    pub known: Known,
}

/// The work where a deparser ends.
#[derive(Clone, Debug)]
pub struct EndPlan {
    /// How the frame is built.
    pub kind: EndKind,
    /// The cursor, if known.
    pub cursor: Option<u64>,
}

/// How the frame is built.
#[derive(Clone, Debug)]
pub enum EndKind {
    /// Changed fields are written back in place.
    InPlace(Vec<EmitPlan>),
    /// The frame leaves with its headers where they are, which is known at compile time.
    Shifted {
        /// The number of bytes by which the frame begins later.
        shift: i64,
        /// The offset of each valid header in the frame that leaves, and how the header is written.
        headers: Vec<(u64, EmitPlan)>,
    },
    /// Code decides for each packet: in place, or in the scratch memory.
    Checked(Vec<EmitPlan>),
    /// The emits have assembled the headers in the scratch memory.
    Scratch,
}

/// The ends of deparsers, and the emits that append to the scratch memory.
pub type Plans = (HashMap<Place, EndPlan>, HashMap<StatementSite, EmitPlan>);

/// Decides how frames are built.
pub fn plans(analyses: &Analyses) -> Plans {
    let graph = analyses.graph;
    let (mut ends, mut emits) = (HashMap::new(), HashMap::new());
    for place in graph.places() {
        let Some(mode) = analyses.deparsers.mode_at(graph, place) else { continue };
        let node = graph.node(place);
        if mode == Mode::Scratch {
            let mut facts = analyses.constants.before(place);
            for (number, stmt) in node.stmts.iter().enumerate() {
                if let Op::Emit { header } = stmt.op {
                    emits.insert(StatementSite::new(place, number), emit(analyses, header, None, &facts));
                }
                analyses.constants.eval.learn(&mut facts, &stmt.op);
            }
        }
        if node.terminator == Terminator::Return {
            ends.insert(place, end(analyses, place, mode));
        }
    }
    (ends, emits)
}

fn end(analyses: &Analyses, place: Place, mode: Mode) -> EndPlan {
    let graph = analyses.graph;
    let facts = analyses.constants.at_end(place);
    let changed = analyses.defined.changed_at_end(graph, &analyses.deparsers, place);
    let emitted = analyses.deparsers.emits(graph.step(place)).iter();
    let emits = |header: &HeaderId| emit(analyses, *header, changed.as_ref(), &facts);
    let kind = match mode {
        Mode::Scratch => EndKind::Scratch,
        Mode::InPlace => EndKind::InPlace(emitted.map(emits).collect()),
        Mode::Checked => {
            let emits: Vec<EmitPlan> = emitted.map(emits).collect();
            shifted(analyses, &facts, &emits).unwrap_or(EndKind::Checked(emits))
        }
    };
    EndPlan { kind, cursor: analyses.constants.eval.known(&facts, graph.slots.cursor()) }
}

/// Plans how a header is written. `changed` are the fields that may differ from the frame; `None`: all fields that any statement sets.
fn emit(analyses: &Analyses, header: HeaderId, changed: Option<&SlotSet>, facts: &Facts) -> EmitPlan {
    let (graph, eval) = (analyses.graph, &analyses.constants.eval);
    let slots = graph.slots;
    let h = &graph.program.headers[header.index()];
    let is_changed = |field: FieldId| {
        changed.is_none_or(|changed| changed.contains_field(field)) && analyses.written.contains(field)
    };
    let mut fields = slots.none();
    h.fields.iter().filter(|f| is_changed(f.field)).for_each(|f| fields.insert_field(f.field));
    let mut all = vec![slots.cursor(), slots.offset(header)];
    h.for_each_field(&mut |f| all.push(slots.field(f)));
    all.push(slots.field(h.valid));
    EmitPlan {
        header,
        valid: eval.known_valid(facts, header),
        is_extracted: analyses.extracts.contains(header),
        has_offset: eval.known(facts, slots.offset(header)).map(|plus_one| plus_one != 0),
        fixed_offset: analyses.extracts.fixed_offset[header.index()],
        changed: fields,
        valid_changed: is_changed(h.valid),
        varbit_changed: analyses.written.has_varbit_of(graph, header),
        known: Known::of(&analyses.constants.eval, facts, all.into_iter()),
    }
}

/// If it is known that the frame leaves with the headers where they are: by how much later it begins, and where from
/// there each of them does.
fn shifted(analyses: &Analyses, facts: &Facts, emits: &[EmitPlan]) -> Option<EndKind> {
    let (graph, eval) = (analyses.graph, &analyses.constants.eval);
    let mut headers = Vec::new();
    let mut total = 0;
    for emit in emits {
        if emit.valid? {
            headers.push((total, emit.clone()));
            total += u64::from(graph.header_bits(emit.header)?) / 8;
        }
    }
    let shift = eval.known(facts, graph.slots.cursor())? as i64 - total as i64;
    for (begin, emit) in &headers {
        let plus_one = eval.known(facts, graph.slots.offset(emit.header))?;
        if plus_one != 0 && plus_one as i64 - 1 != shift + *begin as i64 {
            return None;
        }
    }
    Some(EndKind::Shifted { shift, headers })
}
