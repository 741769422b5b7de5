//! What a switch has counted for each slice.

use crate::entries::UNITS;
use p4jet_control::NamedSelector;
use p4jet_control::record::Record;
use p4jet_text::client::Client;
use std::collections::BTreeMap;
use std::io;

/// Packets and bytes of a slice by outcome. Bytes are those of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Forwarded without a mark.
    pub forwarded: (u64, u64),
    /// Forwarded with a mark.
    pub marked: (u64, u64),
    /// Dropped because the delay was at its limit.
    pub dropped: (u64, u64),
    /// Dropped at random before that.
    pub dropped_early: (u64, u64),
}

/// A reading of all slices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// The time of the switch in seconds.
    pub time_s: f64,
    /// Counts by the number of the slice; slices that have never counted are missing.
    pub counts: BTreeMap<u16, Counts>,
    /// Virtual delays in seconds, by the number of the slice.
    pub delays_s: BTreeMap<u16, f64>,
}

impl Reading {
    /// Reads a switch that runs programs/vqueue. The inner error is the switch's.
    pub fn read(client: &mut Client) -> io::Result<Result<Reading, String>> {
        let answer = client.command("get_time_elapsed", false)?;
        let Ok(time_us) = answer.output.trim().parse::<u64>() else {
            return Ok(Err("the switch did not tell its time".to_string()));
        };
        let mut reading = Reading { time_s: time_us as f64 / 1e6, ..Reading::default() };
        let selectors = [
            NamedSelector::Register { register: "ingress.queues".to_string() },
            NamedSelector::Counter { counter: "ingress.outcomes".to_string() },
        ];
        for selector in selectors {
            let records = match client.read_all(&selector)? {
                Ok(records) => records,
                Err(error) => return Ok(Err(error.message)),
            };
            for record in records {
                match record {
                    Record::Register(register) => reading.queues(register.cells, time_us),
                    Record::Counter(counter) => reading.outcomes(counter.cells),
                    _ => {}
                }
            }
        }
        Ok(Ok(reading))
    }

    fn queues(&mut self, cells: BTreeMap<u32, String>, time_us: u64) {
        for (slice, value) in cells {
            let digits =
                value.strip_prefix("0x").map_or_else(|| value.parse(), |hex| u64::from_str_radix(hex, 16));
            // The register is read after the time: a moment that has passed shows as a large difference.
            let units = digits.unwrap_or(0).wrapping_sub(time_us << 16);
            let delay = if units >> 40 == 0 { units as f64 / UNITS } else { 0.0 };
            self.delays_s.insert(slice as u16, delay);
        }
    }

    fn outcomes(&mut self, cells: BTreeMap<u32, (u64, u64)>) {
        for (index, value) in cells {
            let counts = self.counts.entry((index / 4) as u16).or_default();
            match index % 4 {
                0 => counts.forwarded = value,
                1 => counts.marked = value,
                2 => counts.dropped = value,
                _ => counts.dropped_early = value,
            }
        }
    }
}

impl Counts {
    /// What has been counted since an earlier reading.
    #[must_use]
    pub fn since(self, before: Counts) -> Counts {
        let less = |now: (u64, u64), before: (u64, u64)| {
            (now.0.saturating_sub(before.0), now.1.saturating_sub(before.1))
        };
        Counts {
            forwarded: less(self.forwarded, before.forwarded),
            marked: less(self.marked, before.marked),
            dropped: less(self.dropped, before.dropped),
            dropped_early: less(self.dropped_early, before.dropped_early),
        }
    }

    /// Bits of the forwarded packets without their Ethernet headers, as limits count them.
    pub fn bits(&self) -> u64 {
        let (packets, bytes) = (self.forwarded.0 + self.marked.0, self.forwarded.1 + self.marked.1);
        bytes.saturating_sub(packets * 14) * 8
    }
}
