//! The entries and packets of a generated program.

use super::super::count;
use super::super::draw::{Draw, Skew};
use super::super::frames::internet_checksum;
use super::{Action, Choice, Kind, Model, Role, Source, Table};
use crate::random::Random;
use std::collections::HashSet;
use std::fmt::Write as _;

/// Ports that packets leave by.
const PORTS: usize = 8;

pub(super) fn commands(random: &mut Random, model: &Model) -> String {
    let mut commands = String::new();
    for (i, table) in model.tables.iter().enumerate() {
        let shapes = KeyShapes::new(random, model, table);
        let mut seen = HashSet::new();
        for entry in 0..table.entries {
            let key = match table.source {
                Source::Number => format!(" {}", entry + 1),
                Source::Keys(keys) => shapes.key(random, &model.keys[keys].tuples[entry], &table.kinds),
            };
            if !seen.insert(key.clone()) {
                continue;
            }
            let (name, data) = match table.entries_drop && random.percent(10) {
                true => ("drop", String::new()),
                false => {
                    let action = random.pick(&table.actions);
                    (action.name.as_str(), data(random, action))
                }
            };
            let priority =
                if shapes.has_priority { format!(" {}", random.range(1, 1000)) } else { String::new() };
            // Writing to a String cannot fail.
            let _ = writeln!(commands, "table_add t{i} {name}{key} =>{data}{priority}");
        }
    }
    commands
}

fn data(random: &mut Random, action: &Action) -> String {
    let mut text = String::new();
    for (bits, choice) in &action.params {
        let value = match choice {
            Choice::Any => random.bits(*bits),
            Choice::Port => random.below(PORTS) as u128,
            Choice::Number(numbers) => 1 + random.below(*numbers) as u128,
            Choice::Below(bound) => random.below(*bound) as u128,
        };
        let _ = write!(text, " {value:#x}");
    }
    text
}

/// The prefixes and masks that the entries of a table have.
struct KeyShapes {
    bits: Vec<u32>,
    lengths: Vec<u32>,
    /// For each pattern, a mask for each field.
    masks: Vec<Vec<u128>>,
    has_priority: bool,
}

impl KeyShapes {
    fn new(random: &mut Random, model: &Model, table: &Table) -> KeyShapes {
        let bits: Vec<u32> = match table.source {
            Source::Number => Vec::new(),
            Source::Keys(keys) => {
                let keys = &model.keys[keys];
                keys.fields.iter().map(|field| model.headers[keys.header].fields[*field].bits).collect()
            }
        };
        let longest = bits.iter().copied().max().unwrap_or(0);
        // Long prefixes are more frequent than short ones.
        let lengths = (0..6).map(|i| longest - (longest / 2 * i / 6).min(longest)).collect();
        let mask = |random: &mut Random, bits: u32| {
            let all = u128::MAX >> (128 - bits);
            match random.below(4) {
                0 => all,
                1 => 0,
                2 => all << random.below(bits as usize / 2 + 1) & all,
                _ => random.bits(bits) | random.bits(bits),
            }
        };
        let masks = (0..random.range(1, 6)).map(|_| {
            let mut masks: Vec<u128> = bits.iter().map(|bits| mask(random, *bits)).collect();
            // Every entry tests something.
            if let (Some(first), Some(bits)) = (masks.first_mut(), bits.first())
                && first.count_ones() < bits / 2
            {
                *first = u128::MAX >> (128 - bits);
            }
            masks
        });
        let masks = masks.collect();
        let has_priority = table.kinds.iter().any(|kind| !matches!(kind, Kind::Exact | Kind::Lpm));
        KeyShapes { bits, lengths, masks, has_priority }
    }

    /// A key that the tuple matches.
    fn key(&self, random: &mut Random, tuple: &[u128], kinds: &[Kind]) -> String {
        let mut text = String::new();
        let pattern = random.pick(&self.masks).clone();
        for (i, (value, kind)) in tuple.iter().zip(kinds).enumerate() {
            let bits = self.bits[i];
            let all = u128::MAX >> (128 - bits);
            let _ = match kind {
                Kind::Exact => write!(text, " {value:#x}"),
                Kind::Lpm => {
                    let length = (*random.pick(&self.lengths)).min(bits);
                    let mask = all << (bits - length) & all;
                    write!(text, " {:#x}/{length}", value & mask)
                }
                Kind::Ternary => write!(text, " {:#x}&&&{:#x}", value & pattern[i], pattern[i]),
                Kind::Range => {
                    let spread = random.bits(bits / 2);
                    write!(text, " {:#x}->{:#x}", value.saturating_sub(spread), (value + spread).min(all))
                }
                Kind::Optional if pattern[i] == 0 => write!(text, " 0&&&0"),
                Kind::Optional => write!(text, " {value:#x}"),
            };
        }
        text
    }
}

pub(super) fn frames(random: &mut Random, model: &Model) -> Vec<Vec<u8>> {
    let draws: Vec<Draw> = model
        .keys
        .iter()
        .map(|keys| {
            let skew = if keys.is_skewed { Skew::Zipf } else { Skew::Even };
            Draw::new(skew, keys.tuples.len(), random)
        })
        .collect();
    (0..count(model.shape.bytes)).map(|_| frame(random, model, &draws)).collect()
}

/// A path through the parser.
fn path(random: &mut Random, model: &Model) -> Vec<(usize, Option<u128>)> {
    let mut path = Vec::new();
    let mut at = 0;
    loop {
        let edges = &model.headers[at].edges;
        // One packet of ten ends early.
        if edges.is_empty() || random.percent(10) {
            path.push((at, None));
            return path;
        }
        let (value, to) = *random.pick(edges);
        path.push((at, Some(value)));
        at = to;
    }
}

fn frame(random: &mut Random, model: &Model, draws: &[Draw]) -> Vec<u8> {
    let path = path(random, model);
    let bytes_of = |path: &[(usize, Option<u128>)]| -> usize {
        path.iter().map(|(header, _)| model.headers[*header].bytes()).sum()
    };
    let bytes = bytes_of(&path).max(model.shape.bytes);
    let mut frame = Vec::with_capacity(bytes);
    for (step, (number, next)) in path.iter().enumerate() {
        let header = &model.headers[*number];
        let mut values: Vec<u128> = header
            .fields
            .iter()
            .map(|field| match field.role {
                Role::Free | Role::Key => random.bits(field.bits),
                Role::Next => next.unwrap_or_else(|| random.bits(field.bits)),
                Role::Fixed(value) => value,
                Role::Length => (bytes - bytes_of(&path[..step])) as u128,
                Role::Checksum => 0,
            })
            .collect();
        for (keys, draw) in model.keys.iter().zip(draws).filter(|(keys, _)| keys.header == *number) {
            if random.percent(keys.known_percent) {
                let tuple = &keys.tuples[draw.next(random)];
                keys.fields.iter().zip(tuple).for_each(|(field, value)| values[*field] = *value);
            }
        }
        let start = frame.len();
        pack(&mut frame, header.fields.iter().zip(&values).map(|(field, value)| (*value, field.bits)));
        // A few are wrong.
        if header.is_ipv4 && !random.percent(3) {
            let checksum = internet_checksum(&frame[start..]);
            frame[start + 10..start + 12].copy_from_slice(&checksum.to_be_bytes());
        }
    }
    frame.resize(bytes, 0);
    frame
}

/// Appends values of some widths, which are whole bytes together.
fn pack(frame: &mut Vec<u8>, values: impl Iterator<Item = (u128, u32)>) {
    let (mut open, mut open_bits) = (0u128, 0);
    for (value, mut bits) in values {
        while bits > 0 {
            let taken = bits.min(8 - open_bits);
            open = open << taken | value >> (bits - taken) & ((1 << taken) - 1);
            (bits, open_bits) = (bits - taken, open_bits + taken);
            if open_bits == 8 {
                frame.push(open as u8);
                (open, open_bits) = (0, 0);
            }
        }
    }
}
