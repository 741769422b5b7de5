//! Messages that wait on a client's stream.

use bytes::Bytes;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use tonic::Status;

/// Maximum number of waiting messages for a client, other than packets.
pub const MESSAGES_MAX: usize = 1024;
/// If more messages than this wait, errors are dropped.
const ERRORS_MAX: usize = 64;
/// Maximum number of waiting packets for a client.
pub const PACKETS_MAX: usize = 8192;
/// Maximum number of waiting bytes for a client, of packets and of other messages.
pub const BYTES_MAX: usize = 4 << 20;

/// A queue to one client: packets wait separately from other messages, which overtake them.
#[derive(Default)]
pub struct Outbox(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    messages: VecDeque<Bytes>,
    message_bytes: usize,
    packets: VecDeque<Bytes>,
    packet_bytes: usize,
    /// The end of the stream, after the waiting messages.
    end: Option<Result<(), Status>>,
    /// True if the reader is gone.
    gone: bool,
    waker: Option<Waker>,
}

impl Waiting {
    fn wake(&mut self) -> Option<Waker> {
        self.waker.take()
    }
}

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a message. False if there is no room, or the stream has ended.
    pub fn put(&self, message: Bytes) -> bool {
        let mut waiting = self.lock();
        let full =
            waiting.messages.len() >= MESSAGES_MAX || waiting.message_bytes + message.len() > BYTES_MAX;
        if full || waiting.end.is_some() || waiting.gone {
            return false;
        }
        waiting.message_bytes += message.len();
        waiting.messages.push_back(message);
        let waker = waiting.wake();
        drop(waiting);
        waker.into_iter().for_each(Waker::wake);
        true
    }

    /// Queues an error, unless too many messages wait.
    pub fn put_error(&self, message: Bytes) {
        if self.lock().messages.len() < ERRORS_MAX {
            self.put(message);
        }
    }

    /// Queues packets while there is room. Returns the number of packets without room.
    pub fn put_packets(&self, packets: impl Iterator<Item = Bytes>) -> u64 {
        let mut waiting = self.lock();
        let mut dropped = 0;
        for packet in packets {
            let full =
                waiting.packets.len() >= PACKETS_MAX || waiting.packet_bytes + packet.len() > BYTES_MAX;
            if full || waiting.end.is_some() || waiting.gone {
                dropped += 1;
                continue;
            }
            waiting.packet_bytes += packet.len();
            waiting.packets.push_back(packet);
        }
        let waker = waiting.wake();
        drop(waiting);
        waker.into_iter().for_each(Waker::wake);
        dropped
    }

    /// Ends the stream after the waiting messages; waiting packets are dropped.
    pub fn end(&self, how: Result<(), Status>) {
        let mut waiting = self.lock();
        waiting.packets.clear();
        waiting.packet_bytes = 0;
        waiting.end.get_or_insert(how.map_err(super::grpc::shortened));
        let waker = waiting.wake();
        drop(waiting);
        waker.into_iter().for_each(Waker::wake);
    }

    /// True if the reader is gone.
    pub fn is_gone(&self) -> bool {
        self.lock().gone
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Status>>> {
        let mut waiting = self.lock();
        if let Some(message) = waiting.messages.pop_front() {
            waiting.message_bytes -= message.len();
            return Poll::Ready(Some(Ok(message)));
        }
        if let Some(end) = waiting.end.clone() {
            return Poll::Ready(match end {
                Ok(()) => None,
                Err(status) => {
                    waiting.end = Some(Ok(()));
                    Some(Err(status))
                }
            });
        }
        if let Some(packet) = waiting.packets.pop_front() {
            waiting.packet_bytes -= packet.len();
            return Poll::Ready(Some(Ok(packet)));
        }
        waiting.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

/// The reading end of an outbox: the stream of messages to the client. `on_drop` runs when the client's stream is gone.
pub struct Outgoing<F: FnMut()> {
    outbox: Arc<Outbox>,
    on_drop: F,
}

impl<F: FnMut()> Outgoing<F> {
    /// The messages of an outbox.
    pub fn new(outbox: Arc<Outbox>, on_drop: F) -> Outgoing<F> {
        Outgoing { outbox, on_drop }
    }
}

impl<F: FnMut() + Unpin> tokio_stream::Stream for Outgoing<F> {
    type Item = Result<Bytes, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.outbox.poll(context)
    }
}

impl<F: FnMut()> Drop for Outgoing<F> {
    fn drop(&mut self) {
        let mut waiting = self.outbox.lock();
        let Waiting { messages, packets, .. } = std::mem::take(&mut *waiting);
        waiting.gone = true;
        drop(waiting);
        drop((messages, packets));
        (self.on_drop)();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use tokio_stream::Stream;

    #[test]
    fn messages_overtake_packets_and_nothing_grows() {
        let outbox = Arc::new(Outbox::default());
        let packets = (0..PACKETS_MAX + 5).map(|_| Bytes::from_static(b"packet"));
        assert_eq!(outbox.put_packets(packets), 5);
        for _ in 0..MESSAGES_MAX {
            assert!(outbox.put(Bytes::from_static(b"message")));
        }
        assert!(!outbox.put(Bytes::from_static(b"one more")));
        let mut outgoing = pin!(Outgoing::new(Arc::clone(&outbox), || ()));
        let mut context = Context::from_waker(Waker::noop());
        let mut next = || match outgoing.as_mut().poll_next(&mut context) {
            Poll::Ready(Some(Ok(bytes))) => Some(bytes),
            _ => None,
        };
        for _ in 0..MESSAGES_MAX {
            assert_eq!(next().as_deref(), Some(&b"message"[..]));
        }
        assert_eq!(next().as_deref(), Some(&b"packet"[..]));
        outbox.end(Err(Status::aborted("over")));
        assert_eq!(next(), None);
        assert!(!outbox.put(Bytes::new()));
    }

    #[test]
    fn many_bytes_are_too_many() {
        let outbox = Outbox::default();
        let large = || Bytes::from(vec![0; 1 << 20]);
        assert_eq!(outbox.put_packets((0..6).map(|_| large())), 2);
        assert!((0..4).all(|_| outbox.put(large())) && !outbox.put(large()));
    }
}
