//! Converts byte strings of clients to values of the program, and back.

use crate::refusal::{Code, Reason, Refusal, Result};
use bytes::Bytes;
use num_bigint::BigUint;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The form in which clients send values of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outside {
    /// The form of the program.
    Same,
    /// Numbers of this width (`sdn_bitwidth`).
    Bits(u32),
    /// Texts (`sdn_string`), of the space with this number.
    Text(usize),
}

/// A field of a key or a parameter: a value of some width.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    /// Its id in the P4Info.
    pub id: u32,
    pub name: String,
    /// Its width in the program.
    pub width: u32,
    pub outside: Outside,
}

impl Field {
    /// The width of the values that clients send.
    pub fn outer_width(&self) -> u32 {
        match self.outside {
            Outside::Bits(width) => width,
            Outside::Same | Outside::Text(_) => self.width,
        }
    }
}

/// Parses a number of at most `width` bits.
///
/// Common widths need no arithmetic on large numbers.
pub(crate) fn number(bytes: &[u8], width: u32) -> std::result::Result<BigUint, &'static str> {
    if bytes.is_empty() {
        return Err("is empty");
    }
    let first = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len());
    let bytes = &bytes[first..];
    let bits = match bytes.first() {
        Some(first) => bytes.len() as u64 * 8 - u64::from(first.leading_zeros()),
        None => 0,
    };
    if bits > u64::from(width) {
        return Err("is too large");
    }
    Ok(match bytes.len() {
        0..=8 => BigUint::from(bytes.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte))),
        9..=16 => BigUint::from(bytes.iter().fold(0u128, |value, byte| value << 8 | u128::from(*byte))),
        _ => BigUint::from_bytes_be(bytes),
    })
}

/// Formats a number in the shortest form; zero is one byte.
pub(crate) fn shortest(value: &BigUint) -> Bytes {
    match u64::try_from(value) {
        Ok(small) => short_u64(small),
        Err(_) => Bytes::from(value.to_bytes_be()),
    }
}

/// Formats a number in the shortest form.
pub(crate) fn short_u64(value: u64) -> Bytes {
    let bytes = value.to_be_bytes();
    let first = (value.leading_zeros() / 8).min(7) as usize;
    Bytes::copy_from_slice(&bytes[first..])
}

/// The refusal of a byte string.
pub(crate) fn bad_value(found: &[u8], width: u32, why: &str) -> Refusal {
    let message = match found {
        [] => format!("the value is empty, expected at least one byte (bit<{width}>)"),
        _ => {
            let shown: String = found.iter().take(20).map(|byte| format!("{byte:02x}")).collect();
            let more = if found.len() > 20 { "…" } else { "" };
            format!("the value 0x{shown}{more} {why}, expected at most {width} bits")
        }
    };
    Refusal::new(Code::OutOfRange, Reason::Value, message)
}

/// The largest number of a width.
pub(crate) fn ones(width: u32) -> BigUint {
    (BigUint::from(1u32) << width) - 1u32
}

/// The texts that represent numbers, by `uri`. A text of decimal digits represents that number; others get numbers from the highest
/// down.
///
/// An update that is refused gives its numbers back ([`Texts::mark`], [`Texts::take_back`]). Only one thread at a
/// time carries out updates; packets and Reads may use the texts at the same time.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    spaces: Vec<Mutex<Space>>,
}

/// What happens to a text that has no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// It gets one, until the update is refused.
    Update,
    /// It gets one, which stays.
    Packet,
    /// It gets none, so nothing has this value.
    Read,
}

#[derive(Debug, Default)]
struct Space {
    numbers: HashMap<Box<str>, u64>,
    texts: HashMap<u64, Box<str>>,
    /// The lowest number assigned from the top. Texts of digits have their own.
    lowest: Option<u64>,
    /// Numbers that texts received since [`Texts::keep_new`].
    new: VecDeque<u64>,
    /// The length of `new` and the lowest number at the last mark.
    mark: (usize, Option<u64>),
    /// True if a packet used a number that was assigned after the mark: it stays.
    is_sent: bool,
    /// The width of the narrowest field seen so far bounds the assigned numbers.
    width: u32,
}

impl Space {
    fn insert(&mut self, text: &str, number: u64) {
        self.numbers.insert(text.into(), number);
        self.texts.insert(number, text.into());
        if text != number.to_string() {
            self.lowest = Some(self.lowest.map_or(number, |lowest| lowest.min(number)));
        }
    }

    /// The first number that no field of this width has.
    fn end(&self, width: u32) -> u64 {
        1u64 << self.width.min(width)
    }

    /// Notes that a packet has a number.
    fn send(&mut self, number: u64) {
        self.is_sent |= self.new.iter().skip(self.mark.0).any(|new| *new == number);
    }
}

/// Maximum number of texts in a space.
const TEXTS_MAX: usize = 1 << 20;
/// Maximum length of a text.
const TEXT_BYTES_MAX: usize = 1024;

impl Texts {
    /// Creates a space of numbers with this width.
    pub fn new(widths: impl Iterator<Item = u32>) -> Texts {
        let space = |width: u32| Space { width: width.min(63), ..Space::default() };
        Texts { spaces: widths.map(space).map(Mutex::new).collect() }
    }

    fn space(&self, space: usize) -> MutexGuard<'_, Space> {
        self.spaces[space].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn number(&self, space: usize, bytes: &[u8], width: u32, by: By) -> Result<BigUint> {
        let invalid = |why: String| Refusal::invalid(Reason::Value, why);
        let text = std::str::from_utf8(bytes).map_err(|_| invalid("the text is not UTF-8".to_string()))?;
        if text.len() > TEXT_BYTES_MAX {
            let why = format!("the text has {} bytes, expected at most {TEXT_BYTES_MAX}", text.len());
            return Err(invalid(why));
        }
        let space = &mut *self.space(space);
        if let Some(number) = space.numbers.get(text).copied() {
            if by == By::Packet {
                space.send(number);
            }
            return Ok(number.into());
        }
        let full = |space: &Space| {
            let given = space.numbers.len();
            format!("{given} texts have numbers, and there is no number left for another one")
        };
        let named = |number: u64, other: &str| {
            invalid(format!("the number {number} of the text `{text}` already represents the text `{other}`"))
        };
        if text.is_empty() || text == "0" {
            // In SAI P4 the empty text is 0, too. Clients read the first of the two texts that was used.
            return match space.texts.get(&0) {
                Some(other) if **other != *text => Err(named(0, other)),
                Some(_) => Ok(BigUint::ZERO),
                None if by == By::Read => Ok(BigUint::ZERO),
                None => {
                    space.texts.insert(0, text.into());
                    space.new.push_back(0);
                    space.is_sent |= by == By::Packet;
                    Ok(BigUint::ZERO)
                }
            };
        }
        let is_decimal = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
        if is_decimal
            && let Ok(number) = text.parse::<u64>()
            && (width >= 64 || number >> width == 0)
        {
            if let Some(other) = space.texts.get(&number) {
                return Err(named(number, other));
            }
            // No other text may get this number.
            if by != By::Read && number >= space.end(width) / 2 {
                if space.numbers.len() >= TEXTS_MAX {
                    return Err(Refusal::new(Code::ResourceExhausted, Reason::Full, full(space)));
                }
                space.insert(text, number);
                space.new.push_back(number);
                space.is_sent |= by == By::Packet;
            }
            return Ok(number.into());
        }
        if by == By::Read {
            let why = format!("the text `{text}` has no number");
            return Err(Refusal::new(Code::NotFound, Reason::Absent, why));
        }
        let end = space.end(width);
        let mut number = space.lowest.map_or(end, |lowest| lowest.min(end)).saturating_sub(1);
        while number >= end / 2 && space.texts.contains_key(&number) {
            number -= 1;
        }
        if space.numbers.len() >= TEXTS_MAX || number < end / 2 {
            return Err(Refusal::new(Code::ResourceExhausted, Reason::Full, full(space)));
        }
        space.insert(text, number);
        space.new.push_back(number);
        space.is_sent |= by == By::Packet;
        Ok(number.into())
    }

    /// Restores the number of a text.
    pub fn know(&self, space: usize, text: &str, number: u64) {
        let space = &mut *self.space(space);
        if number == 0 {
            space.texts.insert(0, text.into());
        } else if space.numbers.len() < TEXTS_MAX && !space.numbers.contains_key(text) {
            space.insert(text, number);
        }
    }

    /// Begins an update.
    pub fn mark(&self) {
        for n in 0..self.spaces.len() {
            let space = &mut *self.space(n);
            space.mark = (space.new.len(), space.lowest);
            space.is_sent = false;
        }
    }

    /// Takes the numbers back that texts received since [`Texts::mark`], unless packets have some of them.
    pub fn take_back(&self) {
        for n in 0..self.spaces.len() {
            let space = &mut *self.space(n);
            if space.is_sent {
                continue;
            }
            for number in space.new.drain(space.mark.0..) {
                let text = space.texts.remove(&number);
                text.and_then(|text| space.numbers.remove(&text));
            }
            space.lowest = space.mark.1;
        }
    }

    /// The numbers assigned since [`Texts::keep_new`]: space, number and text.
    pub fn new_ones(&self) -> Vec<(usize, u64, String)> {
        let mut all = Vec::new();
        for n in 0..self.spaces.len() {
            let space = self.space(n);
            all.extend(space.new.iter().map(|number| (n, *number, space.texts[number].to_string())));
        }
        all
    }

    /// Makes the result of [`Texts::new_ones`] permanent.
    pub fn keep_new(&self, kept: &[(usize, u64, String)]) {
        for (n, ..) in kept {
            // Packets only add to it.
            self.space(*n).new.pop_front();
        }
    }

    fn text(&self, space: usize, value: &BigUint) -> Bytes {
        let space = self.space(space);
        let text = u64::try_from(value).ok().and_then(|number| space.texts.get(&number));
        match text {
            Some(text) => Bytes::copy_from_slice(text.as_bytes()),
            None => Bytes::from(value.to_string()),
        }
    }

    /// Parses the value of a field.
    #[inline]
    pub fn read(&self, field: &Field, bytes: &[u8], by: By) -> Result<BigUint> {
        match field.outside {
            Outside::Same => number(bytes, field.width).map_err(|why| bad_value(bytes, field.width, why)),
            Outside::Bits(outer) => {
                let value = number(bytes, outer).map_err(|why| bad_value(bytes, outer, why))?;
                if value.bits() > u64::from(field.width) {
                    let why = format!(
                        "the value {value:#x} has no number in the program, whose type has {} bits",
                        field.width
                    );
                    return Err(Refusal::invalid(Reason::Value, why));
                }
                Ok(value)
            }
            Outside::Text(space) => self.number(space, bytes, field.width, by),
        }
    }

    /// Formats the value of a field.
    #[inline]
    pub fn show(&self, field: &Field, value: &BigUint) -> Bytes {
        match field.outside {
            Outside::Same | Outside::Bits(_) => shortest(value),
            Outside::Text(space) => self.text(space, value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g_13_values_at_the_limits() {
        let read =
            |bytes: &[u8], width| number(bytes, width).map(|v| u128::try_from(&v).unwrap_or(u128::MAX));
        assert_eq!(read(&[0x63], 8), Ok(0x63));
        assert!(read(&[0x01, 0x63], 8).is_err());
        assert_eq!(read(&[0, 0x63], 12), Ok(0x63));
        assert_eq!(read(&[0, 0, 0x63], 12), Ok(0x63));
        assert!(read(&[0x10, 0x63], 12).is_err() && read(&[0, 0x40, 0x63], 12).is_err());
        assert_eq!(read(&[0, 0x30, 0x64], 16), Ok(0x3064));
        assert_eq!(read(&[0x01, 0xff], 9), Ok(0x1ff));
        assert!(read(&[0x02, 0], 9).is_err());
        assert_eq!(read(&[1], 1), Ok(1));
        assert!(read(&[2], 1).is_err());
        assert_eq!(number(&[], 8), Err("is empty"));
        assert!(read(&[1], 0).is_err() && read(&[0], 0) == Ok(0));
        for width in [33u32, 64, 65, 128, 1024] {
            let largest = ones(width);
            assert_eq!(number(&largest.to_bytes_be(), width), Ok(largest.clone()));
            assert!(number(&(largest + 1u32).to_bytes_be(), width).is_err());
        }
    }

    #[test]
    fn tr_7_the_empty_text_is_0() {
        let texts = || Texts::new([8].into_iter());
        for (first, second) in [("", "0"), ("0", "")] {
            let texts = texts();
            assert_eq!(texts.number(0, first.as_bytes(), 8, By::Update), Ok(BigUint::ZERO));
            let why = texts.number(0, second.as_bytes(), 8, By::Update).unwrap_err().message;
            assert!(why.contains(&format!("already represents the text `{first}`")), "{why}");
            assert_eq!(texts.text(0, &BigUint::ZERO), first);
            assert_eq!(texts.new_ones(), [(0, 0, first.to_string())]);
        }
        assert_eq!(texts().text(0, &BigUint::ZERO), "0");
    }

    #[test]
    fn a_refused_update_gives_its_numbers_back() {
        let texts = Texts::new([8].into_iter());
        let number = |text: &str, by| texts.number(0, text.as_bytes(), 8, by).map(|n| n.to_string());
        let given = |text: &str, by| number(text, by).unwrap();
        texts.mark();
        assert_eq!(given("a", By::Update), "255");
        texts.mark();
        assert_eq!((given("b", By::Update), given("", By::Update)), ("254".to_string(), "0".to_string()));
        texts.take_back();
        assert_eq!(texts.new_ones(), [(0, 255, "a".to_string())]);
        texts.keep_new(&texts.new_ones());
        assert_eq!(number("b", By::Read).unwrap_err().code, Code::NotFound);
        assert_eq!((given("a", By::Read), given("", By::Read)), ("255".to_string(), "0".to_string()));
        assert_eq!(texts.new_ones(), []);
        // A packet that has the number keeps it.
        texts.mark();
        assert_eq!((given("c", By::Update), given("c", By::Packet)), ("254".to_string(), "254".to_string()));
        texts.take_back();
        assert_eq!(given("c", By::Read), "254");
        texts.mark();
        assert_eq!(given("c", By::Packet), "254");
        assert_eq!(given("d", By::Update), "253");
        texts.take_back();
        assert_eq!((given("0", By::Update), given("e", By::Update)), ("0".to_string(), "253".to_string()));
    }

    #[test]
    fn g_11_numbers_are_sent_in_the_shortest_form() {
        for (value, bytes) in [(0u64, &[0u8][..]), (0x99, &[0x99]), (0x100, &[1, 0]), (u64::MAX, &[0xff; 8])]
        {
            assert_eq!(shortest(&value.into()), bytes);
        }
        assert_eq!(shortest(&(BigUint::from(1u32) << 64u32)), &[1, 0, 0, 0, 0, 0, 0, 0, 0][..]);
    }
}
