//! What the packet loop sees of any port.

use crate::PortError;
use p4jet_packet::{Batch, Pool};
use std::os::fd::RawFd;
use std::time::Duration;

/// What [`Port::receive`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Number of packets added to the batch: at least one, unless the batch had no room.
    Packets(usize),
    /// None now; more may come. Wait on [`Port::poll_fd`], or ask again.
    Empty,
    /// None now, and none ever again on this handle.
    End,
}

/// What became of the frames of one [`Port::send`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Frames that left, or that an emulated link holds and will send.
    pub sent: usize,
    /// Frames dropped: too long for the link, the link down, its queue full, or lost by an emulated link. A switch does
    /// not wait for a link.
    pub dropped: usize,
}

/// Whether frames can flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkStatus {
    /// As far as the port knows.
    Up,
    /// The port receives nothing and drops frames, for this reason. It continues by itself when the reason ends.
    Down(String),
}

/// What a port has carried since it was opened; of several handles of one port, what this one has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Frames given to the packet loop.
    pub rx_packets: u64,
    /// Bytes of them.
    pub rx_bytes: u64,
    /// Frames longer than the pool's `frame_max`.
    pub rx_dropped_oversize: u64,
    /// Frames lost before p4jet saw them, the ring of the operating system being full.
    pub rx_dropped_overrun: u64,
    /// Frames that the operating system delivered incomplete (partial checksum or unsegmented) in a way that p4jet
    /// cannot complete.
    pub rx_dropped_malformed: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Bytes of them.
    pub tx_bytes: u64,
    /// Frames not sent for other reasons than the next two, see [`Sent::dropped`].
    pub tx_dropped: u64,
    /// Frames lost by the emulated link.
    pub tx_dropped_loss: u64,
    /// Frames that found the queue of the emulated link full.
    pub tx_dropped_queue: u64,
    /// Frames that are held now: by the emulated link (at the first handle, for all), or refused by the queue of a link that
    /// output queues follow.
    pub tx_waiting: u64,
}

/// A place where frames come from and go to. Calls are per batch, so that one virtual call is spread over many packets.
///
/// A port is one handle for each worker, and worker `w` alone uses handle `w`. Every handle sends. Kinds that can spread
/// frames receive on every handle, all frames of a flow on the same one; the others receive on handle 0.
///
/// Errors mean the port is of no more use (the file is corrupt, the disk is full); what happens to single frames is
/// counted instead. An interface that goes down or vanishes is no error: see [`Port::status`].
pub trait Port: Send {
    /// Adds frames to what room `batch` has, each in a fresh buffer of `pool`, with `number` as ingress port.
    /// Never blocks.
    ///
    /// # Errors
    ///
    /// The port is of no more use.
    fn receive(&mut self, number: u32, pool: &mut Pool, batch: &mut Batch) -> Result<Received, PortError>;

    /// Sends `frames` in order; they may be overwritten as soon as it returns. Never waits for the link.
    ///
    /// # Errors
    ///
    /// The port is of no more use.
    fn send(&mut self, frames: &[&[u8]]) -> Result<Sent, PortError>;

    /// How many more frames the link takes without letting them queue up outside the switch: 0 while it is busy with those
    /// sent before. From the first call on, the port keeps frames that a full queue of the link refuses and sends them
    /// again, instead of dropping them. `usize::MAX` for a port that cannot tell.
    fn room(&mut self) -> usize {
        usize::MAX
    }

    /// A descriptor to poll for readability after [`Received::Empty`]; `None` for a port that always knows at once. It
    /// may be another one after each call of a method that changes the port.
    fn poll_fd(&self) -> Option<RawFd> {
        None
    }

    /// Does what has fallen due, such as frames that an emulated link held back: how long until there is more to do.
    /// `None`: nothing before the next call of [`Port::send`], on any handle. To be called in each round of the loop.
    fn due(&mut self) -> Option<Duration> {
        None
    }

    /// Whether frames can flow. A port whose interface is down, or gone, receives nothing and drops what is sent; it
    /// looks for an interface of the same name by itself, and goes on with it.
    fn status(&self) -> LinkStatus {
        LinkStatus::Up
    }

    /// Flushes what is written, so that failures are seen; the handle must not be used after. Dropping all handles does
    /// the same, silently.
    ///
    /// # Errors
    ///
    /// Not everything could be written.
    fn finish(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    /// What it has carried so far.
    fn stats(&mut self) -> PortStats;

    /// Things the user should be told when the switch starts, one a line: the interface is down, for one. The handles
    /// of a port say the same.
    fn notices(&self) -> Vec<String> {
        Vec::new()
    }
}

/// What several handles of a port have carried together.
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
