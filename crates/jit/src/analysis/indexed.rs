//! Columns with an index that is unknown at compile time: their fields must lie in memory.

use super::constants::{Constants, Evaluator, Facts};
use crate::graph::Graph;
use p4jet_ir::columns::Columns;
use p4jet_ir::{Expr, FieldId, Node, Op, for_each_column_of};

/// Finds for each whole column whether some index into it is unknown.
pub fn indexed(graph: &Graph, constants: &Constants) -> Vec<bool> {
    let mut found =
        IndexSearch { columns: &graph.columns, is_indexed: vec![false; graph.columns.whole.len()] };
    if found.is_indexed.is_empty() {
        return found.is_indexed;
    }
    let eval = &constants.eval;
    for place in graph.places() {
        found.in_node(eval, &mut constants.before(place), graph.node(place), true);
    }
    // Constant facts in actions depend on which table runs them.
    let nothing = eval.nothing();
    for node in graph.program.actions.iter().flat_map(|action| &action.body.nodes) {
        found.in_node(eval, &mut nothing.clone(), node, false);
    }
    found.is_indexed
}

struct IndexSearch<'a> {
    columns: &'a Columns,
    is_indexed: Vec<bool>,
}

impl IndexSearch<'_> {
    fn in_node(&mut self, eval: &Evaluator, facts: &mut Facts, node: &Node, learns: bool) {
        for stmt in &node.stmts {
            self.in_op(eval, facts, &stmt.op);
            if learns {
                eval.learn(facts, &stmt.op);
            }
        }
        node.terminator.for_each_expr(&mut |e| self.in_expr(eval, facts, e));
    }

    fn in_op(&mut self, eval: &Evaluator, facts: &Facts, op: &Op) {
        op.for_each_expr(&mut |e| self.in_expr(eval, facts, e));
        match op {
            Op::SetElement { column, index, .. } if eval.value(facts, index).is_none() => self.note(column),
            Op::ExtractElement { headers, index, .. } if eval.value(facts, index).is_none() => {
                for_each_column_of(headers, &eval.graph.program.headers, &mut |column| self.note(&column));
            }
            _ => {}
        }
    }

    fn in_expr(&mut self, eval: &Evaluator, facts: &Facts, expr: &Expr) {
        expr.clone().rewrite(&mut |e| {
            if let Expr::Element { column, index } = e
                && eval.value(facts, index).is_none()
            {
                self.note(column);
            }
        });
    }

    fn note(&mut self, column: &[FieldId]) {
        if let Some(part) = self.columns.part(column) {
            self.is_indexed[part.whole.index()] = true;
        }
    }
}
