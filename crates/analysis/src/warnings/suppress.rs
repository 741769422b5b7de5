//! `@noWarn("name")`: suppresses warnings of that name about the annotated thing and everything inside it.

use super::{NAMES, contains, is_name};
use p4jet_syntax::ast::{self, Annotation, AnnotationBody, DeclKind, StmtKind, TablePropertyKind};
use p4jet_syntax::diagnostic::{Diagnostic, Severity};
use p4jet_syntax::span::Span;

/// Drops the warnings that annotations suppress; reports annotations that name no warning.
pub(super) fn apply(tree: &ast::Program, found: &mut Vec<Diagnostic>) {
    let mut regions = Regions { found: Vec::new(), unknown: Vec::new() };
    tree.decls.iter().for_each(|decl| regions.decl(decl));
    for (span, name) in regions.unknown {
        let mut diagnostic =
            Diagnostic::warning("unknown", span, format!("`@noWarn` of an unknown warning `{name}`"));
        diagnostic = diagnostic.suggest(&name, NAMES.iter().map(|(name, _)| *name));
        found.push(diagnostic);
    }
    if regions.found.is_empty() {
        return;
    }
    found.retain(|d| {
        d.severity == Severity::Error
            || !regions.found.iter().any(|(span, name)| name == d.code && contains(*span, d.span))
    });
}

struct Regions {
    found: Vec<(Span, String)>,
    unknown: Vec<(Span, String)>,
}

impl Regions {
    /// Records the annotations of something at `span`.
    fn annotations(&mut self, annotations: &[Annotation], span: Span) {
        for annotation in annotations.iter().filter(|a| a.name.text == "noWarn") {
            let AnnotationBody::Tokens(tokens) = &annotation.body else { continue };
            for token in tokens.iter().filter(|token| token.is_string) {
                let name = token.text.replace('_', "-");
                if is_name(&name) {
                    self.found.push((span, name));
                } else {
                    self.unknown.push((annotation.span, token.text.clone()));
                }
            }
        }
    }

    fn decl(&mut self, decl: &ast::Decl) {
        self.annotations(&decl.annotations, decl.span);
        match &decl.kind {
            DeclKind::Function(f) => {
                self.params(&f.proto.params);
                self.block(&f.body);
            }
            DeclKind::Action(a) => {
                self.params(&a.params);
                self.block(&a.body);
            }
            DeclKind::Parser(p) => {
                self.params(&p.params);
                let Some(body) = &p.body else { return };
                body.locals.iter().for_each(|local| self.decl(local));
                for state in &body.states {
                    self.annotations(&state.annotations, state.span);
                    state.stmts.iter().for_each(|stmt| self.stmt(stmt));
                }
            }
            DeclKind::Control(c) => {
                self.params(&c.params);
                let Some(body) = &c.body else { return };
                body.locals.iter().for_each(|local| self.decl(local));
                self.block(&body.apply);
            }
            DeclKind::Instance(i) => i.init.iter().flatten().for_each(|inner| self.decl(inner)),
            DeclKind::Table(t) => t.properties.iter().for_each(|property| self.property(property)),
            _ => {}
        }
    }

    fn params(&mut self, params: &[ast::Param]) {
        params.iter().for_each(|param| self.annotations(&param.annotations, param.span));
    }

    fn property(&mut self, property: &ast::TableProperty) {
        self.annotations(&property.annotations, property.span);
        match &property.kind {
            TablePropertyKind::Key(keys) => {
                keys.iter().for_each(|key| self.annotations(&key.annotations, key.span));
            }
            TablePropertyKind::Entries(entries) => {
                entries.iter().for_each(|entry| self.annotations(&entry.annotations, entry.span));
            }
            TablePropertyKind::Actions(_) | TablePropertyKind::Custom(..) => {}
        }
    }

    fn block(&mut self, block: &ast::Block) {
        self.annotations(&block.annotations, block.span);
        block.stmts.iter().for_each(|stmt| self.stmt(stmt));
    }

    fn stmt(&mut self, stmt: &ast::Stmt) {
        match &stmt.kind {
            StmtKind::Decl(decl) => self.decl(decl),
            StmtKind::Block(block) => self.block(block),
            StmtKind::If(_, then, other) => {
                self.stmt(then);
                other.iter().for_each(|stmt| self.stmt(stmt));
            }
            StmtKind::Switch(_, cases) => {
                cases.iter().filter_map(|case| case.body.as_ref()).for_each(|body| self.block(body));
            }
            StmtKind::For { annotations, body, .. } | StmtKind::ForIn { annotations, body, .. } => {
                self.annotations(annotations, stmt.span);
                self.stmt(body);
            }
            _ => {}
        }
    }
}
