//! Prints IR expressions as their authors would write them in P4, for traces.

use std::borrow::Cow;
use std::collections::HashMap;

use num_bigint::BigUint;
use p4jet_ir::{BinaryOp, Expr, FieldId, FieldKind, Op, Program, TableId, Terminator, UnaryOp};

use crate::trace::TraceEvent;

/// The names of the fields of a trace.
pub(crate) struct Wording<'a> {
    p: &'a Program,
    /// Unnamed fields, by the origin of their present values.
    origins: HashMap<FieldId, Origin>,
}

/// The origin of the value of an unnamed field.
enum Origin {
    Hit(TableId),
    ActionRun(TableId),
    Call(String),
    Lookahead,
}

/// True if a field does not occur in the program's text.
pub(crate) fn is_nameless(p: &Program, field: FieldId) -> bool {
    let field = &p.fields[field.index()];
    field.kind == FieldKind::Temporary && field.name.contains('$')
}

/// Returns the name for users: action data is named by the action's control-plane name.
pub(crate) fn field_name(p: &Program, id: FieldId) -> Cow<'_, str> {
    let field = &p.fields[id.index()];
    if let FieldKind::ActionData(action_id) = field.kind {
        let action = &p.actions[action_id.index()];
        if action.name != action.control_name {
            return Cow::Owned(format!("{}.{}", action.control_name, p.param_name(action_id, id)));
        }
    }
    let own = |suffix: &str, word: &str| Some(format!("{}.{word}", field.name.strip_suffix(suffix)?));
    match own(".$next$", "nextIndex").or_else(|| own(".$length$", "length")) {
        Some(name) => Cow::Owned(name),
        None => Cow::Borrowed(&field.name),
    }
}

/// The precedence of an expression, in the order of P4_16.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Choice,
    Or,
    And,
    BitOr,
    BitXor,
    BitAnd,
    Equal,
    Order,
    Shift,
    Sum,
    Product,
    Prefix,
    Whole,
}

impl<'a> Wording<'a> {
    pub(crate) fn new(p: &'a Program) -> Wording<'a> {
        let mut origins = HashMap::new();
        for node in p.blocks.iter().flat_map(|block| &block.body.nodes) {
            if let Terminator::Apply { table, hit, action_run, .. } = &node.terminator {
                origins.extend(hit.map(|f| (f, Origin::Hit(*table))));
                origins.extend(action_run.map(|f| (f, Origin::ActionRun(*table))));
            }
        }
        // A field that is also set otherwise has no fixed origin.
        for stmt in p.blocks.iter().flat_map(|b| &b.body.nodes).flat_map(|node| &node.stmts) {
            match &stmt.op {
                Op::Set { dest, .. } => _ = origins.remove(dest),
                Op::SetElement { column, .. } => column.iter().for_each(|dest| _ = origins.remove(dest)),
                _ => {}
            }
        }
        Wording { p, origins }
    }

    /// Follows the trace and records what each step stores in unnamed fields.
    pub(crate) fn follow(&mut self, event: &TraceEvent) {
        match event {
            TraceEvent::Extern { function, outs, .. } => {
                for (out, _) in outs {
                    self.origins.insert(*out, Origin::Call(function.clone()));
                }
            }
            TraceEvent::Lookahead { dest, .. } => {
                self.origins.insert(*dest, Origin::Lookahead);
            }
            _ => {}
        }
    }

    /// Returns the name of a field; `None` if it has none.
    pub(crate) fn name(&self, field: FieldId) -> Option<Cow<'a, str>> {
        let p = self.p;
        if let FieldKind::Valid(header) = p.fields[field.index()].kind {
            return Some(Cow::Owned(format!("{}.isValid()", p.headers[header.index()].name)));
        }
        if !is_nameless(p, field) {
            return Some(field_name(p, field));
        }
        Some(Cow::Owned(match self.origins.get(&field)? {
            Origin::Hit(table) => format!("{}.apply().hit", p.tables[table.index()].name),
            Origin::ActionRun(table) => format!("{}.apply().action_run", p.tables[table.index()].name),
            Origin::Call(function) => format!("{function}(…)"),
            Origin::Lookahead => format!("lookahead<bit<{}>>()", p.width(field)),
        }))
    }

    /// Returns the table whose action a `switch` tests.
    pub(crate) fn switched_table(&self, selector: &Expr) -> Option<TableId> {
        let Expr::Field(field) = selector else { return None };
        match self.origins.get(field)? {
            Origin::ActionRun(table) if is_nameless(self.p, *field) => Some(*table),
            _ => None,
        }
    }

    /// True if all of its fields have names.
    pub(crate) fn has_words_for(&self, expr: &Expr) -> bool {
        let mut all = true;
        expr.for_each_field(&mut |f| all &= self.name(f).is_some());
        all
    }

    /// Returns the expression as P4.
    pub(crate) fn expr(&self, expr: &Expr) -> String {
        self.write(expr).0
    }

    /// Returns an operand of an operator with this precedence.
    fn operand(&self, expr: &Expr, outside: Level) -> String {
        let (text, level) = self.write(expr);
        if level > outside { text } else { format!("({text})") }
    }

    fn write(&self, expr: &Expr) -> (String, Level) {
        match expr {
            Expr::Const { value, .. } => (number(value), Level::Whole),
            Expr::Field(field) => {
                let raw = || Cow::Borrowed(self.p.fields[field.index()].name.as_str());
                (self.name(*field).unwrap_or_else(raw).into_owned(), Level::Whole)
            }
            Expr::Element { column, index } => (self.element(column, index), Level::Whole),
            Expr::Unary(op, a) => {
                let sign = match op {
                    UnaryOp::Not if a.width(self.p) == 1 => "!",
                    UnaryOp::Not => "~",
                    UnaryOp::Neg => "-",
                };
                (format!("{sign}{}", self.operand(a, Level::Product)), Level::Prefix)
            }
            Expr::Binary(op, a, b) => self.binary(*op, a, b),
            Expr::Slice { value, hi, lo } => {
                (format!("{}[{hi}:{lo}]", self.operand(value, Level::Prefix)), Level::Whole)
            }
            Expr::Concat(a, b) => {
                // Left operands need no parentheses: `a ++ b ++ c`.
                let left = match a.as_ref() {
                    Expr::Concat(..) => self.expr(a),
                    _ => self.operand(a, Level::Sum),
                };
                (format!("{left} ++ {}", self.operand(b, Level::Sum)), Level::Sum)
            }
            Expr::ZeroExtend(a, width) => {
                (format!("(bit<{width}>){}", self.operand(a, Level::Product)), Level::Prefix)
            }
            Expr::SignExtend(a, width) => {
                (format!("(int<{width}>){}", self.operand(a, Level::Product)), Level::Prefix)
            }
            Expr::Select(c, a, b) => {
                let [c, a, b] = [c, a, b].map(|e| self.operand(e, Level::Choice));
                (format!("{c} ? {a} : {b}"), Level::Choice)
            }
        }
    }

    fn binary(&self, op: BinaryOp, a: &Expr, b: &Expr) -> (String, Level) {
        let bit = a.width(self.p) == 1;
        let signed = matches!(op, BinaryOp::LtS | BinaryOp::LeS);
        // The number comes on the right, as is usual.
        let flip = matches!(a, Expr::Const { .. }) && !matches!(b, Expr::Const { .. });
        let (a, b, sign, level) = match op {
            BinaryOp::Add => (a, b, "+", Level::Sum),
            BinaryOp::Sub => (a, b, "-", Level::Sum),
            BinaryOp::SatAddU | BinaryOp::SatAddS => (a, b, "|+|", Level::Sum),
            BinaryOp::SatSubU | BinaryOp::SatSubS => (a, b, "|-|", Level::Sum),
            BinaryOp::Mul => (a, b, "*", Level::Product),
            BinaryOp::DivU => (a, b, "/", Level::Product),
            BinaryOp::RemU => (a, b, "%", Level::Product),
            BinaryOp::And if bit => (a, b, "&&", Level::And),
            BinaryOp::And => (a, b, "&", Level::BitAnd),
            BinaryOp::Or if bit => (a, b, "||", Level::Or),
            BinaryOp::Or => (a, b, "|", Level::BitOr),
            BinaryOp::Xor => (a, b, "^", Level::BitXor),
            BinaryOp::Shl => (a, b, "<<", Level::Shift),
            BinaryOp::ShrU | BinaryOp::ShrS => (a, b, ">>", Level::Shift),
            BinaryOp::Eq if flip => (b, a, "==", Level::Equal),
            BinaryOp::Eq => (a, b, "==", Level::Equal),
            BinaryOp::Ne if flip => (b, a, "!=", Level::Equal),
            BinaryOp::Ne => (a, b, "!=", Level::Equal),
            BinaryOp::LtU | BinaryOp::LtS if flip => (b, a, ">", Level::Order),
            BinaryOp::LtU | BinaryOp::LtS => (a, b, "<", Level::Order),
            BinaryOp::LeU | BinaryOp::LeS if flip => (b, a, ">=", Level::Order),
            BinaryOp::LeU | BinaryOp::LeS => (a, b, "<=", Level::Order),
        };
        if let (Level::Equal, Expr::Field(field), Expr::Const { value, .. }) = (level, a, b)
            && self.p.blocks.iter().any(|block| block.error_field == Some(*field))
        {
            return (format!("{} {sign} error.{}", self.operand(a, level), code_name(self.p, value)), level);
        }
        let side = |e: &Expr, left: bool| {
            if signed {
                return self.signed(e);
            }
            // Left operands need no parentheses: `a && b && c`.
            let (text, inner) = self.write(e);
            let bare = inner > level || (left && inner == level && level <= Level::And);
            if bare { text } else { format!("({text})") }
        };
        (format!("{} {sign} {}", side(a, true), side(b, false)), level)
    }

    /// As a signed number.
    fn signed(&self, expr: &Expr) -> String {
        let width = expr.width(self.p);
        if let Expr::Const { value, .. } = expr {
            let negative = value.bit(u64::from(width) - 1);
            return if negative {
                format!("-{}", (BigUint::from(1u32) << width) - value)
            } else {
                value.to_string()
            };
        }
        format!("(int<{width}>){}", self.operand(expr, Level::Product))
    }

    /// `stack[i].f`
    fn element(&self, column: &[FieldId], index: &Expr) -> String {
        let name = |f: &FieldId| self.name(*f).unwrap_or(Cow::Borrowed(&self.p.fields[f.index()].name));
        let first = column.first().map(name).unwrap_or_default();
        let index = self.expr(index);
        // With several indices, this one numbers all elements.
        for (at, _) in first.match_indices("[0]") {
            let (stack, field) = (&first[..at], &first[at + 3..]);
            if column.iter().enumerate().all(|(i, f)| name(f) == format!("{stack}[{i}]{field}")) {
                return format!("{stack}[{index}]{field}");
            }
        }
        format!("{first} and so on [{index}]")
    }
}

/// Small numbers in decimal.
fn number(value: &BigUint) -> String {
    if value.bits() <= 3 { value.to_string() } else { format!("{value:#x}") }
}

/// Returns the name of an error code.
pub(crate) fn code_name(p: &Program, code: &BigUint) -> String {
    let name = u32::try_from(code).ok().and_then(|code| p.errors.get(code as usize));
    name.cloned().unwrap_or_else(|| format!("error {code}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: &str = "
program t
errors NoError, PacketTooShort, Odd
error_packet_too_short 1
error_header_too_short 1
field h.$valid$: 1 valid h
field h.a: 8 in h
field h.b: 8 in h
field \"s[0].$valid$\": 1 valid \"s[0]\"
field \"s[0].f\": 8 in \"s[0]\"
field \"s[1].$valid$\": 1 valid \"s[1]\"
field \"s[1].f\": 8 in \"s[1]\"
field s.$next$: 32 metadata
field m.e: 32 metadata
field $t0: 1 temp
field $t1: 32 temp
field $t2: 8 temp
column f { \"s[0].f\", \"s[1].f\" }
column v { \"s[0].$valid$\", \"s[1].$valid$\" }
header h valid h.$valid$ { h.a, h.b }
header \"s[0]\" valid \"s[0].$valid$\" { \"s[0].f\" }
header \"s[1]\" valid \"s[1].$valid$\" { \"s[1].f\" }
action NoAction() { n0: return }
table c.t { key k: 8 exact action NoAction default NoAction() size 4 }
block p parser error m.e { n0: return }
block c control {
  n0: apply c.t(h.a) hit $t0 run $t1 next n1 exit n1
  n1: return
}
block d deparser { n0: return }
ingress p, c
egress d
";

    #[test]
    fn expressions_as_p4() {
        let cases = [
            ("ltu(h.a, 0x5:8)", "h.a < 5"),
            ("ltu(0x5:8, h.a)", "h.a > 5"),
            ("leu(0x14:8, h.a)", "h.a >= 0x14"),
            ("lts(h.a, 0xff:8)", "(int<8>)h.a < -1"),
            ("and(h.$valid$, not(eq(h.a, h.b)))", "h.isValid() && !(h.a == h.b)"),
            ("or(and(h.$valid$, $t0), $t0)", "h.isValid() && c.t.apply().hit || c.t.apply().hit"),
            ("and(or(h.$valid$, $t0), $t0)", "(h.isValid() || c.t.apply().hit) && c.t.apply().hit"),
            ("sub(h.a, sub(h.b, 0x1:8))", "h.a - (h.b - 1)"),
            ("mul(add(h.a, h.b), 0x2:8)", "(h.a + h.b) * 2"),
            ("and(h.a, not(0x3:8))", "h.a & ~3"),
            ("concat(concat(h.a, h.b), h.a)[11:4]", "(h.a ++ h.b ++ h.a)[11:4]"),
            ("zext(add(h.a, h.b), 16)", "(bit<16>)(h.a + h.b)"),
            ("ne(m.e, 0x2:32)", "m.e != error.Odd"),
            ("eq($t1, 0x0:32)", "c.t.apply().action_run == 0"),
            ("select(h.$valid$, h.a, h.b)", "h.isValid() ? h.a : h.b"),
            ("element(f, s.$next$)", "s[s.nextIndex].f"),
            ("element(v, h.a)", "s[h.a].isValid()"),
            ("eq($t2, 0x0:8)", "$t2 == 0"),
        ];
        for (ir, p4) in cases {
            let text = PROGRAM.replace("field m.e", "field x: 8 metadata\nfield m.e");
            let text = text.replace("n1: return\n}", &format!("n1: x = {ir} return\n}}"));
            let p = p4jet_ir::text::parse(&text).unwrap_or_else(|e| panic!("{ir}: {e}"));
            let Op::Set { value, .. } = &p.blocks[1].body.nodes[1].stmts[0].op else { panic!("{ir}") };
            let words = Wording::new(&p);
            assert_eq!(words.expr(value), p4, "{ir}");
            assert_eq!(words.has_words_for(value), !ir.contains("$t2"), "{ir}");
        }
    }
}
