//! `p4jet bench-p4runtime`: the rates of the P4Runtime server. Client and server are threads of this process, connected over the
//! loopback; one worker forwards packets that never end.
//!
//! The machine may be busy with other work, so each rate is given twice: by the clock, and per second of processor time of the
//! server's threads, which is the rate of one control core. Packets are counted per second of the worker's processor time.

use crate::compile::{self, EngineArg, Format, ProgramArgs, QueueArgs, SourceArgs};
use crate::control::Process;
use crate::cores::{Cores, place_threads, process_s};
use crate::failure::Failure;
use crate::log::{self, Level, Voice};
use crate::measure::{median, round};
use crate::output::say;
use crate::own_files::OwnFiles;
use crate::p4runtime::{self, P4RuntimeArgs};
use crate::stats::Meter;
use crate::warnings::WarningArgs;
use p4jet_control::{Control, Host, SharedControl};
use p4jet_dataplane::{EngineKind, NewPort, Observer, RunError, RunOptions, Running, Switch};
use p4jet_p4info::proto::config::P4Info;
use p4jet_p4info::proto::v1::{
    self, Entity, EntityKind, Exact, FieldMatch, FieldMatchType, Lpm, TableAction, TableActionType,
    TableEntry, Ternary, Update, UpdateType,
};
use p4jet_p4info::reflect::Reflect;
use p4jet_p4runtime::client::{Client, Stream};
use p4jet_ports::{LoopPort, Port, PortOptions};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt::Display;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Options of `bench-p4runtime`.
#[derive(clap::Args)]
pub struct Args {
    /// Number of measurements of each rate, of which the median is reported.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..))]
    rounds: u8,
    /// A hundredth of the entries and packets, to see that everything works.
    #[arg(long)]
    small: bool,
    /// Print one line of JSON instead of text.
    #[arg(long)]
    json: bool,
}

const PROGRAM: &str = include_str!("bench_p4runtime.p4");
/// The CPU port of the program.
const CPU_PORT: u32 = 510;
/// Updates of a batch.
const BATCH: u64 = 1000;
/// Batches that wait for their answers at a time, so that the server never waits for the client.
const BATCHES_AT_ONCE: usize = 4;
/// Single Writes that wait for their answers at a time.
const WRITES_AT_ONCE: usize = 64;
/// One of this many packets goes to the client: at 50 million packets per second, this is the goal of 150,000.
const TO_CLIENT_EVERY: u64 = 320;
/// Entries whose requests are made before the measurement; those of more would take much memory.
const MADE_MAX: u64 = 100_000;
/// How long packets are counted.
const QUIET: Duration = Duration::from_secs(1);
/// Maximum time until the first of them must have passed.
const QUIET_MAX: Duration = Duration::from_secs(10);
/// Destinations of the packets. The first is that of the packets for the client.
const HOSTS: u64 = 1024;
/// Their addresses: the others that are written differ from them.
const HOST_MAC: u64 = 0x0200_0000_0000;

/// A result, and the goal that it has to reach.
struct Figure {
    key: &'static str,
    text: &'static str,
    unit: &'static str,
    /// By the clock.
    value: f64,
    /// Per second of processor time of the server, if that makes sense.
    per_core: Option<f64>,
    goal: f64,
    /// True if smaller values are better.
    is_limit: bool,
}

impl Figure {
    fn is_reached(&self) -> bool {
        let value = self.per_core.unwrap_or(self.value);
        if self.is_limit { value <= self.goal } else { value >= self.goal }
    }

    fn json(&self) -> Value {
        let mut line = json!({ "value": round(self.value), "goal": self.goal, "reached": self.is_reached() });
        if let Some(per_core) = self.per_core {
            line["per_core"] = json!(round(per_core));
        }
        line
    }

    fn line(&self) -> String {
        let number = |x: f64| if x < 100.0 { format!("{x:.2}") } else { format!("{x:.0}") };
        let per_core = self.per_core.map_or(String::new(), |rate| format!(", {} per core", number(rate)));
        let goal = if self.is_limit { "at most" } else { "at least" };
        format!(
            "{}: {}{}{per_core} (goal: {goal} {})",
            self.text,
            number(self.value),
            self.unit,
            number(self.goal)
        )
    }
}

/// Seconds of processor time of this process's threads.
#[derive(Clone, Copy, Default)]
struct Spent {
    workers: f64,
    /// The server: all threads but the workers, the client and the main thread.
    server: f64,
}

impl Spent {
    fn now() -> Spent {
        let mut all = Spent::default();
        let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        let mut apart = 0.0;
        for thread in threads {
            let read = |file: &str| fs::read_to_string(thread.path().join(file)).unwrap_or_default();
            let ns: f64 = read("schedstat").split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0.0);
            // The system keeps 15 characters of a name.
            match read("comm").trim_end() {
                name if name.starts_with("worker ") => all.workers += ns / 1e9,
                "p4runtime clien" | "writing" => apart += ns / 1e9,
                _ if *thread.file_name() == *std::process::id().to_string() => apart += ns / 1e9,
                _ => {}
            }
        }
        // Threads that have ended count, too.
        all.server = process_s() - all.workers - apart;
        all
    }

    fn since(before: Spent) -> Spent {
        let now = Spent::now();
        Spent { workers: now.workers - before.workers, server: now.server - before.server }
    }
}

/// The resident memory of this process in bytes.
fn resident_bytes() -> f64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).map_or(0.0, |pages: f64| pages * 4096.0)
}

/// A number in its shortest form.
fn bytes(value: u64) -> Vec<u8> {
    let all = value.to_be_bytes();
    all[(value.leading_zeros() as usize / 8).min(7)..].to_vec()
}

/// Numbers without order; different ones for different numbers.
fn mixed(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The ids of the P4Info, and requests with them.
#[derive(Clone)]
struct Requests(Arc<HashMap<String, u32>>);

impl Requests {
    fn new(p4info: &P4Info) -> Requests {
        let tables = p4info.tables.iter().map(|table| &table.preamble);
        let all = tables.chain(p4info.actions.iter().map(|action| &action.preamble)).flatten();
        Requests(Arc::new(all.map(|object| (object.alias.clone(), object.id)).collect()))
    }

    fn id(&self, alias: &str) -> u32 {
        self.0.get(alias).copied().unwrap_or_default()
    }

    fn entry(
        &self,
        table: &str,
        matches: Vec<FieldMatchType>,
        action: &str,
        port: Option<u64>,
    ) -> TableEntry {
        let matches =
            (1..).zip(matches).map(|(id, of)| FieldMatch { field_id: id, field_match_type: Some(of) });
        let param = port.map(|port| v1::ActionParam { param_id: 1, value: bytes(port).into() });
        let action = v1::Action { action_id: self.id(action), params: param.into_iter().collect() };
        TableEntry {
            table_id: self.id(table),
            r#match: matches.collect(),
            action: Some(TableAction { r#type: Some(TableActionType::Action(action)) }),
            ..TableEntry::default()
        }
    }

    fn station(&self, mac: u64, port: u64) -> TableEntry {
        let mac = FieldMatchType::Exact(Exact { value: bytes(mac).into() });
        self.entry("bridge", vec![mac], "forward", Some(port))
    }

    /// The n-th of many entries.
    fn nth(&self, table: Which, n: u64) -> TableEntry {
        match table {
            Which::Bridge => self.station(mixed(n) >> 17, n & 0xff),
            Which::Routes => {
                // Each of 2^24 prefixes once.
                let prefix = (n.wrapping_mul(0x9e_3779) & 0xff_ffff) << 8;
                let lpm = FieldMatchType::Lpm(Lpm { value: bytes(prefix).into(), prefix_len: 24 });
                self.entry("routes", vec![lpm], "forward", Some(n & 0xff))
            }
            Which::Filter => {
                let ternary = |value: u64, mask: u64| {
                    FieldMatchType::Ternary(Ternary { value: bytes(value).into(), mask: bytes(mask).into() })
                };
                let key = vec![
                    ternary((mixed(n) >> 32) & 0xffff_ff00, 0xffff_ff00),
                    ternary((mixed(n) >> 8) & 0xffff_0000, 0xffff_0000),
                    ternary(6, 0xff),
                ];
                TableEntry { priority: 10 + n as i32, ..self.entry("filter", key, "drop", None) }
            }
        }
    }

    /// A Write.
    fn write(&self, kind: UpdateType, entries: impl Iterator<Item = TableEntry>) -> v1::WriteRequest {
        let update = |entry| Update {
            r#type: kind as i32,
            entity: Some(Entity { entity: Some(EntityKind::TableEntry(entry)) }),
        };
        v1::WriteRequest {
            device_id: 1,
            election_id: Some(v1::Uint128 { high: 0, low: 1 }),
            updates: entries.map(update).collect(),
            ..v1::WriteRequest::default()
        }
    }
}

/// A table.
#[derive(Clone, Copy)]
enum Which {
    Bridge,
    Routes,
    Filter,
}

/// Ethernet and IPv4 to each host in turn, and to host 0 if the packet is for the client.
fn frames() -> Vec<Vec<u8>> {
    let frame = |n: u64| {
        let host = if n.is_multiple_of(TO_CLIENT_EVERY) { 0 } else { 1 + n % (HOSTS - 1) };
        let mut frame = vec![0; 64];
        frame[..6].copy_from_slice(&(HOST_MAC + host).to_be_bytes()[2..]);
        frame[12..14].copy_from_slice(&[0x88, 0xb5]);
        frame
    };
    (0..16 * TO_CLIENT_EVERY).map(frame).collect()
}

fn port_failure(error: RunError) -> Failure {
    Failure::Environment(error.to_string())
}

fn refused(status: impl Display) -> Failure {
    Failure::Environment(format!("P4Runtime: {status}"))
}

static STOP: AtomicBool = AtomicBool::new(false);

/// A switch that forwards, with its server and a client that is primary.
struct Bench {
    running: Arc<Running>,
    client: Client,
    stream: Stream,
    address: SocketAddr,
    requests: Requests,
    /// The CPU port, until packets for the client are measured.
    cpu_port: Option<NewPort>,
    figures: Vec<Figure>,
    rounds: u8,
    _server: p4jet_p4runtime::server::Server,
}

impl Bench {
    fn start(args: &Args) -> Result<Bench, Failure> {
        let compiled = compile::compile_text("bench_p4runtime.p4", PROGRAM)?;
        let engine = EngineKind::Jit;
        let options = p4jet_jit::Options::default();
        let (switch, _) = compile::switch_with(&compiled, engine, options, 1, QueueArgs::default(), None)?;
        let frame_max = 2048;
        let options = RunOptions { engine, frame_max, listener: Arc::new(|_| ()) };
        let running = Running::start(&switch, options).map_err(|e| Failure::Environment(e.to_string()))?;
        let running = Arc::new(running);
        let voice = Voice(Arc::new(log::Log::start(log::Form::Plain, Level::Error, None)?));
        let source = SourceArgs {
            include: Vec::new(),
            define: Vec::new(),
            arch: "auto".to_string(),
            warnings: WarningArgs::default(),
            diagnostics: Format::default(),
        };
        let host = Arc::new(Process {
            voice: voice.clone(),
            observer: Observer::new(Arc::clone(&running)),
            meter: Meter::new(),
            running: Arc::clone(&running),
            program: ProgramArgs { program: PathBuf::from("bench_p4runtime.p4"), source },
            compiled: Arc::new(Mutex::new(compiled)),
            engine: EngineArg::Jit,
            ports: PortOptions { frame_max, wall_clock: false, workers: 1, split: false },
            uses: Mutex::default(),
            own: OwnFiles::default(),
            stop: &STOP,
            ports_changed: AtomicBool::new(false),
            has_prompt: false,
        });
        let control = SharedControl::new(Control::new(switch), Some(host as Arc<dyn Host>));
        let server_args = P4RuntimeArgs {
            address: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
            device_id: 1,
            cpu_port: Some(CPU_PORT),
            ..P4RuntimeArgs::default()
        };
        let (cpu_port, cpu) = p4runtime::cpu_port(&server_args, &running, &[])?;
        let server =
            p4runtime::serve(&server_args, &p4jet_text::Users::default(), &control, cpu, true, &voice)?;
        let server = server.ok_or_else(|| Failure::Environment("there is no server".to_string()))?;
        let address = server.address();
        let connected = Client::connect(address);
        let client = connected.map_err(|e| Failure::Environment(format!("cannot connect: {e}")))?;
        let mut stream = client.stream().map_err(refused)?;
        stream.arbitrate(1, None, Some(1)).map_err(refused)?;
        let get = v1::GetForwardingPipelineConfigRequest { device_id: 1, ..Default::default() };
        let config = client.get_pipeline(&get).map_err(refused)?.unwrap_or_default();
        let requests = Requests::new(&config.p4info.unwrap_or_default());
        let bench = Bench {
            running,
            client,
            stream,
            address,
            requests,
            cpu_port,
            figures: Vec::new(),
            rounds: args.rounds,
            _server: server,
        };
        let hosts = (0..HOSTS).map(|host| bench.requests.station(HOST_MAC + host, 0));
        bench.client.write(&bench.requests.write(UpdateType::Insert, hosts)).map_err(refused)?;
        Ok(bench)
    }

    /// Lets packets flow, until the port is removed.
    fn let_packets_flow(&self) -> Result<(), Failure> {
        let port = LoopPort::new(&frames()).map_err(|e| Failure::port(&e))?;
        let handles: Vec<Box<dyn Port>> = vec![Box::new(port)];
        let port = NewPort { number: 0, spec: "loop".to_string(), handles };
        self.running.add_ports(vec![port]).map_err(port_failure)
    }

    fn stop_packets(&self) -> Result<(), Failure> {
        self.running.remove_port(0).map(drop).map_err(port_failure)
    }

    /// Packets that were received until now, and the processor time so far.
    fn packets(&self) -> (u64, Spent) {
        (self.running.stats().received, Spent::now())
    }

    /// Packets per second of the worker's processor time since then.
    fn packet_rate(&self, before: (u64, Spent)) -> f64 {
        let spent = Spent::since(before.1);
        match (self.running.stats().received - before.0) as f64 {
            // The worker has not run.
            0.0 => 0.0,
            packets => packets / spent.workers,
        }
    }

    /// The rate while nothing changes, measured for `time`, or longer until packets have passed, at most [`QUIET_MAX`].
    fn quiet_rate(&self, time: Duration) -> f64 {
        let (before, end) = (self.packets(), Instant::now() + QUIET_MAX);
        loop {
            std::thread::sleep(time);
            let rate = self.packet_rate(before);
            if rate > 0.0 || Instant::now() >= end {
                return rate;
            }
        }
    }

    fn report(
        &mut self,
        key: &'static str,
        text: &'static str,
        unit: &'static str,
        values: Vec<(f64, Option<f64>)>,
        goal: f64,
        is_limit: bool,
    ) {
        let per_core: Option<Vec<f64>> = values.iter().map(|(_, per_core)| *per_core).collect();
        let value = median(values.into_iter().map(|(value, _)| value).collect());
        self.figures.push(Figure { key, text, unit, value, per_core: per_core.map(median), goal, is_limit });
    }

    /// Sends Writes of entries of a table, and returns the number of entries per second: by the clock, and per core.
    fn write(
        &self,
        kind: UpdateType,
        table: Which,
        numbers: std::ops::Range<u64>,
        batch: u64,
        in_flight: usize,
    ) -> Result<(f64, Option<f64>), Failure> {
        let starts: Vec<u64> = numbers.clone().step_by(batch as usize).collect();
        let (requests, end) = (self.requests.clone(), numbers.end);
        let write = move |start: u64| {
            let entries = (start..(start + batch).min(end)).map(|n| requests.nth(table, n));
            requests.write(kind, entries).encode().into()
        };
        let made: Option<Vec<_>> = (numbers.end - numbers.start <= MADE_MAX)
            .then(|| starts.iter().map(|start| write(*start)).collect());
        let (begun, before) = (Instant::now(), Spent::now());
        match made {
            Some(made) => self.client.call_each("Write", made.into_iter(), in_flight),
            None => self.client.call_each("Write", starts.into_iter().map(write), in_flight),
        }
        .map_err(refused)?;
        let count = (numbers.end - numbers.start) as f64;
        Ok((count / begun.elapsed().as_secs_f64(), Some(count / Spent::since(before).server)))
    }

    /// Writes the same entries several times, and returns the rates of the insertions.
    fn insertions(
        &self,
        table: Which,
        count: u64,
        batch: u64,
        in_flight: usize,
    ) -> Result<Vec<(f64, Option<f64>)>, Failure> {
        let mut rates = Vec::new();
        for _ in 0..self.rounds {
            rates.push(self.write(UpdateType::Insert, table, 0..count, batch, in_flight)?);
            self.write(UpdateType::Delete, table, 0..count, BATCH, BATCHES_AT_ONCE)?;
        }
        Ok(rates)
    }

    /// Single Writes, and batches.
    fn writes(&mut self, scale: u64) -> Result<(), Failure> {
        let one = self.insertions(Which::Bridge, 20_000 / scale, 1, 1)?;
        self.report("writes_per_second", "single Writes, one after the other", "/s", one, 8_000.0, false);
        let many = self.insertions(Which::Bridge, 100_000 / scale, 1, WRITES_AT_ONCE)?;
        self.report("writes_per_second_64", "single Writes, 64 in flight", "/s", many, 40_000.0, false);
        for (table, count, key, text, goal) in [
            (Which::Bridge, 100_000, "exact_per_second", "exact entries, batches of 1,000", 400_000.0),
            (Which::Routes, 100_000, "routes_per_second", "routes, batches of 1,000", 350_000.0),
            (Which::Filter, 20_000, "ternary_per_second", "ternary entries, batches of 1,000", 200_000.0),
        ] {
            let rates = self.insertions(table, count / scale, BATCH, BATCHES_AT_ONCE)?;
            self.report(key, text, "/s", rates, goal, false);
        }
        Ok(())
    }

    /// A million entries while packets flow, their memory, and Reads of them while another client writes.
    fn million(&mut self, scale: u64) -> Result<(), Failure> {
        let count = 1_000_000 / scale;
        let tables = |running: &Running| -> f64 {
            let switch: Arc<Switch> = running.switch();
            crate::measure::tables(&switch).map(|id| switch.table(id).memory_bytes() as f64).sum()
        };
        let (mut times, mut ratios, mut memory) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..self.rounds {
            if round > 0 {
                self.write(UpdateType::Delete, Which::Bridge, 0..count, BATCH, BATCHES_AT_ONCE)?;
            }
            self.let_packets_flow()?;
            let quiet = self.quiet_rate(QUIET / scale as u32);
            let (resident, in_tables, before) = (resident_bytes(), tables(&self.running), self.packets());
            let (rate, per_core) =
                self.write(UpdateType::Insert, Which::Bridge, 0..count, BATCH, BATCHES_AT_ONCE)?;
            ratios.push((self.packet_rate(before) / quiet, None));
            self.stop_packets()?;
            let seconds = |rate: f64| 1_000_000.0 / rate;
            times.push((seconds(rate), per_core.map(seconds)));
            // Memory that was freed is used again by the next round.
            if round == 0 {
                let beyond = resident_bytes() - resident - (tables(&self.running) - in_tables);
                memory.push(((beyond / count as f64).max(0.0), None));
            }
        }
        let text = "a million exact entries while packets flow";
        self.report("million_seconds", text, " s", times, 3.0, true);
        let text = "the rate of packets meanwhile, as a share of that without changes";
        self.report("million_packets_ratio", text, "", ratios, 0.95, false);
        self.report("bytes_per_entry", "memory beyond the tables", " bytes an entry", memory, 24.0, true);
        let (mut times, mut waits) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            let (seconds, spent, longest) = self.read(count)?;
            let of_million = scale as f64;
            times.push((seconds * of_million, Some(spent * of_million)));
            waits.push((longest * 1e3, None));
        }
        self.report("read_seconds", "a Read of a million entries", " s", times, 2.0, true);
        let text = "the longest single Write meanwhile";
        self.report("read_write_ms", text, " ms", waits, 300.0, true);
        self.write(UpdateType::Delete, Which::Bridge, 0..count, BATCH, BATCHES_AT_ONCE).map(drop)
    }

    /// Reads all entries of the bridge. Returns the time, the server's processor time, and the longest Write of another client
    /// meanwhile, in seconds.
    fn read(&self, count: u64) -> Result<(f64, f64, f64), Failure> {
        let pattern = TableEntry { table_id: self.requests.id("bridge"), ..TableEntry::default() };
        let entity = Entity { entity: Some(EntityKind::TableEntry(pattern)) };
        let request = v1::ReadRequest { device_id: 1, entities: vec![entity], ..v1::ReadRequest::default() };
        let other = Client::connect(self.address);
        let other = other.map_err(|e| Failure::Environment(format!("cannot connect: {e}")))?;
        let write =
            self.requests.write(UpdateType::Modify, [self.requests.station(HOST_MAC + 1, 0)].into_iter());
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writer = p4jet_threads::spawn_scoped(scope, "writing", || {
                let mut longest = Duration::ZERO;
                while !is_over.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    other.write(&write).map_err(refused)?;
                    longest = longest.max(begun.elapsed());
                }
                Ok(longest)
            });
            let writer = writer.map_err(|e| Failure::Environment(format!("no thread to write: {e}")))?;
            let (begun, before) = (Instant::now(), Spent::now());
            let answers = self.client.call("Read", request.encode().into());
            let (seconds, spent) = (begun.elapsed().as_secs_f64(), Spent::since(before));
            is_over.store(true, Ordering::Relaxed);
            let longest: Result<Duration, Failure> = writer.join().expect("writing does not panic");
            let mut read = 0;
            for answer in answers.map_err(refused)? {
                let mut message = v1::ReadResponse::default();
                message.merge(answer).map_err(refused)?;
                read += message.entities.len() as u64;
            }
            if read != count + HOSTS {
                let text = format!("P4Runtime: read {read} entries, expected {}", count + HOSTS);
                return Err(Failure::Environment(text));
            }
            Ok((seconds, spent.server, longest?.as_secs_f64()))
        })
    }

    /// Packets to the client, and what they cost the others. The worker has a core of its own if there are two, as in a switch.
    fn packet_ins(&mut self, scale: u64) -> Result<(), Failure> {
        let cores = Cores::now().map(|cores| cores.numbers()).unwrap_or_default();
        if let [first, others @ ..] = &cores[..]
            && !others.is_empty()
        {
            place_threads(|name| if name.starts_with("worker ") { vec![*first] } else { others.to_vec() });
        }
        let host =
            |kind, port| self.requests.write(kind, [self.requests.station(HOST_MAC, port)].into_iter());
        let (forward, punt) = (host(UpdateType::Modify, 0), host(UpdateType::Modify, CPU_PORT.into()));
        let (mut rates, mut ratios, mut without_port) = (Vec::new(), Vec::new(), Vec::new());
        let time = QUIET / scale as u32;
        // Without the port, its packets take the same way through the program, but are not handed to the server.
        for _ in 0..self.rounds {
            self.client.write(&forward).map_err(refused)?;
            self.let_packets_flow()?;
            let quiet = self.quiet_rate(time);
            self.client.write(&punt).map_err(refused)?;
            without_port.push(self.quiet_rate(time) / quiet);
            self.stop_packets()?;
        }
        let without_port = median(without_port);
        self.running.add_ports(self.cpu_port.take().into_iter().collect()).map_err(port_failure)?;
        for _ in 0..self.rounds {
            self.client.write(&forward).map_err(refused)?;
            self.let_packets_flow()?;
            let quiet = self.quiet_rate(time);
            self.client.write(&punt).map_err(refused)?;
            let (before, begun) = (self.packets(), Instant::now());
            let count = self.stream.count_for(time).map_err(refused)? as f64;
            rates.push((count / begun.elapsed().as_secs_f64(), Some(count / Spent::since(before.1).server)));
            ratios.push((self.packet_rate(before) / quiet, None));
            self.stop_packets()?;
            // What is still on its way.
            self.stream.count_for(time / 4).map_err(refused)?;
        }
        place_threads(|_| cores.clone());
        let handed_over = ratios.iter().map(|(ratio, _)| (ratio / without_port, None)).collect();
        self.report("packet_ins_per_second", "packets to the client", "/s", rates, 150_000.0, false);
        let text = "the rate of packets meanwhile, as a share of that when none go to the client";
        self.report("packet_ins_ratio", text, "", ratios, 0.98, false);
        let text = "the same, as a share of that when the server does not take them";
        self.report("packet_ins_handover_ratio", text, "", handed_over, 0.98, false);
        Ok(())
    }

    /// New programs.
    fn commits(&mut self) -> Result<(), Failure> {
        let get = v1::GetForwardingPipelineConfigRequest { device_id: 1, ..Default::default() };
        let config = self.client.get_pipeline(&get).map_err(refused)?.unwrap_or_default();
        let request = v1::SetForwardingPipelineConfigRequest {
            device_id: 1,
            election_id: Some(v1::Uint128 { high: 0, low: 1 }),
            action: v1::ConfigAction::VerifyAndCommit as i32,
            config: Some(v1::ForwardingPipelineConfig { p4_device_config: PROGRAM.into(), ..config }),
            ..Default::default()
        };
        let mut times = Vec::new();
        for _ in 0..self.rounds {
            let (begun, before) = (Instant::now(), Spent::now());
            self.client.set_pipeline(&request).map_err(refused)?;
            times.push((begun.elapsed().as_secs_f64() * 1e3, Some(Spent::since(before).server * 1e3)));
        }
        self.report("commit_ms", "a commit of this program", " ms", times, 30.0, true);
        Ok(())
    }
}

/// Runs the measurements.
pub fn run(args: &Args) -> Result<(), Failure> {
    let scale = if args.small { 100 } else { 1 };
    let mut bench = Bench::start(args)?;
    bench.writes(scale)?;
    bench.million(scale)?;
    bench.packet_ins(scale)?;
    bench.commits()?;
    if args.json {
        let figures: serde_json::Map<String, Value> =
            bench.figures.iter().map(|figure| (figure.key.to_string(), figure.json())).collect();
        return say!("{}", Value::Object(figures));
    }
    bench.figures.iter().try_for_each(|figure| say!("{}", figure.line()))
}
