//! `p4jet ctl`: sends commands to a running switch.

use crate::bmv2_json;
use crate::failure::Failure;
use crate::output;
use p4jet_control::Topics;
use p4jet_suggest::did_you_mean;
use p4jet_syntax::sources;
use p4jet_text::client::Client;
use p4jet_text::wire::{Answer, Request};
use p4jet_text::{parse_topics, prompt, server};
use std::collections::BTreeMap;
use std::io::{self, BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The switch to control.
#[derive(clap::Args, Clone, Debug)]
pub struct Address {
    /// Socket of the switch; by default that of the only running switch of this user.
    #[arg(long, alias = "control", value_name = "PATH", conflicts_with = "tcp")]
    socket: Option<PathBuf>,
    /// TCP address of the switch, or a port of this machine.
    #[arg(long, value_name = "ADDR:PORT")]
    tcp: Option<String>,
}

impl Address {
    /// True if one was named.
    pub fn is_given(&self) -> bool {
        self.socket.is_some() || self.tcp.is_some()
    }
}

/// Options of `ctl`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    address: Address,
    /// Print each answer as one line of JSON.
    #[arg(long)]
    json: bool,
    /// Run a file of commands: all of them or none.
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    file: Option<PathBuf>,
    /// Command; by default commands come from standard input. `subscribe [digests] [ageing] [ports] [--count N]
    /// [--seconds S]` prints messages, one per line.
    #[arg(trailing_var_arg = true)]
    command: Vec<String>,
}

/// Maximum time for an answer of the switch: millions of entries, after the requests of others.
const ANSWER: Duration = Duration::from_secs(120);

/// Runs the command, or those on standard input.
pub fn run(args: &Args) -> Result<(), Failure> {
    let mut client = connect(&args.address)?;
    if let Some(path) = &args.file {
        let text = output::read_text(path)?;
        let name = path.display().to_string();
        if args.json {
            let answer = client.ask(&Request::Load { text, name }).map_err(gone)?;
            return show(&answer);
        }
        let summary = client.load(&name, &text).map_err(gone)?.map_err(|e| Failure::Input(e.to_string()))?;
        if let Some(note) = &summary.note {
            eprintln!("{note}");
        }
        return output::write(format_args!("{}", summary.output));
    }
    if args.command.first().is_some_and(|name| name == "subscribe") {
        return Subscribe::parse(&args.command[1..], args.json).and_then(|wanted| wanted.listen(client));
    }
    if !args.command.is_empty() {
        return one(&mut client, &args.command.join(" "), args.json);
    }
    if args.json || !io::stdin().is_terminal() {
        return lines(&mut client, args.json);
    }
    match prompt::interact(&mut client) {
        Ok(0) => Ok(()),
        Ok(_) => Err(Failure::Reported),
        Err(error) => Err(gone(error)),
    }
}

/// Connects to the switch, with a time limit for each answer.
pub fn connect(args: &Address) -> Result<Client, Failure> {
    let mut client = connected(args)?;
    client.set_patience(ANSWER).map_err(gone)?;
    client.read_programs_by(read_program);
    Ok(client)
}

/// Reads a program to load, with the rights of the caller.
pub fn read_program(path: &Path) -> Result<(PathBuf, BTreeMap<PathBuf, String>), String> {
    let unreadable = |path: &Path, e: &io::Error| format!("cannot read {}: {e}", path.display());
    let source = bmv2_json::source_of(path)?;
    let source = std::path::absolute(&source).map_err(|e| unreadable(&source, &e))?;
    let texts = sources::collect(&source, p4jet_files::open).map_err(|e| unreadable(&source, &e))?;
    Ok((sources::normalised(&source), texts))
}

fn connected(args: &Address) -> Result<Client, Failure> {
    let no_switch = |place: &dyn std::fmt::Display, error: io::Error| {
        Failure::Environment(format!("no switch listens at {place}: {error}"))
    };
    if let Some(address) = &args.tcp {
        // A host name is passed on as it is.
        let address = server::parse_address(address).map_or(address.clone(), |address| address.to_string());
        return Client::tcp(&*address).map_err(|e| no_switch(&address, e));
    }
    let path = match &args.socket {
        Some(path) => path.clone(),
        None => match server::running().as_slice() {
            [path] => path.clone(),
            [] => {
                let what = "this user runs no switch, or its socket is elsewhere: expected --socket PATH or --tcp ADDR:PORT";
                return Err(Failure::Environment(what.into()));
            }
            several => {
                let list: String =
                    several.iter().map(|path| format!("\n  --socket {}", path.display())).collect();
                return Err(Failure::Usage(format!("several switches are running, choose one:{list}")));
            }
        },
    };
    Client::unix(&path).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => Failure::Environment(format!(
            "this user may not connect to {}: {error}; only the user of the switch and root may, or start the switch with \
             --control-tcp PORT --allow-users UID and use --tcp PORT here",
            path.display()
        )),
        _ => no_switch(&path.display(), error),
    })
}

/// The connection failed.
pub fn gone(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::NobodyReads,
        io::ErrorKind::TimedOut => Failure::Environment(format!(
            "the switch does not answer: {error}; if it is stopped, it will execute the command when it continues"
        )),
        _ => Failure::Environment(format!("the connection to the switch failed: {error}")),
    }
}

fn show(answer: &Answer) -> Result<(), Failure> {
    output::write(format_args!("{}", answer.to_line()))?;
    if answer.ok { Ok(()) } else { Err(Failure::Reported) }
}

fn one(client: &mut Client, line: &str, json: bool) -> Result<(), Failure> {
    let answer = client.command(line, json).map_err(gone)?;
    if json {
        return show(&answer);
    }
    if let Some(note) = &answer.note {
        eprintln!("{note}");
    }
    output::write(format_args!("{}", answer.output))?;
    match answer.error {
        None => Ok(()),
        Some(error) => {
            eprintln!("{}", error.text);
            Err(Failure::Reported)
        }
    }
}

/// Number of bytes of messages that are printed at once.
const LINES_BYTES: usize = 64 << 10;

/// `subscribe [TOPIC…] [--json] [--count N] [--seconds S]`
struct Subscribe {
    topics: Topics,
    json: bool,
    /// Number of messages after which it ends.
    count: u64,
    /// Time at which it ends.
    until: Option<Instant>,
}

impl Subscribe {
    fn parse(words: &[String], json: bool) -> Result<Subscribe, Failure> {
        let mut wanted = Subscribe { topics: Topics::default(), json, count: u64::MAX, until: None };
        let mut topics = Vec::new();
        let mut words = words.iter().map(String::as_str);
        let wrong = |what: &str| Failure::Usage(format!("subscribe: {what}"));
        while let Some(word) = words.next() {
            match word {
                "--json" => wanted.json = true,
                "--count" => {
                    let count = words.next().and_then(|n| n.parse().ok());
                    wanted.count =
                        count.ok_or_else(|| wrong("expected a number of messages after --count"))?;
                }
                "--seconds" => {
                    let seconds = words.next().and_then(|n| n.parse().ok());
                    let time = seconds.and_then(|s| Duration::try_from_secs_f64(s).ok());
                    let until = time.and_then(|time| Instant::now().checked_add(time));
                    wanted.until = Some(until.ok_or_else(|| wrong("expected seconds after --seconds"))?);
                }
                option if option.starts_with('-') => {
                    let hint = did_you_mean(option, ["--json", "--count", "--seconds"]);
                    let expected = "expected --json, --count N or --seconds S";
                    return Err(wrong(&format!("unknown option `{option}`: {hint}{expected}")));
                }
                _ => topics.push(word),
            }
        }
        wanted.topics = parse_topics(topics).map_err(|why| wrong(&why))?;
        Ok(wanted)
    }

    /// Prints messages, one per line.
    fn listen(&self, client: Client) -> Result<(), Failure> {
        let mut messages = client.subscribe(self.topics).map_err(gone)?;
        let mut lines = String::new();
        for number in 1..=self.count {
            let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                break;
            }
            if self.json {
                let Some(line) = messages.next_line(left).map_err(gone)? else { break };
                lines += &String::from_utf8_lossy(&line);
            } else {
                let Some(message) = messages.next(left).map_err(gone)? else { break };
                lines += &format!("{message}\n");
            }
            // Many may come at once.
            if number == self.count || lines.len() > LINES_BYTES || !messages.has_more() {
                output::write(format_args!("{lines}"))?;
                lines.clear();
            }
        }
        output::write(format_args!("{lines}"))
    }
}

/// Runs commands from standard input; after a failure, the next ones are still carried out.
fn lines(client: &mut Client, json: bool) -> Result<(), Failure> {
    let mut failed = false;
    let mut line = Vec::new();
    let mut input = io::stdin().lock();
    loop {
        line.clear();
        let read = input.read_until(b'\n', &mut line);
        if read.map_err(|e| Failure::Environment(format!("cannot read standard input: {e}")))? == 0 {
            break;
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches(['\r', '\n']);
        if prompt::leaves(text) {
            break;
        }
        match one(client, text, json) {
            Ok(()) => {}
            Err(Failure::Reported) => failed = true,
            Err(other) => return Err(other),
        }
    }
    if failed { Err(Failure::Reported) } else { Ok(()) }
}
