//! Measurements: packets in a loop through a worker, what came out, and figures about it.

use crate::failure::Failure;
use p4jet_dataplane::{Switch, Worker};
use p4jet_ir::TableId;
use p4jet_packet::{Batch, PORT_DROP, Pool, REASON_DONE};
use p4jet_ports::{LoopPort, Port, PortError};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The packets, repeated, and their ingress port.
pub struct Source {
    packets: LoopPort,
    port: u32,
}

impl Source {
    /// Plays `frames`.
    pub fn new<F: AsRef<[u8]>>(frames: &[F], port: u32) -> Result<Source, Failure> {
        Ok(Source { packets: LoopPort::new(frames).map_err(|e| Failure::port(&e))?, port })
    }

    /// Adds the next packets to the batch.
    pub fn receive(&mut self, pool: &mut Pool, batch: &mut Batch) -> Result<(), PortError> {
        self.packets.receive(self.port, pool, batch).map(drop)
    }

    /// Returns the ingress port.
    pub fn port(&self) -> u32 {
        self.port
    }

    /// Returns the number of packets in one round.
    pub fn frames(&self) -> usize {
        self.packets.frames()
    }

    /// Returns the length of the longest one in bytes.
    pub fn frame_max(&self) -> usize {
        self.packets.frame_max()
    }

    /// Restarts with the first one.
    pub fn rewind(&mut self) {
        self.packets.rewind();
    }
}

/// The result of a measurement.
#[derive(Default)]
pub struct Measured {
    /// Wall-clock seconds.
    pub seconds: f64,
    /// Packets received.
    pub packets: u64,
    /// Packets dropped.
    pub drops: u64,
    /// Packets sent, by port.
    pub per_port: BTreeMap<u32, u64>,
}

impl Measured {
    /// Returns million packets per second.
    pub fn mpps(&self) -> f64 {
        self.packets as f64 / self.seconds / 1e6
    }

    /// Adds the packets of another measurement; the caller handles its time.
    pub fn add(&mut self, other: Measured) {
        self.packets += other.packets;
        self.drops += other.drops;
        for (port, packets) in other.per_port {
            *self.per_port.entry(port).or_default() += packets;
        }
    }
}

/// Rounds to three decimal places.
pub fn round(x: f64) -> f64 {
    (x * 1000.0).round() / 1000.0
}

/// Returns the median; 0 for no values.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// The error for lack of memory for buffers.
pub fn no_memory(error: std::io::Error) -> Failure {
    Failure::Environment(format!("no memory for packets: {error}"))
}

/// Returns the number of entries in all tables of a switch.
pub fn entries(switch: &Switch) -> usize {
    tables(switch).map(|id| switch.table(id).len()).sum()
}

/// Returns the tables of a switch.
pub fn tables(switch: &Switch) -> impl Iterator<Item = TableId> {
    (0..switch.program().tables.len() as u32).map(TableId)
}

/// A hash (64-bit FNV-1a) over port, length and bytes of packets that leave.
pub struct Digest(u64);

impl Default for Digest {
    fn default() -> Digest {
        Digest(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    fn bytes(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.0 = (self.0 ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// Adds a batch that has been processed.
    pub fn add(&mut self, pool: &Pool, batch: &Batch) {
        for packet in batch.packets().iter().filter(|p| p.egress_port != PORT_DROP) {
            self.bytes(&packet.egress_port.to_le_bytes());
            self.bytes(&packet.len.to_le_bytes());
            self.bytes(pool.frame(packet));
        }
    }

    /// Returns it as text.
    pub fn text(&self) -> String {
        format!("{:016x}", self.0)
    }
}

/// Returns the digest of all packets of one pass, in order; copies follow the packets of their batch.
pub fn digest(worker: &mut Worker, source: &mut Source, pool: &mut Pool) -> Result<String, Failure> {
    let mut digest = Digest::default();
    source.rewind();
    let mut batch = Batch::new();
    let mut left = source.frames();
    while left > 0 {
        batch.clear();
        source.receive(pool, &mut batch).map_err(|e| Failure::port(&e))?;
        batch.truncate(left);
        left -= batch.len();
        worker.process(pool, &mut batch);
        loop {
            digest.add(pool, &batch);
            if !worker.process_copies(pool, &mut batch) {
                break;
            }
        }
    }
    source.rewind();
    Ok(digest.text())
}

/// Number of ports that have their own count in [`Tally`].
const PORTS: usize = 512;

/// Counts by egress port, instead of sending.
pub struct Tally {
    per_port: [u64; PORTS],
    drops: u64,
    other: BTreeMap<u32, u64>,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally { per_port: [0; PORTS], drops: 0, other: BTreeMap::new() }
    }
}

impl Tally {
    /// Counts a batch that has been processed.
    pub fn count(&mut self, batch: &Batch) {
        for packet in batch.packets() {
            match packet.egress_port {
                port if (port as usize) < PORTS => self.per_port[port as usize] += 1,
                PORT_DROP => self.drops += u64::from(packet.drop_reason != REASON_DONE),
                port => *self.other.entry(port).or_default() += 1,
            }
        }
    }

    /// Adds the counts to a measurement.
    pub fn put(self, measured: &mut Measured) {
        measured.drops = self.drops;
        measured.per_port = self.other;
        let used = self.per_port.into_iter().enumerate().filter(|(_, n)| *n > 0);
        measured.per_port.extend(used.map(|(port, n)| (port as u32, n)));
    }
}

/// Number of batches between two readings of the clock.
const BATCHES: usize = 16;

/// Runs some batches through a worker; returns the number of packets.
pub fn batches(
    worker: &mut Worker,
    source: &mut Source,
    pool: &mut Pool,
    tally: &mut Tally,
) -> Result<u64, Failure> {
    let mut batch = Batch::new();
    let mut packets = 0;
    for _ in 0..BATCHES {
        batch.clear();
        source.receive(pool, &mut batch).map_err(|e| Failure::port(&e))?;
        packets += batch.len() as u64;
        worker.process(pool, &mut batch);
        loop {
            tally.count(&batch);
            if !worker.process_copies(pool, &mut batch) {
                break;
            }
        }
    }
    Ok(packets)
}

/// Runs for `seconds`.
pub fn measure(
    worker: &mut Worker,
    source: &mut Source,
    pool: &mut Pool,
    seconds: f64,
) -> Result<Measured, Failure> {
    let mut tally = Tally::default();
    let mut packets = 0u64;
    let limit = Duration::from_secs_f64(seconds);
    let start = Instant::now();
    let elapsed = loop {
        // The clock is read only from time to time.
        packets += batches(worker, source, pool, &mut tally)?;
        let elapsed = start.elapsed();
        if elapsed >= limit {
            break elapsed;
        }
    };
    let mut measured = Measured { seconds: elapsed.as_secs_f64(), packets, ..Measured::default() };
    tally.put(&mut measured);
    Ok(measured)
}
