//! Estimates the work of code, for the bound on loops ([`crate::turns`]).
//!
//! The unit is an operation on one 64-bit word. The figures need not be exact, but must grow with the work: products,
//! quotients and shifts by a run-time count take `n²` units for `n` words, and so do logged values, which are written as decimal
//! numbers. A hash takes units for each word of its data and of the largest payload, and a message for each word of its text. The
//! factors of calls are about the nanoseconds that they take.

use crate::*;

/// A call of an extern function, in addition to its operands and to the work that grows with these.
const EXTERN_UNITS: u64 = 16;
/// The allocations of a random number or of a logged value.
const BIG_NUMBER_UNITS: u64 = 48;
/// Words of the largest payload: that of a frame of 64 KiB.
const PAYLOAD_WORDS: u64 = (64 << 10) / 8;
/// A table lookup, in addition to its keys and its action.
const LOOKUP_UNITS: u64 = 32;
/// A lookup in a searched table ([`Table::is_searched`]), which may compare thousands of entries; without its keys and its action.
pub(crate) const SEARCH_UNITS: u64 = 1024;
/// A copy of the packet.
const COPY_UNITS: u64 = 256;

impl Program {
    /// Returns the work of one visit of a node, including the action that its table runs. `tables` has the work of the
    /// heaviest action of each table.
    pub(crate) fn work(&self, node: &Node, tables: &[u64]) -> u64 {
        let stmts: u64 = node.stmts.iter().map(|stmt| self.op_work(&stmt.op)).sum();
        let end = match &node.terminator {
            Terminator::Apply { table, keys, selector, .. } => {
                let action = tables.get(table.index()).copied();
                let keys: u64 = keys.iter().chain(selector).map(|key| self.expr_work(key)).sum();
                let is_searched = self.tables.get(table.index()).is_some_and(Table::is_searched);
                let lookup = if is_searched { SEARCH_UNITS } else { LOOKUP_UNITS };
                lookup + keys + action.unwrap_or(0)
            }
            Terminator::If { cond: asked, .. }
            | Terminator::Switch { value: asked, .. }
            | Terminator::Reject(asked) => 1 + self.expr_work(asked),
            Terminator::Goto(_)
            | Terminator::Turn { .. }
            | Terminator::Return
            | Terminator::Exit
            | Terminator::Drop(_)
            | Terminator::Done
            | Terminator::Egress => 1,
        };
        stmts.saturating_add(end)
    }

    fn op_work(&self, op: &Op) -> u64 {
        let header = |header: HeaderId| -> u64 {
            self.headers[header.index()].fields.iter().map(|f| words(self.width(f.field))).sum()
        };
        let mut work = match op {
            Op::Set { .. } | Op::SetElement { .. } | Op::Advance { .. } | Op::Truncate { .. } => 1,
            Op::Lookahead { dest } => words(self.width(*dest)),
            Op::Extract { header: h, .. } | Op::Emit { header: h } => 1 + header(*h),
            Op::ExtractElement { headers, .. } => 1 + headers.first().map_or(0, |h| header(*h)),
            Op::Copy(_) => COPY_UNITS,
            // Their work counts with the accesses, of which there are at least two for each lock: the turns of a loop, which one
            // worker needs without locks, stay enough.
            Op::Extern { function: Function::RegisterLock | Function::RegisterUnlock, .. } => 0,
            Op::Extern { function, args, outs, text, .. } => {
                let outs: u64 = outs.iter().map(|f| words(self.width(*f))).sum();
                let text: u64 = text.iter().map(|text| text.len() as u64 / 8).sum();
                EXTERN_UNITS + outs + text + self.function_work(function, args)
            }
        };
        op.for_each_expr(&mut |e| work = work.saturating_add(self.expr_work(e)));
        work
    }

    /// Returns the work of a function that grows with the sizes of its arguments, or of the payload.
    fn function_work(&self, function: &Function, args: &[Expr]) -> u64 {
        let sizes = args.iter().map(|arg| words(arg.width(self)));
        match function {
            Function::Hash(hash) => {
                let payload = if hash.payload { PAYLOAD_WORDS } else { 0 };
                hash_units(hash.algorithm) * (sizes.sum::<u64>() + payload)
            }
            // Each value is written as a decimal number.
            Function::LogMsg => sizes.map(|n| BIG_NUMBER_UNITS + 10 * n * n).sum(),
            Function::Random => sizes.map(|n| BIG_NUMBER_UNITS + 2 * n * n).sum(),
            Function::Assert
            | Function::Assume
            | Function::RegisterRead
            | Function::RegisterWrite
            | Function::RegisterLock
            | Function::RegisterUnlock
            | Function::AtomicBegin
            | Function::AtomicEnd
            | Function::Count
            | Function::CountDirect
            | Function::Meter
            | Function::MeterDirect
            | Function::SendDigest
            | Function::Foreign(_) => 0,
        }
    }

    fn expr_work(&self, expr: &Expr) -> u64 {
        self.width_and_work(expr).1
    }

    fn width_and_work(&self, expr: &Expr) -> (u32, u64) {
        match expr {
            Expr::Const { width, .. } => (*width, words(*width)),
            Expr::Field(f) => (self.width(*f), words(self.width(*f))),
            Expr::Element { column, index } => {
                let width = column.first().map_or(0, |f| self.width(*f));
                (width, words(width) + self.expr_work(index))
            }
            Expr::Unary(_, a) => {
                let (width, work) = self.width_and_work(a);
                (width, work + words(width))
            }
            Expr::Binary(op, a, b) => {
                let ((width, left), right) = (self.width_and_work(a), self.expr_work(b));
                let own = match op {
                    BinaryOp::Mul | BinaryOp::DivU | BinaryOp::RemU => words(width) * words(width),
                    op if op.is_shift() && !matches!(**b, Expr::Const { .. }) => words(width) * words(width),
                    _ => words(width),
                };
                (if op.is_comparison() { 1 } else { width }, left + right + own)
            }
            Expr::Slice { value, hi, lo } => {
                let width = hi - lo + 1;
                (width, self.expr_work(value) + words(width))
            }
            Expr::Concat(a, b) => {
                let ((high, left), (low, right)) = (self.width_and_work(a), self.width_and_work(b));
                (high + low, left + right + words(high + low))
            }
            Expr::ZeroExtend(a, width) | Expr::SignExtend(a, width) => {
                (*width, self.expr_work(a) + words(*width))
            }
            Expr::Select(cond, a, b) => {
                let (width, left) = self.width_and_work(a);
                (width, self.expr_work(cond) + left + self.expr_work(b) + words(width))
            }
        }
    }
}

/// Returns the work of a hash for each word of data.
fn hash_units(algorithm: Algorithm) -> u64 {
    match algorithm {
        Algorithm::Csum16 | Algorithm::Xor16 | Algorithm::Identity | Algorithm::Random => 1,
        Algorithm::Crc16 | Algorithm::Crc32 => 4,
        Algorithm::Crc16Custom | Algorithm::Crc32Custom => 8,
    }
}

fn words(width: u32) -> u64 {
    u64::from(width.div_ceil(64))
}
