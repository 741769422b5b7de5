//! gRPC over HTTP/2: messages as bytes, and the admission of requests.

use bytes::{BufMut, Bytes};
use http_body::{Body, Frame, SizeHint};
use std::fmt;
use std::future::Future;
use std::io::Read;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
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
        use bytes::Buf;
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

/// The highest ratio of the lengths of a message and of its compressed form: gzip needs at least 2 bits for 258 bytes. The memory of a
/// compressed message is reserved before it arrives, when only its compressed length is known.
const EXPANSION_MAX: usize = 258 * 8 / 2;

/// The memory that a compressed message may take, expanded.
pub fn expanded_bytes_max(bytes: usize, bytes_max: usize) -> usize {
    (EXPANSION_MAX * bytes).min(bytes_max)
}

/// Expands a message that was compressed with gzip.
///
/// # Errors
/// It is no such message, or has more than `bytes_max` bytes.
pub fn expand(compressed: &[u8], bytes_max: usize) -> Result<Bytes, Status> {
    let mut message = Vec::new();
    let mut reader = flate2::read::GzDecoder::new(compressed).take(bytes_max as u64 + 1);
    reader
        .read_to_end(&mut message)
        .map_err(|error| Status::invalid_argument(format!("the request cannot be expanded: {error}")))?;
    if message.len() > bytes_max {
        let text = format!("the request expands to more than {bytes_max} bytes, which is the limit");
        return Err(Status::resource_exhausted(text));
    }
    Ok(message.into())
}

/// Requests of at most this many bytes need no permit.
pub const SMALL_BYTES: usize = 16 << 10;
/// Bytes per permit of larger ones.
const PERMIT_BYTES: usize = 4 << 10;

/// The memory for large requests of all clients, and its number of permits.
#[derive(Clone)]
pub struct Budget(Arc<Semaphore>, usize);

impl Budget {
    /// A budget of this many bytes.
    pub fn new(bytes: usize) -> Budget {
        let permits = bytes / PERMIT_BYTES;
        Budget(Arc::new(Semaphore::new(permits)), permits)
    }

    /// Reserves room for a request until it is finished.
    ///
    /// # Errors
    /// There is no room.
    pub fn hold(&self, bytes: usize) -> Result<Option<OwnedSemaphorePermit>, Status> {
        if bytes <= SMALL_BYTES {
            return Ok(None);
        }
        let none = || Status::resource_exhausted("no room for a large request while others run; try again");
        self.take(bytes).map(Some).ok_or_else(none)
    }

    /// Waits for room; more than the whole budget counts as the whole.
    pub async fn wait(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let permits = u32::try_from(bytes.div_ceil(PERMIT_BYTES).min(self.1)).ok()?;
        Arc::clone(&self.0).acquire_many_owned(permits).await.ok()
    }

    fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let permits = u32::try_from(bytes.div_ceil(PERMIT_BYTES)).ok()?;
        Arc::clone(&self.0).try_acquire_many_owned(permits).ok()
    }
}

/// Maximum time between two parts of a request that is not a stream, and for the whole request.
pub const PART_WAIT: Duration = Duration::from_secs(30);
const REQUEST_WAIT: Duration = Duration::from_secs(300);

/// The body of a request. It checks the announced length of a message before memory is reserved for it, and ends the request
/// if the rest does not arrive in time.
pub struct Admitted<B> {
    body: B,
    budget: Budget,
    /// The received part of the present message's prefix.
    prefix: [u8; PREFIX_BYTES],
    prefix_len: usize,
    /// The number of missing bytes of the present message.
    rest: usize,
    bytes_max: usize,
    permit: Option<OwnedSemaphorePermit>,
    /// `None` for streams, which may be silent.
    wait: Option<(Instant, Pin<Box<Sleep>>)>,
    /// The method expands its only message itself.
    unexpanded: Option<Unexpanded>,
}

/// Whether the message of a request is compressed, for a method that expands it itself. Until the message begins it is not.
pub type Unexpanded = Arc<AtomicBool>;

impl<B> Admitted<B> {
    /// The body of a request with messages of at most `bytes_max` bytes.
    pub fn new(
        body: B,
        budget: Budget,
        bytes_max: usize,
        is_stream: bool,
        unexpanded: Option<Unexpanded>,
    ) -> Admitted<B> {
        let wait = (!is_stream).then(|| (Instant::now(), Box::pin(tokio::time::sleep(PART_WAIT))));
        Admitted {
            body,
            budget,
            prefix: [0; PREFIX_BYTES],
            prefix_len: 0,
            rest: 0,
            bytes_max,
            permit: None,
            wait,
            unexpanded,
        }
    }

    /// Takes the mark of compression from the first part of the only message, so that it is not expanded at once.
    fn unmark(&mut self, frame: Frame<Bytes>) -> Frame<Bytes> {
        match frame.into_data() {
            Ok(part) if part.first() == Some(&1) => {
                let Some(unexpanded) = self.unexpanded.take() else { return Frame::data(part) };
                unexpanded.store(true, Ordering::Relaxed);
                Frame::data([&[0][..], &part[1..]].concat().into())
            }
            Ok(part) => {
                if !part.is_empty() {
                    self.unexpanded = None;
                }
                Frame::data(part)
            }
            Err(frame) => frame,
        }
    }

    /// Follows the messages in a part of the body.
    fn follow(&mut self, mut part: &[u8]) -> Result<(), Status> {
        while !part.is_empty() {
            if self.rest > 0 {
                let step = self.rest.min(part.len());
                self.rest -= step;
                part = &part[step..];
                continue;
            }
            let step = (PREFIX_BYTES - self.prefix_len).min(part.len());
            self.prefix[self.prefix_len..][..step].copy_from_slice(&part[..step]);
            self.prefix_len += step;
            part = &part[step..];
            if self.prefix_len < PREFIX_BYTES {
                break;
            }
            self.prefix_len = 0;
            let [is_compressed, length @ ..] = self.prefix;
            self.announced(u32::from_be_bytes(length) as usize, is_compressed != 0)?;
        }
        Ok(())
    }

    fn announced(&mut self, bytes: usize, is_compressed: bool) -> Result<(), Status> {
        if bytes > self.bytes_max {
            let text = format!("the message has {bytes} bytes, the limit is {}", self.bytes_max);
            return Err(Status::resource_exhausted(text));
        }
        self.permit = None;
        let memory = if is_compressed { expanded_bytes_max(bytes, self.bytes_max) } else { bytes };
        if memory > SMALL_BYTES {
            let permit = self.budget.take(memory);
            let none =
                || Status::resource_exhausted("no room for a large request: others are being received");
            self.permit = Some(permit.ok_or_else(none)?);
        }
        self.rest = bytes;
        Ok(())
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Admitted<B>
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
        match Pin::new(&mut this.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some((begun, sleep)) = &mut this.wait {
                    let until = (*begun + REQUEST_WAIT).min(Instant::now() + PART_WAIT);
                    sleep.as_mut().reset(until.into());
                }
                let followed = frame.data_ref().map_or(Ok(()), |part| this.follow(part));
                Poll::Ready(Some(followed.map(|()| this.unmark(frame))))
            }
            Poll::Ready(Some(Err(error))) => {
                Poll::Ready(Some(Err(Status::cancelled(format!("the request ended early: {error}")))))
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => match &mut this.wait {
                Some((_, sleep)) => sleep.as_mut().poll(context).map(|()| {
                    Some(Err(Status::deadline_exceeded("the rest of the request did not arrive in time")))
                }),
                None => Poll::Pending,
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
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

    fn admitted(budget: &Budget) -> Admitted<()> {
        Admitted {
            body: (),
            budget: budget.clone(),
            prefix: [0; PREFIX_BYTES],
            prefix_len: 0,
            rest: 0,
            bytes_max: 1 << 20,
            permit: None,
            wait: None,
            unexpanded: None,
        }
    }

    #[test]
    fn announced_lengths_are_checked_before_the_message_arrives() {
        let budget = Budget::new(1 << 20);
        let mut body = admitted(&budget);
        // Byte by byte, two messages.
        for byte in [0, 0, 0, 0, 2, 7, 7, 0, 0, 0, 0, 0, 0] {
            body.follow(&[byte]).unwrap();
        }
        assert_eq!((body.prefix_len, body.rest), (1, 0));
        let error = body.follow(&[0x40, 0, 0, 0]).unwrap_err();
        assert_eq!(error.code(), tonic::Code::ResourceExhausted);
    }

    #[test]
    fn a_compressed_message_reserves_what_it_may_expand_to() {
        let budget = Budget::new(1 << 20);
        let mut one = admitted(&budget);
        // 15 bytes need no permit, 1,000 need nearly all.
        one.follow(&[1, 0, 0, 0, 15]).unwrap();
        assert!(one.permit.is_none());
        one.follow(&[0; 15]).unwrap();
        one.follow(&[1, 0, 0, 3, 0xe8]).unwrap();
        let error = admitted(&budget).follow(&[1, 0, 0, 0, 100]).unwrap_err();
        assert!(error.message().contains("no room"), "{error}");
        drop(one);
        admitted(&budget).follow(&[1, 0, 0, 0, 100]).unwrap();
    }

    #[test]
    fn a_compressed_message_expands_within_its_limit() {
        let mut compressed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut compressed, &[7; 1000]).unwrap();
        let compressed = compressed.finish().unwrap();
        assert_eq!(expand(&compressed, 1000).unwrap(), vec![7; 1000]);
        assert_eq!(expand(&compressed, 999).unwrap_err().code(), tonic::Code::ResourceExhausted);
        assert_eq!(expand(&compressed[..20], 1000).unwrap_err().code(), tonic::Code::InvalidArgument);
    }

    #[test]
    fn only_the_first_byte_marks_a_compressed_message() {
        let unexpanded = Unexpanded::default();
        let mut body =
            Admitted { unexpanded: Some(Arc::clone(&unexpanded)), ..admitted(&Budget::new(1 << 20)) };
        let unmarked = |body: &mut Admitted<()>, part: &'static [u8]| {
            body.unmark(Frame::data(Bytes::from_static(part))).into_data().unwrap()
        };
        assert_eq!(unmarked(&mut body, b""), b""[..]);
        assert_eq!(unmarked(&mut body, b"\x01\0\0"), b"\0\0\0"[..]);
        assert_eq!(unmarked(&mut body, b"\x01\x01"), b"\x01\x01"[..]);
        assert!(unexpanded.load(Ordering::Relaxed));
    }

    #[test]
    fn messages_of_statuses_are_short() {
        let status = Status::with_details(tonic::Code::Aborted, "é".repeat(10_000), Bytes::from_static(b"x"));
        let short = shortened(status);
        assert_eq!((short.code(), short.details()), (tonic::Code::Aborted, &b"x"[..]));
        assert!(short.message().len() < STATUS_BYTES_MAX + 8 && short.message().starts_with("éé"));
    }

    #[test]
    fn large_requests_share_a_budget() {
        let budget = Budget::new(1 << 20);
        let (mut one, mut two) = (admitted(&budget), admitted(&budget));
        one.follow(&[0, 0, 0x0c, 0, 0]).unwrap();
        let error = two.follow(&[0, 0, 0x0c, 0, 0]).unwrap_err();
        assert!(error.message().contains("no room"), "{error}");
        drop(one);
        let mut three = admitted(&budget);
        three.follow(&[0, 0, 0x0c, 0, 0]).unwrap();
        // A small request needs no permit.
        admitted(&budget).follow(&[0, 0, 0, 0x40, 0]).unwrap();
    }
}
