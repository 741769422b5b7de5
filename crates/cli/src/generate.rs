//! `p4jet gen`: generates captures and matching entries.

use crate::compile::{self, Compiled, Format, ProgramArgs, QueueArgs, SourceArgs};
use crate::failure::Failure;
use crate::output::{self, say};
use crate::warnings::WarningArgs;
use clap::ValueEnum;
use p4jet_dataplane::EngineKind;
use p4jet_ports::CaptureWriter;
use p4jet_tools::derive;
use p4jet_tools::traffic::{self, Content, Protocol, Transport};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Options of `gen`.
#[derive(clap::Args)]
pub struct Args {
    /// Protocol of the packets.
    #[arg(short, long, value_enum, default_value = "ipv4")]
    protocol: ProtocolArg,
    /// Transport protocol; for vxlan and gre, that of the inner packets.
    #[arg(short, long, value_enum, default_value = "udp")]
    transport: TransportArg,
    /// Number of flows: packets of each capture, and entries; at most 1000000.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100)]
    entries: u64,
    /// Frame sizes, including the 4 bytes of the frame check sequence, which captures omit.
    #[arg(
        long,
        value_name = "BYTES,…",
        value_delimiter = ',',
        default_value = "64",
        conflicts_with = "perf"
    )]
    sizes: Vec<u32>,
    /// Use the sizes 64, 128, 256, 512, 1024, 1280 and 1518.
    #[arg(long)]
    perf: bool,
    /// Addresses and ports that are random instead of sequential.
    #[arg(long, value_enum, value_name = "WHAT,…", value_delimiter = ',')]
    random: Vec<RandomArg>,
    /// Seed of the random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// VNI of vxlan packets, and of the tunnels in entries for vxlan_gateway.
    #[arg(long, value_name = "N", default_value_t = 100)]
    vni: u32,
    /// Text that is repeated in the payload; zeros by default.
    #[arg(long, value_name = "TEXT", default_value = "")]
    payload: String,
    /// Entries send to the ports 1 to N.
    #[arg(long, value_name = "N", default_value_t = 4)]
    ports: u32,
    /// Shipped programs to write entries for; by default all that can forward the packets.
    #[arg(long, value_name = "PROGRAM,…", value_delimiter = ',')]
    entries_for: Option<Vec<String>>,
    /// Folder for the files.
    #[arg(short, long, value_name = "FOLDER", default_value = ".")]
    out: PathBuf,
    /// Prefix of the file names.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    derive: DeriveArgs,
}

/// Options of traffic that is derived from a program.
#[derive(clap::Args)]
struct DeriveArgs {
    /// Derive packets from this program instead: for every path through its parser and every decision after it,
    /// with the entries that they need.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = [
            "protocol", "transport", "entries", "sizes", "perf", "random", "vni", "payload", "ports",
            "entries_for"
        ]
    )]
    program: Option<PathBuf>,
    /// With --program, initial runtime commands.
    #[arg(long, value_name = "FILE", requires = "program")]
    commands: Option<PathBuf>,
    /// With --program, ingress port of all packets; by default port 0 and the ports that the program tests for.
    #[arg(long, value_name = "N", requires = "program")]
    port: Option<u32>,
    /// With --program, maximum number of paths through the parser.
    #[arg(long, value_name = "N", default_value_t = 256, requires = "program")]
    paths: usize,
    /// With --program, how often a packet may reach the same decision.
    #[arg(long, value_name = "N", default_value_t = 4, requires = "program")]
    loops: u32,
    /// With --program, also write packet tests into this folder; they expect what the interpreter does with the
    /// packets.
    #[arg(long, value_name = "DIR", requires = "program")]
    stf: Option<PathBuf>,
    /// With --program, print one JSON document instead of text.
    #[arg(long, requires = "program")]
    json: bool,
    /// Search this folder for `#include` before the built-in files; repeatable.
    #[arg(short = 'I', value_name = "DIR", requires = "program")]
    include: Vec<PathBuf>,
    /// Define a preprocessor macro.
    #[arg(short = 'D', value_name = "NAME[=VALUE]", requires = "program")]
    define: Vec<String>,
    /// Architecture; auto determines it from the program.
    #[arg(long, value_name = "ARCH", default_value = "auto", requires = "program")]
    arch: String,
    #[command(flatten)]
    warnings: WarningArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ProtocolArg {
    Ipv4,
    Ipv6,
    L2,
    Vxlan,
    Gre,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TransportArg {
    Tcp,
    Udp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RandomArg {
    Ip,
    Mac,
    Port,
    All,
}

/// Generates the files and lists them.
pub fn run(args: &Args) -> Result<(), Failure> {
    if let Some(program) = &args.derive.program {
        return run_derived(args, program);
    }
    let random = |what| args.random.contains(&what) || args.random.contains(&RandomArg::All);
    let options = traffic::Options {
        protocol: match args.protocol {
            ProtocolArg::Ipv4 => Protocol::Ipv4,
            ProtocolArg::Ipv6 => Protocol::Ipv6,
            ProtocolArg::L2 => Protocol::L2,
            ProtocolArg::Vxlan => Protocol::Vxlan,
            ProtocolArg::Gre => Protocol::Gre,
        },
        transport: match args.transport {
            TransportArg::Tcp => Transport::Tcp,
            TransportArg::Udp => Transport::Udp,
        },
        entries: args.entries,
        sizes: if args.perf { traffic::PERF_SIZES.to_vec() } else { args.sizes.clone() },
        random_ip: random(RandomArg::Ip),
        random_mac: random(RandomArg::Mac),
        random_port: random(RandomArg::Port),
        seed: args.seed,
        vni: args.vni,
        payload: args.payload.clone().into_bytes(),
        ports: args.ports,
        programs: args.entries_for.clone(),
        folder: args.out.clone(),
        name: args.name.clone(),
    };
    for made in traffic::generate(&options)? {
        let path = made.path.display();
        match made.content {
            Content::Capture { size, asked, packets } => {
                let raised =
                    asked.map_or(String::new(), |asked| format!(" (the headers do not fit in {asked})"));
                say!("{path}: {packets} packets of {size} bytes with FCS{raised}")?;
            }
            Content::Entries { program } => say!("{path}: entries for {program}")?,
            Content::Trace => say!("{path}: the flows")?,
        }
    }
    Ok(())
}

/// Derives packets and entries from a program, writes them, and reports their coverage.
fn run_derived(args: &Args, program: &Path) -> Result<(), Failure> {
    let derive_args = &args.derive;
    for (option, count) in [("--paths", derive_args.paths), ("--loops", derive_args.loops as usize)] {
        if count == 0 {
            return Err(Failure::Usage(format!("{option} 0: expected at least 1")));
        }
    }
    let compiled = compile::compile(&ProgramArgs {
        program: program.to_path_buf(),
        source: SourceArgs {
            include: derive_args.include.clone(),
            define: derive_args.define.clone(),
            arch: derive_args.arch.clone(),
            warnings: derive_args.warnings.clone(),
            diagnostics: Format::Text,
        },
    })?;
    if let Some(port) = derive_args.port {
        let switch = compiled.switch(compiled.lowered.clone(), p4jet_jit::Options::default(), 1)?;
        compile::check_port(&switch, port)?;
    }
    let commands = match &derive_args.commands {
        Some(path) => Some((path.display().to_string(), output::read_text(path)?)),
        None => None,
    };
    let options = derive::Options {
        port: derive_args.port,
        paths_max: derive_args.paths,
        visits_max: derive_args.loops,
        seed: args.seed,
        commands,
    };
    let derived = derive::derive(&compiled.lowered, &options)?;
    std::fs::create_dir_all(&args.out).map_err(|e| unwritable(&args.out, &e))?;
    let name = args.name.clone().unwrap_or_else(|| compile::stem(program));
    let usual = derive_args.port.unwrap_or(0);
    let (mut files, mut tests) = (Vec::new(), Vec::new());
    for (i, (commands, captures)) in derived.sets.iter().enumerate() {
        let name = if i == 0 { name.clone() } else { format!("{name}.{}", i + 1) };
        let cmd = args.out.join(format!("{name}.cmd"));
        p4jet_files::write(&cmd, commands).map_err(|e| unwritable(&cmd, &e))?;
        if let Some(folder) = &derive_args.stf {
            let packets =
                captures.iter().flat_map(|(port, frames)| frames.iter().map(move |frame| (*port, frame)));
            let PacketTest { text, packets, left_out } = packet_test(&compiled, commands, &cmd, packets)?;
            std::fs::create_dir_all(folder).map_err(|e| unwritable(folder, &e))?;
            let path = folder.join(format!("{name}.stf"));
            p4jet_files::write(&path, &text).map_err(|e| unwritable(&path, &e))?;
            crate::test::check(&compiled, &text).map_err(|why| {
                Failure::Input(format!("{}: the packet test fails when it is run: {why}", path.display()))
            })?;
            tests.push((path, packets, left_out));
        }
        for (port, frames) in captures {
            let at = if *port == usual { String::new() } else { format!(".port{port}") };
            let pcap = args.out.join(format!("{name}{at}.pcap"));
            let mut capture = CaptureWriter::create(&pcap).map_err(|e| Failure::port(&e))?;
            for (i, frame) in (0..).zip(frames) {
                capture.write(Duration::from_micros(i), frame).map_err(|e| Failure::port(&e))?;
            }
            capture.finish().map_err(|e| Failure::port(&e))?;
            files.push((pcap, cmd.clone(), *port, frames.len()));
        }
    }
    if derive_args.json {
        let mut document = derived.to_json();
        let mut listed = Vec::new();
        for (pcap, cmd, port, packets) in &files {
            listed.push(serde_json::json!({
                "capture": pcap, "commands": cmd, "port": port, "packets": packets
            }));
        }
        document["files"] = listed.into();
        let tests = tests.iter().map(|(path, packets, left_out)| {
            serde_json::json!({ "test": path, "packets": packets, "left_out": left_out })
        });
        document["tests"] = tests.collect();
        return say!("{document}");
    }
    for (pcap, cmd, port, packets) in &files {
        say!("{}: {packets} packets for port {port}, with {}", pcap.display(), cmd.display())?;
    }
    for (path, packets, left_out) in &tests {
        say!("{}: a packet test with {packets} packets", path.display())?;
        if *left_out > 0 {
            say!("  without {left_out} whose output ports or lengths depend on time or chance")?;
        }
    }
    output::write(format_args!("{}", derived.text()))
}

/// The clock and random numbers for a run: it starts at a time in microseconds, packets are `step_us` apart, and the random
/// numbers are those of a seed.
struct Circumstances {
    begin_us: u64,
    step_us: u64,
    seed: u64,
}

/// Parts of the output that are equal under all of these do not depend on time, queueing or chance. No two of these times, or
/// of the intervals between packets, have an equal byte except the first.
const CIRCUMSTANCES: [Circumstances; 4] = [
    Circumstances { begin_us: 0, step_us: 0, seed: 0 },
    Circumstances { begin_us: 0x2b99_d37e_a1c5, step_us: 0x0103_0509_0b0d, seed: 0x5eed_0001 },
    Circumstances { begin_us: 0x7c35_4ef1_0d6b, step_us: 0x0205_0b07_1117, seed: 0x5eed_0002 },
    Circumstances { begin_us: 0x11ea_8a27_f69e, step_us: 0x0307_1113_1d05, seed: 0x5eed_0003 },
];

/// Maximum number of rounds of omitting packets and running the others again. After the last round, the remaining packets are
/// omitted.
const ROUNDS_MAX: usize = 16;

/// A packet test.
struct PacketTest {
    text: String,
    packets: usize,
    /// Number of packets that leave by other ports, or with other lengths, at other times.
    left_out: usize,
}

/// Builds a packet test: the commands, the packets, and the results of the interpreter, in sequence from an empty switch. Bytes
/// that depend on time or chance are stars; packets whose path depends on them are omitted, and so are empty packets, which a
/// packet test cannot express.
fn packet_test<'a>(
    compiled: &Compiled,
    commands: &str,
    path: &Path,
    packets: impl Iterator<Item = (u32, &'a Vec<u8>)>,
) -> Result<PacketTest, Failure> {
    let mut packets: Vec<(u32, &Vec<u8>)> = packets.filter(|(_, frame)| !frame.is_empty()).collect();
    let all = packets.len();
    // If a packet is omitted, later ones may find other registers, so they run again.
    let mut rounds = 0;
    let (runs, queued) = loop {
        let mut runs = Vec::new();
        let mut queued = false;
        for circumstances in &CIRCUMSTANCES {
            let (sent, needs_queues) = run_packets(compiled, path, &packets, circumstances)?;
            runs.push(sent);
            queued |= needs_queues;
        }
        let shape = |sent: &[(u32, Vec<u8>)]| -> Vec<_> {
            sent.iter().map(|(port, frame)| (*port, frame.len())).collect()
        };
        let is_stable = |at: usize| runs[1..].iter().all(|run| shape(&run[at]) == shape(&runs[0][at]));
        let unstable: Vec<usize> = (0..packets.len()).filter(|at| !is_stable(*at)).collect();
        match unstable.first() {
            None => break (runs, queued),
            Some(first) if rounds == ROUNDS_MAX => packets.truncate(*first),
            Some(_) => {
                let mut at = 0..;
                packets.retain(|_| !unstable.contains(&at.next().unwrap_or(usize::MAX)));
            }
        }
        rounds += 1;
    };
    let mut text = format!("# Made by `p4jet gen --program`: expects what the interpreter did.\n{commands}");
    if !text.ends_with('\n') {
        text.push('\n');
    }
    for (at, (port, frame)) in packets.iter().enumerate() {
        let _ = writeln!(text, "packet {port} {}", hex(frame));
        if queued {
            text.push_str("wait\n");
        }
        for (copy, (port, frame)) in runs[0][at].iter().enumerate() {
            let same = |byte: usize| runs[1..].iter().all(|run| run[at][copy].1[byte] == frame[byte]);
            let bytes = (0..frame.len()).map(|byte| match same(byte) {
                true => format!("{:02x}", frame[byte]),
                false => "**".to_string(),
            });
            let _ = writeln!(text, "expect {port} {}$", bytes.collect::<String>());
        }
        if runs[0][at].is_empty() {
            text.push_str("no_packet\n");
        }
    }
    Ok(PacketTest { text, packets: packets.len(), left_out: all - packets.len() })
}

/// The output for each packet: ports and frames.
type Sent = Vec<Vec<(u32, Vec<u8>)>>;

/// Runs packets on a fresh switch. Also returns whether it needs output queues.
fn run_packets(
    compiled: &Compiled,
    commands: &Path,
    packets: &[(u32, &Vec<u8>)],
    circumstances: &Circumstances,
) -> Result<(Sent, bool), Failure> {
    let Circumstances { begin_us, step_us, seed } = *circumstances;
    let (options, queues) = (p4jet_jit::Options::default(), QueueArgs::default());
    let (switch, _) = compile::switch_with(compiled, EngineKind::Interp, options, 1, queues, Some(commands))?;
    switch.state().set_random_seed(seed);
    let mut worker = switch.worker(EngineKind::Interp, 0)?;
    worker.set_time(Some(begin_us));
    let mut sent = Vec::new();
    for (number, (port, frame)) in (0u64..).zip(packets) {
        if step_us > 0 {
            worker.set_time(Some(begin_us.wrapping_add(number.wrapping_mul(step_us)) & ((1 << 62) - 1)));
        }
        sent.push(worker.process_and_wait(*port, frame).sent);
    }
    Ok((sent, switch.needs_queues()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Environment(format!("cannot write {}: {error}", path.display()))
}
