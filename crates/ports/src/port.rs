//! Ports as the packet loop sees them.

use crate::PortError;
use p4jet_packet::{Batch, Pool};
use std::os::fd::RawFd;
use std::time::Duration;

/// The result of [`Port::receive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Number of packets added to the batch: at least one, unless the batch had no room.
    Packets(usize),
    /// None now; more may come. Wait on [`Port::poll_fd`], or ask again.
    Empty,
    /// None now, and none ever again on this handle.
    End,
}

/// The result of one [`Port::send`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Number of frames that left, or that an emulated link holds and will send.
    pub sent: usize,
    /// Number of frames dropped: too long for the link, the link down, its queue full, or lost by an emulated link. A switch
    /// does not wait for a link.
    pub dropped: usize,
}

/// The state of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkStatus {
    /// The link is up, as far as the port knows.
    Up,
    /// The port receives nothing and drops frames, for this reason. It recovers automatically.
    Down(String),
}

/// The counts of a port since it was opened; with several handles, those of one handle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Frames passed to the packet loop.
    pub rx_packets: u64,
    /// Bytes of these frames.
    pub rx_bytes: u64,
    /// Frames longer than the pool's `frame_max`.
    pub rx_dropped_oversize: u64,
    /// Frames lost before p4jet saw them, because the ring of the operating system was full.
    pub rx_dropped_overrun: u64,
    /// Frames that the operating system delivered incomplete (partial checksum or unsegmented) in a way that p4jet
    /// cannot complete.
    pub rx_dropped_malformed: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Bytes of these frames.
    pub tx_bytes: u64,
    /// Frames not sent for reasons other than the next two, see [`Sent::dropped`].
    pub tx_dropped: u64,
    /// Frames lost by the emulated link.
    pub tx_dropped_loss: u64,
    /// Frames dropped because the queue of the emulated link was full.
    pub tx_dropped_queue: u64,
    /// Frames held now: by the emulated link (counted by the first handle, for all), or because the queue of a link that
    /// output queues follow refused them.
    pub tx_waiting: u64,
}

/// A source and destination of frames. Each call handles a batch, so that the cost of a virtual call is spread over many
/// packets.
///
/// A port has one handle for each worker, and only worker `w` uses handle `w`. Every handle sends. Kinds that can distribute
/// frames receive on every handle, all frames of a flow on the same one; the others receive on handle 0.
///
/// An error means that the port is no longer usable (the file is corrupt, the disk is full); failures of single frames are
/// counted instead. An interface that goes down or disappears is not an error: see [`Port::status`].
pub trait Port: Send {
    /// Adds frames to `batch` as far as it has room, each in a fresh buffer of `pool`, with `number` as ingress port. Never
    /// blocks.
    ///
    /// # Errors
    ///
    /// The port is no longer usable.
    fn receive(&mut self, number: u32, pool: &mut Pool, batch: &mut Batch) -> Result<Received, PortError>;

    /// Sends `frames` in order; they may be overwritten as soon as the call returns. Never waits for the link.
    ///
    /// # Errors
    ///
    /// The port is no longer usable.
    fn send(&mut self, frames: &[&[u8]]) -> Result<Sent, PortError>;

    /// Returns how many more frames the link accepts without queueing them outside the switch: 0 while it is busy with
    /// earlier ones. From the first call on, the port keeps frames that a full queue of the link refuses and sends them
    /// again, instead of dropping them. Returns `usize::MAX` if the port does not know.
    fn room(&mut self) -> usize {
        usize::MAX
    }

    /// Returns a descriptor to poll for readability after [`Received::Empty`]; `None` for a port that never needs waiting.
    /// It may change after each call of a method that changes the port.
    fn poll_fd(&self) -> Option<RawFd> {
        None
    }

    /// Does what is due, such as sending frames that an emulated link held, and returns the time until there is more to do.
    /// `None` means nothing before the next call of [`Port::send`] on any handle. Must be called in each round of the loop.
    fn due(&mut self) -> Option<Duration> {
        None
    }

    /// Returns whether frames can flow. A port whose interface is down or deleted receives nothing and drops sent frames; it
    /// looks for an interface of the same name and continues with it.
    fn status(&self) -> LinkStatus {
        LinkStatus::Up
    }

    /// Flushes written data, so that failures are reported; afterwards the handle must not be used. Dropping all handles
    /// does the same without reports.
    ///
    /// # Errors
    ///
    /// Not everything could be written.
    fn finish(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    /// Returns its counts so far.
    fn stats(&mut self) -> PortStats;

    /// Returns messages for the user when the switch starts, one per line: for example, that the interface is down. All
    /// handles of a port return the same.
    fn notices(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Adds the counts of several handles of a port.
impl std::ops::AddAssign for PortStats {
    fn add_assign(&mut self, other: PortStats) {
        let PortStats {
            rx_packets,
            rx_bytes,
            rx_dropped_oversize,
            rx_dropped_overrun,
            rx_dropped_malformed,
            tx_packets,
            tx_bytes,
            tx_dropped,
            tx_dropped_loss,
            tx_dropped_queue,
            tx_waiting,
        } = other;
        self.rx_packets += rx_packets;
        self.rx_bytes += rx_bytes;
        self.rx_dropped_oversize += rx_dropped_oversize;
        self.rx_dropped_overrun += rx_dropped_overrun;
        self.rx_dropped_malformed += rx_dropped_malformed;
        self.tx_packets += tx_packets;
        self.tx_bytes += tx_bytes;
        self.tx_dropped += tx_dropped;
        self.tx_dropped_loss += tx_dropped_loss;
        self.tx_dropped_queue += tx_dropped_queue;
        self.tx_waiting += tx_waiting;
    }
}
