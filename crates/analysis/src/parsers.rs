//! Parsers: states and transitions (P4_16, "Packet parsing").

use crate::check::{Checker, Place};
use crate::generic::{POISON, is_poison};
use crate::keysets::Shape;
use crate::typed::*;
use p4jet_suggest as suggest;
use p4jet_syntax::ast;
use p4jet_syntax::diagnostic::Diagnostic;
use std::collections::HashMap;

impl Checker {
    /// Declarations and states, in the scope of the parameters.
    pub(crate) fn parser_body(&mut self, name: &ast::Ident, body: &ast::ParserBody) -> ParserBody {
        self.scopes.push();
        self.declared.push(crate::check::declared(&body.locals));
        let locals = self.at(Place::ParserLocals, |c| {
            body.locals.iter().filter_map(|local| c.local(local, "parser")).collect()
        });
        // States may be named before their declaration.
        let mut targets: HashMap<String, Target> = HashMap::new();
        targets.insert("accept".into(), Target::Accept);
        targets.insert("reject".into(), Target::Reject);
        let mut first: HashMap<&str, &ast::State> = HashMap::new();
        for (i, state) in body.states.iter().enumerate() {
            let text = &state.name.text;
            if text == "accept" || text == "reject" {
                let message = format!("state `{text}` exists in every parser and cannot be declared");
                self.error("duplicate-declaration", state.name.span, message);
                continue;
            }
            if let Some(earlier) = first.insert(text, state) {
                self.report(
                    Diagnostic::error(
                        "duplicate-declaration",
                        state.name.span,
                        format!("two states `{text}`"),
                    )
                    .related(earlier.name.span, "declared here first"),
                );
                continue;
            }
            targets.insert(text.clone(), Target::State(i as u32));
        }
        let start = match targets.get("start") {
            Some(Target::State(i)) => *i,
            _ => {
                let names: Vec<&str> = body.states.iter().map(|s| s.name.text.as_str()).collect();
                let mut diagnostic = Diagnostic::error(
                    "unknown-state",
                    name.span,
                    format!("parser `{}` has no state `start`, where parsing begins", name.text),
                );
                let near = body.states.iter().find(|s| suggest::nearest(&s.name.text, ["start"]).is_some());
                if let Some(near) = near {
                    let text = format!("is `{}` meant to be `start`?", near.name.text);
                    diagnostic = diagnostic.related(near.name.span, text);
                }
                if !names.is_empty() {
                    diagnostic = diagnostic.choices("its states", &names);
                }
                self.report(diagnostic);
                0
            }
        };
        let states =
            self.at(Place::State, |c| body.states.iter().map(|s| c.state(s, name, &targets)).collect());
        self.declared.pop();
        self.scopes.pop();
        let body = ParserBody { locals, states, start };
        if body.states.len() == first.len() && !reaches_end(&body) {
            let text = format!("parser `{}` never reaches `accept` or `reject`", name.text);
            self.report(
                Diagnostic::error("unreachable", name.span, text).note("every path from `start` is a cycle"),
            );
        }
        body
    }

    fn state(&mut self, state: &ast::State, parser: &ast::Ident, targets: &HashMap<String, Target>) -> State {
        self.scopes.push();
        let stmts = self.statements(&state.stmts);
        let transition = match &state.transition {
            // P4_16, "Transition statements": a state without one goes to reject.
            None => Transition::Direct(Target::Reject, state.span),
            Some(ast::Transition::Direct(name)) => {
                Transition::Direct(self.target(name, parser, targets), name.span)
            }
            Some(ast::Transition::Select { keys, cases, span }) => {
                let mut values = Vec::new();
                let mut shapes = Vec::new();
                for key in keys {
                    let typed = self.expr(key, None);
                    shapes.push(self.select_key(typed, &mut values));
                }
                let mut done = Vec::with_capacity(cases.len());
                for case in cases {
                    let target = self.target(&case.state, parser, targets);
                    let Some(keysets) = self.keyset(&case.keyset, &shapes, "this `select`") else { continue };
                    done.push(SelectCase { keysets, target, span: case.span });
                }
                Transition::Select { keys: values, cases: done, span: *span }
            }
        };
        self.scopes.pop();
        State { name: state.name.text.clone(), stmts, transition, span: state.span }
    }

    /// Checks a key of a select; a tuple yields one key for each element.
    fn select_key(&mut self, key: Expr, into: &mut Vec<Expr>) -> Shape {
        if let (ExprKind::Aggregate(items), Type::Tuple(_)) = (&key.kind, &key.ty) {
            let items = items.clone();
            return Shape::Many(items.into_iter().map(|item| self.select_key(item, into)).collect());
        }
        let key = self.checked_key(key);
        let shape = Shape::One(key.ty.clone());
        into.push(key);
        shape
    }

    fn checked_key(&mut self, key: Expr) -> Expr {
        if key.ty == Type::Integer {
            self.report(
                Diagnostic::error("type-mismatch", key.span, "`select` on an `int`, which has no width")
                    .note("give the number a width, as in `8w5`"),
            );
            return Expr { ty: POISON, ..key };
        }
        if !self.is_key_type(&key.ty) {
            let shown = self.show(&key.ty);
            self.report(
                Diagnostic::error("type-mismatch", key.span, format!("`select` on {shown}"))
                    .note("it takes `bit<W>`, `int<W>`, `bool`, enums and `error`; several keys are separated by commas"),
            );
            return Expr { ty: POISON, ..key };
        }
        debug_assert!(!is_poison(&key.ty) || !self.diagnostics.is_empty());
        key
    }

    fn target(
        &mut self,
        name: &ast::Ident,
        parser: &ast::Ident,
        targets: &HashMap<String, Target>,
    ) -> Target {
        if let Some(target) = targets.get(&name.text) {
            return *target;
        }
        let mut diagnostic = Diagnostic::error(
            "unknown-state",
            name.span,
            format!("transition to unknown state `{}`", name.text),
        );
        if !self.may_search(targets.len()) {
            self.report(diagnostic);
            return Target::Reject;
        }
        let mut names: Vec<String> = targets.keys().cloned().collect();
        names.sort();
        diagnostic = diagnostic.suggest(&name.text, names.iter().map(String::as_str));
        self.report(diagnostic.choices(format!("states of parser `{}`", parser.text), &names));
        Target::Reject
    }
}

/// True if a parser can end, that is, if a path leads from `start` to `accept` or `reject`; a select in which no case
/// matches leads to `reject`.
fn reaches_end(body: &ParserBody) -> bool {
    let mut seen = vec![false; body.states.len()];
    let mut open = vec![body.start as usize];
    while let Some(i) = open.pop() {
        let Some(state) = body.states.get(i) else { return true };
        if std::mem::replace(&mut seen[i], true) {
            continue;
        }
        let targets: Vec<Target> = match &state.transition {
            Transition::Direct(target, _) => vec![*target],
            Transition::Select { cases, .. } => {
                if !cases.iter().any(|c| c.keysets.iter().all(|k| matches!(k, KeySet::Any))) {
                    return true;
                }
                cases.iter().map(|c| c.target).collect()
            }
        };
        for target in targets {
            match target {
                Target::State(next) => open.push(next as usize),
                Target::Accept | Target::Reject => return true,
            }
        }
    }
    false
}
