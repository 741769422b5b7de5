//! Fields that statements set anywhere in the program. Extraction does not count.

use super::effects::{apply_sets, copy_sets, op_sets};
use crate::graph::{Graph, Step};
use crate::slots::SlotSet;
use cranelift_codegen::entity::EntityRef;
use p4jet_ir::{FieldId, HeaderId, Keep, Op};

/// Fields that any statement sets.
pub struct Written(SlotSet);

impl Written {
    /// True if any statement sets a field.
    pub fn contains(&self, field: FieldId) -> bool {
        self.0.contains_field(field)
    }

    /// True if anything but extraction sets a varbit field of the header or its length.
    pub fn has_varbit_of(&self, graph: &Graph, header: HeaderId) -> bool {
        graph.program.headers[header.index()]
            .fields
            .iter()
            .any(|f| f.varbit_length.is_some_and(|l| self.contains(l) || self.contains(f.field)))
    }
}

/// Finds the fields that statements set.
pub fn written(graph: &Graph) -> Written {
    let program = graph.program;
    let mut written = graph.slots.none();
    let mut set = |f: FieldId| written.insert_field(f);
    for node in graph.bodies().iter().flat_map(|body| &body.nodes) {
        node.stmts.iter().for_each(|stmt| op_sets(&stmt.op, &mut set));
        apply_sets(&node.terminator, &mut set);
    }
    // Header fields that copies inherit count as written, unless the frame has them too.
    for (place, copy) in graph.copies() {
        copy_sets(copy, &mut set);
        if graph.keeps_headers(place, copy) {
            continue;
        }
        match &copy.keep {
            Keep::Fields(fields) => fields.iter().for_each(|f| set(*f)),
            Keep::All => program.headers.iter().for_each(|h| h.for_each_field(&mut set)),
        }
    }
    program.blocks.iter().filter_map(|block| block.error_field).for_each(&mut set);
    program.actions.iter().flat_map(|action| &action.params).for_each(|f| set(*f));
    // After a deparser headers no longer lie where they were extracted. If another one may emit them again, it must have
    // all their fields.
    for header in emitted_after_deparsing(graph) {
        let h = &program.headers[header.index()];
        h.fields.iter().for_each(|f| set(f.field));
        h.fields.iter().filter_map(|f| f.varbit_length).for_each(&mut set);
    }
    Written(written)
}

/// Headers that a deparser emits though they may have been extracted before another one ran.
fn emitted_after_deparsing(graph: &Graph) -> Vec<HeaderId> {
    let count = graph.program.headers.len();
    // The first step that extracts each header, and the last one that emits it.
    let mut extracted: Vec<Option<Step>> = vec![None; count];
    let mut emitted = vec![Step::new(0); count];
    for place in graph.places() {
        let step = graph.step(place);
        for stmt in &graph.node(place).stmts {
            stmt.op.for_each_extracted(&mut |header| {
                let first = &mut extracted[header.index()];
                *first = Some(first.map_or(step, |first| step.min(first)));
            });
            if let Op::Emit { header } = stmt.op {
                let last = &mut emitted[header.index()];
                *last = step.max(*last);
            }
        }
    }
    let deparsers: Vec<Step> = graph.deparsers().collect();
    let between = |h: &usize| {
        let is_between = |d: &Step| extracted[*h].is_some_and(|first| first < *d) && *d < emitted[*h];
        deparsers.iter().any(is_between)
    };
    (0..count).filter(between).map(|h| HeaderId(h as u32)).collect()
}
