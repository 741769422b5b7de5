//! Walks over expressions, statements and terminators: the fields they read and write, and their successors.

use crate::*;

/// Defines the walks that exist for shared and for mutable references: names, the iterator over a list, and `mut`.
macro_rules! walks {
    ($operands:ident, $for_each_expr:ident, $iter:ident $(, $mutable:tt)?) => {
        impl Expr {
            /// Iterates over the operands in their order.
            fn $operands(&$($mutable)? self) -> impl Iterator<Item = &$($mutable)? Expr> {
                let operands = match self {
                    Expr::Const { .. } | Expr::Field(_) => [None, None, None],
                    Expr::Unary(_, a)
                    | Expr::Element { index: a, .. }
                    | Expr::Slice { value: a, .. }
                    | Expr::ZeroExtend(a, _)
                    | Expr::SignExtend(a, _) => [Some(&$($mutable)? **a), None, None],
                    Expr::Binary(_, a, b) | Expr::Concat(a, b) => {
                        [Some(&$($mutable)? **a), Some(&$($mutable)? **b), None]
                    }
                    Expr::Select(c, a, b) => {
                        [Some(&$($mutable)? **c), Some(&$($mutable)? **a), Some(&$($mutable)? **b)]
                    }
                };
                operands.into_iter().flatten()
            }
        }

        impl Op {
            /// Calls `f` with each expression of the statement.
            pub fn $for_each_expr(&$($mutable)? self, f: &mut dyn FnMut(&$($mutable)? Expr)) {
                match self {
                    Op::Set { value: e, .. }
                    | Op::Extract { varbit_length: Some(e), .. }
                    | Op::Advance { bits: e } => f(e),
                    Op::SetElement { index, value, .. } => {
                        f(index);
                        f(value);
                    }
                    Op::ExtractElement { index, varbit_length, .. } => {
                        f(index);
                        varbit_length.$iter().for_each(f);
                    }
                    Op::Extern { args, .. } => args.$iter().for_each(f),
                    Op::Truncate { bytes } => f(bytes),
                    Op::Copy(copy) => {
                        copy.set.$iter().for_each(|(_, e)| f(e));
                        copy.replicas.$iter().for_each(|r| f(&$($mutable)? r.id));
                        copy.queue.$iter().for_each(|q| {
                            f(&$($mutable)? q.port);
                            f(&$($mutable)? q.number);
                        });
                    }
                    Op::Extract { varbit_length: None, .. } | Op::Lookahead { .. } | Op::Emit { .. } => {}
                }
            }
        }

        impl Terminator {
            /// Calls `f` with each expression.
            pub fn $for_each_expr(&$($mutable)? self, f: &mut dyn FnMut(&$($mutable)? Expr)) {
                match self {
                    Terminator::If { cond: e, .. }
                    | Terminator::Switch { value: e, .. }
                    | Terminator::Reject(e) => f(e),
                    Terminator::Apply { keys, selector, .. } => keys.$iter().chain(selector).for_each(f),
                    Terminator::Goto(_)
                    | Terminator::Turn { .. }
                    | Terminator::Return
                    | Terminator::Exit
                    | Terminator::Drop(_)
                    | Terminator::Done
                    | Terminator::Egress => {}
                }
            }
        }
    };
}

walks!(operands, for_each_expr, iter);
walks!(operands_mut, for_each_expr_mut, iter_mut, mut);

impl Expr {
    /// Calls `f` with every field that the expression may read, once for each read; for an element, with all fields of
    /// the column.
    pub fn for_each_field(&self, f: &mut dyn FnMut(FieldId)) {
        self.operands().for_each(|operand| operand.for_each_field(f));
        match self {
            Expr::Field(field) => f(*field),
            Expr::Element { column, .. } => column.iter().copied().for_each(f),
            _ => {}
        }
    }

    /// Calls `f` with each column of which the expression reads a field.
    pub fn for_each_column(&self, f: &mut dyn FnMut(&Column)) {
        self.operands().for_each(|operand| operand.for_each_column(f));
        if let Expr::Element { column, .. } = self {
            f(column);
        }
    }

    /// Calls `f` with every expression inside this one and then with itself, operands first.
    pub fn rewrite(&mut self, f: &mut dyn FnMut(&mut Expr)) {
        self.operands_mut().for_each(|operand| operand.rewrite(f));
        f(self);
    }

    /// Returns the number of expressions in this one, including itself; 1 for a field.
    pub fn size(&self) -> usize {
        1 + self.operands().map(Expr::size).sum::<usize>()
    }

    /// Returns the nesting depth, including this expression; 1 for a field.
    pub fn depth(&self) -> u32 {
        1 + self.operands().map(Expr::depth).max().unwrap_or(0)
    }
}

impl Op {
    /// Calls `f` with each field that the statement reads: those of its expressions, those that an emit writes out, and
    /// those that a copy keeps. For a copy that keeps all fields, those that are read where it starts are not reported.
    pub fn for_each_read(&self, headers: &[Header], f: &mut dyn FnMut(FieldId)) {
        self.for_each_expr(&mut |e| e.for_each_field(f));
        match self {
            Op::Emit { header } => headers[header.index()].for_each_field(f),
            Op::Copy(copy) => {
                if let Keep::Fields(fields) = &copy.keep {
                    fields.iter().copied().for_each(f);
                }
            }
            _ => {}
        }
    }

    /// Calls `f` with each field that the statement may write. If the statement rejects, it writes only the error field
    /// of its block.
    pub fn for_each_write(&self, headers: &[Header], f: &mut dyn FnMut(FieldId)) {
        match self {
            Op::Set { dest, .. } | Op::Lookahead { dest } => f(*dest),
            Op::SetElement { column, .. } => column.iter().copied().for_each(f),
            Op::Extract { header, .. } => headers[header.index()].for_each_field(f),
            Op::ExtractElement { headers: column, .. } => {
                column.iter().for_each(|header| headers[header.index()].for_each_field(f));
            }
            Op::Extern { outs, .. } => outs.iter().copied().for_each(f),
            Op::Advance { .. } | Op::Emit { .. } | Op::Copy(_) | Op::Truncate { .. } => {}
        }
    }

    /// Calls `f` with each field that the statement certainly writes unless it rejects: of a column, it writes only one.
    pub fn for_each_replaced(&self, headers: &[Header], f: &mut dyn FnMut(FieldId)) {
        if !matches!(self, Op::SetElement { .. } | Op::ExtractElement { .. }) {
            self.for_each_write(headers, f);
        }
    }

    /// Calls `f` with each header that the statement may extract.
    pub fn for_each_extracted(&self, f: &mut dyn FnMut(HeaderId)) {
        match self {
            Op::Extract { header, .. } => f(*header),
            Op::ExtractElement { headers, .. } => headers.iter().copied().for_each(f),
            _ => {}
        }
    }

    /// True if the statement can make a parser reject.
    pub fn may_reject(&self) -> bool {
        matches!(
            self,
            Op::Extract { .. } | Op::ExtractElement { .. } | Op::Advance { .. } | Op::Lookahead { .. }
        )
    }

    /// Calls `f` with each column of the statement: those of its expressions and those that it writes.
    pub fn for_each_column(&self, headers: &[Header], f: &mut dyn FnMut(&Column)) {
        self.for_each_expr(&mut |e| e.for_each_column(f));
        match self {
            Op::SetElement { column, .. } => f(column),
            Op::ExtractElement { headers: column, .. } => {
                for_each_column_of(column, headers, &mut |column| f(&column));
            }
            _ => {}
        }
    }
}

/// Calls `f` with the columns of headers of one layout: those of the validity bits, and of each field and length.
pub fn for_each_column_of(column: &[HeaderId], headers: &[Header], f: &mut dyn FnMut(Column)) {
    let all: Vec<Vec<FieldId>> = column
        .iter()
        .map(|header| {
            let mut fields = Vec::new();
            headers[header.index()].for_each_field(&mut |field| fields.push(field));
            fields
        })
        .collect();
    let parts = all.iter().map(Vec::len).min().unwrap_or(0);
    (0..parts).for_each(|part| f(all.iter().map(|fields| fields[part]).collect()));
}

impl Header {
    /// Calls `f` with the validity bit, each field, and the varbit's length field.
    pub fn for_each_field(&self, f: &mut dyn FnMut(FieldId)) {
        f(self.valid);
        for field in &self.fields {
            f(field.field);
            if let Some(length) = field.varbit_length {
                f(length);
            }
        }
    }
}

impl Terminator {
    /// Calls `f` with each field that an `Apply` sets before the action runs.
    pub fn for_each_result(&self, f: &mut dyn FnMut(FieldId)) {
        if let Terminator::Apply { hit, action_run, entry, .. } = self {
            [hit, action_run, entry].into_iter().flatten().copied().for_each(f);
        }
    }

    /// Calls `f` with each successor, as often as it occurs.
    pub fn for_each_target(&self, f: &mut dyn FnMut(NodeId)) {
        match self {
            Terminator::Goto(n) => f(*n),
            Terminator::If { then, otherwise, .. } => {
                f(*then);
                f(*otherwise);
            }
            Terminator::Switch { cases, default, .. } => {
                cases.iter().for_each(|(_, n)| f(*n));
                f(*default);
            }
            Terminator::Turn { next, spent, .. } => {
                f(*next);
                f(*spent);
            }
            Terminator::Apply { next, exit, .. } => {
                f(*next);
                f(*exit);
            }
            Terminator::Return
            | Terminator::Exit
            | Terminator::Reject(_)
            | Terminator::Drop(_)
            | Terminator::Done
            | Terminator::Egress => {}
        }
    }

    /// Calls `f` with each successor, as often as it occurs.
    pub fn for_each_target_mut(&mut self, f: &mut dyn FnMut(&mut NodeId)) {
        match self {
            Terminator::Goto(n) => f(n),
            Terminator::If { then, otherwise, .. } => {
                f(then);
                f(otherwise);
            }
            Terminator::Switch { cases, default, .. } => {
                cases.iter_mut().for_each(|(_, n)| f(n));
                f(default);
            }
            Terminator::Turn { next, spent, .. } => {
                f(next);
                f(spent);
            }
            Terminator::Apply { next, exit, .. } => {
                f(next);
                f(exit);
            }
            Terminator::Return
            | Terminator::Exit
            | Terminator::Reject(_)
            | Terminator::Drop(_)
            | Terminator::Done
            | Terminator::Egress => {}
        }
    }
}
