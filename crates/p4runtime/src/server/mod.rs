//! The P4Runtime server: gRPC on separate threads. The packet path does not know it.
//!
//! * `greeting`: the first bytes of a connection.
//! * `grpc`: messages as bytes over HTTP/2, as they arrive. `room`: the memory for them.
//! * `device`: the clients' roles, the pipeline configuration, and the changes. `queue`: the order of changes.
//! * `streams`: messages from clients on their streams. `outbox`: messages that wait for them.
//! * `in_process`: a server without sockets.
//! * `packets`: packets to and from controllers. `events`: digests, and entries that have been idle.
//! * `reflection`: descriptors of the services and messages.
//!
//! Everything that clients can fill is bounded (docs/limits.md).

mod device;
mod events;
mod greeting;
mod grpc;
mod headers;
mod in_process;
mod outbox;
mod packets;
mod queue;
mod reflection;
mod roles;
mod room;
mod streams;
mod tls;

use crate::session::Rules;
use crate::wire;
use bytes::Bytes;
use device::Device;
use greeting::{Greeted, greet};
pub use grpc::Raw;
use grpc::{Budget, DuplexMethod, Method, Received, StreamBody, StreamMethod, StreamTurn};
use http::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
pub use in_process::InProcess;
use p4jet_control::{MemoryClaim, SharedControl};
use p4jet_p4info::proto::grpc::{HealthCheckResponse, ServingStatus};
use p4jet_p4info::proto::v1;
use p4jet_ports::{FromSwitch, ToSwitch};
use prost::Message;
pub use room::Who;
use room::{Charge, REQUESTS_BYTES_MAX, Room, RoomOfConnection, SMALL_BYTES};
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::AbortHandle;
use tonic::Status;
use tonic::body::Body;
use tonic::codec::CompressionEncoding;

/// The version of P4Runtime that the server offers.
pub const API_VERSION: &str = "1.5.0";

/// Maximum number of connected clients. A further one takes the place of the one that has been without requests and streams for
/// the longest time.
pub const CONNECTIONS_MAX: usize = 64;
/// Maximum number of simultaneous requests and streams of a client.
pub const CALLS_MAX: u32 = 256;
/// Maximum size of a request in bytes.
pub const MESSAGE_BYTES_MAX: usize = 256 << 20;
/// Maximum size of a message on a stream, and of a request other than Write and SetForwardingPipelineConfig.
pub const SMALL_MESSAGE_BYTES_MAX: usize = 4 << 20;
/// Maximum number of connections that have not greeted, with TLS and HTTP/2. A further one takes the place of the oldest.
pub const SILENT_MAX: usize = 64;
/// Maximum number of Reads of a client that are in progress, or whose answers it has not read.
pub const READS_OF_CLIENT_MAX: usize = 8;
/// Maximum number of simultaneous Reads.
pub const READS_MAX: usize = 64;
/// Memory that a Read may take: a piece of its entities, and the answers made of them.
const READ_BYTES: usize = 16 << 20;
/// Memory for each byte of its request.
const READ_BYTES_PER_BYTE: usize = 16;
/// Number of threads for requests that wait for a batch, besides Reads.
const OTHERS_MAX: usize = 4;
/// Writes of at most this many bytes are short: they are answered together with others, and decoded in their turn.
const SHORT_BYTES: usize = 4 << 10;
/// Answers of a Read that wait for its client.
const PAGES_MAX: usize = 2;
/// Maximum time that a Read waits for a client that does not read its answers.
const READ_WAIT: Duration = Duration::from_secs(30);
/// Maximum time that a Read waits for such a client while another Read waits for its turn.
const READ_WAIT_SHORT: Duration = Duration::from_secs(1);
/// Intervals at which such a Read checks for room: an eighth of the time waited so far, within these limits.
const ROOM_LOOK_MIN: Duration = Duration::from_micros(200);
const ROOM_LOOK_MAX: Duration = Duration::from_millis(20);
/// Maximum time that a Read waits for its turn. All clients together may have 8 Reads for each turn, so this exceeds 8 short
/// waits.
const TURN_WAIT: Duration = Duration::from_secs(10);
/// Maximum time until a new connection speaks HTTP/2.
const GREETING_WAIT: Duration = Duration::from_secs(10);
/// Interval of HTTP/2 pings to an idle client, and the maximum time for its answer.
const PING: Duration = Duration::from_secs(10);
/// Maximum number of unread bytes of a client's requests: of one request, and of all.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;
/// Bytes of an answer that wait for its client within HTTP/2.
const SEND_BUFFER: usize = 256 << 10;
/// Bytes of the headers of a request.
const HEADERS_MAX: u32 = 16 << 10;

/// The header with the encoding of a request's messages.
const ENCODING: &str = "grpc-encoding";
/// The method of the reflection service, and its path in older clients.
const REFLECTION: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
const REFLECTION_ALPHA: &str = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

/// The files of a server that speaks TLS.
#[derive(Clone, Debug)]
pub struct Tls {
    /// Its certificates, in PEM.
    pub certificate: PathBuf,
    /// Its private key, in PEM.
    pub key: PathBuf,
    /// The authorities of clients' certificates, in PEM. If set, clients need one.
    pub client_authorities: Option<PathBuf>,
}

/// See [`Options::admit`].
pub type Admit = Arc<dyn Fn(SocketAddr, SocketAddr) -> Result<Who, String> + Send + Sync>;

/// The options of a server.
pub struct Options {
    /// Where it listens.
    pub address: SocketAddr,
    /// The rules of arbitration and the device id.
    pub rules: Rules,
    /// False if the switch started without a program.
    pub has_program: bool,
    /// TLS instead of plain text.
    pub tls: Option<Tls>,
    /// Tells who opened a connection, or refuses it, given the client's address and ours; the error is for the client.
    pub admit: Admit,
    /// The other end of the CPU port.
    pub cpu: Option<(FromSwitch, ToSwitch)>,
    /// Where lines for the log go.
    pub log: Arc<dyn Fn(String) + Send + Sync>,
}

/// A running server; dropping it ends it.
pub struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    ended: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    /// Starts to serve a switch.
    ///
    /// # Errors
    /// The address is in use, TLS lacks its files, or the system refuses a thread.
    pub fn start(switch: SharedControl, options: Options) -> io::Result<Server> {
        let Options { address, rules, has_program, tls, admit, cpu, log } = options;
        let tls = tls.map(|files| tls::acceptor(&files)).transpose()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(READS_MAX + OTHERS_MAX)
            .thread_name("p4runtime read")
            .build()?;
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (device, answers) = Device::new(switch, rules, has_program, Arc::clone(&log))?;
        let device = Arc::new(device);
        runtime.spawn(answers.give());
        let ended = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        let mut to_switch = None;
        if let Some((from, to)) = cpu {
            let (device, ended) = (Arc::downgrade(&device), Arc::clone(&ended));
            let thread =
                p4jet_threads::spawn("p4runtime cpu", move || packets::bring(&device, from, &ended))?;
            threads.push(thread);
            to_switch = Some(Arc::new(Mutex::new(to)));
        }
        if let Some(events) = events::subscribe(&device) {
            let (device, ended) = (Arc::downgrade(&device), Arc::clone(&ended));
            let thread =
                p4jet_threads::spawn("p4runtime event", move || events::run(&device, events, &ended))?;
            threads.push(thread);
        }
        let shared = Arc::new(Shared {
            device,
            to_switch,
            room: Arc::new(Room::new(REQUESTS_BYTES_MAX)),
            decoded: Budget::new(device::DECODED_BYTES_MAX),
            reads: Reads::new(),
            verifying: Arc::default(),
            clients: Mutex::default(),
            refused: AtomicBool::new(false),
            admit,
            log,
        });
        let (stop, stopped) = oneshot::channel();
        let thread = p4jet_threads::spawn("p4runtime", move || {
            runtime.block_on(async {
                let Ok(listener) = TcpListener::from_std(listener) else { return };
                tokio::pin! {
                    let accepting = accept(listener, shared, tls);
                }
                let mut stopped = stopped;
                std::future::poll_fn(|context| {
                    let _ = accepting.as_mut().poll(context);
                    Pin::new(&mut stopped).poll(context).map(|_| ())
                })
                .await;
            });
            // Reads that wait for their clients end with the connections.
            runtime.shutdown_background();
        })?;
        threads.push(thread);
        Ok(Server { address, stop: Some(stop), ended, threads })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        drop(self.stop.take());
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Nanoseconds since 1970.
pub(crate) fn now_ns() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}

/// The state shared by all connections.
struct Shared {
    device: Arc<Device>,
    to_switch: Option<packets::ToSwitch>,
    /// Room for large requests.
    room: Arc<Room>,
    /// Room for long Writes that are decoded.
    decoded: Budget,
    reads: Reads,
    /// The pipeline configuration that is verified now.
    verifying: Arc<tokio::sync::Mutex<()>>,
    clients: Mutex<Clients>,
    /// True from the log line about a refused connection until a connection ends.
    refused: AtomicBool,
    admit: Admit,
    log: Arc<dyn Fn(String) + Send + Sync>,
}

/// The connected clients, by number in the order of their arrival.
#[derive(Default)]
struct Clients {
    next: u64,
    all: BTreeMap<u64, Client>,
}

/// A connected client.
struct Client {
    /// Requests and streams in progress.
    calls: usize,
    /// When the last of them ended, or else the beginning.
    idle_since: Instant,
    /// Ends the connection.
    end: Option<AbortHandle>,
}

impl Clients {
    /// Adds a client, if necessary in the place of the one that has been idle for the longest time. `None` if all are busy.
    fn add(&mut self) -> Option<u64> {
        if self.all.len() >= CONNECTIONS_MAX {
            let idle = self.all.iter().filter(|(_, client)| client.calls == 0);
            let oldest = *idle.min_by_key(|(_, client)| client.idle_since)?.0;
            if let Some(end) = self.all.remove(&oldest).and_then(|client| client.end) {
                end.abort();
            }
        }
        let number = self.next;
        self.next += 1;
        self.all.insert(number, Client { calls: 0, idle_since: Instant::now(), end: None });
        Some(number)
    }
}

/// A connection that is in the list of clients.
struct Connection {
    shared: Arc<Shared>,
    number: u64,
    /// Held by the request whose change goes into its line next.
    order: Arc<tokio::sync::Mutex<()>>,
    /// Room for its Reads.
    reads: Arc<Semaphore>,
    /// Why its user may not control the switch: the answer to all its requests.
    refusal: Option<String>,
    /// Room for its reflection streams.
    reflections: Arc<Semaphore>,
    /// Room for its large requests.
    room: Arc<RoomOfConnection>,
    /// Held by the stream that receives a large message.
    stream_turn: StreamTurn,
}

impl Connection {
    /// Lists a connection, if there is room.
    fn new(shared: &Arc<Shared>, peer: SocketAddr, local: SocketAddr) -> Option<Connection> {
        let Some(number) = device::lock(&shared.clients).add() else {
            if !shared.refused.swap(true, Ordering::Relaxed) {
                (shared.log)(format!(
                    "{peer} is refused: {CONNECTIONS_MAX} clients are connected, the limit, and all have requests or streams"
                ));
            }
            return None;
        };
        let reads = Arc::new(Semaphore::new(READS_OF_CLIENT_MAX));
        let reflections = Arc::new(Semaphore::new(reflection::REFLECTIONS_OF_CLIENT_MAX));
        let admitted = (shared.admit)(peer, local);
        // Requests of a client that is refused are not received.
        let who = admitted.as_ref().map_or(Who::at(peer.ip()), |who| *who);
        Some(Connection {
            shared: Arc::clone(shared),
            number,
            order: Arc::default(),
            reads,
            refusal: admitted.err(),
            reflections,
            room: Arc::new(RoomOfConnection::new(&shared.room, who)),
            stream_turn: StreamTurn::default(),
        })
    }

    /// Changes what is known about the client, unless another one has its place.
    fn with_client(&self, change: impl FnOnce(&mut Client)) {
        device::lock(&self.shared.clients).all.get_mut(&self.number).map(change);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        device::lock(&self.shared.clients).all.remove(&self.number);
        self.shared.refused.store(false, Ordering::Relaxed);
    }
}

/// Whether requests with this path change the switch.
fn is_change(path: &str) -> bool {
    matches!(path, "/p4.v1.P4Runtime/Write" | "/p4.v1.P4Runtime/SetForwardingPipelineConfig")
}

/// The place of a request in the order of a client's changes.
///
/// It is taken when the request begins: long messages arrive in parts, and later short ones overtake them.
enum Place {
    First(OwnedMutexGuard<()>),
    Later(Pin<Box<dyn Future<Output = OwnedMutexGuard<()>> + Send>>),
}

impl Place {
    /// The place behind the earlier requests.
    fn last(order: &Arc<tokio::sync::Mutex<()>>) -> Place {
        // The first poll takes the place; a constrained one may yield before that.
        let mut turn = Box::pin(tokio::task::unconstrained(Arc::clone(order).lock_owned()));
        match turn.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(turn) => Place::First(turn),
            Poll::Pending => Place::Later(turn),
        }
    }

    /// Waits for the earlier requests. The next one waits until the result is dropped.
    async fn turn(self) -> OwnedMutexGuard<()> {
        match self {
            Place::First(turn) => turn,
            Place::Later(turn) => turn.await,
        }
    }
}

/// A request or stream in progress, until its answer has been sent.
struct Call(Arc<Connection>);

impl Call {
    fn begin(connection: &Arc<Connection>) -> Call {
        connection.with_client(|client| client.calls += 1);
        Call(Arc::clone(connection))
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.0.with_client(|client| {
            client.calls -= 1;
            client.idle_since = Instant::now();
        });
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>, tls: Option<tokio_rustls::TlsAcceptor>) {
    // Connections that have not greeted, the oldest first.
    let mut silent: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            // No descriptor is left; try again when a connection may have ended.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        silent.retain(|greeting| !greeting.is_finished());
        if silent.len() >= SILENT_MAX
            && let Some(oldest) = silent.pop_front()
        {
            oldest.abort();
        }
        let (shared, tls) = (Arc::clone(&shared), tls.clone());
        let greeting = async move {
            let _ = stream.set_nodelay(true);
            let Ok(local) = stream.local_addr() else { return };
            match tls {
                None => serve(greet(stream).await, peer, local, &shared),
                Some(tls) => {
                    let Ok(stream) = tls.accept(stream).await else { return };
                    serve(greet(stream).await, peer, local, &shared);
                }
            }
        };
        let greeting = tokio::spawn(async move {
            let _ = tokio::time::timeout(GREETING_WAIT, greeting).await;
        });
        silent.push_back(greeting.abort_handle());
    }
}

/// Serves a connection that has greeted, if there is room for it.
fn serve<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    greeted: Option<Greeted<S>>,
    peer: SocketAddr,
    local: SocketAddr,
    shared: &Arc<Shared>,
) {
    let Some(stream) = greeted else { return };
    let Some(connection) = Connection::new(shared, peer, local) else { return };
    let number = connection.number;
    let connection = Arc::new(connection);
    let task = tokio::spawn(async move {
        let service = {
            let connection = Arc::clone(&connection);
            hyper::service::service_fn(move |request: Request<hyper::body::Incoming>| {
                let place = is_change(request.uri().path()).then(|| Place::last(&connection.order));
                answer(Arc::clone(&connection), place, request)
            })
        };
        // It ends with the client, or with an error of the protocol.
        let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(PING)
            .keep_alive_timeout(PING)
            .max_concurrent_streams(CALLS_MAX)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buf_size(SEND_BUFFER)
            .max_header_list_size(HEADERS_MAX)
            .serve_connection(TokioIo::new(stream), service)
            .await;
        drop(connection);
    });
    let end = task.abort_handle();
    match device::lock(&shared.clients).all.get_mut(&number) {
        Some(client) => client.end = Some(end),
        // The connection has ended, or another client already has its place.
        None => end.abort(),
    }
}

/// The end of the time that a client gives its request, in the header `grpc-timeout`.
fn deadline(headers: &http::HeaderMap) -> Option<Instant> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: u64 = digits.parse().ok().filter(|_| digits.len() <= 8)?;
    let time = match unit {
        "H" => Duration::from_secs(3600 * number),
        "M" => Duration::from_secs(60 * number),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    };
    Instant::now().checked_add(time)
}

/// The answer to a request whose time is over.
fn late() -> Status {
    Status::deadline_exceeded("the time that the client gave the request (`grpc-timeout`) is over")
}

/// Refuses a change whose client does not wait for it any more.
fn in_time(deadline: Option<Instant>) -> Result<(), Status> {
    deadline.filter(|deadline| *deadline <= Instant::now()).map_or(Ok(()), |_| Err(late()))
}

/// Answers one request.
async fn answer(
    connection: Arc<Connection>,
    place: Option<Place>,
    request: Request<hyper::body::Incoming>,
) -> Result<Response<Body>, Infallible> {
    let call = Call::begin(&connection);
    let deadline = deadline(request.headers());
    let answer = answer_to(connection, place, deadline, request);
    let answer = match deadline {
        None => answer.await,
        Some(deadline) => {
            tokio::time::timeout_at(deadline.into(), answer).await.unwrap_or_else(|_| late().into_http())
        }
    };
    Ok(answer.map(|body| Body::new(grpc::Answer { body, _until_sent: call })))
}

async fn answer_to(
    connection: Arc<Connection>,
    mut place: Option<Place>,
    deadline: Option<Instant>,
    request: Request<hyper::body::Incoming>,
) -> Response<Body> {
    let shared = Arc::clone(&connection.shared);
    let is_grpc = request.headers().get(http::header::CONTENT_TYPE).is_some_and(|content| {
        content.as_bytes().starts_with(b"application/grpc")
            && !content.as_bytes().starts_with(b"application/grpc-web")
    });
    if !is_grpc {
        let mut answer = Response::new(Body::empty());
        *answer.status_mut() = http::StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return answer;
    }
    if let Some(why) = &connection.refusal {
        return Status::permission_denied(why).into_http();
    }
    let path = request.uri().path();
    let method = path.strip_prefix("/p4.v1.P4Runtime/").unwrap_or(path).to_string();
    let bytes_max = match method.as_str() {
        "Write" | "SetForwardingPipelineConfig" => MESSAGE_BYTES_MAX,
        REFLECTION | REFLECTION_ALPHA => reflection::QUESTION_BYTES_MAX,
        _ => SMALL_MESSAGE_BYTES_MAX,
    };
    let is_gzip = request.headers().get(ENCODING).is_some_and(|encoding| encoding == "gzip");
    let (parts, body) = request.into_parts();
    // Answers are not compressed: no client requires it.
    let mut grpc = tonic::server::Grpc::new(Raw)
        .accept_compressed(CompressionEncoding::Gzip)
        .max_decoding_message_size(bytes_max)
        .max_encoding_message_size(usize::MAX);
    if matches!(method.as_str(), "StreamChannel" | REFLECTION | REFLECTION_ALPHA) {
        let body = StreamBody::new(body, bytes_max, &connection.stream_turn);
        let request = Request::from_parts(parts, body);
        if method == "StreamChannel" {
            let open = |incoming| streams::open(&shared.device, shared.to_switch.clone(), incoming);
            return grpc.streaming(DuplexMethod(open), request).await;
        }
        return grpc
            .streaming(DuplexMethod(|questions| reflection::open(&connection, questions)), request)
            .await;
    }
    let request = Request::from_parts(parts, Received::default());
    // Tonic calls a method once.
    let mut body = Some(body);
    let mut receive = || {
        let (body, room) = (body.take(), Arc::clone(&connection.room));
        async move {
            let body = body.ok_or_else(|| Status::internal("bug in p4jet: a request is received twice"))?;
            let message = grpc::Message::receive(body, bytes_max, &room).await?;
            match message.is_compressed() && !is_gzip {
                true => Err(Status::internal("a message is compressed, but `grpc-encoding` is not gzip")),
                false => Ok(message),
            }
        }
    };
    // Of other methods than changes, at most 4 MiB are expanded, on this thread: that takes 3 ms from 4 KiB and 20 ms from 4 MiB,
    // and clients take turns.
    match method.as_str() {
        "Write" => {
            let write = |_| {
                let (received, connection, place) = (receive(), Arc::clone(&connection), place.take());
                async move { write(connection, place, deadline, received.await?).await }
            };
            grpc.unary(Method(write), request).await
        }
        "Read" => {
            let read = |_| {
                let (received, connection) = (receive(), Arc::clone(&connection));
                async move { read(connection, received.await?.expand()?).await }
            };
            grpc.server_streaming(StreamMethod(read), request).await
        }
        "SetForwardingPipelineConfig" => {
            let set = |_| {
                let (received, connection, place) = (receive(), Arc::clone(&connection), place.take());
                async move { set_pipeline(connection, place, deadline, received.await?).await }
            };
            grpc.unary(Method(set), request).await
        }
        "GetForwardingPipelineConfig" => {
            let get = |_| {
                let (received, shared) = (receive(), Arc::clone(&shared));
                async move {
                    let (raw, room) = received.await?.expand()?;
                    // This may wait for a batch.
                    let get = tokio::task::spawn_blocking(move || {
                        let _room = room;
                        shared.device.get_pipeline(&raw)
                    });
                    get.await.unwrap_or_else(|_| Err(Status::internal("bug in p4jet: the request failed")))
                }
            };
            grpc.unary(Method(get), request).await
        }
        "Capabilities" => {
            let capabilities = |_| {
                let (received, shared) = (receive(), Arc::clone(&shared));
                async move { shared.device.capabilities(&received.await?.expand()?.0) }
            };
            grpc.unary(Method(capabilities), request).await
        }
        "/grpc.health.v1.Health/Check" => {
            let check = |_| {
                let received = receive();
                async move { health(&received.await?.expand()?.0) }
            };
            grpc.unary(Method(check), request).await
        }
        "/grpc.health.v1.Health/Watch" => {
            let watch = |_| {
                let received = receive();
                async move {
                    let health = health(&received.await?.expand()?.0);
                    // The health protocol: an unknown service gets SERVICE_UNKNOWN, and the stream stays open.
                    Ok::<_, Status>(Watch(Some(
                        health.unwrap_or_else(|_| healthy(ServingStatus::ServiceUnknown)),
                    )))
                }
            };
            grpc.server_streaming(StreamMethod(watch), request).await
        }
        _ => Status::unimplemented("P4Runtime has no such method").into_http(),
    }
}

/// The answer to a HealthCheckRequest: SERVING.
fn health(request: &Bytes) -> Result<Bytes, Status> {
    match &wire::bytes_field(request, 1)[..] {
        b"" | b"p4.v1.P4Runtime" => Ok(healthy(ServingStatus::Serving)),
        _ => Err(Status::not_found("the services are the whole server (no name) and `p4.v1.P4Runtime`")),
    }
}

/// A HealthCheckResponse.
fn healthy(status: ServingStatus) -> Bytes {
    HealthCheckResponse { status: status.into() }.encode_to_vec().into()
}

/// The health of a service, which does not change until the client or the server ends the stream.
struct Watch(Option<Bytes>);

impl tokio_stream::Stream for Watch {
    type Item = Result<Bytes, Status>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.0.take() {
            Some(health) => Poll::Ready(Some(Ok(health))),
            None => Poll::Pending,
        }
    }
}

/// A change with its room, expanded beside the changes.
async fn expanded(shared: &Shared, message: grpc::Message) -> Result<(Bytes, Charge), Status> {
    if !message.is_compressed() {
        return message.expand();
    }
    let (caller, result) = oneshot::channel();
    shared.device.decode(move || {
        // A client that has gone needs no result.
        let _ = caller.send(message.expand());
    });
    device::result(result).await
}

async fn write(
    connection: Arc<Connection>,
    place: Option<Place>,
    deadline: Option<Instant>,
    message: grpc::Message,
) -> Result<Bytes, Status> {
    let (shared, client) = (&connection.shared, connection.number);
    let device = &shared.device;
    let order = place.unwrap_or_else(|| Place::last(&connection.order)).turn().await;
    let (raw, room) = expanded(shared, message).await?;
    let (caller, result) = oneshot::channel();
    if raw.len() <= SHORT_BYTES {
        device.check_write(&raw)?;
        device.submit(client, true, caller, move |device| {
            in_time(deadline)?;
            device.write(v1::WriteRequest::decode(raw).map_err(device::malformed)?)
        });
        drop(order);
    } else {
        let room = (room, shared.decoded.wait(raw.len()).await);
        let decoding = Arc::clone(device);
        device.decode(move || match decoding.decode_write(raw) {
            Ok(request) => decoding.submit(client, false, caller, move |device| {
                // The next one of this client is decoded meanwhile.
                drop(order);
                let _room = room;
                in_time(deadline)?;
                device.write(request)
            }),
            // A client that has gone needs no answer.
            Err(status) => drop(caller.send(Err(status))),
        });
    }
    device::result(result).await?;
    Ok(Bytes::new())
}

async fn set_pipeline(
    connection: Arc<Connection>,
    place: Option<Place>,
    deadline: Option<Instant>,
    message: grpc::Message,
) -> Result<Bytes, Status> {
    let shared = &connection.shared;
    let order = place.unwrap_or_else(|| Place::last(&connection.order)).turn().await;
    let (raw, room) = expanded(shared, message).await?;
    let device = &shared.device;
    if !device.check_set(&raw)? {
        let (caller, result) = oneshot::channel();
        device.submit(connection.number, false, caller, move |device| {
            drop(order);
            let _room = room;
            in_time(deadline)?;
            device.set_pipeline(&raw)
        });
        device::result(result).await?;
        return Ok(Bytes::new());
    }
    drop(order);
    // Writes do not wait for the compilation (P-21), which goes on even if the client has gone.
    let turn = Arc::clone(&shared.verifying).lock_owned().await;
    let (result, verified) = oneshot::channel();
    let verifying = Arc::clone(device);
    p4jet_threads::spawn("p4runtime verify", move || {
        let (_turn, _room) = (turn, room);
        let verified = verifying.asked(&raw).and_then(|asked| Ok((verifying.verify(&asked)?, asked)));
        // A client that has gone needs no result.
        let _ = result.send(verified);
    })
    .map_err(|error| Status::resource_exhausted(error.to_string()))?;
    let (verified, asked) =
        verified.await.unwrap_or_else(|_| Err(Status::internal("bug in p4jet: the verification failed")))?;
    let apply = move |device: &Device| in_time(deadline).and_then(|()| device.apply(&asked, verified));
    device.change(false, apply).await?;
    Ok(Bytes::new())
}

/// The answers of a Read, which its thread takes away if the client does not read them.
type Waiting = Arc<Mutex<Option<mpsc::Receiver<Result<Bytes, Status>>>>>;

/// The answers of a Read, and the permit that counts it as one of its client until the client has read them or gone.
struct Pages {
    waiting: Waiting,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Pages {
    /// The client has gone: the thread of the Read need not wait for it.
    fn drop(&mut self) {
        *device::lock(&self.waiting) = None;
    }
}

impl tokio_stream::Stream for Pages {
    type Item = Result<Bytes, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match &mut *device::lock(&self.waiting) {
            Some(pages) => pages.poll_recv(context),
            None => {
                let text = "the client did not read the answers of its Read in time";
                Poll::Ready(Some(Err(Status::resource_exhausted(text))))
            }
        }
    }
}

/// The Reads of all clients.
struct Reads {
    turns: Arc<Semaphore>,
    /// Reads that wait for their turn.
    waiting: AtomicUsize,
}

impl Reads {
    fn new() -> Reads {
        Reads { turns: Arc::new(Semaphore::new(READS_MAX)), waiting: AtomicUsize::new(0) }
    }

    /// Waits for a turn. A long request does not wait, because it would take memory meanwhile.
    async fn turn(&self, is_long: bool) -> Result<OwnedSemaphorePermit, Status> {
        let turns = || Arc::clone(&self.turns);
        let turn = match turns().try_acquire_owned() {
            Err(_) if !is_long => {
                let _waits = Waits::new(&self.waiting);
                let turn = tokio::time::timeout(TURN_WAIT, turns().acquire_owned()).await;
                turn.ok().and_then(Result::ok)
            }
            turn => turn.ok(),
        };
        turn.ok_or_else(|| {
            Status::resource_exhausted(format!("{READS_MAX} Reads are in progress, which is the limit"))
        })
    }
}

/// Counts something that waits, until it is dropped.
struct Waits<'a>(&'a AtomicUsize);

impl Waits<'_> {
    fn new(count: &AtomicUsize) -> Waits<'_> {
        count.fetch_add(1, Ordering::Relaxed);
        Waits(count)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn read(connection: Arc<Connection>, (raw, room): (Bytes, Charge)) -> Result<Pages, Status> {
    let permit = Arc::clone(&connection.reads).try_acquire_owned().map_err(|_| {
        Status::resource_exhausted(format!(
            "{READS_OF_CLIENT_MAX} Reads of this client are in progress or have answers that it has not read, which is the limit"
        ))
    })?;
    let shared = Arc::clone(&connection.shared);
    let turn = shared.reads.turn(raw.len() > SMALL_BYTES).await?;
    let bytes = READ_BYTES.saturating_add(READ_BYTES_PER_BYTE * raw.len());
    let memory = MemoryClaim::new(bytes, || "a Read".to_string());
    let memory = memory.map_err(|error| Status::resource_exhausted(error.message))?;
    let request = shared.device.read_request(raw)?;
    let (to_client, pages) = mpsc::channel(PAGES_MAX);
    let waiting: Waiting = Arc::new(Mutex::new(Some(pages)));
    let pages = Pages { waiting: Arc::clone(&waiting), _permit: permit };
    tokio::task::spawn_blocking(move || {
        let (_turn, _memory, _room) = (turn, memory, room);
        let send = |page| send(&shared.reads, &to_client, page, &waiting);
        shared.device.read(&request, &send);
    });
    Ok(pages)
}

/// Sends an answer of a Read. False if the client has gone, or does not read and its answers are taken away.
fn send(
    reads: &Reads,
    to_client: &mpsc::Sender<Result<Bytes, Status>>,
    mut page: Result<Bytes, Status>,
    waiting: &Waiting,
) -> bool {
    let begun = Instant::now();
    loop {
        page = match to_client.try_send(page) {
            Ok(()) => return true,
            Err(TrySendError::Closed(_)) => return false,
            Err(TrySendError::Full(page)) => page,
        };
        let waited = begun.elapsed();
        let is_needed = reads.waiting.load(Ordering::Relaxed) > 0;
        if waited >= READ_WAIT || (waited >= READ_WAIT_SHORT && is_needed) {
            *device::lock(waiting) = None;
            return false;
        }
        // Not a timer of the runtime, which may end meanwhile.
        std::thread::sleep((waited / 8).clamp(ROOM_LOOK_MIN, ROOM_LOOK_MAX));
    }
}
