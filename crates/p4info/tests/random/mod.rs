//! Messages with random values.

use bytes::Bytes;
use p4jet_p4info::reflect::{Reflect, Slot};

/// A small generator of random numbers (splitmix64).
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn bytes(&mut self) -> Vec<u8> {
        (0..self.below(9)).map(|_| self.next() as u8).collect()
    }

    fn text(&mut self) -> String {
        let choices = ['a', 'Z', '"', '\\', '\n', '\t', '\'', '\u{1}', 'é', '漢', '#', '{'];
        (0..1 + self.below(8)).map(|_| choices[self.below(choices.len() as u64) as usize]).collect()
    }
}

/// Levels of nested messages; fields of deeper ones stay empty.
pub const DEPTH: u32 = 5;

/// Fills a message.
pub fn fill(message: &mut dyn Reflect, random: &mut Random, depth: u32) {
    for field in message.fields() {
        // Some fields stay empty deep inside, so that messages stay small.
        if depth < DEPTH && random.below(3) > 0 {
            continue;
        }
        let slot = message.slot(field.name).expect("a field that it names");
        match slot {
            Slot::Bool(place) => *place = true,
            Slot::Int32(place) => *place = random.next() as i32,
            Slot::Int64(place) => *place = random.next() as i64,
            Slot::Uint32(place) => *place = random.next() as u32,
            Slot::Uint64(place) => *place = random.next(),
            Slot::String(place) => *place = random.text(),
            Slot::Bytes(place) => *place = Bytes::from(random.bytes()),
            Slot::Enum(place, members) => *place = members[random.below(members.len() as u64) as usize].1,
            Slot::Message(inner) if depth > 0 => fill(inner, random, depth - 1),
            Slot::Message(_) => {}
            Slot::Map(entries) => {
                let entry = entries.entry(random.text());
                // prost leaves out an empty value of a map, which Google writes.
                while entry.encode().is_empty() {
                    fill(entry, random, depth.saturating_sub(1));
                }
            }
        }
    }
}
