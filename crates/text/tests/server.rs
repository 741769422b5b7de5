//! Clients of a running switch, friendly and not.
//!
//! Blind spots: what clients cost in processor time, and a machine that is short of memory or threads.

use crate::common;

use crate::common::control;
use p4jet_control::{
    Atomicity, Control, ControlError, Host, NamedSelector, NamedUpdate, PortStats, Program, Rights,
    SharedControl, Stats, Swap, Swapped,
};
use p4jet_dataplane::{Cancel, CaptureSpec, Subscription, Switch, Topics};
use p4jet_text::client::Client;
use p4jet_text::prompt::{self, Commander};
use p4jet_text::server::{self, Limits, Server};
use p4jet_text::wire::{Answer, Request};
use p4jet_text::{Commands, Users};
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Fails a test that hangs.
const DEADLINE: Duration = Duration::from_secs(60);

/// A folder that is deleted after the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("p4jet-server-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn socket(&self) -> PathBuf {
        self.0.join("switch.sock")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn shared() -> SharedControl {
    SharedControl::new(control(), None)
}

/// A server on a fresh switch.
fn start(limits: Limits) -> (Folder, Server) {
    let folder = Folder::new();
    let server = Server::unix(shared(), &folder.socket(), limits).unwrap();
    (folder, server)
}

fn quick() -> Limits {
    Limits { wait: Duration::from_millis(300), ..Limits::default() }
}

fn local(port: &Server) -> SocketAddr {
    port.address().parse().unwrap()
}

fn tcp(control: SharedControl, limits: Limits, rights: Rights) -> io::Result<Server> {
    Server::tcp(control, "127.0.0.1:0".parse().unwrap(), limits, Users::default(), rights)
}

/// Sends bytes; returns the switch's output until it ends the connection.
fn said(path: &Path, bytes: &[u8]) -> String {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let _ = stream.write_all(bytes);
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text);
    text
}

/// Checks that the switch still answers others quickly.
fn assert_serves(path: &Path) {
    let start = Instant::now();
    let mut client = Client::unix(path).unwrap();
    assert_eq!(client.command("table_num_entries l2", false).unwrap().output, "0\n");
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

#[test]
fn the_same_text_at_the_prompt_in_a_file_and_over_both_sockets() {
    let script = include_str!("sessions/members.cmd");
    let mut expected = Vec::new();
    let failed = prompt::interact_with(&mut control(), script.as_bytes(), &mut expected).unwrap();
    let screen = |commander: &mut dyn Commander| {
        let mut out = Vec::new();
        assert_eq!(prompt::interact_with(commander, script.as_bytes(), &mut out).unwrap(), failed);
        String::from_utf8(out).unwrap()
    };
    let expected = String::from_utf8(expected).unwrap();
    assert!(expected.len() > 500);
    let (folder, _server) = start(Limits::default());
    assert_eq!(screen(&mut Client::unix(&folder.socket()).unwrap()), expected);
    let server = tcp(shared(), Limits::default(), Rights::nothing()).unwrap();
    assert_eq!(screen(&mut Client::tcp(local(&server)).unwrap()), expected);
    assert_eq!(screen(&mut shared()), expected);

    // Reading commands print the same output from a file; changes print nothing there.
    let file = "table_add l2 deny 5 =>\ntable_dump l2\nshow_tables";
    let summary = Client::unix(&folder.socket()).unwrap().load("file", file).unwrap().unwrap();
    assert_eq!((summary.commands, summary.entries_added), (3, 1));
    let lines: Vec<_> = file.lines().skip(1).map(shared_after).collect();
    assert_eq!(summary.output, lines.concat());
}

fn shared_after(line: &str) -> String {
    let control = control();
    control.execute("table_add l2 deny 5 =>").unwrap();
    control.execute(line).unwrap()
}

#[test]
fn a_file_is_all_or_nothing() {
    let (folder, _server) = start(Limits::default());
    let mut client = Client::unix(&folder.socket()).unwrap();
    let text = "table_add l2 deny 1 =>\n\n# two\ntable_add l2 deny 1 =>";
    let error = client.load("two.cmd", text).unwrap().unwrap_err();
    let here = control();
    assert_eq!(error, here.load("two.cmd", text).unwrap_err(), "as without a connection");
    assert_eq!((error.line, &*error.error.code), (4, "DUPLICATE_ENTRY"));
    let error = client.load("bad.cmd", "table_add l2 nothing 1 =>").unwrap().unwrap_err();
    assert_eq!(error, here.load("bad.cmd", "table_add l2 nothing 1 =>").unwrap_err());
    assert!(error.error.span.is_some());
    assert_serves(&folder.socket());
}

#[test]
fn answers_have_codes_and_places() {
    let (folder, _server) = start(Limits::default());
    let mut client = Client::unix(&folder.socket()).unwrap();
    let answer = client.command("table_delete l2 3", false).unwrap();
    let error = answer.error.unwrap();
    assert!(!answer.ok);
    assert_eq!((error.kind.as_str(), error.code.as_deref()), ("wrong", Some("INVALID_HANDLE")));
    assert_eq!(answer.output, "Deleting entry 3 from l2\n");
    let error = client.command("table_dump l3", false).unwrap().error.unwrap();
    assert_eq!((error.code.as_deref(), error.span), (Some("UNKNOWN_NAME"), Some((11, 13))));
    assert_eq!(error.field.as_deref(), Some("table"));
    assert!(error.choices.contains(&"ingress.l2".to_string()), "{error:?}");
    let error = client.command("write_config_to_file x", false).unwrap().error.unwrap();
    assert_eq!(error.kind, "unsupported");
    let note = client.command("table_indirect_create_group route", false).unwrap().note.unwrap();
    assert!(note.contains("act_prof_create_group"), "{note}");
    for line in ["shell id", "!id"] {
        let error = client.command(line, false).unwrap().error.unwrap();
        assert!(error.text.contains("run only at the prompt"), "{}", error.text);
    }
    assert_eq!(client.complete("table_dump l", 12), (11, vec!["ingress.l2".to_string()]));
    // A position within a character completes nothing.
    assert_eq!(client.complete("é", 1).1, Vec::<String>::new());
}

#[test]
fn socket_is_private_and_removed_with_the_switch() {
    let (folder, server) = start(Limits::default());
    let path = folder.socket();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let error = Server::unix(shared(), &path, Limits::default()).map(drop).unwrap_err();
    assert_eq!(error.to_string(), format!("{}: a switch listens there already", path.display()));
    assert_serves(&path);
    let mut client = Client::unix(&path).unwrap();
    drop(server);
    assert!(!path.exists());
    assert!(client.command("help", false).is_err(), "it let its clients go");

    // A killed switch leaves its socket behind.
    drop(UnixListener::bind(&path).unwrap());
    let server = Server::unix(shared(), &path, Limits::default()).unwrap();
    assert_serves(&path);
    // A server leaves a socket alone that another process has put in its place.
    fs::remove_file(&path).unwrap();
    fs::write(&path, "precious").unwrap();
    drop(server);
    let error = Server::unix(shared(), &path, Limits::default()).map(drop).unwrap_err();
    assert!(error.to_string().ends_with("it exists and is no socket"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1, "nothing else is left");
    let error = Server::unix(shared(), &folder.0.join("none/x"), Limits::default()).map(drop).unwrap_err();
    assert!(error.to_string().contains("none/x: "), "{error}");
}

#[test]
fn addresses() {
    let parse = |text| server::parse_address(text).map(|address| address.to_string());
    assert_eq!(parse("9090").unwrap(), "127.0.0.1:9090");
    assert_eq!(parse("localhost:9090").unwrap(), "127.0.0.1:9090");
    assert_eq!(parse("0.0.0.0:1").unwrap(), "0.0.0.0:1");
    assert_eq!(parse("[::1]:80").unwrap(), "[::1]:80");
    for text in ["", "host", "1.2.3.4", "70000", ":9"] {
        assert!(parse(text).is_err(), "{text}");
    }
}

#[test]
fn garbage_is_answered_and_ends_the_connection() {
    let (folder, _server) = start(Limits::default());
    let path = folder.socket();
    for garbage in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], b"\0\xff\n", b"\n", b"{}\n", b"[1,2\n", b"{\"command\":7}\n"]
    {
        let text = said(&path, garbage);
        let answer: Answer = serde_json::from_str(&text).unwrap();
        assert!(!answer.ok && answer.error.unwrap().text.starts_with("not a request: "), "{text}");
    }
    // Requests that a web page can make a browser send change nothing.
    let post = "POST / HTTP/1.1\r\nHost: localhost\r\n\r\n{\"command\":\"table_add l2 deny 1 =>\"}\n";
    assert_eq!(said(&path, post.as_bytes()).lines().count(), 1);
    let mut bytes = vec![0u8; 100_000];
    let mut state = 1u32;
    for byte in &mut bytes {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *byte = (state >> 24) as u8;
    }
    for piece in bytes.chunks(5_000) {
        assert!(said(&path, &[piece, b"\n"].concat()).starts_with("{\"ok\":false"));
    }
    assert_serves(&path);
}

/// A Thrift client waits for an answer without sending a line.
#[test]
fn a_thrift_client_gets_an_error_at_once() {
    let (folder, _server) = start(Limits { wait: DEADLINE, ..Limits::default() });
    let begin = Instant::now();
    let text = said(&folder.socket(), b"\x80\x01\0\x01\0\0\0\x14Standard:bm_get_info\0\0\0\0\0");
    assert!(text.contains("there is no Thrift server here"), "{text}");
    assert!(begin.elapsed() < DEADLINE / 2);
}

#[test]
fn long_requests_end_at_their_limit() {
    let limits = Limits { line: 1000, file: 10_000, ..quick() };
    let (folder, _server) = start(limits);
    let path = folder.socket();
    let text = said(&path, &vec![b'{'; 20_000]);
    assert!(text.contains("a request has at most 10000 bytes"), "{text}");
    let command = Request::Command { line: "x".repeat(2000), data: false }.to_line() + "\n";
    let text = said(&path, command.as_bytes());
    assert!(text.contains("a command has at most 1000 bytes"), "{text}");
    let mut client = Client::unix(&path).unwrap();
    let file: String = (0..100).map(|key| format!("table_add ipv4_lpm deny {key}/32 =>\n")).collect();
    assert!(file.len() > 1000);
    assert_eq!(client.load("file", &file).unwrap().unwrap().entries_added, 100);
    let error = client.load("file", &file.repeat(10)).unwrap_err();
    assert!(error.to_string().contains("10000 bytes"), "{error}");
}

#[test]
fn half_requests_and_silence_end_in_time() {
    let (folder, _server) = start(quick());
    let path = folder.socket();
    for half in [&b""[..], b"{\"command\":\"help\"", b"{\"command\":\"help\"}\n{"] {
        let start = Instant::now();
        let text = said(&path, half);
        assert!(text.contains("no whole request came within 300ms"), "{text}");
        assert!(start.elapsed() < DEADLINE);
    }
    // Sending byte by byte does not extend the time.
    let mut slow = UnixStream::connect(&path).unwrap();
    let start = Instant::now();
    while slow.write_all(b" ").is_ok() {
        assert!(start.elapsed() < DEADLINE);
        thread::sleep(Duration::from_millis(20));
    }
    // A client that has sent a request may pause.
    let mut client = Client::unix(&path).unwrap();
    client.command("help", false).unwrap();
    thread::sleep(Duration::from_millis(700));
    client.command("help", false).unwrap();
}

#[test]
fn excess_connections_are_refused() {
    let (folder, host) = (Folder::new(), Arc::new(Stub::default()));
    let path = folder.socket();
    let shared = SharedControl::new(control(), Some(Arc::clone(&host) as Arc<dyn Host>));
    let limits = Limits { per_user: 8, silent: DEADLINE, ..quick() };
    let begin = Instant::now();
    let _server = Server::unix(shared, &path, limits).unwrap();
    let mut friend = Client::unix(&path).unwrap();
    friend.command("help", false).unwrap();
    let flood: Vec<_> = (0..300).map(|_| UnixStream::connect(&path).unwrap()).collect();
    let mut refused = 0;
    for stream in &flood {
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let mut line = String::new();
        let _ = BufReader::new(stream).read_line(&mut line);
        refused += usize::from(line.contains("8 clients of user "));
        // Only clients that are silent for long lose their places.
        friend.command("table_num_entries l2", false).unwrap();
    }
    assert!(refused >= 200, "{refused}");
    // The operator gets one message, and another one after ten seconds at the earliest.
    let said = host.refused.lock().unwrap().clone();
    assert!((1..=1 + begin.elapsed().as_secs() / 10).contains(&(said.len() as u64)), "{said:?}");
    assert!(
        said[0].starts_with("refused a client of user ") && said[0].contains("8 clients of user "),
        "{said:?}"
    );
    drop(flood);
    let start = Instant::now();
    // Their places are free again.
    while Client::unix(&path).and_then(|mut client| client.command("help", false)).is_err() {
        assert!(start.elapsed() < DEADLINE);
        thread::sleep(Duration::from_millis(10));
    }
}

/// Clients that send nothing, send half a request, or do not read their answers cannot lock others out.
#[test]
fn silent_clients_are_closed_for_new_ones() {
    let silent = Duration::from_millis(100);
    for (clients, per_user) in [(6, 100), (100, 6)] {
        let limits = Limits { clients, per_user, silent, wait: DEADLINE, ..Limits::default() };
        let (folder, _server) = start(limits);
        let path = folder.socket();
        let connect = |bytes: &[u8]| {
            let mut stream = UnixStream::connect(&path).unwrap();
            stream.write_all(bytes).unwrap();
            stream
        };
        // A client that has sent a request before, one in the middle of a request, and one that never reads its answer.
        let mut held: Vec<UnixStream> = Vec::new();
        held.push(connect(b"{\"command\":\"help\"}\n"));
        held.push(connect(b"{\"command\":\"he"));
        let deaf = UnixStream::connect(&path).unwrap();
        deaf.set_nonblocking(true).unwrap();
        let start = Instant::now();
        while (&deaf).write(b"{\"command\":\"help\"}\n").is_ok() {
            assert!(start.elapsed() < DEADLINE);
        }
        held.push(deaf);
        held.extend((0..3).map(|_| connect(b"")));
        let mut served = 0;
        while served < 12 {
            assert!(start.elapsed() < DEADLINE, "{served} were served");
            if Client::unix(&path).and_then(|mut client| client.command("help", false)).is_ok() {
                held.push(connect(b""));
                served += 1;
            }
            thread::sleep(Duration::from_millis(20));
        }
        // The first client that was disconnected got the reason.
        held[0].set_read_timeout(Some(DEADLINE)).unwrap();
        let mut said = String::new();
        let _ = held[0].read_to_string(&mut said);
        assert!(said.contains("this connection was silent for 100ms"), "{said}");
    }
}

/// A client that reads a long answer slowly keeps neither its place nor its connection.
#[test]
fn slow_readers_lose_their_places() {
    let host = Arc::new(Stub::default());
    // An answer of several megabytes.
    let port = |port| PortStats { port, spec: "x".repeat(200), ..PortStats::default() };
    host.ports.lock().unwrap().extend((0..20_000).map(port));
    let start = |limits| {
        let folder = Folder::new();
        let shared = SharedControl::new(control(), Some(Arc::clone(&host) as Arc<dyn Host>));
        let server = Server::unix(shared, &folder.socket(), limits).unwrap();
        (folder, server)
    };
    let asks = |folder: &Folder| {
        let mut stream = UnixStream::connect(folder.socket()).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.write_all(b"{\"command\":\"show_ports\"}\n").unwrap();
        // The answer has begun.
        stream.read_exact(&mut [0]).unwrap();
        stream
    };
    let silent = Duration::from_millis(100);
    let (folder, _server) = start(Limits { per_user: 4, silent, wait: DEADLINE, ..Limits::default() });
    let held: Vec<_> = (0..4).map(|_| asks(&folder)).collect();
    let begin = Instant::now();
    while Client::unix(&folder.socket()).and_then(|mut client| client.command("help", false)).is_err() {
        assert!(begin.elapsed() < DEADLINE, "they keep their places");
        thread::sleep(Duration::from_millis(20));
    }
    drop(held);
    // The time limit is that of the answer, not of each part that the client reads.
    let (folder, _server) = start(Limits { wait: Duration::from_millis(500), ..Limits::default() });
    let mut slow = asks(&folder);
    let mut part = [0; 4096];
    let mut bytes = 1;
    let last = loop {
        match slow.read(&mut part) {
            Ok(n @ 1..) => bytes += n,
            ended => break ended.is_ok() && part.contains(&b'\n'),
        }
        thread::sleep(Duration::from_millis(20));
    };
    assert!(!last && bytes < 4 << 20, "it got {bytes} bytes");
    assert_serves(&folder.socket());
}

#[test]
fn tcp_clients_open_no_files_without_a_grant() {
    let host = Arc::new(Stub::default());
    let control = SharedControl::new(control(), Some(Arc::clone(&host) as Arc<dyn Host>));
    let server = tcp(control.clone(), Limits::default(), Rights::nothing()).unwrap();
    let folder = Folder::new();
    let _unix = Server::unix(control, &folder.socket(), Limits::default()).unwrap();
    for line in ["load good.p4", "load_new_config_file bad.p4", "port_add veth0 1", "capture start 1 a.pcap"]
    {
        Client::tcp(local(&server)).unwrap().command(line, false).unwrap();
        assert_eq!(*host.had_all_rights.lock().unwrap(), Some(false), "{line} over TCP");
        Client::unix(&folder.socket()).unwrap().command(line, false).unwrap();
        assert_eq!(*host.had_all_rights.lock().unwrap(), Some(true), "{line} over the Unix socket");
    }
    let everywhere = Server::tcp(
        shared(),
        "0.0.0.0:0".parse().unwrap(),
        Limits::default(),
        Users::default(),
        Rights::nothing(),
    );
    let why = everywhere.map(drop).unwrap_err().to_string();
    assert!(why.contains("can be reached from other machines") && why.contains("--allow-users all"), "{why}");
    let all =
        Server::tcp(shared(), "0.0.0.0:0".parse().unwrap(), Limits::default(), Users::All, Rights::nothing());
    assert!(all.is_ok());
}

#[test]
fn a_burst_of_lines_is_answered_in_order() {
    const LINES: usize = 100_000;
    let (folder, _server) = start(Limits::default());
    let path = folder.socket();
    let stream = UnixStream::connect(&path).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let sending = thread::spawn(move || {
        let burst: String =
            (0..LINES).map(|n| format!("{{\"command\":\"register_write cells 0 {}\"}}\n", n % 200)).collect();
        writer.write_all(burst.as_bytes()).unwrap();
        writer.write_all(b"{\"command\":\"register_read cells 0\"}\n").unwrap();
    });
    let mut answers = BufReader::new(stream).lines();
    // Other clients are served meanwhile.
    assert_serves(&path);
    for _ in 0..LINES {
        let line = answers.next().unwrap().unwrap();
        assert!(line.starts_with("{\"ok\":true"), "{line}");
    }
    let last: Answer = serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap();
    assert_eq!(last.output, format!("cells[0]= {}\n", (LINES - 1) % 200));
    sending.join().unwrap();
}

#[test]
fn client_that_never_reads_is_closed() {
    let (folder, server) = start(quick());
    let path = folder.socket();
    let mut deaf = UnixStream::connect(&path).unwrap();
    deaf.set_write_timeout(Some(DEADLINE)).unwrap();
    let start = Instant::now();
    // A client that only sends is disconnected once unread answers fill its socket.
    while deaf.write_all(b"{\"command\":\"help\"}\n").is_ok() {
        assert!(start.elapsed() < DEADLINE);
    }
    assert_serves(&path);
    drop(server);
    assert!(start.elapsed() < DEADLINE);
}

#[test]
fn many_clients_at_once_do_not_mix() {
    let (folder, _server) = start(Limits::default());
    let path = folder.socket();
    thread::scope(|scope| {
        for client in 0..8u32 {
            let path = &path;
            scope.spawn(move || {
                let mut connection = Client::unix(path).unwrap();
                for round in 0..200 {
                    let key = client * 1000 + round;
                    let added =
                        connection.command(&format!("table_add ipv4_lpm deny {key}/32 =>"), false).unwrap();
                    let handle = added.output.rsplit(' ').next().unwrap().trim().to_string();
                    assert!(
                        connection.command(&format!("table_delete ipv4_lpm {handle}"), false).unwrap().ok
                    );
                }
            });
        }
        // Files meanwhile, each of which is undone.
        let path = &path;
        scope.spawn(move || {
            let mut connection = Client::unix(path).unwrap();
            for _ in 0..50 {
                let file = "table_add l2 deny 99999 =>\ntable_add l2 deny 99999 =>";
                assert!(connection.load("file", file).unwrap().is_err());
            }
        });
    });
    assert_serves(&path);
}

/// A host with ports that exist only by name, and one program.
#[derive(Default)]
struct Stub {
    queues_tried: AtomicUsize,
    ports: Mutex<Vec<PortStats>>,
    stopped: AtomicBool,
    /// Number of running compilations of a program that never compiles.
    compiling: AtomicUsize,
    /// The rights of the latest call that had some.
    had_all_rights: Mutex<Option<bool>>,
    /// Its messages about refused clients.
    refused: Mutex<Vec<String>>,
    /// Programs whose clients have left.
    cancelled: Mutex<Vec<PathBuf>>,
    is_stuck: AtomicBool,
}

impl Stub {
    fn note(&self, rights: &Rights) {
        *self.had_all_rights.lock().unwrap() = Some(matches!(rights, Rights::All));
    }
}

impl Host for Stub {
    fn prepare(&self, program: &Program<'_>, cancel: &Cancel) -> Result<Swap, ControlError> {
        let (Program::File(_, rights) | Program::Texts(_, _, rights)) = program else {
            return Err(ControlError::new("no text command loads such a program"));
        };
        self.note(rights);
        let program = program.path();
        if program.ends_with("endless.p4") {
            self.compiling.fetch_add(1, Ordering::SeqCst);
            while !cancel.is_cancelled() {
                std::thread::sleep(Duration::from_millis(1));
            }
            self.compiling.fetch_sub(1, Ordering::SeqCst);
            return Err(ControlError::new("it was cancelled"));
        }
        if program.ends_with("stuck.p4") {
            return Ok(Box::new(|| Err(ControlError::new("a worker does not answer"))));
        }
        if program.ends_with("broken.p4") {
            panic!("the compiler lost its way");
        }
        if !program.ends_with("good.p4") {
            return Err(ControlError::program_refused(format!(
                "error: {} does not compile",
                program.display()
            )));
        }
        let text = common::PROGRAM.replace("ingress.l2", "ingress.renamed");
        let switch = Switch::new(p4jet_ir::text::parse(&text).unwrap()).map_err(ControlError::new)?;
        Ok(Box::new(move || Ok(Swapped { switch, report: "l2: its entries are gone\n".into() })))
    }

    fn start_capture(&self, _: CaptureSpec, rights: &Rights) -> Result<(), ControlError> {
        self.note(rights);
        Ok(())
    }

    fn prepare_counted(&self, _: bool, _: &Cancel) -> Result<Option<Swap>, ControlError> {
        Ok(None)
    }

    fn stats(&self) -> Result<Stats, ControlError> {
        Ok(Stats { program: "stub".into(), received: 7, ..Stats::default() })
    }

    fn prepare_queues(&self) -> Result<Swap, ControlError> {
        self.queues_tried.fetch_add(1, Ordering::SeqCst);
        Err(ControlError::new("this one has none"))
    }

    fn subscribe(&self, _: Topics) -> Result<Subscription, ControlError> {
        Err(ControlError::new("nothing happens here"))
    }

    fn ports(&self) -> Vec<PortStats> {
        self.ports.lock().unwrap().clone()
    }

    fn add_port(&self, number: u32, spec: &str, rights: &Rights) -> Result<(), ControlError> {
        self.note(rights);
        let mut ports = self.ports.lock().unwrap();
        if ports.iter().any(|port| port.port == number) {
            return Err(ControlError::new(format!("port {number} is in use")));
        }
        let why_down = Some("no carrier".to_string());
        ports.push(PortStats {
            port: number,
            spec: spec.into(),
            up: number != 2,
            why_down,
            ..PortStats::default()
        });
        Ok(())
    }

    fn remove_port(&self, number: u32) -> Result<(), ControlError> {
        self.ports.lock().unwrap().retain(|port| port.port != number);
        Ok(())
    }

    fn responds(&self) -> Result<(), ControlError> {
        match self.is_stuck.load(Ordering::SeqCst) {
            true => Err(ControlError::new("a worker does not answer")),
            false => Ok(()),
        }
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
    }

    fn load_cancelled(&self, program: &Path) {
        self.cancelled.lock().unwrap().push(program.into());
    }

    fn clients_refused(&self, why: &str) {
        self.refused.lock().unwrap().push(why.to_string());
    }
}

/// Waits until this many programs are being compiled.
fn wait_for_compilations(host: &Stub, count: usize) {
    let start = Instant::now();
    while host.compiling.load(Ordering::SeqCst) != count {
        assert!(
            start.elapsed() < DEADLINE,
            "{} compilations, not {count}",
            host.compiling.load(Ordering::SeqCst)
        );
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_compilation_delays_no_other_client_and_ends_with_its_own() {
    let host = Arc::new(Stub::default());
    let folder = Folder::new();
    let control = SharedControl::new(control(), Some(Arc::clone(&host) as Arc<dyn Host>));
    let server = tcp(control.clone(), Limits::default(), Rights::All).unwrap();
    let _local = Server::unix(control, &folder.socket(), Limits::default()).unwrap();
    let request = |path: &str| {
        let request = Request::Command { line: format!("load {path}"), data: false };
        request.to_line() + "\n"
    };
    let mut local = UnixStream::connect(folder.socket()).unwrap();
    local.write_all(request("endless.p4").as_bytes()).unwrap();
    wait_for_compilations(&host, 1);
    // A client that has ended its side of the connection may still wait for the answer.
    local.shutdown(std::net::Shutdown::Write).unwrap();
    let mut remote = std::net::TcpStream::connect(server.address()).unwrap();
    remote.write_all(request("endless.p4").as_bytes()).unwrap();
    wait_for_compilations(&host, 2);

    // Other clients continue meanwhile.
    let mut client = Client::unix(&folder.socket()).unwrap();
    let mut done = |line: &str| client.command(line, false).unwrap();
    assert!(done("table_num_entries l2").ok);
    assert!(done("stats on").ok);
    assert!(done("load good.p4").ok);
    assert!(done("load_new_config_file good.p4").ok);

    // The number of compilations is limited; more wait.
    let more: Vec<_> = (3..=4)
        .map(|count| {
            let mut more = UnixStream::connect(folder.socket()).unwrap();
            more.write_all(request("endless.p4").as_bytes()).unwrap();
            wait_for_compilations(&host, count);
            more
        })
        .collect();
    let mut waits = UnixStream::connect(folder.socket()).unwrap();
    waits.write_all(request("good.p4").as_bytes()).unwrap();
    waits.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!(waits.read_exact(&mut [0; 10]).is_err(), "a fifth compilation began");
    assert!(done("show_tables").ok);

    drop(remote);
    waits.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut answer = [0; 10];
    waits.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"{\"ok\":true");
    wait_for_compilations(&host, 3);
    drop(more);
    wait_for_compilations(&host, 1);
    assert!(done("load good.p4").ok);
    drop(local);
    wait_for_compilations(&host, 0);
}

/// A `load` or `swap_configs` that fails because a worker is stuck leaves the program that waits for `swap_configs`.
#[test]
fn a_failed_load_keeps_the_prepared_program() {
    let host = Arc::new(Stub::default());
    let folder = Folder::new();
    let control = SharedControl::new(control(), Some(Arc::clone(&host) as Arc<dyn Host>));
    let _server = Server::unix(control, &folder.socket(), Limits::default()).unwrap();
    let mut client = Client::unix(&folder.socket()).unwrap();
    let mut does = |line: &str| client.command(line, false).unwrap().error.map(|error| error.text);
    assert_eq!(does("load_new_config_file good.p4"), None);
    let why = does("load stuck.p4").expect("its last step fails");
    assert!(why.contains("a worker does not answer"), "{why}");
    host.is_stuck.store(true, Ordering::SeqCst);
    let why = does("swap_configs").expect("it needs all workers");
    assert!(why.contains("a worker does not answer"), "{why}");
    host.is_stuck.store(false, Ordering::SeqCst);
    assert_eq!(does("swap_configs"), None);
    // A `load` that succeeds takes its place.
    assert_eq!(does("load_new_config_file good.p4"), None);
    assert_eq!(does("load good.p4"), None);
    let why = does("swap_configs").expect("nothing is prepared");
    assert!(why.contains("NO_ONGOING_SWAP"), "{why}");
}

#[test]
fn a_panic_in_a_compilation_is_the_answer() {
    let host = Arc::new(Stub::default());
    let folder = Folder::new();
    let control = SharedControl::new(control(), Some(Arc::clone(&host) as Arc<dyn Host>));
    let _server = Server::unix(control, &folder.socket(), Limits::default()).unwrap();
    let texts = [("broken.p4".into(), String::new())];
    for request in [
        Request::Command { line: "load broken.p4".into(), data: false },
        Request::Command { line: "load_new_config_file broken.p4".into(), data: false },
        Request::Program { path: "broken.p4".into(), texts: texts.into(), aside: false },
    ] {
        let mut stream = UnixStream::connect(folder.socket()).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.write_all((request.to_line() + "\n").as_bytes()).unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).expect("an answer comes");
        assert!(answer.contains("a bug of p4jet: the compiler lost its way"), "{answer}");
    }
    assert_serves(&folder.socket());
}

#[test]
fn closed_connection_cancels_its_compilation() {
    let host = Arc::new(Stub::default());
    let control = SharedControl::new(control(), Some(Arc::clone(&host) as Arc<dyn Host>));
    let server = tcp(control, Limits::default(), Rights::All).unwrap();
    let mut client = std::net::TcpStream::connect(server.address()).unwrap();
    let line = |line: &str| Request::Command { line: line.into(), data: false }.to_line() + "\n";
    client.write_all((line("load endless.p4") + &line("show_tables")).as_bytes()).unwrap();
    wait_for_compilations(&host, 1);
    drop(client);
    wait_for_compilations(&host, 0);
    let start = Instant::now();
    while host.cancelled.lock().unwrap().is_empty() && start.elapsed() < DEADLINE {
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(*host.cancelled.lock().unwrap(), [Path::new("endless.p4")]);
}

/// Files and batches that would run for half a minute.
#[test]
fn a_client_that_leaves_cancels_its_file_or_batch() {
    let large = common::PROGRAM.replace("register 1 size 65537", "register 1 size 16777216");
    let control = || Control::new(Switch::new(p4jet_ir::text::parse(&large).unwrap()).unwrap());
    let lines = "register_reset ingress.bit\n".repeat(2000);
    let file = Request::Load { text: format!("table_add l2 deny 1 =>\n{lines}"), name: "long".into() };
    let reset = r#"{"reset_register":{"register":"ingress.bit"}}"#;
    let insert = r#"{"insert":{"table":"l2","key":["1"],"do":{"action":"deny"}}}"#;
    let update = |text: &str| serde_json::from_str::<NamedUpdate>(text).unwrap();
    let updates = || std::iter::once(update(insert)).chain((0..2000).map(|_| update(reset))).collect();
    for (request, remains, switch_ends) in [
        (file.clone(), 0, false),
        (Request::Write { updates: updates(), atomicity: Atomicity::AllOrNothing }, 0, false),
        (Request::Write { updates: updates(), atomicity: Atomicity::ContinueOnError }, 1, false),
        (file, 0, true),
    ] {
        let (folder, shared) = (Folder::new(), SharedControl::new(control(), None));
        let server = Server::unix(shared.clone(), &folder.socket(), Limits::default()).unwrap();
        let mut client = UnixStream::connect(folder.socket()).unwrap();
        client.write_all((request.to_line() + "\n").as_bytes()).unwrap();
        let entries = || shared.control().execute("table_num_entries l2").unwrap();
        let start = Instant::now();
        while entries() == "0\n" {
            assert!(start.elapsed() < DEADLINE, "it does not begin");
            thread::sleep(Duration::from_millis(1));
        }
        let _kept = match switch_ends {
            true => {
                drop(server);
                (None, Some(client))
            }
            false => {
                drop(client);
                (Some(server), None)
            }
        };
        let start = Instant::now();
        shared.dump(false);
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
        assert_eq!(entries(), format!("{remains}\n"));
    }
}

#[test]
fn ports_and_programs() {
    let host = Arc::new(Stub::default());
    let folder = Folder::new();
    let control = SharedControl::new(control(), Some(Arc::clone(&host) as Arc<dyn Host>));
    let _server = Server::unix(control, &folder.socket(), Limits::default()).unwrap();
    let mut client = Client::unix(&folder.socket()).unwrap();
    let mut text = |line: &str| {
        let answer = client.command(line, false).unwrap();
        let error = answer.error.map_or(String::new(), |error| format!("! {}\n", error.text));
        answer.output + &error + answer.note.as_deref().unwrap_or("")
    };
    assert_eq!(text("port_add veth0 1") + &text("port_add tap:t 2"), "");
    assert_eq!(text("port_add veth9 1"), "! Invalid device manager operation (ERROR): port 1 is in use\n");
    assert_eq!(
        text("show_ports"),
        "  port #       iface name       status  extra info\n\
         ==================================================\n\
         \u{20}   1            veth0            UP    why=no carrier; received=0; sent=0; lost=0; not_sent=0; link_lost=0\n\
         \u{20}   2            tap:t           DOWN   why=no carrier; received=0; sent=0; lost=0; not_sent=0; link_lost=0\n"
    );
    assert_eq!(text("stats on"), "");
    assert!(text("stats").contains("\"received\": 7,"));
    assert_eq!(text("trace show 1"), "! not supported by this switch\n");
    assert_eq!(text("port_remove 1"), "");
    assert_eq!(host.ports().len(), 1);

    assert!(text("load bad.p4").ends_with("bad.p4 does not compile\n"));
    assert_eq!(text("table_num_entries l2"), "0\n", "the old program still runs");
    assert_eq!(
        text("swap_configs").lines().nth(1).unwrap(),
        "! Invalid swap operation (NO_ONGOING_SWAP): no program is prepared: run load_new_config_file first"
    );
    assert_eq!(
        text("load_new_config_file good.p4"),
        "Loading new Json config\nuntil swap_configs commands go to the program that still runs"
    );
    assert_eq!(
        text("load_new_config_file good.p4").lines().nth(1).unwrap(),
        "! Invalid swap operation (ONGOING_SWAP): a program is already prepared: activate it with swap_configs, or \
         replace it with load"
    );
    assert_eq!(text("table_num_entries l2"), "0\n");
    assert_eq!(text("swap_configs"), "Swapping configs\nl2: its entries are gone");
    assert_eq!(text("table_num_entries renamed"), "0\n");
    assert!(text("table_num_entries l2").starts_with("! Invalid table name (l2)"));
    assert_eq!(text("load good.p4"), "l2: its entries are gone\n");

    assert_eq!(text("stop"), "");
    assert!(host.stopped.load(Ordering::SeqCst));
    let error = client.load("file", "stop").unwrap().unwrap_err();
    assert!(error.to_string().contains("not supported here: stop"), "{error}");
}

#[test]
fn client_refuses_another_kind_of_server() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"220 smtp\r\n").unwrap();
    });
    let error = Client::tcp(address).unwrap().command("help", false).unwrap_err();
    assert!(error.to_string().contains("the server that answered is not p4jet"), "{error}");
    // The server is gone, or about to go.
    if let Ok(mut client) = Client::tcp(address) {
        assert!(client.command("help", false).is_err());
    }
}

#[test]
fn batches_of_updates_over_a_connection() {
    let (folder, _server) = start(Limits::default());
    let mut client = Client::unix(&folder.socket()).unwrap();
    let update =
        |text: &str| serde_json::from_str::<NamedUpdate>(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    let insert = |key: u32| {
        update(&format!(r#"{{"insert":{{"table":"l2","key":["{key}"],"do":{{"action":"deny"}}}}}}"#))
    };
    let delete = update(r#"{"delete":{"table":"l2","entry":{"made":0}}}"#);
    let results = client.write(vec![insert(1), insert(2), delete], Atomicity::AllOrNothing).unwrap();
    assert_eq!(results, [Ok(Some(0)), Ok(Some(1)), Ok(None)]);
    let refused = [insert(3), update(r#"{"clear":{"table":"l7"}}"#), insert(2)];
    let results = client.write(refused.to_vec(), Atomicity::AllOrNothing).unwrap();
    let codes = |results: Vec<Result<_, ControlError>>| {
        results.into_iter().map(|result| result.map_err(|error| error.code.into_string())).collect::<Vec<_>>()
    };
    let error = |code: &str| Err(code.to_string());
    assert_eq!(codes(results), [error("ABORTED"), error("UNKNOWN_NAME"), error("ABORTED")]);
    let results = codes(client.write(refused.to_vec(), Atomicity::ContinueOnError).unwrap());
    assert!(results[0].is_ok());
    assert_eq!(results[1..], [error("UNKNOWN_NAME"), error("DUPLICATE_ENTRY")]);
    assert_eq!(client.command("table_num_entries l2", false).unwrap().output, "2\n");
}

#[test]
fn typed_reads_over_a_connection() {
    let (folder, _server) = start(Limits::default());
    let mut client = Client::unix(&folder.socket()).unwrap();
    let insert = |key: u32| {
        let text = format!(r#"{{"insert":{{"table":"l2","key":["{key}"],"do":{{"action":"deny"}}}}}}"#);
        serde_json::from_str::<NamedUpdate>(&text).unwrap()
    };
    client.write(vec![insert(1), insert(2), insert(3)], Atomicity::AllOrNothing).unwrap();
    let selector = NamedSelector::Entries { table: "l2".into() };
    let first = client.read(&selector, 0, 2).unwrap().unwrap();
    assert_eq!((first.records.len(), first.next.is_some()), (2, true), "{first:?}");
    let rest = client.read(&selector, first.next.unwrap(), 2).unwrap().unwrap();
    assert_eq!((rest.records.len(), rest.next), (1, None), "{rest:?}");
    assert_eq!(client.read_all(&selector).unwrap().unwrap(), [first.records, rest.records].concat());
    // An empty page has an empty list.
    let mut stream = UnixStream::connect(folder.socket()).unwrap();
    stream.write_all(b"{\"read\":{\"nodes\":{}}}\n").unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    assert!(answer.contains(r#""records":[]"#), "{answer}");
    assert_eq!(client.read_all(&NamedSelector::Nodes {}).unwrap().unwrap(), []);
    let unknown = client.read_all(&NamedSelector::Entries { table: "l7".into() }).unwrap().unwrap_err();
    assert_eq!(unknown.field.as_deref(), Some("table"));
    let schema = client.schema().unwrap().unwrap();
    let l2 = schema.table("l2").unwrap();
    assert_eq!((l2.key[0].width, l2.actions[0].params[0].name.as_str()), (48, "port"), "{l2:?}");
    // A switch without a host has no statistics.
    assert!(client.stats().unwrap().unwrap_err().message.starts_with("not supported: stats"));
    assert!(client.command("stats", false).unwrap().error.is_some());
}

/// A program that cannot be compiled with output queues is not tried again until the queues change; each change says so.
#[test]
fn a_failed_compilation_for_queues_is_remembered() {
    let stub = Arc::new(Stub::default());
    let program = p4jet_ir::text::parse(common::PROGRAM).unwrap();
    let control = SharedControl::new(Control::new(Switch::new(program).unwrap()), Some(stub.clone()));
    for (command, tried) in [
        ("set_queue_depth 5", 1),
        ("set_queue_depth 5", 1),
        ("mc_mgrp_create 3", 1),
        ("set_queue_depth 6", 2),
    ] {
        let reply = control.reply(command, false);
        assert_eq!(reply.note.as_deref(), Some("the output queues have no effect: this one has none"));
        assert_eq!(stub.queues_tried.load(Ordering::SeqCst), tried, "{command}");
    }
}

/// A long request counts until its answer is ready: others wait for that, and are refused after a while. Short ones do not wait.
#[test]
fn long_requests_wait_for_each_other() {
    let (folder, host) = (Folder::new(), Arc::new(Stub::default()));
    let path = folder.socket();
    let shared = SharedControl::new(control(), Some(Arc::clone(&host) as Arc<dyn Host>));
    let limits = Limits { line: 1000, wait: Duration::from_secs(2), ..Limits::default() };
    let _server = Server::unix(shared, &path, limits).unwrap();
    // Only a request that does not arrive in one piece counts as long.
    let padding = "x".repeat(100_000);
    let file = |first: u32| -> String {
        let lines = (first..first + 100).map(|key| format!("table_add ipv4_lpm deny {key}/32 =>\n"));
        format!("# {padding}\n{}", lines.collect::<String>())
    };
    let texts = [("endless.p4".into(), padding.clone())].into();
    let endless = Request::Program { path: "endless.p4".into(), texts, aside: false };
    let compiling = || {
        let mut client = UnixStream::connect(&path).unwrap();
        client.write_all((endless.to_line() + "\n").as_bytes()).unwrap();
        let end = Instant::now() + DEADLINE;
        while host.compiling.load(Ordering::SeqCst) == 0 {
            assert!(Instant::now() < end, "the program is not compiled");
            thread::sleep(Duration::from_millis(1));
        }
        client
    };
    let first = compiling();
    let error = Client::unix(&path).unwrap().load("file", &file(0)).unwrap_err().to_string();
    assert!(error.contains("requests of more than 1000 bytes have been in progress for 2s"), "{error}");
    assert_serves(&path);
    thread::scope(|scope| {
        let second = scope.spawn(|| Client::unix(&path).unwrap().load("file", &file(0)));
        // The compilation ends because its client leaves.
        drop(first);
        assert_eq!(second.join().unwrap().unwrap().unwrap().entries_added, 100);
    });
    // One connection may send several.
    let mut client = Client::unix(&path).unwrap();
    for first in [1000, 2000] {
        assert_eq!(client.load("file", &file(first)).unwrap().unwrap().entries_added, 100);
    }
}
