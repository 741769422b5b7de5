//! Checksums of headers.

/// The Internet checksum (RFC 1071).
#[derive(Default)]
pub(crate) struct Sum(u64);

impl Sum {
    /// Adds bytes; only the last call may add an odd number.
    pub fn add(&mut self, bytes: &[u8]) -> &mut Sum {
        let (words, rest) = bytes.as_chunks::<4>();
        self.0 += words.iter().map(|w| u64::from(u32::from_be_bytes(*w))).sum::<u64>();
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        self.0 += u64::from(u32::from_be_bytes(last));
        self
    }

    /// Returns the checksum of the added bytes.
    pub fn checksum(&self) -> u16 {
        let mut sum = self.0;
        while sum >> 16 != 0 {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }
}
