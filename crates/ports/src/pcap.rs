//! Capture files as a port.

use crate::capture::{CAPTURED_FRAME_MAX, CaptureReader, CaptureWriter};
use crate::{Port, PortError, PortStats, Received, Sent};
use p4jet_packet::{Batch, Pool, PushError};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Reads frames from one capture file and writes frames to another; either may be missing.
///
/// Without an input it ends at once; without an output, sent frames are only counted.
#[derive(Debug)]
pub struct PcapPort {
    input: Option<CaptureReader>,
    output: Option<CaptureWriter>,
    wall_clock: bool,
    stats: PortStats,
}

impl PcapPort {
    /// Opens `input` and creates `output`.
    ///
    /// Written frames have their number as time, in microseconds from 0, so that equal runs write equal files; with
    /// `wall_clock` they have the time of day.
    ///
    /// # Errors
    ///
    /// A file cannot be opened, or the input is not a capture of Ethernet.
    pub fn open(
        input: Option<&Path>,
        output: Option<&Path>,
        wall_clock: bool,
    ) -> Result<PcapPort, PortError> {
        // The input is opened first, so that an earlier output is not destroyed if the input is wrong.
        let input = input.map(CaptureReader::open).transpose()?;
        let output = output.map(CaptureWriter::create).transpose()?;
        Ok(PcapPort { input, output, wall_clock, stats: PortStats::default() })
    }
}

impl Port for PcapPort {
    fn receive(&mut self, number: u32, pool: &mut Pool, batch: &mut Batch) -> Result<Received, PortError> {
        let Some(input) = &mut self.input else {
            return Ok(Received::End);
        };
        let mut count = 0;
        while !batch.is_full() {
            let Some(frame) = input.next_frame()? else {
                self.input = None;
                if count == 0 {
                    return Ok(Received::End);
                }
                break;
            };
            match batch.push(pool, number, frame) {
                Ok(()) => {
                    count += 1;
                    self.stats.rx_packets += 1;
                    self.stats.rx_bytes += frame.len() as u64;
                }
                Err(PushError::Oversize) => self.stats.rx_dropped_oversize += 1,
                Err(PushError::Full) => unreachable!("room was checked"),
            }
        }
        Ok(Received::Packets(count))
    }

    fn send(&mut self, frames: &[&[u8]]) -> Result<Sent, PortError> {
        let mut result = Sent::default();
        for frame in frames {
            if frame.len() > CAPTURED_FRAME_MAX {
                result.dropped += 1;
                continue;
            }
            if let Some(output) = &mut self.output {
                let time = if self.wall_clock {
                    // A clock before 1970 counts as 0.
                    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
                } else {
                    Duration::from_micros(self.stats.tx_packets)
                };
                output.write(time, frame)?;
            }
            result.sent += 1;
            self.stats.tx_packets += 1;
            self.stats.tx_bytes += frame.len() as u64;
        }
        self.stats.tx_dropped += result.dropped as u64;
        Ok(result)
    }

    fn finish(&mut self) -> Result<(), PortError> {
        self.output.as_mut().map_or(Ok(()), CaptureWriter::finish)
    }

    fn stats(&mut self) -> PortStats {
        self.stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_capture;

    #[test]
    fn reads_in_batches_and_writes() {
        let dir = std::env::temp_dir().join(format!("p4jet-pcap-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let (first, second) = (dir.join("1.pcap"), dir.join("2.pcap"));
        let frames: Vec<Vec<u8>> = (0..150u8).map(|i| vec![i; 60 + usize::from(i)]).collect();

        let mut port = PcapPort::open(None, Some(&first), false).unwrap();
        let (mut pool, mut batch) = (Pool::new(64, 200, 0).unwrap(), Batch::new());
        assert_eq!(port.receive(0, &mut pool, &mut batch), Ok(Received::End));
        let slices: Vec<&[u8]> = frames.iter().map(|frame| &frame[..]).collect();
        assert_eq!(port.send(&slices), Ok(Sent { sent: 150, dropped: 0 }));
        port.finish().unwrap();

        let mut port = PcapPort::open(Some(&first), Some(&second), false).unwrap();
        let mut sizes = Vec::new();
        while let Received::Packets(count) = port.receive(5, &mut pool, &mut batch).unwrap() {
            sizes.push(count);
            let slices: Vec<&[u8]> = batch.packets().iter().map(|packet| pool.frame(packet)).collect();
            port.send(&slices).unwrap();
            batch.clear();
        }
        port.finish().unwrap();
        assert_eq!(port.stats().rx_dropped_oversize, 9, "frames of 201 to 209 bytes");
        assert_eq!(sizes, [64, 64, 13]);
        assert_eq!(read_capture(&second).unwrap(), &frames[..141]);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
