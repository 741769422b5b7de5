//! The conditions of `#if`: C's integer expressions of 64 bits.

use crate::lexer::{Interner, Kind, Token};
use crate::literal;
use crate::span::Span;

/// Maximum nesting depth of expressions.
const DEPTH_MAX: usize = 200;

/// A value; as in C, an unsigned operand makes the operation unsigned.
#[derive(Clone, Copy)]
struct Number {
    bits: i64,
    unsigned: bool,
}

impl Number {
    fn signed(bits: i64) -> Number {
        Number { bits, unsigned: false }
    }
}

type Value = Result<Number, (Span, String)>;

/// Evaluates the tokens of a condition with expanded macros; `end` is the place of errors that belong to no token.
pub(super) fn evaluate(tokens: &[Token], interner: &Interner, end: Span) -> Result<bool, (Span, String)> {
    let mut evaluator = Evaluator { tokens, at: 0, interner, end, depth: 0 };
    Ok(evaluator.whole()?.bits != 0)
}

struct Evaluator<'a> {
    tokens: &'a [Token],
    at: usize,
    interner: &'a Interner,
    end: Span,
    depth: usize,
}

impl Evaluator<'_> {
    fn whole(&mut self) -> Value {
        if self.tokens.is_empty() {
            return Err((self.end, "this conditional has no condition".to_string()));
        }
        let value = self.conditional(true)?;
        match self.tokens.get(self.at) {
            None => Ok(value),
            Some(token) => {
                Err((token.span, format!("unexpected `{}` in a condition", token.text(self.interner))))
            }
        }
    }

    fn kind(&self) -> Kind {
        self.tokens.get(self.at).map_or(Kind::Eof, |t| t.kind)
    }

    fn span(&self) -> Span {
        self.tokens.get(self.at).map_or(self.end, |t| t.span)
    }

    fn nested(&mut self, parse: impl FnOnce(&mut Self) -> Value) -> Value {
        if self.depth >= DEPTH_MAX {
            return Err((self.span(), format!("this condition nests more than {DEPTH_MAX} deep")));
        }
        self.depth += 1;
        let value = parse(self);
        self.depth -= 1;
        value
    }

    /// `live`: the value is needed, so a division by zero is an error.
    fn conditional(&mut self, live: bool) -> Value {
        let condition = self.binary(0, live)?;
        if self.kind() != Kind::Question {
            return Ok(condition);
        }
        let holds = condition.bits != 0;
        self.at += 1;
        let then = self.nested(|e| e.conditional(live && holds))?;
        if self.kind() != Kind::Colon {
            return Err((self.span(), "expected `:` in a condition".to_string()));
        }
        self.at += 1;
        let other = self.nested(|e| e.conditional(live && !holds))?;
        let bits = if holds { then.bits } else { other.bits };
        Ok(Number { bits, unsigned: then.unsigned || other.unsigned })
    }

    /// Returns the operator at the cursor, its precedence, and its number of tokens.
    fn operator(&self) -> Option<(Kind, u8, usize)> {
        let token = self.tokens.get(self.at)?;
        let precedence = match token.kind {
            Kind::OrOr => 1,
            Kind::AndAnd => 2,
            Kind::Pipe => 3,
            Kind::Caret => 4,
            Kind::Amp => 5,
            Kind::EqEq | Kind::NotEq => 6,
            // `>>` consists of two tokens; unlike Shl, it has no token kind.
            Kind::Greater if token.joint => return Some((Kind::Greater, 8, 2)),
            Kind::Less | Kind::LessEq | Kind::Greater | Kind::GreaterEq => 7,
            Kind::Shl => 8,
            Kind::Plus | Kind::Minus => 9,
            Kind::Star | Kind::Slash | Kind::Percent => 10,
            _ => return None,
        };
        Some((token.kind, precedence, 1))
    }

    fn binary(&mut self, min: u8, live: bool) -> Value {
        let mut left = self.unary(live)?;
        while let Some((kind, precedence, length)) = self.operator() {
            if precedence <= min {
                break;
            }
            let span = self.span();
            self.at += length;
            let right_live = live
                && match kind {
                    Kind::OrOr => left.bits == 0,
                    Kind::AndAnd => left.bits != 0,
                    _ => true,
                };
            let right = self.nested(|e| e.binary(precedence, right_live))?;
            left = match (kind, length) {
                (Kind::Shl, _) => shift(left, right, true),
                (Kind::Greater, 2) => shift(left, right, false),
                (Kind::Slash | Kind::Percent, _) if right.bits == 0 => {
                    if right_live {
                        return Err((span, "division by zero in a condition".to_string()));
                    }
                    Number::signed(0)
                }
                _ => apply(kind, left, right),
            };
        }
        Ok(left)
    }

    fn unary(&mut self, live: bool) -> Value {
        let kind = self.kind();
        let span = self.span();
        let Some(token) = self.tokens.get(self.at) else {
            return Err((span, "expected a value at the end of this condition".to_string()));
        };
        self.at += 1;
        let unary = |e: &mut Self| e.unary(live);
        match kind {
            Kind::Not => Ok(Number::signed((self.nested(unary)?.bits == 0) as i64)),
            Kind::Tilde => self.nested(unary).map(|n| Number { bits: !n.bits, ..n }),
            Kind::Minus => self.nested(unary).map(|n| Number { bits: n.bits.wrapping_neg(), ..n }),
            Kind::Plus => self.nested(unary),
            Kind::LParen => {
                let value = self.nested(|e| e.conditional(live))?;
                if self.kind() != Kind::RParen {
                    return Err((self.span(), "expected `)` in a condition".to_string()));
                }
                self.at += 1;
                Ok(value)
            }
            Kind::Integer => integer(self.interner.text(token.symbol)).map_err(|message| (span, message)),
            Kind::Unknown if let Some(value) = character(self.interner.text(token.symbol)) => Ok(value),
            // As in C, a name that is not a macro is 0.
            Kind::Ident | Kind::Keyword(_) => Ok(Number::signed(0)),
            _ => {
                Err((span, format!("expected a value in a condition, found `{}`", token.text(self.interner))))
            }
        }
    }
}

fn apply(kind: Kind, left: Number, right: Number) -> Number {
    let unsigned = left.unsigned || right.unsigned;
    let (x, y) = (left.bits, right.bits);
    let (ux, uy) = (x as u64, y as u64);
    let truth = |holds: bool| Number::signed(holds as i64);
    let number = |bits: i64| Number { bits, unsigned };
    let less = if unsigned { ux < uy } else { x < y };
    match kind {
        Kind::OrOr => truth(x != 0 || y != 0),
        Kind::AndAnd => truth(x != 0 && y != 0),
        Kind::EqEq => truth(x == y),
        Kind::NotEq => truth(x != y),
        Kind::Less => truth(less),
        Kind::GreaterEq => truth(!less),
        Kind::LessEq => truth(less || x == y),
        Kind::Greater => truth(!less && x != y),
        Kind::Pipe => number(x | y),
        Kind::Caret => number(x ^ y),
        Kind::Amp => number(x & y),
        Kind::Plus => number(x.wrapping_add(y)),
        Kind::Minus => number(x.wrapping_sub(y)),
        Kind::Star => number(x.wrapping_mul(y)),
        // The caller has excluded division by zero.
        Kind::Slash if unsigned => number((ux / uy) as i64),
        Kind::Slash => number(x.wrapping_div(y)),
        _ if unsigned => number((ux % uy) as i64),
        _ => number(x.wrapping_rem(y)),
    }
}

/// A negative count shifts the other way.
fn shift(value: Number, by: Number, left: bool) -> Number {
    let (left, count) = match by.bits {
        n if n < 0 && !by.unsigned => (!left, n.unsigned_abs()),
        n => (left, n as u64),
    };
    let bits = match (left, value.unsigned) {
        (true, _) => value.bits.checked_shl(count.min(64) as u32).unwrap_or(0),
        (false, true) => (value.bits as u64).checked_shr(count.min(64) as u32).unwrap_or(0) as i64,
        (false, false) => value.bits >> count.min(63),
    };
    Number { bits, ..value }
}

/// Integers of C, such as `0x10`, `017`, `201710L`, and others of P4, such as `8w5`.
fn integer(text: &str) -> Result<Number, String> {
    let digits = text.trim_end_matches(['u', 'U', 'l', 'L']);
    let suffix = &text[digits.len()..];
    let lower = digits.to_ascii_lowercase();
    let (digits, radix) = match lower.as_bytes() {
        [b'0', b'x', ..] => (&lower[2..], 16),
        [b'0', b'b', ..] => (&lower[2..], 2),
        [b'0', b'0'..=b'9', ..] => (&lower[1..], 8),
        _ => (&lower[..], 10),
    };
    if let Ok(value) = u64::from_str_radix(digits, radix) {
        let unsigned = suffix.contains(['u', 'U']) || radix != 10 && value > i64::MAX as u64;
        return Ok(Number { bits: value as i64, unsigned });
    }
    let literal = literal::parse(text)?;
    Ok(Number::signed(i64::try_from(literal.value).unwrap_or(i64::MAX)))
}

/// `'a'`, `'\n'`, `'ab'`
fn character(text: &str) -> Option<Number> {
    let inner = text.strip_prefix('\'')?.strip_suffix('\'').filter(|inner| !inner.is_empty())?;
    let mut value: i64 = 0;
    let mut count = 0;
    let mut bytes = inner.bytes().peekable();
    while let Some(byte) = bytes.next() {
        let code = match byte {
            b'\\' => match bytes.next()? {
                b'n' => 10,
                b't' => 9,
                b'r' => 13,
                b'a' => 7,
                b'b' => 8,
                b'f' => 12,
                b'v' => 11,
                b'x' => {
                    let mut code = 0u32;
                    while let Some(digit) = bytes.peek().and_then(|b| char::from(*b).to_digit(16)) {
                        code = code << 4 | digit;
                        bytes.next();
                    }
                    code as u8
                }
                digit @ b'0'..=b'7' => {
                    let mut code = u32::from(digit - b'0');
                    for _ in 0..2 {
                        let Some(digit) = bytes.peek().and_then(|b| char::from(*b).to_digit(8)) else {
                            break;
                        };
                        code = code << 3 | digit;
                        bytes.next();
                    }
                    code as u8
                }
                other => other,
            },
            byte => byte,
        };
        value = value << 8 | i64::from(code);
        count += 1;
    }
    // `char` is signed; several characters make an `int`.
    let bits = if count == 1 { i64::from(value as u8 as i8) } else { i64::from(value as i32) };
    Some(Number::signed(bits))
}
