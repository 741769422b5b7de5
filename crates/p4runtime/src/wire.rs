//! protobuf's wire format without decoded messages: keeps bytes unchanged, and counts the parts of a message before it is
//! decoded.

use bytes::Bytes;

/// A field of a message: its number and its value.
pub type Field<'a> = (u32, Value<'a>);

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A number of variable or fixed length.
    Number(u64),
    /// A string, byte string or message.
    Bytes(&'a [u8]),
}

/// The fields of a message, in order, without those in groups, which are unknown fields; `None` for a field that is malformed.
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Option<Field<'a>>;

    fn next(&mut self) -> Option<Option<Field<'a>>> {
        let mut depth = 0u32;
        while !self.0.is_empty() {
            match self.take() {
                Some(Part::Field(field)) if depth == 0 => return Some(Some(field)),
                Some(Part::Field(_)) => {}
                Some(Part::Begin) => depth += 1,
                Some(Part::End) if depth > 0 => depth -= 1,
                Some(Part::End) | None => {
                    self.0 = &[];
                    return Some(None);
                }
            }
        }
        (depth > 0).then_some(None)
    }
}

/// A part of a message: a field, or the begin or end of a group.
enum Part<'a> {
    Field(Field<'a>),
    Begin,
    End,
}

impl<'a> Fields<'a> {
    fn take(&mut self) -> Option<Part<'a>> {
        let tag = varint(&mut self.0)?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| *number > 0)?;
        let value = match tag & 7 {
            0 => Value::Number(varint(&mut self.0)?),
            1 => Value::Number(u64::from_le_bytes(*self.0.split_off(..8)?.first_chunk()?)),
            2 => {
                let length = usize::try_from(varint(&mut self.0)?).ok()?;
                Value::Bytes(self.0.split_off(..length)?)
            }
            3 => return Some(Part::Begin),
            4 => return Some(Part::End),
            5 => Value::Number(u32::from_le_bytes(*self.0.split_off(..4)?.first_chunk()?).into()),
            _ => return None,
        };
        Some(Part::Field((number, value)))
    }
}

/// The byte strings of a field, in order.
fn byte_strings(message: &[u8], number: u32) -> impl Iterator<Item = &[u8]> {
    Fields(message).flatten().filter_map(move |field| match field {
        (found, Value::Bytes(bytes)) if found == number => Some(bytes),
        _ => None,
    })
}

/// The bytes of a message field: all its occurrences concatenated, which protobuf merges. `None` if it does not occur.
pub fn message_field(message: &Bytes, number: u32) -> Option<Bytes> {
    let found: Vec<&[u8]> = byte_strings(message, number).collect();
    match found[..] {
        [] => None,
        [one] => Some(message.slice_ref(one)),
        _ => Some(found.concat().into()),
    }
}

/// The last occurrence of a byte string field, which counts.
pub fn bytes_field(message: &Bytes, number: u32) -> Bytes {
    byte_strings(message, number).last().map_or_else(Bytes::new, |bytes| message.slice_ref(bytes))
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
        let numbers: Vec<u32> = Fields(&message).flatten().map(|(number, _)| number).collect();
        assert_eq!(numbers, [1, 2, 3, 2]);
        assert_eq!(message_field(&message, 2).as_deref(), Some(&b"abc"[..]));
        assert_eq!(&bytes_field(&message, 2)[..], b"c");
        assert_eq!(message_field(&message, 7), None);
        // Group 1 has another group and a field 3.
        let groups: Vec<_> = Fields(b"\x0b\x0b\x0c\x18\x05\x0c\x18\x07").collect();
        assert_eq!(groups, [Some((3, Value::Number(7)))]);
        for garbage in [&b"\x12\x05a"[..], b"\xff", b"\x0b", b"\x0c", b"\0\0", b"\x0f"] {
            let mut fields = Fields(garbage);
            assert_eq!((fields.next(), fields.next()), (Some(None), None));
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
