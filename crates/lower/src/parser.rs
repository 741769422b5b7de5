//! Parsers: states become nodes, `select` becomes a switch or a chain of branches.

use std::collections::HashSet;

use num_bigint::BigUint;
use num_traits::Zero;
use p4jet_analysis::typed::{self, KeySet, ParserBody, SelectCase, Target, Transition, Type};
use p4jet_ir::{BinaryOp, Expr, NodeId, Terminator};
use p4jet_syntax::span::Span;

use crate::build;
use crate::cfg::Jump;
use crate::context::{Lowered, Lowerer};

/// A select whose keys have at most this many bits in total, and whose labels are all constants, becomes one switch.
const SWITCH_WIDTH_MAX: u32 = 64;

impl Lowerer<'_> {
    /// Lowers the states of a parser from its start; `accept` is the target of acceptance, `prefix` precedes the
    /// states' names.
    pub(crate) fn parser_body(&mut self, id: typed::ParserId, accept: Jump, prefix: &str) -> Lowered<()> {
        let parser = &self.program.parsers[id.index()];
        let Some(body) = &parser.body else {
            return self.bug(parser.span, format!("`{}` has no body", parser.name));
        };
        self.init_locals(&body.locals)?;
        let visited = reachable(body);
        let nodes: Vec<NodeId> =
            body.states.iter().map(|s| self.labelled_node(format!("{prefix}{}", s.name))).collect();
        self.goto(nodes[body.start as usize]);
        let mut result = Ok(());
        let runs_once = self.runs_once;
        let outer_span = self.span;
        for (i, state) in body.states.iter().enumerate() {
            if !visited[i] {
                continue;
            }
            self.enter(nodes[i]);
            self.span = state.span;
            // A state may be visited several times, and after states that come later in the text.
            self.runs_once = false;
            result = self.stmts(&state.stmts).and(result);
            result = self.transition(&state.transition, &nodes, accept).and(result);
        }
        self.runs_once = runs_once;
        self.span = outer_span;
        result
    }

    fn target(&mut self, target: Target, nodes: &[NodeId], accept: Jump) {
        match target {
            Target::State(i) => self.goto(nodes[i as usize]),
            Target::Accept => self.jump(accept),
            // P4_16 "the reject state": the error is that of `verify`; here there is none.
            Target::Reject => self.reject(0),
        }
    }

    fn target_node(&mut self, target: Target, nodes: &[NodeId], accept: Jump) -> NodeId {
        match target {
            Target::State(i) => nodes[i as usize],
            Target::Accept => self.jump_node(accept),
            Target::Reject => self.reject_node(0),
        }
    }

    /// Returns a node that rejects with a code.
    fn reject_node(&mut self, code: u32) -> NodeId {
        let (node, back) = (self.node(), self.node());
        self.goto(back);
        self.enter(node);
        self.reject(code);
        self.enter(back);
        node
    }

    fn transition(&mut self, transition: &Transition, nodes: &[NodeId], accept: Jump) -> Lowered<()> {
        match transition {
            Transition::Direct(target, span) => {
                self.span = *span;
                self.target(*target, nodes, accept);
                Ok(())
            }
            Transition::Select { keys, cases, span } => {
                self.span = *span;
                self.select(keys, cases, nodes, accept, *span)
            }
        }
    }

    /// P4_16 "select expressions": the first case whose sets contain the keys; if there is none, `error.NoMatch`.
    fn select(
        &mut self,
        keys: &[typed::Expr],
        cases: &[SelectCase],
        nodes: &[NodeId],
        accept: Jump,
        span: Span,
    ) -> Lowered<()> {
        let values = self.exprs(keys)?;
        let mut exprs = Vec::new();
        let mut tys = Vec::new();
        for (value, key) in values.into_iter().zip(keys) {
            let ty = self.ty(&key.ty);
            exprs.push(self.scalar_of(value, &ty, key.span)?);
            tys.push(ty);
        }
        if self.select_as_switch(&exprs, &tys, cases, nodes, accept)? {
            return Ok(());
        }
        let exprs: Vec<Expr> = exprs.into_iter().map(|e| self.atom(e)).collect();
        for case in cases {
            self.span = case.span;
            let cond = self.case_condition(&exprs, &tys, case, keys)?;
            let then = self.target_node(case.target, nodes, accept);
            let otherwise = self.node();
            self.terminate(Terminator::If { cond, then, otherwise });
            self.enter(otherwise);
        }
        self.span = span;
        let code = self.error_code("NoMatch");
        self.reject(code);
        Ok(())
    }

    /// Lowers a select to one switch, if every case is constant for all keys or matches everything.
    fn select_as_switch(
        &mut self,
        keys: &[Expr],
        tys: &[Type],
        cases: &[SelectCase],
        nodes: &[NodeId],
        accept: Jump,
    ) -> Lowered<bool> {
        let widths: Vec<u32> = keys.iter().map(|k| self.width(k)).collect();
        if widths.iter().sum::<u32>() > SWITCH_WIDTH_MAX {
            return Ok(false);
        }
        let is_any = |case: &SelectCase| case.keysets.iter().all(|k| matches!(k, KeySet::Any));
        let is_value = |case: &SelectCase| {
            case.keysets.len() == keys.len() && case.keysets.iter().all(|k| matches!(k, KeySet::Value(_)))
        };
        let live = cases.iter().position(is_any).unwrap_or(cases.len());
        if !cases[..live].iter().all(is_value) {
            return Ok(false);
        }
        let mut labels = Vec::new();
        for case in &cases[..live] {
            let mut label = BigUint::zero();
            for ((set, ty), width) in case.keysets.iter().zip(tys).zip(&widths) {
                let KeySet::Value(e) = set else { return Ok(false) };
                if crate::survey::has_effects(e) {
                    return Ok(false);
                }
                let value = self.expr(e)?;
                // P4_16 "select expressions" lets targets decide whether a label may be known only at run time.
                let Expr::Const { value, .. } = self.scalar_of(value, ty, e.span)? else { return Ok(false) };
                label = (label << *width) | value;
            }
            labels.push(label);
        }
        let mut targets: Vec<(BigUint, NodeId)> = Vec::new();
        let mut seen = HashSet::new();
        for (case, label) in cases[..live].iter().zip(labels) {
            let target = self.target_node(case.target, nodes, accept);
            // The first case that matches is taken.
            if seen.insert(label.clone()) {
                targets.push((label, target));
            }
        }
        if targets.is_empty() && live < cases.len() {
            self.span = cases[live].span;
            self.target(cases[live].target, nodes, accept);
            return Ok(true);
        }
        let default = match cases.get(live) {
            Some(case) => self.target_node(case.target, nodes, accept),
            None => {
                let code = self.error_code("NoMatch");
                self.reject_node(code)
            }
        };
        match build::concat(keys.to_vec()) {
            Some(value) => self.terminate(Terminator::Switch { value, cases: targets, default }),
            None => self.goto(default),
        }
        Ok(true)
    }

    fn case_condition(
        &mut self,
        keys: &[Expr],
        tys: &[Type],
        case: &SelectCase,
        typed_keys: &[typed::Expr],
    ) -> Lowered<Expr> {
        if let [KeySet::Any] = case.keysets[..] {
            return Ok(build::truth(true));
        }
        if let ([KeySet::ValueSet(id)], n) = (&case.keysets[..], keys.len())
            && n != 1
        {
            return self.in_value_set(*id, keys, typed_keys);
        }
        let mut conds = Vec::new();
        for (i, (set, ty)) in case.keysets.iter().zip(tys).enumerate() {
            let key = keys[i].clone();
            let signed = self.is_signed(ty);
            let here = match set {
                KeySet::Any => continue,
                KeySet::Value(e) => {
                    let value = self.expr(e)?;
                    let value = self.scalar_of(value, ty, e.span)?;
                    build::eq(key, value)
                }
                KeySet::Mask(value, mask) => {
                    let value = self.expr(value)?;
                    let value = self.scalar_of(value, ty, case.span)?;
                    let mask = self.expr(mask)?;
                    let mask = self.scalar_of(mask, ty, case.span)?;
                    let masked = |e| build::binary(BinaryOp::And, e, mask.clone());
                    build::eq(masked(key), masked(value))
                }
                KeySet::Range(lo, hi) => {
                    let lo = self.expr(lo)?;
                    let lo = self.scalar_of(lo, ty, case.span)?;
                    let hi = self.expr(hi)?;
                    let hi = self.scalar_of(hi, ty, case.span)?;
                    let op = if signed { BinaryOp::LeS } else { BinaryOp::LeU };
                    build::and(build::binary(op, lo, key.clone()), build::binary(op, key, hi))
                }
                KeySet::ValueSet(id) => self.in_value_set(*id, &keys[i..=i], &typed_keys[i..=i])?,
            };
            conds.push(here);
        }
        Ok(build::all(conds))
    }

    fn in_value_set(
        &mut self,
        id: typed::ValueSetId,
        keys: &[Expr],
        typed_keys: &[typed::Expr],
    ) -> Lowered<Expr> {
        let names: Vec<String> = typed_keys.iter().map(|e| self.source_text(e.span)).collect();
        let table = self.value_set(id, &names)?;
        let widths: Vec<u32> = self.ir.tables[table.index()].keys.iter().map(|k| k.width).collect();
        let found: Vec<u32> = keys.iter().map(|k| self.width(k)).collect();
        if widths != found {
            let span = self.program.value_sets[id.index()].span;
            return self.unsupported(span, "a value set whose fields do not correspond to the select's keys");
        }
        let hit = self.temporary(1);
        self.apply_lowered(table, keys.to_vec(), Some(hit), None, None);
        Ok(Expr::Field(hit))
    }
}

fn successors(state: &typed::State) -> Vec<usize> {
    let index = |t: &Target| match t {
        Target::State(i) => Some(*i as usize),
        Target::Accept | Target::Reject => None,
    };
    match &state.transition {
        Transition::Direct(target, _) => index(target).into_iter().collect(),
        Transition::Select { cases, .. } => cases.iter().filter_map(|c| index(&c.target)).collect(),
    }
}

fn reachable(body: &ParserBody) -> Vec<bool> {
    let mut seen = vec![false; body.states.len()];
    let mut work = vec![body.start as usize];
    while let Some(i) = work.pop() {
        if !std::mem::replace(&mut seen[i], true) {
            work.extend(successors(&body.states[i]));
        }
    }
    seen
}
