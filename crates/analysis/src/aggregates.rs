//! Initialisers: `{ … }`, `{ k = v }`, `...`, `{#}` (P4_16, "Operations on tuple expressions", "Operations on
//! structure-valued expressions", "Initializing with default values").

use crate::check::Checker;
use crate::consts::{operand_units, own_units};
use crate::exprs::soft;
use crate::generic::{POISON, is_poison, nodes};
use crate::typed::*;
use crate::types::struct_kind_name;
use num_bigint::BigInt;
use num_traits::Zero;
use p4jet_suggest as suggest;
use p4jet_syntax::ast::{self, StructKind};
use p4jet_syntax::diagnostic::Diagnostic;
use p4jet_syntax::span::Span;

impl Checker {
    /// `{ e, … }`
    pub(crate) fn list(
        &mut self,
        items: &[ast::Expr],
        dots: bool,
        expected: Option<&Type>,
        span: Span,
    ) -> Expr {
        let expected = expected.map(|t| self.known(t));
        let (wanted, ty, what): (Vec<Type>, Type, String) = match &expected {
            Some(ty @ Type::Struct(..)) if self.struct_kind(ty) != Some(StructKind::HeaderUnion) => {
                let fields = self.fields(ty).into_iter().map(|(_, t)| t).collect();
                (fields, ty.clone(), self.show(ty))
            }
            Some(ty @ Type::Tuple(types)) => (types.clone(), ty.clone(), self.show(ty)),
            Some(ty @ Type::Stack(element, n)) => {
                (vec![(**element).clone(); *n as usize], ty.clone(), self.show(ty))
            }
            Some(ty @ Type::List(element)) => {
                (vec![(**element).clone(); items.len()], ty.clone(), self.show(ty))
            }
            _ => {
                if dots {
                    for item in items {
                        self.expr(item, None);
                    }
                    self.error("cannot-infer", span, "cannot determine which elements `...` stands for");
                    return self.poison(span);
                }
                let items: Vec<Expr> = items.iter().map(|e| self.expr(e, None)).collect();
                let types: Vec<Type> = items.iter().map(|e| e.ty.clone()).collect();
                let poisoned = types.iter().any(is_poison);
                for (item, ty) in items.iter().zip(&types) {
                    if matches!(ty, Type::ApplyResult(_) | Type::ActionEnum(_) | Type::Set(_)) {
                        let shown = self.show(ty);
                        self.error("type-nesting", item.span, format!("{shown} cannot be part of a tuple"));
                    }
                }
                let ty = if poisoned { POISON } else { Type::Tuple(types) };
                return Expr { ty, kind: ExprKind::Aggregate(items), span };
            }
        };
        if items.len() > wanted.len() || (items.len() < wanted.len() && !dots) {
            for item in items.iter().filter(|e| !soft(e)) {
                self.expr(item, None);
            }
            let mut diagnostic = Diagnostic::error(
                "element-count",
                span,
                format!(
                    "{what} has {} {}, but {} {} given",
                    wanted.len(),
                    elements(&ty, wanted.len()),
                    items.len(),
                    if items.len() == 1 { "is" } else { "are" }
                ),
            );
            if items.len() < wanted.len() {
                diagnostic = diagnostic.note("`...` at the end stands for default values of the others");
            }
            self.report(diagnostic);
            return self.poison(span);
        }
        let mut done = Vec::with_capacity(wanted.len());
        let mut poisoned = false;
        for (i, target) in wanted.iter().enumerate() {
            let value = match items.get(i) {
                Some(item) => {
                    let name = format!("element {} of {what}", i + 1);
                    self.expr_of(item, target, &name)
                }
                None => self.default_value(target, span),
            };
            poisoned |= is_poison(&value.ty);
            done.push(value);
        }
        Expr { ty: if poisoned { POISON } else { self.known(&ty) }, kind: ExprKind::Aggregate(done), span }
    }

    /// `{ k = e, … }`
    pub(crate) fn record(
        &mut self,
        given: &[(ast::Ident, ast::Expr)],
        dots: bool,
        expected: Option<&Type>,
        span: Span,
    ) -> Expr {
        let expected = expected.map(|t| self.known(t));
        let ty = match expected {
            Some(ty @ Type::Struct(..)) => ty,
            other => {
                for (_, value) in given.iter().filter(|(_, v)| !soft(v)) {
                    self.expr(value, None);
                }
                match other {
                    Some(ty) if is_poison(&ty) => {}
                    Some(ty) if !self.is_unknown(&ty) => {
                        let shown = self.show(&ty);
                        self.error(
                            "type-mismatch",
                            span,
                            format!("`{{ name = value }}` makes a struct, not {shown}"),
                        );
                    }
                    _ => self.report(
                        Diagnostic::error(
                            "cannot-infer",
                            span,
                            "cannot determine which struct this value is",
                        )
                        .note("name the type: `(S) { name = value }`"),
                    ),
                }
                return self.poison(span);
            }
        };
        let kind = self.struct_kind(&ty).map_or("struct", struct_kind_name);
        let shown = self.show(&ty);
        let fields = self.fields(&ty);
        let names: Vec<String> = fields.iter().map(|(n, _)| n.clone()).collect();
        let mut values: Vec<Option<Expr>> = vec![None; fields.len()];
        let mut poisoned = false;
        for (name, value) in given {
            let Some(i) = names.iter().position(|n| *n == name.text) else {
                if !soft(value) {
                    self.expr(value, None);
                }
                let mut diagnostic = Diagnostic::error(
                    "unknown-field",
                    name.span,
                    format!("{shown} has no field `{}`", name.text),
                );
                diagnostic = diagnostic.suggest(&name.text, names.iter().map(String::as_str));
                self.report(crate::exprs::with_fields(diagnostic, &names));
                poisoned = true;
                continue;
            };
            let value = self.expr_of(value, &fields[i].1, &format!("field `{}` of {shown}", name.text));
            if values[i].is_some() {
                self.error("duplicate-field", name.span, format!("field `{}` is given twice", name.text));
                poisoned = true;
            }
            poisoned |= is_poison(&value.ty);
            values[i] = Some(value);
        }
        let missing: Vec<String> =
            names.iter().zip(&values).filter(|(_, v)| v.is_none()).map(|(n, _)| n.clone()).collect();
        if kind == "header_union" {
            self.unsupported(span, "values of header unions");
            return self.poison(span);
        }
        if !missing.is_empty() && !dots {
            if !poisoned {
                self.report(
                    Diagnostic::error(
                        "missing-field",
                        span,
                        format!("this value of {shown} leaves out {}", suggest::list(&missing)),
                    )
                    .note("`...` at the end stands for default values of the others"),
                );
            }
            return self.poison(span);
        }
        let mut done = Vec::with_capacity(fields.len());
        for (value, (_, target)) in values.into_iter().zip(&fields) {
            let value = match value {
                Some(value) => value,
                None => self.default_value(target, span),
            };
            poisoned |= is_poison(&value.ty);
            done.push(value);
        }
        Expr { ty: if poisoned { POISON } else { self.known(&ty) }, kind: ExprKind::Aggregate(done), span }
    }

    /// `{#}`
    pub(crate) fn invalid(&mut self, expected: Option<&Type>, span: Span) -> Expr {
        match expected.map(|t| self.known(t)) {
            Some(ty)
                if matches!(self.struct_kind(&ty), Some(StructKind::Header | StructKind::HeaderUnion)) =>
            {
                Expr { ty, kind: ExprKind::Invalid, span }
            }
            Some(ty) if is_poison(&ty) => self.poison(span),
            Some(ty) if !self.is_unknown(&ty) => {
                let shown = self.show(&ty);
                self.error(
                    "type-mismatch",
                    span,
                    format!("`{{#}}` is a header or header union, not {shown}"),
                );
                self.poison(span)
            }
            _ => {
                self.report(
                    Diagnostic::error("cannot-infer", span, "cannot determine which header `{#}` is")
                        .note("name the type: `(H) {#}`"),
                );
                self.poison(span)
            }
        }
    }

    /// Returns the meaning of `...` (P4_16, "Default values").
    pub(crate) fn default_value(&mut self, ty: &Type, span: Span) -> Expr {
        if !self.spend(nodes(ty) as u64, span) {
            return self.poison(span);
        }
        let kind = match ty {
            Type::Bit(_) | Type::Int(_) | Type::Integer => ExprKind::Int(BigInt::zero()),
            Type::Bool => ExprKind::Bool(false),
            Type::Error => ExprKind::Error(0),
            Type::String => ExprKind::String(String::new()),
            // A serializable enum's default is 0, whether or not a member has that value.
            Type::Enum(id) if self.prog.enums[id.index()].underlying.is_some() => {
                ExprKind::Int(BigInt::zero())
            }
            Type::Enum(_) => ExprKind::EnumMember(0),
            Type::New(id) => {
                let inner = self.prog.new_types[id.index()].ty.clone();
                let inner = self.default_value(&inner, span);
                if is_poison(&inner.ty) {
                    return inner;
                }
                inner.kind
            }
            Type::Struct(..) if self.struct_kind(ty) == Some(StructKind::Struct) => {
                let fields = self.fields(ty);
                ExprKind::Aggregate(fields.iter().map(|(_, t)| self.default_value(t, span)).collect())
            }
            // For a varbit this means that it has no bits.
            Type::Struct(..) | Type::Varbit(_) => ExprKind::Invalid,
            Type::Tuple(types) => {
                ExprKind::Aggregate(types.iter().map(|t| self.default_value(t, span)).collect())
            }
            Type::Stack(element, n) => {
                let one = self.default_value(element, span);
                let others = u64::from(n.saturating_sub(1));
                if !self.spend(others * (1 + own_units(&one) + operand_units(&one)), span) {
                    return self.poison(span);
                }
                ExprKind::Aggregate(vec![one; *n as usize])
            }
            _ if is_poison(ty) => return self.poison(span),
            _ => {
                let shown = self.show(ty);
                self.error("type-mismatch", span, format!("{shown} has no default value"));
                return self.poison(span);
            }
        };
        Expr { ty: ty.clone(), kind, span }
    }
}

fn elements(ty: &Type, n: usize) -> &'static str {
    match (ty, n) {
        (Type::Struct(..), 1) => "field",
        (Type::Struct(..), _) => "fields",
        (_, 1) => "element",
        _ => "elements",
    }
}
