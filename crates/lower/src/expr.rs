//! Expressions: typed expressions become [`Value`]s, and their effects become statements.
//!
//! P4_16 "expression evaluation order": operands are evaluated from left to right. Values read fields lazily, so
//! everything left of an operand with effects is first copied to temporaries.

use num_bigint::BigInt;
use num_traits::{ToPrimitive, Zero};
use p4jet_analysis::typed::{self, ExprKind, Type};
use p4jet_ir::{BinaryOp as Op, Expr, Terminator};
use p4jet_syntax::ast::{BinaryOp, StructKind, UnaryOp};
use p4jet_syntax::diagnostic::Diagnostic;
use p4jet_syntax::span::Span;

use crate::build;
use crate::context::{Lowered, Lowerer};
use crate::scope::Binding;
use crate::survey::has_effects;
use crate::value::Value;

/// Expressions nested more deeply are split with a temporary; the IR allows 512.
const DEPTH_MAX: u32 = 100;

impl Lowerer<'_> {
    /// Evaluates an expression.
    pub fn expr(&mut self, e: &typed::Expr) -> Lowered<Value> {
        self.go_on()?;
        let value = self.expr_inner(e)?;
        let value = match value {
            Value::Scalar(s) if s.depth() >= DEPTH_MAX => Value::Scalar(self.snapshot_expr(s)),
            Value::Scalar(_) => value,
            value => {
                let (size, depth) = value.size_and_depth();
                self.grow_expressions(size);
                if depth >= DEPTH_MAX { self.snapshot(value) } else { value }
            }
        };
        self.go_on()?;
        Ok(value)
    }

    /// Evaluates an expression with a scalar value.
    pub fn scalar(&mut self, e: &typed::Expr) -> Lowered<Expr> {
        let value = self.expr(e)?;
        let ty = self.ty(&e.ty);
        self.scalar_of(value, &ty, e.span)
    }

    /// Evaluates several expressions in order.
    pub(crate) fn exprs(&mut self, list: &[typed::Expr]) -> Lowered<Vec<Value>> {
        let mut values = Vec::new();
        let last = list.iter().rposition(has_effects);
        for (i, e) in list.iter().enumerate() {
            let value = self.expr(e)?;
            let later = last.is_some_and(|last| i < last);
            values.push(if later { self.snapshot(value) } else { value });
        }
        Ok(values)
    }

    /// Evaluates two operands in order.
    fn operands(&mut self, a: &typed::Expr, b: &typed::Expr) -> Lowered<(Value, Value)> {
        let left = self.expr(a)?;
        let left = if has_effects(b) { self.snapshot(left) } else { left };
        Ok((left, self.expr(b)?))
    }

    fn expr_inner(&mut self, e: &typed::Expr) -> Lowered<Value> {
        if self.is_place(e) {
            let place = self.place(e)?;
            return self.read(&place);
        }
        let ty = self.ty(&e.ty);
        match &e.kind {
            ExprKind::Int(n) => Ok(match self.scalar_width(&ty) {
                Some(width) => Value::Scalar(Expr::constant(build::pattern(n, width), width)),
                None if ty == Type::Integer => Value::Integer(n.clone()),
                None if self.is_zero_width(&ty) => Value::Struct(Vec::new()),
                None => {
                    return self
                        .unsupported(e.span, format!("values of type {}", self.program.type_text(&ty)));
                }
            }),
            ExprKind::Bool(b) => Ok(Value::Scalar(build::truth(*b))),
            ExprKind::String(s) => Ok(Value::Text(s.clone())),
            ExprKind::EnumMember(i) => Ok(Value::Scalar(Expr::constant(*i, 32))),
            ExprKind::Error(i) => {
                let code = self.program.errors.get(*i as usize).map_or(0, |name| self.error_code(name));
                Ok(Value::Scalar(Expr::constant(code, 32)))
            }
            ExprKind::Var(v) => match self.binding(*v) {
                Some(Binding::Value(value)) => Ok(value),
                Some(Binding::Storage(s)) => self.read_storage(&s),
                None => {
                    let name = &self.program.vars[v.index()].name;
                    self.bug(e.span, format!("`{name}` is not bound"))
                }
            },
            ExprKind::Instance(id) => Ok(Value::Object(self.instance(*id)?)),
            ExprKind::Construct { constructor, args } => {
                Ok(Value::Object(self.construct(&ty, *constructor, args, e.span)?))
            }
            ExprKind::Field(base, index) => {
                let base = self.expr(base)?;
                match base.parts().get(*index as usize) {
                    Some(part) => Ok(part.clone()),
                    None => self.bug(e.span, "a field of something without fields"),
                }
            }
            ExprKind::Index(base, index) => {
                let (base, index_value) = self.operands(base, index)?;
                let index = self.scalar_of(index_value, &self.ty(&index.ty), e.span)?;
                self.element_of_value(&base, index, &ty, e.span)
            }
            ExprKind::StackLastIndex(base) if self.is_place(base) => {
                let place = self.place(base)?;
                let (next, _) = self.next_index(&place, e.span)?;
                let next = self.scalar_at(&next, e.span)?;
                Ok(Value::Scalar(build::binary(Op::Sub, next, Expr::constant(1u32, 32))))
            }
            ExprKind::StackLastIndex(base) => match self.expr(base)? {
                Value::Stack { next, .. } => {
                    Ok(Value::Scalar(build::binary(Op::Sub, next, Expr::constant(1u32, 32))))
                }
                _ => self.bug(e.span, "lastIndex of something that is not a stack"),
            },
            ExprKind::StackNext(base) | ExprKind::StackLast(base) => {
                let base = self.expr(base)?;
                let Value::Stack { next, elements } = &base else {
                    return self.bug(e.span, "next or last of something that is not a stack");
                };
                let is_next = matches!(e.kind, ExprKind::StackNext(_));
                let index = self.next_or_last(next.clone(), elements.len() as u32, is_next)?;
                self.element_of_value(&base, index, &ty, e.span)
            }
            ExprKind::Slice(base, hi, lo) => {
                let value = self.scalar(base)?;
                Ok(Value::Scalar(build::slice(&self.ir, value, *hi, *lo)))
            }
            ExprKind::SliceAt { value, lo, width } => {
                let value_ty = self.ty(&value.ty);
                let lo_ty = self.ty(&lo.ty);
                let (v, l) = self.operands(value, lo)?;
                let v = self.scalar_of(v, &value_ty, e.span)?;
                let l = self.scalar_of(l, &lo_ty, e.span)?;
                Ok(Value::Scalar(self.slice_at(v, l, *width)))
            }
            ExprKind::Unary(op, a) => self.unary(*op, a, e.span),
            ExprKind::Binary(op, a, b) => self.binary(*op, a, b, e.span),
            ExprKind::Conditional(c, a, b) => self.conditional(c, a, b, &ty, e.span),
            ExprKind::Cast(a) => {
                let from = self.ty(&a.ty);
                let value = self.expr(a)?;
                self.cast(value, &from, &ty, e.span)
            }
            ExprKind::Aggregate(parts) => {
                let parts = self.exprs(parts)?;
                self.aggregate(parts, &ty, e.span)
            }
            ExprKind::Invalid => self.zero(&ty, e.span),
            ExprKind::Call(call) => self.call(call, &ty),
            ExprKind::ApplyHit { table, miss } => {
                let hit = self.temporary(1);
                self.apply_table(*table, Some(hit), None, e.span)?;
                let hit = Expr::Field(hit);
                Ok(Value::Scalar(if *miss { build::not(hit) } else { hit }))
            }
        }
    }

    fn element_of_value(&mut self, base: &Value, index: Expr, ty: &Type, span: Span) -> Lowered<Value> {
        if let Some(i) = build::as_const(&index) {
            return match i.to_usize().and_then(|i| base.parts().get(i)) {
                Some(part) => Ok(part.clone()),
                None => self.zero(ty, span),
            };
        }
        let index = self.atom(index);
        let width = self.width(&index);
        let beyond = self.zero(ty, span)?;
        Ok(Value::pick(base.parts(), &index, width, beyond))
    }

    fn unary(&mut self, op: UnaryOp, a: &typed::Expr, span: Span) -> Lowered<Value> {
        match (op, self.expr(a)?) {
            (UnaryOp::Plus, value) => Ok(value),
            (_, value) if self.is_zero_width(&self.ty(&a.ty)) => Ok(value),
            (UnaryOp::Neg, Value::Integer(n)) => Ok(Value::Integer(-n)),
            (UnaryOp::Neg, Value::Scalar(e)) => Ok(Value::Scalar(build::neg(e))),
            (UnaryOp::Not | UnaryOp::Complement, Value::Scalar(e)) => Ok(Value::Scalar(build::not(e))),
            (op, _) => self.bug(span, format!("operand of {op:?}")),
        }
    }

    fn binary(&mut self, op: BinaryOp, a: &typed::Expr, b: &typed::Expr, span: Span) -> Lowered<Value> {
        if let BinaryOp::And | BinaryOp::Or = op {
            return self.short_circuit(op, a, b);
        }
        let (left, right) = self.operands(a, b)?;
        self.binary_values(op, (left, &a.ty), (right, &b.ty), span)
    }

    /// Applies a binary operator, other than the short-circuit ones, to values.
    pub(crate) fn binary_values(
        &mut self,
        op: BinaryOp,
        (left, left_ty): (Value, &Type),
        (right, right_ty): (Value, &Type),
        span: Span,
    ) -> Lowered<Value> {
        let (left_ty, right_ty) = (self.ty(left_ty), self.ty(right_ty));
        if let (Value::Integer(x), Value::Integer(y)) = (&left, &right) {
            return self.integers(op, x, y, span);
        }
        if let BinaryOp::Eq | BinaryOp::Ne = op {
            let equal = match (&left, &right) {
                (Value::Scalar(x), Value::Integer(_)) => {
                    let y = self.scalar_of(right.clone(), &left_ty, span)?;
                    build::eq(x.clone(), y)
                }
                (Value::Integer(_), Value::Scalar(y)) => {
                    let x = self.scalar_of(left.clone(), &right_ty, span)?;
                    build::eq(x, y.clone())
                }
                _ => Value::equal(&left, &right),
            };
            return Ok(Value::Scalar(if op == BinaryOp::Eq { equal } else { build::not(equal) }));
        }
        // An operator on `bit<0>` returns `bit<0>` or its other operand. Only comparisons, below, return other bits.
        match (op, self.is_zero_width(&left_ty), self.is_zero_width(&right_ty)) {
            (_, false, false) | (BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge, ..) => {}
            (BinaryOp::Concat, true, _) => return Ok(right),
            (BinaryOp::Shl | BinaryOp::Shr | BinaryOp::Concat, false, true) => return Ok(left),
            _ => return Ok(Value::Struct(Vec::new())),
        }
        let is_shift = matches!(op, BinaryOp::Shl | BinaryOp::Shr);
        let left_as = if matches!(left, Value::Integer(_)) { &right_ty } else { &left_ty };
        let right_as = if matches!(right, Value::Integer(_)) && !is_shift { &left_ty } else { &right_ty };
        let signed = self.is_signed(left_as);
        let left = self.scalar_of(left, left_as, span)?;
        let right = self.scalar_of(right, right_as, span)?;
        let pick = |unsigned, with_sign| if signed { with_sign } else { unsigned };
        let (op, left, right) = match op {
            BinaryOp::Add => (Op::Add, left, right),
            BinaryOp::Sub => (Op::Sub, left, right),
            BinaryOp::SatAdd => (pick(Op::SatAddU, Op::SatAddS), left, right),
            BinaryOp::SatSub => (pick(Op::SatSubU, Op::SatSubS), left, right),
            BinaryOp::Mul => (Op::Mul, left, right),
            BinaryOp::Div | BinaryOp::Mod if signed => {
                return self.unsupported(span, "division of signed values");
            }
            BinaryOp::Div => (Op::DivU, left, right),
            BinaryOp::Mod => (Op::RemU, left, right),
            BinaryOp::Shl => (Op::Shl, left, right),
            BinaryOp::Shr => (pick(Op::ShrU, Op::ShrS), left, right),
            BinaryOp::BitAnd => (Op::And, left, right),
            BinaryOp::BitOr => (Op::Or, left, right),
            BinaryOp::BitXor => (Op::Xor, left, right),
            BinaryOp::Lt => (pick(Op::LtU, Op::LtS), left, right),
            BinaryOp::Le => (pick(Op::LeU, Op::LeS), left, right),
            BinaryOp::Gt => (pick(Op::LtU, Op::LtS), right, left),
            BinaryOp::Ge => (pick(Op::LeU, Op::LeS), right, left),
            BinaryOp::Concat => {
                if let (Expr::Const { value: x, width: w }, Expr::Const { value: y, width: v }) =
                    (&left, &right)
                {
                    return Ok(Value::Scalar(Expr::constant((x << *v) | y, w + v)));
                }
                return Ok(Value::Scalar(Expr::Concat(Box::new(left), Box::new(right))));
            }
            BinaryOp::And | BinaryOp::Or | BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Mask | BinaryOp::Range => {
                return self.bug(span, format!("operator {op:?}"));
            }
        };
        Ok(Value::Scalar(build::binary(op, left, right)))
    }

    /// Applies an operator to compile-time `int`s: constructor arguments and values computed from them.
    fn integers(&mut self, op: BinaryOp, x: &BigInt, y: &BigInt, span: Span) -> Lowered<Value> {
        let truth = |t| Ok(Value::Scalar(build::truth(t)));
        let count = y.to_u32().filter(|n| *n < 1 << 16);
        Ok(Value::Integer(match op {
            BinaryOp::Add => x + y,
            BinaryOp::Sub => x - y,
            BinaryOp::Mul => x * y,
            BinaryOp::Div if !y.is_zero() => x / y,
            BinaryOp::Mod if !y.is_zero() => x % y,
            BinaryOp::Shl if count.is_some() => x << count.unwrap_or(0),
            BinaryOp::Shr if count.is_some() => x >> count.unwrap_or(0),
            BinaryOp::BitAnd => x & y,
            BinaryOp::BitOr => x | y,
            BinaryOp::BitXor => x ^ y,
            BinaryOp::Eq => return truth(x == y),
            BinaryOp::Ne => return truth(x != y),
            BinaryOp::Lt => return truth(x < y),
            BinaryOp::Le => return truth(x <= y),
            BinaryOp::Gt => return truth(x > y),
            BinaryOp::Ge => return truth(x >= y),
            BinaryOp::Div | BinaryOp::Mod => {
                let text = "division by zero";
                return Err(self.report(Diagnostic::error("operator", span, text)));
            }
            _ => return self.bug(span, format!("operator {op:?} on compile-time values")),
        }))
    }

    /// P4_16 "operations on Booleans": `&&` and `||` evaluate the right side only if the left one does not decide.
    fn short_circuit(&mut self, op: BinaryOp, a: &typed::Expr, b: &typed::Expr) -> Lowered<Value> {
        let left = self.scalar(a)?;
        let is_and = op == BinaryOp::And;
        if !has_effects(b) {
            let right = self.scalar(b)?;
            return Ok(Value::Scalar(if is_and { build::and(left, right) } else { build::or(left, right) }));
        }
        let result = self.temporary(1);
        self.set(result, left);
        let go_on = if is_and { Expr::Field(result) } else { build::not(Expr::Field(result)) };
        self.when(go_on, |cx| {
            let right = cx.scalar(b)?;
            cx.set(result, right);
            Ok(())
        })?;
        Ok(Value::Scalar(Expr::Field(result)))
    }

    fn conditional(
        &mut self,
        c: &typed::Expr,
        a: &typed::Expr,
        b: &typed::Expr,
        ty: &Type,
        span: Span,
    ) -> Lowered<Value> {
        let cond = self.scalar(c)?;
        if let Some(decided) = build::as_const(&cond) {
            return self.expr(if decided.is_zero() { b } else { a });
        }
        if !has_effects(a) && !has_effects(b) {
            let (x, y) = (self.expr(a)?, self.expr(b)?);
            // Strings and compile-time integers cannot be selected at run time.
            if let (Value::Integer(_), _) | (_, Value::Integer(_)) | (Value::Text(_), _) = (&x, &y) {
                return self.unsupported(span, "choosing between compile-time values at run time");
            }
            let y = self.cast(y, &self.ty(&b.ty), ty, span)?;
            let x = self.cast(x, &self.ty(&a.ty), ty, span)?;
            let cond = self.atom(cond);
            return Ok(Value::select(&cond, x, y));
        }
        let storage = self.local(ty, "$choice", span)?;
        let (then, otherwise, join) = (self.node(), self.node(), self.node());
        self.terminate(Terminator::If { cond, then, otherwise });
        for (node, e) in [(then, a), (otherwise, b)] {
            self.enter(node);
            let value = self.expr(e)?;
            let value = self.cast(value, &self.ty(&e.ty), ty, span)?;
            self.assign_storage(&storage, value);
            self.goto(join);
        }
        self.enter(join);
        self.read_storage(&storage)
    }

    /// P4_16 "casts". Values of struct-like types take the shape of the target.
    pub(crate) fn cast(&mut self, value: Value, from: &Type, to: &Type, span: Span) -> Lowered<Value> {
        if self.is_zero_width(to) {
            return Ok(Value::Struct(Vec::new()));
        }
        match value {
            Value::Struct(_) if self.is_zero_width(from) => {
                self.cast(Value::Integer(BigInt::ZERO), &Type::Integer, to, span)
            }
            Value::Integer(n) => match self.scalar_width(to) {
                Some(width) => Ok(Value::Scalar(Expr::constant(build::pattern(&n, width), width))),
                None => Ok(Value::Integer(n)),
            },
            Value::Scalar(e) => match self.scalar_width(to) {
                Some(width) if self.is_signed(from) => {
                    Ok(Value::Scalar(build::resize_signed(&self.ir, e, width)))
                }
                Some(width) => Ok(Value::Scalar(build::resize(&self.ir, e, width))),
                // To `int`.
                None => match e {
                    Expr::Const { value, width } if self.is_signed(from) => {
                        Ok(Value::Integer(build::signed(&value, width)))
                    }
                    Expr::Const { value, .. } => Ok(Value::Integer(value.into())),
                    _ => self.unsupported(span, "this `int` that is known only at run time"),
                },
            },
            Value::Struct(parts) => {
                let from = self.part_types(from, parts.len());
                let targets = self.part_types(to, parts.len());
                if targets.len() != parts.len() || from.len() != parts.len() {
                    return self.aggregate(parts, to, span);
                }
                let mut cast = Vec::new();
                for ((part, from), to) in parts.into_iter().zip(&from).zip(&targets) {
                    cast.push(self.cast(part, from, to, span)?);
                }
                self.aggregate(cast, to, span)
            }
            value => Ok(value),
        }
    }

    /// Returns the types of the parts of a struct-like or stack type with `n` parts.
    fn part_types(&self, ty: &Type, n: usize) -> Vec<Type> {
        match self.underlying(ty) {
            Type::Stack(element, _) | Type::List(element) => vec![*element; n],
            t => self.fields_of(&t).into_iter().map(|(_, t)| t).collect(),
        }
    }

    /// Builds a struct-like value from parts in order.
    fn aggregate(&mut self, parts: Vec<Value>, ty: &Type, span: Span) -> Lowered<Value> {
        let targets = self.part_types(ty, parts.len());
        let mut shaped = Vec::new();
        for (i, part) in parts.into_iter().enumerate() {
            shaped.push(match (part, targets.get(i)) {
                (Value::Integer(n), Some(t)) => self.cast(Value::Integer(n), &Type::Integer, t, span)?,
                (Value::Struct(inner), Some(t)) => self.aggregate(inner, t, span)?,
                (part, _) => part,
            });
        }
        match self.underlying(ty) {
            Type::Stack(element, size) => {
                // P4_16 "header stack expressions": omitted elements are invalid.
                let count = shaped.len() as u32;
                for _ in count..size {
                    shaped.push(self.zero(&element, span)?);
                }
                if !self.is_header(&element) {
                    return Ok(Value::Struct(shaped));
                }
                Ok(Value::Stack { elements: shaped, next: build::zero(32) })
            }
            t => Ok(match self.struct_kind(&t) {
                Some(StructKind::Header) => Value::Header { valid: build::truth(true), fields: shaped },
                Some(StructKind::HeaderUnion) => Value::Union(shaped),
                _ => Value::Struct(shaped),
            }),
        }
    }

    /// Returns the value of a compile-time expression of a scalar type.
    pub(crate) fn constant(&mut self, e: &typed::Expr, ty: &Type) -> Lowered<num_bigint::BigUint> {
        let value = self.expr(e)?;
        let value = match value {
            Value::Integer(_) => self.cast(value, &Type::Integer, ty, e.span)?,
            value => value,
        };
        match self.scalar_of(value, ty, e.span)? {
            Expr::Const { value, .. } => Ok(value),
            _ => self.unsupported(e.span, "this expression where a compile-time value is needed"),
        }
    }
}
