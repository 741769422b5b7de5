//! Trees of scalars: the storage of P4 values ([`Storage`]) and the results of expressions ([`Value`]).

use num_bigint::BigInt;
use p4jet_ir::{Expr, FieldId, HeaderId};

use crate::build;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// Index of an [`Object`](crate::scope::Object).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ObjectId(pub(crate) u32);

/// The storage of a P4 value. Clones share their parts, because expressions mention large header stacks often.
#[derive(Clone, Debug, PartialEq)]
pub enum Storage {
    /// `bit`, `int`, `bool`, enum, `error`, and `type`s over them.
    Scalar(FieldId),
    /// `varbit`: the bits as a number, and their count.
    Varbit {
        /// Right-aligned.
        value: FieldId,
        /// In bits, width 32.
        length: FieldId,
    },
    /// A struct, tuple or array.
    Struct(Rc<[Storage]>),
    /// A header.
    Header {
        /// In the IR.
        id: HeaderId,
        /// Validity.
        valid: FieldId,
        /// Fields, in order of declaration.
        fields: Rc<[Storage]>,
    },
    /// A header union: its member headers.
    Union(Rc<[Storage]>),
    /// A header stack.
    Stack {
        /// Headers or unions.
        elements: Rc<[Storage]>,
        /// P4_16 "header stacks": `nextIndex`, width 32.
        next: FieldId,
    },
}

/// For each part of an array or stack: all parts of its kind, and its position among them.
pub(crate) type Columns<T> = HashMap<T, (Arc<[T]>, usize)>;

/// The result of an expression: pure, but it reads fields at the time it is used.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `bit`, `int`, `bool`, enum, `error`, and `type`s over them.
    Scalar(Expr),
    /// `varbit`
    Varbit {
        /// Right-aligned, of maximum width.
        value: Expr,
        /// In bits, width 32.
        length: Expr,
    },
    /// A struct, tuple, array or list.
    Struct(Vec<Value>),
    /// A header.
    Header {
        /// Width 1.
        valid: Expr,
        /// In order.
        fields: Vec<Value>,
    },
    /// A header union: its members.
    Union(Vec<Value>),
    /// A header stack.
    Stack {
        /// In order.
        elements: Vec<Value>,
        /// `nextIndex`, width 32.
        next: Expr,
    },
    /// An `int` known at compile time.
    Integer(BigInt),
    /// A compile-time `string`.
    Text(String),
    /// An instance.
    Object(ObjectId),
    /// Nothing.
    Void,
}

/// Consecutive bits in a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    /// The bits.
    pub value: Expr,
    /// For a varbit: the number of bits, right-aligned in `value`; width 32.
    pub length: Option<Expr>,
    /// For a field that is part of a whole header: whether the header is valid.
    pub valid: Option<Expr>,
}

impl Piece {
    /// All bits of an expression.
    pub fn bits(value: Expr) -> Piece {
        Piece { value, length: None, valid: None }
    }
}

impl Storage {
    /// The value now there.
    pub fn read(&self) -> Value {
        match self {
            Storage::Scalar(f) => Value::Scalar(Expr::Field(*f)),
            Storage::Varbit { value, length } => {
                Value::Varbit { value: Expr::Field(*value), length: Expr::Field(*length) }
            }
            Storage::Struct(fields) => Value::Struct(fields.iter().map(Storage::read).collect()),
            Storage::Header { valid, fields, .. } => Value::Header {
                valid: Expr::Field(*valid),
                fields: fields.iter().map(Storage::read).collect(),
            },
            Storage::Union(members) => Value::Union(members.iter().map(Storage::read).collect()),
            Storage::Stack { elements, next } => Value::Stack {
                elements: elements.iter().map(Storage::read).collect(),
                next: Expr::Field(*next),
            },
        }
    }

    /// Returns all fields, validity bits, lengths and indices in a fixed order, which is also that of
    /// [`Value::leaves`].
    pub fn leaves(&self) -> Vec<FieldId> {
        let mut out = Vec::new();
        self.collect(&mut out);
        out
    }

    fn collect(&self, out: &mut Vec<FieldId>) {
        match self {
            Storage::Scalar(f) => out.push(*f),
            Storage::Varbit { value, length } => out.extend([*value, *length]),
            Storage::Struct(parts) | Storage::Union(parts) => parts.iter().for_each(|p| p.collect(out)),
            Storage::Header { valid, fields, .. } => {
                out.push(*valid);
                fields.iter().for_each(|p| p.collect(out));
            }
            Storage::Stack { elements, next } => {
                elements.iter().for_each(|p| p.collect(out));
                out.push(*next);
            }
        }
    }

    /// Returns all headers, in order.
    pub(crate) fn headers(&self) -> Vec<HeaderId> {
        match self {
            Storage::Header { id, .. } => vec![*id],
            _ => self.parts().iter().flat_map(Storage::headers).collect(),
        }
    }

    /// Returns the parts: fields of a struct or header, members of a union.
    pub fn parts(&self) -> &[Storage] {
        match self {
            Storage::Struct(parts) | Storage::Union(parts) | Storage::Header { fields: parts, .. } => parts,
            Storage::Stack { elements, .. } => elements,
            Storage::Scalar(_) | Storage::Varbit { .. } => &[],
        }
    }
}

impl Value {
    /// Returns the number of parts that hold nothing: values of `bit<0>` and of empty structs. They become no fields and no
    /// statements, so the work for them is counted where such a value is made.
    pub(crate) fn empty_parts(&self) -> usize {
        match self {
            Value::Struct(parts) if parts.is_empty() => 1,
            Value::Struct(parts) | Value::Union(parts) => parts.iter().map(Value::empty_parts).sum(),
            Value::Header { fields, .. } => fields.iter().map(Value::empty_parts).sum(),
            Value::Stack { elements, .. } => elements.iter().map(Value::empty_parts).sum(),
            _ => 0,
        }
    }

    /// Rebuilds the value with `f` applied to every scalar expression in it.
    pub fn map(self, f: &mut impl FnMut(Expr) -> Expr) -> Value {
        match self {
            Value::Scalar(e) => Value::Scalar(f(e)),
            Value::Varbit { value, length } => Value::Varbit { value: f(value), length: f(length) },
            Value::Struct(parts) => Value::Struct(parts.into_iter().map(|p| p.map(f)).collect()),
            Value::Header { valid, fields } => {
                let valid = f(valid);
                Value::Header { valid, fields: fields.into_iter().map(|p| p.map(f)).collect() }
            }
            Value::Union(parts) => Value::Union(parts.into_iter().map(|p| p.map(f)).collect()),
            Value::Stack { elements, next } => {
                let elements = elements.into_iter().map(|p| p.map(f)).collect();
                Value::Stack { elements, next: f(next) }
            }
            Value::Integer(_) | Value::Text(_) | Value::Object(_) | Value::Void => self,
        }
    }

    /// Returns all scalar expressions in the order of [`Storage::leaves`].
    pub fn leaves(&self) -> Vec<Expr> {
        let mut out = Vec::new();
        self.clone().map(&mut |e| {
            out.push(e.clone());
            e
        });
        out
    }

    /// Returns the number of operators, fields and constants, and the nesting depth of expressions. 8 bytes of a text or a
    /// compile-time number count as one, because each use is a copy.
    pub(crate) fn size_and_depth(&self) -> (usize, u32) {
        let of = |e: &Expr| (e.size(), e.depth());
        let (first, second) = match self {
            Value::Scalar(e) | Value::Header { valid: e, .. } | Value::Stack { next: e, .. } => {
                (of(e), (0, 0))
            }
            Value::Varbit { value, length } => (of(value), of(length)),
            Value::Text(text) => ((1 + text.len() / 8, 0), (0, 0)),
            Value::Integer(number) => ((1 + number.bits() as usize / 64, 0), (0, 0)),
            _ => ((1, 0), (0, 0)),
        };
        let parts = self.parts().iter().map(Value::size_and_depth);
        let all = parts.fold(first, |(size, depth), (more, deep)| (size + more, depth.max(deep)));
        (all.0 + second.0, all.1.max(second.1))
    }

    /// Returns all scalar expressions in order except validity and `nextIndex`: the values of action data.
    pub(crate) fn data(&self) -> Vec<Expr> {
        match self {
            Value::Scalar(e) => vec![e.clone()],
            _ => self.parts().iter().flat_map(Value::data).collect(),
        }
    }

    /// Returns the bits of the value as `hash` and checksums see them, without validity and `nextIndex`. `None` if some
    /// part has no bits.
    pub fn pieces(&self) -> Option<Vec<Piece>> {
        let mut out = Vec::new();
        self.collect_pieces(None, &mut out).then_some(out)
    }

    fn collect_pieces(&self, valid: Option<&Expr>, out: &mut Vec<Piece>) -> bool {
        let mut push = |value: &Expr, length: Option<&Expr>| {
            out.push(Piece { value: value.clone(), length: length.cloned(), valid: valid.cloned() });
            true
        };
        match self {
            Value::Scalar(e) => push(e, None),
            Value::Varbit { value, length } => push(value, Some(length)),
            Value::Header { valid, fields } => fields.iter().all(|f| f.collect_pieces(Some(valid), out)),
            Value::Struct(parts) | Value::Union(parts) | Value::Stack { elements: parts, .. } => {
                parts.iter().all(|p| p.collect_pieces(valid, out))
            }
            Value::Integer(_) | Value::Text(_) | Value::Object(_) | Value::Void => false,
        }
    }

    /// Returns the parts of a struct, header, union or stack.
    pub fn parts(&self) -> &[Value] {
        match self {
            Value::Struct(parts)
            | Value::Union(parts)
            | Value::Header { fields: parts, .. }
            | Value::Stack { elements: parts, .. } => parts,
            _ => &[],
        }
    }

    /// Returns the validity of a header or union.
    pub fn is_valid(&self) -> Expr {
        match self {
            Value::Header { valid, .. } => valid.clone(),
            // P4_16 "header unions": valid if a member is.
            Value::Union(members) => build::any(members.iter().map(Value::is_valid).collect()),
            _ => build::truth(true),
        }
    }

    /// True if a header in it may be invalid.
    pub(crate) fn has_invalid_header(&self) -> bool {
        match self {
            Value::Header { valid, .. } => build::as_truth(valid) != Some(true),
            value => value.parts().iter().any(Value::has_invalid_header),
        }
    }

    /// `cond ? a : b`, scalar by scalar. Both have the same shape.
    pub fn select(cond: &Expr, a: Value, b: Value) -> Value {
        let others = b.leaves();
        let mut others = others.into_iter();
        a.map(&mut |e| match others.next() {
            Some(o) => build::select(cond.clone(), e, o),
            None => e,
        })
    }

    /// Returns the part that `index` selects; `beyond` if there is none. It builds a tree, so that long stacks do not
    /// become deep expressions.
    pub(crate) fn pick(parts: &[Value], index: &Expr, width: u32, beyond: Value) -> Value {
        fn below(index: &Expr, limit: usize, width: u32) -> Expr {
            let limit = num_bigint::BigUint::from(limit);
            if limit > build::ones(width) {
                return build::truth(true);
            }
            build::binary(p4jet_ir::BinaryOp::LtU, index.clone(), Expr::constant(limit, width))
        }
        fn tree(parts: &[Value], first: usize, index: &Expr, width: u32) -> Value {
            if let [part] = parts {
                return part.clone();
            }
            let (low, high) = parts.split_at(parts.len().div_ceil(2));
            let cond = below(index, first + low.len(), width);
            let high = tree(high, first + low.len(), index, width);
            Value::select(&cond, tree(low, first, index, width), high)
        }
        if parts.is_empty() {
            return beyond;
        }
        Value::select(&below(index, parts.len(), width), tree(parts, 0, index, width), beyond)
    }

    /// True if all scalars are constants or plain fields, so that using the value twice costs nothing.
    pub fn is_atomic(&self) -> bool {
        self.leaves().iter().all(|e| matches!(e, Expr::Const { .. } | Expr::Field(_)))
    }

    /// True if all scalars are constants.
    pub fn is_const(&self) -> bool {
        self.leaves().iter().all(|e| matches!(e, Expr::Const { .. }))
    }

    /// Equality as P4_16 defines it for scalars, structs, headers, unions and stacks.
    pub fn equal(a: &Value, b: &Value) -> Expr {
        let all =
            |x: &[Value], y: &[Value]| build::all(x.iter().zip(y).map(|(x, y)| Value::equal(x, y)).collect());
        match (a, b) {
            (Value::Scalar(x), Value::Scalar(y)) => build::eq(x.clone(), y.clone()),
            // Varbits are equal if their dynamic widths and their bits are.
            (Value::Varbit { value: x, length: l }, Value::Varbit { value: y, length: m }) => {
                build::and(build::eq(l.clone(), m.clone()), build::eq(x.clone(), y.clone()))
            }
            // Both invalid, or both valid with equal fields.
            (Value::Header { valid: v, fields: x }, Value::Header { valid: w, fields: y }) => {
                let both_invalid = build::and(build::not(v.clone()), build::not(w.clone()));
                let both_valid = build::and(v.clone(), w.clone());
                build::or(both_invalid, build::and(both_valid, all(x, y)))
            }
            (Value::Integer(x), Value::Integer(y)) => build::truth(x == y),
            (Value::Text(x), Value::Text(y)) => build::truth(x == y),
            // A list that represents a header is a valid header.
            (Value::Header { valid, fields }, Value::Struct(parts))
            | (Value::Struct(parts), Value::Header { valid, fields }) => {
                build::and(valid.clone(), all(fields, parts))
            }
            (a, b) => all(a.parts(), b.parts()),
        }
    }
}
