//! `simple_switch` and `simple_switch_grpc`: bmv2's command line, so that scripts written for it run p4jet with only the path
//! of the program changed. It is translated into what `p4jet run` does.

use crate::bmv2_json::source_of;
use crate::failure::{Failure, wrong_number};
use crate::log::Level;
use crate::p4runtime::P4RuntimeArgs;
use crate::run::{self, Emulation, Log};
use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Parser};
use p4jet_text::{Users, server};
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// The port to which bmv2's tools connect.
pub const THRIFT_PORT: u16 = 9090;

/// The address of bmv2's P4Runtime server.
const GRPC_ADDRESS: &str = "0.0.0.0:9559";

/// The drop port.
const DROP_PORT: u32 = 511;

/// p4jet with bmv2's command line.
#[derive(Parser)]
#[allow(dead_code, reason = "some options are accepted without effect")]
#[command(name = "simple_switch", disable_version_flag = true, infer_long_args = true)]
struct Options {
    /// A P4_16 program, or the JSON that p4c wrote for one; p4jet looks for the program near the JSON.
    program: Option<PathBuf>,
    /// Port number P on interface IF.
    #[arg(short = 'i', long = "interface", value_name = "P@IF")]
    interfaces: Vec<String>,
    /// Write what each port receives and sends to captures in DIR.
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = ".")]
    pcap: Option<PathBuf>,
    /// Read IF_in.pcap and write IF_out.pcap instead of using interfaces, after this many seconds.
    #[arg(long, value_name = "SECONDS")]
    use_files: Option<u32>,
    /// Not supported.
    #[arg(long, value_name = "ADDR")]
    packet_in: Option<String>,
    /// Port of the control server for simple_switch_CLI and p4jet ctl, on the loopback address only.
    #[arg(long, value_name = "PORT")]
    thrift_port: Option<u16>,
    /// Let commands over that port open files beneath DIR; not an option of bmv2.
    #[arg(long, value_name = "DIR")]
    grant_dir: Vec<PathBuf>,
    /// Let these users, or all, connect to that port, too; not an option of bmv2.
    #[arg(long, value_name = "all|UID,…")]
    allow_users: Option<Users>,
    /// Accepted.
    #[arg(long, value_name = "N", default_value_t = 0)]
    device_id: u64,
    /// Accepted without effect.
    #[arg(long, value_name = "ADDR")]
    nanolog: Option<String>,
    /// Log the steps of each packet, and the messages of log_msg, to standard output.
    #[arg(long, conflicts_with = "log_file")]
    log_console: bool,
    /// Write the same log to the file F.txt.
    #[arg(long, value_name = "F")]
    log_file: Option<String>,
    /// Lowest level to log: trace has each step, debug the main events of packets, info the messages of log_msg.
    #[arg(short = 'L', long, value_name = "LEVEL", default_value = "trace",
          value_parser = ["trace", "debug", "info", "warn", "error", "off"])]
    log_level: String,
    /// Accepted: every line is flushed.
    #[arg(long)]
    log_flush: bool,
    /// Size in bytes at which F.txt becomes F.1.txt, F.1.txt becomes F.2.txt and so on.
    #[arg(long, value_name = "BYTES", default_value_t = 5 << 20, value_parser = clap::value_parser!(u64).range(1..))]
    log_file_max_size: u64,
    /// Number of older files to keep.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(..=1000))]
    log_file_max_files: u32,
    /// Accepted without effect.
    #[arg(long, value_name = "ADDR")]
    notifications_addr: Option<String>,
    /// Accepted without effect.
    #[arg(long)]
    debugger: bool,
    /// Accepted without effect.
    #[arg(long, value_name = "ADDR")]
    debugger_addr: Option<String>,
    /// Start with the state that serialize_state wrote.
    #[arg(long, value_name = "F")]
    restore_state: Option<PathBuf>,
    /// Accepted without effect.
    #[arg(long, value_name = "BYTES")]
    dump_packet_data: Option<u64>,
    /// Accepted: only the program limits the number of ports.
    #[arg(long, value_name = "N")]
    max_port_count: Option<u64>,
    /// Start without a program: drop every packet until load_new_config_file and swap_configs.
    #[arg(long)]
    no_p4: bool,
    /// Print the version.
    #[arg(short = 'v', long)]
    version: bool,
    /// Print the version of the supported JSON format.
    #[arg(long)]
    json_version: bool,
    /// Options of the target; see `-- --help`.
    #[arg(last = true, value_name = "TARGET OPTIONS")]
    target: Vec<OsString>,
}

/// Options after `--`.
#[derive(Parser)]
#[allow(dead_code, reason = "some options are accepted without effect")]
#[command(
    name = "simple_switch … --",
    no_binary_name = true,
    disable_version_flag = true,
    infer_long_args = true
)]
struct Target {
    /// Accepted: programs can always be swapped.
    #[arg(long)]
    enable_swap: bool,
    /// Accepted without effect.
    #[arg(long)]
    disable_swap: bool,
    /// Drop port; must be 511.
    #[arg(long, value_name = "N", default_value_t = DROP_PORT)]
    drop_port: u32,
    /// Priorities of each output queue.
    #[arg(long, value_name = "N", default_value_t = 1)]
    priority_queues: u32,
    /// Accepted: there is no limit.
    #[arg(long, value_name = "N")]
    max_mc_groups: Option<u64>,
    /// Accepted: there is no limit.
    #[arg(long, value_name = "N")]
    max_l1_entries: Option<u64>,
    /// Accepted: there is no limit.
    #[arg(long, value_name = "N")]
    max_l2_entries: Option<u64>,
    /// Not supported.
    #[arg(long, value_name = "FILES")]
    load_modules: Option<String>,
    /// Address at which the P4Runtime server of simple_switch_grpc listens.
    #[arg(long, value_name = "ADDR:PORT")]
    grpc_server_addr: Option<String>,
    /// Serve P4Runtime over TLS.
    #[arg(long)]
    grpc_server_ssl: bool,
    /// Accept client certificates of the authorities in this file (PEM).
    #[arg(long, value_name = "FILE")]
    grpc_server_cacert: Option<PathBuf>,
    /// The server's certificate (PEM).
    #[arg(long, value_name = "FILE")]
    grpc_server_cert: Option<PathBuf>,
    /// The private key of the certificate (PEM).
    #[arg(long, value_name = "FILE")]
    grpc_server_key: Option<PathBuf>,
    /// Refuse clients without a certificate.
    #[arg(long)]
    grpc_server_with_client_auth: bool,
    /// Number of the CPU port: its packets are PacketIn and PacketOut messages of P4Runtime.
    #[arg(long, value_name = "N")]
    cpu_port: Option<u32>,
    /// Not supported.
    #[arg(long, value_name = "ADDR")]
    dp_grpc_server_addr: Option<String>,
}

/// The request of a command line.
#[derive(Debug)]
enum Request {
    Run(Box<run::Args>),
    /// Only print this text.
    Print(String),
}

/// The reason why it does not start.
#[derive(Debug)]
enum Refused {
    /// Wrong usage: the message, then the help.
    Usage(String),
    /// It requests a feature that p4jet does not have.
    Unsupported(String),
}

/// Runs `simple_switch` or, with `grpc`, `simple_switch_grpc`. The arguments follow the name.
pub fn run(args: &[OsString], grpc: bool) -> Result<(), Failure> {
    match translate(args, grpc, &mut |line| eprintln!("{line}")) {
        Ok(Request::Run(args)) => run::run(&args),
        Ok(Request::Print(text)) => crate::output::write(format_args!("{text}")),
        Err(Refused::Usage(text)) => {
            eprintln!("{}\n\n{}", text.trim_end(), Options::command().render_help());
            Err(Failure::Reported)
        }
        Err(Refused::Unsupported(text)) => Err(Failure::Input(text)),
    }
}

/// Returns the equivalent command line of `run`. Options without effect are reported.
fn translate(args: &[OsString], grpc: bool, report: &mut dyn FnMut(String)) -> Result<Request, Refused> {
    let named = [OsString::from("simple_switch")];
    let options = match Options::try_parse_from(named.iter().chain(args)) {
        Ok(options) => options,
        Err(error) => return printed(error),
    };
    let target = match Target::try_parse_from(&options.target) {
        Ok(target) => target,
        Err(error) => return printed(error),
    };
    if options.version {
        return Ok(Request::Print(format!("p4jet {}\n", env!("CARGO_PKG_VERSION"))));
    }
    if options.json_version {
        // p4jet compiles sources: from a JSON file it reads only the name of its source.
        return Ok(Request::Print("2.23\n".into()));
    }
    let usage = |text: &str| Err(Refused::Usage(format!("error: {text}")));
    let missing = |what: &str| Err(Refused::Unsupported(format!("not supported yet: {what}")));
    let program = match (&options.program, options.no_p4) {
        (None, false) => return usage("expected a program, or --no-p4"),
        (Some(_), true) => return usage("found a program and --no-p4: expected one of them"),
        (Some(program), false) => Some(source_of(program).map_err(Refused::Unsupported)?),
        (None, true) => None,
    };
    if options.packet_in.is_some() && options.use_files.is_some() {
        return usage("--packet-in and --use-files exclude each other");
    }
    for (given, what) in [
        (options.packet_in.is_some(), "--packet-in (packets over nanomsg)"),
        (target.load_modules.is_some(), "--load-modules (modules of bmv2)"),
        (target.dp_grpc_server_addr.is_some(), "--dp-grpc-server-addr (packets over gRPC)"),
        (target.drop_port != DROP_PORT, "--drop-port other than 511"),
    ] {
        if given {
            return missing(what);
        }
    }
    let grpc_options = target.grpc_server_addr.is_some()
        || target.grpc_server_ssl
        || target.grpc_server_with_client_auth
        || [&target.grpc_server_cacert, &target.grpc_server_cert, &target.grpc_server_key]
            .iter()
            .any(|file| file.is_some())
        || target.cpu_port.is_some();
    for (given, what) in [
        (options.nanolog.is_some(), "--nanolog"),
        (options.debugger || options.debugger_addr.is_some(), "--debugger"),
        (options.notifications_addr.is_some(), "--notifications-addr"),
        (options.dump_packet_data.is_some_and(|bytes| bytes > 0), "--dump-packet-data"),
        (target.disable_swap, "--disable-swap"),
        (!grpc && grpc_options, "the options of simple_switch_grpc"),
    ] {
        if given {
            report(format!("simple_switch: not supported yet, without effect: {what}"));
        }
    }
    let mut line: Vec<OsString> = vec!["run".into()];
    if target.priority_queues > 1 {
        line.extend(["--queues".into(), target.priority_queues.to_string().into()]);
    }
    for interface in &options.interfaces {
        let Some((number, name)) = interface.split_once('@') else {
            return usage(&format!("found `-i {interface}`: expected port@interface, such as 1@veth0"));
        };
        if number.parse::<u32>().is_err() {
            return usage(&format!("found `-i {interface}`: `{number}` is not a port number"));
        }
        line.push("-i".into());
        line.push(match options.use_files {
            Some(_) => format!("{number}@pcap:{name}_in.pcap,{name}_out.pcap").into(),
            None => interface.into(),
        });
        // With --use-files these files are the port's own.
        if let (Some(folder), None) = (&options.pcap, options.use_files) {
            for direction in ["in", "out"] {
                let file = folder.join(format!("{name}_{direction}.pcap"));
                line.push(format!("--capture={number}@{},{direction}", file.display()).into());
            }
        }
    }
    line.push("--stay".into());
    line.push("--".into());
    line.push(program.clone().unwrap_or_else(|| "none.p4".into()).into());
    let mut args = match run::Command::try_parse_from(line) {
        Ok(run::Command { args }) => args,
        Err(error) => return printed(error),
    };
    args.control.grant_dir = options.grant_dir.clone();
    args.control.allow_users = options.allow_users.clone().unwrap_or_default();
    let port = options.thrift_port.unwrap_or(THRIFT_PORT);
    args.control.tcp = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    // bmv2's gRPC binary opens the port only on request, so the default port may be unwanted.
    args.control.tcp_optional = options.thrift_port.is_none();
    args.control.tcp_called = Some("--thrift-port");
    if grpc && options.thrift_port.is_none() {
        args.control.tcp = None;
    }
    if grpc {
        let text = target.grpc_server_addr.as_deref().unwrap_or(GRPC_ADDRESS);
        let address = server::parse_address(text).or_else(|_| resolved(text));
        let Ok(address) = address else {
            return usage(&format!("found `--grpc-server-addr {text}`: expected ADDRESS:PORT"));
        };
        if target.cpu_port.is_some_and(|port| port == 0 || port >= DROP_PORT) {
            return usage(&format!("--cpu-port: expected 1 to {}", DROP_PORT - 1));
        }
        let tls = target.grpc_server_ssl;
        if tls && (target.grpc_server_cert.is_none() || target.grpc_server_key.is_none()) {
            return usage("--grpc-server-ssl needs --grpc-server-cert and --grpc-server-key");
        }
        if tls && target.grpc_server_with_client_auth && target.grpc_server_cacert.is_none() {
            return usage("--grpc-server-with-client-auth needs --grpc-server-cacert");
        }
        args.p4runtime = P4RuntimeArgs {
            address: Some(address),
            device_id: options.device_id,
            cpu_port: target.cpu_port,
            certificate: target.grpc_server_cert.filter(|_| tls),
            key: target.grpc_server_key.filter(|_| tls),
            ca: target.grpc_server_cacert.filter(|_| tls && target.grpc_server_with_client_auth),
            as_bmv2: true,
        };
    }
    let log_level = match options.log_level.as_str() {
        "trace" => Some(Level::Trace),
        "debug" => Some(Level::Debug),
        "info" => Some(Level::Info),
        // There is no higher level.
        _ => None,
    };
    args.emulation = Emulation {
        no_prompt: true,
        no_program: program.is_none(),
        wait: Duration::from_secs(options.use_files.unwrap_or(0).into()),
        log: match &options.log_file {
            Some(file) if log_level.is_some() => {
                let rotation = (options.log_file_max_size, options.log_file_max_files);
                Log::File(format!("{file}.txt").into(), rotation)
            }
            None if log_level.is_some() && options.log_console => Log::Output,
            _ => Log::Nowhere,
        },
        log_level,
        restore: options.restore_state.clone(),
    };
    Ok(Request::Run(Box::new(args)))
}

/// Resolves a host name and a port.
fn resolved(text: &str) -> Result<SocketAddr, String> {
    use std::net::ToSocketAddrs;
    let mut addresses = text.to_socket_addrs().map_err(|error| error.to_string())?;
    addresses.next().ok_or_else(|| "no address".to_string())
}

/// The result of a failed parse of a command line: help, or an error.
fn printed(error: clap::Error) -> Result<Request, Refused> {
    if error.use_stderr() {
        // The help follows; only the first paragraph concerns this command line.
        let text = wrong_number(&error).unwrap_or_else(|| error.to_string());
        let mut text = text.split("\n\n").next().unwrap_or_default().to_string();
        for kind in [ContextKind::SuggestedArg, ContextKind::SuggestedValue] {
            if let Some(ContextValue::String(near)) = error.get(kind) {
                text += &format!("\ndid you mean `{near}`?");
            }
        }
        return Err(Refused::Usage(text));
    }
    Ok(Request::Print(error.to_string()))
}

/// Reads `--thrift-ip` and `--thrift-port` as one address.
pub fn thrift_address(ip: &str, port: u16) -> String {
    server::parse_address(&format!("{ip}:{port}")).map_or_else(|_| format!("{ip}:{port}"), |a| a.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn request(line: &str) -> (Result<Request, Refused>, Vec<String>) {
        let mut lines = Vec::new();
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let request = translate(&words, false, &mut |line| lines.push(line));
        (request, lines)
    }

    fn run_args(line: &str) -> run::Args {
        match request(line) {
            (Ok(Request::Run(args)), lines) if lines.is_empty() => *args,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn options_and_program_in_any_order() {
        for line in [
            "-i 1@veth0 --interface 2@veth2 prog.p4 --thrift-port 9091 --device-id 3",
            "prog.p4 -i1@veth0 --thrift-port=9091 -i 2@veth2 -- --enable-swap --priority-queues 1",
            "--device-id 3 --thrift-p 9091 -i 1@veth0 --max-port-count 100 prog.p4 --interface=2@veth2",
        ] {
            let args = run_args(line);
            assert_eq!(args.ports, ["1@veth0", "2@veth2"], "{line}");
            assert_eq!(args.program.program, Path::new("prog.p4"));
            assert_eq!(args.control.tcp, Some("127.0.0.1:9091".parse().unwrap()));
            assert!(args.stay && args.emulation.no_prompt && !args.control.tcp_optional);
            assert_eq!(args.emulation.log, Log::Nowhere);
        }
        let args = run_args("prog.p4");
        assert_eq!(args.control.tcp.unwrap().port(), 9090);
        assert!(args.control.tcp_optional && args.ports.is_empty());
    }

    #[test]
    fn files_and_logs() {
        let args = run_args("prog.p4 --use-files 2 -i 1@a -i 2@b --log-console");
        assert_eq!(args.ports, ["1@pcap:a_in.pcap,a_out.pcap", "2@pcap:b_in.pcap,b_out.pcap"]);
        assert_eq!((args.emulation.wait, args.emulation.log), (Duration::from_secs(2), Log::Output));
        assert_eq!(
            run_args("prog.p4 --log-file x -L info").emulation.log,
            Log::File("x.txt".into(), (5 << 20, 3))
        );
        assert_eq!(run_args("prog.p4 --log-file x --log-level warn").emulation.log, Log::Nowhere);
        assert_eq!(
            run_args("p.p4 --log-file x --log-file-max-size 9 --log-file-max-files 1").emulation.log,
            Log::File("x.txt".into(), (9, 1))
        );
        for (line, level) in [
            ("prog.p4 --log-console", Level::Trace),
            ("prog.p4 --log-console -L debug", Level::Debug),
            ("prog.p4 --log-console --log-level info", Level::Info),
        ] {
            assert_eq!(run_args(line).emulation.log_level, Some(level), "{line}");
        }
        assert!(run_args("--no-p4").emulation.no_program);
        let captures = run_args("prog.p4 --pcap=/d -i 1@a").capture;
        let files: Vec<_> =
            captures.iter().map(|c| (c.port, c.path.to_str().unwrap(), c.received, c.sent)).collect();
        assert_eq!(files, [(1, "/d/a_in.pcap", true, false), (1, "/d/a_out.pcap", false, true)]);
    }

    #[test]
    fn wrong_usage_and_missing_arguments() {
        for (line, why) in [
            ("", "expected a program, or --no-p4"),
            ("a.p4 --no-p4", "expected one of them"),
            ("a.p4 b.p4", "unexpected argument 'b.p4'"),
            ("a.p4 --log-console --log-file x", "cannot be used with"),
            ("a.p4 -L loud", "invalid value 'loud'"),
            ("a.p4 -i veth0", "expected port@interface"),
            ("a.p4 -i x@veth0", "`x` is not a port number"),
            ("a.p4 -- --nonsense", "unexpected argument '--nonsense'"),
            ("a.p4 --thrift-prt 9091", "'--thrift-prt' found\ndid you mean `--thrift-port`?"),
            ("a.p4 -- --drop-prt 511", "did you mean `--drop-port`?"),
            ("a.p4 -L degub", "did you mean `debug`?"),
            ("a.p4 --packet-in x --use-files 1", "exclude each other"),
        ] {
            let (Err(Refused::Usage(text)), _) = request(line) else { panic!("{line}") };
            assert!(text.contains(why), "{line}: {text}");
        }
        for line in ["a.p4 --packet-in x", "a.p4 -- --load-modules x", "a.p4 -- --drop-port 7"] {
            let (Err(Refused::Unsupported(text)), _) = request(line) else { panic!("{line}") };
            assert!(text.starts_with("not supported yet: --"), "{line}: {text}");
        }
        for line in ["-h", "--help", "-v", "--version", "--json-version", "a.p4 -- --help"] {
            assert!(matches!(request(line).0, Ok(Request::Print(_))), "{line}");
        }
        for line in [
            "a.p4 --nanolog ipc:///tmp/x",
            "a.p4 --debugger",
            "a.p4 --notifications-addr x",
            "a.p4 -- --disable-swap",
        ] {
            let (Ok(Request::Run(_)), lines) = request(line) else { panic!("{line}") };
            assert_eq!(lines.len(), 1, "{line}: {lines:?}");
        }
        // As in bmv2 and in scripts for Mininet, a word after --pcap is the folder.
        for line in
            ["--pcap dumps --device-id 0 a.p4", "--pcap=dumps a.p4", "a.p4 --pcap", "--pcap -L info a.p4"]
        {
            let (Ok(Request::Run(args)), _) = request(line) else { panic!("{line}") };
            assert_eq!(args.program.program, Path::new("a.p4"), "{line}");
        }
    }
}
