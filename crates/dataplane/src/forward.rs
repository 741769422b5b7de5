//! The packet loop: from ports, through the pipeline, to ports.
#![allow(unsafe_code)]

use crate::worker::{REASON_TOO_MANY_COPIES, Worker};
use p4jet_packet::{Batch, PORT_DROP, Pool, REASON_DONE};
use p4jet_ports::{Port, PortError, Received};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long the loop sleeps at most before it looks whether it should stop.
const IDLE: Duration = Duration::from_millis(50);
/// Empty rounds before the loop sleeps: a packet that comes right after the last finds it awake.
const SPINS: u32 = 200;

/// What the loop has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForwardStats {
    /// Packets received.
    pub received: u64,
    /// Copies that packets made. `received + copies` is the sum of everything below.
    pub copies: u64,
    /// Packets that ended with their copies in their place: replicated, resubmitted, recirculated.
    pub done: u64,
    /// Packets sent, by port.
    pub sent: BTreeMap<u32, u64>,
    /// Packets dropped by the program, by reason.
    pub dropped: BTreeMap<u32, u64>,
    /// Packets sent to a port that does not exist.
    pub no_port: BTreeMap<u32, u64>,
    /// Packets that a port could not send.
    pub not_sent: u64,
}

/// A worker with its ports.
pub struct Forwarder {
    worker: Worker,
    ports: Vec<Attached>,
    pool: Pool,
    batch: Batch,
    stats: ForwardStats,
}

struct Attached {
    number: u32,
    port: Box<dyn Port>,
    ended: bool,
}

impl Forwarder {
    /// Ports by number; frames of at most `frame_max` bytes.
    pub fn new(
        worker: Worker,
        ports: Vec<(u32, Box<dyn Port>)>,
        frame_max: usize,
    ) -> std::io::Result<Forwarder> {
        let pool = worker.pool(p4jet_packet::COUNT_DEFAULT, frame_max)?;
        let ports = ports.into_iter().map(|(number, port)| Attached { number, port, ended: false }).collect();
        Ok(Forwarder { worker, ports, pool, batch: Batch::new(), stats: ForwardStats::default() })
    }

    /// What it has done so far.
    pub fn stats(&self) -> &ForwardStats {
        &self.stats
    }

    /// The worker, to explain drop reasons.
    pub fn worker(&mut self) -> &mut Worker {
        &mut self.worker
    }

    /// Each port's number and own statistics.
    pub fn port_stats(&mut self) -> Vec<(u32, p4jet_ports::PortStats)> {
        self.ports.iter_mut().map(|p| (p.number, p.port.stats())).collect()
    }

    /// Forwards until all ports have ended or `stop` is set. A port that fails is reported to `failed` and no longer
    /// used; the others go on.
    pub fn run(
        &mut self,
        stop: &AtomicBool,
        log: &mut dyn FnMut(&str),
        failed: &mut dyn FnMut(u32, &PortError),
    ) {
        let mut empty_rounds = 0;
        while !stop.load(Ordering::Relaxed) && self.ports.iter().any(|p| !p.ended) {
            let before = self.stats.received;
            for i in 0..self.ports.len() {
                self.serve(i, failed);
                for line in self.worker.take_log() {
                    log(&line);
                }
            }
            if self.stats.received != before {
                empty_rounds = 0;
                continue;
            }
            empty_rounds += 1;
            if empty_rounds > SPINS {
                self.sleep();
            }
        }
    }

    /// Flushes and closes the ports; gives the first failure.
    pub fn finish(&mut self) -> Result<(), PortError> {
        let mut result = Ok(());
        for port in &mut self.ports {
            let done = port.port.finish();
            if result.is_ok() {
                result = done;
            }
        }
        result
    }

    /// One batch from one port.
    fn serve(&mut self, i: usize, failed: &mut dyn FnMut(u32, &PortError)) {
        if self.ports[i].ended {
            return;
        }
        self.batch.clear();
        let Attached { number, port, ended } = &mut self.ports[i];
        match port.receive(*number, &mut self.pool, &mut self.batch) {
            Ok(Received::Packets(_) | Received::Empty) => {}
            Ok(Received::End) => *ended = true,
            Err(error) => {
                failed(*number, &error);
                *ended = true;
            }
        }
        if self.batch.is_empty() {
            return;
        }
        self.stats.received += self.batch.len() as u64;
        self.worker.process(&mut self.pool, &mut self.batch);
        self.send(failed);
        while self.worker.process_copies(&mut self.pool, &mut self.batch) {
            self.stats.copies += self.batch.len() as u64;
            self.send(failed);
        }
        let refused = self.worker.take_refused();
        if refused > 0 {
            self.stats.copies += refused;
            *self.stats.dropped.entry(REASON_TOO_MANY_COPIES).or_default() += refused;
        }
    }

    /// Sends the batch, one call per port that something goes to.
    fn send(&mut self, failed: &mut dyn FnMut(u32, &PortError)) {
        let packets = self.batch.packets();
        let mut left = packets.len();
        for attached in &mut self.ports {
            let mut frames: [&[u8]; p4jet_packet::BATCH_MAX] = [&[]; p4jet_packet::BATCH_MAX];
            let mut n = 0;
            for packet in packets {
                if packet.egress_port == attached.number {
                    frames[n] = self.pool.frame(packet);
                    n += 1;
                }
            }
            if n == 0 {
                continue;
            }
            left -= n;
            match attached.port.send(&frames[..n]) {
                Ok(sent) => {
                    *self.stats.sent.entry(attached.number).or_default() += sent.sent as u64;
                    self.stats.not_sent += sent.dropped as u64;
                }
                Err(error) => {
                    self.stats.not_sent += n as u64;
                    if !attached.ended {
                        failed(attached.number, &error);
                        attached.ended = true;
                    }
                }
            }
            if left == 0 {
                return;
            }
        }
        for packet in packets {
            if packet.egress_port == PORT_DROP && packet.drop_reason == REASON_DONE {
                self.stats.done += 1;
            } else if packet.egress_port == PORT_DROP {
                *self.stats.dropped.entry(packet.drop_reason).or_default() += 1;
            } else if !self.ports.iter().any(|p| p.number == packet.egress_port) {
                *self.stats.no_port.entry(packet.egress_port).or_default() += 1;
            }
        }
    }

    /// Waits until some port may have something.
    fn sleep(&self) {
        let mut fds: Vec<libc::pollfd> = self
            .ports
            .iter()
            .filter(|p| !p.ended)
            .filter_map(|p| p.port.poll_fd())
            .map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 })
            .collect();
        if fds.is_empty() {
            std::thread::sleep(Duration::from_micros(100));
            return;
        }
        // SAFETY: the array is valid for its length; the descriptors belong to open ports.
        let woken =
            unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, IDLE.as_millis() as i32) };
        // A descriptor in error stays ready for ever; the port tells by itself what is wrong.
        if woken > 0 && fds.iter().any(|f| f.revents & (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) != 0)
        {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
