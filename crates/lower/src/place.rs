//! L-values: the destinations of assignments, `out` arguments and extractions.
//!
//! P4_16 "l-values": index and slice expressions are evaluated once, together with the l-value; the place then stays the
//! same even if their variables change.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use num_bigint::BigUint;
use p4jet_analysis::typed::{self, ExprKind};
use p4jet_ir::{BinaryOp, Column, Expr, FieldId, HeaderColumn, HeaderId, Op, Program};
use p4jet_syntax::span::Span;

use crate::build;
use crate::context::{Lowered, Lowerer};
use crate::scope::Binding;
use crate::value::{Columns, Storage, Value};

/// A place.
#[derive(Clone, Debug)]
pub enum Place {
    /// Known at compile time.
    Storage(Storage),
    /// Selected at run time.
    Element(Element),
    /// Bits `hi` to `lo` of a scalar.
    Slice(Box<Place>, u32, u32),
    /// `width` bits of a scalar from bit `lo` on.
    SliceAt(Box<Place>, Expr, u32),
}

/// An element of an array or stack, or part of one, that run-time indices select. If an index is too large, nothing is
/// written and 0 is read.
#[derive(Clone, Debug)]
pub struct Element {
    /// The storage if all indices are 0.
    first: Storage,
    /// The indices, outermost first.
    choices: Vec<Choice>,
    /// For `s.next`: the stack's `nextIndex`, and its value after an extraction.
    next: Option<Box<(Place, Expr)>>,
}

/// One of the indices.
#[derive(Clone, Debug)]
struct Choice {
    /// A constant or temporary.
    index: Expr,
    /// Number of elements.
    count: u32,
    /// The storage if this index is 1 and the others are 0; `None` if there is only one element.
    second: Option<Storage>,
}

impl Place {
    /// Returns the storage, if it is known at compile time.
    pub fn storage(&self) -> Option<&Storage> {
        match self {
            Place::Storage(s) => Some(s),
            _ => None,
        }
    }

    /// Returns a field of a struct or header, or a member of a union.
    pub fn part(&self, index: usize) -> Option<Place> {
        self.map(&|storage| storage.parts().get(index).cloned())
    }

    /// Applies `f` to the storage.
    fn map(&self, f: &dyn Fn(&Storage) -> Option<Storage>) -> Option<Place> {
        match self {
            Place::Storage(s) => f(s).map(Place::Storage),
            Place::Element(element) => element.map(f).map(Place::Element),
            Place::Slice(..) | Place::SliceAt(..) => None,
        }
    }

    /// Returns the structure of the place's storage: all elements of an array have the same.
    fn shape(&self) -> Option<&Storage> {
        match self {
            Place::Storage(s) | Place::Element(Element { first: s, .. }) => Some(s),
            Place::Slice(..) | Place::SliceAt(..) => None,
        }
    }
}

impl Element {
    fn map(&self, f: &dyn Fn(&Storage) -> Option<Storage>) -> Option<Element> {
        let choices = self.choices.iter().map(|choice| {
            let second = match &choice.second {
                Some(second) => Some(f(second)?),
                None => None,
            };
            Some(Choice { second, ..choice.clone() })
        });
        Some(Element {
            first: f(&self.first)?,
            choices: choices.collect::<Option<_>>()?,
            next: self.next.clone(),
        })
    }
}

impl Lowerer<'_> {
    /// True if the expression denotes a place that can be assigned to or at least referred to.
    pub(crate) fn is_place(&self, e: &typed::Expr) -> bool {
        match &e.kind {
            ExprKind::Var(v) => matches!(self.binding_of(*v), Some(Binding::Storage(_))),
            ExprKind::Field(base, _)
            | ExprKind::Index(base, _)
            | ExprKind::Slice(base, ..)
            | ExprKind::StackNext(base)
            | ExprKind::StackLast(base) => self.is_place(base),
            ExprKind::SliceAt { value, .. } => self.is_place(value),
            _ => false,
        }
    }

    /// Returns the storage of a variable or of a field inside one. Only the requested part is copied, because a struct of
    /// all headers has thousands of fields.
    fn known_storage(&self, e: &typed::Expr) -> Option<&Storage> {
        match &e.kind {
            ExprKind::Var(v) => match self.binding_of(*v)? {
                Binding::Storage(storage) => Some(storage),
                Binding::Value(_) => None,
            },
            ExprKind::Field(base, field) => self.known_storage(base)?.parts().get(*field as usize),
            _ => None,
        }
    }

    /// Evaluates an l-value.
    pub(crate) fn place(&mut self, e: &typed::Expr) -> Lowered<Place> {
        if let Some(storage) = self.known_storage(e) {
            return Ok(Place::Storage(storage.clone()));
        }
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
                let (next, size) = self.next_index(&base, e.span)?;
                let now = self.scalar_at(&next, e.span)?;
                let index = self.next_or_last(now, size, is_next)?;
                self.element(&base, index, is_next.then_some(next))
            }
            _ => self.bug(e.span, "an expression that is not an l-value"),
        }
    }

    pub(crate) fn reject_when(&mut self, cond: Expr, error: &str) -> Lowered<()> {
        let code = self.error_code(error);
        self.when(cond, |cx| {
            cx.reject(code);
            Ok(())
        })
    }

    /// P4_16 "operations on header stacks": returns the index of `next` or `last`; if there is no such element, the parser
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

    /// Returns the `nextIndex` of a stack and the number of its elements.
    pub(crate) fn next_index(&mut self, stack: &Place, span: Span) -> Lowered<(Place, u32)> {
        let next = stack.map(&|storage| match storage {
            Storage::Stack { next, .. } => Some(Storage::Scalar(*next)),
            _ => None,
        });
        match (next, stack.shape()) {
            (Some(next), Some(shape)) => Ok((next, shape.parts().len() as u32)),
            _ => self.bug(span, "next or last of something that is not a stack"),
        }
    }

    /// Returns the value of a scalar place.
    pub(crate) fn scalar_at(&mut self, place: &Place, span: Span) -> Lowered<Expr> {
        match self.read(place)? {
            Value::Scalar(e) => Ok(e),
            _ => self.bug(span, "something that is not a scalar"),
        }
    }

    /// Returns the element of a stack, array or tuple that a constant or run-time index selects; an extraction into it
    /// advances `next`.
    fn element(&mut self, base: &Place, index: Expr, next: Option<Place>) -> Lowered<Place> {
        let index = self.snapshot_expr(index);
        let count = base.shape().map_or(0, |shape| shape.parts().len());
        if let Some(i) = build::as_const(&index).and_then(|i| usize::try_from(i).ok())
            && let Some(element) = base.part(i)
        {
            return Ok(element);
        }
        let (Some(first), second) = (base.part(0), base.part(1)) else {
            // Analysis warns about arrays of size 0.
            return self.unsupported(self.span, "an index of an array without elements");
        };
        let moved = next.map(|next| {
            let one = Expr::constant(1u32, 32);
            Box::new((next, build::binary(BinaryOp::Add, index.clone(), one)))
        });
        let of = |place: &Place| place.shape().cloned();
        let choice = Choice { index, count: count as u32, second: second.as_ref().and_then(of) };
        Ok(Place::Element(match first {
            Place::Element(mut element) => {
                element.choices.push(choice);
                element.next = moved.or(element.next);
                element
            }
            Place::Storage(first) => Element { first, choices: vec![choice], next: moved },
            Place::Slice(..) | Place::SliceAt(..) => return self.bug(self.span, "an index of a slice"),
        }))
    }

    /// Records that storage is an array whose elements may be selected at run time. Its elements have been recorded before.
    pub(crate) fn note_array(&mut self, elements: &[Storage]) {
        let leaves: Vec<Vec<FieldId>> = elements.iter().map(Storage::leaves).collect();
        note_columns(&mut self.columns, &leaves);
        let headers: Vec<Vec<HeaderId>> = elements.iter().map(Storage::headers).collect();
        note_columns(&mut self.header_columns, &headers);
    }

    /// Returns the position of the part that the indices select among all of its kind; `first` is the one for indices 0.
    /// For each index, `seconds` has the part for index 1.
    fn locate<T: Copy + Eq + Hash>(
        &mut self,
        columns: fn(&Self) -> &Columns<T>,
        first: T,
        choices: &[Choice],
        seconds: &[Option<T>],
        known: &mut Located,
    ) -> Lowered<(Arc<[T]>, Expr)> {
        let Some((column, start)) = columns(self).get(&first).cloned() else {
            return self.bug(self.span, "an index of something that is not an array");
        };
        let mut steps = Vec::new();
        for second in seconds {
            let at = second.map_or(Some(start), |second| columns(self).get(&second).map(|(_, at)| *at));
            let Some(step) = at.and_then(|at| at.checked_sub(start)) else {
                return self.bug(self.span, "an array whose elements differ");
            };
            steps.push(step);
        }
        if let ([choice], [1], 0) = (choices, &steps[..], start)
            && column.len() == choice.count as usize
        {
            return Ok((column, choice.index.clone()));
        }
        let key = (start, steps, column.len());
        if let Some(at) = known.get(&key) {
            return Ok((column, at.clone()));
        }
        let number = |n: usize| Expr::constant(n, 32);
        let mut at = number(start);
        for (choice, step) in choices.iter().zip(&key.1) {
            let index = build::resize(&self.ir, choice.index.clone(), 32);
            at = build::binary(BinaryOp::Add, at, build::binary(BinaryOp::Mul, index, number(*step)));
        }
        let inside = self.is_inside(choices);
        let at = self.snapshot_expr(build::select(inside, at, number(column.len())));
        known.insert(key, at.clone());
        Ok((column, at))
    }

    /// Returns an expression that is true if all indices are in range.
    fn is_inside(&mut self, choices: &[Choice]) -> Expr {
        let is_inside = |choice: &Choice| {
            let (width, count) = (self.width(&choice.index), BigUint::from(choice.count));
            match count > build::ones(width) {
                true => build::truth(true),
                false => {
                    let count = Expr::Const { value: count, width };
                    build::binary(BinaryOp::LtU, choice.index.clone(), count)
                }
            }
        };
        build::all(choices.iter().map(is_inside).collect())
    }

    /// Returns the column and position of each scalar of an element.
    fn columns_of(&mut self, element: &Element) -> Lowered<Vec<(Column, Expr)>> {
        let mut known = Located::new();
        let seconds: Vec<_> =
            element.choices.iter().map(|c| c.second.as_ref().map(Storage::leaves)).collect();
        let mut columns = Vec::new();
        for (i, leaf) in element.first.leaves().into_iter().enumerate() {
            let seconds: Vec<_> = seconds.iter().map(|leaves| leaves.as_ref()?.get(i).copied()).collect();
            columns.push(self.locate(|cx| &cx.columns, leaf, &element.choices, &seconds, &mut known)?);
        }
        Ok(columns)
    }

    /// Returns the headers among which an element is one, and its position.
    fn header_column_of(&mut self, element: &Element) -> Lowered<(HeaderColumn, Expr)> {
        let id = |storage: &Storage| match storage {
            Storage::Header { id, .. } => Some(*id),
            _ => None,
        };
        let Some(first) = id(&element.first) else {
            return self.bug(self.span, "an element that is not a header");
        };
        let seconds: Vec<_> = element.choices.iter().map(|c| c.second.as_ref().and_then(id)).collect();
        self.locate(|cx| &cx.header_columns, first, &element.choices, &seconds, &mut Located::new())
    }

    /// Sets the scalars of an element, in the order of [`Storage::leaves`].
    fn set_element(&mut self, element: &Element, values: Vec<Expr>) -> Lowered<()> {
        for ((column, index), value) in self.columns_of(element)?.into_iter().zip(values) {
            self.emit(Op::SetElement { column, index, value });
        }
        Ok(())
    }

    /// Returns the current value.
    pub fn read(&mut self, place: &Place) -> Lowered<Value> {
        match place {
            Place::Storage(s) => self.read_storage(s),
            Place::Element(element) => {
                let columns = self.columns_of(element)?;
                let mut leaves = columns
                    .into_iter()
                    .map(|(column, index)| Expr::Element { column, index: Box::new(index) });
                Ok(element.first.read().map(&mut |e| leaves.next().unwrap_or(e)))
            }
            Place::Slice(base, hi, lo) => Ok(match self.read(base)? {
                Value::Scalar(e) => Value::Scalar(build::slice(&self.ir, e, *hi, *lo)),
                other => other,
            }),
            Place::SliceAt(base, lo, width) => Ok(match self.read(base)? {
                Value::Scalar(e) => Value::Scalar(self.slice_at(e, lo.clone(), *width)),
                other => other,
            }),
        }
    }

    /// Returns the current value of storage.
    pub(crate) fn read_storage(&mut self, storage: &Storage) -> Lowered<Value> {
        self.go_on()?;
        let value = storage.read();
        self.grow_expressions(value.empty_parts());
        Ok(value)
    }

    /// Returns `width` bits of `e` from bit `lo` on; bits beyond the end are 0.
    pub(crate) fn slice_at(&mut self, e: Expr, lo: Expr, width: u32) -> Expr {
        let shifted = build::binary(BinaryOp::ShrU, e, lo);
        build::resize(&self.ir, shifted, width)
    }

    /// P4_16 "operations on headers": `setValid`. Does not change a valid header; the fields of an invalid one become 0, as
    /// in bmv2 (`add_header`), except for the lengths of varbits.
    pub(crate) fn set_valid(&mut self, place: &Place) -> Lowered<()> {
        let Value::Header { valid, fields } = self.read(place)? else {
            return self.bug(self.span, "setValid of something that is not a header");
        };
        let was_valid = if let Place::Storage(_) = place { valid } else { self.atom(valid) };
        let mut values = Vec::new();
        for field in fields {
            let (value, length) = match field {
                Value::Varbit { value, length } => (value, Some(length)),
                Value::Scalar(value) => (value, None),
                _ => continue,
            };
            let zero = build::zero(self.width(&value));
            values.push(build::select(was_valid.clone(), value, zero));
            values.extend(length);
        }
        match place {
            Place::Storage(storage @ Storage::Header { id, valid, .. }) => {
                for (field, value) in storage.leaves().into_iter().skip(1).zip(values) {
                    self.set(field, value);
                }
                self.set(*valid, build::truth(true));
                self.invalidate_siblings(*id);
                Ok(())
            }
            Place::Element(element) => {
                values.insert(0, build::truth(true));
                self.set_element(element, values)?;
                self.invalidate_siblings_of(element)
            }
            _ => self.bug(self.span, "setValid of something that is not a header"),
        }
    }

    /// P4_16 "operations on headers": `setInvalid`. The fields keep their values, as in bmv2. P4_16 "header unions":
    /// afterwards no member of its union is valid.
    pub(crate) fn set_invalid(&mut self, place: &Place) -> Lowered<()> {
        match place {
            Place::Storage(Storage::Header { id, valid, .. }) => {
                self.set(*valid, build::truth(false));
                self.invalidate_siblings(*id);
                Ok(())
            }
            Place::Element(element) => {
                let valid = element.map(&|storage| match storage {
                    Storage::Header { valid, .. } => Some(Storage::Scalar(*valid)),
                    _ => None,
                });
                if let Some(valid) = valid {
                    self.set_element(&valid, vec![build::truth(false)])?;
                }
                self.invalidate_siblings_of(element)
            }
            _ => self.bug(self.span, "setInvalid of something that is not a header"),
        }
    }

    /// P4_16 "packet extraction". The second argument is the length of the varbit.
    pub(crate) fn extract(&mut self, place: &Place, length: Option<Expr>, span: Span) -> Lowered<()> {
        let Some(Storage::Header { id, .. }) = place.shape() else {
            return self.unsupported(span, "extract of something that is not a header");
        };
        let id = *id;
        let has_varbit = self.ir.headers[id.index()].fields.iter().any(|f| f.varbit_length.is_some());
        if has_varbit && length.is_none() {
            return self.unsupported(span, "extract with one argument of a header with a varbit field");
        }
        if !has_varbit && length.is_some() {
            return self.unsupported(span, "extract with two arguments of a header without varbit field");
        }
        self.whole_bytes(id);
        let Place::Element(element) = place else {
            self.extract_bits(id, length)?;
            self.invalidate_siblings(id);
            return Ok(());
        };
        self.extract_element(element, id, length)?;
        if let Some((next, to)) = element.next.as_deref() {
            self.assign(next, Value::Scalar(to.clone()))?;
        }
        self.invalidate_siblings_of(element)
    }

    fn extract_element(&mut self, element: &Element, id: HeaderId, length: Option<Expr>) -> Lowered<()> {
        let headers = self.header_column_of(element)?;
        if self.bit_cursor.is_none() {
            let (headers, index) = headers;
            self.emit(Op::ExtractElement { headers, index, varbit_length: length });
            return Ok(());
        }
        // These are several statements, none of which may run if there is no such element.
        let inside = self.is_inside(&element.choices);
        self.when(inside, |cx| {
            cx.extract_bits_to(id, length, headers, |cx, values| cx.set_element(element, values))
        })
    }

    /// P4_16 "operations on header stacks": elements move by `n`; new ones are invalid.
    pub(crate) fn shift(&mut self, stack: &Place, n: u32, push: bool, span: Span) -> Lowered<()> {
        let (next, size) = self.next_index(stack, span)?;
        let n = n.min(size);
        // Starts at the end that is overwritten first, so that nothing is read after it was written.
        let order: Vec<u32> = if push { (0..size).rev().collect() } else { (0..size).collect() };
        for i in order {
            let from = if push { i.checked_sub(n) } else { Some(i + n).filter(|j| *j < size) };
            let Some(to) = stack.part(i as usize) else { continue };
            let value = match from.and_then(|j| stack.part(j as usize)) {
                Some(from) => self.read(&from)?.leaves(),
                None => {
                    let leaves = to.shape().map_or_else(Vec::new, Storage::leaves);
                    leaves.into_iter().map(|f| build::zero(self.ir.width(f))).collect()
                }
            };
            // Copies the members of unions one by one, with all of their state.
            match &to {
                Place::Element(to) => self.set_element(to, value)?,
                _ => {
                    let dests = to.shape().map_or_else(Vec::new, Storage::leaves);
                    dests.into_iter().zip(value).for_each(|(dest, value)| self.set(dest, value));
                }
            }
        }
        let old = self.scalar_at(&next, span)?;
        let konst = |v: u32| Expr::constant(v, 32);
        let moved = if push {
            let fits = build::binary(BinaryOp::LtU, old.clone(), konst(size - n));
            build::select(fits, build::binary(BinaryOp::Add, old, konst(n)), konst(size))
        } else {
            let falls_short = build::binary(BinaryOp::LtU, old.clone(), konst(n));
            build::select(falls_short, konst(0), build::binary(BinaryOp::Sub, old, konst(n)))
        };
        self.assign(&next, Value::Scalar(moved))
    }

    /// `place = value`, of any type; both have the same shape.
    pub fn assign(&mut self, place: &Place, value: Value) -> Lowered<()> {
        match place {
            Place::Storage(s) => {
                self.assign_storage(s, value);
                Ok(())
            }
            Place::Element(element) => {
                let value = shape_like(&self.ir, &element.first, value);
                // An earlier assignment must not overwrite what a later scalar reads.
                let several = element.first.leaves().len() > 1;
                let value = if several { self.snapshot(value) } else { value };
                self.set_element(element, value.leaves())?;
                match element.first {
                    Storage::Header { .. } => self.invalidate_siblings_of(element),
                    _ => Ok(()),
                }
            }
            Place::Slice(base, hi, lo) => {
                let (Value::Scalar(old), Value::Scalar(new)) = (self.read(base)?, value) else {
                    return self.bug(self.span, "a slice of something that is not a scalar");
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
                let (Value::Scalar(old), Value::Scalar(new)) = (self.read(base)?, value) else {
                    return self.bug(self.span, "a slice of something that is not a scalar");
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

    /// `storage = value`, scalar by scalar, as if all at once.
    pub(crate) fn assign_storage(&mut self, storage: &Storage, value: Value) {
        let value = shape_like(&self.ir, storage, value);
        let dests = storage.leaves();
        let mut sources = value.leaves();
        if dests.len() != sources.len() {
            let _: Lowered<()> = self.bug(self.span, "an assignment between values of different shape");
            return;
        }
        // `t = { t.b, t.a }`: an earlier assignment must not overwrite what a later scalar reads.
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
        // P4_16 "header unions": an assignment to a member is `setValid` or `setInvalid` of it, and both make all other
        // members invalid.
        if let Storage::Header { id, .. } = storage {
            self.invalidate_siblings(*id);
        }
    }

    /// Makes the other members of a header's union invalid.
    pub(crate) fn invalidate_siblings(&mut self, id: p4jet_ir::HeaderId) {
        let Some(siblings) = self.siblings.get(&id).cloned() else { return };
        for sibling in siblings {
            let valid = self.ir.headers[sibling.index()].valid;
            self.set(valid, build::truth(false));
        }
    }

    /// Like [`Self::invalidate_siblings`], for a header that is an element.
    fn invalidate_siblings_of(&mut self, element: &Element) -> Lowered<()> {
        let id = |storage: &Storage| match storage {
            Storage::Header { id, .. } => Some(*id),
            _ => None,
        };
        let siblings = id(&element.first).and_then(|id| self.siblings.get(&id)).map_or(0, Vec::len);
        for n in 0..siblings {
            let sibling = element.map(&|storage| {
                let sibling = self.siblings.get(&id(storage)?)?.get(n)?;
                Some(Storage::Scalar(self.ir.headers[sibling.index()].valid))
            });
            if let Some(valid) = sibling {
                self.set_element(&valid, vec![build::truth(false)])?;
            }
        }
        Ok(())
    }

    /// Collects the fields that a place may denote or depend on.
    pub(crate) fn place_fields(&self, place: &Place, out: &mut HashSet<FieldId>) {
        match place {
            Place::Storage(s) => out.extend(s.leaves()),
            Place::Element(element) => {
                for leaf in element.first.leaves() {
                    out.extend(self.columns.get(&leaf).iter().flat_map(|(column, _)| column.iter()));
                }
                if let Some((next, _)) = element.next.as_deref() {
                    self.place_fields(next, out);
                }
            }
            Place::Slice(base, ..) | Place::SliceAt(base, ..) => self.place_fields(base, out),
        }
    }

    /// Returns what an assignment of `value` stores: for an invalid header in it, the destination's fields keep their
    /// values, as in bmv2 (`assign_header`).
    pub(crate) fn without_invalid_fields(&mut self, place: &Place, value: Value) -> Lowered<Value> {
        if !value.has_invalid_header() {
            return Ok(value);
        }
        let old = self.read(place)?;
        Ok(self.kept_where_invalid(value, old))
    }

    fn kept_where_invalid(&mut self, new: Value, old: Value) -> Value {
        let mut all = |new: Vec<Value>, old: Vec<Value>| -> Vec<Value> {
            new.into_iter().zip(old).map(|(new, old)| self.kept_where_invalid(new, old)).collect()
        };
        match (new, old) {
            (Value::Header { valid, fields: new }, Value::Header { fields: old, .. }) => {
                let valid = self.atom(valid);
                let fields = new.into_iter().zip(old).map(|(new, old)| Value::select(&valid, new, old));
                Value::Header { fields: fields.collect(), valid }
            }
            (Value::Struct(new), Value::Struct(old)) => Value::Struct(all(new, old)),
            (Value::Union(new), Value::Union(old)) => Value::Union(all(new, old)),
            (Value::Stack { elements, next }, Value::Stack { elements: old, .. }) => {
                Value::Stack { elements: all(elements, old), next }
            }
            (new, _) => new,
        }
    }
}

/// The index in a column, by its start, the stride of each index, and its length.
type Located = HashMap<(usize, Vec<usize>, usize), Expr>;

/// Joins the columns of the elements with these parts.
fn note_columns<T: Copy + Eq + Hash>(columns: &mut Columns<T>, parts: &[Vec<T>]) {
    let Some(first) = parts.first() else { return };
    for k in 0..first.len() {
        let mut joined = Vec::new();
        for part in parts {
            match columns.get(&part[k]) {
                None => joined.push(part[k]),
                Some((column, 0)) => joined.extend(column.iter()),
                // It was handled with the first of its column.
                Some(_) => {}
            }
        }
        let column: Arc<[T]> = joined.into();
        for (at, &part) in column.iter().enumerate() {
            columns.insert(part, (column.clone(), at));
        }
    }
}

/// Gives a list or struct value the shape of the header or stack to which it is assigned.
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
