//! What a running switch has done, in numbers.

use serde::{Deserialize, Serialize};

/// The numbers at one time. All counts are since the switch began, whatever programs it has run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stats {
    /// The program that runs.
    pub program: String,
    /// Seconds since the switch began.
    pub uptime_seconds: f64,
    /// How many programs took the place of the running one.
    pub reloads: u64,
    /// How often the program was recompiled for the traffic.
    pub adaptations: u64,
    /// Whether the interpreter forwards because machine code is not there yet.
    pub interpreting: bool,
    /// What a worker is stuck at: the counts are those from before.
    pub stuck: Option<String>,
    /// Memory of the process that is in use.
    pub memory_bytes: Option<u64>,
    /// Whether lookups and actions are counted.
    pub counted: bool,
    /// Packets received.
    pub received: u64,
    /// Copies of packets made.
    pub copies: u64,
    /// Packets that ended with their copies in their place.
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
    /// The output queues that had a packet.
    pub queues: Vec<QueueStats>,
    /// Packets dropped, by reason and place.
    pub drops: Vec<DropStats>,
    /// Packets sent to ports that do not exist.
    pub no_port: Vec<NoPortStats>,
    /// Digests.
    pub digests: DigestStats,
    /// The workers.
    pub workers: Vec<WorkerStats>,
    /// Tables of earlier programs, as far as they were counted. They do not go over the wire.
    #[serde(skip)]
    pub earlier_tables: Vec<TableStats>,
}

/// What a port did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PortStats {
    /// Its number.
    pub port: u32,
    /// The interface, or what else it is.
    pub spec: String,
    /// Whether frames can flow.
    pub up: bool,
    /// Why not.
    pub why_down: Option<String>,
    /// Frames received.
    pub rx_packets: u64,
    /// Bytes of them.
    pub rx_bytes: u64,
    /// Frames that came but were not taken in.
    pub rx_dropped: ReceiveDrops,
    /// Frames sent.
    pub tx_packets: u64,
    /// Bytes of them.
    pub tx_bytes: u64,
    /// Frames that could not leave.
    pub tx_dropped: SendDrops,
    /// Frames that the emulated link holds.
    pub tx_waiting: u64,
}

/// Frames that came to a port but were not taken in.
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

/// Frames that could not leave a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SendDrops {
    /// The link did not take them.
    pub link: u64,
    /// The emulated link lost them.
    pub emulated_loss: u64,
    /// The queue of the emulated link was full.
    pub emulated_queue: u64,
}

impl ReceiveDrops {
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

/// What a table has and did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TableStats {
    /// Its name.
    pub table: String,
    /// Entries in it.
    pub entries: u64,
    /// Most entries that it has room for.
    pub entries_max: u64,
    /// Lookups that found an entry, if they are counted.
    pub hits: Option<u64>,
    /// Lookups that found none, if they are counted.
    pub misses: Option<u64>,
    /// Its actions, if they are counted.
    pub actions: Vec<ActionStats>,
}

/// How often a table ran an action.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ActionStats {
    /// The action.
    pub action: String,
    /// How often it ran.
    pub runs: u64,
}

/// What an output queue did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueStats {
    /// Its port.
    pub port: u32,
    /// Its priority.
    pub queue: usize,
    /// Packets that entered.
    pub enqueued: u64,
    /// Packets that left.
    pub dequeued: u64,
    /// Packets that found it full.
    pub dropped: u64,
    /// Packets in it.
    pub depth: u64,
    /// The most there have been.
    pub depth_max: u64,
}

/// Packets that the program dropped for one reason at one place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DropStats {
    /// Why.
    pub reason: String,
    /// Where in the program, `router.p4:41`, if that is known.
    pub at: Option<String>,
    /// How many.
    pub packets: u64,
}

/// Packets sent to a port that does not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NoPortStats {
    /// The port.
    pub port: u32,
    /// How many.
    pub packets: u64,
}

/// Digests of all programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DigestStats {
    /// Sent by programs.
    pub sent: u64,
    /// Sent without a subscriber.
    pub unheard: u64,
    /// Lost because they came too fast.
    pub dropped: u64,
}

/// What a worker did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkerStats {
    /// Its number.
    pub worker: usize,
    /// Packets received.
    pub received: u64,
    /// Copies made.
    pub copies: u64,
    /// Seconds spent on packets.
    pub busy_seconds: f64,
    /// Batches of packets from ports.
    pub batches: u64,
    /// The same by size.
    pub batch_sizes: Vec<BatchStats>,
}

/// Batches up to a size, larger than the size before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BatchStats {
    /// The size.
    pub up_to: u32,
    /// How many.
    pub batches: u64,
}
