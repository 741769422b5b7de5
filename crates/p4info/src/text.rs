//! protobuf's text form: a writer that lays it out as p4c does, and a reader.

use std::fmt::Write;

use bytes::Bytes;
use p4jet_suggest as suggest;

use crate::reflect::{Field, Label, Reflect, Slot, Value};

/// Returns a message as text, below two comments that name its type, as p4c writes it.
pub fn print(message: &dyn Reflect, proto_file: &str) -> String {
    let mut out = format!("# proto-file: {proto_file}\n# proto-message: {}\n\n", message.full_name());
    fields(message, 0, &mut out);
    out
}

fn fields(message: &dyn Reflect, depth: usize, out: &mut String) {
    let mut found: Vec<Field<'_>> = Vec::new();
    message.visit(&mut |field| found.push(field));
    found.sort_by_key(|field| field.number);
    for field in found {
        indent(depth, out);
        out.push_str(field.name);
        match (field.label, field.value) {
            (Label::Map(key), value) => {
                out.push_str(" {\n");
                indent(depth + 1, out);
                out.push_str("key: ");
                quote(key.as_bytes(), out);
                out.push('\n');
                indent(depth + 1, out);
                out.push_str("value");
                put(value, depth + 1, out);
                indent(depth, out);
                out.push_str("}\n");
            }
            (_, value) => put(value, depth, out),
        }
    }
}

/// Writes a value after the name of its field.
fn put(value: Value<'_>, depth: usize, out: &mut String) {
    // Writing to a string cannot fail.
    let _ = match value {
        Value::Message(message) => {
            out.push_str(" {\n");
            fields(message, depth + 1, out);
            indent(depth, out);
            out.push_str("}\n");
            return;
        }
        Value::Bool(v) => write!(out, ": {v}"),
        Value::Int32(v) => write!(out, ": {v}"),
        Value::Int64(v) => write!(out, ": {v}"),
        Value::Uint32(v) => write!(out, ": {v}"),
        Value::Uint64(v) => write!(out, ": {v}"),
        Value::Enum(_, Some(name)) => write!(out, ": {name}"),
        Value::Enum(number, None) => write!(out, ": {number}"),
        Value::String(text) => {
            out.push_str(": ");
            quote(text.as_bytes(), out);
            Ok(())
        }
        Value::Bytes(bytes) => {
            out.push_str(": ");
            quote(bytes, out);
            Ok(())
        }
    };
    out.push('\n');
}

fn indent(depth: usize, out: &mut String) {
    (0..depth).for_each(|_| out.push_str("  "));
}

/// Writes bytes as a literal; all but printable ASCII as escapes.
fn quote(bytes: &[u8], out: &mut String) {
    out.push('"');
    for byte in bytes {
        match byte {
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            b'"' => out.push_str("\\\""),
            b'\'' => out.push_str("\\'"),
            b'\\' => out.push_str("\\\\"),
            0x20..=0x7e => out.push(char::from(*byte)),
            _ => {
                let _ = write!(out, "\\{byte:03o}");
            }
        }
    }
    out.push('"');
}

/// Deepest nesting of messages that is read.
const DEPTH_MAX: u32 = 100;

/// Adds the contents of a text to a message. The error names the line.
pub fn parse(text: &str, message: &mut dyn Reflect) -> Result<(), String> {
    let mut reader = Reader { text: text.as_bytes(), at: 0 };
    reader.message(message, None, 0).map_err(|why| {
        let line =
            reader.text[..reader.at.min(reader.text.len())].iter().filter(|b| **b == b'\n').count() + 1;
        format!("line {line}: {why}")
    })
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    /// Reads fields up to the closing character, or to the end.
    fn message(&mut self, message: &mut dyn Reflect, close: Option<u8>, depth: u32) -> Result<(), String> {
        if depth > DEPTH_MAX {
            return Err(format!("messages are nested more than {DEPTH_MAX} deep"));
        }
        loop {
            match self.next() {
                None if close.is_none() => return Ok(()),
                Some(c) if Some(c) == close => {
                    self.at += 1;
                    return Ok(());
                }
                None => return Err("the text ends inside a message: a `}` is missing".to_string()),
                Some(_) => self.field(message, depth)?,
            }
            // Fields may be separated.
            if matches!(self.next(), Some(b',' | b';')) {
                self.at += 1;
            }
        }
    }

    fn field(&mut self, message: &mut dyn Reflect, depth: u32) -> Result<(), String> {
        let name = self.word()?;
        let colon = self.next() == Some(b':');
        if colon {
            self.at += 1;
        }
        if self.next() == Some(b'[') {
            self.at += 1;
            let mut first = true;
            while self.next() != Some(b']') {
                if !first {
                    self.expect(b',')?;
                }
                first = false;
                self.value(message, &name, colon, depth)?;
            }
            self.at += 1;
            return Ok(());
        }
        self.value(message, &name, colon, depth)
    }

    fn value(
        &mut self,
        message: &mut dyn Reflect,
        name: &str,
        colon: bool,
        depth: u32,
    ) -> Result<(), String> {
        let Some(slot) = message.slot(name) else {
            let full_name = message.full_name();
            let names: Vec<_> = message.fields().iter().map(|field| field.name).collect();
            let meant = suggest::did_you_mean(name, names.iter().copied());
            let names = suggest::list(&names);
            return Err(format!("`{name}` is not a field of {full_name}: {meant}its fields: {names}"));
        };
        if !colon && !matches!(slot, Slot::Message(_) | Slot::Map(_)) {
            return Err(format!("`:` expected after `{name}`"));
        }
        match slot {
            Slot::Message(inner) => {
                let close = self.open()?;
                self.message(inner, Some(close), depth + 1)
            }
            Slot::Map(entries) => {
                let close = self.open()?;
                if self.word()? != "key" {
                    return Err(format!("an entry of `{name}` starts with its `key`"));
                }
                self.expect(b':')?;
                let key =
                    String::from_utf8(self.string()?).map_err(|_| "a key that is not UTF-8".to_string())?;
                let inner = entries.entry(key);
                if matches!(self.next(), Some(b',' | b';')) {
                    self.at += 1;
                }
                if self.next() != Some(close) {
                    if self.word()? != "value" {
                        return Err(format!("an entry of `{name}` consists of `key` and `value`"));
                    }
                    if self.next() == Some(b':') {
                        self.at += 1;
                    }
                    let inner_close = self.open()?;
                    self.message(inner, Some(inner_close), depth + 1)?;
                }
                self.expect(close)
            }
            Slot::String(place) => {
                *place = String::from_utf8(self.string()?)
                    .map_err(|_| "a string that is not UTF-8".to_string())?;
                Ok(())
            }
            Slot::Bytes(place) => {
                *place = Bytes::from(self.string()?);
                Ok(())
            }
            Slot::Bool(place) => {
                let word = self.scalar()?;
                *place = match word.as_str() {
                    "true" | "True" | "t" | "1" => true,
                    "false" | "False" | "f" | "0" => false,
                    _ => return Err(format!("`{name}` is true or false, not `{word}`")),
                };
                Ok(())
            }
            Slot::Enum(place, members) => {
                let word = self.scalar()?;
                let member = members.iter().find(|(member, _)| *member == word).map(|(_, number)| *number);
                *place = match member.or_else(|| word.parse().ok()) {
                    Some(number) => number,
                    None => {
                        let choices: Vec<&str> = members.iter().map(|(member, _)| *member).collect();
                        let choices = suggest::list(&choices);
                        return Err(format!("`{word}` is not a value of `{name}`; its values: {choices}"));
                    }
                };
                Ok(())
            }
            Slot::Int32(place) => self.number(name, place),
            Slot::Int64(place) => self.number(name, place),
            Slot::Uint32(place) => self.number(name, place),
            Slot::Uint64(place) => self.number(name, place),
        }
    }

    fn number<T: TryFrom<i128>>(&mut self, name: &str, place: &mut T) -> Result<(), String> {
        let word = self.scalar()?;
        let (digits, negative) = match word.strip_prefix('-') {
            Some(digits) => (digits, true),
            None => (word.as_str(), false),
        };
        let value = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
            Some(hex) => i128::from_str_radix(hex, 16),
            None if digits.len() > 1 && digits.starts_with('0') => i128::from_str_radix(&digits[1..], 8),
            None => digits.parse(),
        };
        let value = value.ok().filter(|_| digits.starts_with(|c: char| c.is_ascii_digit()));
        let value = value.map(|v| if negative { -v } else { v });
        match value.and_then(|v| T::try_from(v).ok()) {
            Some(value) => {
                *place = value;
                Ok(())
            }
            None => {
                let bits = 8 * size_of::<T>();
                Err(format!("`{name}` is a number of {bits} bits, not `{word}`"))
            }
        }
    }

    /// Returns the next character that is neither blank nor in a comment.
    fn next(&mut self) -> Option<u8> {
        loop {
            match self.text.get(self.at)? {
                b' ' | b'\t' | b'\r' | b'\n' => self.at += 1,
                b'#' => {
                    let line = self.text[self.at..].iter().position(|b| *b == b'\n');
                    self.at = line.map_or(self.text.len(), |n| self.at + n);
                }
                c => return Some(*c),
            }
        }
    }

    fn expect(&mut self, wanted: u8) -> Result<(), String> {
        match self.next() {
            Some(c) if c == wanted => {
                self.at += 1;
                Ok(())
            }
            found => Err(format!("`{}` expected, but found {}", char::from(wanted), show(found))),
        }
    }

    /// Reads the start of a message and returns the character that ends it.
    fn open(&mut self) -> Result<u8, String> {
        match self.next() {
            Some(b'{') => {
                self.at += 1;
                Ok(b'}')
            }
            Some(b'<') => {
                self.at += 1;
                Ok(b'>')
            }
            found => Err(format!("`{{` expected, but found {}", show(found))),
        }
    }

    fn take(&mut self, belongs: impl Fn(u8) -> bool) -> String {
        self.next();
        let rest = &self.text[self.at.min(self.text.len())..];
        let end = rest.iter().position(|c| !belongs(*c)).unwrap_or(rest.len());
        self.at += end;
        String::from_utf8_lossy(&rest[..end]).into_owned()
    }

    fn word(&mut self) -> Result<String, String> {
        let word = self.take(|c| c.is_ascii_alphanumeric() || c == b'_');
        match word.is_empty() {
            true => Err(format!("a field's name expected, but found {}", show(self.next()))),
            false => Ok(word),
        }
    }

    fn scalar(&mut self) -> Result<String, String> {
        let word = self.take(|c| c.is_ascii_alphanumeric() || b"_-+.".contains(&c));
        match word.is_empty() {
            true => Err(format!("a value expected, but found {}", show(self.next()))),
            false => Ok(word),
        }
    }

    /// Reads one or more adjacent literals.
    fn string(&mut self) -> Result<Vec<u8>, String> {
        let mut out = Vec::new();
        let mut any = false;
        while let Some(quote @ (b'"' | b'\'')) = self.next() {
            any = true;
            self.at += 1;
            loop {
                let Some(c) = self.text.get(self.at).copied() else {
                    return Err("an unterminated string".to_string());
                };
                self.at += 1;
                match c {
                    _ if c == quote => break,
                    b'\n' => return Err("a string that does not end on its line".to_string()),
                    b'\\' => self.escape(&mut out)?,
                    _ => out.push(c),
                }
            }
        }
        match any {
            true => Ok(out),
            false => Err(format!("a string in quotes expected, but found {}", show(self.next()))),
        }
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        let Some(c) = self.text.get(self.at).copied() else {
            return Err("an unterminated string".to_string());
        };
        self.at += 1;
        let mut digits = |max: usize, radix: u32| {
            let rest = &self.text[self.at.min(self.text.len())..];
            let count = rest.iter().take(max).take_while(|c| char::from(**c).is_digit(radix)).count();
            self.at += count;
            rest[..count].iter().fold(0u32, |n, c| n * radix + char::from(*c).to_digit(radix).unwrap_or(0))
        };
        let byte = match c {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'a' => 7,
            b'b' => 8,
            b'v' => 11,
            b'f' => 12,
            b'0'..=b'7' => {
                self.at -= 1;
                let mut digits = |max: usize| {
                    let rest = &self.text[self.at..];
                    let count = rest.iter().take(max).take_while(|c| (b'0'..=b'7').contains(*c)).count();
                    self.at += count;
                    rest[..count].iter().fold(0u32, |n, c| n * 8 + u32::from(c - b'0'))
                };
                (digits(3) & 0xff) as u8
            }
            b'x' | b'X' => (digits(2, 16) & 0xff) as u8,
            b'u' | b'U' => {
                let c = char::from_u32(digits(if c == b'u' { 4 } else { 8 }, 16));
                let c = c.ok_or("an escape that is not a character")?;
                out.extend(c.to_string().as_bytes());
                return Ok(());
            }
            b'"' | b'\'' | b'\\' | b'?' => c,
            _ => return Err(format!("`\\{}` is not an escape", char::from(c))),
        };
        out.push(byte);
        Ok(())
    }
}

fn show(found: Option<u8>) -> String {
    found.map_or("the end".to_string(), |c| format!("`{}`", char::from(c)))
}
