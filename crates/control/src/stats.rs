//! Statistics of a running switch.

use serde::{Deserialize, Serialize};

/// The statistics at one time. All counts start with the switch and continue across reloads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stats {
    /// The running program.
    pub program: String,
    /// Seconds since the switch started.
    pub uptime_seconds: f64,
    /// Programs that replaced the running one.
    pub reloads: u64,
    /// Recompilations of the program for the observed traffic.
    pub adaptations: u64,
    /// True while the interpreter forwards because machine code is not ready.
    pub interpreting: bool,
    /// The work at which a worker is stuck: its counts are then those of an earlier sample.
    pub stuck: Option<String>,
    /// Resident memory of the process.
    pub memory_bytes: Option<u64>,
    /// True if lookups and actions are counted.
    pub counted: bool,
    /// Packets received.
    pub received: u64,
    /// Copies of packets.
    pub copies: u64,
    /// Packets that continued behind an output queue; `copies` and `done` count each of them, too.
    pub queued: u64,
    /// Packets that ended because their copies replaced them.
    pub done: u64,
    /// Packets that wait now.
    pub waiting: u64,
    /// Packets sent.
    pub sent: u64,
    /// Packets that a port could not send.
    pub not_sent: u64,
    /// The ports.
    pub ports: Vec<PortStats>,
    /// The tables of the program.
    pub tables: Vec<TableStats>,
    /// The output queues that have held a packet.
    pub queues: Vec<QueueStats>,
    /// Packets dropped, by reason and place.
    pub drops: Vec<DropStats>,
    /// Packets sent to ports that do not exist, for the first 256 such ports.
    pub no_port: Vec<NoPortStats>,
    /// Packets sent to further ports that do not exist.
    pub no_port_others: u64,
    /// Digests.
    pub digests: DigestStats,
    /// The workers.
    pub workers: Vec<WorkerStats>,
    /// Tables of earlier programs, if they were counted. They are not sent over the wire.
    #[serde(skip)]
    pub earlier_tables: Vec<TableStats>,
}

/// The statistics of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PortStats {
    /// Its number.
    pub port: u32,
    /// Its specification, such as an interface.
    pub spec: String,
    /// True if frames can flow.
    pub up: bool,
    /// The reason why they cannot.
    pub why_down: Option<String>,
    /// Frames received.
    pub rx_packets: u64,
    /// Bytes of these frames.
    pub rx_bytes: u64,
    /// Frames that arrived but were not processed.
    pub rx_dropped: ReceiveDrops,
    /// Frames sent.
    pub tx_packets: u64,
    /// Bytes of these frames.
    pub tx_bytes: u64,
    /// Frames that could not be sent.
    pub tx_dropped: SendDrops,
    /// Frames that the emulated link holds.
    pub tx_waiting: u64,
}

/// Frames that arrived at a port but were not processed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReceiveDrops {
    /// Longer than the longest frame.
    pub oversize: u64,
    /// Lost because the ring of the operating system was full.
    pub overrun: u64,
    /// Delivered incomplete.
    pub malformed: u64,
}

/// Frames that a port could not send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SendDrops {
    /// The link did not accept them.
    pub link: u64,
    /// The emulated link lost them.
    pub emulated_loss: u64,
    /// The queue of the emulated link was full.
    pub emulated_queue: u64,
}

impl ReceiveDrops {
    /// The sum of all kinds.
    pub fn total(&self) -> u64 {
        self.oversize + self.overrun + self.malformed
    }

    /// The kinds by name, with their counts.
    pub fn kinds(&self) -> [(&'static str, u64); 3] {
        [("oversize", self.oversize), ("overrun", self.overrun), ("malformed", self.malformed)]
    }
}

impl SendDrops {
    /// The kinds by name, with their counts.
    pub fn kinds(&self) -> [(&'static str, u64); 3] {
        [("link", self.link), ("emulated_loss", self.emulated_loss), ("emulated_queue", self.emulated_queue)]
    }
}

/// The statistics of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TableStats {
    /// Its name.
    pub table: String,
    /// Number of entries.
    pub entries: u64,
    /// Capacity in entries.
    pub entries_max: u64,
    /// Lookups that found an entry, if they are counted.
    pub hits: Option<u64>,
    /// Lookups that found none, if they are counted.
    pub misses: Option<u64>,
    /// Its actions, if they are counted.
    pub actions: Vec<ActionStats>,
}

/// The runs of an action by a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ActionStats {
    /// The action.
    pub action: String,
    /// Number of runs.
    pub runs: u64,
}

/// The statistics of an output queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueStats {
    /// Its port.
    pub port: u32,
    /// Its priority.
    pub queue: usize,
    /// Packets that entered the queue.
    pub enqueued: u64,
    /// Packets that left the queue.
    pub dequeued: u64,
    /// Packets dropped because the queue was full.
    pub dropped: u64,
    /// Packets in the queue.
    pub depth: u64,
    /// Largest number of packets in the queue.
    pub depth_max: u64,
}

/// Packets that the program dropped for one reason at one source line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DropStats {
    /// The reason.
    pub reason: String,
    /// The source line, such as `router.p4:41`, if it is known.
    pub at: Option<String>,
    /// Number of packets.
    pub packets: u64,
}

/// Packets sent to a port that does not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NoPortStats {
    /// The port.
    pub port: u32,
    /// Number of packets.
    pub packets: u64,
}

/// Digests of all programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DigestStats {
    /// Sent by programs.
    pub sent: u64,
    /// Sent without a subscriber.
    pub without_subscriber: u64,
    /// Lost because subscribers were too slow.
    pub dropped: u64,
}

/// The statistics of a worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkerStats {
    /// Its number.
    pub worker: usize,
    /// Packets received.
    pub received: u64,
    /// Copies created.
    pub copies: u64,
    /// Seconds spent on packets.
    pub busy_seconds: f64,
    /// Batches of packets from ports.
    pub batches: u64,
    /// The batches by size.
    pub batch_sizes: Vec<BatchStats>,
}

/// Batches up to a size and larger than the next smaller one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BatchStats {
    /// The largest size.
    pub up_to: u32,
    /// Number of batches.
    pub batches: u64,
}
