//! Annotations as P4Info shows them (P4Runtime specification, "Annotating P4 Entities with Documentation" and
//! "Structured Annotations").

use num_bigint::BigInt;
use num_traits::ToPrimitive;
use p4jet_analysis::typed::Program;
use p4jet_syntax::ast::{Annotation, AnnotationBody, BinaryOp, Expr, ExprKind, UnaryOp};
use p4jet_syntax::diagnostic::Diagnostic;
use p4jet_syntax::span::{SourceMap, Span};

use crate::integers::{self, Folded};
use crate::proto::config::{
    self, Documentation, Expression, ExpressionList, ExpressionValue, KeyValuePair, KeyValuePairList,
    StructuredAnnotation,
};

/// The contents of an object's annotations.
#[derive(Default)]
pub struct Shown {
    /// Annotations shown as text.
    pub texts: Vec<String>,
    /// Structured annotations: `@name[…]`.
    pub structured: Vec<StructuredAnnotation>,
    /// `@brief` and `@description`.
    pub doc: Option<Documentation>,
}

/// Annotations whose body is a list of expressions, which p4c writes with `, ` between them; in others it writes a blank
/// between any two tokens.
const LISTS: [&str; 3] = ["command_line", "field_list", "synchronous"];

/// Returns the contents of annotations, without those that P4Info has fields for: `@name`, `@id`, and the `hidden` ones.
pub fn shown(
    program: &Program,
    annotations: &[Annotation],
    hidden: &[&str],
    errors: &mut Vec<Diagnostic>,
) -> Shown {
    let mut shown = Shown::default();
    for annotation in annotations {
        let name = annotation.name.text.as_str();
        let body = match &annotation.body {
            AnnotationBody::Exprs(values) => {
                let expressions: Vec<Expression> =
                    values.iter().filter_map(|v| expression(program, v, errors)).collect();
                (!expressions.is_empty())
                    .then_some(config::AnnotationBody::ExpressionList(ExpressionList { expressions }))
            }
            AnnotationBody::KeyValues(pairs) => {
                let pair = |(key, value): &(p4jet_syntax::ast::Ident, Expr)| {
                    let value = Some(expression(program, value, errors)?);
                    Some(KeyValuePair { key: key.text.clone(), value })
                };
                let kv_pairs: Vec<KeyValuePair> = pairs.iter().filter_map(pair).collect();
                Some(config::AnnotationBody::KvPairList(KeyValuePairList { kv_pairs }))
            }
            AnnotationBody::Empty | AnnotationBody::Tokens(_) => {
                match name {
                    "name" | "id" => {}
                    "brief" => shown.doc.get_or_insert_default().brief = text(annotation).unwrap_or_default(),
                    "description" => {
                        shown.doc.get_or_insert_default().description = text(annotation).unwrap_or_default();
                    }
                    name if hidden.contains(&name) => {}
                    _ => shown.texts.push(written(annotation)),
                }
                continue;
            }
        };
        shown.structured.push(StructuredAnnotation { name: name.to_string(), body, source_location: None });
    }
    shown
}

/// Returns an annotation as p4c writes it: `@name(a , b)`.
pub fn written(annotation: &Annotation) -> String {
    let name = &annotation.name.text;
    let AnnotationBody::Tokens(tokens) = &annotation.body else { return format!("@{name}") };
    if tokens.is_empty() {
        return format!("@{name}");
    }
    let mut body = String::new();
    for (i, token) in tokens.iter().enumerate() {
        if i > 0 && !(token.text == "," && !token.is_string && LISTS.contains(&name.as_str())) {
            body.push(' ');
        }
        match token.is_string {
            true => body.extend(["\"", &token.text, "\""]),
            false => body.push_str(&token.text),
        }
    }
    format!("@{name}({body})")
}

/// Returns the text in an annotation: one string, or several joined by `++`.
pub fn text(annotation: &Annotation) -> Option<String> {
    match &annotation.body {
        AnnotationBody::Tokens(tokens) => {
            let mut strings = tokens.iter().filter(|t| t.is_string).map(|t| t.text.as_str()).peekable();
            strings.peek()?;
            Some(strings.collect())
        }
        _ => None,
    }
}

/// Returns the place in the source of a byte of an annotation's text, whose strings are joined by line ends. `None` if the
/// preprocessor has changed the line, or a string has escapes.
pub fn place(sources: &SourceMap, annotation: &Annotation, mut at: usize) -> Option<Span> {
    let AnnotationBody::Tokens(tokens) = &annotation.body else { return None };
    for token in tokens.iter().filter(|token| token.is_string) {
        if at > token.text.len() {
            at -= token.text.len() + 1;
            continue;
        }
        // The string has the lines of the source; its first line begins after the quote.
        let source = &sources.files.get(token.span.file.0 as usize)?.text;
        let begin = token.span.lo as usize + 1;
        let before = token.text.get(..at)?;
        let (line, column) = (before.matches('\n').count(), at - before.rfind('\n').map_or(0, |end| end + 1));
        let written = source.get(begin..)?.split('\n').nth(line)?;
        let text = token.text.split('\n').nth(line)?;
        if text.contains('\\') || !written.starts_with(text) {
            return None;
        }
        let lo = written.as_ptr() as usize - source.as_ptr() as usize + column;
        let word = written[column..].bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        let length = word.count().max(1);
        return Some(Span { lo: lo as u32, hi: (lo + length) as u32, ..token.span });
    }
    None
}

/// Returns the annotation of a name.
pub fn find<'a>(annotations: &'a [Annotation], name: &str) -> Option<&'a Annotation> {
    annotations.iter().find(|a| a.name.text == name)
}

/// Returns the number that `@id` gives.
pub fn id(annotations: &[Annotation], errors: &mut Vec<Diagnostic>) -> Option<u32> {
    let annotation = find(annotations, "id")?;
    let id = annotation.body.integer().and_then(|n| n.to_u32());
    if id.is_none() {
        errors.push(
            Diagnostic::error("annotation", annotation.span, "`@id` needs a 32-bit number")
                .note("write `@id(0x01000005)`; for an action, `@id(5)` means the same"),
        );
    }
    id
}

/// Returns a name that `@name` can change; a leading dot, which makes a name global, is left out.
pub fn name(annotations: &[Annotation], name: &str) -> String {
    let given = find(annotations, "name").and_then(text);
    let given = given.as_deref().unwrap_or(name);
    given.strip_prefix('.').unwrap_or(given).to_string()
}

/// Returns the value in a structured annotation.
fn expression(program: &Program, e: &Expr, errors: &mut Vec<Diagnostic>) -> Option<Expression> {
    let value = match value(program, e) {
        Some(Value::Text(text)) => ExpressionValue::StringValue(text),
        Some(Value::Bool(b)) => ExpressionValue::BoolValue(b),
        Some(Value::Int(n)) => match n.to_i64() {
            Some(n) => ExpressionValue::Int64Value(n),
            None => {
                errors.push(
                    Diagnostic::error(
                        "out-of-range",
                        e.span,
                        "a number of more than 64 bits in a structured annotation",
                    )
                    .note("P4Info holds signed 64-bit numbers there: write larger ones as a string"),
                );
                return None;
            }
        },
        None => {
            errors.push(
                Diagnostic::unsupported(e.span, "this expression in a structured annotation of P4Info")
                    .note("write the value itself"),
            );
            return None;
        }
    };
    Some(Expression { value: Some(value) })
}

enum Value {
    Int(BigInt),
    Bool(bool),
    Text(String),
}

/// Evaluates an expression; analysis has checked that it is a compile-time value.
fn value(program: &Program, e: &Expr) -> Option<Value> {
    Some(match &e.kind {
        ExprKind::Int(literal) => Value::Int(literal.value.clone()),
        ExprKind::Bool(b) => Value::Bool(*b),
        ExprKind::String(text) => Value::Text(text.clone()),
        ExprKind::Path(path) => Value::Int(program.constants.get(&path.name.text)?.clone()),
        ExprKind::Unary(op, inner) => match (op, value(program, inner)?) {
            (UnaryOp::Neg, Value::Int(n)) => Value::Int(-n),
            (UnaryOp::Plus, Value::Int(n)) => Value::Int(n),
            (UnaryOp::Not, Value::Bool(b)) => Value::Bool(!b),
            _ => return None,
        },
        ExprKind::Binary(op, a, b) => match (value(program, a)?, value(program, b)?) {
            (Value::Int(a), Value::Int(b)) => match integers::binary(*op, a, b)? {
                Folded::Int(n) => Value::Int(n),
                Folded::Bool(b) => Value::Bool(b),
            },
            (Value::Bool(a), Value::Bool(b)) => Value::Bool(match op {
                BinaryOp::And => a && b,
                BinaryOp::Or => a || b,
                BinaryOp::Eq => a == b,
                BinaryOp::Ne => a != b,
                _ => return None,
            }),
            (Value::Text(a), Value::Text(b)) if *op == BinaryOp::Concat => Value::Text(a + &b),
            _ => return None,
        },
        ExprKind::Conditional(c, a, b) => match value(program, c)? {
            Value::Bool(c) => return value(program, if c { a } else { b }),
            _ => return None,
        },
        _ => return None,
    })
}
