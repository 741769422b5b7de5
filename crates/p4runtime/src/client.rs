//! A small P4Runtime client: for tests and measurements.

use crate::server::Raw;
use bytes::Bytes;
use http::uri::PathAndQuery;
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use p4jet_p4info::proto::{google, v1};
use prost::Message;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{mpsc, oneshot};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_stream::StreamExt;
use tonic::body::Body;
use tonic::codec::CompressionEncoding;
use tonic::{Request, Status, Streaming};

/// A connection in the form required by tonic.
#[derive(Clone)]
struct Channel(http2::SendRequest<Body>);

impl tower_service::Service<http::Request<Body>> for Channel {
    type Response = http::Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}

/// A connection to a server. Its methods block.
pub struct Client {
    handle: Handle,
    channel: Channel,
    compresses: bool,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// A stream of a client.
pub struct Stream {
    handle: Handle,
    to_server: Option<mpsc::Sender<Bytes>>,
    from_server: Streaming<Bytes>,
}

/// The stream of messages to the server.
struct Sent(mpsc::Receiver<Bytes>);

impl tokio_stream::Stream for Sent {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.0.poll_recv(context)
    }
}

/// The body of a request whose message is sent in parts.
struct Parts(mpsc::Receiver<Bytes>);

impl http_body::Body for Parts {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Status>>> {
        self.0.poll_recv(context).map(|part| part.map(|part| Ok(http_body::Frame::data(part))))
    }
}

/// A call whose message has been sent in part.
pub struct Begun {
    handle: Handle,
    rest: Bytes,
    to_server: mpsc::Sender<Bytes>,
    answer: Pin<Box<dyn Future<Output = Result<http::Response<Incoming>, hyper::Error>> + Send>>,
}

impl Begun {
    /// Sends the rest of the message and waits for the answer.
    ///
    /// # Errors
    /// The status of the method.
    pub fn finish(self) -> Result<(), Status> {
        self.answer(true)
    }

    /// Waits for the answer without sending the rest of the message.
    ///
    /// # Errors
    /// The status of the method.
    pub fn give_up(self) -> Result<(), Status> {
        self.answer(false)
    }

    fn answer(self, is_finished: bool) -> Result<(), Status> {
        let failed = |error: &dyn std::fmt::Display| Status::unavailable(error.to_string());
        let Begun { handle, rest, to_server, answer } = self;
        let calling = async move {
            let mut to_server = Some(to_server);
            if is_finished && let Some(to_server) = to_server.take() {
                to_server.send(rest).await.map_err(|error| failed(&error))?;
            }
            let (head, mut body) = answer.await.map_err(|error| failed(&error))?.into_parts();
            let mut status = Status::from_header_map(&head.headers);
            while let Some(frame) =
                std::future::poll_fn(|context| http_body::Body::poll_frame(Pin::new(&mut body), context))
                    .await
            {
                let frame = frame.map_err(|error| failed(&error))?;
                status = frame.trailers_ref().and_then(Status::from_header_map).or(status);
            }
            match status {
                Some(status) if status.code() != tonic::Code::Ok => Err(status),
                Some(_) => Ok(()),
                None => Err(Status::internal("an answer without a status")),
            }
        };
        handle.block_on(async {
            let waited = tokio::time::timeout(WAIT, calling).await;
            waited.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer")))
        })
    }
}

/// Maximum time for which a client waits for an answer.
const WAIT: Duration = Duration::from_secs(60);

impl Client {
    /// Connects in plain text.
    ///
    /// # Errors
    /// No HTTP/2 server listens there.
    pub fn connect(address: SocketAddr) -> io::Result<Client> {
        Self::connect_with(address, None)
    }

    /// Connects with TLS.
    ///
    /// # Errors
    /// No server listens there, or one side refuses the certificates of the other.
    pub fn connect_tls(address: SocketAddr, config: Arc<ClientConfig>) -> io::Result<Client> {
        Self::connect_with(address, Some(config))
    }

    fn connect_with(address: SocketAddr, tls: Option<Arc<ClientConfig>>) -> io::Result<Client> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = p4jet_threads::spawn("p4runtime client", move || {
            let _ = runtime.block_on(stopped);
        })?;
        let connecting = async {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            match tls {
                None => shake_hands(stream).await,
                Some(config) => {
                    let name = ServerName::IpAddress(address.ip().into());
                    shake_hands(TlsConnector::from(config).connect(name, stream).await?).await
                }
            }
        };
        let channel = handle.block_on(async { tokio::time::timeout(WAIT, connecting).await });
        let channel = channel.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
        Ok(Client { handle, channel, compresses: false, stop: Some(stop), thread: Some(thread) })
    }

    fn grpc(&self) -> tonic::client::Grpc<Channel> {
        let origin = http::Uri::from_static("http://localhost");
        let grpc = tonic::client::Grpc::with_origin(self.channel.clone(), origin);
        let grpc = grpc.max_decoding_message_size(usize::MAX);
        if self.compresses { grpc.send_compressed(CompressionEncoding::Gzip) } else { grpc }
    }

    /// From now on, messages are compressed.
    pub fn compress(&mut self) {
        self.compresses = true;
    }

    /// Calls a method of P4Runtime, or of another service by its path, with a message in binary form, and returns the answers.
    ///
    /// # Errors
    /// The status of the method.
    pub fn call(&self, method: &str, message: Bytes) -> Result<Vec<Bytes>, Status> {
        let mut grpc = self.grpc();
        let calling = async move {
            grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
            let answer = grpc.server_streaming(Request::new(message), path(method), Raw).await?;
            let mut answers = Vec::new();
            let mut stream = answer.into_inner();
            while let Some(answer) = stream.next().await {
                answers.push(answer?);
            }
            Ok(answers)
        };
        self.handle.block_on(async {
            let waited = tokio::time::timeout(WAIT, calling).await;
            waited.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer")))
        })
    }

    /// Calls a method as [`call`](Self::call) does, and returns the first answer of a stream that may not end.
    ///
    /// # Errors
    /// The status of the method, or there is no answer.
    pub fn first(&self, method: &str, message: Bytes) -> Result<Bytes, Status> {
        let mut grpc = self.grpc();
        let calling = async move {
            grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
            let mut answers =
                grpc.server_streaming(Request::new(message), path(method), Raw).await?.into_inner();
            answers.next().await.unwrap_or_else(|| Err(Status::internal("no answer")))
        };
        self.handle.block_on(async {
            let waited = tokio::time::timeout(WAIT, calling).await;
            waited.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer")))
        })
    }

    /// Calls a method with each of the messages, and ignores the answers. At most `in_flight` calls are unanswered at a time.
    ///
    /// # Errors
    /// The status of a call that failed. Later messages may not have been sent.
    pub fn call_each(
        &self,
        method: &'static str,
        messages: impl Iterator<Item = Bytes> + Send + 'static,
        in_flight: usize,
    ) -> Result<(), Status> {
        let messages = Arc::new(Mutex::new(messages));
        let callers = (0..in_flight).map(|_| {
            let (messages, mut grpc) = (Arc::clone(&messages), self.grpc());
            self.handle.spawn(async move {
                let next = || messages.lock().unwrap_or_else(PoisonError::into_inner).next();
                while let Some(message) = next() {
                    grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
                    let answer = grpc.unary(Request::new(message), path(method), Raw);
                    let waited = tokio::time::timeout(WAIT, answer).await;
                    waited.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer")))?;
                }
                Ok(())
            })
        });
        let callers: Vec<_> = callers.collect();
        self.handle.block_on(async {
            for caller in callers {
                caller.await.unwrap_or_else(|error| Err(Status::internal(error.to_string())))?;
            }
            Ok(())
        })
    }

    /// Calls a method with all messages in their order, without waiting for answers in between. Returns the result of each.
    pub fn call_at_once(&self, method: &'static str, messages: Vec<Bytes>) -> Vec<Result<(), Status>> {
        // The client's thread begins them in this order.
        let calls = messages.into_iter().map(|message| {
            let mut grpc = self.grpc();
            self.handle.spawn(async move {
                grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
                let answer = grpc.unary(Request::new(message), path(method), Raw);
                let waited = tokio::time::timeout(WAIT, answer).await;
                waited.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer"))).map(drop)
            })
        });
        let calls: Vec<_> = calls.collect();
        let lost = || Err(Status::internal("the call was lost"));
        calls.into_iter().map(|call| self.handle.block_on(call).unwrap_or_else(|_| lost())).collect()
    }

    /// Begins a call of a method with one message, of which all but the last byte is sent. The server has `time` for the call.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn begin(&self, method: &str, message: &[u8], time: Option<Duration>) -> Result<Begun, Status> {
        let length = u32::try_from(message.len()).map_err(|error| Status::internal(error.to_string()))?;
        let mut part = [&[0], &length.to_be_bytes()[..], message].concat();
        let rest = Bytes::from(part.split_off(part.len() - 1));
        let (to_server, parts) = mpsc::channel(1);
        let mut request = http::Request::post(http::Uri::from(path(method)))
            .header(http::header::CONTENT_TYPE, "application/grpc");
        if let Some(time) = time {
            request = request.header("grpc-timeout", format!("{}m", time.as_millis()));
        }
        let request =
            request.body(Body::new(Parts(parts))).map_err(|error| Status::internal(error.to_string()))?;
        let mut channel = self.channel.0.clone();
        let answer = self.handle.block_on(async {
            channel.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
            to_server.send(Bytes::from(part)).await.map_err(|error| Status::internal(error.to_string()))?;
            Ok::<_, Status>(Box::pin(channel.send_request(request)))
        })?;
        Ok(Begun { handle: self.handle.clone(), rest, to_server, answer })
    }

    fn call_for<T: Message + Default>(&self, method: &str, message: &impl Message) -> Result<T, Status> {
        let answers = self.call(method, message.encode_to_vec().into())?;
        let answer = answers.into_iter().next().ok_or_else(|| Status::internal("no answer"))?;
        T::decode(answer).map_err(|error| Status::internal(error.to_string()))
    }

    /// Write.
    ///
    /// # Errors
    /// The status.
    pub fn write(&self, request: &v1::WriteRequest) -> Result<(), Status> {
        self.call_for::<v1::WriteResponse>("Write", request).map(drop)
    }

    /// Read: the entities of all answers.
    ///
    /// # Errors
    /// The status.
    pub fn read(&self, request: &v1::ReadRequest) -> Result<Vec<v1::Entity>, Status> {
        let mut entities = Vec::new();
        for answer in self.call("Read", request.encode_to_vec().into())? {
            let answer =
                v1::ReadResponse::decode(answer).map_err(|error| Status::internal(error.to_string()))?;
            entities.extend(answer.entities);
        }
        Ok(entities)
    }

    /// SetForwardingPipelineConfig.
    ///
    /// # Errors
    /// The status.
    pub fn set_pipeline(&self, request: &v1::SetForwardingPipelineConfigRequest) -> Result<(), Status> {
        self.call_for::<v1::SetForwardingPipelineConfigResponse>("SetForwardingPipelineConfig", request)
            .map(drop)
    }

    /// GetForwardingPipelineConfig.
    ///
    /// # Errors
    /// The status.
    pub fn get_pipeline(
        &self,
        request: &v1::GetForwardingPipelineConfigRequest,
    ) -> Result<Option<v1::ForwardingPipelineConfig>, Status> {
        let answer: v1::GetForwardingPipelineConfigResponse =
            self.call_for("GetForwardingPipelineConfig", request)?;
        Ok(answer.config)
    }

    /// Capabilities.
    ///
    /// # Errors
    /// The status.
    pub fn capabilities(&self, device_id: u64) -> Result<v1::CapabilitiesResponse, Status> {
        self.call_for("Capabilities", &v1::CapabilitiesRequest { device_id })
    }

    /// Opens a stream.
    ///
    /// # Errors
    /// The status.
    pub fn stream(&self) -> Result<Stream, Status> {
        self.stream_of("StreamChannel")
    }

    /// Opens a stream of another method, whose messages are sent and received in binary form.
    ///
    /// # Errors
    /// The status.
    pub fn stream_of(&self, method: &str) -> Result<Stream, Status> {
        let (to_server, sent) = mpsc::channel(64);
        let mut grpc = self.grpc();
        let opening = async move {
            grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
            grpc.streaming(Request::new(Sent(sent)), path(method), Raw).await
        };
        let answer = self.handle.block_on(async { tokio::time::timeout(WAIT, opening).await });
        let answer = answer.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer")))?;
        let from_server = answer.into_inner();
        Ok(Stream { handle: self.handle.clone(), to_server: Some(to_server), from_server })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn shake_hands(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> io::Result<Channel> {
    let made = http2::Builder::new(TokioExecutor::new()).handshake(TokioIo::new(stream)).await;
    let (channel, connection) = made.map_err(io::Error::other)?;
    tokio::spawn(connection);
    Ok(Channel(channel))
}

fn path(method: &str) -> PathAndQuery {
    let path =
        if method.starts_with('/') { method.to_string() } else { format!("/p4.v1.P4Runtime/{method}") };
    PathAndQuery::try_from(path).unwrap_or_else(|_| PathAndQuery::from_static("/"))
}

impl Stream {
    /// Sends a message.
    ///
    /// # Errors
    /// The stream has ended.
    pub fn send(&self, update: v1::StreamRequest) -> Result<(), Status> {
        self.send_raw(v1::StreamMessageRequest { update: Some(update) }.encode_to_vec().into())
    }

    /// Sends a message in binary form.
    ///
    /// # Errors
    /// The stream has ended.
    pub fn send_raw(&self, message: Bytes) -> Result<(), Status> {
        let gone = || Status::unavailable("the stream has ended");
        let to_server = self.to_server.as_ref().ok_or_else(gone)?;
        self.handle.block_on(to_server.send(message)).map_err(|_| gone())
    }

    /// Closes this side of the stream.
    pub fn half_close(&mut self) {
        self.to_server = None;
    }

    /// Returns the next message; `None` if the stream has ended. Waits at most this long; after that the status is
    /// DEADLINE_EXCEEDED.
    ///
    /// # Errors
    /// The status with which the stream ended.
    pub fn next(&mut self, wait: Duration) -> Result<Option<v1::StreamResponse>, Status> {
        let Some(message) = self.next_raw(wait)? else { return Ok(None) };
        let message = v1::StreamMessageResponse::decode(message);
        Ok(message.map_err(|error| Status::internal(error.to_string()))?.update)
    }

    /// Returns the next message as [`next`](Self::next) does, in binary form.
    ///
    /// # Errors
    /// The status with which the stream ended.
    pub fn next_raw(&mut self, wait: Duration) -> Result<Option<Bytes>, Status> {
        let from_server = &mut self.from_server;
        let next = self.handle.block_on(async { tokio::time::timeout(wait, from_server.next()).await });
        next.map_err(|_| Status::deadline_exceeded("no message"))?.transpose()
    }

    /// Returns the number of messages that arrive within this time, without decoding them.
    ///
    /// # Errors
    /// The status with which the stream ended.
    pub fn count_for(&mut self, time: Duration) -> Result<u64, Status> {
        let (from_server, mut count) = (&mut self.from_server, 0);
        self.handle.block_on(async {
            let counting = async {
                while let Some(message) = from_server.next().await {
                    message?;
                    count += 1;
                }
                Err(Status::unavailable("the stream has ended"))
            };
            tokio::time::timeout(time, counting).await.unwrap_or(Ok(()))
        })?;
        Ok(count)
    }

    /// Sends an arbitration update and returns the answer's election id and status code.
    ///
    /// # Errors
    /// The status with which the stream ended.
    pub fn arbitrate(
        &mut self,
        device_id: u64,
        role: Option<v1::Role>,
        election_id: Option<u128>,
    ) -> Result<v1::MasterArbitrationUpdate, Status> {
        let election_id = election_id.map(|id| v1::Uint128 { high: (id >> 64) as u64, low: id as u64 });
        let update = v1::MasterArbitrationUpdate { device_id, role, election_id, status: None };
        // If the stream has ended, its status is more specific.
        let _ = self.send(v1::StreamRequest::Arbitration(update));
        self.arbitration()
    }

    /// The next arbitration notification.
    ///
    /// # Errors
    /// The status with which the stream ended, or another kind of message arrived.
    pub fn arbitration(&mut self) -> Result<v1::MasterArbitrationUpdate, Status> {
        match self.next(WAIT)? {
            Some(v1::StreamResponse::Arbitration(update)) => Ok(update),
            other => Err(Status::internal(format!("expected an arbitration notification, found {other:?}"))),
        }
    }
}

/// The errors in the details of a status, one for each update or request.
pub fn errors(status: &Status) -> Vec<v1::Error> {
    let details = google::Status::decode(status.details()).unwrap_or_default();
    details.details.into_iter().map(|any| v1::Error::decode(any.value).unwrap_or_default()).collect()
}
