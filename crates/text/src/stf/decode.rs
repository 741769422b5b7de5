//! The differences between two packets in terms of the program's headers.

use super::script::Pattern;
use p4jet_dataplane::{Trace, TraceEvent};
use p4jet_ir::{BlockKind, FieldId, HeaderId, Program};
use std::fmt::Write;

/// The headers at the start of a frame. The payload follows the last one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    headers: Vec<Placed>,
}

/// A header in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Placed {
    header: HeaderId,
    at_bit: u64,
    bits: u64,
}

impl Layout {
    /// The layouts of the packets that left, in order: the headers that the last deparser wrote.
    pub(super) fn of_sent(program: &Program, trace: &Trace) -> Vec<Layout> {
        let (mut layouts, mut now) = (Vec::new(), Layout::default());
        for event in &trace.events {
            match event {
                TraceEvent::Arrived { .. } | TraceEvent::CopyBegins { .. } => now = Layout::default(),
                TraceEvent::Block { block } if program.blocks[block.index()].kind == BlockKind::Deparser => {
                    now = Layout::default();
                }
                TraceEvent::Emit { header, valid: true, bits, .. } => {
                    now.headers.push(Placed { header: *header, at_bit: now.end(), bits: *bits });
                }
                TraceEvent::Sent { .. } => layouts.push(now.clone()),
                _ => {}
            }
        }
        layouts
    }

    /// The layout of an arriving packet: the headers that the first parser finds, if they are contiguous.
    pub(super) fn of_arriving(program: &Program, trace: &Trace) -> Option<Layout> {
        let mut layout = Layout::default();
        for event in &trace.events {
            match event {
                TraceEvent::Block { block } if program.blocks[block.index()].kind != BlockKind::Parser => {
                    break;
                }
                TraceEvent::Extract { header, at_bit, bits, .. } => {
                    if *at_bit != layout.end() {
                        return None;
                    }
                    layout.headers.push(Placed { header: *header, at_bit: *at_bit, bits: *bits });
                }
                // It is less specific than the layout of the received packet.
                TraceEvent::TooShort { .. } => return None,
                _ => {}
            }
        }
        Some(layout)
    }

    fn end(&self) -> u64 {
        self.headers.last().map_or(0, |last| last.at_bit + last.bits)
    }
}

/// A bit of a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bit {
    Is(bool),
    /// A star in the script.
    Any,
    /// Beyond the end.
    None,
}

/// The bits of a packet or of an expectation.
struct Bits(Vec<Bit>);

impl Bits {
    fn of_frame(frame: &[u8]) -> Bits {
        Bits(frame.iter().flat_map(|byte| (0..8).rev().map(move |i| Bit::Is(byte >> i & 1 == 1))).collect())
    }

    fn of_pattern(pattern: &Pattern) -> Bits {
        let bits = pattern.nibbles.iter().flat_map(|nibble| {
            (0..4).rev().map(move |i| nibble.map_or(Bit::Any, |nibble| Bit::Is(nibble >> i & 1 == 1)))
        });
        Bits(bits.collect())
    }

    /// The `count` bits from `at`, even beyond the end.
    fn part(&self, at: u64, count: u64) -> Vec<Bit> {
        (at..at + count)
            .map(|i| usize::try_from(i).ok().and_then(|i| self.0.get(i)).copied().unwrap_or(Bit::None))
            .collect()
    }
}

/// True if a field is as expected. `exact`: nothing may follow the expectation.
fn agree(expected: &[Bit], got: &[Bit], exact: bool) -> bool {
    expected.iter().zip(got).all(|(e, g)| match (e, g) {
        (Bit::Is(e), Bit::Is(g)) => e == g,
        (Bit::None, Bit::Is(_)) => !exact,
        (Bit::Is(_) | Bit::Any, _) => *g != Bit::None,
        (Bit::None, _) => true,
    })
}

/// The value of a field: in hex, as an address, or with stars.
fn value_text(bits: &[Bit]) -> String {
    if bits.is_empty() {
        return "(no bits)".to_string();
    }
    if bits.iter().all(|b| *b == Bit::None) {
        return "-".to_string();
    }
    // If only the beginning is given, the rest is as free as a star.
    if bits.iter().all(|b| !matches!(b, Bit::Is(_))) {
        return "*".to_string();
    }
    let first = bits.len() % 4;
    let groups = std::iter::once(&bits[..first]).filter(|g| !g.is_empty()).chain(bits[first..].chunks(4));
    let digits: Option<String> = groups.map(hex_digit).collect();
    let Some(digits) = digits else {
        let bit = |b: &Bit| match b {
            Bit::Is(set) => char::from(b'0' + u8::from(*set)),
            Bit::Any | Bit::None => '*',
        };
        return format!("0b{}", bits.iter().map(bit).collect::<String>());
    };
    if bits.len() == 48 {
        let mut text = String::new();
        for (i, digit) in digits.chars().enumerate() {
            if i > 0 && i % 2 == 0 {
                text.push(':');
            }
            text.push(digit);
        }
        return text;
    }
    match u32::from_str_radix(&digits, 16) {
        Ok(value) if bits.len() == 32 && value > 0xffff => {
            format!("0x{digits} ({})", std::net::Ipv4Addr::from(value))
        }
        _ => format!("0x{digits}"),
    }
}

/// The digit of up to four bits, if all are known or all are free.
fn hex_digit(bits: &[Bit]) -> Option<char> {
    let known = bits.iter().filter(|b| matches!(b, Bit::Is(_))).count();
    if known == 0 {
        return Some('*');
    }
    let value = bits.iter().fold(0, |value, bit| value << 1 | u32::from(*bit == Bit::Is(true)));
    (known == bits.len()).then(|| char::from_digit(value, 16)).flatten()
}

/// The fields of a header with their widths here. A header whose varbits cannot be separated has one piece without a
/// name.
fn fields(program: &Program, placed: Placed) -> Vec<(Option<FieldId>, u64)> {
    let header = &program.headers[placed.header.index()];
    let fixed = header.fields.iter().filter(|f| f.varbit_length.is_none());
    let fixed: u64 = fixed.map(|f| u64::from(program.width(f.field))).sum();
    let varbits = header.fields.iter().filter(|f| f.varbit_length.is_some()).count();
    let rest = placed.bits.checked_sub(fixed);
    match (rest, varbits) {
        (Some(rest), 1) | (Some(rest @ 0), _) => header
            .fields
            .iter()
            .map(|f| {
                let width = u64::from(program.width(f.field));
                (Some(f.field), if f.varbit_length.is_some() { rest } else { width })
            })
            .collect(),
        _ => vec![(None, placed.bits)],
    }
}

/// The differences between two packets.
pub(super) struct Differences {
    /// Headers and values that differ, one per line. `None` if only the lengths after the headers differ.
    pub found: Vec<String>,
    /// True if one packet has headers that the other lacks: these differences are listed first.
    pub headers_differ: bool,
    /// All headers as lines; those that differ with all their fields.
    pub text: String,
}

/// Compares a packet with the expected one, header by header.
pub(super) fn differences(
    program: &Program,
    pattern: &Pattern,
    expected: &Layout,
    frame: &[u8],
    got: &Layout,
) -> Differences {
    let mut table = Table {
        program,
        expected: Bits::of_pattern(pattern),
        got: Bits::of_frame(frame),
        exact: pattern.exact,
        headers: Vec::new(),
        found: Vec::new(),
        text: String::new(),
    };
    let mut rest = got.headers.as_slice();
    for placed in &expected.headers {
        match rest.iter().position(|other| other.header == placed.header) {
            Some(at) => {
                rest[..at].iter().for_each(|other| table.only_got(*other));
                table.both(*placed, rest[at]);
                rest = &rest[at + 1..];
            }
            None => table.only_expected(*placed),
        }
    }
    rest.iter().for_each(|other| table.only_got(*other));
    table.payload(expected.end(), got.end());
    let headers_differ = !table.headers.is_empty();
    // A missing header explains the other differences.
    let mut found = table.headers;
    found.extend(table.found);
    Differences { found, headers_differ, text: table.text }
}

struct Table<'a> {
    program: &'a Program,
    expected: Bits,
    got: Bits,
    exact: bool,
    /// Headers that only one packet has.
    headers: Vec<String>,
    /// Other differences.
    found: Vec<String>,
    text: String,
}

impl Table<'_> {
    fn line(&mut self, text: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "  {}", text.trim_end());
    }

    fn both(&mut self, expected: Placed, got: Placed) {
        let name = &self.program.headers[got.header.index()].name;
        let mut rows: Vec<[String; 3]> = Vec::new();
        let mut marks = Vec::new();
        // A varbit may have different lengths on the two sides; fields are compared one by one.
        let (mut e_at, mut g_at) = (expected.at_bit, got.at_bit);
        let (e_fields, g_fields) = (fields(self.program, expected), fields(self.program, got));
        for ((field, e_width), (_, g_width)) in e_fields.iter().zip(&g_fields) {
            let e = self.expected.part(e_at, *e_width);
            let g = self.got.part(g_at, *g_width);
            (e_at, g_at) = (e_at + e_width, g_at + g_width);
            let same = e_width == g_width && agree(&e, &g, self.exact);
            let (expected, got) = (value_text(&e), value_text(&g));
            if !same {
                let full = field.map_or(name.clone(), |f| self.program.fields[f.index()].name.clone());
                self.found.push(match got.as_str() {
                    "-" => format!("{full} is missing, expected {expected}"),
                    _ if expected == "-" => format!("{full} is there, but nothing was expected"),
                    _ => format!("{full} is {got}, expected {expected}"),
                });
            }
            marks.push(if same { ' ' } else { '!' });
            rows.push([self.field_name(name, *field), expected, got]);
        }
        if !marks.contains(&'!') {
            let unasked = self.expected.part(expected.at_bit, expected.bits).iter().all(|b| *b == Bit::None);
            let what = if unasked && expected.bits > 0 { "not compared" } else { "as expected" };
            self.line(&format!("{name}: {what}"));
            return;
        }
        let wide = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let (names, values) = (wide(0).max(name.len().saturating_sub(3)), wide(1).max("expected".len()));
        self.line(&format!("{name:w$}  {:values$}  got", "expected", w = names + 4));
        for (mark, [field, expected, got]) in marks.into_iter().zip(&rows) {
            self.line(&format!("  {mark} {field:names$}  {expected:values$}  {got}"));
        }
    }

    fn only_expected(&mut self, placed: Placed) {
        let name = self.program.headers[placed.header.index()].name.clone();
        self.line(&format!("! {name}: expected, but not in the packet"));
        self.one_sided(placed, |table, at, width| table.expected.part(at, width));
        self.headers.push(format!("{name} is missing"));
    }

    fn only_got(&mut self, placed: Placed) {
        let name = self.program.headers[placed.header.index()].name.clone();
        self.line(&format!("! {name}: in the packet, but not expected"));
        self.one_sided(placed, |table, at, width| table.got.part(at, width));
        self.headers.push(format!("{name} is there, but was not expected"));
    }

    fn one_sided(&mut self, placed: Placed, part: impl Fn(&Self, u64, u64) -> Vec<Bit>) {
        let header = self.program.headers[placed.header.index()].name.clone();
        let rows: Vec<_> =
            fields(self.program, placed).iter().map(|(f, w)| (self.field_name(&header, *f), *w)).collect();
        let names = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let mut at = placed.at_bit;
        for (name, width) in rows {
            let value = value_text(&part(self, at, width));
            self.line(&format!("    {name:names$}  {value}"));
            at += width;
        }
    }

    /// The name of a field without its header.
    fn field_name(&self, header: &str, field: Option<FieldId>) -> String {
        let Some(field) = field else { return "bits".to_string() };
        let name = self.program.fields[field.index()].name.as_str();
        let inner = name.strip_prefix(header).and_then(|rest| rest.strip_prefix('.'));
        inner.unwrap_or(name).to_string()
    }

    fn payload(&mut self, expected_at: u64, got_at: u64) {
        let length = |bits: &Bits, at: u64| (bits.0.len() as u64).saturating_sub(at);
        let (expected_bits, got_bits) = (length(&self.expected, expected_at), length(&self.got, got_at));
        let common = expected_bits.min(got_bits);
        let (e, g) = (self.expected.part(expected_at, common), self.got.part(got_at, common));
        let differs = |byte: &usize| {
            let bits = 8 * byte..(8 * byte + 8).min(e.len());
            !agree(&e[bits.clone()], &g[bits], self.exact)
        };
        let bytes: Vec<usize> = (0..e.len().div_ceil(8)).filter(differs).collect();
        let got_bytes = got_bits / 8;
        let expected_bytes = expected_bits.div_ceil(8);
        if let Some(first) = bytes.first() {
            let at = 8 * *first as u64;
            let expected = value_text(&self.expected.part(expected_at + at, 8));
            let got = value_text(&self.got.part(got_at + at, 8));
            let message = format!("byte {first} of the payload is {got}, expected {expected}");
            let more = match bytes.len() {
                1 => String::new(),
                n => format!(", and {} more bytes differ", n - 1),
            };
            self.line(&format!("! payload: {message}{more}").replace(" of the payload", ""));
            self.found.push(message);
        } else if expected_bits > got_bits {
            let missing = expected_bytes - got_bytes;
            self.line(&format!("! payload: {got_bytes} bytes, {missing} more expected"));
        } else if self.exact && got_bits > expected_bits {
            let more = got_bytes - expected_bytes;
            self.line(&format!("! payload: {got_bytes} bytes, {more} more than expected"));
        } else if got_bits > 0 {
            let what = match (expected_bits, got_bits) {
                (0, _) => "not compared",
                (e, g) if e == g => "as expected",
                _ => "as expected as far as it is compared",
            };
            self.line(&format!("payload: {what}"));
        }
    }
}
