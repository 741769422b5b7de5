//! gRPC over HTTP/2: messages as bytes, and the admission of requests.

use super::room::{Charge, RoomOfConnection, SMALL_BYTES};
use bytes::{Buf, BufMut, Bytes};
use http_body::{Body, Frame, SizeHint};
use std::fmt;
use std::future::Future;
use std::io::Read;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Request, Response, Status, Streaming};

/// The codec of all methods: messages are bytes. The methods decode requests and keep parts of them unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(message);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

/// Maximum length of a status message in bytes: by default, clients read at most 8 KiB of trailers.
const STATUS_BYTES_MAX: usize = 4 << 10;

/// A status whose message clients can read.
pub fn shortened(status: Status) -> Status {
    let message = status.message();
    if message.len() <= STATUS_BYTES_MAX {
        return status;
    }
    let end = (0..=STATUS_BYTES_MAX).rev().find(|end| message.is_char_boundary(*end)).unwrap_or(0);
    let message = format!("{}…", &message[..end]);
    Status::with_details(status.code(), message, Bytes::copy_from_slice(status.details()))
}

/// A method, as a function of the request.
pub struct Method<F>(pub F);

impl<F, T> tonic::server::UnaryService<Bytes> for Method<F>
where
    F: FnMut(Bytes) -> T,
    T: Future<Output = Result<Bytes, Status>> + Send + 'static,
{
    type Response = Bytes;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Bytes>, Status>> + Send>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let answer = (self.0)(request.into_inner());
        Box::pin(async { answer.await.map(Response::new).map_err(shortened) })
    }
}

/// A method whose answer is a stream.
pub struct StreamMethod<F>(pub F);

impl<F, T, S> tonic::server::ServerStreamingService<Bytes> for StreamMethod<F>
where
    F: FnMut(Bytes) -> T,
    T: Future<Output = Result<S, Status>> + Send + 'static,
    S: tokio_stream::Stream<Item = Result<Bytes, Status>>,
{
    type Response = Bytes;
    type ResponseStream = S;
    type Future = Pin<Box<dyn Future<Output = Result<Response<S>, Status>> + Send>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let answer = (self.0)(request.into_inner());
        Box::pin(async { answer.await.map(Response::new).map_err(shortened) })
    }
}

/// A method with a stream in both directions.
pub struct DuplexMethod<F>(pub F);

impl<F, S> tonic::server::StreamingService<Bytes> for DuplexMethod<F>
where
    F: FnMut(Streaming<Bytes>) -> Result<S, Status>,
    S: tokio_stream::Stream<Item = Result<Bytes, Status>>,
{
    type Response = Bytes;
    type ResponseStream = S;
    type Future = std::future::Ready<Result<Response<S>, Status>>;

    fn call(&mut self, request: Request<Streaming<Bytes>>) -> Self::Future {
        std::future::ready((self.0)(request.into_inner()).map(Response::new))
    }
}

/// Length of the prefix of a gRPC message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// Maximum time between two parts of a message, and for the whole message.
pub const PART_WAIT: Duration = Duration::from_millis(if cfg!(test) { 300 } else { 30_000 });
const REQUEST_WAIT: Duration = Duration::from_secs(300);

/// Room for requests that are decoded.
pub struct Budget(Arc<Semaphore>, usize);

/// Bytes per permit.
const PERMIT_BYTES: usize = 4 << 10;

impl Budget {
    /// A budget of this many bytes.
    pub fn new(bytes: usize) -> Budget {
        let permits = bytes / PERMIT_BYTES;
        Budget(Arc::new(Semaphore::new(permits)), permits)
    }

    /// Waits for room; more than the whole budget counts as the whole.
    pub async fn wait(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let permits = u32::try_from(bytes.div_ceil(PERMIT_BYTES).min(self.1)).ok()?;
        Arc::clone(&self.0).acquire_many_owned(permits).await.ok()
    }
}

/// The prefix of a message, which arrives in any parts.
#[derive(Default)]
struct MessagePrefix {
    bytes: [u8; PREFIX_BYTES],
    received: usize,
}

impl MessagePrefix {
    /// Takes bytes of a part. Returns how many, and, if the prefix is complete, whether the message is compressed, and its
    /// length.
    fn take(&mut self, part: &[u8], bytes_max: usize) -> Result<(usize, Option<(bool, usize)>), Status> {
        let step = (PREFIX_BYTES - self.received).min(part.len());
        self.bytes[self.received..][..step].copy_from_slice(&part[..step]);
        self.received += step;
        if self.received < PREFIX_BYTES {
            return Ok((step, None));
        }
        self.received = 0;
        let [is_compressed, length @ ..] = self.bytes;
        let length = u32::from_be_bytes(length) as usize;
        if length > bytes_max {
            let text = format!("the message has {length} bytes, the limit is {bytes_max}");
            return Err(Status::resource_exhausted(text));
        }
        Ok((step, Some((is_compressed != 0, length))))
    }
}

/// Appends what has arrived to a buffer whose memory grows in steps, each at most as long as all before, up to the announced
/// length.
/// `grow` takes the room for a step.
fn append(
    buffer: &mut Vec<u8>,
    part: &[u8],
    announced: usize,
    mut grow: impl FnMut(usize) -> Result<(), Status>,
) -> Result<(), Status> {
    let length = buffer.len() + part.len();
    if length > buffer.capacity() {
        let capacity = (2 * buffer.capacity()).max(SMALL_BYTES).max(length).min(announced);
        grow(capacity)?;
        buffer
            .try_reserve_exact(capacity - buffer.len())
            .map_err(|error| Status::resource_exhausted(error.to_string()))?;
    }
    buffer.extend_from_slice(part);
    Ok(())
}

/// The message of a request that is not a stream, with its room.
pub struct Message {
    bytes: Bytes,
    is_compressed: bool,
    bytes_max: usize,
    charge: Charge,
}

impl Message {
    /// Receives the only message of a request.
    ///
    /// # Errors
    /// It announces more than `bytes_max` bytes, there is no room for it, or the rest does not arrive in time.
    pub async fn receive<B: Body<Data = Bytes> + Unpin>(
        mut body: B,
        bytes_max: usize,
        room: &Arc<RoomOfConnection>,
    ) -> Result<Message, Status>
    where
        B::Error: fmt::Display,
    {
        let end = Instant::now() + REQUEST_WAIT;
        let mut charge = Charge::new(room);
        let (mut prefix, mut announced) = (MessagePrefix::default(), None);
        let (mut bytes, mut buffer) = (Bytes::new(), Vec::new());
        loop {
            let until = end.min(Instant::now() + PART_WAIT);
            let frame = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context));
            let frame = tokio::time::timeout_at(until.into(), frame).await.map_err(|_| late())?;
            let frame = match frame {
                None => break,
                Some(Ok(frame)) => frame,
                Some(Err(error)) => {
                    return Err(Status::cancelled(format!("the request ended early: {error}")));
                }
            };
            let Ok(mut part) = frame.into_data() else { continue };
            if announced.is_none() {
                let (step, complete) = prefix.take(&part, bytes_max)?;
                part.advance(step);
                announced = complete;
            }
            let Some((_, length)) = announced.filter(|_| !part.is_empty()) else { continue };
            if bytes.len() + buffer.len() + part.len() > length {
                return Err(Status::internal("the request has more than one message"));
            }
            match part.len() == length {
                // The usual case: all in one part, which has its own memory.
                true => {
                    charge.grow(length)?;
                    bytes = part;
                }
                false => append(&mut buffer, &part, length, |bytes| charge.grow(bytes))?,
            }
        }
        let Some((is_compressed, length)) = announced else {
            return Err(Status::internal("the request has no message"));
        };
        if !buffer.is_empty() {
            bytes = buffer.into();
        }
        match bytes.len() == length {
            true => Ok(Message { bytes, is_compressed, bytes_max, charge }),
            false => Err(Status::internal("the request ends within its message")),
        }
    }

    /// True if it is still to be expanded.
    pub fn is_compressed(&self) -> bool {
        self.is_compressed
    }

    /// Its bytes, and the room that it has until it is finished. Expands a message that was compressed with gzip; room for what
    /// it expands to is taken in steps.
    ///
    /// # Errors
    /// It is no such message, expands to more than its limit, or there is no room for it.
    pub fn expand(mut self) -> Result<(Bytes, Charge), Status> {
        if !self.is_compressed {
            return Ok((self.bytes, self.charge));
        }
        let mut message = Vec::new();
        let mut reader = flate2::read::GzDecoder::new(&self.bytes[..]);
        loop {
            // One byte more than the limit shows that there are more.
            let capacity = (2 * message.len()).max(SMALL_BYTES).min(self.bytes_max + 1);
            let step = capacity - message.len();
            self.charge.grow(self.bytes.len() + capacity)?;
            message.try_reserve_exact(step).map_err(|error| Status::resource_exhausted(error.to_string()))?;
            let read = reader.by_ref().take(step as u64).read_to_end(&mut message).map_err(|error| {
                Status::invalid_argument(format!("the request cannot be expanded: {error}"))
            })?;
            if message.len() > self.bytes_max {
                let max = self.bytes_max;
                let text = format!("the request expands to more than {max} bytes, which is the limit");
                return Err(Status::resource_exhausted(text));
            }
            if read < step {
                break;
            }
        }
        self.bytes = Bytes::new();
        self.charge.shrink(message.capacity());
        Ok((message.into(), self.charge))
    }
}

fn late() -> Status {
    Status::deadline_exceeded("the rest of the request did not arrive in time")
}

/// A body of one empty message, for tonic: the methods that are no streams receive their message themselves, because tonic
/// reserves the memory that it announces.
#[derive(Default)]
pub struct Received(bool);

impl Body for Received {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let is_over = std::mem::replace(&mut self.0, true);
        Poll::Ready((!is_over).then(|| Ok(Frame::data(Bytes::from_static(&[0; PREFIX_BYTES])))))
    }
}

/// The large messages of a connection's streams: one arrives at a time.
pub type StreamTurn = Arc<tokio::sync::Mutex<()>>;

/// The body of a stream. Its messages reach tonic, which reserves the memory that they announce, when they are there. One of more
/// than [`SMALL_BYTES`] waits until no other stream of the connection receives one, so it needs none of the room for requests,
/// and no other client's requests can end the stream. It must arrive in time.
pub struct StreamBody<B> {
    body: B,
    turn: StreamTurn,
    bytes_max: usize,
    /// What has arrived and is not with tonic.
    part: Bytes,
    prefix: MessagePrefix,
    /// The number of missing bytes of a small message.
    rest: usize,
    large: Large,
}

/// A large message of a stream.
enum Large {
    None,
    /// It waits for its turn. Its prefix is complete; the last `prefix` bytes of that begin the part.
    Waits {
        turn: Pin<Box<dyn Future<Output = OwnedMutexGuard<()>> + Send>>,
        prefix: usize,
        length: usize,
    },
    Arrives {
        turn: OwnedMutexGuard<()>,
        bytes: Vec<u8>,
        length: usize,
        end: Instant,
        sleep: Pin<Box<Sleep>>,
    },
    /// Tonic has it; the turn ends when tonic asks for more.
    IsThere {
        _turn: OwnedMutexGuard<()>,
    },
}

impl<B> StreamBody<B> {
    /// The body of a stream with messages of at most `bytes_max` bytes.
    pub fn new(body: B, bytes_max: usize, turn: &StreamTurn) -> StreamBody<B> {
        let turn = Arc::clone(turn);
        let (part, prefix) = (Bytes::new(), MessagePrefix::default());
        StreamBody { body, turn, bytes_max, part, prefix, rest: 0, large: Large::None }
    }

    /// What tonic may have of the part now. Nothing is left of it, or a large message begins where it is cut.
    fn small(&mut self) -> Result<Bytes, Status> {
        let mut at = 0;
        while at < self.part.len() {
            if self.rest > 0 {
                let step = self.rest.min(self.part.len() - at);
                (self.rest, at) = (self.rest - step, at + step);
                continue;
            }
            let (step, complete) = self.prefix.take(&self.part[at..], self.bytes_max)?;
            match complete {
                Some((_, length)) if length > SMALL_BYTES => {
                    // Of the prefix, tonic has at most what came with an earlier part.
                    let turn = Box::pin(Arc::clone(&self.turn).lock_owned());
                    self.large = Large::Waits { turn, prefix: step, length };
                    break;
                }
                Some((_, length)) => self.rest = length,
                None => {}
            }
            at += step;
        }
        Ok(self.part.split_to(at))
    }

    /// Goes on with a large message. Returns it when it is there; `None` if more must arrive.
    fn large(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Status>> {
        if let Large::Waits { turn, prefix, length } = &mut self.large {
            let Poll::Ready(turn) = turn.as_mut().poll(context) else { return Poll::Pending };
            let length = *prefix + *length;
            let mut bytes = Vec::new();
            let prefix = self.part.split_to(*prefix);
            if let Err(status) = append(&mut bytes, &prefix, length, |_| Ok(())) {
                return Poll::Ready(Err(status));
            }
            let (end, sleep) = (Instant::now() + REQUEST_WAIT, Box::pin(tokio::time::sleep(PART_WAIT)));
            self.large = Large::Arrives { turn, bytes, length, end, sleep };
        }
        let Large::Arrives { bytes, length, end, sleep, .. } = &mut self.large else {
            return Poll::Ready(Ok(None));
        };
        if !self.part.is_empty() {
            let part = self.part.split_to(self.part.len().min(*length - bytes.len()));
            if let Err(status) = append(bytes, &part, *length, |_| Ok(())) {
                return Poll::Ready(Err(status));
            }
            sleep.as_mut().reset((*end).min(Instant::now() + PART_WAIT).into());
        }
        if bytes.len() < *length {
            let is_late = sleep.as_mut().poll(context).is_ready();
            return Poll::Ready(if is_late { Err(late()) } else { Ok(None) });
        }
        match std::mem::replace(&mut self.large, Large::None) {
            Large::Arrives { turn, bytes, .. } => {
                self.large = Large::IsThere { _turn: turn };
                Poll::Ready(Ok(Some(bytes.into())))
            }
            _ => Poll::Ready(Ok(None)),
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for StreamBody<B>
where
    B::Error: fmt::Display,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        if matches!(this.large, Large::IsThere { .. }) {
            this.large = Large::None;
        }
        loop {
            let ready = match this.large(context) {
                Poll::Ready(ready) => ready,
                Poll::Pending => return Poll::Pending,
            };
            let ready = match ready {
                Ok(None) if !this.part.is_empty() => this.small().map(Some),
                ready => ready,
            };
            match ready {
                Err(status) => return Poll::Ready(Some(Err(status))),
                Ok(Some(bytes)) if !bytes.is_empty() => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                // A large message begins.
                Ok(Some(_)) => continue,
                Ok(None) => {}
            }
            match Pin::new(&mut this.body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(part) => this.part = part,
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                Poll::Ready(Some(Err(error))) => {
                    let status = Status::cancelled(format!("the request ended early: {error}"));
                    return Poll::Ready(Some(Err(status)));
                }
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.part.is_empty()
            && matches!(self.large, Large::None | Large::IsThere { .. })
            && self.body.is_end_stream()
    }
}

/// The body of an answer, with something that is dropped when it has been sent or its client has gone.
pub struct Answer<T> {
    pub body: tonic::body::Body,
    pub _until_sent: T,
}

impl<T: Unpin> Body for Answer<T> {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::room::{REQUESTS_OF_CONNECTION_BYTES, Room, Who};
    use std::collections::VecDeque;
    use std::task::Waker;

    /// A body that has these parts. Then it ends, or is silent.
    struct Parts(VecDeque<Bytes>, bool);

    impl Parts {
        fn new(parts: &[&[u8]], is_silent: bool) -> Parts {
            Parts(parts.iter().map(|part| Bytes::copy_from_slice(part)).collect(), is_silent)
        }
    }

    impl Body for Parts {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            match self.0.pop_front() {
                None if self.1 => Poll::Pending,
                part => Poll::Ready(part.map(|part| Ok(Frame::data(part)))),
            }
        }
    }

    /// A message with its prefix.
    fn message(is_compressed: bool, bytes: &[u8]) -> Vec<u8> {
        [&[u8::from(is_compressed)][..], &(bytes.len() as u32).to_be_bytes(), bytes].concat()
    }

    fn room(max: usize) -> Arc<RoomOfConnection> {
        Arc::new(RoomOfConnection::new(&Arc::new(Room::new(max)), Who::User(1)))
    }

    fn run<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(tokio::task::unconstrained(future))
    }

    fn receive(parts: &[&[u8]], bytes_max: usize, room: &Arc<RoomOfConnection>) -> Result<Message, Status> {
        run(Message::receive(Parts::new(parts, false), bytes_max, room))
    }

    #[test]
    fn a_message_arrives_in_any_parts() {
        let room = room(0);
        let bytes: Vec<u8> = (0..100_000).map(|n| n as u8).collect();
        let whole = message(false, &bytes);
        for size in [1, 3, 7, 5000, whole.len()] {
            let parts: Vec<&[u8]> = whole.chunks(size).collect();
            let (received, charge) = receive(&parts, 1 << 20, &room).unwrap().expand().unwrap();
            assert_eq!(received, bytes, "{size}");
            drop(charge);
        }
        // In the second part is the whole message.
        assert_eq!(receive(&[&whole[..5], &whole[5..]], 1 << 20, &room).unwrap().bytes, bytes);
        assert!(receive(&[&message(false, b"")], 1 << 20, &room).unwrap().bytes.is_empty());
        let cases: [(&[&[u8]], &str); 4] = [
            (&[], "no message"),
            (&[&whole[..4]], "no message"),
            (&[&whole[..50]], "ends within"),
            (&[&whole, b"x"], "more than one message"),
        ];
        for (parts, words) in cases {
            let error = receive(parts, 1 << 20, &room).map(|_| ()).unwrap_err();
            assert!(error.message().contains(words), "{error}");
        }
        // The announced length is checked before the message arrives.
        let error = run(Message::receive(Parts::new(&[&[0, 0x40], &[0, 0, 0]], true), 1 << 20, &room));
        let error = error.map(|_| ()).unwrap_err();
        assert_eq!(error.code(), tonic::Code::ResourceExhausted);
    }

    #[test]
    fn what_is_announced_needs_no_room_and_what_arrives_does() {
        let room = room(0);
        let announced = [0, 0x0f, 0, 0, 0];
        let context = &mut Context::from_waker(Waker::noop());
        run(async {
            let half = |bytes: usize| {
                let parts = [&announced[..], &vec![7; bytes]].concat();
                Box::pin(Message::receive(Parts::new(&[&parts[..5], &parts[5..]], true), 256 << 20, &room))
            };
            let mut halves: Vec<_> = (0..1000).map(|_| half(1000)).collect();
            for half in &mut halves {
                assert!(half.as_mut().poll(context).is_pending());
            }
            let mut third = half(REQUESTS_OF_CONNECTION_BYTES / 3 * 2);
            assert!(third.as_mut().poll(context).is_pending());
            let refused = half(REQUESTS_OF_CONNECTION_BYTES / 3 * 2).await.map(|_| ()).unwrap_err();
            assert!(refused.message().contains("no room"), "{refused}");
            drop(third);
            assert!(half(REQUESTS_OF_CONNECTION_BYTES / 3 * 2).as_mut().poll(context).is_pending());
            // The rest does not arrive in time.
            let late = halves.pop().unwrap().await.map(|_| ()).unwrap_err();
            assert_eq!(late.code(), tonic::Code::DeadlineExceeded);
        });
    }

    #[test]
    fn a_compressed_message_expands_within_its_limit_and_its_room() {
        let gzip = |bytes: &[u8]| {
            let mut compressed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            std::io::Write::write_all(&mut compressed, bytes).unwrap();
            compressed.finish().unwrap()
        };
        let room = room(0);
        let expand = |compressed: &[u8], bytes_max| {
            let parts = message(true, compressed);
            receive(&[&parts], bytes_max, &room).unwrap().expand().map(|(bytes, _)| bytes)
        };
        for length in [0, 1000, SMALL_BYTES, 2 * SMALL_BYTES, 300_000] {
            let compressed = gzip(&vec![7; length]);
            assert_eq!(expand(&compressed, length.max(100)).unwrap(), vec![7; length]);
        }
        let compressed = gzip(&[7; 1000]);
        assert_eq!(expand(&compressed, 999).unwrap_err().code(), tonic::Code::ResourceExhausted);
        assert_eq!(expand(&compressed[..20], 1000).unwrap_err().code(), tonic::Code::InvalidArgument);
        let error = expand(&gzip(&vec![0; 2 * REQUESTS_OF_CONNECTION_BYTES]), 256 << 20).unwrap_err();
        assert!(error.message().contains("no room"), "{error}");
    }

    /// What tonic gets of a stream: the parts, and then whether it ends.
    fn parts_of<B: Body<Data = Bytes> + Unpin>(body: &mut StreamBody<B>) -> (Vec<Bytes>, bool)
    where
        B::Error: fmt::Display,
    {
        let mut parts = Vec::new();
        let context = &mut Context::from_waker(Waker::noop());
        loop {
            match Pin::new(&mut *body).poll_frame(context) {
                Poll::Ready(Some(frame)) => parts.push(frame.unwrap().into_data().unwrap()),
                Poll::Ready(None) => return (parts, true),
                Poll::Pending => return (parts, false),
            }
        }
    }

    #[test]
    fn large_messages_of_streams_come_as_a_whole_and_one_after_another() {
        let large = message(false, &[7; 100_000]);
        let all = [message(false, b"abc"), large.clone(), message(true, b""), large.clone()].concat();
        run(async {
            let turn = StreamTurn::default();
            for size in [1, 3, 8, 11, 5000, all.len()] {
                let parts: Vec<&[u8]> = all.chunks(size).collect();
                let mut body = StreamBody::new(Parts::new(&parts, false), 1 << 20, &turn);
                let (parts, is_over) = parts_of(&mut body);
                assert!(is_over && parts.concat() == all, "{size}");
                // At least the contents of a large message are together.
                assert_eq!(parts.iter().filter(|part| part.len() > 100_000).count(), 2, "{size}");
            }
            let half =
                |announced: &[u8]| StreamBody::new(Parts::new(&[announced, &[7; 50]], true), 1 << 20, &turn);
            let mut one = half(&large[..5]);
            assert_eq!(parts_of(&mut one), (Vec::new(), false));
            let mut other = StreamBody::new(Parts::new(&[&all], false), 1 << 20, &turn);
            assert_eq!(parts_of(&mut other), (vec![Bytes::copy_from_slice(&all[..8])], false));
            // Small messages do not wait.
            let small = message(false, b"x");
            assert!(parts_of(&mut StreamBody::new(Parts::new(&[&small], false), 1 << 20, &turn)).1);
            let late = std::future::poll_fn(|context| Pin::new(&mut one).poll_frame(context)).await;
            assert_eq!(late.unwrap().unwrap_err().code(), tonic::Code::DeadlineExceeded);
            drop(one);
            assert_eq!(parts_of(&mut other).0.concat(), all[8..]);
            let mut long = half(&[0, 0, 0x20, 0, 0]);
            let refused = std::future::poll_fn(|context| Pin::new(&mut long).poll_frame(context)).await;
            assert_eq!(refused.unwrap().unwrap_err().code(), tonic::Code::ResourceExhausted);
        });
    }

    #[test]
    fn messages_of_statuses_are_short() {
        let status = Status::with_details(tonic::Code::Aborted, "é".repeat(10_000), Bytes::from_static(b"x"));
        let short = shortened(status);
        assert_eq!((short.code(), short.details()), (tonic::Code::Aborted, &b"x"[..]));
        assert!(short.message().len() < STATUS_BYTES_MAX + 8 && short.message().starts_with("éé"));
    }
}
