//! L-values: where an assignment, an `out` argument or an extraction goes.
//!
//! P4_16 "l-values": the index and slice expressions inside are evaluated once, when the l-value is; the place then stays
//! the same whatever happens to the variables in them.

use std::collections::HashMap;

use p4jet_analysis::typed::{self, ExprKind};
use p4jet_ir::{BinaryOp, Expr, FieldId, Program, Terminator};
use p4jet_syntax::span::Span;

use crate::build;
use crate::context::{Binding, Lowered, Lowerer};
use crate::value::{Storage, Value};

/// A place.
#[derive(Clone, Debug)]
pub enum Place {
    /// Known now.
    Storage(Storage),
    /// One of several, by the value of an index that is a constant or temporary.
    Element {
        /// Which.
        index: Expr,
        /// The candidates; beyond them nothing is written and 0 is read.
        elements: Vec<Place>,
        /// For `s.next`: the stack's `nextIndex`, which an extraction moves.
        next: Option<FieldId>,
    },
    /// Bits `hi` to `lo` of a scalar.
    Slice(Box<Place>, u32, u32),
    /// `width` bits of a scalar from bit `lo` on.
    SliceAt(Box<Place>, Expr, u32),
}

impl Place {
    /// The storage, if it is known now.
    pub fn storage(&self) -> Option<&Storage> {
        match self {
            Place::Storage(s) => Some(s),
            _ => None,
        }
    }

    /// A field of a struct or header, a member of a union.
    pub fn part(&self, index: usize) -> Option<Place> {
        match self {
            Place::Storage(s) => s.parts().get(index).cloned().map(Place::Storage),
            Place::Element { index: i, elements, next } => {
                let elements = elements.iter().map(|e| e.part(index)).collect::<Option<_>>()?;
                Some(Place::Element { index: i.clone(), elements, next: *next })
            }
            Place::Slice(..) | Place::SliceAt(..) => None,
        }
    }
}

/// What is done with the storage of a place; the last argument names the `nextIndex` that an extraction moves, and to
/// what.
type OnStorage<'f, Cx> = dyn FnMut(&mut Cx, &Storage, Option<(FieldId, u32)>) -> Lowered<()> + 'f;

impl Lowerer<'_> {
    /// Whether the expression denotes a place: something to assign to, or at least to refer to.
    pub(crate) fn is_place(&self, e: &typed::Expr) -> bool {
        match &e.kind {
            ExprKind::Var(v) => matches!(self.binding(*v), Some(Binding::Storage(_))),
            ExprKind::Field(base, _)
            | ExprKind::Index(base, _)
            | ExprKind::Slice(base, ..)
            | ExprKind::StackNext(base)
            | ExprKind::StackLast(base) => self.is_place(base),
            ExprKind::SliceAt { value, .. } => self.is_place(value),
            _ => false,
        }
    }

    /// Evaluates an l-value.
    pub(crate) fn place(&mut self, e: &typed::Expr) -> Lowered<Place> {
        match &e.kind {
            ExprKind::Var(v) => match self.binding(*v) {
                Some(Binding::Storage(s)) => Ok(Place::Storage(s)),
                _ => {
                    let name = &self.program.vars[v.index()].name;
                    self.bug(e.span, format!("`{name}` has no storage"))
                }
            },
            ExprKind::Field(base, index) => {
                let base = self.place(base)?;
                match base.part(*index as usize) {
                    Some(part) => Ok(part),
                    None => self.bug(e.span, "a field of something without fields"),
                }
            }
            ExprKind::Index(base, index) => {
                let base = self.place(base)?;
                let ty = self.ty(&index.ty);
                let index = self.expr(index)?;
                let index = self.scalar_of(index, &ty, e.span)?;
                self.element(&base, index, None)
            }
            ExprKind::Slice(base, hi, lo) => Ok(Place::Slice(Box::new(self.place(base)?), *hi, *lo)),
            ExprKind::SliceAt { value, lo, width } => {
                let base = self.place(value)?;
                let ty = self.ty(&lo.ty);
                let lo = self.expr(lo)?;
                let lo = self.scalar_of(lo, &ty, e.span)?;
                let lo = self.snapshot_expr(lo);
                Ok(Place::SliceAt(Box::new(base), lo, *width))
            }
            ExprKind::StackNext(base) | ExprKind::StackLast(base) => {
                let is_next = matches!(e.kind, ExprKind::StackNext(_));
                let base = self.place(base)?;
                let Value::Stack { next, elements } = self.read(&base) else {
                    return self.bug(e.span, "next or last of something that is no stack");
                };
                self.next_or_last(next, elements.len() as u32, is_next)?;
                self.next_or_last_place(&base, is_next, e.span)
            }
            _ => self.bug(e.span, "an expression that is no l-value"),
        }
    }

    pub(crate) fn reject_when(&mut self, cond: Expr, error: &str) -> Lowered<()> {
        let code = self.error_code(error);
        self.when(cond, |cx| {
            cx.reject(code);
            Ok(())
        })
    }

    /// P4_16 "operations on header stacks": the index of `next` or `last`; if there is no such element, the parser
    /// rejects.
    pub(crate) fn next_or_last(&mut self, next: Expr, size: u32, is_next: bool) -> Lowered<Expr> {
        let next = self.atom(next);
        if is_next {
            let full = build::binary(BinaryOp::LeU, Expr::constant(size, 32), next.clone());
            self.reject_when(full, "StackOutOfBounds")?;
            return Ok(next);
        }
        let empty = build::eq(next.clone(), build::zero(32));
        self.reject_when(empty, "StackOutOfBounds")?;
        Ok(build::binary(BinaryOp::Sub, next, Expr::constant(1u32, 32)))
    }

    /// The element that `next` or `last` means, for each stack that `base` may be.
    fn next_or_last_place(&mut self, base: &Place, is_next: bool, span: Span) -> Lowered<Place> {
        match base {
            Place::Storage(Storage::Stack { next, .. }) => {
                let (next, index) = (*next, Expr::Field(*next));
                if is_next {
                    return self.element(base, index, Some(next));
                }
                let last = build::binary(BinaryOp::Sub, index, Expr::constant(1u32, 32));
                self.element(base, last, None)
            }
            Place::Element { index, elements, .. } => {
                let mut inner = Vec::new();
                for stack in elements {
                    inner.push(self.next_or_last_place(stack, is_next, span)?);
                }
                Ok(Place::Element { index: index.clone(), elements: inner, next: None })
            }
            _ => self.bug(span, "next or last of something that is no stack"),
        }
    }

    /// The element of a stack, array or tuple that a constant or run-time index chooses.
    fn element(&mut self, base: &Place, index: Expr, next: Option<FieldId>) -> Lowered<Place> {
        let index = self.snapshot_expr(index);
        Ok(element_of(base, &index, next))
    }

    /// The value now there.
    pub fn read(&mut self, place: &Place) -> Value {
        match place {
            Place::Storage(s) => s.read(),
            Place::Element { index, elements, .. } => {
                let parts: Vec<Value> = elements.iter().map(|e| self.read(e)).collect();
                // Beyond the end: 0, as all that is undefined.
                let beyond = match parts.first() {
                    Some(part) => part.clone().map(&mut |e| build::zero(self.width(&e))),
                    None => Value::Void,
                };
                Value::pick(&parts, index, self.width(index), beyond)
            }
            Place::Slice(base, hi, lo) => match self.read(base) {
                Value::Scalar(e) => Value::Scalar(build::slice(&self.ir, e, *hi, *lo)),
                other => other,
            },
            Place::SliceAt(base, lo, width) => match self.read(base) {
                Value::Scalar(e) => Value::Scalar(self.slice_at(e, lo.clone(), *width)),
                other => other,
            },
        }
    }

    /// `width` bits of `e` from bit `lo` on; bits beyond the end are 0.
    pub(crate) fn slice_at(&mut self, e: Expr, lo: Expr, width: u32) -> Expr {
        let shifted = build::binary(BinaryOp::ShrU, e, lo);
        build::resize(&self.ir, shifted, width)
    }

    /// Runs `f` with the storage of the place: once if it is known, else once per candidate behind a switch.
    pub fn with_storage(
        &mut self,
        place: &Place,
        f: &mut dyn FnMut(&mut Self, &Storage) -> Lowered<()>,
    ) -> Lowered<()> {
        self.with_storage_then(place, &mut |cx, storage, _| f(cx, storage))
    }

    /// As [`Lowerer::with_storage`]; `f` is also told which `nextIndex` an extraction moves, and to what.
    pub(crate) fn with_storage_then(&mut self, place: &Place, f: &mut OnStorage<'_, Self>) -> Lowered<()> {
        match place {
            Place::Storage(s) => f(self, s, None),
            Place::Element { index, elements, next } => {
                let width = self.width(index);
                let join = self.node();
                let mut arms = Vec::new();
                for i in 0..elements.len() {
                    if num_bigint::BigUint::from(i) <= build::ones(width) {
                        arms.push((num_bigint::BigUint::from(i), self.node()));
                    }
                }
                self.terminate(Terminator::Switch {
                    value: index.clone(),
                    cases: arms.clone(),
                    default: join,
                });
                let mut result = Ok(());
                for ((_, node), (i, element)) in arms.into_iter().zip(elements.iter().enumerate()) {
                    self.enter(node);
                    let moved = next.map(|n| (n, i as u32 + 1));
                    result = result
                        .and(self.with_storage_then(element, &mut |cx, s, inner| f(cx, s, inner.or(moved))));
                    self.goto(join);
                }
                self.enter(join);
                result
            }
            Place::Slice(..) | Place::SliceAt(..) => self.bug(self.span, "a slice used as a whole"),
        }
    }

    /// `place = value`, of any type; both have the same shape.
    pub fn assign(&mut self, place: &Place, value: Value) -> Lowered<()> {
        match place {
            Place::Storage(s) => {
                self.assign_storage(s, value);
                Ok(())
            }
            Place::Element { .. } => {
                let value = self.snapshot_unless_atomic(value);
                self.with_storage(place, &mut |cx, storage| {
                    cx.assign_storage(storage, value.clone());
                    Ok(())
                })
            }
            Place::Slice(base, hi, lo) => {
                let (Value::Scalar(old), Value::Scalar(new)) = (self.read(base), value) else {
                    return self.bug(self.span, "a slice of something that is no scalar");
                };
                let width = self.width(&old);
                let mut result = new;
                if *lo > 0 {
                    let low = build::slice(&self.ir, old.clone(), lo - 1, 0);
                    result = Expr::Concat(Box::new(result), Box::new(low));
                }
                if hi + 1 < width {
                    let high = build::slice(&self.ir, old, width - 1, hi + 1);
                    result = Expr::Concat(Box::new(high), Box::new(result));
                }
                self.assign(base, Value::Scalar(result))
            }
            Place::SliceAt(base, lo, slice_width) => {
                let (Value::Scalar(old), Value::Scalar(new)) = (self.read(base), value) else {
                    return self.bug(self.span, "a slice of something that is no scalar");
                };
                let width = self.width(&old);
                let mask = Expr::constant(build::ones((*slice_width).min(width)), width);
                let hole = build::not(build::binary(BinaryOp::Shl, mask, lo.clone()));
                let new = build::resize(&self.ir, new, width);
                let placed = build::binary(BinaryOp::Shl, new, lo.clone());
                let kept = build::binary(BinaryOp::And, old, hole);
                self.assign(base, Value::Scalar(build::binary(BinaryOp::Or, kept, placed)))
            }
        }
    }

    /// The value itself where mentioning it again costs nothing, else a copy.
    pub(crate) fn snapshot_unless_atomic(&mut self, value: Value) -> Value {
        if value.is_const() { value } else { self.snapshot(value) }
    }

    /// `storage = value`, scalar by scalar as if at once.
    pub(crate) fn assign_storage(&mut self, storage: &Storage, value: Value) {
        let value = shape_like(&self.ir, storage, value);
        let dests = storage.leaves();
        let mut sources = value.leaves();
        if dests.len() != sources.len() {
            let _: Lowered<()> = self.bug(self.span, "an assignment between values of different shape");
            return;
        }
        // `t = { t.b, t.a }`: what a later scalar reads must not be overwritten by an earlier one.
        let order: HashMap<FieldId, usize> = dests.iter().enumerate().map(|(i, f)| (*f, i)).collect();
        for (i, source) in sources.iter_mut().enumerate() {
            let mut clobbered = false;
            source.for_each_field(&mut |f| clobbered |= order.get(&f).is_some_and(|at| *at < i));
            if clobbered {
                *source = self.snapshot_expr(source.clone());
            }
        }
        for (dest, source) in dests.into_iter().zip(sources) {
            self.set(dest, source);
        }
        // P4_16 "header unions": an assignment to a member is `setValid` or `setInvalid` of it, and both leave no other
        // member valid.
        if let Storage::Header { id, .. } = storage {
            self.invalidate_siblings(*id);
        }
    }

    /// Makes the other members of a header's union invalid.
    pub(crate) fn invalidate_siblings(&mut self, id: p4jet_ir::HeaderId) {
        let Some(siblings) = self.siblings.get(&id).cloned() else { return };
        for sibling in siblings {
            let header = &self.ir.headers[sibling.index()];
            let mut fields = vec![header.valid];
            for f in &header.fields {
                fields.push(f.field);
                fields.extend(f.varbit_length);
            }
            for field in fields {
                self.set(field, build::zero(self.ir.width(field)));
            }
        }
    }

    /// P4_16 "operations on headers": `setValid`. An invalid header's fields are 0 already.
    pub(crate) fn set_valid(&mut self, storage: &Storage) {
        if let Storage::Header { id, valid, .. } = storage {
            self.set(*valid, build::truth(true));
            self.invalidate_siblings(*id);
        }
    }
}

/// The element that an index chooses, for each aggregate that `base` may be.
fn element_of(base: &Place, index: &Expr, next: Option<FieldId>) -> Place {
    let elements = match base {
        Place::Element { index: outer, elements, .. } => {
            let elements = elements.iter().map(|e| element_of(e, index, next)).collect();
            return Place::Element { index: outer.clone(), elements, next: None };
        }
        Place::Storage(storage) => storage.parts(),
        Place::Slice(..) | Place::SliceAt(..) => &[],
    };
    if let Some(i) = build::as_const(index) {
        let i = u32::try_from(i).unwrap_or(u32::MAX) as usize;
        if let Some(element) = elements.get(i) {
            return Place::Storage(element.clone());
        }
    }
    let elements = elements.iter().cloned().map(Place::Storage).collect();
    Place::Element { index: index.clone(), elements, next }
}

/// A list or struct value takes the shape of the header or stack that it is assigned to.
fn shape_like(program: &Program, storage: &Storage, value: Value) -> Value {
    let zip = |storages: &[Storage], values: Vec<Value>| -> Vec<Value> {
        storages.iter().zip(values).map(|(s, v)| shape_like(program, s, v)).collect()
    };
    match (storage, value) {
        (Storage::Struct(s), Value::Struct(v)) => Value::Struct(zip(s, v)),
        (Storage::Union(s), Value::Union(v) | Value::Struct(v)) => Value::Union(zip(s, v)),
        (Storage::Header { fields, .. }, Value::Header { valid, fields: v }) => {
            Value::Header { valid, fields: zip(fields, v) }
        }
        (Storage::Header { fields, .. }, Value::Struct(v)) => {
            Value::Header { valid: build::truth(true), fields: zip(fields, v) }
        }
        (Storage::Stack { elements, .. }, Value::Stack { elements: v, next }) => {
            Value::Stack { elements: zip(elements, v), next }
        }
        (Storage::Stack { elements, .. }, Value::Struct(v)) => {
            Value::Stack { elements: zip(elements, v), next: build::zero(32) }
        }
        (Storage::Scalar(field), Value::Integer(n)) => {
            let width = program.width(*field);
            Value::Scalar(Expr::constant(build::pattern(&n, width), width))
        }
        (_, value) => value,
    }
}
