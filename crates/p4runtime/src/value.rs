//! Converts byte strings of clients to values of the program, and back.

use crate::refusal::{Code, Reason, Refusal, Result};
use bytes::Bytes;
use num_bigint::BigUint;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
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
    /// The field in a message.
    pub fn shown(&self) -> String {
        shown_field(self.id, &self.name)
    }

    /// The width of the values that clients send.
    pub fn outer_width(&self) -> u32 {
        match self.outside {
            Outside::Bits(width) => width,
            Outside::Same | Outside::Text(_) => self.width,
        }
    }
}

/// A field in a message. The only field of a value set of numbers has no name.
pub(crate) fn shown_field(id: u32, name: &str) -> String {
    match name {
        "" => format!("field {id}"),
        name => format!("`{name}`"),
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
/// down that neither a text nor the state of the switch has.
///
/// An update that is refused gives its numbers back ([`Texts::mark`], [`Texts::take_back`]). Only one thread at a
/// time carries out updates; packets and Reads may use the texts at the same time. Which numbers the state has is known from a scan
/// of it ([`Texts::begin_scan`], [`Texts::end_scan`]); an update whose text finds no number asks for one.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    spaces: Vec<Mutex<Space>>,
    /// The number of changes by others at the last scan ([`p4jet_control::Control::changes_of_others`]).
    scanned_at: AtomicU64,
}

/// What happens to a text that has no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// It gets one, until the update is refused.
    Update,
    /// It gets one, which stays.
    Packet,
    /// It gets none, so nothing has this value.
    Search,
}

#[derive(Debug, Default)]
struct Space {
    numbers: HashMap<Box<str>, u64>,
    texts: HashMap<u64, Box<str>>,
    /// Numbers without text: those that the state had at the last scan, and those that clients have written since.
    plain: HashSet<u64>,
    /// How far the search for free numbers has come: from the highest number down to this one, none is free.
    searched: Option<u64>,
    /// Numbers that texts received since [`Texts::keep_new`].
    new: VecDeque<u64>,
    /// The length of `new` at the last mark.
    mark: usize,
    /// True if a packet used a number that was assigned after the mark: it stays.
    is_sent: bool,
    /// Texts that have lost their numbers since the mark.
    freed: Vec<(u64, Box<str>)>,
    /// True if the state may have numbers that are unknown.
    is_stale: bool,
    /// True if a text found no number.
    wants_scan: bool,
    /// During a scan, the numbers that have been shown.
    seen: Option<HashSet<u64>>,
    /// The width of the narrowest field seen so far bounds the assigned numbers.
    width: u32,
}

impl Space {
    fn insert(&mut self, text: &str, number: u64) {
        self.numbers.insert(text.into(), number);
        self.texts.insert(number, text.into());
    }

    /// The first number that no field of this width has.
    fn end(&self, width: u32) -> u64 {
        1u64 << self.width.min(width)
    }

    /// Notes that a packet has a number.
    fn send(&mut self, number: u64) {
        self.is_sent |= self.new.iter().skip(self.mark).any(|new| *new == number);
    }

    /// Notes that clients use a number that has no text.
    fn use_plain(&mut self, number: u64) {
        if self.plain.len() < TEXTS_MAX {
            self.plain.insert(number);
        } else {
            self.is_stale = true;
        }
    }

    /// The highest free number of a field of this width.
    fn find_free(&mut self, width: u32) -> Option<u64> {
        if self.numbers.len() >= TEXTS_MAX {
            return None;
        }
        let end = self.searched.map_or(self.end(width), |searched| searched.min(self.end(width)));
        let is_free = |number: &u64| !self.texts.contains_key(number) && !self.plain.contains(number);
        let free = (1..end).rev().find(is_free);
        self.searched = Some(free.unwrap_or(1));
        free
    }

    /// Takes the numbers of all texts that neither the state nor a new change uses. Returns them.
    fn free_unused(&mut self, seen: &HashSet<u64>) -> Vec<u64> {
        let new: HashSet<u64> = self.new.iter().copied().collect();
        let is_unused = |number: &u64| *number != 0 && !seen.contains(number) && !new.contains(number);
        let unused: Vec<u64> = self.texts.keys().copied().filter(is_unused).collect();
        for number in &unused {
            let Some(text) = self.texts.remove(number) else { continue };
            self.numbers.remove(&text);
            self.freed.push((*number, text));
        }
        self.searched = None;
        unused
    }

    /// Gives texts their numbers back.
    fn undo_free(&mut self) {
        for (number, text) in std::mem::take(&mut self.freed) {
            // Only packets may have used either since.
            if let Some(other) = self.numbers.remove(&text) {
                self.texts.remove(&other);
            }
            if let Some(other) = self.texts.remove(&number) {
                self.numbers.remove(&other);
            }
            self.insert(&text, number);
        }
        self.new.retain(|number| self.texts.contains_key(number));
    }
}

/// Maximum number of texts in a space.
pub const TEXTS_MAX: usize = 1 << 20;
/// Maximum length of a text.
const TEXT_BYTES_MAX: usize = 1024;

impl Texts {
    /// Creates a space of numbers with this width.
    pub fn new(widths: impl Iterator<Item = u32>) -> Texts {
        let space = |width: u32| Space { width: width.min(63), ..Space::default() };
        Texts { spaces: widths.map(space).map(Mutex::new).collect(), scanned_at: AtomicU64::new(0) }
    }

    fn space(&self, space: usize) -> MutexGuard<'_, Space> {
        self.spaces[space].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn each_space(&self) -> impl Iterator<Item = MutexGuard<'_, Space>> {
        (0..self.spaces.len()).map(|n| self.space(n))
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
        let absent = || {
            let why = format!("the text `{text}` has no number");
            Err(Refusal::new(Code::NotFound, Reason::Absent, why))
        };
        let named = |number: u64, other: &str| {
            invalid(format!("the number {number} of the text `{text}` already represents the text `{other}`"))
        };
        if text.is_empty() || text == "0" {
            // In SAI P4 the empty text is 0, too. Clients read the first of the two texts that was used.
            return match space.texts.get(&0) {
                Some(other) if **other != *text => Err(named(0, other)),
                Some(_) => Ok(BigUint::ZERO),
                None if by == By::Search => Ok(BigUint::ZERO),
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
            return match space.texts.get(&number) {
                Some(_) if by == By::Search => absent(),
                Some(other) => Err(named(number, other)),
                None => {
                    // No other text may get this number.
                    if by != By::Search && number < space.end(width) {
                        space.use_plain(number);
                    }
                    Ok(number.into())
                }
            };
        }
        if by == By::Search {
            return absent();
        }
        // Packets do not wait for a scan.
        let must_scan = by == By::Update && space.is_stale;
        let Some(number) = (!must_scan).then(|| space.find_free(width)).flatten() else {
            space.wants_scan |= by == By::Update;
            let given = space.numbers.len();
            let why = format!("{given} texts have numbers, and there is no number left for another one");
            return Err(Refusal::new(Code::ResourceExhausted, Reason::Full, why));
        };
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
        } else if space.numbers.len() < TEXTS_MAX
            && !space.numbers.contains_key(text)
            && !space.texts.contains_key(&number)
            && text != number.to_string()
        {
            space.plain.remove(&number);
            space.insert(text, number);
        }
    }

    /// Forgets the numbers of all texts except those that are not kept yet.
    pub fn forget(&self) {
        for mut space in self.each_space() {
            let space = &mut *space;
            let new: HashSet<u64> = space.new.iter().copied().collect();
            space.texts.retain(|number, _| new.contains(number));
            space.numbers.retain(|_, number| new.contains(number));
            space.searched = None;
        }
    }

    /// True if the state had a number without text at the last scan.
    pub fn is_in_state(&self, space: usize, number: u64) -> bool {
        self.space(space).plain.contains(&number)
    }

    /// Begins the updates of a Write. `changes` is the number of changes that others have made so far.
    pub fn begin(&self, changes: u64) {
        if self.scanned_at.swap(changes, Ordering::Relaxed) != changes {
            self.make_stale();
        }
        // Only this Write's own texts count.
        self.each_space().for_each(|mut space| space.wants_scan = false);
    }

    /// Notes that the state may have other numbers than before.
    pub fn make_stale(&self) {
        self.each_space().for_each(|mut space| space.is_stale = true);
    }

    /// True if a text found no number, but may find one after a scan of the state.
    pub fn want_scan(&self) -> bool {
        self.each_space().any(|space| space.wants_scan)
    }

    /// Begins a scan: until [`Texts::end_scan`], notes all numbers that are shown.
    pub fn begin_scan(&self) {
        self.each_space().for_each(|mut space| space.seen = Some(HashSet::new()));
    }

    /// True if a scan has found a number so far.
    pub fn has_seen(&self) -> bool {
        self.each_space().any(|space| space.seen.as_ref().is_some_and(|seen| !seen.is_empty()))
    }

    /// Ends a scan. If a space is full, the texts that nothing uses lose their numbers, which are returned with their space.
    pub fn end_scan(&self) -> Vec<(usize, u64)> {
        let is_full = self.each_space().any(|space| space.wants_scan && !space.is_stale);
        let mut freed = Vec::new();
        for n in 0..self.spaces.len() {
            let space = &mut *self.space(n);
            let seen = space.seen.take().unwrap_or_default();
            if is_full {
                freed.extend(space.free_unused(&seen).into_iter().map(|number| (n, number)));
            }
            space.plain = seen.into_iter().filter(|number| !space.texts.contains_key(number)).collect();
            (space.is_stale, space.wants_scan) = (false, false);
        }
        freed
    }

    /// Begins an update.
    pub fn mark(&self) {
        for mut space in self.each_space() {
            space.mark = space.new.len();
            space.is_sent = false;
            space.freed.clear();
        }
    }

    /// Takes the numbers back that texts received since [`Texts::mark`], unless packets have some of them, and gives those back that
    /// texts lost.
    pub fn take_back(&self) {
        for mut space in self.each_space() {
            let space = &mut *space;
            if !space.is_sent {
                for number in space.new.drain(space.mark..) {
                    let text = space.texts.remove(&number);
                    text.and_then(|text| space.numbers.remove(&text));
                    space.searched = space.searched.map(|searched| searched.max(number + 1));
                }
            }
            space.undo_free();
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
        let space = &mut *self.space(space);
        let number = u64::try_from(value).ok();
        if let (Some(seen), Some(number)) = (&mut space.seen, number) {
            seen.insert(number);
        }
        match number.and_then(|number| space.texts.get(&number)) {
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
    fn tr_4_digits_that_are_no_number_of_the_type_are_texts() {
        let texts = Texts::new([10].into_iter());
        let number = |text: &str| texts.number(0, text.as_bytes(), 10, By::Update).unwrap().to_string();
        assert_eq!(["1000", "5000", "007", "7"].map(number), ["1000", "1023", "1022", "7"]);
        assert_eq!(texts.text(0, &BigUint::from(1023u32)), "5000");
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
        assert_eq!(number("b", By::Search).unwrap_err().code, Code::NotFound);
        assert_eq!((given("a", By::Search), given("", By::Search)), ("255".to_string(), "0".to_string()));
        assert_eq!(texts.new_ones(), []);
        // A packet that has the number keeps it.
        texts.mark();
        assert_eq!((given("c", By::Update), given("c", By::Packet)), ("254".to_string(), "254".to_string()));
        texts.take_back();
        assert_eq!(given("c", By::Search), "254");
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
