//! One port for several workers, if it can receive only on one handle.

use crate::{LinkStatus, Port, PortError, PortStats, Received, Sent};
use p4jet_packet::{Batch, Pool};
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Creates `workers` handles of `port`: the first receives, all send, each call under a lock. A single handle is the
/// port itself.
///
/// ```
/// use p4jet_ports::{MemoryPort, Port, share};
/// let (port, handle) = MemoryPort::new();
/// let mut handles = share(Box::new(port), 2);
/// handles[1].send(&[b"out"]).unwrap();
/// assert_eq!(handle.take(), [b"out"]);
/// ```
#[must_use]
pub fn share(port: Box<dyn Port>, workers: usize) -> Vec<Box<dyn Port>> {
    if workers <= 1 {
        return vec![port];
    }
    let shared = Arc::new(Mutex::new(Shared { port, in_use: workers }));
    (0..workers)
        .map(|worker| Box::new(Handle { shared: shared.clone(), first: worker == 0 }) as Box<dyn Port>)
        .collect()
}

struct Shared {
    port: Box<dyn Port>,
    /// Number of handles that have not finished.
    in_use: usize,
}

struct Handle {
    shared: Arc<Mutex<Shared>>,
    first: bool,
}

impl Handle {
    /// A panic of another worker under the lock leaves the port as it was.
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Port for Handle {
    fn receive(&mut self, number: u32, pool: &mut Pool, batch: &mut Batch) -> Result<Received, PortError> {
        if self.first { self.lock().port.receive(number, pool, batch) } else { Ok(Received::End) }
    }

    fn send(&mut self, frames: &[&[u8]]) -> Result<Sent, PortError> {
        self.lock().port.send(frames)
    }

    fn poll_fd(&self) -> Option<RawFd> {
        if self.first { self.lock().port.poll_fd() } else { None }
    }

    // Nothing becomes due at a capture or in memory, and ports with an emulated link are shared below the link.

    fn status(&self) -> LinkStatus {
        self.lock().port.status()
    }

    /// The last handle to finish closes the port: the others may still send.
    fn finish(&mut self) -> Result<(), PortError> {
        let mut shared = self.lock();
        shared.in_use = shared.in_use.saturating_sub(1);
        if shared.in_use == 0 { shared.port.finish() } else { Ok(()) }
    }

    /// The counts of all handles, reported by the first.
    fn stats(&mut self) -> PortStats {
        if self.first { self.lock().port.stats() } else { PortStats::default() }
    }

    fn notices(&self) -> Vec<String> {
        self.lock().port.notices()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryPort, PcapPort, read_capture};

    #[test]
    fn the_first_receives_and_all_send() {
        let (port, handle) = MemoryPort::new();
        let mut handles = share(Box::new(port), 3);
        let (mut pool, mut batch) = (Pool::new(64, 100, 0).unwrap(), Batch::new());
        handle.put(b"in");
        assert_eq!(handles[2].receive(7, &mut pool, &mut batch), Ok(Received::End));
        assert_eq!(handles[0].receive(7, &mut pool, &mut batch), Ok(Received::Packets(1)));
        for (i, port) in handles.iter_mut().enumerate() {
            assert_eq!(port.send(&[&[i as u8]]), Ok(Sent { sent: 1, dropped: 0 }));
        }
        assert_eq!(handle.take(), [[0], [1], [2]]);
        let stats: Vec<u64> = handles.iter_mut().map(|port| port.stats().tx_packets).collect();
        assert_eq!(stats, [3, 0, 0]);
        drop(handle);
        batch.clear();
        assert_eq!(handles[0].receive(7, &mut pool, &mut batch), Ok(Received::End));
    }

    #[test]
    fn the_last_to_finish_closes() {
        let path = std::env::temp_dir().join(format!("p4jet-shared-{}.pcap", std::process::id()));
        let mut handles = share(Box::new(PcapPort::open(None, Some(&path), false).unwrap()), 2);
        handles[0].send(&[&[1; 60]]).unwrap();
        handles[0].finish().unwrap();
        handles[1].send(&[&[2; 60]]).unwrap();
        handles[1].finish().unwrap();
        assert_eq!(read_capture(&path).unwrap(), [[1; 60], [2; 60]]);
        std::fs::remove_file(&path).unwrap();
    }
}
