//! Key sets of select cases and table entries (P4_16, "Operations on sets").

use crate::check::Checker;
use crate::generic::is_poison;
use crate::scopes::Symbol;
use crate::typed::*;
use p4jet_syntax::ast::{self, BinaryOp};
use p4jet_syntax::diagnostic::Diagnostic;
use p4jet_syntax::span::Span;

/// The shape of a key: one value, or a tuple of keys (in selects only).
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    One(Type),
    Many(Vec<Shape>),
}

impl Shape {
    /// Collects the types of all values inside.
    fn types(&self, into: &mut Vec<Type>) {
        match self {
            Shape::One(ty) => into.push(ty.clone()),
            Shape::Many(parts) => parts.iter().for_each(|p| p.types(into)),
        }
    }
}

impl Checker {
    /// Checks a key set for keys of these shapes: one set per value, or a single one for all.
    pub(crate) fn keyset(&mut self, expr: &ast::Expr, shapes: &[Shape], what: &str) -> Option<Vec<KeySet>> {
        if matches!(expr.kind, ast::ExprKind::Default | ast::ExprKind::DontCare) {
            return Some(vec![KeySet::Any]);
        }
        if let Some(id) = self.value_set_name(expr) {
            let mut types = Vec::new();
            shapes.iter().for_each(|s| s.types(&mut types));
            return self.value_set_fits(id, &types, expr.span).then(|| vec![KeySet::ValueSet(id)]);
        }
        let mut sets = Vec::new();
        match (&expr.kind, shapes) {
            (_, [shape]) => self.shaped(expr, shape, what, &mut sets)?,
            (ast::ExprKind::Tuple(items) | ast::ExprKind::List(items, false), _) => {
                self.product(items, shapes, what, expr.span, &mut sets)?;
            }
            _ => {
                self.report(
                    Diagnostic::error(
                        "keyset",
                        expr.span,
                        format!("{what} needs {} key sets, but 1 is given", shapes.len()),
                    )
                    .note("several key sets are written `(a, b)`; `_` stands for any value"),
                );
                return None;
            }
        }
        Some(sets)
    }

    fn product(
        &mut self,
        items: &[ast::Expr],
        shapes: &[Shape],
        what: &str,
        span: Span,
        into: &mut Vec<KeySet>,
    ) -> Option<()> {
        if items.len() != shapes.len() {
            self.error(
                "keyset",
                span,
                format!("{what} needs {} key sets, but {} are given", shapes.len(), items.len()),
            );
            return None;
        }
        let mut ok = true;
        for (item, shape) in items.iter().zip(shapes) {
            ok &= self.shaped(item, shape, what, into).is_some();
        }
        ok.then_some(())
    }

    fn shaped(&mut self, expr: &ast::Expr, shape: &Shape, what: &str, into: &mut Vec<KeySet>) -> Option<()> {
        match (shape, &expr.kind) {
            // A tuple of one element is equivalent to its element.
            (Shape::One(ty), ast::ExprKind::List(items, false)) if items.len() == 1 => {
                into.push(self.single(&items[0], ty)?);
            }
            (Shape::One(ty), _) => into.push(self.single(expr, ty)?),
            (Shape::Many(_), ast::ExprKind::Default | ast::ExprKind::DontCare) => {
                let mut types = Vec::new();
                shape.types(&mut types);
                into.extend(types.iter().map(|_| KeySet::Any));
            }
            (Shape::Many(parts), ast::ExprKind::Tuple(items) | ast::ExprKind::List(items, false)) => {
                self.product(items, parts, what, expr.span, into)?;
            }
            (Shape::Many(parts), _) => {
                let text = format!("{what} needs {} key sets for this tuple, but 1 is given", parts.len());
                self.error("keyset", expr.span, text);
                return None;
            }
        }
        Some(())
    }

    fn value_set_name(&self, expr: &ast::Expr) -> Option<ValueSetId> {
        let ast::ExprKind::Path(path) = &expr.kind else { return None };
        match self.scopes.lookup(&path.name.text, path.global)?.symbol {
            Symbol::ValueSet(id) => Some(id),
            _ => None,
        }
    }

    /// True if the members of a value set are values of the key's type, or structs with a field per key.
    fn value_set_fits(&mut self, id: ValueSetId, types: &[Type], span: Span) -> bool {
        let ty = self.prog.value_sets[id.index()].ty.clone();
        if types.iter().any(is_poison) || types.len() == 1 && types[0] == ty {
            return true;
        }
        let mut parts = Vec::new();
        self.flatten(&ty, &mut parts);
        if parts.len() == types.len() && parts.iter().zip(types).all(|(a, b)| a == b) {
            return true;
        }
        let found = self.show(&ty);
        let wanted: Vec<String> = types.iter().map(|t| self.show_bare(t)).collect();
        let declared = self.prog.value_sets[id.index()].span;
        self.report(
            Diagnostic::error(
                "type-mismatch",
                span,
                format!(
                    "the members of this value set are {found}, but the keys are `{}`",
                    wanted.join(", ")
                ),
            )
            .related(declared, "declared here"),
        );
        false
    }

    /// Collects the types of the values inside a struct or tuple.
    fn flatten(&self, ty: &Type, into: &mut Vec<Type>) {
        match ty {
            Type::Struct(..) => self.fields(ty).iter().for_each(|(_, t)| self.flatten(t, into)),
            Type::Tuple(types) => types.iter().for_each(|t| self.flatten(t, into)),
            _ => into.push(ty.clone()),
        }
    }

    /// Checks the set for one key.
    fn single(&mut self, expr: &ast::Expr, ty: &Type) -> Option<KeySet> {
        match &expr.kind {
            ast::ExprKind::Default | ast::ExprKind::DontCare => Some(KeySet::Any),
            ast::ExprKind::Binary(op @ (BinaryOp::Mask | BinaryOp::Range), left, right) => {
                let (first, second) = match op {
                    BinaryOp::Mask => ("the value before `&&&`", "the mask after `&&&`"),
                    _ => ("the lower bound of the range", "the upper bound of the range"),
                };
                // Masks and ranges are numbers for every type of key.
                let number = self.base(ty);
                let number = if matches!(ty, Type::Enum(_)) { number } else { ty.clone() };
                if !is_poison(&number) && !matches!(self.base(&number), Type::Bit(_) | Type::Int(_)) {
                    let shown = self.show(ty);
                    let sign = if *op == BinaryOp::Mask { "&&&" } else { ".." };
                    self.error("type-mismatch", expr.span, format!("`{sign}` for a key of type {shown}"));
                    return None;
                }
                let a = self.expr_of(left, &number, first);
                let b = self.expr_of(right, &number, second);
                if is_poison(&a.ty) || is_poison(&b.ty) {
                    return None;
                }
                let (a, b) = if number == *ty {
                    (a, b)
                } else {
                    (self.cast_value(a, ty.clone()), self.cast_value(b, ty.clone()))
                };
                if *op == BinaryOp::Mask {
                    return Some(KeySet::Mask(a, b));
                }
                if let (ExprKind::Int(x), ExprKind::Int(y)) = (&a.kind, &b.kind)
                    && x > y
                {
                    let text = format!("the range {x} .. {y} is empty: nothing matches it");
                    self.report(Diagnostic::warning("invalid", expr.span, text));
                }
                Some(KeySet::Range(a, b))
            }
            ast::ExprKind::Tuple(_) => {
                self.error("keyset", expr.span, "a product of key sets for a single key");
                None
            }
            _ => {
                if let Some(id) = self.value_set_name(expr) {
                    return self
                        .value_set_fits(id, std::slice::from_ref(ty), expr.span)
                        .then_some(KeySet::ValueSet(id));
                }
                let value = self.expr_of(expr, ty, "the key set");
                if matches!(value.kind, ExprKind::Call(_)) {
                    self.report(
                        Diagnostic::error("keyset", expr.span, "a call in a key set")
                            .note("call it earlier, and use a variable or constant here"),
                    );
                    return None;
                }
                (!is_poison(&value.ty)).then_some(KeySet::Value(value))
            }
        }
    }

    /// True if values of a type can be keys.
    pub(crate) fn is_key_type(&self, ty: &Type) -> bool {
        match ty {
            Type::New(id) => self.is_key_type(&self.prog.new_types[id.index()].ty),
            Type::Bit(_) | Type::Int(_) | Type::Bool | Type::Enum(_) | Type::Error => true,
            _ => is_poison(ty),
        }
    }
}
