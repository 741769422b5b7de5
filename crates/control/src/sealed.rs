//! Lines of JSON that carry a checksum.
//!
//! A sealed line is a JSON object with one more member at its end: `{"entry":{…},"sum":"1a2b3c4d"}`. The sum is the CRC-32 of
//! Ethernet over all bytes before `,"sum"`.

use crc::{CRC_32_ISO_HDLC, Crc, Table};

static CRC: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISO_HDLC);

const SUM: &[u8] = b",\"sum\":\"";
const DIGITS: usize = 8;
const END: &[u8] = b"\"}";
const SEAL: usize = SUM.len() + DIGITS + END.len();

/// What a line's checksum says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seal {
    /// The line is as it was written; its sum.
    Whole(u32),
    /// The line is not as it was written.
    Broken,
    /// The line has no checksum.
    Missing,
}

/// Appends a sealed line for a JSON object, with its line end; returns the sum.
pub(crate) fn seal(mut object: Vec<u8>, out: &mut Vec<u8>) -> u32 {
    let brace = object.pop();
    debug_assert_eq!(brace, Some(b'}'), "an object");
    let sum = CRC.checksum(&object);
    match out.is_empty() {
        // Large ones are not copied.
        true => *out = object,
        false => out.append(&mut object),
    }
    out.extend_from_slice(SUM);
    out.extend_from_slice(format!("{sum:08x}").as_bytes());
    out.extend_from_slice(END);
    out.push(b'\n');
    sum
}

/// Checks a line, with or without its line end, and takes the checksum off: what remains is the JSON object.
pub(crate) fn open(line: &mut Vec<u8>) -> Seal {
    line.truncate(line.trim_ascii_end().len());
    let Some(at) = line.len().checked_sub(SEAL) else { return Seal::Missing };
    let (object, seal) = line.split_at(at);
    let digits = seal.strip_prefix(SUM).and_then(|rest| rest.strip_suffix(END));
    let Some(digits) = digits else { return Seal::Missing };
    // `from_str_radix` also takes capital letters and a sign, which `seal` does not write.
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let text = std::str::from_utf8(digits).ok().filter(|_| digits.iter().all(is_digit));
    let sum = text.and_then(|text| u32::from_str_radix(text, 16).ok());
    if sum != Some(CRC.checksum(object)) {
        return Seal::Broken;
    }
    line.truncate(at);
    line.push(b'}');
    sum.map_or(Seal::Broken, Seal::Whole)
}

/// The sum of a file: a checksum over the sums of its lines, in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileSum {
    /// Lines so far.
    pub lines: u64,
    sums: u32,
}

impl FileSum {
    /// Takes the sum of the next line into account.
    pub fn add(&mut self, sum: u32) {
        let both = u64::from(self.sums) << 32 | u64::from(sum);
        self.sums = CRC.checksum(&both.to_be_bytes());
        self.lines += 1;
    }

    /// As it is written.
    pub fn text(&self) -> String {
        format!("{:08x}", self.sums)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flipped_bit_breaks_the_seal() {
        let mut line = Vec::new();
        let sum = seal(br#"{"a":[1,"x"]}"#.to_vec(), &mut line);
        // The CRC-32 of `{"a":[1,"x"]`, by another program.
        assert_eq!(sum, 0x7ea6_c129);
        let mut opened = line.clone();
        assert_eq!(open(&mut opened), Seal::Whole(sum));
        assert_eq!(opened, br#"{"a":[1,"x"]}"#);
        for bit in 0..8 * (line.len() - 1) {
            let mut flipped = line.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(!matches!(open(&mut flipped), Seal::Whole(_)), "bit {bit}");
        }
        for length in 0..line.len() - 1 {
            assert!(!matches!(open(&mut line[..length].to_vec()), Seal::Whole(_)), "{length} bytes");
        }
    }

    #[test]
    fn the_sum_of_a_file_knows_the_order() {
        let sum = |sums: &[u32]| {
            let mut file = FileSum::default();
            sums.iter().for_each(|sum| file.add(*sum));
            file.text()
        };
        let all = [[1, 2, 3].as_slice(), &[1, 3, 2], &[1, 2], &[2, 3], &[1, 2, 2, 3]].map(sum);
        for (i, one) in all.iter().enumerate() {
            assert!(!all[..i].contains(one), "{all:?}");
        }
    }
}
