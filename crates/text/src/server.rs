//! The control server: clients on a Unix or TCP socket send commands to a running switch.
//!
//! Each client has a thread; packets wait for none of them. The cost of clients is bounded: their number, the length of
//! their requests, and the time for half a request or an unread answer. A client that is silent or does not read loses its
//! place to a new one.

use crate::commands::{ANSWER_BYTES_PER_OBJECT, HostCommand, answer_bytes};
use crate::peer::{self, Peer};
use crate::shared::answer;
use crate::wire::{Answer, Request, WireError};
use crate::{Message, Users};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, send};
use p4jet_control::{ControlError, MemoryClaim, PAGE_MAX, Rights, SharedControl, Subscription, Topics};
use p4jet_dataplane::Cancel;
use std::collections::HashMap;
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A method call on either kind of socket.
macro_rules! each {
    ($stream:expr, $s:ident => $call:expr) => {
        match $stream {
            Stream::Unix($s) => $call,
            Stream::Tcp($s) => $call,
        }
    };
}

/// The limits for clients.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of clients on each socket.
    pub clients: usize,
    /// Of these, the maximum for one user, or for one address if the user is unknown.
    pub per_user: usize,
    /// Of these, the maximum number of subscribers.
    pub subscribers: usize,
    /// Of these, the maximum for one user or address.
    pub subscribers_per_user: usize,
    /// A client that has been silent for this long, or has read less than [`Limits::line`] bytes of its answers in this time,
    /// loses its place if another needs one.
    pub silent: Duration,
    /// Maximum bytes of a request.
    pub line: usize,
    /// Maximum bytes of a request with a file of commands or a program. At any time, one client of a user and four in total have a
    /// request of more than [`Limits::line`] in progress, from its arrival until its answer is ready. Others wait.
    pub file: usize,
    /// Maximum time for the rest of a request, for the first request of a client, for the reading of [`Limits::line`] bytes of an
    /// answer, and for the wait until a long request may arrive.
    pub wait: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            clients: 256,
            per_user: 64,
            subscribers: 32,
            subscribers_per_user: 8,
            silent: Duration::from_secs(10),
            line: 1 << 20,
            file: 64 << 20,
            wait: Duration::from_secs(30),
        }
    }
}

/// A listening socket. Dropping it also disconnects its clients.
pub struct Server {
    state: Arc<State>,
    address: Address,
    accepting: Option<JoinHandle<()>>,
}

enum Address {
    /// With the socket's inode: a later socket of this name may belong to another process.
    Unix(PathBuf, u64),
    Tcp(SocketAddr),
}

/// Maximum number of requests longer than a line. Each takes up to [`Limits::file`] bytes, and parsed [`PARSED_BYTES`] times as many.
const LONG_MAX: usize = 4;

struct State {
    control: SharedControl,
    limits: Limits,
    /// The users that may connect.
    users: Users,
    /// The files and interfaces that the switch may open for clients.
    rights: Rights,
    start: Instant,
    stop: AtomicBool,
    clients: Mutex<HashMap<u64, Known>>,
    /// The clients with a request longer than a line.
    long: Mutex<Vec<Peer>>,
    /// Signals the end of such a request.
    long_ended: Condvar,
}

/// A connected client.
struct Known {
    stream: Stream,
    peer: Peer,
    turn: Arc<Turn>,
}

/// The side that must act: the client, which sends a request or reads an answer, or the switch.
struct Turn {
    /// Milliseconds after [`State::start`] at which the client's turn began, [`Turn::SWITCH`] or [`Turn::SUBSCRIBER`].
    since_ms: AtomicU64,
}

impl Turn {
    const SWITCH: u64 = u64::MAX;
    /// Messages are sent when there are any; the client need not send anything.
    const SUBSCRIBER: u64 = u64::MAX - 1;

    fn set(&self, to: u64) {
        self.since_ms.store(to, Ordering::Relaxed);
    }
}

impl State {
    fn clients(&self) -> MutexGuard<'_, HashMap<u64, Known>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn long(&self) -> MutexGuard<'_, Vec<Peer>> {
        self.long.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }

    /// Gives a place to a new client, if necessary that of a silent one: of the same user if that has too many, otherwise of
    /// the user that has most.
    fn seat(&self, id: u64, known: Known) -> Result<(), String> {
        let Limits { clients: places, per_user, silent, .. } = self.limits;
        let mut clients = self.clients();
        let mut counts: HashMap<&Peer, usize> = HashMap::new();
        clients.values().for_each(|client| *counts.entry(&client.peer).or_default() += 1);
        let (from, full) = if counts.get(&known.peer).is_some_and(|count| *count >= per_user) {
            (Some(known.peer.clone()), format!("{per_user} clients of {} are connected", known.peer))
        } else if clients.len() >= places {
            let most = counts.iter().max_by_key(|(_, count)| **count).map(|(peer, _)| (*peer).clone());
            (most, format!("{places} clients are connected"))
        } else {
            clients.insert(id, known);
            return Ok(());
        };
        let now = self.now_ms();
        let silent_ms = |client: &Known| match client.turn.since_ms.load(Ordering::Relaxed) {
            Turn::SWITCH | Turn::SUBSCRIBER => None,
            since => Some(now.saturating_sub(since)),
        };
        let theirs = clients.iter().filter(|(_, client)| Some(&client.peer) == from.as_ref());
        let longest = theirs.filter_map(|(id, client)| Some((silent_ms(client)?, *id))).max();
        match longest.filter(|(ms, _)| u128::from(*ms) >= silent.as_millis()) {
            Some((_, silent_one)) => {
                if let Some(mut client) = clients.remove(&silent_one) {
                    let why = format!(
                        "this connection was silent for {silent:?}, and another client needed its place"
                    );
                    client.stream.refuse(why);
                    let _ = each!(&client.stream, s => s.shutdown(Shutdown::Both));
                }
                clients.insert(id, known);
                Ok(())
            }
            None => Err(format!("{full}, which is the limit: end one of them, or try again in {silent:?}")),
        }
    }
}

/// A connection.
enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    /// Sends the reason why the connection ends, if that needs no wait.
    fn refuse(&mut self, why: String) {
        let line = Answer::refused(WireError::request(why)).to_line();
        let _ = each!(&mut *self, s => s.set_nonblocking(true).and_then(|()| s.write_all(line.as_bytes())));
    }

    fn try_clone(&self) -> io::Result<Stream> {
        Ok(match self {
            Stream::Unix(s) => Stream::Unix(s.try_clone()?),
            Stream::Tcp(s) => Stream::Tcp(s.try_clone()?),
        })
    }
}

enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    /// Accepts the next connection and identifies its peer.
    fn accept(&self) -> io::Result<(Stream, Peer)> {
        Ok(match self {
            Listener::Unix(l) => {
                let (stream, _) = l.accept()?;
                let peer = peer::of_unix(&stream)?;
                (Stream::Unix(stream), peer)
            }
            Listener::Tcp(l) => {
                let (stream, from) = l.accept()?;
                stream.set_nodelay(true)?;
                let peer = peer::of_tcp(from, stream.local_addr()?);
                (Stream::Tcp(stream), peer)
            }
        })
    }
}

impl Server {
    /// Listens on a Unix socket, for this user only. It replaces a socket that a killed switch left; a socket that
    /// answers is an error.
    pub fn unix(control: SharedControl, path: &Path, limits: Limits) -> io::Result<Server> {
        let wrong = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
        match fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => {
                return Err(wrong(io::Error::new(ErrorKind::AlreadyExists, "it exists and is no socket")));
            }
            Ok(_) if UnixStream::connect(path).is_ok() => {
                return Err(wrong(io::Error::new(ErrorKind::AddrInUse, "a switch listens there already")));
            }
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(wrong(e)),
        }
        // Connections of others are refused, but the file system does not admit them either. The socket has another name until
        // that is so; the rename replaces a dead socket in one step.
        let hidden = beside(path);
        let listener = UnixListener::bind(&hidden).map_err(wrong)?;
        let placed = fs::set_permissions(&hidden, fs::Permissions::from_mode(0o600))
            .and_then(|()| fs::rename(&hidden, path))
            .and_then(|()| fs::symlink_metadata(path));
        match placed {
            Ok(found) => {
                let address = Address::Unix(path.to_path_buf(), found.ino());
                let users = Users::default();
                Server::start(control, Listener::Unix(listener), address, limits, users, Rights::All)
            }
            Err(e) => {
                let _ = fs::remove_file(&hidden);
                Err(wrong(e))
            }
        }
    }

    /// Listens on a TCP socket. Clients of `users` may connect; `rights` limit the files that the switch opens for them.
    pub fn tcp(
        control: SharedControl,
        address: SocketAddr,
        limits: Limits,
        users: Users,
        rights: Rights,
    ) -> io::Result<Server> {
        if !address.ip().to_canonical().is_loopback() && users != Users::All {
            let why = format!(
                "{address} can be reached from other machines, whose users p4jet cannot identify: add \
                 `--allow-users all` to let everybody control the switch, or listen on 127.0.0.1"
            );
            return Err(io::Error::new(ErrorKind::PermissionDenied, why));
        }
        let listener = TcpListener::bind(address)
            .map_err(|e| io::Error::new(e.kind(), format!("cannot listen on {address}: {e}")))?;
        let address = Address::Tcp(listener.local_addr()?);
        Server::start(control, Listener::Tcp(listener), address, limits, users, rights)
    }

    fn start(
        control: SharedControl,
        listener: Listener,
        address: Address,
        limits: Limits,
        users: Users,
        rights: Rights,
    ) -> io::Result<Server> {
        let state = Arc::new(State {
            control,
            limits,
            users,
            rights,
            start: Instant::now(),
            stop: AtomicBool::new(false),
            clients: Mutex::new(HashMap::new()),
            long: Mutex::new(Vec::new()),
            long_ended: Condvar::new(),
        });
        let for_thread = Arc::clone(&state);
        let accepting = p4jet_threads::spawn("control", move || accept(&listener, &for_thread))?;
        Ok(Server { state, address, accepting: Some(accepting) })
    }

    /// Its address in the form of options of `p4jet ctl`.
    pub fn address(&self) -> String {
        match &self.address {
            Address::Unix(path, _) => path.display().to_string(),
            Address::Tcp(address) => address.to_string(),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.state.stop.store(true, Ordering::SeqCst);
        // Wakes the accepting thread.
        let woken = match &self.address {
            Address::Unix(path, inode) => {
                let ours = fs::symlink_metadata(path).is_ok_and(|found| found.ino() == *inode);
                let woken = ours && UnixStream::connect(path).is_ok();
                if ours {
                    let _ = fs::remove_file(path);
                }
                woken
            }
            Address::Tcp(address) => {
                let mut address = *address;
                if address.ip().is_unspecified() {
                    address.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
                }
                TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok()
            }
        };
        if let Some(accepting) = self.accepting.take()
            && woken
        {
            let _ = accepting.join();
        }
        for client in self.state.clients().values() {
            let _ = each!(&client.stream, s => s.shutdown(Shutdown::Both));
        }
    }
}

/// Clients that were refused since the last report.
#[derive(Default)]
struct Refusals {
    said: Option<Instant>,
    unsaid: u64,
}

impl Refusals {
    /// Minimum interval of reports for each socket.
    const SAID_EVERY: Duration = Duration::from_secs(10);

    /// Sends a client the reason why it is refused, and reports it to the operator unless that happened recently.
    fn refuse(&mut self, state: &State, client: Option<&mut Stream>, peer: &Peer, why: String) {
        if let Some(line) = self.line(Instant::now(), peer, &why) {
            state.control.clients_refused(&line);
        }
        if let Some(client) = client {
            client.refuse(why);
        }
    }

    /// The line for the operator, if one is due.
    fn line(&mut self, now: Instant, peer: &Peer, why: &str) -> Option<String> {
        if self.said.is_some_and(|said| now.saturating_duration_since(said) < Self::SAID_EVERY) {
            self.unsaid += 1;
            return None;
        }
        self.said = Some(now);
        Some(match std::mem::take(&mut self.unsaid) {
            0 => format!("refused a client of {peer}: {why}"),
            1 => format!("refused a client of {peer}: {why} (and one client before it)"),
            others => format!("refused a client of {peer}: {why} (and {others} clients before it)"),
        })
    }
}

/// An unused name in the same folder.
fn beside(path: &Path) -> PathBuf {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    path.with_file_name(format!(".{}-{number}", std::process::id()))
}

fn accept(listener: &Listener, state: &Arc<State>) {
    let mut refusals = Refusals::default();
    for id in 0.. {
        let accepted = listener.accept();
        if state.stop.load(Ordering::SeqCst) {
            return;
        }
        let (mut stream, peer) = match accepted {
            Ok(accepted) => accepted,
            // The client left before it was admitted.
            Err(e) if e.kind() == ErrorKind::ConnectionAborted || e.kind() == ErrorKind::NotConnected => {
                continue;
            }
            // Usually too many open files. Other clients may close some.
            Err(_) => {
                thread::sleep(Duration::from_millis(100));
                continue;
            }
        };
        if !state.users.include(&peer) {
            let why = match listener {
                Listener::Unix(_) => {
                    format!("{peer} may not control this switch, only its own user and root")
                }
                Listener::Tcp(_) => state.users.refusal(&peer, ", or use its Unix socket"),
            };
            refusals.refuse(state, Some(&mut stream), &peer, why);
            continue;
        }
        let Ok(known) = stream.try_clone() else { continue };
        let turn = Arc::new(Turn { since_ms: AtomicU64::new(state.now_ms()) });
        let known = Known { stream: known, peer: peer.clone(), turn: Arc::clone(&turn) };
        if let Err(why) = state.seat(id, known) {
            refusals.refuse(state, Some(&mut stream), &peer, why);
            continue;
        }
        let place = Place { state: Arc::clone(state), id };
        let (spare, of) = (stream.try_clone(), peer.clone());
        let serve = move || serve(stream, &place.state, &peer, &turn);
        // Without a thread the client is disconnected, and its place is free.
        if let Err(error) = p4jet_threads::spawn("control", serve) {
            let why = format!("the switch has no thread for another client: {error}");
            refusals.refuse(state, spare.ok().as_mut(), &of, why);
        }
    }
}

/// A client's place among the connections.
struct Place {
    state: Arc<State>,
    id: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.state.clients().remove(&self.id);
    }
}

/// Answers a client until it leaves or breaks a rule.
fn serve(mut stream: Stream, state: &State, peer: &Peer, turn: &Turn) {
    let mut requests =
        Requests { state, peer, turn, buffer: Vec::new(), begin: 0, understood: false, long: None };
    let control = state.control.of_user(&peer.to_string());
    let mut answers = Vec::new();
    let mut memory = None;
    loop {
        // A line that is not a request ends the connection: the text after it, such as the body of an HTTP request, was not
        // meant for us.
        let (answer, last) = match requests.next(&mut stream, &mut answers) {
            Next::Line(line) => match parsed(line) {
                Ok(Request::Command { line, .. } | Request::Complete { line, .. })
                    if line.len() > state.limits.line =>
                {
                    (Answer::refused(WireError::request(too_long(state.limits.line))), true)
                }
                Ok(Request::Subscribe { topics }) => match subscribe(state, peer, turn, topics) {
                    Ok(subscription) => {
                        let answer = Answer { ok: true, ..Answer::default() };
                        answers.extend_from_slice(answer.to_line().as_bytes());
                        return stream_out(&mut stream, state, subscription, answers);
                    }
                    Err(error) => {
                        turn.set(Turn::SWITCH);
                        (Answer::refused(error.into()), false)
                    }
                },
                Ok(request) => {
                    requests.understood = true;
                    // Held until the answer is a line.
                    match claim(state, &request) {
                        Ok(claim) => {
                            memory = Some(claim);
                            (answer_while_there(&stream, state, &control, request), false)
                        }
                        Err(error) => (Answer::refused(error.into()), false),
                    }
                }
                Err(Unparsed::Memory(error)) => (Answer::refused(error.into()), false),
                Err(Unparsed::Wrong(why)) => (Answer::refused(WireError::request(why)), true),
            },
            Next::Refused(why) => (Answer::refused(WireError::request(why)), true),
            Next::End => return,
        };
        let line = answer.to_line();
        drop(answer);
        answers.extend_from_slice(line.as_bytes());
        drop(line);
        requests.end_long();
        if last || memory.take().is_some_and(|claim| claim.bytes() > REQUEST_BYTES) {
            // Long answers do not wait for others.
            let sent = send_answers(&stream, state, turn, &answers);
            if last || sent.is_err() {
                return;
            }
            answers = Vec::new();
        }
    }
}

enum Unparsed {
    /// The line is not a request.
    Wrong(String),
    /// Its memory is refused.
    Memory(ControlError),
}

/// Parses a line, if there is memory for the request.
fn parsed(line: &[u8]) -> Result<Request, Unparsed> {
    let bytes = PARSED_BYTES.saturating_mul(line.len());
    let _memory = (bytes >= CLAIMED_BYTES_MIN)
        .then(|| MemoryClaim::new(bytes, || format!("a request of {} bytes", line.len())))
        .transpose()
        .map_err(Unparsed::Memory)?;
    Request::parse(line).map_err(Unparsed::Wrong)
}

/// Claims memory for a request: a little for each, so that none ends the process, and more if the answer may be long.
fn claim(state: &State, request: &Request) -> Result<MemoryClaim, ControlError> {
    let answer = match request {
        Request::Command { line, .. } => answer_bytes(&state.control.control(), line),
        Request::Read { max, .. } => (*max).min(PAGE_MAX) * ANSWER_BYTES_PER_OBJECT,
        Request::Write { updates, .. } => updates.len().saturating_mul(WRITTEN_BYTES_PER_UPDATE),
        _ => 0,
    };
    let what = || if answer > 0 { "this request with its answer" } else { "a request" }.to_string();
    MemoryClaim::new(REQUEST_BYTES.saturating_add(answer), what)
}

/// Registers a client as a subscriber, if there is room.
fn subscribe(state: &State, peer: &Peer, turn: &Turn, topics: Topics) -> Result<Subscription, ControlError> {
    let clients = state.clients();
    let are = |client: &&Known| client.turn.since_ms.load(Ordering::Relaxed) == Turn::SUBSCRIBER;
    let Limits { subscribers: max, subscribers_per_user: max_of_user, .. } = state.limits;
    if clients.values().filter(are).count() >= max {
        return Err(ControlError::limit(format!("{max} clients have subscribed, and no more may")));
    }
    if clients.values().filter(are).filter(|client| client.peer == *peer).count() >= max_of_user {
        return Err(ControlError::limit(format!(
            "{max_of_user} clients of {peer} have subscribed, and no more may"
        )));
    }
    turn.set(Turn::SUBSCRIBER);
    drop(clients);
    state.control.subscribe(topics)
}

/// Delay until a client that left is noticed.
const MISSED: Duration = Duration::from_millis(50);

/// Executes a request. If the client leaves meanwhile, its compilations, files and batches are cancelled. When the switch ends,
/// it shuts the connection down, so that the client seems to leave.
fn answer_while_there(stream: &Stream, state: &State, control: &SharedControl, request: Request) -> Answer {
    let compiles = match &request {
        Request::Command { line, .. } => HostCommand::compiles(line),
        Request::Program { .. } => true,
        _ => false,
    };
    if !compiles {
        let has_left = || has_left(stream, Duration::ZERO);
        return answer(control, request, &state.rights, &Cancel::default(), &has_left);
    }
    let (cancel, done) = (Cancel::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        let watch = || {
            while !done.load(Ordering::Relaxed) {
                if has_left(stream, MISSED) {
                    return cancel.cancel();
                }
            }
        };
        // The watcher ends in any case.
        let _done = Done(&done);
        // Without a thread, nothing watches the client.
        let _ = p4jet_threads::spawn_scoped(scope, "control", watch);
        answer(control, request, &state.rights, &cancel, &|| cancel.is_cancelled())
    })
}

/// Sets a flag when it is dropped.
struct Done<'f>(&'f AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// True if a client has closed its connection; takes this long otherwise. A TCP client that only stops sending looks like one
/// that has left.
fn has_left(stream: &Stream, wait: Duration) -> bool {
    let (fd, wanted) = match stream {
        Stream::Unix(s) => (s.as_fd(), PollFlags::empty()),
        // The end of the connection is visible even if unread data precede it.
        Stream::Tcp(s) => (s.as_fd(), PollFlags::from_bits_retain(libc::POLLRDHUP)),
    };
    let mut fds = [PollFd::new(fd, wanted)];
    if poll(&mut fds, PollTimeout::from(wait.as_millis() as u16)).is_err() {
        thread::sleep(wait);
        return false;
    }
    // `nix` has no name for POLLRDHUP; no other unnamed flag can be set.
    let events = fds[0].revents();
    events.is_none_or(|events| events.intersects(PollFlags::POLLHUP | PollFlags::POLLERR))
}

/// Sends answers. It is the client's turn to read, at least [`Limits::line`] bytes in [`Limits::wait`].
fn send_answers(stream: &Stream, state: &State, turn: &Turn, answers: &[u8]) -> io::Result<()> {
    for part in answers.chunks(state.limits.line) {
        turn.set(state.now_ms());
        send_within(stream, part, state.limits.wait)?;
    }
    Ok(())
}

/// Sends bytes, for at most this time. The socket's own time limit would begin again with each byte that the client reads.
fn send_within(stream: &Stream, mut bytes: &[u8], wait: Duration) -> io::Result<()> {
    let fd = each!(stream, s => s.as_fd());
    let until = Instant::now() + wait;
    while !bytes.is_empty() {
        match send(fd.as_raw_fd(), bytes, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(Errno::EAGAIN) => {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(ErrorKind::TimedOut.into());
                }
                let ms = u16::try_from(left.as_millis() + 1).unwrap_or(u16::MAX);
                match poll(&mut [PollFd::new(fd, PollFlags::POLLOUT)], PollTimeout::from(ms)) {
                    Ok(_) | Err(Errno::EINTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Interval at which a subscriber's connection is checked while there are no messages.
const LOOK: Duration = Duration::from_millis(200);
/// Maximum bytes of messages in one write.
const MESSAGES_BYTES: usize = 64 << 10;

/// Sends messages, after `text`, until the subscriber leaves, sends anything, or does not read.
fn stream_out(stream: &mut Stream, state: &State, mut subscription: Subscription, mut text: Vec<u8>) {
    // Only reading shows that the client has left, and it must not delay messages.
    if each!(&*stream, s => s.set_read_timeout(Some(Duration::from_millis(1)))).is_err() {
        return;
    }
    let mut looked = Instant::now();
    loop {
        let mut wait = if text.is_empty() { LOOK } else { Duration::ZERO };
        while text.len() < MESSAGES_BYTES
            && let Some(message) = Message::next_of(&mut subscription, wait)
        {
            text.extend_from_slice(message.to_line().as_bytes());
            wait = Duration::ZERO;
        }
        if send_within(stream, &text, state.limits.wait).is_err() || subscription.has_ended() {
            return;
        }
        text.clear();
        if looked.elapsed() >= LOOK {
            match each!(&mut *stream, s => s.read(&mut [0])) {
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => return,
            }
            looked = Instant::now();
        }
    }
}

fn too_long(bytes: usize) -> String {
    format!("a command has at most {bytes} bytes")
}

/// The requests of a client.
struct Requests<'s> {
    state: &'s State,
    peer: &'s Peer,
    turn: &'s Turn,
    buffer: Vec<u8>,
    /// The start of the next line.
    begin: usize,
    /// True if the client has sent a request.
    understood: bool,
    /// The right to the present request, if it is longer than a line.
    long: Option<Long<'s>>,
}

enum Next<'b> {
    Line(&'b [u8]),
    /// The error to send before the connection ends.
    Refused(String),
    End,
}

/// Bytes of memory for each byte of a request that is read.
const PARSED_BYTES: usize = 16;
/// Bytes of memory for any request and its answer, if that is short.
const REQUEST_BYTES: usize = 1 << 20;
/// Bytes of memory for each update of a batch: resolved, undone, and its result.
const WRITTEN_BYTES_PER_UPDATE: usize = 1024;
/// Bytes of memory for which a request claims it before it is parsed.
const CLAIMED_BYTES_MIN: usize = 128 << 10;

/// Maximum bytes of answers that wait for the answers to later requests.
const ANSWERS_WAIT: usize = 64 << 10;

impl Requests<'_> {
    /// Frees the memory of a long request whose answer is ready, so that another one may arrive.
    fn end_long(&mut self) {
        if self.long.is_some() {
            self.buffer.drain(..std::mem::take(&mut self.begin));
            self.buffer.shrink_to(self.state.limits.line);
            self.long = None;
        }
    }

    /// Returns the next line. Sends `answers` before it waits for the client.
    fn next(&mut self, stream: &mut Stream, answers: &mut Vec<u8>) -> Next<'_> {
        let limits = self.state.limits;
        let mut searched = self.begin;
        let mut deadline = None;
        self.turn.set(self.state.now_ms());
        loop {
            let found = self.buffer[searched..].iter().position(|b| *b == b'\n').map(|at| searched + at);
            if answers.len() > ANSWERS_WAIT || (found.is_none() && !answers.is_empty()) {
                if send_answers(stream, self.state, self.turn, answers).is_err() {
                    return Next::End;
                }
                *answers = Vec::new();
                self.turn.set(self.state.now_ms());
            }
            if let Some(end) = found {
                let line = self.begin..end;
                self.begin = end + 1;
                self.turn.set(Turn::SWITCH);
                return Next::Line(&self.buffer[line]);
            }
            self.buffer.drain(..self.begin);
            self.begin = 0;
            searched = self.buffer.len();
            if self.buffer.first().is_some_and(|first| !b"{ \t\r".contains(first)) {
                // A client of another protocol may wait for an answer before it ends the line.
                let why =
                    "not a request: expected JSON, which begins with `{` (there is no Thrift server here)";
                return Next::Refused(why.into());
            }
            if searched > limits.line && self.long.is_none() {
                self.turn.set(Turn::SWITCH);
                self.long = Long::begin(self.state, self.peer);
                if self.long.is_none() {
                    let (max, wait) = (limits.line, limits.wait);
                    return Next::Refused(format!(
                        "other requests of more than {max} bytes have been in progress for {wait:?}: try again"
                    ));
                }
                self.turn.set(self.state.now_ms());
                // The client's time begins again.
                deadline = None;
            }
            if searched > limits.file {
                return Next::Refused(format!("a request has at most {} bytes", limits.file));
            }
            // A client that has sent requests may wait indefinitely before the next one.
            if deadline.is_none() && (searched > 0 || !self.understood) {
                deadline = Some(Instant::now() + limits.wait);
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Next::Refused(format!("no whole request came within {:?}", limits.wait));
            }
            if each!(&*stream, s => s.set_read_timeout(left)).is_err() {
                return Next::End;
            }
            let mut chunk = [0; 16 << 10];
            match each!(&mut *stream, s => s.read(&mut chunk)) {
                Ok(0) => return Next::End,
                Ok(n) => {
                    if self.buffer.try_reserve(n).is_err() {
                        return Next::Refused("no memory for a request of this length".into());
                    }
                    self.buffer.extend_from_slice(&chunk[..n]);
                }
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Next::End,
            }
        }
    }
}

/// The right to a request longer than a line, until its answer is ready.
struct Long<'s>(&'s State, &'s Peer);

impl<'s> Long<'s> {
    /// Waits for the end of other long requests, at most [`Limits::wait`].
    fn begin(state: &'s State, peer: &'s Peer) -> Option<Long<'s>> {
        let must_wait = |long: &mut Vec<Peer>| long.len() >= LONG_MAX || long.contains(peer);
        let waited = state.long_ended.wait_timeout_while(state.long(), state.limits.wait, must_wait);
        let (mut long, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return None;
        }
        long.push(peer.clone());
        Some(Long(state, peer))
    }
}

impl Drop for Long<'_> {
    fn drop(&mut self) {
        self.0.long().retain(|peer| peer != self.1);
        self.0.long_ended.notify_all();
    }
}

/// The folders that may contain sockets of this user's switches; new sockets are created in the first usable one.
fn folders() -> Vec<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| Path::new(dir).is_absolute());
    let mut folders: Vec<PathBuf> = runtime.map(|dir| Path::new(&dir).join("p4jet")).into_iter().collect();
    folders.push("/run/p4jet".into());
    if let Some(user) = user() {
        folders.push(std::env::temp_dir().join(format!("p4jet-{user}")));
    }
    folders
}

/// The user that owns files created by this process. Not the owner of /proc/self: that is root if the program's file has
/// capabilities.
fn user() -> Option<u32> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    // proc(5): real, effective, saved, file system.
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_whitespace().nth(3)?.parse().ok()
}

/// True if only this user can access a folder: otherwise a socket in it could belong to anyone.
fn is_private(folder: &Path) -> bool {
    fs::symlink_metadata(folder)
        .is_ok_and(|f| f.is_dir() && Some(f.uid()) == user() && f.permissions().mode() & 0o077 == 0)
}

/// The default path of a switch's socket: in a folder that only this user may enter, named after
/// the program and the process.
pub fn default_path(program: &str) -> io::Result<PathBuf> {
    for folder in folders() {
        let _ = DirBuilder::new().mode(0o700).create(&folder);
        if is_private(&folder) {
            // Sockets of switches that were killed.
            for (path, live) in sockets(&folder) {
                if !live {
                    let _ = fs::remove_file(path);
                }
            }
            // A socket's path has at most 107 bytes.
            let name: String =
                program.chars().filter(|c| c.is_ascii_alphanumeric() || "_-.".contains(*c)).collect();
            let name = name.get(..32).unwrap_or(&name);
            return Ok(folder.join(format!("{name}-{}.sock", std::process::id())));
        }
    }
    Err(io::Error::new(ErrorKind::PermissionDenied, "found no private folder for the control socket"))
}

/// The sockets of this user's running switches.
pub fn running() -> Vec<PathBuf> {
    let private = folders().into_iter().filter(|folder| is_private(folder));
    let mut live: Vec<_> =
        private.flat_map(|folder| sockets(&folder)).filter(|(_, live)| *live).map(|(path, _)| path).collect();
    live.sort();
    live
}

/// The sockets in a folder, and whether a switch listens on each.
fn sockets(folder: &Path) -> Vec<(PathBuf, bool)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "sock"))
        .map(|path| {
            let live = match UnixStream::connect(&path) {
                Ok(_) => true,
                Err(e) => e.kind() != ErrorKind::ConnectionRefused && e.kind() != ErrorKind::NotFound,
            };
            (path, live)
        })
        .collect()
}

/// Parses `ADDR:PORT`, or a port of the loopback address.
pub fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let loopback = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let local = text.strip_prefix("localhost:").unwrap_or(text);
    local.parse().map(loopback).or_else(|_| text.parse()).map_err(|_| {
        format!("`{text}` is no address: expected a port, such as 9090, or an address and a port, such as 127.0.0.1:9090")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_said_once_and_counted() {
        let (mut refusals, start, peer) = (Refusals::default(), Instant::now(), Peer::User(7));
        let mut line = |ms| refusals.line(start + Duration::from_millis(ms), &peer, "no place");
        assert_eq!(line(0).as_deref(), Some("refused a client of user 7: no place"));
        assert_eq!((1..10_000).filter_map(&mut line).count(), 0);
        assert_eq!(
            line(10_000).as_deref(),
            Some("refused a client of user 7: no place (and 9999 clients before it)")
        );
        assert_eq!(line(19_999), None);
        assert!(line(20_000).is_some_and(|line| line.ends_with("(and one client before it)")));
    }
}
