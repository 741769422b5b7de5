//! protobuf's wire format without decoded messages: keeps bytes unchanged, and counts the parts of a message before it is
//! decoded.

use bytes::{Buf, Bytes};

/// A field of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its number.
    pub number: u32,
    /// Its value.
    pub value: Value,
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number of variable or fixed length.
    Number(u64),
    /// A string, byte string or message.
    Bytes(Bytes),
}

/// The fields of a message, in order; `None` for a field that is malformed.
pub struct Fields(pub Bytes);

impl Iterator for Fields {
    type Item = Option<Field>;

    fn next(&mut self) -> Option<Option<Field>> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.take();
        if field.is_none() {
            self.0.clear();
        }
        Some(field)
    }
}

impl Fields {
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = *self.0.first()?;
            self.0.advance(1);
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self) -> Option<Field> {
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| *number > 0)?;
        let value = match tag & 7 {
            0 => Value::Number(self.varint()?),
            1 => Value::Number(self.0.try_get_u64_le().ok()?),
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                Value::Bytes((length <= self.0.len()).then(|| self.0.split_to(length))?)
            }
            5 => Value::Number(self.0.try_get_u32_le().ok()?.into()),
            _ => return None,
        };
        Some(Field { number, value })
    }
}

/// The bytes of a message field: all its occurrences concatenated, which protobuf merges. `None` if it does not occur.
pub fn message_field(message: &Bytes, number: u32) -> Option<Bytes> {
    let mut found: Option<Bytes> = None;
    for field in Fields(message.clone()).flatten().filter(|field| field.number == number) {
        if let Value::Bytes(bytes) = field.value {
            found = Some(match found {
                None => bytes,
                Some(before) => [before, bytes].concat().into(),
            });
        }
    }
    found
}

/// The last occurrence of a byte string field, which counts.
pub fn bytes_field(message: &Bytes, number: u32) -> Bytes {
    let fields = Fields(message.clone()).flatten().filter(|field| field.number == number);
    let values = fields.filter_map(|field| match field.value {
        Value::Bytes(bytes) => Some(bytes),
        Value::Number(_) => None,
    });
    values.last().unwrap_or_default()
}

/// The last occurrence of a number field, which counts; 0 without one.
pub fn number_field(message: &Bytes, number: u32) -> u64 {
    let fields = Fields(message.clone()).flatten().filter(|field| field.number == number);
    let values = fields.filter_map(|field| match field.value {
        Value::Number(value) => Some(value),
        Value::Bytes(_) => None,
    });
    values.last().unwrap_or_default()
}

/// The number of messages, strings and byte strings in a message, including nested messages down to `depth` levels.
pub fn weight(message: &[u8], depth: u32, max: usize) -> usize {
    let (mut rest, mut count) = (message, 0);
    while !rest.is_empty() && count <= max {
        let Some(tag) = varint(&mut rest) else { break };
        let skip = match tag & 7 {
            0 => varint(&mut rest).map(|_| 0),
            1 => Some(8),
            2 => varint(&mut rest).and_then(|length| usize::try_from(length).ok()),
            5 => Some(4),
            _ => None,
        };
        let Some(skip) = skip.filter(|skip| *skip <= rest.len()) else { break };
        let (field, after) = rest.split_at(skip);
        rest = after;
        if tag & 7 == 2 {
            count += 1;
            if depth > 0 && field.len() > 1 {
                count += weight(field, depth - 1, max.saturating_sub(count));
            }
        }
    }
    count
}

fn varint(from: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Appends a field with bytes.
pub fn put_bytes(to: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_varint(to, u64::from(number) << 3 | 2);
    put_varint(to, bytes.len() as u64);
    to.extend_from_slice(bytes);
}

/// Appends a number of variable length.
pub fn put_varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_as_they_are() {
        // 1: 300, 2: "ab", 3: fixed32, 2: "c".
        let message = Bytes::from_static(b"\x08\xac\x02\x12\x02ab\x1d\x01\0\0\0\x12\x01c");
        let numbers: Vec<u32> = Fields(message.clone()).flatten().map(|field| field.number).collect();
        assert_eq!(numbers, [1, 2, 3, 2]);
        assert_eq!(message_field(&message, 2).as_deref(), Some(&b"abc"[..]));
        assert_eq!(&bytes_field(&message, 2)[..], b"c");
        assert_eq!(message_field(&message, 7), None);
        for garbage in [&b"\x12\x05a"[..], b"\xff", b"\x0b", b"\0\0"] {
            assert_eq!(Fields(Bytes::from_static(garbage)).last(), Some(None));
        }
    }

    #[test]
    fn the_weight_counts_fields_of_fields() {
        let mut inner = Vec::new();
        (0..10).for_each(|_| put_bytes(&mut inner, 4, b""));
        let mut outer = Vec::new();
        (0..3).for_each(|_| put_bytes(&mut outer, 4, &inner));
        assert_eq!(weight(&outer, 0, 1000), 3);
        assert_eq!(weight(&outer, 1, 1000), 33);
        assert!(weight(&outer, 1, 5) <= 8);
    }
}
