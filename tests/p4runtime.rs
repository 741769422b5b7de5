//! The P4Runtime server, with a client over the loopback. Tests are named after the requirement that they check; docs/p4runtime.md
//! lists them.

use crate::common::{self, TempDir};
use bytes::Bytes;
use p4jet_p4info::proto::{config, google, stratum, v1};
use p4jet_p4runtime::client::{Client, Stream, errors};
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tokio_rustls::rustls;
use tonic::{Code, Status};

/// Time to wait for a message that arrives.
const LONG: Duration = Duration::from_secs(20);
/// Time to wait for a message that must not arrive.
const SHORT: Duration = Duration::from_millis(150);

/// Reflects the controller's packets to the port that they name, and sends those of other ports to the controller.
const PROGRAM: &str = include_str!("conformance/p4runtime_shell.p4");

/// The CPU port of the program.
const CPU: &str = "510";

/// A running switch.
struct Switch {
    child: Child,
    address: SocketAddr,
    lines: mpsc::Receiver<String>,
    _files: TempDir,
}

impl Switch {
    /// Runs the program with a server.
    fn start(role: &str) -> Switch {
        Self::start_with(role, &["--cpu-port", CPU])
    }

    fn start_with(role: &str, more: &[&str]) -> Switch {
        let files = TempDir::new(role);
        let program = files.write("program.p4", PROGRAM);
        let mut command = common::p4jet();
        command.args(["run", &program, "--no-control", "--p4runtime", "127.0.0.1:0"]).args(more);
        Self::start_command(command, files)
    }

    fn start_command(mut command: Command, files: TempDir) -> Switch {
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (line, lines) = mpsc::channel();
        std::thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|text| line.send(text)));
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut switch = Switch { child, address, lines, _files: files };
        loop {
            let line: String = switch.lines.recv_timeout(Duration::from_secs(60)).expect("it starts");
            if let Some(at) = line.strip_prefix("P4Runtime at ") {
                let at = at.split([' ', ';']).next().unwrap();
                switch.address.set_port(at.parse::<SocketAddr>().unwrap().port());
            }
            if line.contains(": forwarding between ") {
                assert_ne!(switch.address.port(), 0, "the address comes first");
                return switch;
            }
        }
    }

    fn client(&self) -> Client {
        Client::connect(self.address).unwrap()
    }

    /// A stream of the primary with election id 1.
    fn primary(&self, client: &Client) -> Stream {
        let mut stream = client.stream().unwrap();
        let update = stream.arbitrate(1, None, Some(1)).unwrap();
        assert_eq!(status(&update), Code::Ok);
        stream
    }

    /// Its resident memory in KiB.
    fn memory(&self) -> u64 {
        self.status("VmRSS:")
    }

    /// The most memory that it has had so far, in KiB.
    fn memory_max(&self) -> u64 {
        self.status("VmHWM:")
    }

    /// Its processor time so far, which other load does not change.
    fn processor_time(&self) -> Duration {
        // proc(5): utime and stime are fields 14 and 15, and the first one after the name is the third; 100 ticks per second.
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields = stat.rsplit(')').next().unwrap().split_whitespace();
        let ticks: u64 = fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum();
        Duration::from_millis(ticks * 10)
    }

    fn status(&self, name: &str) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Calls a function as another user. Credentials belong to threads, and threads pass them on to those that they start.
fn as_user<T: Send>(user: u32, call: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: the system call changes only the credentials of this thread.
            let done = unsafe { libc::syscall(libc::SYS_setresuid, user, user, user) };
            assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
            call()
        });
        thread.join().unwrap()
    })
}

#[test]
fn other_users_of_the_machine_are_refused_on_loopback() {
    // SAFETY: the system call only reads.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("SKIPPED: only root can call as another user");
        return;
    }
    const OTHER: u32 = 54_321;
    let capabilities = |address| as_user(OTHER, move || Client::connect(address).unwrap().capabilities(0));
    let own = Switch::start_with("own-users", &[]);
    own.client().capabilities(0).unwrap();
    let refused = capabilities(own.address).unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
    assert!(refused.message().contains("user 54321 may not control this switch"), "{refused}");
    let stream = as_user(OTHER, || Client::connect(own.address).unwrap().stream().map(drop));
    assert_eq!(stream.unwrap_err().code(), Code::PermissionDenied);
    for allowed in ["54321", "all"] {
        let shared = Switch::start_with("allowed-users", &["--allow-users", allowed]);
        capabilities(shared.address).unwrap();
    }
    // p4jet cannot identify the users of other machines, so an address that they can reach admits everyone.
    let files = TempDir::new("open-address");
    let mut command = common::p4jet();
    command.args(["run", &files.write("program.p4", PROGRAM), "--no-control", "--p4runtime", "0.0.0.0:0"]);
    let open = Switch::start_command(command, files);
    capabilities((std::net::Ipv4Addr::LOCALHOST, open.address.port()).into()).unwrap();
}

fn status(update: &v1::MasterArbitrationUpdate) -> Code {
    Code::from_i32(update.status.as_ref().map_or(-1, |status| status.code))
}

fn id(update: &v1::MasterArbitrationUpdate) -> Option<u64> {
    update.election_id.as_ref().map(|id| id.low)
}

fn election_id(id: u64) -> Option<v1::Uint128> {
    Some(v1::Uint128 { high: 0, low: id })
}

fn write_request(updates: Vec<v1::Update>) -> v1::WriteRequest {
    v1::WriteRequest { device_id: 1, election_id: election_id(1), updates, ..Default::default() }
}

fn set_request(
    action: v1::ConfigAction,
    program: &str,
    cookie: Option<u64>,
) -> v1::SetForwardingPipelineConfigRequest {
    let config = v1::ForwardingPipelineConfig {
        p4info: Some(p4info(program)),
        p4_device_config: Bytes::copy_from_slice(program.as_bytes()),
        cookie: cookie.map(|cookie| v1::Cookie { cookie }),
    };
    v1::SetForwardingPipelineConfigRequest {
        device_id: 1,
        election_id: election_id(1),
        action: action as i32,
        config: Some(config),
        ..Default::default()
    }
}

/// The P4Info of a program.
fn p4info(program: &str) -> config::P4Info {
    let files = TempDir::new("p4info");
    let path = files.write("program.p4", program);
    let out = files.file("out.bin");
    common::run(&["p4info", &path, "--format", "binary", "-o", &out]).expect_status(0);
    config::P4Info::decode(Bytes::from(std::fs::read(&out).unwrap())).unwrap()
}

fn get(client: &Client, response_type: v1::ResponseType) -> Option<v1::ForwardingPipelineConfig> {
    let request =
        v1::GetForwardingPipelineConfigRequest { device_id: 1, response_type: response_type as i32 };
    client.get_pipeline(&request).unwrap()
}

#[track_caller]
fn expect<T: std::fmt::Debug>(result: Result<T, Status>, code: Code, words: &str) {
    let status = result.expect_err("it is refused");
    assert_eq!(status.code(), code, "{status}");
    assert!(status.message().contains(words), "{status}");
}

fn named(name: &str) -> Option<v1::Role> {
    Some(v1::Role { name: name.to_string(), ..Default::default() })
}

fn packet_out(port: u64, payload: &[u8]) -> v1::StreamRequest {
    let metadata =
        |metadata_id, value: &[u8]| v1::PacketMetadata { metadata_id, value: Bytes::copy_from_slice(value) };
    v1::StreamRequest::Packet(v1::PacketOut {
        payload: Bytes::copy_from_slice(payload),
        // With leading zeros, as the tutorials send them.
        metadata: vec![metadata(1, &port.to_be_bytes()), metadata(2, &[0])],
    })
}

/// A frame of Ethernet.
fn frame(number: u64, bytes: usize) -> Vec<u8> {
    let mut frame = vec![0; bytes.max(14)];
    frame[..8].copy_from_slice(&number.to_be_bytes());
    frame
}

// --------------------------------------------------------------------------------------------------------------------------------
// Transport

#[test]
fn t_1_methods_that_do_not_exist_are_unimplemented() {
    let switch = Switch::start("t1");
    let client = switch.client();
    expect(client.call("Nonsense", Bytes::new()), Code::Unimplemented, "no such method");
    // CP-1, CP-2, CP-3.
    assert_eq!(client.capabilities(0).unwrap().p4runtime_api_version, "1.5.0");
    assert_eq!(client.capabilities(1).unwrap().p4runtime_api_version, "1.5.0");
    expect(client.capabilities(7), Code::NotFound, "there is no device 7; this switch is device 1");
    expect(client.call("Write", Bytes::from_static(b"\xff\xff")), Code::InvalidArgument, "cannot be decoded");
}

#[test]
fn t_4_a_message_over_the_limit_fails_alone() {
    let switch = Switch::start("t4");
    let client = switch.client();
    let stream = switch.primary(&client);
    let before = switch.memory();
    for announced in [1u32 << 30, u32::MAX, 257 << 20, 5 << 20] {
        let method = if announced == 5 << 20 { "GetForwardingPipelineConfig" } else { "Write" };
        let raw = Announcing::open(switch.address, method, announced);
        let status = raw.status();
        assert!(status.contains("grpc-status: 8"), "{announced}: {status}");
    }
    assert!(switch.memory() < before + (32 << 10), "{} and then {} KiB", before, switch.memory());
    // The connection and the stream stay open. T-3: 8 MiB are no problem.
    let large = v1::WriteRequest { role: "x".repeat(8 << 20), ..write_request(Vec::new()) };
    expect(
        client.write(&large),
        Code::ResourceExhausted,
        "the role's name has 8388608 bytes, expected at most 256",
    );
    client.write(&write_request(Vec::new())).unwrap();
    drop(stream);
}

/// Requests and messages on streams may be compressed. The limits apply to what they expand to.
#[test]
fn t_4_compressed_messages_have_the_same_limits() {
    let switch = Switch::start("gzip");
    let mut client = switch.client();
    client.compress();
    let mut stream = switch.primary(&client);
    stream.send(packet_out(510, &frame(1, 60))).unwrap();
    assert!(matches!(stream.next(LONG), Ok(Some(v1::StreamResponse::Packet(_)))));
    let large = v1::WriteRequest { role: "x".repeat(8 << 20), ..write_request(Vec::new()) };
    expect(
        client.write(&large),
        Code::ResourceExhausted,
        "the role's name has 8388608 bytes, expected at most 256",
    );
    let before = switch.memory();
    let mut request =
        v1::GetForwardingPipelineConfigRequest { device_id: 1, response_type: 0 }.encode_to_vec();
    prost::encoding::bytes::encode(15, &vec![0u8; 128 << 20], &mut request);
    expect(
        client.call("GetForwardingPipelineConfig", request.into()),
        Code::ResourceExhausted,
        "expands to more than 4194304 bytes",
    );
    assert!(switch.memory() < before + (32 << 10), "{} and then {} KiB", before, switch.memory());
    // The connection and the stream stay open.
    client.write(&write_request(Vec::new())).unwrap();
    stream.send(packet_out(510, &frame(1, 60))).unwrap();
    assert!(matches!(stream.next(LONG), Ok(Some(v1::StreamResponse::Packet(_)))));
}

/// The limit of each method is at least 4 MiB, and that of a stream, too.
#[test]
fn t_3_and_se_3_messages_of_4_mib() {
    let switch = Switch::start("t3");
    let client = switch.client();
    let mut stream = switch.primary(&client);
    // An unknown field beside the device id.
    let mut request =
        v1::GetForwardingPipelineConfigRequest { device_id: 1, response_type: 0 }.encode_to_vec();
    prost::encoding::bytes::encode(15, &vec![7u8; (4 << 20) - 64], &mut request);
    for method in ["GetForwardingPipelineConfig", "Read", "Capabilities"] {
        client.call(method, request.clone().into()).unwrap();
    }
    stream.send(packet_out(510, &vec![0; (4 << 20) - 64])).unwrap();
    match stream.next(LONG) {
        Ok(Some(v1::StreamResponse::Error(error))) => {
            assert_eq!(error.canonical_code, Code::InvalidArgument as i32, "{}", error.message);
            assert!(error.message.contains("expected at most"), "{}", error.message);
        }
        other => panic!("{other:?}"),
    }
    stream.send(packet_out(510, &frame(1, 60))).unwrap();
    assert!(matches!(stream.next(LONG), Ok(Some(v1::StreamResponse::Packet(_)))));
}

/// [`PROGRAM`] with a table `spread` that has an action selector.
fn with_selector() -> String {
    let program = PROGRAM.replace(
        "table ports {",
        "@selector_size_semantics(\"sum_of_members\") action_selector(HashAlgorithm.crc16, 4096, 14) paths;
        table spread {
            key = { h.ethernet.dst: exact; h.ethernet.src: selector; }
            actions = { forward; NoAction; }
            implementation = paths;
            size = 4096;
        }
        table ports {",
    );
    program.replace("ports.apply();", "spread.apply(); ports.apply();")
}

/// Adds an entry of `spread` whose one-shot has one action of this weight.
fn one_shot(info: &config::P4Info, dst: u16, weight: i32) -> v1::Update {
    let table = info.tables.iter().find(|t| t.preamble.as_ref().unwrap().alias == "spread").unwrap();
    let v1::EntityKind::TableEntry(entry) = forward(info, 1, &[1]) else { panic!("an entry") };
    let Some(v1::TableActionType::Action(action)) = entry.action.unwrap().r#type else { panic!("an action") };
    let weighted = v1::ActionProfileAction { action: Some(action), weight, watch_kind: None };
    let set = v1::ActionProfileActionSet { action_profile_actions: vec![weighted], ..Default::default() };
    let value = Bytes::copy_from_slice(&dst.to_be_bytes());
    let key = v1::FieldMatchType::Exact(v1::Exact { value });
    let entry = v1::TableEntry {
        table_id: table.preamble.as_ref().unwrap().id,
        r#match: vec![v1::FieldMatch { field_id: 1, field_match_type: Some(key) }],
        action: Some(v1::TableAction { r#type: Some(v1::TableActionType::ActionProfileActionSet(set)) }),
        ..Default::default()
    };
    update(v1::UpdateType::Insert, v1::EntityKind::TableEntry(entry))
}

/// OS-12 holds for programs that a client commits, too.
#[test]
fn os_12_commands_cannot_change_one_shots_of_a_committed_program() {
    let files = TempDir::new("committed");
    let (path, socket) = (files.write("program.p4", with_selector()), files.file("s"));
    let mut command = common::p4jet();
    command.args(["run", &path, "--control", &socket, "--p4runtime", "127.0.0.1:0"]);
    let switch = Switch::start_command(command, files);
    let client = switch.client();
    let _stream = switch.primary(&client);
    let set = set_request(v1::ConfigAction::VerifyAndCommit, &with_selector(), None);
    client.set_pipeline(&set).unwrap();
    client.write(&write_request(vec![one_shot(&p4info(&with_selector()), 1, 5)])).unwrap();
    common::run(&["ctl", "--socket", &socket, "act_prof_create_member paths NoAction"])
        .expect_status(1)
        .says(&["delete their entries before you add members or groups"]);
}

/// Memory that a group of many places or a Read would take is checked before it is taken.
#[test]
fn memory_for_groups_and_reads_is_checked() {
    let program = with_selector();
    let files = TempDir::new("claims");
    let path = files.write("program.p4", &program);
    let mut command = common::p4jet();
    command.args(["run", &path, "--no-control", "--p4runtime", "127.0.0.1:0"]);
    let switch = Switch::start_command(command, files);
    let client = switch.client();
    let _stream = switch.primary(&client);
    let info = p4info(&program);
    let one_shot = |dst: u16| one_shot(&info, dst, 1 << 16);
    client.write(&write_request(vec![one_shot(1)])).unwrap();
    client.read(&all_entries()).unwrap();
    let address_space = |more: Option<u64>| {
        let text = std::fs::read_to_string(format!("/proc/{}/status", switch.child.id())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
        let used: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
        super::control::limit(switch.child.id(), libc::RLIMIT_AS, more.map(|mib| (used << 10) + (mib << 20)));
    };
    // 2,000 groups of 256 KiB are 500 MiB.
    address_space(Some(160));
    let refused = (0..40).map(|batch| {
        let updates = (0..50).map(|n| one_shot(2 + 50 * batch + n)).collect();
        client.write(&write_request(updates))
    });
    let status = refused.map(Result::err).find_map(|status| status).expect("memory is short");
    let errors = errors(&status);
    let refused = errors.iter().find(|error| error.canonical_code != 0).expect("an update is refused");
    assert_eq!(refused.canonical_code, Code::ResourceExhausted as i32, "{refused:?}");
    assert!(refused.message.contains("no memory: a group of weight 65536 may need"), "{refused:?}");
    address_space(Some(8));
    expect(client.read(&all_entries()), Code::ResourceExhausted, "no memory: a Read may need 17 MiB");
    address_space(None);
    assert!(client.read(&all_entries()).unwrap().len() > 50);
    client.write(&write_request(vec![one_shot(4000)])).unwrap();
}

#[test]
fn t_6_a_client_with_one_thread_works() {
    let switch = Switch::start("t6");
    let client = switch.client();
    let mut stream = client.stream().unwrap();
    let update = stream.arbitrate(1, None, Some(1)).unwrap();
    assert_eq!(status(&update), Code::Ok);
    client.write(&write_request(Vec::new())).unwrap();
    stream.half_close();
    assert_eq!(stream.next(LONG).unwrap(), None);
    // A-22: the id is free before the client sees the end.
    let client = switch.client();
    let mut again = client.stream().unwrap();
    assert_eq!(status(&again.arbitrate(1, None, Some(1)).unwrap()), Code::Ok);
}

#[test]
fn t_7_a_client_that_vanishes_frees_its_id() {
    let switch = Switch::start("t7");
    let mut backup = switch.client().stream().unwrap();
    let client = switch.client();
    let stream = switch.primary(&client);
    let survivor = switch.client();
    let mut other = survivor.stream().unwrap();
    assert_eq!(status(&other.arbitrate(1, None, Some(0)).unwrap()), Code::AlreadyExists);
    drop((stream, client));
    // A-18.
    assert_eq!(status(&other.arbitration().unwrap()), Code::NotFound);
    // Its own client has ended.
    assert!(backup.arbitrate(1, None, Some(1)).is_err());
    let client = switch.client();
    switch.primary(&client);
}

#[test]
fn t_7_a_request_ends_when_its_time_is_over() {
    let switch = Switch::start("t7late");
    let client = switch.client();
    let _stream = switch.primary(&client);
    let info = p4info(PROGRAM);
    let write = |dst| {
        let insert = update(v1::UpdateType::Insert, forward(&info, dst, &[1]));
        write_request(vec![insert]).encode_to_vec()
    };
    let time = Some(Duration::from_millis(300));
    // Its message is incomplete; later requests of the client wait for it until then.
    let half = client.begin("Write", &write(7), time).unwrap();
    let begun = Instant::now();
    client.write(&write_request(Vec::new())).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    expect(half.give_up(), Code::DeadlineExceeded, "`grpc-timeout`");
    expect(client.begin("Read", &[8, 1], time).unwrap().give_up(), Code::DeadlineExceeded, "`grpc-timeout`");
    // It waits for its turn.
    let first = client.begin("Write", &write(8), None).unwrap();
    let second = client.begin("Write", &write(9), time).unwrap();
    expect(second.finish(), Code::DeadlineExceeded, "`grpc-timeout`");
    first.finish().unwrap();
    client.begin("Write", &write(10), Some(LONG)).unwrap().finish().unwrap();
    assert_eq!(forwarded(&client), [(8, 1), (10, 1)]);
}

// --------------------------------------------------------------------------------------------------------------------------------
// Arbitration

#[test]
fn a_22_an_id_is_free_when_its_old_stream_ends_a_little_later() {
    let switch = Switch::start("a22");
    let (old, new) = (switch.client(), switch.client());
    let mut first = switch.primary(&old);
    std::thread::scope(|threads| {
        let again = threads.spawn(|| {
            let mut stream = new.stream().unwrap();
            let update = stream.arbitrate(1, None, Some(1)).unwrap();
            (status(&update), stream)
        });
        std::thread::sleep(Duration::from_millis(80));
        // Others do not wait meanwhile.
        let mut other = old.stream().unwrap();
        assert_eq!(status(&other.arbitrate(1, None, Some(0)).unwrap()), Code::AlreadyExists);
        assert!(!again.is_finished());
        first.half_close();
        let (standing, stream) = again.join().unwrap();
        assert_eq!(standing, Code::Ok);
        // A-3: an old stream that stays is no reason to wait for long.
        let begun = Instant::now();
        let late = old.stream().unwrap().arbitrate(1, None, Some(1));
        expect(late, Code::InvalidArgument, "Election id already exists");
        assert!((Duration::from_millis(200)..Duration::from_secs(5)).contains(&begun.elapsed()));
        drop(stream);
    });
}

#[test]
fn a_1_before_arbitration_messages_are_dropped() {
    let switch = Switch::start("a1");
    let client = switch.client();
    let mut stream = client.stream().unwrap();
    stream.send(packet_out(1, &frame(1, 60))).unwrap();
    match stream.next(LONG).unwrap() {
        Some(v1::StreamResponse::Error(error)) => {
            assert_eq!(error.canonical_code, Code::PermissionDenied as i32)
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(status(&stream.arbitrate(1, None, Some(1)).unwrap()), Code::Ok);
}

#[test]
fn a_2_to_a_8_wrong_updates_end_the_stream() {
    let switch = Switch::start("a2");
    let client = switch.client();
    let mut first = switch.primary(&client);
    let stream = || client.stream().unwrap();
    // A-2.
    expect(stream().arbitrate(2, None, Some(5)), Code::NotFound, "there is no device 2");
    // A-3: finsy and the shell look for these words.
    expect(stream().arbitrate(1, None, Some(1)), Code::InvalidArgument, "Election id already exists");
    // A-4.
    let mut other = stream();
    assert_eq!(status(&other.arbitrate(1, named("r"), Some(1)).unwrap()), Code::Ok);
    // A-5, R-3.
    let config = Some(google::Any { type_url: "x".to_string(), ..Default::default() });
    let role = Some(v1::Role { config, ..named("r").unwrap() });
    expect(stream().arbitrate(1, role, Some(5)), Code::InvalidArgument, "role.config");
    // R-2.
    let role = Some(v1::Role { id: 3, ..Default::default() });
    expect(stream().arbitrate(1, role, Some(5)), Code::InvalidArgument, "role.id");
    // A-7.
    expect(other.arbitrate(1, named("s"), Some(1)), Code::FailedPrecondition, "role");
    let mut other = stream();
    assert_eq!(status(&other.arbitrate(1, named("r"), Some(1)).unwrap()), Code::Ok);
    expect(other.arbitrate(2, named("r"), Some(1)), Code::FailedPrecondition, "device id");
    // A-8.
    let mut backup = stream();
    assert_eq!(status(&backup.arbitrate(1, None, Some(0)).unwrap()), Code::AlreadyExists);
    expect(backup.arbitrate(1, None, Some(1)), Code::InvalidArgument, "Election id already exists");
    // A-21: the primary is untouched.
    assert_eq!(status(&first.arbitrate(1, None, Some(1)).unwrap()), Code::Ok);
    // A-24: no StreamError.
    assert_eq!(first.next(SHORT).unwrap_err().code(), Code::DeadlineExceeded);
}

#[test]
fn a_6_streams_are_limited() {
    let switch = Switch::start("a6");
    let client = switch.client();
    let mut streams: Vec<Stream> = (0..64).map(|_| client.stream().unwrap()).collect();
    for (stream, id) in streams.iter_mut().zip(1..) {
        stream.arbitrate(1, None, Some(id)).unwrap();
    }
    let mut more = client.stream().unwrap();
    expect(more.arbitrate(1, None, Some(99)), Code::ResourceExhausted, "64");
}

#[test]
fn z_16_the_names_of_roles_are_limited() {
    let switch = Switch::start("z16");
    let client = switch.client();
    let arbitrate = |bytes: usize| client.stream().unwrap().arbitrate(1, named(&"x".repeat(bytes)), Some(1));
    assert_eq!(status(&arbitrate(256).unwrap()), Code::Ok);
    expect(arbitrate(257), Code::ResourceExhausted, "the role's name has 257 bytes, expected at most 256");
}

#[test]
fn pk_7_the_cpu_port_is_not_0() {
    let files = TempDir::new("pk7");
    let program = files.write("program.p4", PROGRAM);
    let line = ["run", &program, "--p4runtime", "127.0.0.1:0", "--cpu-port", "0"];
    common::run(&line).expect_status(2).says(&["--cpu-port"]);
}

/// An option of the server needs the server, with which ports are optional.
#[test]
fn options_of_the_server_ask_for_no_port() {
    let files = TempDir::new("options");
    let program = files.write("program.p4", PROGRAM);
    for option in ["--cpu-port", "--device-id", "--p4runtime-cert", "--p4runtime-key", "--p4runtime-ca"] {
        let output = common::run(&["run", &program, option, "4"]).expect_status(2).says(&["--p4runtime"]);
        assert!(!output.stderr.contains("-i <N@SPEC>"), "{option}: {}", output.stderr);
    }
}

#[test]
fn a_9_to_a_20_clients_are_notified_of_changes_of_their_role() {
    let switch = Switch::start("a9");
    let client = switch.client();
    let (mut one, mut two) = (client.stream().unwrap(), client.stream().unwrap());
    // A-10: without an id, or before anybody has one, there is no primary. A-16: the role stays absent.
    let update = one.arbitrate(1, None, None).unwrap();
    assert_eq!((status(&update), id(&update), update.role.clone()), (Code::NotFound, None, None));
    // A-17: the primary's status is empty but for its code.
    let update = two.arbitrate(1, None, Some(5)).unwrap();
    assert_eq!(update.status, Some(google::Status::default()));
    let update = one.arbitration().unwrap();
    assert_eq!((status(&update), id(&update)), (Code::AlreadyExists, Some(5)));
    let message = update.status.unwrap().message;
    assert_eq!(message, "Is backup: another client is primary, with the election id 5");
    // A-14: everybody hears of an unchanged update of the primary.
    two.arbitrate(1, None, Some(5)).unwrap();
    one.arbitration().unwrap();
    // A-15: a backup's update is answered alone.
    one.arbitrate(1, None, Some(4)).unwrap();
    assert_eq!(two.next(SHORT).unwrap_err().code(), Code::DeadlineExceeded);
    // A-12: the new primary is notified, and the old one.
    let update = one.arbitrate(1, None, Some(6)).unwrap();
    assert_eq!((status(&update), id(&update)), (Code::Ok, Some(6)));
    assert_eq!(status(&two.arbitration().unwrap()), Code::AlreadyExists);
    // A-9: it steps back; no client is promoted (A-18), and the highest id stays (A-11, A-16).
    let update = one.arbitrate(1, None, Some(3)).unwrap();
    assert_eq!((status(&update), id(&update)), (Code::NotFound, Some(6)));
    let message = update.status.unwrap().message;
    let why = "Is backup: no client is primary until a stream has an election id of at least 6";
    assert_eq!(message, why);
    assert_eq!(status(&two.arbitration().unwrap()), Code::NotFound);
    // A-26: another role on another stream.
    let mut third = client.stream().unwrap();
    let update = third.arbitrate(1, named("r"), Some(1)).unwrap();
    assert_eq!((status(&update), update.role), (Code::Ok, named("r")));
    // A-19.
    drop(two);
    assert_eq!(one.next(SHORT).unwrap_err().code(), Code::DeadlineExceeded);
}

#[test]
fn a_12_nothing_of_the_old_primary_happens_after_the_new_one_was_notified() {
    let switch = Switch::start("a12");
    let client = switch.client();
    let _stream = switch.primary(&client);
    let (notify, is_notified) = mpsc::channel::<()>();
    let address = switch.address;
    let flood = std::thread::spawn(move || {
        let client = Client::connect(address).unwrap();
        let (mut allowed, mut begun_after, mut is_over) = (0, 0, false);
        loop {
            is_over = is_over || is_notified.try_recv().is_ok();
            match client.write(&write_request(Vec::new())) {
                Ok(()) if is_over => begun_after += 1,
                Ok(()) => allowed += 1,
                Err(status) => {
                    assert_eq!(status.code(), Code::PermissionDenied, "{status}");
                    return (allowed, begun_after);
                }
            }
        }
    });
    std::thread::sleep(Duration::from_millis(100));
    let mut new = client.stream().unwrap();
    assert_eq!(status(&new.arbitrate(1, None, Some(2)).unwrap()), Code::Ok);
    // The old primary may have been refused already.
    let _ = notify.send(());
    let (allowed, begun_after) = flood.join().unwrap();
    assert!(allowed > 0);
    assert_eq!(begun_after, 0);
}

#[test]
fn z_2_and_z_3_simple_switch_grpc_takes_any_device_and_forgets_ids() {
    let files = TempDir::new("z2");
    let program = files.write("program.p4", PROGRAM);
    let mut command = common::p4jet();
    command.args([
        "simple_switch_grpc",
        &program,
        "--device-id",
        "3",
        "--",
        "--grpc-server-addr",
        "127.0.0.1:0",
    ]);
    command.args(["--cpu-port", CPU]);
    let switch = Switch::start_command(command, files);
    let client = switch.client();
    for device in [0, 1, 3, 77] {
        let mut stream = client.stream().unwrap();
        let update = stream.arbitrate(device, None, Some(1 << 64)).unwrap();
        assert_eq!((status(&update), update.device_id), (Code::Ok, device));
        stream.half_close();
        assert_eq!(stream.next(LONG).unwrap(), None);
        // The shell's id (1, 0) does not lock out (0, 1).
        let mut stream = client.stream().unwrap();
        assert_eq!(status(&stream.arbitrate(device, None, Some(1)).unwrap()), Code::Ok);
    }
}

// --------------------------------------------------------------------------------------------------------------------------------
// Roles and requests of the wrong sender

#[test]
fn w_1_and_r_5_who_may_write() {
    let switch = Switch::start("w1");
    let client = switch.client();
    // Z-4, W-2: without a session.
    let anonymous = v1::WriteRequest { election_id: None, ..write_request(Vec::new()) };
    let why = "Not primary: the request has no election id, and no client is primary until a stream has an election id";
    expect(client.write(&anonymous), Code::PermissionDenied, why);
    let _stream = switch.primary(&client);
    let why = "Not primary: the request has no election id, and the primary has 1";
    expect(client.write(&anonymous), Code::PermissionDenied, why);
    let wrong = v1::WriteRequest { election_id: election_id(2), ..write_request(Vec::new()) };
    let why = "Not primary: the request has the election id 2, and the primary has 1";
    expect(client.write(&wrong), Code::PermissionDenied, why);
    expect(client.write(&v1::WriteRequest { device_id: 9, ..wrong.clone() }), Code::NotFound, "no device 9");
    expect(client.write(&v1::WriteRequest { role: "r".into(), ..wrong.clone() }), Code::NotFound, "`r`");
    expect(client.write(&v1::WriteRequest { role_id: 4, ..wrong }), Code::NotFound, "role_id");
    // W-3.
    client.write(&write_request(Vec::new())).unwrap();
    // W-14.
    let wrong = v1::WriteRequest { atomicity: 9, ..write_request(Vec::new()) };
    expect(client.write(&wrong), Code::InvalidArgument, "atomicity is 9");
    // W-15, W-16, T-9: one error per update, in details that clients can unpack.
    let failed = client.write(&write_request(vec![v1::Update::default(); 3])).unwrap_err();
    assert_eq!((failed.code(), failed.message()), (Code::Unknown, "Write failure: 3 of 3 updates"));
    let details = google::Status::decode(failed.details()).unwrap();
    assert_eq!((details.code, details.message.as_str()), (Code::Unknown as i32, failed.message()));
    assert!(details.details.iter().all(|any| any.type_url == "type.googleapis.com/p4.v1.Error"));
    assert_eq!(errors(&failed).len(), 3);
    // Q-1.
    let read = v1::ReadRequest { device_id: 9, ..Default::default() };
    expect(client.read(&read), Code::NotFound, "no device 9");
    assert_eq!(client.read(&v1::ReadRequest { device_id: 1, ..read }).unwrap(), []);
}

/// A configuration of Stratum's scheme.
fn role_config(config: &stratum::P4RoleConfig) -> Option<google::Any> {
    let type_url = "type.googleapis.com/stratum.P4RoleConfig".to_string();
    Some(google::Any { type_url, value: config.encode_to_vec().into() })
}

/// An entry of the program's table that sends packets for an address to a port.
fn forward(p4info: &config::P4Info, dst: u64, port: &[u8]) -> v1::EntityKind {
    let action = p4info.actions.iter().find(|a| a.preamble.as_ref().unwrap().alias == "forward").unwrap();
    let exact = v1::Exact { value: dst.to_be_bytes().to_vec().into() };
    let argument = v1::ActionParam { param_id: 1, value: Bytes::copy_from_slice(port) };
    let action = v1::Action { action_id: action.preamble.as_ref().unwrap().id, params: vec![argument] };
    v1::EntityKind::TableEntry(v1::TableEntry {
        table_id: p4info.tables[0].preamble.as_ref().unwrap().id,
        r#match: vec![v1::FieldMatch {
            field_id: 1,
            field_match_type: Some(v1::FieldMatchType::Exact(exact)),
        }],
        action: Some(v1::TableAction { r#type: Some(v1::TableActionType::Action(action)) }),
        ..Default::default()
    })
}

#[test]
fn r_3_r_6_and_r_8_a_role_may_access_granted_objects() {
    let switch = Switch::start("r3");
    let client = switch.client();
    let _default = switch.primary(&client);
    let info = p4info(PROGRAM);
    let table = info.tables[0].preamble.as_ref().unwrap().id;
    let role = |name: &str, config: Option<google::Any>| {
        Some(v1::Role { name: name.to_string(), config, ..Default::default() })
    };
    let update = || update(v1::UpdateType::Insert, forward(&info, 1, &[1]));
    let write = |role: &str| {
        client.write(&v1::WriteRequest { role: role.to_string(), ..write_request(vec![update()]) })
    };
    let code =
        |result: Result<(), Status>| result.map_or_else(|status| errors(&status)[0].canonical_code, |()| 0);
    let read = |role: &str| {
        let entities = vec![v1::Entity { entity: Some(v1::EntityKind::TableEntry(Default::default())) }];
        client.read(&v1::ReadRequest { device_id: 1, role: role.to_string(), entities }).unwrap().len()
    };
    // A-5: other schemes end the stream.
    for (name, config, words) in [
        ("r", Some(google::Any { type_url: "x/y.Z".to_string(), ..Default::default() }), "y.Z"),
        (
            "r",
            Some(google::Any {
                value: Bytes::from_static(&[8]),
                ..role_config(&Default::default()).unwrap()
            }),
            "decoded",
        ),
        (
            "",
            role_config(&stratum::P4RoleConfig { can_push_pipeline: true, ..Default::default() }),
            "default role",
        ),
    ] {
        let mut stream = client.stream().unwrap();
        expect(stream.arbitrate(1, role(name, config), Some(1)), Code::InvalidArgument, words);
    }
    // Nothing is granted.
    let mut stream = client.stream().unwrap();
    let nothing = role_config(&stratum::P4RoleConfig::default());
    assert_eq!(status(&stream.arbitrate(1, role("r", nothing.clone()), Some(1)).unwrap()), Code::Ok);
    assert_eq!((code(write("r")), code(write("")), read("r"), read("")), (7, 0, 0, 1));
    let set = v1::SetForwardingPipelineConfigRequest {
        role: "r".to_string(),
        ..set_request(v1::ConfigAction::Verify, PROGRAM, None)
    };
    expect(client.set_pipeline(&set), Code::PermissionDenied, "does not let it set the pipeline");
    // A-16, A-20: backups hear of the primary's configuration.
    let mut backup = client.stream().unwrap();
    let answer = backup.arbitrate(1, role("r", None), Some(0)).unwrap();
    assert_eq!(answer.role.unwrap().config, nothing);
    let grants = stratum::P4RoleConfig {
        exclusive_p4_ids: vec![table],
        packet_in_filter: Some(stratum::PacketFilter { metadata_id: 2, value: Bytes::from_static(&[0, 5]) }),
        receives_packet_ins: true,
        can_push_pipeline: true,
        ..Default::default()
    };
    let given = role_config(&grants);
    stream.arbitrate(1, role("r", given.clone()), Some(1)).unwrap();
    assert_eq!(backup.arbitration().unwrap().role.unwrap().config, given);
    assert_eq!((code(write("r")), read("r")), (6, 1));
    client.set_pipeline(&set).unwrap();
    // Nobody else gets what one role has exclusively.
    let mut other = client.stream().unwrap();
    expect(other.arbitrate(1, role("s", given), Some(1)), Code::InvalidArgument, "which the role `r` has");
    // R-8: packets that pass the filter.
    let mut sender = client.stream().unwrap();
    sender.arbitrate(1, role("t", nothing), Some(1)).unwrap();
    sender.send(packet_out(510, &frame(7, 100))).unwrap();
    match stream.next(LONG).unwrap() {
        Some(v1::StreamResponse::Packet(packet)) => assert_eq!(packet.metadata[1].value[0], 5),
        other => panic!("{other:?}"),
    }
    let mut grants = grants;
    grants.packet_in_filter.as_mut().unwrap().value = Bytes::from_static(&[4]);
    stream.arbitrate(1, role("r", role_config(&grants)), Some(1)).unwrap();
    sender.send(packet_out(510, &frame(7, 100))).unwrap();
    assert_eq!(stream.next(SHORT).unwrap_err().code(), Code::DeadlineExceeded);
    // A role without configuration may do everything, as no table is marked.
    let mut free = client.stream().unwrap();
    free.arbitrate(1, role("free", None), Some(1)).unwrap();
    assert_eq!((code(write("free")), read("free")), (6, 1));
}

#[test]
fn a_23_and_tr_4_a_state_file_keeps_ids_strings_and_digests() {
    let files = TempDir::new("a23");
    let cast = "action forward(port_t port) { s.egress_spec = (bit<9>)port; }";
    let program = named_ports().replace("action forward(bit<9> port) { s.egress_spec = port; }", cast);
    let program = program.replace(
        "    apply {\n        s.egress_spec = 510;",
        "    apply {\n        digest<bit<48>>(1, h.ethernet.src);\n        s.egress_spec = 510;",
    );
    let (path, state) = (files.write("program.p4", &program), files.file("state"));
    let start = || {
        let mut command = common::p4jet();
        command.args(["run", &path, "--no-control", "--p4runtime", "127.0.0.1:0", "--state", &state]);
        Switch::start_command(command, TempDir::new("a23-run"))
    };
    let info = p4info(&program);
    let digest = v1::EntityKind::DigestEntry(v1::DigestEntry {
        digest_id: info.digests[0].preamble.as_ref().unwrap().id,
        config: Some(v1::DigestConfig::default()),
    });
    let request = |id, updates| v1::WriteRequest { election_id: election_id(id), ..write_request(updates) };
    let all =
        [v1::EntityKind::TableEntry(Default::default()), v1::EntityKind::DigestEntry(Default::default())];
    let read = |client: &Client| {
        let entities = all.iter().map(|kind| v1::Entity { entity: Some(kind.clone()) }).collect();
        let read = v1::ReadRequest { device_id: 1, entities, ..Default::default() };
        client.read(&read).unwrap().into_iter().map(|entity| entity.entity.unwrap()).collect::<Vec<_>>()
    };
    let entries = [forward(&info, 1, b"Ethernet0"), forward(&info, 2, b"7"), forward(&info, 3, b"Ethernet4")];
    let written: Vec<_> = entries.iter().chain([&digest]).cloned().collect();
    let switch = start();
    let client = switch.client();
    let mut stream = client.stream().unwrap();
    assert_eq!(status(&stream.arbitrate(1, None, Some(7)).unwrap()), Code::Ok);
    let update = |kind: &v1::EntityKind| update(v1::UpdateType::Insert, kind.clone());
    client.write(&request(7, written.iter().map(update).collect())).unwrap();
    let shown = read(&client);
    assert_eq!(shown.len(), 4);
    assert_eq!(shown.iter().filter(|kind| format!("{kind:?}").contains("Ethernet")).count(), 2);
    drop(switch);
    let switch = start();
    let client = switch.client();
    assert_eq!(read(&client), shown);
    // A-23: an id below the highest is backup.
    let mut stream = client.stream().unwrap();
    let answer = stream.arbitrate(1, None, Some(6)).unwrap();
    assert_eq!((status(&answer), id(&answer)), (Code::NotFound, Some(7)));
    // New strings get different numbers.
    assert_eq!(status(&stream.arbitrate(1, None, Some(8)).unwrap()), Code::Ok);
    client.write(&request(8, vec![update(&forward(&info, 4, b"Ethernet8"))])).unwrap();
    let ports = read(&client).iter().filter(|kind| format!("{kind:?}").contains("Ethernet")).count();
    assert_eq!(ports, 3);
    // P-11: and so does a reconciliation; a commit forgets them, but no election id.
    let set = |action| v1::SetForwardingPipelineConfigRequest {
        election_id: election_id(8),
        ..set_request(action, &program, None)
    };
    let before = read(&client);
    client.set_pipeline(&set(v1::ConfigAction::ReconcileAndCommit)).unwrap();
    assert_eq!(read(&client), before);
    client.set_pipeline(&set(v1::ConfigAction::VerifyAndCommit)).unwrap();
    assert_eq!(read(&client), []);
    client.write(&request(8, Vec::new())).unwrap();
    drop(switch);
    let switch = start();
    let client = switch.client();
    let mut stream = client.stream().unwrap();
    assert_eq!(id(&stream.arbitrate(1, None, Some(6)).unwrap()), Some(8));
}

// --------------------------------------------------------------------------------------------------------------------------------
// Pipeline configurations

#[test]
fn p_14_demands_on_the_platform() {
    let switch = Switch::start("p14");
    let client = switch.client();
    let _stream = switch.primary(&client);
    let set = |properties: config::PlatformProperties| {
        let mut request = set_request(v1::ConfigAction::Verify, PROGRAM, None);
        let info = request.config.as_mut().unwrap().p4info.as_mut().unwrap();
        info.pkg_info.get_or_insert_default().platform_properties = Some(properties);
        client.set_pipeline(&request)
    };
    let most = config::PlatformProperties {
        multicast_group_table_size: 65_535,
        multicast_group_table_total_replicas: i32::MAX,
        multicast_group_table_max_replicas_per_entry: 65_536,
    };
    set(most.clone()).unwrap();
    set(config::PlatformProperties::default()).unwrap();
    let groups = config::PlatformProperties { multicast_group_table_size: 65_536, ..most.clone() };
    expect(set(groups), Code::InvalidArgument, "`multicast_group_table_size` is 65536, expected 0 to 65535");
    let replicas =
        config::PlatformProperties { multicast_group_table_max_replicas_per_entry: 65_537, ..most };
    expect(set(replicas), Code::InvalidArgument, "replicas_per_entry` is 65537");
}

#[test]
fn t_10_the_health_of_the_server() {
    let switch = Switch::start("t10");
    let client = switch.client();
    let check =
        |service: &'static [u8]| client.call("/grpc.health.v1.Health/Check", Bytes::from_static(service));
    for service in [&b""[..], b"\x0a\x10p4.v1.P4Runtime"] {
        assert_eq!(check(service).unwrap(), [Bytes::from_static(&[8, 1])]);
    }
    expect(check(b"\x0a\x01x"), Code::NotFound, "the services are");
    let watch =
        |service: &'static [u8]| client.first("/grpc.health.v1.Health/Watch", Bytes::from_static(service));
    assert_eq!(watch(b"").unwrap(), Bytes::from_static(&[8, 1]));
    assert_eq!(watch(b"\x0a\x01x").unwrap(), Bytes::from_static(&[8, 3]));
}

#[test]
fn t_2_the_default_port_is_9559() {
    // The port is taken, so the message names it. Another process that has it may end.
    let end = Instant::now() + Duration::from_secs(60);
    let _taken = loop {
        match std::net::TcpListener::bind("127.0.0.1:9559") {
            Ok(taken) => break taken,
            Err(error) => assert!(Instant::now() < end, "port 9559: {error}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let files = TempDir::new("t2");
    let program = files.write("program.p4", PROGRAM);
    let output = common::p4jet().args(["run", &program, "--no-control", "--p4runtime"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("--p4runtime 127.0.0.1:9559: "), "{text}");
}

#[test]
fn t_11_unknown_fields_are_ignored_and_unknown_values_are_unspecified() {
    let switch = Switch::start("t11");
    let client = switch.client();
    let _stream = switch.primary(&client);
    let mut raw = write_request(Vec::new()).encode_to_vec();
    // Field 1000, a varint.
    raw.extend([0xc0, 0x3e, 1]);
    client.call("Write", raw.into()).unwrap();
    let wrong = v1::WriteRequest { atomicity: 99, ..write_request(Vec::new()) };
    expect(client.write(&wrong), Code::InvalidArgument, "atomicity is 99");
    let set = set_request(v1::ConfigAction::Verify, PROGRAM, None);
    let wrong = v1::SetForwardingPipelineConfigRequest { action: 99, ..set };
    expect(client.set_pipeline(&wrong), Code::InvalidArgument, "action is 99");
    let entity = forward(&p4info(PROGRAM), 1, &[1]);
    let wrong = v1::Update { r#type: 99, entity: Some(v1::Entity { entity: Some(entity) }) };
    let status = client.write(&write_request(vec![wrong])).unwrap_err();
    assert_eq!(errors(&status)[0].canonical_code, Code::InvalidArgument as i32);
}

#[test]
fn p_22_and_pi_21_a_program_of_the_command_line_is_a_configuration() {
    let switch = Switch::start("p22");
    let config = get(&switch.client(), v1::ResponseType::All).unwrap();
    // The file of `p4jet p4info`.
    assert_eq!((config.p4info, config.cookie), (Some(p4info(PROGRAM)), None));
}

/// A program that `ctl load` brings is not that of the client's cookie. Streams end only if the P4Info does not fit it, and only those
/// that were there before.
#[test]
fn p_22_another_program_has_no_cookie() {
    let files = TempDir::new("p22-load");
    let (program, socket) = (files.write("program.p4", PROGRAM), files.file("socket"));
    let other = files.write("other.p4", PROGRAM.replacen("s.egress_spec = 510;", "s.egress_spec = 509;", 1));
    let misfit = files.write("misfit.p4", PROGRAM.replace("ports", "others"));
    let state = files.file("state");
    let start = |program: &str| {
        let mut command = common::p4jet();
        command.args(["run", program, "--control", &socket, "--state", &state]);
        command.args(["--p4runtime", "127.0.0.1:0"]);
        Switch::start_command(command, TempDir::new("p22-run"))
    };
    let switch = start(&program);
    let ctl = |line: &[&str]| {
        common::run(&[&["ctl", "--control", &socket][..], line].concat()).expect_status(0);
    };
    let client = switch.client();
    let mut stream = switch.primary(&client);
    // Ids of the client's own.
    let mut set = set_request(v1::ConfigAction::VerifyAndCommit, PROGRAM, Some(99));
    let info = set.config.as_mut().unwrap().p4info.as_mut().unwrap();
    info.tables[0].preamble.as_mut().unwrap().id += 1;
    client.set_pipeline(&set).unwrap();
    let all = || get(&client, v1::ResponseType::All).unwrap();
    assert_eq!(Some(all()), set.config);
    // The same program, compiled again, is no other one.
    ctl(&["set_queue_rate", "1000"]);
    assert_eq!(Some(all()), set.config);
    ctl(&["load", &other]);
    let p4info_alone =
        v1::ForwardingPipelineConfig { p4info: set.config.unwrap().p4info, ..Default::default() };
    assert_eq!(all(), p4info_alone);
    expect(stream.next(SHORT), Code::DeadlineExceeded, "");
    // A restart with either program finds no cookie.
    drop(switch);
    for program in [&program, &other] {
        let switch = start(program);
        let config = get(&switch.client(), v1::ResponseType::All).unwrap();
        assert_eq!((config.cookie, config.p4_device_config), (None, Bytes::new()));
    }
    let switch = start(&program);
    let client = switch.client();
    for _ in 0..5 {
        client.set_pipeline(&set_request(v1::ConfigAction::VerifyAndCommit, PROGRAM, Some(9))).unwrap_err();
        let mut before = client.stream().unwrap();
        assert_eq!(status(&before.arbitrate(1, None, Some(1)).unwrap()), Code::Ok);
        client.set_pipeline(&set_request(v1::ConfigAction::VerifyAndCommit, PROGRAM, Some(9))).unwrap();
        ctl(&["load", &misfit]);
        let mut after = client.stream().unwrap();
        assert_ne!(status(&after.arbitrate(1, None, Some(0)).unwrap()), Code::Ok);
        expect(before.next(LONG), Code::Aborted, "another program was loaded");
        // It is notified that there is no primary any more.
        match after.next(SHORT) {
            Ok(Some(v1::StreamResponse::Arbitration(update))) => assert_eq!(status(&update), Code::NotFound),
            Err(status) => assert_eq!(status.code(), Code::DeadlineExceeded, "{status}"),
            other => panic!("{other:?}"),
        }
        let config = get(&client, v1::ResponseType::All).unwrap();
        assert_eq!((config.cookie, config.p4info), (None, Some(p4info(&PROGRAM.replace("ports", "others")))));
        ctl(&["load", &program]);
    }
}

#[test]
fn z_17_one_process_is_one_device() {
    let switch = Switch::start("z17");
    let client = switch.client();
    let _stream = switch.primary(&client);
    let words = "there is no device 2; this switch is device 1";
    expect(client.capabilities(2), Code::NotFound, words);
    let write = v1::WriteRequest { device_id: 2, ..write_request(Vec::new()) };
    expect(client.write(&write), Code::NotFound, words);
    expect(client.read(&v1::ReadRequest { device_id: 2, ..all_entries() }), Code::NotFound, words);
    let set = set_request(v1::ConfigAction::Verify, PROGRAM, None);
    let set = v1::SetForwardingPipelineConfigRequest { device_id: 2, ..set };
    expect(client.set_pipeline(&set), Code::NotFound, words);
    let get = v1::GetForwardingPipelineConfigRequest { device_id: 2, response_type: 0 };
    expect(client.get_pipeline(&get), Code::NotFound, words);
    expect(client.stream().unwrap().arbitrate(2, None, Some(5)), Code::NotFound, words);
}

#[test]
fn w_20_writes_in_flight_take_effect_in_their_order() {
    let switch = Switch::start("w20");
    let client = switch.client();
    let _stream = switch.primary(&client);
    let info = p4info(PROGRAM);
    let request = |kind, port| {
        let update = update(kind, forward(&info, 7, &[port]));
        Bytes::from(write_request(vec![update]).encode_to_vec())
    };
    use v1::UpdateType::{Delete, Insert, Modify};
    for round in 0..10 {
        // In any other order, at least one is refused.
        let messages: Vec<Bytes> = (0..20)
            .flat_map(|_| [request(Insert, 1), request(Modify, 2), request(Delete, 2)])
            .chain([request(Insert, 3), request(Modify, round + 1)])
            .collect();
        let results = client.call_at_once("Write", messages);
        let failed = results.iter().position(Result::is_err);
        assert_eq!(failed, None, "{:?}", failed.map(|place| &results[place]));
        assert_eq!(forwarded(&client), [(7, u64::from(round) + 1)]);
        client.write(&write_request(vec![update(Delete, forward(&info, 7, &[1]))])).unwrap();
    }
}

#[test]
fn e_46_a_commit_brings_the_entries_of_the_program_back() {
    let program = PROGRAM.replace(
        "default_action = NoAction();",
        "default_action = NoAction();\n entries = { 1: forward(4); 2: forward(5); }",
    );
    let switch = Switch::start("e46");
    let client = switch.client();
    let _stream = switch.primary(&client);
    let set = |action| client.set_pipeline(&set_request(action, &program, None)).unwrap();
    let info = p4info(&program);
    set(v1::ConfigAction::VerifyAndCommit);
    assert_eq!(forwarded(&client), [(1, 4), (2, 5)]);
    let updates = vec![
        update(v1::UpdateType::Delete, forward(&info, 1, &[4])),
        update(v1::UpdateType::Modify, forward(&info, 2, &[9])),
        update(v1::UpdateType::Insert, forward(&info, 3, &[6])),
    ];
    client.write(&write_request(updates)).unwrap();
    assert_eq!(forwarded(&client), [(2, 9), (3, 6)]);
    set(v1::ConfigAction::ReconcileAndCommit);
    assert_eq!(forwarded(&client), [(2, 9), (3, 6)]);
    set(v1::ConfigAction::VerifyAndCommit);
    assert_eq!(forwarded(&client), [(1, 4), (2, 5)]);
}

#[test]
fn cn_6_check_reports_the_place_of_a_wrong_constraint() {
    let files = TempDir::new("cn6");
    let table = |text: &str| PROGRAM.replace("    table ports {", &format!("    {text}\n    table ports {{"));
    let check = |text: &str| {
        let path = files.write("program.p4", table(text));
        common::run(&["check", "--engine", "interp", &path])
    };
    let first = "@entry_restriction(\"h.ethernet.dst != 0;\n        h.ethernet.dst != 7\")";
    check(first).expect_status(0);
    let wrong = "@entry_restriction(\"h.ethernet.dst != 0;\n        h.ethernet.src != 7\")";
    let line = PROGRAM.lines().position(|line| line.starts_with("    table ports {")).unwrap() + 2;
    let output =
        check(wrong).expect_status(1).says(&["error[annotation]: `@entry_restriction` of `I.ports`"]);
    assert!(output.stderr.contains(&format!("program.p4:{line}:9")), "{}", output.stderr);
    let output = check("@entry_restriction(\"h.ethernet.dst != 0\" \"&& 1 +\")").expect_status(1);
    assert!(output.stderr.contains(&format!("program.p4:{}:52", line - 1)), "{}", output.stderr);
    // A macro moves the columns.
    let output =
        check("\n#define SEVEN 7\n@entry_restriction(\"\n SEVEN == h.ethernet.src\n\")").expect_status(1);
    assert!(output.stderr.contains("line 2, column "), "{}", output.stderr);
    // The parameters of an action.
    let action = "@action_restriction(\"port < 10; prot != 3\") action forward(";
    let path = files.write("program.p4", PROGRAM.replace("action forward(", action));
    common::run(&["check", &path]).expect_status(1).says(&["`@action_restriction` of `I.forward`", "`prot`"]);
    common::run(&["p4info", &path]).expect_status(1).says(&["`@action_restriction` of `I.forward`"]);
}

#[test]
fn clients_that_do_nothing_make_room_for_others() {
    let switch = Switch::start("idle");
    let busy = switch.client();
    let mut stream = switch.primary(&busy);
    let recent = switch.client();
    let idle: Vec<Client> = (0..62).map(|_| switch.client()).collect();
    recent.capabilities(0).unwrap();
    // Each of these takes the place of one that has done nothing for longer.
    let more: Vec<Client> = (0..62)
        .map(|_| {
            let client = switch.client();
            client.capabilities(0).unwrap();
            client
        })
        .collect();
    recent.capabilities(0).unwrap();
    // A stream is not idle.
    busy.write(&write_request(Vec::new())).unwrap();
    assert_eq!(stream.next(SHORT).unwrap_err().code(), Code::DeadlineExceeded);
    let gone = idle.iter().filter(|client| client.capabilities(0).is_err()).count();
    assert_eq!(gone, 62);
    // When all have streams, a further one is refused.
    let streams: Vec<Stream> = more.iter().chain([&recent]).map(|client| client.stream().unwrap()).collect();
    assert!(switch.client().capabilities(0).is_err());
    let said = switch.lines.recv_timeout(LONG).unwrap();
    assert!(said.contains("64 clients are connected, the limit, and all have requests or streams"), "{said}");
    busy.write(&write_request(Vec::new())).unwrap();
    drop((streams, idle));
}

#[test]
fn commands_show_backups_of_copies_and_leave_one_shots_alone() {
    let files = TempDir::new("backups");
    let (program, socket) = (files.write("program.p4", PROGRAM), files.file("socket"));
    let mut command = common::p4jet();
    command.args(["run", &program, "--control", &socket, "--p4runtime", "127.0.0.1:0"]);
    let switch = Switch::start_command(command, files);
    let client = switch.client();
    let _stream = switch.primary(&client);
    let backup = |port: u8, instance| v1::BackupReplica { port: Bytes::from(vec![port]), instance };
    let replica = |port: u8, backup_replicas| v1::Replica {
        port_kind: Some(v1::PortKind::Port(Bytes::from(vec![port]))),
        instance: 1,
        backup_replicas,
    };
    let replicas = vec![replica(4, vec![backup(5, 2), backup(6, 3)]), replica(7, Vec::new())];
    let entry = |of| {
        let entry = v1::PacketReplicationEngineEntry { r#type: Some(of) };
        update(v1::UpdateType::Insert, v1::EntityKind::PacketReplicationEngineEntry(entry))
    };
    let group =
        v1::MulticastGroupEntry { multicast_group_id: 3, replicas: replicas.clone(), ..Default::default() };
    let session = v1::CloneSessionEntry { session_id: 8, replicas, ..Default::default() };
    let groups = [
        entry(v1::ReplicationType::MulticastGroupEntry(group)),
        entry(v1::ReplicationType::CloneSessionEntry(session)),
    ];
    client.write(&write_request(groups.into())).unwrap();
    let ctl = |line: &str| common::run(&["ctl", "--control", &socket, line]).expect_status(0).stdout;
    let shown = "  (backups of rid=1, port=4: rid=2, port=5; rid=3, port=6)\n";
    assert!(ctl("mc_dump").contains(shown), "{}", ctl("mc_dump"));
    assert!(ctl("mirroring_get 8").contains(shown), "{}", ctl("mirroring_get 8"));
    // A command that changes the session makes it the command's.
    ctl("mirroring_add 8 4");
    assert!(!ctl("mirroring_get 8").contains("backups"));
}

/// Everything in tables.
fn all_entries() -> v1::ReadRequest {
    let entity = Some(v1::EntityKind::TableEntry(v1::TableEntry::default()));
    v1::ReadRequest { device_id: 1, entities: vec![v1::Entity { entity }], ..Default::default() }
}

/// The addresses of the entries that a client reads, each with the port to which it leads.
fn forwarded(client: &Client) -> Vec<(u64, u64)> {
    let number = |bytes: &Bytes| bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
    let pair = |entity: v1::Entity| {
        let Some(v1::EntityKind::TableEntry(entry)) = entity.entity else { panic!("an entry") };
        let Some(v1::FieldMatchType::Exact(key)) = &entry.r#match[0].field_match_type else {
            panic!("exact")
        };
        match entry.action.and_then(|action| action.r#type) {
            Some(v1::TableActionType::Action(action)) => {
                (number(&key.value), number(&action.params[0].value))
            }
            other => panic!("{other:?}"),
        }
    };
    let mut all: Vec<_> = client.read(&all_entries()).unwrap().into_iter().map(pair).collect();
    all.sort_unstable();
    all
}

#[test]
fn q_6_answers_stay_below_the_limit_of_clients() {
    let switch = Switch::start("q6");
    let client = switch.client();
    let _stream = switch.primary(&client);
    let info = p4info(PROGRAM);
    let updates = (1..=100).map(|dst| {
        let v1::EntityKind::TableEntry(mut entry) = forward(&info, dst, &[1]) else { unreachable!() };
        entry.metadata = vec![7; 60_000].into();
        update(v1::UpdateType::Insert, v1::EntityKind::TableEntry(entry))
    });
    client.write(&write_request(updates.collect())).unwrap();
    let answers = client.call("Read", all_entries().encode_to_vec().into()).unwrap();
    let largest = answers.iter().map(Bytes::len).max().unwrap();
    assert!(largest < 4 << 20, "{largest} bytes");
    assert_eq!(client.read(&all_entries()).unwrap().len(), 100);
}

#[test]
fn q_9_and_w_10_a_read_sees_whole_batches() {
    let switch = Switch::start("q9");
    let client = switch.client();
    let _stream = switch.primary(&client);
    let info = p4info(PROGRAM);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 0..200 {
                let kind = if round % 2 == 0 { v1::UpdateType::Insert } else { v1::UpdateType::Delete };
                let updates = (1..=200).map(|dst| update(kind, forward(&info, dst, &[1])));
                client.write(&write_request(updates.collect())).unwrap();
            }
        });
        let reader = switch.client();
        let mut seen = [0; 2];
        while !writer.is_finished() {
            match reader.read(&all_entries()).unwrap().len() {
                0 => seen[0] += 1,
                200 => seen[1] += 1,
                part => panic!("{part} entries of a batch of 200"),
            }
        }
        assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
    });
}

#[test]
fn p_1_to_p_4_wrong_requests() {
    use v1::ConfigAction as Action;
    let switch = Switch::start("p1");
    let client = switch.client();
    let set = set_request(Action::Verify, PROGRAM, None);
    expect(client.set_pipeline(&set), Code::PermissionDenied, "Not primary");
    let _stream = switch.primary(&client);
    client.set_pipeline(&set).unwrap();
    let with = |action: i32, config| v1::SetForwardingPipelineConfigRequest { action, config, ..set.clone() };
    for action in [0, 9] {
        expect(client.set_pipeline(&with(action, set.config.clone())), Code::InvalidArgument, "action is");
    }
    for action in [Action::Verify, Action::VerifyAndSave, Action::VerifyAndCommit, Action::ReconcileAndCommit]
    {
        expect(client.set_pipeline(&with(action as i32, None)), Code::InvalidArgument, "config is missing");
    }
    // P-8.
    expect(client.set_pipeline(&with(Action::Commit as i32, None)), Code::NotFound, "no config was saved");
    let set = with(Action::Commit as i32, set.config.clone());
    expect(client.set_pipeline(&set), Code::InvalidArgument, "COMMIT takes no config");
    let other = v1::SetForwardingPipelineConfigRequest { device_id: 5, ..set.clone() };
    expect(client.set_pipeline(&other), Code::NotFound, "no device 5");
    let other = v1::SetForwardingPipelineConfigRequest { role: "x".into(), ..set };
    expect(client.set_pipeline(&other), Code::NotFound, "`x`");
}

#[test]
fn p_12_and_p_13_a_wrong_config_changes_nothing() {
    use v1::ConfigAction as Action;
    let switch = Switch::start("p12");
    let client = switch.client();
    let _stream = switch.primary(&client);
    client.set_pipeline(&set_request(Action::VerifyAndCommit, PROGRAM, Some(7))).unwrap();
    let before = get(&client, v1::ResponseType::All);
    for (config, why) in [
        (PROGRAM.replace("mark_to_drop(s)", "mark_to_drop(x)"), "error"),
        ("#include \"/etc/passwd\"\n".to_string(), "cannot find include file"),
        ("#include \"x.p4\"\n".to_string(), "the program can include only the files that came with it"),
        ("{\"p4jet\": {".to_string(), "this program of p4jet's p4c is incomplete"),
        ("{\"program\": \"x.p4\", \"pipelines\": []}".to_string(), "the JSON that p4c writes for bmv2"),
    ] {
        for action in
            [Action::Verify, Action::VerifyAndSave, Action::VerifyAndCommit, Action::ReconcileAndCommit]
        {
            let mut set = set_request(action, PROGRAM, Some(8));
            set.config.as_mut().unwrap().p4_device_config = config.clone().into();
            expect(client.set_pipeline(&set), Code::InvalidArgument, why);
        }
    }
    assert_eq!(get(&client, v1::ResponseType::All), before);
    client.write(&write_request(Vec::new())).unwrap();
}

/// A short P4Info may describe types with many values.
#[test]
fn p_16_a_verification_takes_no_longer_than_the_p4info() {
    let program = learning();
    let switch = Switch::start("types");
    let client = switch.client();
    let _primary = switch.primary(&client);
    let named = |name: String| config::P4DataTypeSpec {
        type_spec: Some(config::DataType::Struct(config::P4NamedType { name })),
    };
    let verify = |change: &dyn Fn(&mut config::P4Info)| {
        let mut request = set_request(v1::ConfigAction::Verify, &program, None);
        change(request.config.as_mut().unwrap().p4info.as_mut().unwrap());
        let begun = Instant::now();
        let result = client.set_pipeline(&request);
        assert!(begun.elapsed() < Duration::from_secs(20), "{result:?}");
        result
    };
    verify(&|_| ()).unwrap();
    let before = switch.memory();
    let wrong = verify(&|p4info| {
        let types = p4info.type_info.get_or_insert_default();
        for level in 0..3 {
            let member = |n| config::StructMember {
                name: format!("m{n}"),
                type_spec: Some(named(format!("l{}", level + 1))),
            };
            let members = (0..1000).map(member).collect();
            let of = config::P4StructTypeSpec { members, ..Default::default() };
            types.structs.insert(format!("l{level}"), of);
        }
        let last = p4info.digests[0].type_spec.clone();
        let members = vec![config::StructMember { name: "z".to_string(), type_spec: last }];
        let of = config::P4StructTypeSpec { members, ..Default::default() };
        types.structs.insert("l3".to_string(), of);
        p4info.digests[0].type_spec = Some(named("l0".to_string()));
    });
    expect(wrong, Code::InvalidArgument, "`type_spec` is the struct `l0` in the P4Info and the struct");
    assert!(switch.memory() < before + (64 << 10));
    let bool_spec = config::P4DataTypeSpec { type_spec: Some(config::DataType::Bool(config::P4BoolType {})) };
    let wrong = verify(&|p4info| p4info.digests[0].type_spec = Some(bool_spec.clone()));
    expect(wrong, Code::InvalidArgument, "`type_spec` is bool in the P4Info");
}

/// A P4Info of many small fields is refused before it is decoded; one below the limit takes little time and memory.
#[test]
fn p_14_the_fields_of_a_p4info_are_limited() {
    let switch = Switch::start("fields");
    let client = switch.client();
    let _stream = switch.primary(&client);
    let message = |tag: &[u8], content: &[u8]| {
        let mut bytes = tag.to_vec();
        prost::encoding::encode_varint(content.len() as u64, &mut bytes);
        [&bytes, content].concat()
    };
    let verify = |p4info: &[u8]| {
        let asked = set_request(v1::ConfigAction::Verify, PROGRAM, None);
        let mut request = v1::SetForwardingPipelineConfigRequest { config: None, ..asked }.encode_to_vec();
        request.extend(message(b"\x2a", &message(b"\x0a", p4info)));
        let before = switch.processor_time();
        let result = client.call("SetForwardingPipelineConfig", request.into());
        let took = switch.processor_time() - before;
        assert!(took < Duration::from_secs(10), "{took:?}");
        result.map_or_else(|status| status.message().to_string(), |_| "it fits".to_string())
    };
    // Members of a struct that have 1 bit each, in `type_info.structs`.
    let members = |count: usize| {
        let member = b"\x0a\x08\x12\x06\x0a\x04\x0a\x02\x08\x01".repeat(count);
        message(b"\xc2\x0c", &message(b"\x0a", &[b"\x0a\x01s", &message(b"\x12", &member)[..]].concat()))
    };
    let before = switch.memory_max();
    let check = |p4info: &[u8], words: &str, mib_max: u64| {
        let why = verify(p4info);
        assert!(why.contains(words), "{why}");
        let took = switch.memory_max() - before;
        assert!(took < mib_max << 10, "{took} KiB for {words}");
    };
    let limit = "more than 524288 messages, strings and byte strings, which is the limit";
    check(&b"\x12\0".repeat(600_000), limit, 64);
    check(&members(200_000), limit, 64);
    check(&[p4info(PROGRAM).encode_to_vec(), members(130_000)].concat(), "it fits", 200);
    check(&b"\x12\0".repeat(500_000), "the id 0x00000000 of the table `` is wrong", 400);
    check(&b"\x3a\0".repeat(500_000), "the id 0x00000000 of the meter `` is wrong", 400);
}

#[test]
fn p_17_to_p_19_and_p_30_to_p_35_get_returns_what_was_set() {
    use v1::{ConfigAction as Action, ResponseType as Type};
    let switch = Switch::start("p17");
    let client = switch.client();
    // P-22: the program of the command line, without a cookie.
    let config = get(&client, Type::All).unwrap();
    assert_eq!((config.p4info, config.cookie), (Some(p4info(PROGRAM)), None));
    assert!(config.p4_device_config.is_empty());
    let _stream = switch.primary(&client);
    for cookie in [Some(7), Some(0), None] {
        let set = set_request(Action::VerifyAndCommit, PROGRAM, cookie);
        client.set_pipeline(&set).unwrap();
        let all = set.config.unwrap();
        assert_eq!(get(&client, Type::All).as_ref(), Some(&all));
        let cookie_only = v1::ForwardingPipelineConfig { cookie: all.cookie.clone(), ..Default::default() };
        assert_eq!(get(&client, Type::CookieOnly), Some(cookie_only.clone()));
        let p4info = v1::ForwardingPipelineConfig { p4info: all.p4info.clone(), ..cookie_only.clone() };
        assert_eq!(get(&client, Type::P4infoAndCookie), Some(p4info));
        let p4_device_config = all.p4_device_config;
        let device = v1::ForwardingPipelineConfig { p4_device_config, ..cookie_only };
        assert_eq!(get(&client, Type::DeviceConfigAndCookie), Some(device));
    }
    let request = v1::GetForwardingPipelineConfigRequest { device_id: 1, response_type: 9 };
    expect(client.get_pipeline(&request), Code::InvalidArgument, "response_type is 9");
    let request = v1::GetForwardingPipelineConfigRequest { device_id: 2, response_type: 0 };
    expect(client.get_pipeline(&request), Code::NotFound, "no device 2");
    // P-17: fields that p4jet does not know survive.
    let mut raw = set_request(Action::VerifyAndCommit, PROGRAM, None).encode_to_vec();
    // SetForwardingPipelineConfigRequest.config.p4info.999 = "new", as a second occurrence, which protobuf merges.
    raw.extend_from_slice(b"\x2a\x08\x0a\x06\xba\x3e\x03new");
    client.call("SetForwardingPipelineConfig", raw.into()).unwrap();
    let get = v1::GetForwardingPipelineConfigRequest { device_id: 1, response_type: 0 };
    let answer = client.call("GetForwardingPipelineConfig", get.encode_to_vec().into()).unwrap().remove(0);
    assert!(answer.windows(6).any(|bytes| bytes == b"\xba\x3e\x03new"), "the unknown field is lost");
}

#[test]
fn p_35_a_state_file_keeps_the_configuration() {
    use v1::{ConfigAction as Action, ResponseType as Type};
    let files = TempDir::new("p35");
    let state = files.file("state");
    let start = |program: &str| {
        let path = files.write("program.p4", program);
        let mut command = common::p4jet();
        command.args(["run", &path, "--no-control", "--p4runtime", "127.0.0.1:0", "--state", &state]);
        Switch::start_command(command, TempDir::new("p35-run"))
    };
    let switch = start(PROGRAM);
    let client = switch.client();
    let _stream = switch.primary(&client);
    // Ids of the client's own.
    let mut set = set_request(Action::VerifyAndCommit, PROGRAM, Some(99));
    let info = set.config.as_mut().unwrap().p4info.as_mut().unwrap();
    info.tables[0].preamble.as_mut().unwrap().id += 1;
    let info = info.clone();
    client.set_pipeline(&set).unwrap();
    client.write(&write_request(vec![update(v1::UpdateType::Insert, forward(&info, 1, &[1]))])).unwrap();
    let entries = client.read(&all_entries()).unwrap();
    assert_eq!(entries.len(), 1);
    drop(switch);
    let switch = start(PROGRAM);
    let client = switch.client();
    assert_eq!(get(&client, Type::All), set.config);
    assert_eq!(client.read(&all_entries()).unwrap(), entries);
    // RECONCILE keeps the next one.
    let mut stream = client.stream().unwrap();
    assert_eq!(status(&stream.arbitrate(1, None, Some(1)).unwrap()), Code::Ok);
    set.action = Action::ReconcileAndCommit as i32;
    set.config.as_mut().unwrap().cookie = Some(v1::Cookie { cookie: 100 });
    client.set_pipeline(&set).unwrap();
    drop(switch);
    let switch = start(PROGRAM);
    assert_eq!(get(&switch.client(), Type::All), set.config);
    drop(switch);
    // Another program is not that of the cookie, even if all entries fit it.
    let switch = start(&PROGRAM.replacen("s.egress_spec = 510;", "s.egress_spec = 509;", 1));
    assert_eq!(get(&switch.client(), Type::CookieOnly).and_then(|config| config.cookie), None);
    assert_eq!(switch.client().read(&all_entries()).unwrap().len(), 1);
}

#[test]
fn p_31_without_a_program() {
    use v1::ConfigAction as Action;
    let files = TempDir::new("p31");
    let mut command = common::p4jet();
    command.args([
        "simple_switch_grpc",
        "--no-p4",
        "--",
        "--grpc-server-addr",
        "127.0.0.1:0",
        "--cpu-port",
        CPU,
    ]);
    let switch = Switch::start_command(command, files);
    let client = switch.client();
    assert_eq!(get(&client, v1::ResponseType::All), None);
    let _stream = switch.primary(&client);
    let words = "No forwarding pipeline config set for this device";
    expect(client.write(&write_request(Vec::new())), Code::FailedPrecondition, words);
    let read = v1::ReadRequest { device_id: 1, ..Default::default() };
    expect(client.read(&read), Code::FailedPrecondition, words);
    // P-18: nothing to keep.
    let mut set = set_request(Action::VerifyAndCommit, PROGRAM, None);
    set.config.as_mut().unwrap().p4_device_config = Bytes::new();
    expect(client.set_pipeline(&set), Code::InvalidArgument, "no program runs");
    client.set_pipeline(&set_request(Action::VerifyAndCommit, PROGRAM, None)).unwrap();
    client.write(&write_request(Vec::new())).unwrap();
    assert!(get(&client, v1::ResponseType::All).is_some());
    // P-18: now there is.
    client.set_pipeline(&set).unwrap();
}

#[test]
fn p_8_and_p_9_a_saved_config_runs_on_commit() {
    use v1::{ConfigAction as Action, ResponseType as Type};
    let switch = Switch::start("p8");
    let client = switch.client();
    let mut stream = switch.primary(&client);
    client.set_pipeline(&set_request(Action::VerifyAndCommit, PROGRAM, Some(1))).unwrap();
    let other = PROGRAM.replace("h.packet_in.kind = 5", "h.packet_in.kind = 6");
    client.set_pipeline(&set_request(Action::VerifyAndSave, PROGRAM, Some(2))).unwrap();
    client.set_pipeline(&set_request(Action::VerifyAndSave, &other, Some(3))).unwrap();
    // P-34: requests speak of the saved one. P-6: packets still run the old program.
    assert_eq!(get(&client, Type::CookieOnly).unwrap().cookie, Some(v1::Cookie { cookie: 3 }));
    assert_eq!(kind_of_a_packet(&mut stream), 5);
    let mut entry = forward(&p4info(PROGRAM), 7, &[3]);
    let v1::EntityKind::TableEntry(of) = &mut entry else { unreachable!() };
    of.metadata = Bytes::from_static(b"mine");
    client.write(&write_request(vec![update(v1::UpdateType::Insert, entry)])).unwrap();
    let read = || {
        let entities = vec![v1::Entity { entity: Some(v1::EntityKind::TableEntry(Default::default())) }];
        client.read(&v1::ReadRequest { device_id: 1, entities, ..Default::default() }).unwrap()
    };
    let written = read();
    assert!(format!("{written:?}").contains("mine"));
    let commit =
        v1::SetForwardingPipelineConfigRequest { config: None, ..set_request(Action::Commit, PROGRAM, None) };
    client.set_pipeline(&commit).unwrap();
    assert_eq!((kind_of_a_packet(&mut stream), read()), (6, written));
    assert_eq!(get(&client, Type::CookieOnly).unwrap().cookie, Some(v1::Cookie { cookie: 3 }));
    expect(client.set_pipeline(&commit), Code::NotFound, "no config was saved");
    // P-9: VERIFY_AND_COMMIT forgets what was saved; VERIFY does not.
    client.set_pipeline(&set_request(Action::VerifyAndSave, &other, Some(4))).unwrap();
    client.set_pipeline(&set_request(Action::Verify, PROGRAM, Some(5))).unwrap();
    assert_eq!(get(&client, Type::CookieOnly).unwrap().cookie, Some(v1::Cookie { cookie: 4 }));
    client.set_pipeline(&set_request(Action::VerifyAndCommit, PROGRAM, Some(6))).unwrap();
    expect(client.set_pipeline(&commit), Code::NotFound, "no config was saved");
    // P-25: the session has survived all that.
    assert_eq!(status(&stream.arbitrate(1, None, Some(1)).unwrap()), Code::Ok);
}

/// Sends a packet that returns to the controller; returns the field `kind` of its header.
fn kind_of_a_packet(stream: &mut Stream) -> u8 {
    stream.send(packet_out(510, &frame(1, 60))).unwrap();
    match stream.next(LONG).unwrap() {
        Some(v1::StreamResponse::Packet(packet)) => packet.metadata[1].value[0],
        other => panic!("{other:?}"),
    }
}

#[test]
fn p_10_and_p_11_reconcile_keeps_everything_or_changes_nothing() {
    use v1::ConfigAction as Action;
    let switch = Switch::start("p10");
    let client = switch.client();
    let mut stream = switch.primary(&client);
    let p4info = p4info(PROGRAM);
    let id = |preamble: &Option<config::Preamble>| preamble.as_ref().unwrap().id;
    let action =
        p4info.actions.iter().find(|action| action.preamble.as_ref().unwrap().name == "I.drop").unwrap();
    let action = v1::Action { action_id: id(&action.preamble), params: Vec::new() };
    let exact = v1::Exact { value: Bytes::from_static(&[7]) };
    let entry = v1::TableEntry {
        table_id: id(&p4info.tables[0].preamble),
        r#match: vec![v1::FieldMatch {
            field_id: 1,
            field_match_type: Some(v1::FieldMatchType::Exact(exact)),
        }],
        action: Some(v1::TableAction { r#type: Some(v1::TableActionType::Action(action)) }),
        metadata: Bytes::from_static(b"mine"),
        ..Default::default()
    };
    let insert = update(v1::UpdateType::Insert, v1::EntityKind::TableEntry(entry.clone()));
    client.write(&write_request(vec![insert])).unwrap();
    let read = || {
        let entities =
            vec![v1::Entity { entity: Some(v1::EntityKind::TableEntry(v1::TableEntry::default())) }];
        client.read(&v1::ReadRequest { device_id: 1, entities, ..Default::default() }).unwrap()
    };
    let there = [v1::Entity { entity: Some(v1::EntityKind::TableEntry(entry)) }];
    assert_eq!(read(), there);
    let other = PROGRAM.replace("h.packet_in.kind = 5", "h.packet_in.kind = 6");
    client.set_pipeline(&set_request(Action::ReconcileAndCommit, &other, Some(1))).unwrap();
    assert_eq!((kind_of_a_packet(&mut stream), read()), (6, there.to_vec()));
    let other = PROGRAM.replace("h.ethernet.dst: exact", "h.ethernet.src: exact");
    let lost = client.set_pipeline(&set_request(Action::ReconcileAndCommit, &other, Some(2)));
    expect(lost, Code::InvalidArgument, "1 entry lost");
    assert_eq!((kind_of_a_packet(&mut stream), read()), (6, there.to_vec()));
    assert_eq!(get(&client, v1::ResponseType::CookieOnly).unwrap().cookie, Some(v1::Cookie { cookie: 1 }));
    // Without a program, the running one keeps its state.
    let mut same = set_request(Action::ReconcileAndCommit, PROGRAM, Some(3));
    same.config.as_mut().unwrap().p4_device_config = Bytes::new();
    client.set_pipeline(&same).unwrap();
    assert_eq!(read(), there);
    // P-7.
    client.set_pipeline(&set_request(Action::VerifyAndCommit, PROGRAM, None)).unwrap();
    assert_eq!(read(), []);
}

/// The limits of groups are in P4Infos only, and so is the sign of a cell.
#[test]
fn p_11_reconcile_refuses_groups_over_their_limits_and_cells_that_read_otherwise() {
    use v1::ConfigAction as Action;
    let switch = Switch::start("p11groups");
    let client = switch.client();
    let _stream = switch.primary(&client);
    let plain = "action_selector(HashAlgorithm.crc16, 16, 14) paths;";
    let base = with_selector()
        .replace("@selector_size_semantics(\"sum_of_members\") action_selector(HashAlgorithm.crc16, 4096, 14) paths;", &format!("{plain} register<int<12>>(4) signed;"))
        .replace("spread.apply();", "spread.apply(); signed.write(0, 5);");
    assert!(base.contains("signed.write"));
    let with = |new: &str| base.replace(plain, new);
    let selector = |annotations: &str| with(&format!("{annotations} {plain}"));
    let counted = selector("@selector_size_semantics(\"sum_of_members\") @max_group_size(5)");
    let set = |action, program: &str| client.set_pipeline(&set_request(action, program, None));
    let info = p4info(&base);
    let id = |preamble: &Option<config::Preamble>| preamble.as_ref().unwrap().id;
    let v1::EntityKind::TableEntry(entry) = forward(&info, 1, &[1]) else { panic!("an entry") };
    let Some(v1::TableActionType::Action(action)) = entry.action.unwrap().r#type else { panic!("an action") };
    let action_profile_id = id(&info.action_profiles[0].preamble);
    let member = v1::ActionProfileMember { action_profile_id, member_id: 1, action: Some(action) };
    let group = v1::ActionProfileGroup {
        action_profile_id,
        group_id: 7,
        members: vec![v1::GroupMember { member_id: 1, weight: 4, watch_kind: None }],
        max_size: 5,
    };
    let group = vec![
        update(v1::UpdateType::Insert, v1::EntityKind::ActionProfileMember(member)),
        update(v1::UpdateType::Insert, v1::EntityKind::ActionProfileGroup(group)),
    ];
    let profile = "`I.paths`";
    for (updates, old, cases) in [
        (
            group.clone(),
            &base,
            vec![
                (
                    selector("@max_group_size(4)"),
                    format!("group 7 of {profile}: `max_size` is 5, expected 0 to 4"),
                ),
                (
                    selector("@selector_size_semantics(\"sum_of_members\") @max_member_weight(3)"),
                    format!("group 7 of {profile}: found the weight 4, expected at most 3"),
                ),
            ],
        ),
        (
            vec![one_shot(&info, 1, 4)],
            &base,
            vec![(
                selector("@max_group_size(3)"),
                format!("a one-shot of {profile}: the size of the group (weights) is 4, expected at most 3"),
            )],
        ),
        (
            (1..=5).map(|n| one_shot(&info, n, 4)).collect(),
            &counted,
            vec![(
                base.clone(),
                format!("{profile}: all groups together have the size 20 now, more than 16"),
            )],
        ),
    ] {
        set(Action::VerifyAndCommit, old).unwrap();
        client.write(&write_request(updates)).unwrap();
        for (new, words) in cases {
            expect(set(Action::ReconcileAndCommit, &new), Code::InvalidArgument, &words);
        }
        set(Action::ReconcileAndCommit, &old.replace(plain, &format!("@unknown {plain}"))).unwrap();
    }
    set(Action::VerifyAndCommit, &base).unwrap();
    client.write(&write_request(group)).unwrap();
    set(Action::ReconcileAndCommit, &counted).unwrap();
    // -5 is 0xffb without sign.
    set(Action::VerifyAndCommit, &base).unwrap();
    let cell = |value: u8| {
        let data = Some(v1::P4Data { data: Some(v1::DataValue::Bitstring(Bytes::from(vec![value]))) });
        let (register_id, index) = (id(&info.registers[0].preamble), Some(v1::Index { index: 2 }));
        let cell = v1::RegisterEntry { register_id, index, data };
        let update = update(v1::UpdateType::Modify, v1::EntityKind::RegisterEntry(cell));
        client.write(&write_request(vec![update])).unwrap();
    };
    let unsigned = base.replace("register<int<12>>", "register<bit<12>>");
    cell(0xfb);
    let words = "register `I.signed`: cell 2 would have another value with the type in the new P4Info";
    expect(set(Action::ReconcileAndCommit, &unsigned), Code::InvalidArgument, words);
    cell(0x7b);
    set(Action::ReconcileAndCommit, &unsigned).unwrap();
}

/// A program with entries of its own.
const STARTED: &str = r#"
#include <core.p4>
#include <v1model.p4>
header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
struct headers { ethernet_t ethernet; }
struct metadata { }
parser P(packet_in p, out headers h, inout metadata m, inout standard_metadata_t s) {
    state start { p.extract(h.ethernet); transition accept; }
}
control V(inout headers h, inout metadata m) { apply {} }
control I(inout headers h, inout metadata m, inout standard_metadata_t s) {
    direct_counter(CounterType.packets) hits;
    action send(bit<9> port) { s.egress_spec = port; }
    table t {
        key = { h.ethernet.type: ternary; }
        actions = { send; NoAction; }
        counters = hits;
        size = 16;
        entries = {
            priority=100: 0x1100 &&& 0xff00: send(1);
            priority=90: 0x2200 &&& 0xff00: send(2);
            priority=80: 0x3300 &&& 0xff00: send(3);
            priority=70: 0x4400 &&& 0xff00: send(4);
        }
    }
    apply { t.apply(); }
}
control E(inout headers h, inout metadata m, inout standard_metadata_t s) { apply {} }
control D(packet_out p, in headers h) { apply { p.emit(h.ethernet); } }
control C(inout headers h, inout metadata m) { apply {} }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

#[test]
fn p_10_and_p_11_reconcile_keeps_what_clients_changed_of_the_entries_of_the_program() {
    use v1::ConfigAction as Action;
    let switch = Switch::start("p11e");
    let client = switch.client();
    let _stream = switch.primary(&client);
    client.set_pipeline(&set_request(Action::VerifyAndCommit, STARTED, None)).unwrap();
    let info = p4info(STARTED);
    let id = |preamble: &Option<config::Preamble>| preamble.as_ref().unwrap().id;
    let table_id = id(&info.tables[0].preamble);
    let action_id = info.actions.iter().find(|a| a.preamble.as_ref().unwrap().alias == "send").unwrap();
    let action_id = id(&action_id.preamble);
    let entry = |high: u8, priority, port: u8| {
        let (value, mask) = (Bytes::from(vec![high, 0]), Bytes::from_static(&[0xff, 0]));
        let ternary = Some(v1::FieldMatchType::Ternary(v1::Ternary { value, mask }));
        let params = vec![v1::ActionParam { param_id: 1, value: Bytes::from(vec![port]) }];
        let action = v1::TableActionType::Action(v1::Action { action_id, params });
        v1::TableEntry {
            table_id,
            r#match: vec![v1::FieldMatch { field_id: 1, field_match_type: ternary }],
            priority,
            action: Some(v1::TableAction { r#type: Some(action) }),
            ..Default::default()
        }
    };
    let write = |kind, entry| {
        client.write(&write_request(vec![update(kind, v1::EntityKind::TableEntry(entry))])).unwrap();
    };
    let read = || {
        let pattern = v1::TableEntry { counter_data: Some(Default::default()), ..Default::default() };
        let entities = vec![v1::Entity { entity: Some(v1::EntityKind::TableEntry(pattern)) }];
        let found = client.read(&v1::ReadRequest { device_id: 1, entities, ..Default::default() }).unwrap();
        let shown = |entity: v1::Entity| match entity.entity {
            Some(v1::EntityKind::TableEntry(e)) => {
                let Some(v1::FieldMatchType::Ternary(key)) = &e.r#match[0].field_match_type else { panic!() };
                let Some(v1::TableActionType::Action(action)) = e.action.unwrap().r#type else { panic!() };
                let counted = e.counter_data.unwrap().packet_count;
                (key.value[0], e.priority, action.params[0].value[0], e.metadata, counted)
            }
            other => panic!("{other:?}"),
        };
        let mut found: Vec<_> = found.into_iter().map(shown).collect();
        found.sort();
        found
    };
    let changed = |port| v1::TableEntry {
        metadata: Bytes::from_static(b"mine"),
        counter_data: Some(v1::CounterData { packet_count: 7, byte_count: 0 }),
        ..entry(0x22, 90, port)
    };
    write(v1::UpdateType::Modify, changed(9));
    write(v1::UpdateType::Delete, entry(0x33, 80, 3));
    let reconcile =
        |program: &str| client.set_pipeline(&set_request(Action::ReconcileAndCommit, program, None));
    let mine = Bytes::from_static(b"mine");
    let of = |high, priority, port| (high, priority, port, Bytes::new(), 0);
    let expected = [of(0x11, 100, 1), (0x22, 90, 9, mine.clone(), 7), of(0x44, 70, 4)];
    assert_eq!(read(), expected);
    // Another entry, another action of an entry and another order of the entries: the client's changes stay, all else is new.
    let other = STARTED
        .replace(
            "0x4400 &&& 0xff00: send(4);",
            "0x4400 &&& 0xff00: send(8); priority=60: 0x5500 &&& 0xff00: send(5);",
        )
        .replace("0x2200 &&& 0xff00: send(2);", "0x2200 &&& 0xff00: send(6);")
        .replace(
            "priority=100: 0x1100 &&& 0xff00: send(1);",
            "priority=101: 0x6600 &&& 0xff00: send(6); priority=100: 0x1100 &&& 0xff00: send(1);",
        );
    reconcile(&other).unwrap();
    let expected = [
        of(0x11, 100, 1),
        (0x22, 90, 9, mine.clone(), 7),
        of(0x44, 70, 8),
        of(0x55, 60, 5),
        of(0x66, 101, 6),
    ];
    assert_eq!(read(), expected);
    // What the new program does not allow is listed.
    for (old, new, words) in [
        (
            "priority=90: 0x2200 &&& 0xff00: send(6);",
            "",
            "entry 0x2 of the program has metadata, and the new program has none with this key",
        ),
        ("priority=90: 0x22", "const priority=90: 0x22", "its action was changed, and it is const now"),
        ("priority=80: 0x33", "const priority=80: 0x33", "it was deleted, and is const now"),
    ] {
        let program = other.replace(old, new);
        assert_ne!(program, other);
        expect(reconcile(&program), Code::InvalidArgument, words);
        assert_eq!(read(), expected);
    }
    // Only the metadata are the client's.
    write(v1::UpdateType::Modify, changed(6));
    let gone = other.replace("priority=90: 0x2200 &&& 0xff00: send(6);", "");
    expect(
        reconcile(&gone),
        Code::InvalidArgument,
        "entry 0x2 of the program has metadata, and the new program has none with this key",
    );
    // Only the action is.
    write(v1::UpdateType::Modify, entry(0x22, 90, 9));
    let words = "entry 0x2 of the program: it was changed, and the new program has none with this key";
    expect(reconcile(&gone), Code::InvalidArgument, words);
    let keys = other.replace("h.ethernet.type: ternary", "h.ethernet.type: ternary @name(\"k\")");
    expect(reconcile(&keys), Code::InvalidArgument, "the changes of 2 entries of the program are lost");
    write(v1::UpdateType::Modify, entry(0x22, 90, 6));
    reconcile(&gone).unwrap();
    assert_eq!(read(), [of(0x11, 100, 1), of(0x44, 70, 8), of(0x55, 60, 5), of(0x66, 101, 6)]);
}

/// An entry of a client stays, or is refused: the new program's entry with its key and priority does not take its place.
#[test]
fn e_1_and_p_11_an_entry_of_the_new_program_replaces_none_of_a_client() {
    use v1::ConfigAction as Action;
    use v1::FieldMatchType as Match;
    let switch = Switch::start("p11keys");
    let client = switch.client();
    let _stream = switch.primary(&client);
    let two = |value: u16| Bytes::copy_from_slice(&value.to_be_bytes());
    let kinds = [
        ("exact", "0x7777", Match::Exact(v1::Exact { value: two(0x7777) })),
        ("lpm", "0x7700 &&& 0xff00", Match::Lpm(v1::Lpm { value: two(0x7700), prefix_len: 8 })),
        (
            "ternary",
            "0x7777 &&& 0xffff",
            Match::Ternary(v1::Ternary { value: two(0x7777), mask: two(0xffff) }),
        ),
        ("range", "0x7700 .. 0x77ff", Match::Range(v1::Range { low: two(0x7700), high: two(0x77ff) })),
        ("optional", "0x7777", Match::Optional(v1::Optional { value: two(0x7777) })),
    ];
    let (begin, end) =
        (STARTED.find("entries = {").unwrap(), STARTED.find("    apply { t.apply(); }").unwrap());
    for (kind, key, given) in kinds {
        let has_priority = !matches!(kind, "exact" | "lpm");
        for wins in if has_priority { &["true", "false"][..] } else { &["true"] } {
            let with = |entries: &[(i32, &str, u8)]| {
                let entry = |(priority, key, port): &(i32, &str, u8)| {
                    let priority =
                        if has_priority { format!("priority={priority}: ") } else { String::new() };
                    format!("{priority}{key}: send({port});")
                };
                let entries = entries.iter().map(entry).collect::<String>();
                let wins =
                    if has_priority { format!("largest_priority_wins = {wins};") } else { String::new() };
                let own = format!("{wins} entries = {{ {entries} }} }}\n");
                [&STARTED[..begin], &own, &STARTED[end..]]
                    .concat()
                    .replace("type: ternary", &format!("type: {kind}"))
            };
            let old = with(&[(20, if kind == "lpm" { "0x1100 &&& 0xff00" } else { "0x1111" }, 1)]);
            let set = |action, program: &str| client.set_pipeline(&set_request(action, program, None));
            set(Action::VerifyAndCommit, &old).unwrap();
            let info = p4info(&old);
            let id = |preamble: &Option<config::Preamble>| preamble.as_ref().unwrap().id;
            let send = info.actions.iter().find(|a| a.preamble.as_ref().unwrap().alias == "send").unwrap();
            let entry = |port: u8| {
                let params = vec![v1::ActionParam { param_id: 1, value: Bytes::from(vec![port]) }];
                let action = v1::Action { action_id: id(&send.preamble), params };
                let action = v1::TableActionType::Action(action);
                let key = v1::FieldMatch { field_id: 1, field_match_type: Some(given.clone()) };
                v1::EntityKind::TableEntry(v1::TableEntry {
                    table_id: id(&info.tables[0].preamble),
                    r#match: vec![key],
                    priority: if has_priority { 20 } else { 0 },
                    action: Some(v1::TableAction { r#type: Some(action) }),
                    ..Default::default()
                })
            };
            let write = |kind, port| client.write(&write_request(vec![update(kind, entry(port))]));
            write(v1::UpdateType::Insert, 5).unwrap();
            let before = client.read(&all_entries()).unwrap();
            let new = with(&[(20, key, 2)]);
            let words = "an entry with this key already exists";
            expect(set(Action::ReconcileAndCommit, &new), Code::InvalidArgument, words);
            assert_eq!(client.read(&all_entries()).unwrap(), before, "{kind}");
            if has_priority {
                // With another priority, it is another entry.
                set(Action::ReconcileAndCommit, &with(&[(30, key, 2)])).unwrap();
                assert_eq!(client.read(&all_entries()).unwrap().len(), 2, "{kind}");
                expect(set(Action::ReconcileAndCommit, &new), Code::InvalidArgument, words);
            }
            write(v1::UpdateType::Delete, 5).unwrap();
            set(Action::ReconcileAndCommit, &new).unwrap();
            write(v1::UpdateType::Modify, 7).unwrap();
            write(v1::UpdateType::Delete, 7).unwrap();
            // The client has deleted that of the program, and has one of its own there.
            write(v1::UpdateType::Insert, 8).unwrap();
            set(Action::ReconcileAndCommit, &new.replace("send(2)", "send(3)")).unwrap();
            expect(write(v1::UpdateType::Insert, 9), Code::Unknown, "Write failure");
            write(v1::UpdateType::Delete, 8).unwrap();
            expect(write(v1::UpdateType::Delete, 8), Code::Unknown, "Write failure");
        }
    }
}

/// A default entry that a client has set stays, even if it is that of the old program.
#[test]
fn p_11_and_e_31_reconcile_keeps_default_entries_that_clients_have_set() {
    use v1::ConfigAction as Action;
    let switch = Switch::start("p11default");
    let client = switch.client();
    let _stream = switch.primary(&client);
    let info = p4info(KEEPING);
    let of = |preamble: &Option<config::Preamble>, alias: &str| preamble.as_ref().unwrap().alias == alias;
    let id = |preamble: &Option<config::Preamble>| preamble.as_ref().unwrap().id;
    let table = |name: &str| id(&info.tables.iter().find(|t| of(&t.preamble, name)).unwrap().preamble);
    let action = |name: &str| id(&info.actions.iter().find(|a| of(&a.preamble, name)).unwrap().preamble);
    let default = |name: &str, called: Option<&str>, metadata: &'static [u8]| {
        let action = called.map(|name| v1::Action { action_id: action(name), params: Vec::new() });
        v1::TableEntry {
            table_id: table(name),
            is_default_action: true,
            action: action
                .map(|action| v1::TableAction { r#type: Some(v1::TableActionType::Action(action)) }),
            metadata: Bytes::from_static(metadata),
            ..Default::default()
        }
    };
    let write = |entry| {
        let update = update(v1::UpdateType::Modify, v1::EntityKind::TableEntry(entry));
        client.write(&write_request(vec![update])).unwrap();
    };
    let read = |name: &str| {
        let entity = Some(v1::EntityKind::TableEntry(default(name, None, b"")));
        let entities = vec![v1::Entity { entity }];
        match client.read(&v1::ReadRequest { device_id: 1, entities, ..Default::default() }).unwrap().pop() {
            Some(v1::Entity { entity: Some(v1::EntityKind::TableEntry(entry)) }) => entry,
            other => panic!("{other:?}"),
        }
    };
    let set = |action, program: &str| client.set_pipeline(&set_request(action, program, None));
    let (old, new) =
        ("drop; NoAction; } default_action = NoAction(); }", "drop; NoAction; } default_action = drop(); }");
    let other = KEEPING.replace(old, new);
    assert_ne!(other, KEEPING);
    for metadata in [&b"keep me"[..], b""] {
        set(Action::VerifyAndCommit, KEEPING).unwrap();
        write(default("v", Some("NoAction"), metadata));
        set(Action::ReconcileAndCommit, &other).unwrap();
        assert_eq!(read("v"), default("v", Some("NoAction"), metadata));
        // It stays in the next program, too, until the client resets it.
        set(Action::ReconcileAndCommit, KEEPING).unwrap();
        set(Action::ReconcileAndCommit, &other).unwrap();
        assert_eq!(read("v"), default("v", Some("NoAction"), metadata));
        write(default("v", None, b""));
        assert_eq!(read("v"), default("v", Some("drop"), b""));
        set(Action::ReconcileAndCommit, KEEPING).unwrap();
        assert_eq!(read("v"), default("v", Some("NoAction"), b""));
        // A const default action fits if it is the same.
        write(default("v", Some("NoAction"), metadata));
        let constant =
            |program: &str| program.replace("NoAction; } default_action", "NoAction; } const default_action");
        expect(set(Action::ReconcileAndCommit, &constant(&other)), Code::InvalidArgument, "is const now");
        set(
            Action::ReconcileAndCommit,
            &constant(KEEPING)
                .replace("const default_action = NoAction(); size", "default_action = NoAction(); size"),
        )
        .unwrap();
        assert_eq!(read("v"), default("v", Some("NoAction"), metadata));
    }
    for (called, words) in [
        (Some("NoAction"), "table `I.v`: the new program has none with this name; the default action lost"),
        (Some("drop"), "table `I.v`: the new program has none with this name; the default action lost"),
        (None, "table `I.v`: its default entry has metadata, but the new program lacks the table"),
    ] {
        set(Action::VerifyAndCommit, KEEPING).unwrap();
        write(default("v", called, if called.is_none() { b"x" } else { b"" }));
        let gone = set(Action::ReconcileAndCommit, &KEEPING.replace("v.apply();", ""));
        expect(gone, Code::InvalidArgument, words);
        // Nor may the P4Info lack it.
        let mut without = set_request(Action::ReconcileAndCommit, KEEPING, None);
        without.config.as_mut().unwrap().p4info.as_mut().unwrap().tables.retain(|t| !of(&t.preamble, "v"));
        let words = "but the new P4Info lacks the table";
        expect(client.set_pipeline(&without), Code::InvalidArgument, words);
        without.config.as_mut().unwrap().p4_device_config = Bytes::new();
        expect(client.set_pipeline(&without), Code::InvalidArgument, words);
        write(default("v", None, b""));
        set(Action::ReconcileAndCommit, &KEEPING.replace("v.apply();", "")).unwrap();
    }
    // A refused batch leaves it as it was.
    set(Action::VerifyAndCommit, KEEPING).unwrap();
    let modify = |entry| update(v1::UpdateType::Modify, v1::EntityKind::TableEntry(entry));
    let wrong = v1::TableEntry { table_id: 7, ..Default::default() };
    let mut batch = write_request(vec![modify(default("v", Some("NoAction"), b"")), modify(wrong)]);
    batch.atomicity = v1::Atomicity::RollbackOnError as i32;
    client.write(&batch).unwrap_err();
    set(Action::ReconcileAndCommit, &other).unwrap();
    assert_eq!(read("v"), default("v", Some("drop"), b""));
}

/// Members, groups and one-shots stay when the size, the actions or the kind of their profile change, if they fit.
#[test]
fn p_10_and_p_11_reconcile_keeps_what_fits_a_changed_action_profile() {
    use v1::ConfigAction as Action;
    let switch = Switch::start("p11sizes");
    let client = switch.client();
    let _stream = switch.primary(&client);
    let selector =
        "@selector_size_semantics(\"sum_of_members\") action_selector(HashAlgorithm.crc16, 4096, 14) paths;";
    let sized = |size: u32| {
        let new = format!("action_selector(HashAlgorithm.crc16, {size}, 14) paths;");
        with_selector().replace(selector, &new)
    };
    let base = sized(16);
    assert_ne!(base, with_selector());
    let set = |action, program: &str| client.set_pipeline(&set_request(action, program, None));
    let more = |program: &str| {
        let list = "actions = { forward; NoAction; }\n            implementation";
        assert!(program.contains(list));
        program.replace(list, "actions = { NoAction; drop; forward; }\n            implementation")
    };
    let gone = base
        .replace("action_selector(HashAlgorithm.crc16, 16, 14) paths;", "")
        .replace("h.ethernet.src: selector;", "")
        .replace("implementation = paths;", "");
    let info = p4info(&base);
    let id = |preamble: &Option<config::Preamble>| preamble.as_ref().unwrap().id;
    let action_profile_id = id(&info.action_profiles[0].preamble);
    let v1::EntityKind::TableEntry(entry) = forward(&info, 1, &[1]) else { panic!("an entry") };
    let Some(v1::TableActionType::Action(action)) = entry.action.unwrap().r#type else { panic!("an action") };
    let member = v1::ActionProfileMember { action_profile_id, member_id: 3, action: Some(action) };
    let group = v1::ActionProfileGroup {
        action_profile_id,
        group_id: 7,
        members: vec![v1::GroupMember { member_id: 3, weight: 4, watch_kind: None }],
        max_size: 5,
    };
    let insert = |entity| update(v1::UpdateType::Insert, entity);
    let members = vec![
        insert(v1::EntityKind::ActionProfileMember(member)),
        insert(v1::EntityKind::ActionProfileGroup(group)),
    ];
    let everything = [
        v1::EntityKind::TableEntry(v1::TableEntry::default()),
        v1::EntityKind::ActionProfileMember(v1::ActionProfileMember::default()),
        v1::EntityKind::ActionProfileGroup(v1::ActionProfileGroup::default()),
    ];
    let read = || {
        let entities = everything.iter().map(|entity| v1::Entity { entity: Some(entity.clone()) }).collect();
        client.read(&v1::ReadRequest { device_id: 1, entities, ..Default::default() }).unwrap()
    };
    for (updates, total) in
        [(vec![], 0), (members, 4), (vec![one_shot(&info, 1, 3), one_shot(&info, 2, 2)], 5)]
    {
        set(Action::VerifyAndCommit, &base).unwrap();
        client.write(&write_request(updates)).unwrap();
        let before = read();
        for program in [&sized(32), &sized(16), &more(&base), &more(&sized(8)), &sized(total.max(1))] {
            set(Action::ReconcileAndCommit, program).unwrap();
            assert_eq!(read(), before);
        }
        if total > 0 {
            let words = format!("all groups together have the size {total} now, more than {}", total - 1);
            expect(set(Action::ReconcileAndCommit, &sized(total - 1)), Code::InvalidArgument, &words);
            expect(
                set(Action::ReconcileAndCommit, &gone),
                Code::InvalidArgument,
                "members and groups are lost",
            );
            let drop = "actions = { NoAction; }\n            implementation";
            let none = base.replace("actions = { forward; NoAction; }\n            implementation", drop);
            let words = "the action `I.forward` is not in its list now";
            expect(set(Action::ReconcileAndCommit, &none), Code::InvalidArgument, words);
            assert_eq!(read(), before);
        } else {
            set(Action::ReconcileAndCommit, &gone).unwrap();
        }
    }
}

/// A program with state of each kind that a P4Info describes.
const KEEPING: &str = r#"
#include <core.p4>
#include <v1model.p4>
@p4runtime_translation("x.org/vrf", string) type bit<10> vrf_t;
enum Color { RED, GREEN, BLUE }
@name("note_t") struct noted_t { bit<8> kind; bit<16> type; }
header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
struct headers { ethernet_t ethernet; }
struct metadata { bit<8> mark; vrf_t vrf; }
parser P(packet_in p, out headers h, inout metadata m, inout standard_metadata_t s) {
    state start { p.extract(h.ethernet); transition accept; }
}
control V(inout headers h, inout metadata m) { apply {} }
control I(inout headers h, inout metadata m, inout standard_metadata_t s) {
    direct_counter(CounterType.packets_and_bytes) hits;
    direct_meter<bit<8>>(MeterType.packets) rates;
    register<Color>(4) colours;
    register<vrf_t>(4) vrfs;
    action drop() { mark_to_drop(s); }
    action set(vrf_t vrf) { m.vrf = vrf; }
    @action_restriction("port < 100")
    action send(bit<9> port, bit<9> other) { s.egress_spec = port + other; }
    action learn() { digest<noted_t>(1, { 8w1, h.ethernet.type }); }
    action measured() { rates.read(m.mark); }
    @entry_restriction("kind::value > 0")
    table t {
        key = { h.ethernet.type: exact @name("kind"); }
        actions = { drop; set; send; learn; measured; NoAction; }
        counters = hits;
        meters = rates;
        default_action = NoAction();
        support_timeout = true;
        size = 64;
    }
    table u { key = { m.vrf: exact @name("vrf"); } actions = { drop; set; NoAction; } default_action = NoAction(); size = 64; }
    table v { actions = { drop; NoAction; } default_action = NoAction(); }
    apply { colours.write(0, Color.BLUE); vrfs.write(0, m.vrf); t.apply(); u.apply(); v.apply(); }
}
control E(inout headers h, inout metadata m, inout standard_metadata_t s) { apply {} }
control D(packet_out p, in headers h) { apply { p.emit(h.ethernet); } }
control C(inout headers h, inout metadata m) { apply {} }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

/// State that is kept by its name only, because its meaning is in the P4Info, or because it belongs to entries.
#[test]
fn p_10_and_p_11_reconcile_refuses_whatever_would_be_lost() {
    use v1::ConfigAction as Action;
    use v1::UpdateType::{Insert, Modify};
    let switch = Switch::start("p11");
    let client = switch.client();
    let _stream = switch.primary(&client);
    client.set_pipeline(&set_request(Action::VerifyAndCommit, KEEPING, None)).unwrap();
    let info = p4info(KEEPING);
    let preambles = (info.tables.iter().map(|o| &o.preamble))
        .chain(info.actions.iter().map(|o| &o.preamble))
        .chain(info.registers.iter().map(|o| &o.preamble))
        .chain(info.digests.iter().map(|o| &o.preamble));
    let preambles: Vec<_> = preambles.flatten().collect();
    let id = |alias: &str| preambles.iter().find(|preamble| preamble.alias == alias).unwrap().id;
    let action = |name: &str, values: &[&'static [u8]]| {
        let param = |(value, param_id): (&&'static [u8], u32)| v1::ActionParam {
            param_id,
            value: Bytes::from_static(value),
        };
        let params = values.iter().zip(1..).map(param).collect();
        let action = v1::Action { action_id: id(name), params };
        Some(v1::TableAction { r#type: Some(v1::TableActionType::Action(action)) })
    };
    let entry = |table: &str, key: &'static [u8], action| {
        let exact = v1::FieldMatchType::Exact(v1::Exact { value: Bytes::from_static(key) });
        let key = v1::FieldMatch { field_id: 1, field_match_type: Some(exact) };
        v1::TableEntry { table_id: id(table), r#match: vec![key], action, ..Default::default() }
    };
    let default = v1::TableEntry {
        table_id: id("v"),
        is_default_action: true,
        action: action("drop", &[]),
        ..Default::default()
    };
    let rates = v1::MeterConfig { cir: 1, cburst: 2, pir: 3, pburst: 4, eburst: 0 };
    let counts = v1::CounterData { byte_count: 5, packet_count: 4 };
    let cell = |register: &str, index, data| {
        let index = Some(v1::Index { index });
        let data = Some(v1::P4Data { data: Some(data) });
        v1::EntityKind::RegisterEntry(v1::RegisterEntry { register_id: id(register), index, data })
    };
    let timed = v1::TableEntry { idle_timeout_ns: 60_000_000_000, ..entry("t", &[1], action("drop", &[])) };
    let measured = v1::TableEntry { meter_config: Some(rates), ..entry("t", &[2], action("measured", &[])) };
    let counted = v1::TableEntry { counter_data: Some(counts), ..entry("t", &[3], action("drop", &[])) };
    let config = Some(v1::DigestConfig { max_list_size: 3, ..Default::default() });
    let state = [
        (Insert, v1::EntityKind::TableEntry(timed)),
        (Insert, v1::EntityKind::TableEntry(measured)),
        (Insert, v1::EntityKind::TableEntry(counted)),
        (Insert, v1::EntityKind::TableEntry(entry("t", &[4], action("send", &[&[9], &[10]])))),
        (Insert, v1::EntityKind::TableEntry(entry("t", &[5], action("set", &[b"tenant"])))),
        (Insert, v1::EntityKind::TableEntry(entry("u", b"blue", action("drop", &[])))),
        (Modify, v1::EntityKind::TableEntry(default)),
        (Insert, v1::EntityKind::DigestEntry(v1::DigestEntry { digest_id: id("note_t"), config })),
        (Modify, cell("colours", 1, v1::DataValue::Enum("GREEN".to_string()))),
        (Modify, cell("vrfs", 1, v1::DataValue::Bitstring(Bytes::from_static(b"tenant")))),
    ];
    let updates = state.into_iter().map(|(kind, entity)| update(kind, entity)).collect();
    client.write(&write_request(updates)).unwrap();
    let pattern = v1::TableEntry {
        meter_config: Some(Default::default()),
        counter_data: Some(Default::default()),
        ..Default::default()
    };
    let wanted = [
        v1::EntityKind::TableEntry(pattern.clone()),
        v1::EntityKind::TableEntry(v1::TableEntry { is_default_action: true, ..pattern }),
        v1::EntityKind::RegisterEntry(v1::RegisterEntry { register_id: id("colours"), ..Default::default() }),
        v1::EntityKind::RegisterEntry(v1::RegisterEntry { register_id: id("vrfs"), ..Default::default() }),
        v1::EntityKind::DigestEntry(v1::DigestEntry::default()),
    ];
    let entities = wanted.into_iter().map(|entity| v1::Entity { entity: Some(entity) }).collect();
    let wanted = v1::ReadRequest { device_id: 1, entities, ..Default::default() };
    let before = client.read(&wanted).unwrap();
    let meter = "direct_meter<bit<8>>(MeterType.packets) rates;";
    let counter = "direct_counter(CounterType.packets_and_bytes) hits;";
    let vrf = "@p4runtime_translation(\"x.org/vrf\", string)";
    let digest = "digest<noted_t>(1, { 8w1, h.ethernet.type });";
    /// Replacements in the program, and words of the refusal.
    type Change<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str]);
    let changes: &[Change<'_>] = &[
        (
            &[(meter, ""), ("meters = rates;", ""), ("rates.read(m.mark);", "")],
            &["direct meter `I.rates` of `I.t`: the new program has none with this name; its rates are lost"],
        ),
        (
            &[(meter, "direct_meter<bit<8>>(MeterType.bytes) rates;")],
            &["its unit has changed; its rates are lost"],
        ),
        (&[(meter, &format!("@single_rate_three_color {meter}"))], &["SingleRateThreeColor", "pir: 3"]),
        (
            &[(counter, ""), ("counters = hits;", "")],
            &[
                "direct counter `I.hits` of `I.t`: the new program has none with this name; its counts are lost",
            ],
        ),
        (
            &[(counter, "direct_counter(CounterType.bytes) hits;")],
            &["its unit has changed; its counts are lost"],
        ),
        (&[("support_timeout = true;", "")], &["the table has no timeouts now"]),
        (&[(digest, "m.mark = 1;")], &["digest `note_t`: it has a DigestEntry, but the new P4Info lacks it"]),
        (
            &[(vrf, "")],
            &[
                "`I.t`: `vrf` of the action `I.set` of an entry is the string `tenant`, but the new P4Info has numbers of 10 \
                 bits there: keep the translation of the type, or delete the entry first",
                "`I.u`: `vrf` of an entry is the string `blue`",
                "register `I.vrfs`: cell 1",
            ],
        ),
        (
            &[(vrf, "@p4runtime_translation(\"x.org/vrf\", 32)")],
            &["`tenant`, but the new P4Info has numbers of 32 bits there"],
        ),
        (
            &[(vrf, "@p4runtime_translation(\"y.org/vrf\", string)")],
            &["`tenant`, but the new P4Info has strings of `y.org/vrf` there"],
        ),
        (&[("RED, GREEN, BLUE", "GREEN, RED, BLUE")], &["register `I.colours`: cell 1"]),
        (&[("RED, GREEN, BLUE", "RED, BLUE")], &["register `I.colours`: cell 1"]),
        (
            &[("kind::value > 0", "kind::value > 2")],
            &["`I.t`: the constraint `kind::value > 2` does not hold"],
        ),
        (&[("port < 100", "port < 9")], &["action `I.send`: the constraint `port < 9` does not hold"]),
        (
            &[("bit<9> port, bit<9> other", "bit<9> other, bit<9> port")],
            &[
                "`I.t`: the parameters of the action `I.send` of an entry have another order in the new program: keep the order",
            ],
        ),
        (
            &[("v.apply();", "")],
            &["table `I.v`: the new program has none with this name; the default action lost"],
        ),
    ];
    for (changes, words) in changes {
        let program = changes.iter().fold(KEEPING.to_string(), |program, (old, new)| {
            assert!(program.contains(old), "{old}");
            program.replace(old, new)
        });
        let result = client.set_pipeline(&set_request(Action::ReconcileAndCommit, &program, None));
        for word in *words {
            expect(result.clone(), Code::InvalidArgument, word);
        }
        assert_eq!(client.read(&wanted).unwrap(), before, "{changes:?}");
    }
    // The same without a program: the client's P4Info alone decides.
    let mut other = set_request(Action::ReconcileAndCommit, KEEPING, None);
    let config = other.config.as_mut().unwrap();
    config.p4_device_config = Bytes::new();
    let table = config.p4info.as_mut().unwrap().tables.iter_mut().find(|t| t.match_fields[0].name == "kind");
    table.unwrap().preamble.as_mut().unwrap().annotations =
        vec!["@entry_restriction(\"kind::value > 3\")".to_string()];
    expect(client.set_pipeline(&other), Code::InvalidArgument, "kind::value > 3");
    assert_eq!(client.read(&wanted).unwrap(), before);
    // What loses nothing is fine.
    let program = KEEPING
        .replace("kind::value > 0", "kind::value > 0 && kind::value < 6")
        .replace("RED, GREEN, BLUE", "RED, GREEN, BLUE, BLACK");
    client.set_pipeline(&set_request(Action::ReconcileAndCommit, &program, None)).unwrap();
    assert_eq!(client.read(&wanted).unwrap(), before);
}

/// The program with `LARGE_TABLES` further tables, whose compilation takes a while.
fn large() -> String {
    let tables = (0..LARGE_TABLES).map(|n| {
        format!(
            "table t{n} {{
                key = {{ h.ethernet.dst: ternary; h.ethernet.src: exact; }}
                actions = {{ drop; forward; NoAction; }}
                default_action = NoAction();
                size = 64;
            }}\n"
        )
    });
    let applied = (0..LARGE_TABLES).map(|n| format!("t{n}.apply();\n"));
    let text = PROGRAM.replace("table ports {", &format!("{}table ports {{", tables.collect::<String>()));
    text.replace("ports.apply();", &format!("{}ports.apply();", applied.collect::<String>()))
}

const LARGE_TABLES: usize = 400;

#[test]
fn p_20_and_p_21_a_write_waits_for_a_commit_and_nothing_else_does() {
    use v1::ConfigAction as Action;
    let switch = Switch::start("p20");
    let client = switch.client();
    let mut stream = switch.primary(&client);
    let address = switch.address;
    let connect = move || Client::connect(address).unwrap();
    let (before, large) = (p4info(PROGRAM), large());
    // Its table `ports` is the last one, and has the same id.
    let insert = update(v1::UpdateType::Insert, forward(&before, 7, &[1]));
    let commit = set_request(Action::VerifyAndCommit, &large, Some(9));
    std::thread::scope(|scope| {
        let committing = scope.spawn(|| {
            let client = connect();
            client.set_pipeline(&commit).unwrap();
            Instant::now()
        });
        // Until the server has the request.
        std::thread::sleep(Duration::from_millis(30));
        assert!(!committing.is_finished(), "the program is too small for this test");
        let writing = scope.spawn(|| {
            let client = connect();
            client.write(&write_request(vec![insert])).unwrap();
            Instant::now()
        });
        let (mut reads, mut packets) = (0, 0);
        while !committing.is_finished() {
            client.read(&all_entries()).unwrap();
            reads += 1;
            stream.send(packet_out(510, &frame(reads, 60))).unwrap();
            assert!(matches!(stream.next(LONG), Ok(Some(v1::StreamResponse::Packet(_)))));
            packets += 1;
        }
        assert!(reads > 3 && packets > 3, "{reads} Reads and {packets} packets during a commit");
        let (committed, written) = (committing.join().unwrap(), writing.join().unwrap());
        // The answers come together, on two connections.
        assert!(written + Duration::from_millis(20) > committed, "the Write did not wait");
    });
    // It was made in the new program.
    assert_eq!(get(&client, v1::ResponseType::CookieOnly).unwrap().cookie.unwrap().cookie, 9);
    assert_eq!(client.read(&all_entries()).unwrap().len(), 1);
    // One after the other, whatever comes at the same time.
    client.set_pipeline(&set_request(Action::VerifyAndCommit, PROGRAM, None)).unwrap();
    std::thread::scope(|scope| {
        let commits = scope.spawn(|| {
            let client = connect();
            let set = set_request(Action::VerifyAndCommit, PROGRAM, None);
            (0..10).for_each(|_| client.set_pipeline(&set).unwrap());
        });
        let batch = |kind| (1..=50).map(move |dst| update(kind, forward(&before, dst, &[1]))).collect();
        let insert = write_request(batch(v1::UpdateType::Insert));
        while !commits.is_finished() {
            // All of them are there already, or none.
            if let Err(status) = client.write(&insert) {
                let codes = errors(&status).iter().map(|error| error.canonical_code).collect::<Vec<_>>();
                assert_eq!(codes, vec![Code::AlreadyExists as i32; 50], "{status}");
            }
            let read = client.read(&all_entries()).unwrap().len();
            assert!(read == 0 || read == 50, "{read} entries of a batch of 50");
        }
    });
}

/// Only a commit changes what Writes apply to, so others are compiled beside them.
#[test]
fn p_21_no_write_waits_for_a_verification() {
    use v1::ConfigAction as Action;
    let switch = Switch::start("p21");
    let client = switch.client();
    let _stream = switch.primary(&client);
    let (info, large) = (p4info(PROGRAM), large());
    for action in [Action::Verify, Action::VerifyAndSave] {
        let set = set_request(action, &large, Some(9));
        let address = switch.address;
        std::thread::scope(|scope| {
            let verifying = scope.spawn(|| Client::connect(address).unwrap().set_pipeline(&set).unwrap());
            // Until the server has the request.
            std::thread::sleep(Duration::from_millis(30));
            let mut writes = 0;
            for dst in 1.. {
                client
                    .write(&write_request(vec![update(v1::UpdateType::Insert, forward(&info, dst, &[1]))]))
                    .unwrap();
                // Once the config is saved, the entry is not there.
                let delete = update(v1::UpdateType::Delete, forward(&info, dst, &[1]));
                let _ = client.write(&write_request(vec![delete]));
                if verifying.is_finished() {
                    break;
                }
                writes += 1;
            }
            assert!(writes > 3, "{writes} Writes during {action:?}");
        });
        let cookie = get(&client, v1::ResponseType::CookieOnly).unwrap().cookie.map(|cookie| cookie.cookie);
        assert_eq!(cookie, (action == Action::VerifyAndSave).then_some(9));
    }
    // Another primary's verification is not saved.
    let set = set_request(Action::VerifyAndSave, &large, Some(10));
    let address = switch.address;
    std::thread::scope(|scope| {
        let verifying = scope.spawn(|| Client::connect(address).unwrap().set_pipeline(&set));
        std::thread::sleep(Duration::from_millis(30));
        let other = switch.client();
        let mut stream = other.stream().unwrap();
        assert_eq!(status(&stream.arbitrate(1, None, Some(2)).unwrap()), Code::Ok);
        assert!(!verifying.is_finished(), "the program is too small for this test");
        expect(verifying.join().unwrap(), Code::PermissionDenied, "Not primary");
    });
    let cookie = get(&client, v1::ResponseType::CookieOnly).unwrap().cookie.unwrap();
    assert_eq!(cookie.cookie, 9);
}

#[test]
fn w_9_the_next_packet_sees_what_was_answered() {
    let switch = Switch::start("w9");
    let client = switch.client();
    let mut stream = switch.primary(&client);
    let info = p4info(PROGRAM);
    for round in 1..=300u64 {
        // Without the entry, the packet leaves by port 1, which does not exist.
        let entry = forward(&info, round, &[1, 254]);
        client.write(&write_request(vec![update(v1::UpdateType::Insert, entry.clone())])).unwrap();
        stream.send(packet_out(1, &frame(round << 16, 60))).unwrap();
        match stream.next(LONG) {
            Ok(Some(v1::StreamResponse::Packet(packet))) => {
                assert_eq!(packet.payload[..6], (round << 16).to_be_bytes()[..6]);
            }
            other => panic!("round {round}: {other:?}"),
        }
        client.write(&write_request(vec![update(v1::UpdateType::Delete, entry)])).unwrap();
        stream.send(packet_out(1, &frame(round << 16, 60))).unwrap();
    }
    // None of the packets after a deletion came.
    stream.send(packet_out(510, &frame(u64::MAX, 60))).unwrap();
    match stream.next(LONG) {
        Ok(Some(v1::StreamResponse::Packet(packet))) => assert_eq!(packet.payload[..6], [0xff; 6]),
        other => panic!("{other:?}"),
    }
}

#[test]
fn e_57_a_counter_that_packets_change_never_goes_back() {
    const PACKETS: u64 = 20_000;
    let switch = Switch::start("e57");
    let client = switch.client();
    let mut stream = switch.primary(&client);
    let program = measuring();
    client.set_pipeline(&set_request(v1::ConfigAction::VerifyAndCommit, &program, None)).unwrap();
    let hit = forward(&p4info(&program), 0, &[1, 254]);
    client.write(&write_request(vec![update(v1::UpdateType::Insert, hit.clone())])).unwrap();
    let v1::EntityKind::TableEntry(mut pattern) = hit else { unreachable!() };
    (pattern.action, pattern.counter_data) = (None, Some(v1::CounterData::default()));
    let reader = switch.client();
    let counted = || {
        let entity = Some(v1::EntityKind::TableEntry(pattern.clone()));
        let request =
            v1::ReadRequest { device_id: 1, entities: vec![v1::Entity { entity }], ..Default::default() };
        match reader.read(&request).unwrap().remove(0).entity {
            Some(v1::EntityKind::TableEntry(entry)) => entry.counter_data.unwrap().packet_count as u64,
            other => panic!("{other:?}"),
        }
    };
    let arrived = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| {
            for number in 0..PACKETS / 100 {
                (0..100).for_each(|n| stream.send(packet_out(510, &frame(100 * number + n, 60))).unwrap());
                for _ in 0..100 {
                    assert!(matches!(stream.next(LONG), Ok(Some(v1::StreamResponse::Packet(_)))));
                    arrived.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                }
            }
        });
        let (mut last, mut reads) = (0, 0);
        while !sending.is_finished() {
            let before = arrived.load(std::sync::atomic::Ordering::SeqCst);
            let count = counted();
            assert!(count >= last && count >= before, "{count} after {last}, with {before} packets arrived");
            (last, reads) = (count, reads + 1);
        }
        assert!(reads > 10, "{reads} reads");
    });
    assert_eq!(counted(), PACKETS);
}

#[test]
fn p_7_a_commit_loses_no_packet() {
    use v1::ConfigAction as Action;
    let switch = Switch::start("p7");
    let client = switch.client();
    let mut stream = switch.primary(&client);
    let address = switch.address;
    let other = PROGRAM.replace("h.packet_in.kind = 5", "h.packet_in.kind = 6");
    let commits = std::thread::spawn(move || {
        let client = Client::connect(address).unwrap();
        for round in 0..6 {
            let program = if round % 2 == 0 { &other } else { PROGRAM };
            let begun = Instant::now();
            client.set_pipeline(&set_request(Action::VerifyAndCommit, program, None)).unwrap();
            eprintln!("a commit took {} ms with the request for P4Info", begun.elapsed().as_millis());
        }
    });
    let (mut sent, mut kinds) = (0u64, [0u64; 8]);
    while !commits.is_finished() || sent < 2000 {
        for _ in 0..20 {
            stream.send(packet_out(510, &frame(sent, 60))).unwrap();
            sent += 1;
        }
        for number in sent - 20..sent {
            match stream.next(LONG).unwrap() {
                // PK-6, PK-15: in their order.
                Some(v1::StreamResponse::Packet(packet)) => {
                    assert_eq!(packet.payload[..8], number.to_be_bytes());
                    kinds[packet.metadata[1].value[0] as usize] += 1;
                }
                other => panic!("{other:?}"),
            }
        }
    }
    commits.join().unwrap();
    assert!(kinds[5] > 0 && kinds[6] > 0 && kinds[5] + kinds[6] == sent, "{kinds:?}");
}

// --------------------------------------------------------------------------------------------------------------------------------
// Packets

#[test]
fn pk_1_to_pk_11_packets_of_the_controller_and_back() {
    let switch = Switch::start("pk1");
    let client = switch.client();
    let mut stream = switch.primary(&client);
    stream.send(packet_out(510, &frame(7, 100))).unwrap();
    // PK-10: all fields, in declared order, in their shortest form. PK-7: the ingress port is the CPU port.
    let metadata =
        |metadata_id, value: &[u8]| v1::PacketMetadata { metadata_id, value: Bytes::copy_from_slice(value) };
    let packet = v1::PacketIn {
        payload: frame(7, 100).into(),
        metadata: vec![metadata(1, &[1, 0xfe]), metadata(2, &[5]), metadata(3, &[0])],
    };
    assert_eq!(stream.next(LONG).unwrap(), Some(v1::StreamResponse::Packet(packet)));
    let mut error = |request: v1::StreamRequest, code: Code, words: &str| {
        stream.send(request.clone()).unwrap();
        match stream.next(LONG).unwrap() {
            Some(v1::StreamResponse::Error(error)) => {
                assert_eq!(error.canonical_code, code as i32, "{error:?}");
                assert!(error.message.contains(words), "{}", error.message);
                // SE-2: the message comes back.
                if let v1::StreamRequest::Packet(packet) = request {
                    let packet_out = v1::PacketOutError { packet_out: Some(packet) };
                    assert_eq!(error.details, Some(v1::StreamErrorDetails::PacketOut(packet_out)));
                }
            }
            other => panic!("{other:?}"),
        }
    };
    // PK-2.
    let missing = v1::PacketOut { metadata: vec![metadata(1, &[1])], ..Default::default() };
    error(
        v1::StreamRequest::Packet(missing),
        Code::InvalidArgument,
        "metadata 2 (`padding`) is given 0 times",
    );
    let wide =
        v1::PacketOut { metadata: vec![metadata(1, &[2, 0]), metadata(2, &[0])], ..Default::default() };
    error(v1::StreamRequest::Packet(wide), Code::InvalidArgument, "metadata 1 (`egress_port`) has 10 bits");
    // PK-5.
    error(packet_out(1, &frame(1, 20_000)), Code::InvalidArgument, "--frame-max");
    // X-2.
    let other = google::Any { type_url: "type.googleapis.com/x.Y".to_string(), ..Default::default() };
    error(v1::StreamRequest::Other(other), Code::Unimplemented, "x.Y");
    // SE-3: the stream has survived all that. PK-1: a backup may not.
    let mut backup = client.stream().unwrap();
    assert_eq!(status(&backup.arbitrate(1, None, Some(0)).unwrap()), Code::AlreadyExists);
    backup.send(packet_out(510, &frame(1, 60))).unwrap();
    match backup.next(LONG).unwrap() {
        Some(v1::StreamResponse::Error(error)) => {
            assert_eq!(error.canonical_code, Code::PermissionDenied as i32)
        }
        other => panic!("{other:?}"),
    }
    // PK-13: packets go to the primary, not to the backup.
    assert_eq!(kind_of_a_packet(&mut stream), 5);
    assert_eq!(backup.next(SHORT).unwrap_err().code(), Code::DeadlineExceeded);
}

/// The program, with ports that have strings for clients.
fn named_ports() -> String {
    let declared =
        "@p4runtime_translation(\"port\", string) type bit<9> port_t;\n@controller_header(\"packet_out\")";
    let text = PROGRAM.replacen("@controller_header(\"packet_out\")", declared, 1);
    let text = text.replace("bit<9> egress_port;", "port_t egress_port;");
    let text = text.replace("bit<9> ingress_port;", "port_t ingress_port;");
    let text = text.replace("= h.packet_out.egress_port", "= (bit<9>)h.packet_out.egress_port");
    text.replace(
        "h.packet_in.ingress_port = s.ingress_port",
        "h.packet_in.ingress_port = (port_t)s.ingress_port",
    )
}

#[test]
fn pk_12_and_tr_5_metadata_can_be_strings() {
    let switch = Switch::start("pk12");
    let client = switch.client();
    let mut stream = switch.primary(&client);
    client.set_pipeline(&set_request(v1::ConfigAction::VerifyAndCommit, &named_ports(), None)).unwrap();
    let metadata =
        |metadata_id, value: &[u8]| v1::PacketMetadata { metadata_id, value: Bytes::copy_from_slice(value) };
    let out = |port: &[u8]| {
        v1::StreamRequest::Packet(v1::PacketOut {
            payload: frame(7, 100).into(),
            metadata: vec![metadata(2, &[0]), metadata(1, port)],
        })
    };
    stream.send(out(b"510")).unwrap();
    let packet = v1::PacketIn {
        payload: frame(7, 100).into(),
        metadata: vec![metadata(1, b"510"), metadata(2, &[5]), metadata(3, &[0])],
    };
    assert_eq!(stream.next(LONG).unwrap(), Some(v1::StreamResponse::Packet(packet)));
    // A string whose number does not fit in the port gets another number, which is not a port. Bytes that are not UTF-8 are refused.
    stream.send(out(b"Ethernet0")).unwrap();
    stream.send(out(&[0xff])).unwrap();
    match stream.next(LONG).unwrap() {
        Some(v1::StreamResponse::Error(error)) => {
            assert_eq!(error.canonical_code, Code::InvalidArgument as i32);
            assert!(
                error.message.contains("metadata 1 (`egress_port`): the string is not UTF-8"),
                "{error:?}"
            );
        }
        other => panic!("{other:?}"),
    }
    // A P4Info with other types than the program's headers is refused.
    let mut request = set_request(v1::ConfigAction::Verify, &named_ports(), None);
    let config = request.config.as_mut().unwrap().p4info.as_mut().unwrap();
    config.controller_packet_metadata[0].metadata[0].type_name = None;
    expect(client.set_pipeline(&request), Code::InvalidArgument, "`egress_port`");
}

/// The program with an action argument that clients give as a string, and that packets and digests bring back.
fn labelling() -> String {
    let declared = "@p4runtime_translation(\"label\", string) type bit<9> label_t;
struct learn_t { label_t label; bit<48> mac; }
struct metadata { label_t label; }";
    let program = PROGRAM.replace("struct metadata {}", "");
    let includes = "#include <v1model.p4>\n";
    let program = program.replacen(includes, &format!("{includes}{declared}\n"), 1);
    let program = program.replace("bit<9> ingress_port;", "label_t ingress_port;");
    let program = program.replace(
        "action forward(bit<9> port) { s.egress_spec = port; }",
        "action forward(label_t port) { m.label = port; }",
    );
    let program =
        program.replace("h.packet_in.ingress_port = s.ingress_port", "h.packet_in.ingress_port = m.label");
    program
        .replace("ports.apply();", "ports.apply();\n        digest<learn_t>(1, { m.label, h.ethernet.src });")
}

/// After a dump is restored, packets and digests have its strings, and digests come as the dump wants them, before any request.
#[test]
fn tr_5_packets_and_digests_have_the_strings_of_a_restored_dump() {
    let (files, program) = (TempDir::new("restored-strings"), labelling());
    let (path, socket, dump) =
        (files.write("program.p4", &program), files.file("socket"), files.file("dump"));
    let mut command = common::p4jet();
    command.args(["run", &path, "--control", &socket, "--p4runtime", "127.0.0.1:0", "--cpu-port", CPU]);
    let switch = Switch::start_command(command, files);
    let ctl = |line: &str| common::run(&["ctl", "--control", &socket, line]).expect_status(0);
    let client = switch.client();
    let mut stream = switch.primary(&client);
    let info = p4info(&program);
    let set = |label: &str| {
        client.set_pipeline(&set_request(v1::ConfigAction::VerifyAndCommit, &program, None)).unwrap();
        let digest_id = info.digests[0].preamble.as_ref().unwrap().id;
        let config = v1::DigestConfig { max_timeout_ns: 0, max_list_size: 1, ack_timeout_ns: 0 };
        let digest = v1::EntityKind::DigestEntry(v1::DigestEntry { digest_id, config: Some(config) });
        let all = [forward(&info, 1, label.as_bytes()), digest];
        let all = all.into_iter().map(|entity| update(v1::UpdateType::Insert, entity));
        client.write(&write_request(all.collect())).unwrap();
    };
    // The strings in a packet and in a digest.
    let mut shown = |source: u16| {
        let mut frame = frame_from(source);
        frame[5] = 1;
        stream.send(packet_out(510, &frame)).unwrap();
        let (mut of_packet, mut of_digest) = (None, None);
        while of_packet.is_none() || of_digest.is_none() {
            match stream.next(LONG).unwrap() {
                Some(v1::StreamResponse::Packet(packet)) => {
                    of_packet = Some(packet.metadata[0].value.clone())
                }
                Some(v1::StreamResponse::Digest(list)) => match &list.data[0].data {
                    Some(v1::DataValue::Struct(learn)) => match &learn.members[0].data {
                        Some(v1::DataValue::Bitstring(label)) => of_digest = Some(label.clone()),
                        other => panic!("{other:?}"),
                    },
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            }
        }
        [of_packet.unwrap(), of_digest.unwrap()]
    };
    set("blue");
    assert_eq!(shown(1), ["blue"; 2]);
    ctl(&format!("serialize_state {dump}"));
    set("red");
    assert_eq!(shown(2), ["red"; 2]);
    ctl(&format!("restore {dump}"));
    assert_eq!(shown(3), ["blue"; 2]);
}

/// The program with a direct counter and meter, which colours the packets that match no entry.
fn measuring() -> String {
    let text = PROGRAM.replace("struct metadata {}", "struct metadata { bit<3> colour; }");
    let table = "direct_counter(CounterType.packets_and_bytes) hits;
    direct_meter<bit<3>>(MeterType.packets) speed;
    action measured() { speed.read(m.colour); }
    table ports {
        counters = hits;
        meters = speed;";
    let text = text.replace("table ports {", table);
    let text = text.replace("actions = { drop;", "actions = { measured; drop;");
    let text = text.replace("default_action = NoAction();", "default_action = measured();");
    text.replace("h.packet_in.kind = 5", "h.packet_in.kind = m.colour")
}

#[test]
fn e_31_the_default_entry_counts_and_meters_the_packets_without_entry() {
    let switch = Switch::start("e31");
    let client = switch.client();
    let mut stream = switch.primary(&client);
    let program = measuring();
    client.set_pipeline(&set_request(v1::ConfigAction::VerifyAndCommit, &program, None)).unwrap();
    let info = p4info(&program);
    let id = |preamble: &Option<config::Preamble>| preamble.as_ref().unwrap().id;
    let default = v1::TableEntry {
        table_id: id(&info.tables[0].preamble),
        is_default_action: true,
        counter_data: Some(v1::CounterData::default()),
        meter_config: Some(v1::MeterConfig::default()),
        ..Default::default()
    };
    let read = || {
        let entity = Some(v1::EntityKind::TableEntry(default.clone()));
        let request =
            v1::ReadRequest { device_id: 1, entities: vec![v1::Entity { entity }], ..Default::default() };
        match client.read(&request).unwrap().remove(0).entity {
            Some(v1::EntityKind::TableEntry(entry)) => entry,
            other => panic!("{other:?}"),
        }
    };
    let counted = || read().counter_data.map(|data| data.packet_count);
    assert_eq!((kind_of_a_packet(&mut stream), counted()), (0, Some(1)));
    // An entry's packets are not those of the default entry.
    let hit = forward(&info, 0, &[1, 254]);
    client.write(&write_request(vec![update(v1::UpdateType::Insert, hit.clone())])).unwrap();
    assert_eq!((kind_of_a_packet(&mut stream), counted()), (0, Some(1)));
    client.write(&write_request(vec![update(v1::UpdateType::Delete, hit)])).unwrap();
    // One green packet, one yellow one, and no more tokens.
    let measured = info.actions.iter().find(|a| a.preamble.as_ref().unwrap().alias == "measured").unwrap();
    let action = v1::Action { action_id: id(&measured.preamble), params: Vec::new() };
    let meter_config = v1::MeterConfig { cir: 0, cburst: 1, pir: 0, pburst: 2, eburst: 0 };
    let written = v1::TableEntry {
        action: Some(v1::TableAction { r#type: Some(v1::TableActionType::Action(action)) }),
        meter_config: Some(meter_config),
        counter_data: Some(v1::CounterData { byte_count: 0, packet_count: 100 }),
        ..default.clone()
    };
    let modify = update(v1::UpdateType::Modify, v1::EntityKind::TableEntry(written.clone()));
    client.write(&write_request(vec![modify])).unwrap();
    assert_eq!(read(), written);
    let kinds: Vec<u8> = (0..4).map(|_| kind_of_a_packet(&mut stream)).collect();
    assert_eq!((kinds, counted()), (vec![0, 1, 2, 2], Some(104)));
}

// --------------------------------------------------------------------------------------------------------------------------------
// Digests and idle timeouts

/// The program with a digest of each packet's source, and a table with idle timeouts.
fn learning() -> String {
    let table = "table idle {
        key = { h.ethernet.src: exact; h.ethernet.kind: exact; }
        actions = { NoAction; }
        support_timeout = true;
        size = 16;
    }
    apply {
        digest<learn_t>(1, { h.ethernet.src, s.ingress_port });
        idle.apply();
        s.egress_spec = 510;";
    let program = PROGRAM.replacen("apply {\n        s.egress_spec = 510;", table, 1);
    program.replace(
        "struct metadata {}",
        "struct metadata {}\n@name(\"learned\") struct learn_t { bit<48> mac; bit<9> port; }",
    )
}

fn update(kind: v1::UpdateType, entity: v1::EntityKind) -> v1::Update {
    v1::Update { r#type: kind as i32, entity: Some(v1::Entity { entity: Some(entity) }) }
}

/// A frame from a source.
fn frame_from(source: u16) -> Vec<u8> {
    let mut frame = frame(0, 60);
    frame[10..12].copy_from_slice(&source.to_be_bytes());
    frame[6..10].fill(0);
    frame
}

/// Sends frames to a port that does not exist.
fn send_from(stream: &Stream, sources: impl IntoIterator<Item = u16>) {
    sources.into_iter().for_each(|source| stream.send(packet_out(3, &frame_from(source))).unwrap());
}

/// The sources in a list of digests.
fn list(message: Option<v1::StreamResponse>) -> (u64, Vec<u64>) {
    let Some(v1::StreamResponse::Digest(list)) = message else { panic!("{message:?}") };
    assert!(list.timestamp > 1_700_000_000_000_000_000);
    let sources = list.data.iter().map(|data| match &data.data {
        Some(v1::DataValue::Struct(learn)) => {
            // DG-7: the members in order. The frame came from the CPU port.
            let member = |place: usize| match &learn.members[place].data {
                Some(v1::DataValue::Bitstring(bytes)) => {
                    bytes.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte))
                }
                other => panic!("{other:?}"),
            };
            assert_eq!(member(1), 510);
            member(0)
        }
        other => panic!("{other:?}"),
    });
    (list.list_id, sources.collect())
}

#[test]
fn dg_1_to_dg_9_digests_come_in_lists() {
    use v1::UpdateType as Type;
    let program = learning();
    let switch = Switch::start("dg1");
    let client = switch.client();
    let mut stream = switch.primary(&client);
    client.set_pipeline(&set_request(v1::ConfigAction::VerifyAndCommit, &program, None)).unwrap();
    let digest_id = p4info(&program).digests[0].preamble.as_ref().unwrap().id;
    let config = |max_timeout_ns, max_list_size, ack_timeout_ns| {
        Some(v1::DigestConfig { max_timeout_ns, max_list_size, ack_timeout_ns })
    };
    let write = |kind, config| {
        let entry = v1::EntityKind::DigestEntry(v1::DigestEntry { digest_id, config });
        client.write(&write_request(vec![update(kind, entry)]))
    };
    let code = |failed: Result<(), Status>| errors(&failed.unwrap_err())[0].canonical_code;
    // Without an entry, nothing is sent.
    send_from(&stream, [1, 2]);
    assert_eq!(stream.next(SHORT).unwrap_err().code(), Code::DeadlineExceeded);
    assert_eq!(code(write(Type::Modify, None)), Code::NotFound as i32);
    assert_eq!(code(write(Type::Delete, None)), Code::NotFound as i32);
    write(Type::Insert, config(3_600_000_000_000, 3, 3_600_000_000_000)).unwrap();
    assert_eq!(code(write(Type::Insert, None)), Code::AlreadyExists as i32);
    // DG-2, DG-3: a list of three different ones.
    send_from(&stream, [1, 2, 2, 1, 3]);
    assert_eq!(list(stream.next(LONG).unwrap()), (1, vec![1, 2, 3]));
    // They are not sent again until they are acknowledged.
    send_from(&stream, [1, 2, 3, 4, 5]);
    assert_eq!(stream.next(SHORT).unwrap_err().code(), Code::DeadlineExceeded);
    stream.send(v1::StreamRequest::DigestAck(v1::DigestListAck { digest_id, list_id: 1 })).unwrap();
    send_from(&stream, [1]);
    assert_eq!(list(stream.next(LONG).unwrap()), (2, vec![4, 5, 1]));
    // DG-9.
    let read = |digest_id| {
        let entity = v1::EntityKind::DigestEntry(v1::DigestEntry { digest_id, config: None });
        let entities = vec![v1::Entity { entity: Some(entity) }];
        client.read(&v1::ReadRequest { device_id: 1, entities, ..Default::default() })
    };
    assert_eq!(read(0).unwrap(), read(digest_id).unwrap());
    // Each at once, and by time.
    write(Type::Modify, config(0, 0, 0)).unwrap();
    send_from(&stream, [7, 7]);
    assert_eq!(list(stream.next(LONG).unwrap()), (3, vec![7]));
    assert_eq!(list(stream.next(LONG).unwrap()), (4, vec![7]));
    write(Type::Modify, config(50_000_000, 0, 0)).unwrap();
    send_from(&stream, [8, 9, 8]);
    assert_eq!(list(stream.next(LONG).unwrap()), (5, vec![8, 9]));
    // DG-6.
    stream.send(v1::StreamRequest::DigestAck(v1::DigestListAck { digest_id: 7, list_id: 1 })).unwrap();
    match stream.next(LONG).unwrap() {
        Some(v1::StreamResponse::Error(error)) => {
            assert_eq!(error.canonical_code, Code::InvalidArgument as i32);
            assert!(
                error.message.starts_with("the P4Info has no digest with the id 7; digests: "),
                "{error:?}"
            );
        }
        other => panic!("{other:?}"),
    }
    write(Type::Delete, None).unwrap();
    assert_eq!(read(0).unwrap(), []);
    send_from(&stream, [10]);
    assert_eq!(stream.next(SHORT).unwrap_err().code(), Code::DeadlineExceeded);
}

#[test]
fn dg_10_a_hundred_thousand_sources_are_learned_once_each() {
    const SOURCES: u32 = 100_000;
    let program = learning();
    let switch = Switch::start("dg10");
    let client = switch.client();
    let mut stream = switch.primary(&client);
    client.set_pipeline(&set_request(v1::ConfigAction::VerifyAndCommit, &program, None)).unwrap();
    let digest_id = p4info(&program).digests[0].preamble.as_ref().unwrap().id;
    let config = v1::DigestConfig {
        max_timeout_ns: 10_000_000,
        max_list_size: 1000,
        ack_timeout_ns: 3_600_000_000_000,
    };
    let entry = v1::EntityKind::DigestEntry(v1::DigestEntry { digest_id, config: Some(config) });
    client.write(&write_request(vec![update(v1::UpdateType::Insert, entry)])).unwrap();
    // Without acknowledgements, none is sent again.
    let mut seen = vec![false; SOURCES as usize];
    let (mut missing, mut lists, begun) = (SOURCES as usize, 0, Instant::now());
    while missing > 0 {
        assert!(begun.elapsed() < 3 * LONG, "{missing} of {SOURCES} are missing");
        let sources: Vec<u32> = (0..SOURCES).filter(|source| !seen[*source as usize]).collect();
        // A host whose packet is lost on the way sends another one.
        for some in sources.chunks(5_000) {
            for source in some {
                let mut frame = frame_from(0);
                frame[8..12].copy_from_slice(&source.to_be_bytes());
                stream.send(packet_out(3, &frame)).unwrap();
            }
            while let Ok(message) = stream.next(SHORT) {
                let (_, learned) = list(message);
                lists += 1;
                assert!(learned.len() <= 1000, "{} messages in a list", learned.len());
                for source in learned {
                    let again = std::mem::replace(&mut seen[source as usize], true);
                    assert!(!again, "{source} comes twice");
                    missing -= 1;
                }
            }
        }
    }
    assert!(lists >= SOURCES / 1000, "{lists} lists");
}

#[test]
fn it_1_to_it_5_idle_entries_are_reported_at_each_timeout() {
    let program = learning();
    let switch = Switch::start("it1");
    let client = switch.client();
    let mut stream = switch.primary(&client);
    client.set_pipeline(&set_request(v1::ConfigAction::VerifyAndCommit, &program, None)).unwrap();
    let p4info = p4info(&program);
    let id = |preamble: &Option<config::Preamble>| preamble.as_ref().unwrap().id;
    let table = p4info.tables.iter().find(|table| table.preamble.as_ref().unwrap().alias == "idle").unwrap();
    let action =
        p4info.actions.iter().find(|action| action.preamble.as_ref().unwrap().name == "NoAction").unwrap();
    let exact = |field_id, value: &[u8]| v1::FieldMatch {
        field_id,
        field_match_type: Some(v1::FieldMatchType::Exact(v1::Exact { value: Bytes::copy_from_slice(value) })),
    };
    let key = v1::TableEntry {
        table_id: id(&table.preamble),
        // Not in their order.
        r#match: vec![exact(2, &[0]), exact(1, &[1, 0])],
        ..Default::default()
    };
    let action = v1::Action { action_id: id(&action.preamble), params: Vec::new() };
    let timeout = 200_000_000;
    let entry = v1::TableEntry {
        action: Some(v1::TableAction { r#type: Some(v1::TableActionType::Action(action)) }),
        idle_timeout_ns: timeout,
        ..key.clone()
    };
    let begun = Instant::now();
    client
        .write(&write_request(vec![update(v1::UpdateType::Insert, v1::EntityKind::TableEntry(entry))]))
        .unwrap();
    for round in 1..=3 {
        match stream.next(LONG).unwrap() {
            Some(v1::StreamResponse::IdleTimeoutNotification(idle)) => {
                // IT-4: never early. IT-3: again after each timeout.
                let after = begun.elapsed().as_nanos() as i64;
                assert!(after >= round * timeout, "{round}: {after}");
                let [entry] = &idle.table_entry[..] else { panic!("{idle:?}") };
                assert_eq!((entry.table_id, entry.idle_timeout_ns), (key.table_id, timeout));
                // G-3: in the order of the key.
                assert_eq!(entry.r#match, [exact(1, &[1, 0]), exact(2, &[0])]);
                assert!(entry.action.is_none());
            }
            other => panic!("{other:?}"),
        }
    }
    // IT-5: not after its end.
    let delete = update(v1::UpdateType::Delete, v1::EntityKind::TableEntry(key));
    client.write(&write_request(vec![delete])).unwrap();
    while stream.next(Duration::from_millis(10)).is_ok() {}
    assert_eq!(stream.next(Duration::from_millis(500)).unwrap_err().code(), Code::DeadlineExceeded);
}

// --------------------------------------------------------------------------------------------------------------------------------
// p4c

#[test]
fn programs_of_p4c_run_under_the_names_of_bmv2() {
    let files = TempDir::new("p4c");
    files.write("part.p4", "const bit<9> TO_CONTROLLER = LIMIT;\n");
    let program = PROGRAM.replacen("@controller_header", "#include \"part.p4\"\n@controller_header", 1);
    let program = program.replace("s.egress_spec = 510;", "s.egress_spec = TO_CONTROLLER;");
    let path = files.write("x.p4", program);
    let (json, p4info) = (files.file("x.json"), files.file("x.p4info.txtpb"));
    let line = ["p4c-bm2-ss", "--p4v", "16", "-DLIMIT=510", "--p4runtime-files", &p4info, "-o", &json, &path];
    common::run(&line).expect_status(0);
    let text = std::fs::read_to_string(&p4info).unwrap();
    assert!(text.contains("controller_packet_metadata"), "{text}");
    let wrong = ["p4c-bm2-ss", "-o", &files.file("y.json"), &path];
    common::run(&wrong).expect_status(1).says(&["LIMIT"]);
    assert!(!std::path::Path::new(&files.file("y.json")).exists());
    // The driver writes into a folder.
    let line =
        ["p4c", "--target", "bmv2", "--arch", "v1model", "-DLIMIT=510", "-o", &files.file("out"), &path];
    common::run(&line).expect_status(0);
    assert_eq!(std::fs::read(files.file("out/x.json")).unwrap(), std::fs::read(&json).unwrap());
    // The preprocessed text is a complete program with the same P4Info.
    let preprocessed = common::run(&["p4c", "-E", "-DLIMIT=510", &path]).expect_status(0);
    let p4i = std::fs::read_to_string(files.file("out/x.p4i")).unwrap();
    assert_eq!(preprocessed.stdout, p4i);
    assert!(p4i.contains("part.p4\"\nconst bit<9> TO_CONTROLLER = 510;\n# "), "{p4i}");
    let (alone, again) = (files.write("alone.p4", &p4i), files.file("again.p4info.txtpb"));
    common::run(&["p4c-bm2-ss", "--p4runtime-files", &again, &alone]).expect_status(0);
    assert_eq!(std::fs::read_to_string(&again).unwrap().replace("alone", "x"), text);
    let line = ["p4c", "--target", "tofino", &path];
    common::run(&line).expect_status(1).says(&["Unknown backend: tofino"]);
    // The sources are not needed any more.
    std::fs::remove_file(&path).unwrap();
    let mut command = common::p4jet();
    command.args(["simple_switch_grpc", &json, "--", "--grpc-server-addr", "127.0.0.1:0", "--cpu-port", CPU]);
    let blob = std::fs::read(&json).unwrap();
    let switch = Switch::start_command(command, files);
    let client = switch.client();
    let mut stream = switch.primary(&client);
    assert_eq!(kind_of_a_packet(&mut stream), 5);
    // The form that the tutorials send.
    let mut message = vec![1 << 3, 1, 3 << 3 | 2];
    let mut length = blob.len();
    while length >= 0x80 {
        message.push(length as u8 | 0x80);
        length >>= 7;
    }
    message.push(length as u8);
    message.extend_from_slice(&blob);
    let mut set = set_request(v1::ConfigAction::VerifyAndCommit, PROGRAM, None);
    set.config.as_mut().unwrap().p4_device_config = message.into();
    client.set_pipeline(&set).unwrap();
    assert_eq!(kind_of_a_packet(&mut stream), 5);
}

// --------------------------------------------------------------------------------------------------------------------------------
// TLS

/// A certificate authority, and the configuration of its clients.
struct Authority {
    certificate: rcgen::Certificate,
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
}

impl Authority {
    fn new() -> Authority {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        Authority { certificate, issuer: rcgen::Issuer::new(params, key) }
    }

    /// A certificate and its key.
    fn certify(&self) -> (rcgen::Certificate, rcgen::KeyPair) {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_string()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    fn client(
        &self,
        own: Option<(rcgen::Certificate, rcgen::KeyPair)>,
    ) -> std::sync::Arc<rustls::ClientConfig> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.certificate.der().clone()).unwrap();
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match own {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let key = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap();
                builder.with_client_auth_cert(vec![certificate.der().clone()], key).unwrap()
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        config.into()
    }
}

#[test]
fn sc_1_to_sc_3_tls_with_and_without_certificates_of_clients() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let files = TempDir::new("sc1");
    let (certificate, key) = ours.certify();
    let certificate = files.write("server.pem", certificate.pem());
    let key = files.write("server.key", key.serialize_pem());
    let ca = files.write("ca.pem", ours.certificate.pem());
    let tls = ["--p4runtime-cert", &certificate, "--p4runtime-key", &key];
    let switch = Switch::start_with("sc1a", &tls);
    let client = Client::connect_tls(switch.address, ours.client(None)).unwrap();
    assert_eq!(client.capabilities(0).unwrap().p4runtime_api_version, "1.5.0");
    assert!(Client::connect_tls(switch.address, theirs.client(None)).is_err());
    assert!(Client::connect(switch.address).map_or(true, |plain| plain.capabilities(0).is_err()));
    let switch = Switch::start_with("sc1b", &[&tls[..], &["--p4runtime-ca", &ca]].concat());
    let client = Client::connect_tls(switch.address, ours.client(Some(ours.certify()))).unwrap();
    client.capabilities(0).unwrap();
    for own in [None, Some(theirs.certify())] {
        // With TLS 1.3 the client learns of it by the first answer.
        let client = Client::connect_tls(switch.address, ours.client(own));
        assert!(client.map_or(true, |client| client.capabilities(0).is_err()));
    }
    client.capabilities(0).unwrap();
    // A missing file is an error at startup.
    let program = files.write("program.p4", PROGRAM);
    let line =
        ["run", &program, "--no-control", "--p4runtime", "127.0.0.1:0", "--p4runtime-cert", "/nowhere"];
    common::run(&[&line[..], &["--p4runtime-key", &key]].concat()).expect_status(3).says(&["/nowhere"]);
    // So is a file of another kind.
    let line = ["run", &program, "--no-control", "--p4runtime", "127.0.0.1:0"];
    for (certificate, key, why) in [
        (&key, &key, "server.key: no certificate, expected PEM: `-----BEGIN CERTIFICATE-----`"),
        (
            &certificate,
            &certificate,
            "server.pem: no private key, expected PEM: `-----BEGIN PRIVATE KEY-----`",
        ),
    ] {
        let tls = ["--p4runtime-cert", certificate, "--p4runtime-key", key];
        common::run(&[&line[..], &tls].concat()).expect_status(3).says(&[why]);
    }
}

// --------------------------------------------------------------------------------------------------------------------------------
// Hostile clients

/// The preface of HTTP/2, and empty SETTINGS.
const GREETING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// The headers of a request on a stream of HTTP/2, as bytes.
fn headers(method: &str, stream: u8) -> Vec<u8> {
    let mut headers = vec![0x83, 0x86];
    let mut literal = |name: &str, value: &str| {
        headers.push(0);
        for text in [name, value] {
            headers.push(text.len() as u8);
            headers.extend_from_slice(text.as_bytes());
        }
    };
    literal(":path", &format!("/p4.v1.P4Runtime/{method}"));
    literal(":authority", "x");
    literal("content-type", "application/grpc");
    literal("te", "trailers");
    let mut bytes = (headers.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend_from_slice(&[1, 4, 0, 0, 0, stream]);
    bytes.extend_from_slice(&headers);
    bytes
}

/// True if these contents of HEADERS have the status RESOURCE_EXHAUSTED: `grpc-status` as literal or Huffman code, and its value.
/// gRPC's numbers have no code in HPACK's tables.
fn is_exhausted(headers: &[u8]) -> bool {
    headers.windows(2).any(|bytes| bytes == [1, b'8'] || bytes == [0x81, 0x7b])
}

/// Begins Reads of all entries on a connection of their own, and reads nothing.
fn read_lazily(address: SocketAddr, count: u8) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let message = all_entries().encode_to_vec();
    let mut bytes = GREETING.to_vec();
    for number in 0..count {
        let id = 2 * number + 1;
        bytes.extend_from_slice(&headers("Read", id));
        bytes.extend_from_slice(&[0, 0, message.len() as u8 + 5, 0, 1, 0, 0, 0, id]);
        bytes.extend_from_slice(&[0, 0, 0, 0, message.len() as u8]);
        bytes.extend_from_slice(&message);
    }
    stream.write_all(&bytes).unwrap();
    stream
}

/// A request in HTTP/2, as bytes: the beginning of a message that announces more than it sends.
struct Announcing(TcpStream);

impl Announcing {
    fn open(address: SocketAddr, method: &str, announced: u32) -> Announcing {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let mut bytes = [GREETING, &headers(method, 1)].concat();
        bytes.extend_from_slice(&[0, 0, 8, 0, 0, 0, 0, 0, 1, 0]);
        bytes.extend_from_slice(&announced.to_be_bytes());
        bytes.extend_from_slice(b"abc");
        stream.write_all(&bytes).unwrap();
        Announcing(stream)
    }

    /// The status in the answer.
    fn status(mut self) -> String {
        let mut seen = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            let count = self.0.read(&mut buffer).unwrap_or(0);
            seen.extend_from_slice(&buffer[..count]);
            let frames = frames(&seen);
            if let Some((_, _, headers)) = frames.iter().find(|(kind, ..)| *kind == 1) {
                return match is_exhausted(headers) {
                    true => "grpc-status: 8".to_string(),
                    false => format!("{headers:02x?}"),
                };
            }
            if count == 0 {
                return format!("no headers: {frames:?}");
            }
        }
    }
}

/// Kind, flags and content of the frames of HTTP/2 in these bytes.
fn frames(mut bytes: &[u8]) -> Vec<(u8, u8, &[u8])> {
    let mut frames = Vec::new();
    while let [a, b, c, kind, flags, _, _, _, _, rest @ ..] = bytes {
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        let Some((content, after)) = rest.split_at_checked(length) else { break };
        frames.push((*kind, *flags, content));
        bytes = after;
    }
    frames
}

#[test]
fn garbage_on_the_port_ends_the_connection() {
    let switch = Switch::start("garbage");
    let client = switch.client();
    let stream = switch.primary(&client);
    for garbage in
        [&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..], &[0; 64], &[0xff; 4096], b"\x16\x03\x01\x02\0\x01"]
    {
        let mut connection = TcpStream::connect(switch.address).unwrap();
        connection.set_read_timeout(Some(LONG)).unwrap();
        connection.write_all(garbage).unwrap();
        let mut answer = Vec::new();
        let _ = connection.read_to_end(&mut answer);
        assert!(answer.len() < 100, "{answer:?}");
    }
    // After the preface, too.
    let mut connection = TcpStream::connect(switch.address).unwrap();
    connection.set_read_timeout(Some(LONG)).unwrap();
    connection.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff").unwrap();
    let _ = connection.read_to_end(&mut Vec::new());
    client.write(&write_request(Vec::new())).unwrap();
    drop(stream);
}

#[test]
fn half_requests_and_floods_leave_room_for_others() {
    let switch = Switch::start("half");
    let client = switch.client();
    let stream = switch.primary(&client);
    let before = switch.memory();
    // Each announces 200 MiB and sends three bytes: these need no room, and no more is ever allocated.
    let halves: Vec<Announcing> =
        (0..10).map(|_| Announcing::open(switch.address, "Write", 200 << 20)).collect();
    std::thread::sleep(Duration::from_millis(300));
    client.write(&write_request(Vec::new())).unwrap();
    assert!(switch.memory() < before + (32 << 10), "{before} and then {} KiB", switch.memory());
    drop(halves);
    std::thread::sleep(Duration::from_millis(300));
    let large = v1::WriteRequest { role: "x".repeat(8 << 20), ..write_request(Vec::new()) };
    expect(
        client.write(&large),
        Code::ResourceExhausted,
        "the role's name has 8388608 bytes, expected at most 256",
    );
    drop(stream);
}

/// Room for requests is that of what has arrived, and what streams receive needs none.
#[test]
fn t_5_announcements_of_others_take_no_room() {
    let switch = Switch::start("t5");
    let client = switch.client();
    let mut stream = switch.primary(&client);
    let before = switch.memory();
    let mebibytes = [255 << 20, 255 << 20, 1 << 20];
    let lengths = mebibytes.into_iter().chain([512, 256, 128, 64, 32, 17].map(|kib| kib << 10));
    let writes = lengths.map(|announced| Announcing::open(switch.address, "Write", announced));
    let streams = (0..10).map(|_| Announcing::open(switch.address, "StreamChannel", 4 << 20));
    let halves: Vec<Announcing> = writes.chain(streams).collect();
    std::thread::sleep(Duration::from_millis(300));
    let large = v1::WriteRequest { role: "x".repeat(8 << 20), ..write_request(Vec::new()) };
    let words = "the role's name has 8388608 bytes, expected at most 256";
    expect(client.write(&large), Code::ResourceExhausted, words);
    let program = format!("{PROGRAM}// {}", "x".repeat(200_000));
    client.set_pipeline(&set_request(v1::ConfigAction::VerifyAndCommit, &program, None)).unwrap();
    stream.send(packet_out(510, &vec![0; 20_000])).unwrap();
    stream.send(packet_out(510, &frame(1, 60))).unwrap();
    let mut next = || stream.next(LONG).unwrap().expect("the stream is open");
    while !matches!(next(), v1::StreamResponse::Packet(packet) if packet.payload == frame(1, 60)) {}
    assert!(switch.memory() < before + (64 << 10), "{before} and then {} KiB", switch.memory());
    drop(halves);
}

#[test]
fn a_thousand_streams_are_bounded() {
    let switch = Switch::start("thousand");
    let client = switch.client();
    let stream = switch.primary(&client);
    let before = switch.memory();
    let clients: Vec<Client> = (0..8).map(|_| switch.client()).collect();
    let mut streams = Vec::new();
    let mut refused = 0;
    for client in &clients {
        for _ in 0..140 {
            match client.stream() {
                Ok(stream) => streams.push(stream),
                Err(status) => {
                    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
                    refused += 1;
                }
            }
        }
    }
    assert_eq!(streams.len(), 1023);
    assert_eq!(refused, 8 * 140 - 1023);
    let memory = switch.memory();
    assert!(memory < before + (64 << 10), "{before} and then {memory} KiB");
    client.write(&write_request(Vec::new())).unwrap();
    // Connections are limited, too.
    let greet = |_| {
        let mut more = TcpStream::connect(switch.address).unwrap();
        more.write_all(GREETING).unwrap();
        more
    };
    let mut more: Vec<TcpStream> = (0..100).map(greet).collect();
    client.write(&write_request(Vec::new())).unwrap();
    // Of these clients, 64 less the nine with streams stay.
    let is_open = |stream: &mut TcpStream| {
        stream.set_nonblocking(true).unwrap();
        let mut buffer = [0; 4096];
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
            }
        }
    };
    let begun = Instant::now();
    let mut open = more.len();
    while open != 55 && begun.elapsed() < LONG {
        std::thread::sleep(SHORT);
        open = more.iter_mut().filter_map(|stream| is_open(stream).then_some(())).count();
    }
    assert_eq!(open, 55);
    drop((more, streams, clients, stream));
    std::thread::sleep(Duration::from_millis(300));
    switch.client().stream().unwrap();
}

#[test]
fn pk_14_a_client_that_never_reads_fills_no_memory() {
    let switch = Switch::start("never");
    let lazy = switch.client();
    let stream = switch.primary(&lazy);
    let before = switch.memory();
    // 400 MB of packets return to a client that does not read them.
    for number in 0..40_000 {
        stream.send(packet_out(510, &frame(number, 9000))).unwrap();
    }
    let memory = switch.memory();
    assert!(memory < before + (64 << 10), "{before} and then {memory} KiB");
    // T-5: others are answered.
    let client = switch.client();
    client.write(&write_request(Vec::new())).unwrap();
    // A-25: and so is a new primary.
    let mut other = client.stream().unwrap();
    let begun = Instant::now();
    assert_eq!(status(&other.arbitrate(1, None, Some(2)).unwrap()), Code::Ok);
    assert!(begun.elapsed() < Duration::from_secs(2));
    let mut stream = stream;
    // The notification overtakes the packets that wait in the server.
    let mut packets = 0;
    loop {
        match stream.next(LONG).unwrap() {
            Some(v1::StreamResponse::Packet(_)) => packets += 1,
            // PK-8: packets that the switch did not take.
            Some(v1::StreamResponse::Error(error)) => {
                assert_eq!(error.canonical_code, Code::ResourceExhausted as i32);
            }
            Some(v1::StreamResponse::Arbitration(update)) => {
                assert_eq!(status(&update), Code::AlreadyExists);
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(packets < 2000, "{packets}");
}

#[test]
fn reads_whose_answers_nobody_reads_leave_room_for_others() {
    let switch = Switch::start("lazy");
    let client = switch.client();
    let _stream = switch.primary(&client);
    let info = p4info(PROGRAM);
    let entries = (1..=400).map(|dst| {
        let v1::EntityKind::TableEntry(mut entry) = forward(&info, dst, &[1]) else { unreachable!() };
        entry.metadata = vec![7; 60_000].into();
        update(v1::UpdateType::Insert, v1::EntityKind::TableEntry(entry))
    });
    client.write(&write_request(entries.collect())).unwrap();
    let before = switch.memory();
    // A client has 8 Reads. Each holds a few of its 24 MB.
    let mut first = read_lazily(switch.address, 9);
    let (mut seen, mut buffer) = (Vec::new(), [0; 4096]);
    while !frames(&seen).iter().any(|(kind, _, headers)| *kind == 1 && is_exhausted(headers)) {
        let count = first.read(&mut buffer).unwrap();
        assert_ne!(count, 0, "the ninth Read is refused");
        seen.extend_from_slice(&buffer[..count]);
    }
    std::thread::sleep(Duration::from_millis(300));
    let memory = switch.memory();
    assert!(memory < before + (100 << 10), "{before} and then {memory} KiB");
    // Reads that do not go on end when others wait.
    let lazy: Vec<TcpStream> = (0..8).map(|_| read_lazily(switch.address, 8)).collect();
    std::thread::sleep(Duration::from_millis(300));
    let begun = Instant::now();
    assert_eq!(client.read(&all_entries()).unwrap().len(), 400);
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    drop((first, lazy));
}

#[test]
fn connections_that_say_nothing_leave_room_for_others() {
    let switch = Switch::start("silent");
    let silent: Vec<TcpStream> = (0..300).map(|_| TcpStream::connect(switch.address).unwrap()).collect();
    switch.client().capabilities(0).unwrap();
    drop(silent);
    // With TLS: before the handshake, and after it.
    let (ours, files) = (Authority::new(), TempDir::new("silent-tls"));
    let (certificate, key) = ours.certify();
    let certificate = files.write("server.pem", certificate.pem());
    let key = files.write("server.key", key.serialize_pem());
    let tls = ["--p4runtime-cert", &certificate, "--p4runtime-key", &key];
    let switch = Switch::start_with("silent-run", &tls);
    let silent: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(switch.address).unwrap()).collect();
    let shaken = (0..70).map(|_| {
        let name = rustls::pki_types::ServerName::IpAddress(switch.address.ip().into());
        let mut tls = rustls::ClientConnection::new(ours.client(None), name).unwrap();
        let mut stream = TcpStream::connect(switch.address).unwrap();
        while tls.is_handshaking() {
            tls.complete_io(&mut stream).unwrap();
        }
        stream
    });
    let shaken: Vec<TcpStream> = shaken.collect();
    let client = Client::connect_tls(switch.address, ours.client(None)).unwrap();
    client.capabilities(0).unwrap();
    drop((silent, shaken));
}

#[test]
fn errors_of_a_request_are_bounded() {
    let switch = Switch::start("errors");
    let client = switch.client();
    let _stream = switch.primary(&client);
    let unknown = |table_id| {
        let entry = v1::TableEntry { table_id, ..Default::default() };
        v1::Entity { entity: Some(v1::EntityKind::TableEntry(entry)) }
    };
    let read = |count| {
        let entities = (1..=count).map(unknown).collect();
        client.read(&v1::ReadRequest { device_id: 1, entities, ..Default::default() })
    };
    expect(read(4097), Code::ResourceExhausted, "the request has 4097 entities, the limit is 4096");
    let matches = vec![v1::FieldMatch::default(); 70_000];
    let entry = v1::TableEntry { r#match: matches, ..Default::default() };
    let entities = vec![v1::Entity { entity: Some(v1::EntityKind::TableEntry(entry)) }];
    let request = v1::ReadRequest { device_id: 1, entities, ..Default::default() };
    expect(client.read(&request), Code::ResourceExhausted, "more than 65536 messages");
    // As long as they fit, there is one error per update.
    let write = |count| {
        let updates = (1..=count).map(|id| v1::Update { r#type: 1, entity: Some(unknown(id)) });
        client.write(&write_request(updates.collect())).unwrap_err()
    };
    let status = write(50);
    let errors = errors(&status);
    assert_eq!((status.code(), errors.len()), (Code::Unknown, 50));
    assert!(errors.iter().all(|error| error.canonical_code != 0));
    let status = write(40_000);
    assert_eq!((status.code(), status.details()), (Code::ResourceExhausted, &[][..]));
    let words =
        "Write failure: 40000 of 40000 updates; their errors exceed 1048576 bytes, the limit; number 0";
    assert!(status.message().starts_with(words), "{status}");
}

#[test]
fn clients_that_die_during_requests_leave_the_others_alone() {
    let switch = Switch::start("die");
    let client = switch.client();
    let stream = switch.primary(&client);
    for round in 0..20 {
        let address = switch.address;
        let request = write_request(vec![v1::Update::default(); 20_000]);
        let mut dying = Announcing::open(address, "Write", request.encoded_len() as u32);
        // A part of the batch arrives.
        let part = &request.encode_to_vec()[..1000 * round];
        for chunk in part.chunks(16_000) {
            let mut bytes = (chunk.len() as u32).to_be_bytes()[1..].to_vec();
            bytes.extend_from_slice(&[0, 0, 0, 0, 0, 1]);
            bytes.extend_from_slice(chunk);
            dying.0.write_all(&bytes).unwrap();
        }
        drop(dying);
        client.write(&write_request(Vec::new())).unwrap();
    }
    drop(stream);
}

/// The median times of some Writes of the primary, short and long ones, and of the calls that others make meanwhile.
fn writes_beside(
    switch: &Switch,
    client: &Client,
    others: &[(&'static str, Bytes)],
    code: Code,
    words: &str,
) -> [Duration; 2] {
    let (is_over, address) = (AtomicBool::new(false), switch.address);
    std::thread::scope(|scope| {
        let calling = others.iter().map(|(method, message)| {
            let is_over = &is_over;
            scope.spawn(move || {
                let mut other = Client::connect(address).unwrap();
                other.compress();
                let mut times = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    let refused = other.call(method, message.clone()).unwrap_err();
                    assert!(refused.code() == code && refused.message().contains(words), "{refused}");
                    times.push(begun.elapsed());
                }
                times
            })
        });
        let calling: Vec<_> = calling.collect();
        std::thread::sleep(Duration::from_secs(1));
        let info = p4info(PROGRAM);
        let entries = |kind| (0..1000).map(|dst| update(kind, forward(&info, dst, &[1]))).collect::<Vec<_>>();
        let time = |updates| {
            let begun = Instant::now();
            client.write(&write_request(updates)).map(|()| begun.elapsed())
        };
        let mut results: Vec<_> = (0..20).map(|_| time(Vec::new())).collect();
        results.extend([v1::UpdateType::Insert, v1::UpdateType::Delete].map(|kind| time(entries(kind))));
        is_over.store(true, Ordering::Relaxed);
        let calls: Vec<_> = calling.into_iter().flat_map(|calls| calls.join().unwrap()).collect();
        [results.into_iter().map(Result::unwrap).collect(), calls].map(|mut times: Vec<Duration>| {
            times.sort_unstable();
            times[times.len() / 2]
        })
    })
}

/// This many fields without contents.
fn empty_fields(number: u8, count: usize) -> Vec<u8> {
    [number << 3 | 2, 0].repeat(count)
}

/// Requests that will be refused wait for no turn, however long their decoding would take.
#[test]
fn w_1_requests_that_are_refused_delay_no_write() {
    let switch = Switch::start("strangers");
    let client = switch.client();
    let _stream = switch.primary(&client);
    let write: Bytes = [&[8, 1][..], &empty_fields(4, 4_000_000)].concat().into();
    let config =
        v1::ForwardingPipelineConfig { p4_device_config: Bytes::from_static(b"x"), ..Default::default() };
    let mut config = config.encode_to_vec();
    prost::encoding::bytes::encode(1, &empty_fields(2, 2_000_000), &mut config);
    let mut set = vec![8, 1, 4 << 3, 3];
    prost::encoding::bytes::encode(5, &config, &mut set);
    let others = [("Write", write), ("SetForwardingPipelineConfig", Bytes::from(set))];
    let others: Vec<_> = others.iter().cycle().take(6).cloned().collect();
    let [write, _] = writes_beside(&switch, &client, &others, Code::PermissionDenied, "Not primary");
    assert!(write < Duration::from_secs(2), "Writes took {write:?}");
}

/// Clients take turns, and short changes do not wait for the long ones of others.
#[test]
fn w_1_long_writes_of_others_delay_a_write_by_one_turn() {
    let switch = Switch::start("turns");
    let client = switch.client();
    let _stream = switch.primary(&client);
    let write = write_request(vec![v1::Update::default(); 300_000]).encode_to_vec();
    let others = vec![("Write", Bytes::from(write)); 6];
    let words = "Write failure: 300000 of 300000 updates";
    let [write, other] = writes_beside(&switch, &client, &others, Code::ResourceExhausted, words);
    // The others wait for each other.
    assert!(2 * write < other, "Writes took {write:?}, those of others {other:?}");
}

#[test]
fn w_20_a_write_does_not_overtake_one_whose_message_is_arriving() {
    let switch = Switch::start("w20parts");
    let client = switch.client();
    let _stream = switch.primary(&client);
    let info = p4info(PROGRAM);
    let write = |kind| write_request(vec![update(kind, forward(&info, 7, &[1]))]);
    let insert = client.begin("Write", &write(v1::UpdateType::Insert).encode_to_vec(), None).unwrap();
    std::thread::scope(|threads| {
        // In the other order, there is nothing to delete.
        let delete = threads.spawn(|| client.write(&write(v1::UpdateType::Delete)));
        std::thread::sleep(Duration::from_millis(200));
        assert!(!delete.is_finished());
        insert.finish().unwrap();
        delete.join().unwrap().unwrap();
    });
    assert_eq!(forwarded(&client), []);
}

/// Whatever their length.
#[test]
fn w_20_long_and_short_writes_in_flight_keep_their_order() {
    let switch = Switch::start("w20long");
    let client = switch.client();
    let _stream = switch.primary(&client);
    let info = p4info(PROGRAM);
    let request = |kind, count| {
        let updates = (0..count).map(|dst| update(kind, forward(&info, dst, &[1]))).collect();
        Bytes::from(write_request(updates).encode_to_vec())
    };
    use v1::UpdateType::{Delete, Insert};
    // In any other order, at least one is refused.
    let messages = (0..10)
        .flat_map(|_| [(Insert, 500), (Delete, 1), (Insert, 1), (Delete, 500), (Insert, 1), (Delete, 1)]);
    let results = client.call_at_once("Write", messages.map(|(kind, count)| request(kind, count)).collect());
    let failed = results.iter().position(Result::is_err);
    assert_eq!(failed, None, "{:?}", failed.map(|place| &results[place]));
}

/// The requirements in the name of a test: `a_2_to_a_8_…`, `q_9_and_w_10_…`, `r_3_r_6_and_r_8_…`.
fn requirements_of(name: &str) -> Vec<String> {
    let words: Vec<&str> = name.split('_').collect();
    let number = |at: usize| -> Option<(&str, u32)> {
        let area = words.get(at).filter(|word| matches!(word.len(), 1 | 2))?;
        Some((area, words.get(at + 1)?.parse().ok()?))
    };
    let (mut at, mut found): (usize, Vec<(&str, u32)>) = (0, Vec::new());
    loop {
        let joint = words.get(at).copied().filter(|word| matches!(*word, "to" | "and") && !found.is_empty());
        let next = at + usize::from(joint.is_some());
        let Some((area, last)) = number(next) else { break };
        if let (Some("to"), Some((_, first))) = (joint, found.last().copied()) {
            found.extend((first + 1..last).map(|number| (area, number)));
        }
        found.push((area, last));
        at = next + 2;
    }
    found.into_iter().map(|(area, number)| format!("{}-{number}", area.to_uppercase())).collect()
}

/// All tests of P4Runtime and P4Info.
fn tests_of_p4runtime() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for folder in ["tests", "crates/p4runtime/src", "crates/p4runtime/src/server", "crates/p4runtime/tests"]
        .into_iter()
        .chain(["crates/p4info/src", "crates/p4info/tests"])
    {
        let files =
            std::fs::read_dir(common::root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
        for file in files.filter(|path| path.extension().is_some_and(|ending| ending == "rs")) {
            let text = std::fs::read_to_string(file).unwrap();
            let lines = text.lines().map(str::trim).skip_while(|line| *line != "#[test]");
            let mut is_test = false;
            for line in lines {
                if let Some(name) = line.strip_prefix("fn ").filter(|_| is_test) {
                    names.insert(name.split('(').next().unwrap().to_string());
                }
                is_test = line == "#[test]" || (is_test && line.starts_with("#["));
            }
        }
    }
    names
}

#[test]
fn the_table_of_requirements_names_tests_that_exist() {
    assert_eq!(requirements_of("a_2_to_a_4_x"), ["A-2", "A-3", "A-4"]);
    assert_eq!(requirements_of("r_3_r_6_and_pk_8_x"), ["R-3", "R-6", "PK-8"]);
    assert_eq!(requirements_of("garbage_on_the_port"), [""; 0]);
    let tests = tests_of_p4runtime();
    let text = std::fs::read_to_string(common::root().join("docs/p4runtime.md")).unwrap();
    let table = text.split("## Table of requirements").nth(1).unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| |"));
    let rows: Vec<[&str; 3]> = rows
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            cells.try_into().unwrap_or_else(|_| panic!("three columns: {line}"))
        })
        .collect();
    let mut of: BTreeMap<&str, &str> = BTreeMap::new();
    for [number, result, test] in &rows {
        assert!(of.insert(number, test).is_none(), "{number} occurs twice");
        assert!(!result.is_empty(), "{number} has no result");
        let is_test = test.starts_with('`') && tests.contains(test.trim_matches('`'));
        assert!(is_test || (*result != "met" && test.is_empty()), "{number}: {test}");
    }
    for test in &tests {
        for number in requirements_of(test) {
            let Some(named) = of.get(number.as_str()) else {
                // Areas have gaps, which a range in a name covers.
                let word = format!("_{}_", number.to_lowercase().replace('-', "_"));
                assert!(!format!("_{test}").contains(&word), "{number} of {test} is not in the table");
                continue;
            };
            let is_own = requirements_of(named.trim_matches('`')).contains(&number);
            assert!(is_own, "{number}: the table names {named}, but {test} is named after it");
        }
    }
}
