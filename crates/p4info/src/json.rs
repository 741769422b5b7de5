//! protobuf's JSON form, as `MessageToJsonString` writes it: names in camel case, byte strings in base64, numbers of 64
//! bits as texts, and no field that has its default value.
//!
//! A `google.protobuf.Any` is written by its fields, not by the fields of the message inside.

use std::fmt::Write;

use crate::reflect::{Field, Label, Reflect, Value};

/// Returns a message as JSON with one space of indentation per level.
pub fn print(message: &dyn Reflect) -> String {
    let mut out = String::new();
    object(message, 0, &mut out);
    out.push('\n');
    out
}

fn object(message: &dyn Reflect, depth: usize, out: &mut String) {
    let mut found: Vec<Field<'_>> = Vec::new();
    message.visit(&mut |field| found.push(field));
    found.sort_by_key(|field| field.number);
    if found.is_empty() {
        out.push_str("{}");
        return;
    }
    out.push('{');
    for (i, values) in found.chunk_by(|a, b| a.number == b.number).enumerate() {
        line(i, depth + 1, out);
        string(&camel(values[0].name), out);
        out.push_str(": ");
        match values[0].label {
            Label::Single => put(&values[0].value, depth + 1, out),
            Label::Repeated => {
                out.push('[');
                for (i, element) in values.iter().enumerate() {
                    line(i, depth + 2, out);
                    put(&element.value, depth + 2, out);
                }
                end(depth + 1, out);
                out.push(']');
            }
            Label::Map(_) => {
                out.push('{');
                for (i, element) in values.iter().enumerate() {
                    line(i, depth + 2, out);
                    if let Label::Map(key) = element.label {
                        string(key, out);
                    }
                    out.push_str(": ");
                    put(&element.value, depth + 2, out);
                }
                end(depth + 1, out);
                out.push('}');
            }
        }
    }
    end(depth, out);
    out.push('}');
}

/// Starts the line of element `i`.
fn line(i: usize, depth: usize, out: &mut String) {
    if i > 0 {
        out.push(',');
    }
    end(depth, out);
}

fn end(depth: usize, out: &mut String) {
    out.push('\n');
    (0..depth).for_each(|_| out.push(' '));
}

fn put(value: &Value<'_>, depth: usize, out: &mut String) {
    // Writing to a string cannot fail.
    let _ = match value {
        Value::Message(message) => {
            object(*message, depth, out);
            Ok(())
        }
        Value::Bool(v) => write!(out, "{v}"),
        Value::Int32(v) => write!(out, "{v}"),
        Value::Uint32(v) => write!(out, "{v}"),
        Value::Int64(v) => write!(out, "\"{v}\""),
        Value::Uint64(v) => write!(out, "\"{v}\""),
        Value::Enum(_, Some(name)) => write!(out, "\"{name}\""),
        Value::Enum(number, None) => write!(out, "{number}"),
        Value::String(text) => {
            string(text, out);
            Ok(())
        }
        Value::Bytes(bytes) => {
            base64(bytes, out);
            Ok(())
        }
    };
}

/// Writes a text, with escapes for what JSON does not allow in it.
fn string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if u32::from(c) < 0x20 || c == '\u{7f}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Returns `matchFields` for `match_fields`.
fn camel(name: &str) -> String {
    let mut out = String::new();
    let mut upper = false;
    for c in name.chars() {
        match c {
            '_' => upper = true,
            c if upper => {
                out.push(c.to_ascii_uppercase());
                upper = false;
            }
            c => out.push(c),
        }
    }
    out
}

fn base64(bytes: &[u8], out: &mut String) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    out.push('"');
    for chunk in bytes.chunks(3) {
        let byte = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            match i <= chunk.len() {
                true => out.push(char::from(DIGITS[(bits >> (18 - 6 * i) & 0x3f) as usize])),
                false => out.push('='),
            }
        }
    }
    out.push('"');
}
