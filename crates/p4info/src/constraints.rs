//! Constraints on table entries and action parameters: the text of `@entry_restriction` and `@action_restriction`.
//!
//! The language is that of p4-constraints (its language specification of 2024). A constraint is checked against its table or
//! action once, when a program is loaded, so that a wrong one is refused then and evaluation cannot fail.

use num_bigint::{BigInt, BigUint};
use num_traits::{One, Signed, Zero};
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Maximum length of a constraint's text, in bytes.
pub const TEXT_MAX: usize = 64 * 1024;
/// Maximum nesting of expressions.
const DEPTH_MAX: usize = 100;

/// The object of a constraint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The keys of a table, or the parameters of an action.
    pub fields: Vec<Field>,
    /// True for a table, whose entries may have a priority.
    pub is_table: bool,
}

/// A key field of a table or a parameter of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its match kind. A parameter is a [`Kind::Number`].
    pub kind: Kind,
    /// Its width in bits; 0 for a string, which constraints cannot use.
    pub width: u32,
}

/// The form of a field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number: a parameter.
    Number,
    /// An exact match.
    Exact,
    /// A longest prefix match.
    Lpm,
    /// A ternary match.
    Ternary,
    /// An optional match.
    Optional,
    /// A range match.
    Range,
}

impl Kind {
    /// The kind of a key with this match kind.
    pub fn of_match(name: &str) -> Option<Kind> {
        Some(match name {
            "exact" => Kind::Exact,
            "lpm" => Kind::Lpm,
            "ternary" => Kind::Ternary,
            "optional" => Kind::Optional,
            "range" => Kind::Range,
            _ => return None,
        })
    }
}

/// The value of a field in an entry. Omitted keys have the value that matches everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A parameter or an exact match.
    Number(BigUint),
    /// A longest prefix match.
    Lpm(BigUint, u32),
    /// A ternary or optional match: value and mask.
    Ternary(BigUint, BigUint),
    /// A range match: the lowest and the highest number.
    Range(BigUint, BigUint),
}

/// A constraint on the entries of a table or the parameters of an action.
#[derive(Clone, Debug)]
pub struct Constraint {
    text: String,
    /// All must hold.
    conditions: Vec<Node>,
    names: Vec<String>,
}

/// An error in the text of a constraint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadConstraint {
    /// The offset in bytes.
    pub at: usize,
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1.
    pub column: usize,
    /// The message: found, and expected.
    pub message: String,
}

impl fmt::Display for BadConstraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {} of the constraint: {}", self.line, self.column, self.message)
    }
}

/// A condition that is false.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The condition as written in the program.
    pub condition: String,
    /// The values of its fields: names and texts.
    pub values: Vec<(String, String)>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the constraint `{}` does not hold", self.condition)?;
        for (i, (name, value)) in self.values.iter().enumerate() {
            write!(f, "{}{name} is {value}", if i == 0 { ": " } else { ", " })?;
        }
        Ok(())
    }
}

/// The text of the annotation `@name("…")`, if present. Several strings become lines.
pub fn annotation_text(annotations: &[String], name: &str) -> Option<String> {
    let body = annotations.iter().find_map(|annotation| {
        let rest = annotation.trim().strip_prefix('@')?.strip_prefix(name)?.trim_start();
        rest.strip_prefix('(')?.trim_end().strip_suffix(')')
    })?;
    let (mut text, mut chars, mut inside, mut pieces) = (String::new(), body.chars(), false, 0);
    while let Some(c) = chars.next() {
        match (inside, c) {
            (false, '"') => {
                inside = true;
                if pieces > 0 {
                    text.push('\n');
                }
                pieces += 1;
            }
            (true, '"') => inside = false,
            (true, '\\') => match chars.next() {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some(other) => text.push(other),
                None => {}
            },
            (true, c) => text.push(c),
            (false, _) => {}
        }
    }
    Some(text)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Bool,
    Int,
    Bits(u32),
    Match(Kind, u32),
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Bool => f.write_str("bool"),
            Type::Int => f.write_str("int"),
            Type::Bits(width) => write!(f, "bit<{width}>"),
            Type::Match(kind, width) => {
                let kind = match kind {
                    Kind::Number | Kind::Exact => "exact",
                    Kind::Lpm => "lpm",
                    Kind::Ternary => "ternary",
                    Kind::Optional => "optional",
                    Kind::Range => "range",
                };
                write!(f, "{kind}<{width}>")
            }
        }
    }
}

#[derive(Clone, Debug)]
struct Node {
    expr: Expr,
    ty: Type,
    from: usize,
    to: usize,
}

#[derive(Clone, Debug)]
enum Expr {
    Bool(bool),
    Int(BigInt),
    Field(usize),
    Part(usize, Part),
    Priority,
    Not(Box<Node>),
    Negate(Box<Node>),
    /// All conditions hold. At least one.
    All(Vec<Node>),
    /// Any condition holds. At least one.
    Any(Vec<Node>),
    Implies(Box<Node>, Box<Node>),
    /// Both operands have this type after conversion.
    Compare(Compare, Type, Box<Node>, Box<Node>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Value,
    Mask,
    PrefixLength,
    Low,
    High,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Number(BigInt),
    Text(String),
    Sign(&'static str),
    End,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Word(word) => write!(f, "`{word}`"),
            Token::Number(number) => write!(f, "`{number}`"),
            Token::Text(text) => write!(f, "`'{text}'`"),
            Token::Sign(sign) => write!(f, "`{sign}`"),
            Token::End => f.write_str("the end"),
        }
    }
}

/// Longer operators are first.
const SIGNS: [&str; 17] =
    ["::", "->", "==", "!=", "<=", ">=", "&&", "||", "<", ">", "!", "-", "(", ")", ";", ".", ","];

struct Lexed {
    token: Token,
    from: usize,
    to: usize,
}

fn lex(text: &str) -> Result<Vec<Lexed>, (usize, String)> {
    let bytes = text.as_bytes();
    let (mut tokens, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let rest = &text[at..];
        let from = at;
        if bytes[at].is_ascii_whitespace() {
            at += 1;
            continue;
        }
        if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
            continue;
        }
        if rest.starts_with("/*") {
            let Some(end) = rest.find("*/") else {
                return Err((from, "an unterminated comment".to_string()));
            };
            at += end + 2;
            continue;
        }
        let token = if bytes[at].is_ascii_digit() {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
            at += end;
            match number(&rest[..end]) {
                Some(number) => Token::Number(number),
                None => {
                    return Err((
                        from,
                        format!(
                            "found `{}`, expected a number such as 10, 0x0a, 0o12 or 0b1010",
                            &rest[..end]
                        ),
                    ));
                }
            }
        } else if bytes[at].is_ascii_alphabetic() || bytes[at] == b'_' {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            at += end;
            Token::Word(rest[..end].to_string())
        } else if bytes[at] == b'\'' {
            let Some(end) = rest[1..].find('\'') else {
                return Err((from, "an unterminated string".to_string()));
            };
            at += end + 2;
            Token::Text(rest[1..=end].to_string())
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            at += sign.len();
            Token::Sign(sign)
        } else {
            let found = rest.chars().next().unwrap_or(' ');
            return Err((from, format!("found `{found}`, expected an operator, a name or a number")));
        };
        tokens.push(Lexed { token, from, to: at });
    }
    tokens.push(Lexed { token: Token::End, from: text.len(), to: text.len() });
    Ok(tokens)
}

fn number(text: &str) -> Option<BigInt> {
    let (radix, digits) = match text.get(..2).map(str::to_ascii_lowercase).as_deref() {
        Some("0x") => (16, &text[2..]),
        Some("0o") => (8, &text[2..]),
        Some("0b") => (2, &text[2..]),
        Some("0d") => (10, &text[2..]),
        _ => (10, text),
    };
    BigInt::parse_bytes(digits.as_bytes(), radix)
}

fn ones(width: u32) -> BigUint {
    (BigUint::one() << width) - 1u32
}

/// A number as `width` bits: modulo 2 to the power of the width.
fn wrapped(number: &BigInt, width: u32) -> BigUint {
    let modulus = BigInt::one() << width;
    let rest = number % &modulus;
    let rest = if rest.is_negative() { rest + modulus } else { rest };
    rest.to_biguint().unwrap_or_default()
}

struct Parser<'a> {
    tokens: Vec<Lexed>,
    at: usize,
    depth: usize,
    subject: &'a Subject,
}

type Parsed<T> = Result<T, (usize, String)>;

impl Parser<'_> {
    fn peek(&self) -> &Token {
        &self.tokens[self.at].token
    }

    fn from(&self) -> usize {
        self.tokens[self.at].from
    }

    /// The end of the last consumed token.
    fn behind(&self) -> usize {
        self.tokens[self.at.saturating_sub(1)].to
    }

    fn take(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek(), Token::Sign(s) if *s == sign);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, sign: &'static str) -> Parsed<()> {
        match self.take(sign) {
            true => Ok(()),
            false => self.refuse(&format!("`{sign}`")),
        }
    }

    fn refuse<T>(&self, expected: &str) -> Parsed<T> {
        Err((self.from(), format!("found {}, expected {expected}", self.peek())))
    }

    fn is_end(&self) -> bool {
        *self.peek() == Token::End
    }

    /// Conditions joined by `;`.
    fn conditions(&mut self) -> Parsed<Vec<Node>> {
        let mut all = Vec::new();
        loop {
            let condition = self.implication()?;
            all.push(bool(condition)?);
            if !self.take(";") {
                break;
            }
            if self.is_end() {
                break;
            }
        }
        match self.is_end() {
            true => Ok(all),
            false => self.refuse("an operator or the end"),
        }
    }

    fn implication(&mut self) -> Parsed<Node> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err((self.from(), format!("an expression nested deeper than {DEPTH_MAX} levels")));
        }
        let left = self.disjunction()?;
        let node = match self.take("->") {
            false => left,
            true => {
                let right = self.disjunction()?;
                if matches!(self.peek(), Token::Sign("->")) {
                    return Err((
                        self.from(),
                        "`->` after `->`: parentheses must say what belongs together".to_string(),
                    ));
                }
                let (from, to) = (left.from, right.to);
                let expr = Expr::Implies(Box::new(bool(left)?), Box::new(bool(right)?));
                Node { expr, ty: Type::Bool, from, to }
            }
        };
        self.depth -= 1;
        Ok(node)
    }

    fn disjunction(&mut self) -> Parsed<Node> {
        self.joined("||", Parser::conjunction, Expr::Any)
    }

    fn conjunction(&mut self) -> Parsed<Node> {
        self.joined("&&", Parser::comparison, Expr::All)
    }

    /// One operand, or several conditions joined by an operator.
    fn joined(
        &mut self,
        sign: &str,
        operand: fn(&mut Self) -> Parsed<Node>,
        join: fn(Vec<Node>) -> Expr,
    ) -> Parsed<Node> {
        let first = operand(self)?;
        if !matches!(self.peek(), Token::Sign(s) if *s == sign) {
            return Ok(first);
        }
        let from = first.from;
        let mut all = vec![bool(first)?];
        while self.take(sign) {
            let next = operand(self)?;
            all.push(bool(next)?);
        }
        Ok(Node { to: all[all.len() - 1].to, expr: join(all), ty: Type::Bool, from })
    }

    fn compare_sign(&mut self) -> Option<Compare> {
        let Token::Sign(sign) = self.peek() else { return None };
        let compare = match *sign {
            "==" => Compare::Eq,
            "!=" => Compare::Ne,
            "<" => Compare::Lt,
            "<=" => Compare::Le,
            ">" => Compare::Gt,
            ">=" => Compare::Ge,
            _ => return None,
        };
        self.at += 1;
        Some(compare)
    }

    fn comparison(&mut self) -> Parsed<Node> {
        let left = self.unary()?;
        let Some(compare) = self.compare_sign() else { return Ok(left) };
        let right = self.unary()?;
        let (from, to) = (left.from, right.to);
        if self.compare_sign().is_some() {
            let text = "a comparison of a comparison: parentheses must say what belongs together";
            return Err((self.tokens[self.at - 1].from, text.to_string()));
        }
        let Some(ty) = common(left.ty, right.ty) else {
            return Err((from, format!("{} and {} cannot be compared", left.ty, right.ty)));
        };
        let ordered = matches!(ty, Type::Int | Type::Bits(_));
        if !ordered && !matches!(compare, Compare::Eq | Compare::Ne) {
            let parts = match ty {
                Type::Match(kind, _) => format!(": compare its {}", part_names(kind)),
                _ => String::new(),
            };
            return Err((from, format!("values of type {ty} have no order{parts}")));
        }
        Ok(Node {
            expr: Expr::Compare(compare, ty, Box::new(left), Box::new(right)),
            ty: Type::Bool,
            from,
            to,
        })
    }

    /// Any number of unary operators, then an operand.
    fn unary(&mut self) -> Parsed<Node> {
        let mut signs = Vec::new();
        loop {
            let from = self.from();
            if self.take("!") {
                signs.push((from, true));
            } else if self.take("-") {
                signs.push((from, false));
            } else {
                break;
            }
            if signs.len() > DEPTH_MAX {
                return Err((from, format!("more than {DEPTH_MAX} signs in a row")));
            }
        }
        let mut node = self.operand()?;
        for (from, is_not) in signs.into_iter().rev() {
            let to = node.to;
            node = match is_not {
                true => Node { expr: Expr::Not(Box::new(bool(node)?)), ty: Type::Bool, from, to },
                false if node.ty == Type::Int => {
                    Node { expr: Expr::Negate(Box::new(node)), ty: Type::Int, from, to }
                }
                false => return Err((from, format!("the negative of type {}, expected int", node.ty))),
            };
        }
        Ok(node)
    }

    fn operand(&mut self) -> Parsed<Node> {
        let from = self.from();
        let node = |expr, ty, to| Node { expr, ty, from, to };
        match self.peek().clone() {
            Token::Sign("(") => {
                self.at += 1;
                // In parentheses, too, `;` joins conditions, with lower precedence than every other operator.
                let inner = self.joined(";", Parser::implication, Expr::All)?;
                self.expect(")")?;
                Ok(Node { from, to: self.behind(), ..inner })
            }
            Token::Sign("::") => {
                self.at += 1;
                let Token::Word(name) = self.peek() else { return self.refuse("`priority`") };
                if name != "priority" || !self.subject.is_table {
                    let valid = if self.subject.is_table {
                        "`priority`"
                    } else {
                        "none: parameters have no attributes"
                    };
                    return Err((from, format!("no attribute `{name}`, expected {valid}")));
                }
                self.at += 1;
                Ok(node(Expr::Priority, Type::Int, self.behind()))
            }
            Token::Number(number) => {
                self.at += 1;
                Ok(node(Expr::Int(number), Type::Int, self.behind()))
            }
            Token::Word(word) => {
                self.at += 1;
                match word.as_str() {
                    "true" | "false" => Ok(node(Expr::Bool(word == "true"), Type::Bool, self.behind())),
                    "ipv4" | "ipv6" | "mac" if matches!(self.peek(), Token::Sign("(")) => {
                        let number = self.address(&word)?;
                        Ok(node(Expr::Int(number), Type::Int, self.behind()))
                    }
                    _ => self.field(from, word),
                }
            }
            _ => self.refuse("a condition: a key, a number, `true`, `false`, `!`, `-`, `(` or `::priority`"),
        }
    }

    fn address(&mut self, kind: &str) -> Parsed<BigInt> {
        self.expect("(")?;
        let from = self.from();
        let Token::Text(text) = self.peek().clone() else {
            return self.refuse("an address in single quotes");
        };
        self.at += 1;
        self.expect(")")?;
        let number: Option<BigInt> = match kind {
            "ipv4" => text.parse::<Ipv4Addr>().ok().map(|address| u32::from(address).into()),
            "ipv6" => text.parse::<Ipv6Addr>().ok().map(|address| u128::from(address).into()),
            _ => {
                let parts: Vec<&str> = text.split(':').collect();
                let bytes = parts.iter().map(|part| match part.len() {
                    2 if part.bytes().all(|b| b.is_ascii_hexdigit()) => u8::from_str_radix(part, 16).ok(),
                    _ => None,
                });
                let bytes: Option<Vec<u8>> = bytes.collect();
                bytes.filter(|b| b.len() == 6).map(|b| BigUint::from_bytes_be(&b).into())
            }
        };
        let example = match kind {
            "ipv4" => "192.0.2.1",
            "ipv6" => "2001:db8::1",
            _ => "00:00:5e:00:53:01",
        };
        number.ok_or_else(|| {
            (from, format!("`{text}` is not an address of this kind, expected one such as {example}"))
        })
    }

    fn field(&mut self, from: usize, first: String) -> Parsed<Node> {
        let mut name = first;
        while matches!(self.peek(), Token::Sign(".")) {
            self.at += 1;
            let Token::Word(word) = self.peek() else { return self.refuse("a name after `.`") };
            name.push('.');
            name.push_str(word);
            self.at += 1;
        }
        let Some(index) = self.subject.fields.iter().position(|field| field.name == name) else {
            let what = if self.subject.is_table { "key" } else { "parameter" };
            let names: Vec<String> =
                self.subject.fields.iter().map(|field| format!("`{}`", field.name)).collect();
            let names = if names.is_empty() { "none".to_string() } else { names.join(", ") };
            return Err((from, format!("no {what} `{name}`, expected one of: {names}")));
        };
        let Field { kind, width, .. } = self.subject.fields[index];
        if width == 0 {
            return Err((from, format!("`{name}` is a string, which constraints cannot use")));
        }
        let to = self.behind();
        if !self.take("::") {
            let ty = if kind == Kind::Number { Type::Bits(width) } else { Type::Match(kind, width) };
            return Ok(Node { expr: Expr::Field(index), ty, from, to });
        }
        let Token::Word(part) = self.peek().clone() else { return self.refuse("the part of a key") };
        let found = match (kind, part.as_str()) {
            (Kind::Exact | Kind::Lpm | Kind::Ternary | Kind::Optional, "value") => {
                Some((Part::Value, Type::Bits(width)))
            }
            (Kind::Ternary | Kind::Optional, "mask") => Some((Part::Mask, Type::Bits(width))),
            (Kind::Lpm, "prefix_length") => Some((Part::PrefixLength, Type::Int)),
            (Kind::Range, "low") => Some((Part::Low, Type::Bits(width))),
            (Kind::Range, "high") => Some((Part::High, Type::Bits(width))),
            _ => None,
        };
        let Some((part, ty)) = found else {
            return Err((
                self.from(),
                format!("`{name}` has no part `{part}`, expected {}", part_names(kind)),
            ));
        };
        self.at += 1;
        Ok(Node { expr: Expr::Part(index, part), ty, from, to: self.behind() })
    }
}

fn part_names(kind: Kind) -> &'static str {
    match kind {
        Kind::Number => "none: it is a number",
        Kind::Exact => "`::value`",
        Kind::Lpm => "`::value` or `::prefix_length`",
        Kind::Ternary | Kind::Optional => "`::value` or `::mask`",
        Kind::Range => "`::low` or `::high`",
    }
}

fn bool(node: Node) -> Parsed<Node> {
    match node.ty {
        Type::Bool => Ok(node),
        ty => Err((node.from, format!("a value of type {ty}, expected a condition"))),
    }
}

/// The common type of both: an int converts to a bit string of any width, and that to an exact match.
fn common(left: Type, right: Type) -> Option<Type> {
    let above = |high: Type, low: Type| match (high, low) {
        (Type::Bits(_) | Type::Match(..), Type::Int) => true,
        (Type::Match(_, width), Type::Bits(bits)) => width == bits,
        _ => high == low,
    };
    match () {
        () if above(left, right) => Some(left),
        () if above(right, left) => Some(right),
        () => None,
    }
}

/// The value of an expression for an entry.
#[derive(Clone, Debug, PartialEq)]
enum Found {
    Bool(bool),
    Int(BigInt),
    Bits(BigUint),
    Match(Value),
}

struct Entry<'a> {
    values: &'a [Value],
    priority: &'a BigInt,
}

impl Entry<'_> {
    fn holds(&self, node: &Node) -> bool {
        self.find(node) == Found::Bool(true)
    }

    fn find(&self, node: &Node) -> Found {
        match &node.expr {
            Expr::Bool(value) => Found::Bool(*value),
            Expr::Int(number) => Found::Int(number.clone()),
            Expr::Priority => Found::Int(self.priority.clone()),
            Expr::Field(index) => match (&self.values[*index], node.ty) {
                (Value::Number(number), Type::Bits(_)) => Found::Bits(number.clone()),
                (value, _) => Found::Match(value.clone()),
            },
            Expr::Part(index, part) => match (&self.values[*index], part) {
                (Value::Lpm(_, length), Part::PrefixLength) => Found::Int((*length).into()),
                (Value::Ternary(_, mask), Part::Mask) => Found::Bits(mask.clone()),
                (Value::Range(_, high), Part::High) => Found::Bits(high.clone()),
                (
                    Value::Number(value)
                    | Value::Lpm(value, _)
                    | Value::Ternary(value, _)
                    | Value::Range(value, _),
                    _,
                ) => Found::Bits(value.clone()),
            },
            Expr::Not(inner) => Found::Bool(!self.holds(inner)),
            Expr::Negate(inner) => match self.find(inner) {
                Found::Int(number) => Found::Int(-number),
                other => other,
            },
            Expr::All(all) => Found::Bool(all.iter().all(|node| self.holds(node))),
            Expr::Any(any) => Found::Bool(any.iter().any(|node| self.holds(node))),
            Expr::Implies(left, right) => Found::Bool(!self.holds(left) || self.holds(right)),
            Expr::Compare(compare, ty, left, right) => {
                let (left, right) = (convert(self.find(left), *ty), convert(self.find(right), *ty));
                let order = match (&left, &right) {
                    (Found::Int(a), Found::Int(b)) => a.cmp(b),
                    (Found::Bits(a), Found::Bits(b)) => a.cmp(b),
                    _ => return Found::Bool((left == right) == (*compare == Compare::Eq)),
                };
                Found::Bool(match compare {
                    Compare::Eq => order.is_eq(),
                    Compare::Ne => order.is_ne(),
                    Compare::Lt => order.is_lt(),
                    Compare::Le => order.is_le(),
                    Compare::Gt => order.is_gt(),
                    Compare::Ge => order.is_ge(),
                })
            }
        }
    }
}

fn convert(found: Found, ty: Type) -> Found {
    match (found, ty) {
        (Found::Int(number), Type::Bits(width)) => Found::Bits(wrapped(&number, width)),
        (Found::Int(number), Type::Match(kind, width)) => {
            Found::Match(only(kind, width, wrapped(&number, width)))
        }
        (Found::Bits(number), Type::Match(kind, width)) => Found::Match(only(kind, width, number)),
        (found, _) => found,
    }
}

/// The exact match on a value.
fn only(kind: Kind, width: u32, value: BigUint) -> Value {
    match kind {
        Kind::Number | Kind::Exact => Value::Number(value),
        Kind::Lpm => Value::Lpm(value, width),
        Kind::Ternary | Kind::Optional => Value::Ternary(value, ones(width)),
        Kind::Range => Value::Range(value.clone(), value),
    }
}

impl Value {
    /// The match on every value, for a key that an entry omits. An exact key cannot be omitted; it counts as 0.
    pub fn any(kind: Kind, width: u32) -> Value {
        match kind {
            Kind::Number | Kind::Exact => Value::Number(BigUint::zero()),
            Kind::Lpm => Value::Lpm(BigUint::zero(), 0),
            Kind::Ternary | Kind::Optional => Value::Ternary(BigUint::zero(), BigUint::zero()),
            Kind::Range => Value::Range(BigUint::zero(), ones(width)),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(value) => write!(f, "{value:#x}"),
            Value::Lpm(value, length) => write!(f, "{value:#x}/{length}"),
            Value::Ternary(value, mask) => write!(f, "{value:#x} &&& {mask:#x}"),
            Value::Range(low, high) => write!(f, "{low:#x} to {high:#x}"),
        }
    }
}

impl Constraint {
    /// Parses a constraint on a table's entries or an action's parameters.
    ///
    /// # Errors
    /// The text is too long, does not follow the grammar, or compares values that cannot be compared.
    pub fn parse(text: &str, subject: &Subject) -> Result<Constraint, BadConstraint> {
        let placed = |(at, message): (usize, String)| {
            let before = &text[..at.min(text.len())];
            let line = before.matches('\n').count() + 1;
            let column = before.len() - before.rfind('\n').map_or(0, |newline| newline + 1) + 1;
            BadConstraint { at, line, column, message }
        };
        if text.len() > TEXT_MAX {
            return Err(placed((0, format!("{} bytes, expected at most {TEXT_MAX}", text.len()))));
        }
        let tokens = lex(text).map_err(placed)?;
        let mut parser = Parser { tokens, at: 0, depth: 0, subject };
        let conditions = parser.conditions().map_err(placed)?;
        let names = subject.fields.iter().map(|field| field.name.clone()).collect();
        Ok(Constraint { text: text.to_string(), conditions, names })
    }

    /// Its text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Checks an entry with its values in the order of the subject's fields.
    ///
    /// # Errors
    /// The smallest condition that makes the constraint false, with the values of its fields.
    pub fn check(&self, values: &[Value], priority: i64) -> Result<(), Violation> {
        let priority = BigInt::from(priority);
        let entry = Entry { values, priority: &priority };
        let first_failed = |all: &'_ [Node]| all.iter().position(|node| !entry.holds(node));
        let Some(failed) = first_failed(&self.conditions) else { return Ok(()) };
        let mut failed = &self.conditions[failed];
        while let Expr::All(all) = &failed.expr
            && let Some(inner) = first_failed(all)
        {
            failed = &all[inner];
        }
        let mut named = Vec::new();
        mentioned(failed, &mut named);
        let mut texts = Vec::new();
        for index in named {
            let text = match index {
                Some(index) => (self.names[index].clone(), values[index].to_string()),
                None => ("the priority".to_string(), priority.to_string()),
            };
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let condition = self.text[failed.from..failed.to].split_whitespace().collect::<Vec<_>>().join(" ");
        Err(Violation { condition, values: texts })
    }
}

/// The fields in an expression; `None` is the priority.
fn mentioned(node: &Node, named: &mut Vec<Option<usize>>) {
    match &node.expr {
        Expr::Field(index) | Expr::Part(index, _) => named.push(Some(*index)),
        Expr::Priority => named.push(None),
        Expr::Not(inner) | Expr::Negate(inner) => mentioned(inner, named),
        Expr::All(nodes) | Expr::Any(nodes) => nodes.iter().for_each(|node| mentioned(node, named)),
        Expr::Implies(left, right) | Expr::Compare(_, _, left, right) => {
            mentioned(left, named);
            mentioned(right, named);
        }
        Expr::Bool(_) | Expr::Int(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject() -> Subject {
        let field = |name: &str, kind, width| Field { name: name.to_string(), kind, width };
        let fields = vec![
            field("hdr.ipv4.valid", Kind::Exact, 1),
            field("hdr.ipv4.dst", Kind::Ternary, 32),
            field("route", Kind::Lpm, 32),
            field("port", Kind::Range, 16),
            field("vrf", Kind::Optional, 12),
            field("name", Kind::Exact, 0),
        ];
        Subject { fields, is_table: true }
    }

    fn entry() -> Vec<Value> {
        let number = |n: u64| BigUint::from(n);
        vec![
            Value::Number(number(1)),
            Value::Ternary(number(0x0a00_0000), number(0xff00_0000)),
            Value::Lpm(number(0x0a01_0000), 16),
            Value::Range(number(1024), number(2047)),
            Value::Ternary(number(7), number(0xfff)),
            Value::Number(number(0)),
        ]
    }

    fn check(text: &str) -> Result<(), Violation> {
        Constraint::parse(text, &subject()).unwrap_or_else(|e| panic!("{text}: {e}")).check(&entry(), 10)
    }

    fn refused(text: &str) -> String {
        Constraint::parse(text, &subject()).unwrap_err().to_string()
    }

    #[test]
    fn holds() {
        for text in [
            "true",
            "true;",
            "hdr.ipv4.valid == 1",
            "hdr.ipv4.valid != 0 && hdr.ipv4.dst::mask != 0",
            "hdr.ipv4.valid == 0 -> hdr.ipv4.dst::mask == 0",
            "hdr.ipv4.dst::value == ipv4('10.0.0.0'); route::prefix_length <= 24 ; ::priority > 9",
            "port::low < port::high; port::low == 0x400",
            // Equality of a whole match: an exact match on this value.
            "vrf == 7",
            "hdr.ipv4.dst != 0x0a000000",
            "route != ipv4('10.1.0.0')",
            "port != 1024",
            // An int is taken modulo 2 to the power of the width.
            "vrf::mask == -1",
            "vrf::value == 0x1007",
            "--2 == 2 && 1 > -12",
            "!(1 == 2) // a comment\n && /* another */ true != false",
            "mac('00:00:00:00:00:05') == 5; ipv6('::1') == 0b1; 0o17 == 15; 0d9 == 9",
            "false -> false || false && true",
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn names_the_false_condition_and_its_values() {
        let text = |constraint: &str| check(constraint).unwrap_err().to_string();
        assert_eq!(
            text("true; (hdr.ipv4.valid == 1 &&\n   route::prefix_length   > 24)"),
            "the constraint `route::prefix_length > 24` does not hold: route is 0xa010000/16"
        );
        assert_eq!(
            text("hdr.ipv4.valid == 1 -> hdr.ipv4.dst::mask == -1 || ::priority < 5"),
            "the constraint `hdr.ipv4.valid == 1 -> hdr.ipv4.dst::mask == -1 || ::priority < 5` does not hold: \
             hdr.ipv4.valid is 0x1, hdr.ipv4.dst is 0xa000000 &&& 0xff000000, the priority is 10"
        );
        assert_eq!(text("false"), "the constraint `false` does not hold");
    }

    #[test]
    fn omitted_keys_match_everything() {
        let any: Vec<Value> =
            subject().fields.iter().map(|field| Value::any(field.kind, field.width)).collect();
        let constraint =
            "hdr.ipv4.dst::mask == 0; route::prefix_length == 0; port::high == -1; vrf::value == 0";
        assert_eq!(Constraint::parse(constraint, &subject()).unwrap().check(&any, 0), Ok(()));
    }

    #[test]
    fn refuses() {
        for (text, message) in [
            (
                "",
                "line 1, column 1 of the constraint: found the end, expected a condition: a key, a number, `true`, `false`, `!`, `-`, `(` or `::priority`",
            ),
            (
                "true\n  true",
                "line 2, column 3 of the constraint: found `true`, expected an operator or the end",
            ),
            ("vrf", "line 1, column 1 of the constraint: a value of type optional<12>, expected a condition"),
            (
                "hdr.ipv4.ttl == 1",
                "line 1, column 1 of the constraint: no key `hdr.ipv4.ttl`, expected one of: `hdr.ipv4.valid`, `hdr.ipv4.dst`, `route`, `port`, `vrf`, `name`",
            ),
            (
                "vrf::prefix_length == 1",
                "line 1, column 6 of the constraint: `vrf` has no part `prefix_length`, expected `::value` or `::mask`",
            ),
            (
                "vrf < 3",
                "line 1, column 1 of the constraint: values of type optional<12> have no order: compare its `::value` or `::mask`",
            ),
            (
                "vrf::value == port::low",
                "line 1, column 1 of the constraint: bit<12> and bit<16> cannot be compared",
            ),
            (
                "1 == 1 == true",
                "line 1, column 8 of the constraint: a comparison of a comparison: parentheses must say what belongs together",
            ),
            (
                "true -> true -> true",
                "line 1, column 14 of the constraint: `->` after `->`: parentheses must say what belongs together",
            ),
            (
                "name == 1",
                "line 1, column 1 of the constraint: `name` is a string, which constraints cannot use",
            ),
            ("::age == 1", "line 1, column 1 of the constraint: no attribute `age`, expected `priority`"),
            (
                "-vrf::value == 1",
                "line 1, column 1 of the constraint: the negative of type bit<12>, expected int",
            ),
            ("!1 == 1", "line 1, column 2 of the constraint: a value of type int, expected a condition"),
            (
                "ipv4('10.0.0') == 1",
                "line 1, column 6 of the constraint: `10.0.0` is not an address of this kind, expected one such as 192.0.2.1",
            ),
            (
                "0xg == 1",
                "line 1, column 1 of the constraint: found `0xg`, expected a number such as 10, 0x0a, 0o12 or 0b1010",
            ),
            (
                "vrf == 1 # x",
                "line 1, column 10 of the constraint: found `#`, expected an operator, a name or a number",
            ),
            (
                "mac('0') == 1",
                "line 1, column 5 of the constraint: `0` is not an address of this kind, expected one such as 00:00:5e:00:53:01",
            ),
            ("(true", "line 1, column 6 of the constraint: found the end, expected `)`"),
            ("/* true", "line 1, column 1 of the constraint: an unterminated comment"),
        ] {
            assert_eq!(refused(text), message, "{text}");
        }
    }

    #[test]
    fn deep_and_long_texts_are_refused() {
        assert!(refused(&"(".repeat(TEXT_MAX)).contains("nested deeper"));
        assert!(refused(&"!".repeat(TEXT_MAX)).contains("signs in a row"));
        assert!(refused(&"true;".repeat(TEXT_MAX)).contains("expected at most"));
        // The maximum length, not nested.
        for sign in ["&&", "||", ";"] {
            assert_eq!(check(&format!("{}true", format!("true{sign}").repeat(10_000))), Ok(()));
        }
    }

    #[test]
    fn semicolons_join_in_parentheses() {
        assert_eq!(check("(vrf == 7; true -> port::low == 1024; vrf == 7 || false) -> true"), Ok(()));
        assert_eq!(check("(vrf == 8; true) || (vrf == 7; port::low == 1024)"), Ok(()));
        assert!(check("(vrf == 7; port::low == 1)").is_err());
        assert!(refused("(true; 1)").contains("expected a condition"));
        assert!(refused("(true;)").contains("found `)`"));
    }

    #[test]
    fn parameters_are_numbers() {
        let fields = vec![Field { name: "port".to_string(), kind: Kind::Number, width: 9 }];
        let subject = Subject { fields, is_table: false };
        let constraint = Constraint::parse("port < 256 && port != 0", &subject).unwrap();
        assert_eq!(constraint.check(&[Value::Number(7u32.into())], 0), Ok(()));
        let violation = constraint.check(&[Value::Number(300u32.into())], 0).unwrap_err();
        assert_eq!(violation.to_string(), "the constraint `port < 256` does not hold: port is 0x12c");
        let refused = Constraint::parse("::priority > 1", &subject).unwrap_err();
        assert!(refused.message.contains("parameters have no attributes"));
    }
}
