//! Converts byte strings of clients to values of the program, and back.

use crate::refusal::{Code, Reason, Refusal, Result};
use bytes::Bytes;
use num_bigint::BigUint;
use p4jet_p4info::proto::v1::PortKind;
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
    /// Strings (`sdn_string`), of the space with this number.
    String(usize),
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
            Outside::Same | Outside::String(_) => self.width,
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

/// The number of a port.
pub(crate) fn port(bytes: &[u8]) -> Option<u32> {
    u32::try_from(&number(bytes, 32).ok()?).ok()
}

/// The port of a copy.
pub(crate) fn port_of(kind: Option<&PortKind>) -> Option<u32> {
    match kind? {
        PortKind::EgressPort(port) => Some(*port),
        PortKind::Port(bytes) => port(bytes),
    }
}

/// The handle of the member or group with a client's id. Handles start at 0, which is not a valid id.
pub(crate) fn handle_of_id(id: u32) -> u32 {
    if id == u32::MAX { 0 } else { id }
}

/// The inverse of [`handle_of_id`].
pub(crate) fn id_of_handle(handle: u32) -> u32 {
    if handle == 0 { u32::MAX } else { handle }
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

/// The strings that represent numbers, by `uri`. A string of decimal digits represents that number; others get numbers from the highest
/// down that neither a string nor the state of the switch has.
///
/// An update that is refused gives its numbers back ([`Strings::mark`], [`Strings::take_back`]). Only one thread at a
/// time carries out updates; packets and Reads may use the strings at the same time. Which numbers the state has is known from a scan
/// of it ([`Strings::begin_scan`], [`Strings::end_scan`]); an update whose string finds no number asks for one.
#[derive(Debug, Default)]
pub(crate) struct Strings {
    spaces: Vec<Mutex<Space>>,
    /// The number of changes by others at the last scan ([`p4jet_control::Control::changes_of_others`]).
    scanned_at: AtomicU64,
}

/// What happens to a string that has no number.
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
    strings: HashMap<u64, Box<str>>,
    /// Numbers without a string: those that the state had at the last scan, and those that clients have written since.
    plain: HashSet<u64>,
    /// How far the search for free numbers has come: from the highest number down to this one, none is free.
    searched: Option<u64>,
    /// Numbers that strings received since [`Strings::keep_new`].
    new: VecDeque<u64>,
    /// The length of `new` at the last mark.
    mark: usize,
    /// The length of `new` at the beginning of the Write: only packets have used these.
    begun: usize,
    /// True if a packet used a number that was assigned after the mark: it stays.
    is_sent: bool,
    /// Strings that have lost their numbers since the mark, and whether these were in `new`.
    freed: Vec<(u64, Box<str>, bool)>,
    /// True if the state may have numbers that are unknown.
    is_stale: bool,
    /// True if a string found no number.
    wants_scan: bool,
    /// During a scan, the numbers that have been shown.
    seen: Option<HashSet<u64>>,
    /// The width of the narrowest field seen so far bounds the assigned numbers.
    width: u32,
}

impl Space {
    fn insert(&mut self, string: &str, number: u64) {
        self.numbers.insert(string.into(), number);
        self.strings.insert(number, string.into());
    }

    /// The first number that no field of this width has.
    fn end(&self, width: u32) -> u64 {
        1u64 << self.width.min(width)
    }

    /// Notes that a packet has a number.
    fn send(&mut self, number: u64) {
        self.is_sent |= self.new.iter().skip(self.mark).any(|new| *new == number);
    }

    /// Notes that clients use a number that has no string.
    fn use_plain(&mut self, number: u64) {
        if self.plain.len() < STRINGS_MAX {
            self.plain.insert(number);
        } else {
            self.is_stale = true;
        }
    }

    /// The highest free number of a field of this width.
    fn find_free(&mut self, width: u32) -> Option<u64> {
        if self.numbers.len() >= STRINGS_MAX {
            return None;
        }
        let end = self.searched.map_or(self.end(width), |searched| searched.min(self.end(width)));
        let is_free = |number: &u64| !self.strings.contains_key(number) && !self.plain.contains(number);
        let free = (1..end).rev().find(is_free);
        self.searched = Some(free.unwrap_or(1));
        free
    }

    /// Takes the numbers of all strings that neither the state nor the Write under way uses. Returns them.
    fn free_unused(&mut self, seen: &HashSet<u64>) -> Vec<u64> {
        let new: HashSet<u64> = self.new.iter().skip(self.begun).copied().collect();
        let of_packets: HashSet<u64> = self.new.iter().take(self.begun).copied().collect();
        let is_unused = |number: &u64| *number != 0 && !seen.contains(number) && !new.contains(number);
        let unused: HashSet<u64> = self.strings.keys().copied().filter(is_unused).collect();
        for number in &unused {
            let Some(string) = self.strings.remove(number) else { continue };
            self.numbers.remove(&string);
            self.freed.push((*number, string, of_packets.contains(number)));
        }
        self.new.retain(|number| !unused.contains(number));
        let gone = of_packets.intersection(&unused).count();
        (self.begun, self.mark) = (self.begun - gone, self.mark - gone);
        self.searched = None;
        unused.into_iter().collect()
    }

    /// Gives strings their numbers back.
    fn undo_free(&mut self) {
        for (number, string, was_new) in std::mem::take(&mut self.freed) {
            // Only packets may have used either since.
            if let Some(other) = self.numbers.remove(&string) {
                self.strings.remove(&other);
            }
            if let Some(other) = self.strings.remove(&number) {
                self.numbers.remove(&other);
            }
            self.insert(&string, number);
            if was_new {
                self.new.push_front(number);
                (self.begun, self.mark) = (self.begun + 1, self.mark + 1);
            }
        }
        self.new.retain(|number| self.strings.contains_key(number));
    }
}

/// Maximum number of strings in a space.
pub const STRINGS_MAX: usize = 1 << 20;
/// Maximum length of a string.
const STRING_BYTES_MAX: usize = 1024;

impl Strings {
    /// Creates a space of numbers with this width.
    pub fn new(widths: impl Iterator<Item = u32>) -> Strings {
        let space = |width: u32| Space { width: width.min(63), ..Space::default() };
        Strings { spaces: widths.map(space).map(Mutex::new).collect(), scanned_at: AtomicU64::new(0) }
    }

    fn space(&self, space: usize) -> MutexGuard<'_, Space> {
        self.spaces[space].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn each_space(&self) -> impl Iterator<Item = MutexGuard<'_, Space>> {
        (0..self.spaces.len()).map(|n| self.space(n))
    }

    fn number(&self, space: usize, bytes: &[u8], width: u32, by: By) -> Result<BigUint> {
        let invalid = |why: String| Refusal::invalid(Reason::Value, why);
        let string =
            std::str::from_utf8(bytes).map_err(|_| invalid("the string is not UTF-8".to_string()))?;
        if string.len() > STRING_BYTES_MAX {
            let why = format!("the string has {} bytes, expected at most {STRING_BYTES_MAX}", string.len());
            return Err(invalid(why));
        }
        let space = &mut *self.space(space);
        if let Some(number) = space.numbers.get(string).copied() {
            if by == By::Packet {
                space.send(number);
            }
            return Ok(number.into());
        }
        let absent = || {
            let why = format!("the string `{string}` has no number");
            Err(Refusal::new(Code::NotFound, Reason::Absent, why))
        };
        let named = |number: u64, other: &str| {
            invalid(format!(
                "the number {number} of the string `{string}` already represents the string `{other}`"
            ))
        };
        if string.is_empty() || string == "0" {
            // In SAI P4 the empty string is 0, too. Clients read the first of the two strings that was used.
            return match space.strings.get(&0) {
                Some(other) if **other != *string => Err(named(0, other)),
                Some(_) => Ok(BigUint::ZERO),
                None if by == By::Search => Ok(BigUint::ZERO),
                None => {
                    space.strings.insert(0, string.into());
                    space.new.push_back(0);
                    space.is_sent |= by == By::Packet;
                    Ok(BigUint::ZERO)
                }
            };
        }
        let is_decimal = string.bytes().all(|byte| byte.is_ascii_digit()) && !string.starts_with('0');
        if is_decimal
            && let Ok(number) = string.parse::<u64>()
            && (width >= 64 || number >> width == 0)
        {
            return match space.strings.get(&number) {
                Some(_) if by == By::Search => absent(),
                Some(other) => Err(named(number, other)),
                None => {
                    // No other string may get this number.
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
            let why = format!("{given} strings have numbers, and there is no number left for another one");
            return Err(Refusal::new(Code::ResourceExhausted, Reason::Full, why));
        };
        space.insert(string, number);
        space.new.push_back(number);
        space.is_sent |= by == By::Packet;
        Ok(number.into())
    }

    /// Restores the number of a string.
    pub fn know(&self, space: usize, string: &str, number: u64) {
        let space = &mut *self.space(space);
        if number == 0 {
            space.strings.insert(0, string.into());
        } else if space.numbers.len() < STRINGS_MAX
            && !space.numbers.contains_key(string)
            && !space.strings.contains_key(&number)
            && string != number.to_string()
        {
            space.plain.remove(&number);
            space.insert(string, number);
        }
    }

    /// Forgets the numbers of all strings except those that are not kept yet.
    pub fn forget(&self) {
        for mut space in self.each_space() {
            let space = &mut *space;
            let new: HashSet<u64> = space.new.iter().copied().collect();
            space.strings.retain(|number, _| new.contains(number));
            space.numbers.retain(|_, number| new.contains(number));
            space.searched = None;
        }
    }

    /// True if the state had a number without a string at the last scan.
    pub fn is_in_state(&self, space: usize, number: u64) -> bool {
        self.space(space).plain.contains(&number)
    }

    /// Begins the updates of a Write. `changes` is the number of changes that others have made so far.
    pub fn begin(&self, changes: u64) {
        if self.scanned_at.swap(changes, Ordering::Relaxed) != changes {
            self.make_stale();
        }
        // Only this Write's own strings count.
        self.each_space().for_each(|mut space| {
            space.wants_scan = false;
            space.begun = space.new.len();
        });
    }

    /// Notes that the state may have other numbers than before.
    pub fn make_stale(&self) {
        self.each_space().for_each(|mut space| space.is_stale = true);
    }

    /// True if a string found no number, but may find one after a scan of the state.
    pub fn want_scan(&self) -> bool {
        self.each_space().any(|space| space.wants_scan)
    }

    /// Begins a scan: until [`Strings::end_scan`], notes all numbers that are shown.
    pub fn begin_scan(&self) {
        self.each_space().for_each(|mut space| space.seen = Some(HashSet::new()));
    }

    /// True if a scan has found a number so far.
    pub fn has_seen(&self) -> bool {
        self.each_space().any(|space| space.seen.as_ref().is_some_and(|seen| !seen.is_empty()))
    }

    /// Ends a scan. If a space is full, the strings that nothing uses lose their numbers, which are returned with their space.
    pub fn end_scan(&self) -> Vec<(usize, u64)> {
        let is_full = self.each_space().any(|space| space.wants_scan && !space.is_stale);
        let mut freed = Vec::new();
        for n in 0..self.spaces.len() {
            let space = &mut *self.space(n);
            let seen = space.seen.take().unwrap_or_default();
            if is_full {
                freed.extend(space.free_unused(&seen).into_iter().map(|number| (n, number)));
            }
            space.plain = seen.into_iter().filter(|number| !space.strings.contains_key(number)).collect();
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

    /// Takes the numbers back that strings received since [`Strings::mark`], unless packets have some of them, and gives those back that
    /// strings lost.
    pub fn take_back(&self) {
        for mut space in self.each_space() {
            let space = &mut *space;
            if !space.is_sent {
                for number in space.new.drain(space.mark..) {
                    let string = space.strings.remove(&number);
                    string.and_then(|string| space.numbers.remove(&string));
                    space.searched = space.searched.map(|searched| searched.max(number + 1));
                }
            }
            space.undo_free();
        }
    }

    /// The numbers assigned since [`Strings::keep_new`]: space, number and string.
    pub fn new_ones(&self) -> Vec<(usize, u64, String)> {
        let mut all = Vec::new();
        for n in 0..self.spaces.len() {
            let space = self.space(n);
            all.extend(space.new.iter().map(|number| (n, *number, space.strings[number].to_string())));
        }
        all
    }

    /// Makes the result of [`Strings::new_ones`] permanent.
    pub fn keep_new(&self, kept: &[(usize, u64, String)]) {
        for (n, ..) in kept {
            // Packets only add to it.
            self.space(*n).new.pop_front();
        }
    }

    fn string(&self, space: usize, value: &BigUint) -> Bytes {
        let space = &mut *self.space(space);
        let number = u64::try_from(value).ok();
        if let (Some(seen), Some(number)) = (&mut space.seen, number) {
            seen.insert(number);
        }
        match number.and_then(|number| space.strings.get(&number)) {
            Some(string) => Bytes::copy_from_slice(string.as_bytes()),
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
            Outside::String(space) => self.number(space, bytes, field.width, by),
        }
    }

    /// Formats the value of a field.
    #[inline]
    pub fn show(&self, field: &Field, value: &BigUint) -> Bytes {
        match field.outside {
            Outside::Same | Outside::Bits(_) => shortest(value),
            Outside::String(space) => self.string(space, value),
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
    fn tr_7_the_empty_string_is_0() {
        let strings = || Strings::new([8].into_iter());
        for (first, second) in [("", "0"), ("0", "")] {
            let strings = strings();
            assert_eq!(strings.number(0, first.as_bytes(), 8, By::Update), Ok(BigUint::ZERO));
            let why = strings.number(0, second.as_bytes(), 8, By::Update).unwrap_err().message;
            assert!(why.contains(&format!("already represents the string `{first}`")), "{why}");
            assert_eq!(strings.string(0, &BigUint::ZERO), first);
            assert_eq!(strings.new_ones(), [(0, 0, first.to_string())]);
        }
        assert_eq!(strings().string(0, &BigUint::ZERO), "0");
    }

    #[test]
    fn tr_4_digits_that_are_no_number_of_the_type_are_strings() {
        let strings = Strings::new([10].into_iter());
        let number = |string: &str| strings.number(0, string.as_bytes(), 10, By::Update).unwrap().to_string();
        assert_eq!(["1000", "5000", "007", "7"].map(number), ["1000", "1023", "1022", "7"]);
        assert_eq!(strings.string(0, &BigUint::from(1023u32)), "5000");
    }

    #[test]
    fn a_refused_update_gives_its_numbers_back() {
        let strings = Strings::new([8].into_iter());
        let number = |string: &str, by| strings.number(0, string.as_bytes(), 8, by).map(|n| n.to_string());
        let given = |string: &str, by| number(string, by).unwrap();
        strings.mark();
        assert_eq!(given("a", By::Update), "255");
        strings.mark();
        assert_eq!((given("b", By::Update), given("", By::Update)), ("254".to_string(), "0".to_string()));
        strings.take_back();
        assert_eq!(strings.new_ones(), [(0, 255, "a".to_string())]);
        strings.keep_new(&strings.new_ones());
        assert_eq!(number("b", By::Search).unwrap_err().code, Code::NotFound);
        assert_eq!((given("a", By::Search), given("", By::Search)), ("255".to_string(), "0".to_string()));
        assert_eq!(strings.new_ones(), []);
        // A packet that has the number keeps it.
        strings.mark();
        assert_eq!((given("c", By::Update), given("c", By::Packet)), ("254".to_string(), "254".to_string()));
        strings.take_back();
        assert_eq!(given("c", By::Search), "254");
        strings.mark();
        assert_eq!(given("c", By::Packet), "254");
        assert_eq!(given("d", By::Update), "253");
        strings.take_back();
        assert_eq!((given("0", By::Update), given("e", By::Update)), ("0".to_string(), "253".to_string()));
    }

    /// Begins a Write.
    fn begin(strings: &Strings) {
        strings.begin(0);
        strings.mark();
    }

    #[test]
    fn tr_4_a_write_gets_the_numbers_that_only_packets_used() {
        let strings = Strings::new([2].into_iter());
        let number = |string: &str, by| strings.number(0, string.as_bytes(), 2, by).map(|n| n.to_string());
        let fill = |names: [&str; 3]| names.map(|name| number(name, By::Packet).unwrap());
        let scan = || {
            strings.begin_scan();
            let mut freed = strings.end_scan();
            freed.sort_unstable();
            freed
        };
        begin(&strings);
        assert_eq!(fill(["a", "b", "c"]), ["3", "2", "1"]);
        // Those of packets that come during the Write stay.
        assert!(number("d", By::Update).is_err() && strings.want_scan());
        assert_eq!(scan(), []);
        begin(&strings);
        assert!(number("d", By::Update).is_err() && strings.want_scan());
        assert_eq!(scan(), [(0, 1), (0, 2), (0, 3)]);
        assert_eq!(number("d", By::Update).unwrap(), "3");
        assert_eq!(strings.new_ones(), [(0, 3, "d".to_string())]);
        // A refused update brings them back, and they are still to be kept.
        strings.take_back();
        assert_eq!(fill(["a", "b", "c"]), ["3", "2", "1"]);
        assert!(number("d", By::Search).is_err());
        let mut new = strings.new_ones();
        new.sort_unstable();
        assert_eq!(new.iter().map(|(_, number, _)| *number).collect::<Vec<_>>(), [1, 2, 3]);
        // So does a next Write get them, and keeps only its own.
        begin(&strings);
        assert!(number("e", By::Update).is_err());
        assert_eq!(scan().len(), 3);
        assert_eq!(
            (number("e", By::Update).unwrap(), number("f", By::Packet).unwrap()),
            ("3".into(), "2".into())
        );
        let new = strings.new_ones();
        assert_eq!(new, [(0, 3, "e".to_string()), (0, 2, "f".to_string())]);
        strings.keep_new(&new);
        assert_eq!(strings.new_ones(), []);
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
