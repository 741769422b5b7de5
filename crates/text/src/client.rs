//! The client end of a control connection.

use crate::commands::{LoadSummary, Reply, stats_reply};
use crate::error::{LineError, LoadError};
use crate::files::{self, FileCommand};
use crate::messages::Message;
use crate::prompt::{Commander, named_state};
use crate::wire::{Answer, Request};
use p4jet_control::record::Record;
use p4jet_control::{
    Atomicity, ControlError, Description, NamedPage, NamedSelector, NamedUpdate, PAGE_MAX, Stats,
};
use p4jet_dataplane::Topics;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A connection to a running switch.
pub struct Client {
    input: BufReader<Box<dyn Read + Send>>,
    output: Box<dyn Write + Send>,
    /// Sets the time limit of reads and writes.
    set_waits: SetWaits,
    /// The time for which the switch may be silent.
    patience: Option<Duration>,
    /// The reader of programs.
    reader: Option<ProgramReader>,
}

/// Reads a program and the files that it includes: its path, and all texts by path. An error is a text for the user.
pub type ProgramReader = fn(&Path) -> Result<(PathBuf, BTreeMap<PathBuf, String>), String>;

type SetWaits = Box<dyn Fn(Option<Duration>, Option<Duration>) -> io::Result<()> + Send>;
/// Maximum time to connect over TCP.
const CONNECT: Duration = Duration::from_secs(10);

impl Client {
    /// Connects to a Unix socket.
    pub fn unix(path: &Path) -> io::Result<Client> {
        let stream = UnixStream::connect(path)?;
        let (input, wait) = (stream.try_clone()?, stream.try_clone()?);
        let set_waits: SetWaits = Box::new(move |reading, writing| {
            wait.set_read_timeout(reading)?;
            wait.set_write_timeout(writing)
        });
        Ok(Client::new(Box::new(input), Box::new(stream), set_waits))
    }

    /// Connects to a TCP socket.
    pub fn tcp(address: impl ToSocketAddrs) -> io::Result<Client> {
        let mut connected = Err(io::Error::new(ErrorKind::NotFound, "the name has no address"));
        for address in address.to_socket_addrs()? {
            connected = TcpStream::connect_timeout(&address, CONNECT);
            if connected.is_ok() {
                break;
            }
        }
        let stream = connected?;
        stream.set_nodelay(true)?;
        let (input, wait) = (stream.try_clone()?, stream.try_clone()?);
        let set_waits: SetWaits = Box::new(move |reading, writing| {
            wait.set_read_timeout(reading)?;
            wait.set_write_timeout(writing)
        });
        Ok(Client::new(Box::new(input), Box::new(stream), set_waits))
    }

    fn new(input: Box<dyn Read + Send>, output: Box<dyn Write + Send>, set_waits: SetWaits) -> Client {
        Client { input: BufReader::new(input), output, set_waits, patience: None, reader: None }
    }

    /// Sets a time limit: a request whose answer does not start, or pauses, for longer than that fails with
    /// [`ErrorKind::TimedOut`]. The connection is then unusable.
    pub fn set_patience(&mut self, patience: Duration) -> io::Result<()> {
        (self.set_waits)(Some(patience), Some(patience))?;
        self.patience = Some(patience);
        Ok(())
    }

    /// Reads programs in this process, with its rights, and sends their texts. Without a
    /// reader the client sends paths, and the switch opens them if the connection has the right.
    pub fn read_programs_by(&mut self, reader: ProgramReader) {
        self.reader = Some(reader);
    }

    /// Sends a request and waits for the answer.
    pub fn ask(&mut self, request: &Request) -> io::Result<Answer> {
        let mut line = request.to_line();
        line.push('\n');
        // A switch that refuses a request may answer and close before it has read all of it.
        let sent = self.output.write_all(line.as_bytes());
        let mut answer = String::new();
        let late = |e: &io::Error| matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
        let read = match &sent {
            Err(e) if late(e) => Err(ErrorKind::TimedOut.into()),
            _ => self.input.read_line(&mut answer),
        };
        match (read, self.patience) {
            (Ok(1..), _) => {}
            (Err(e), Some(patience)) if late(&e) => {
                let text = format!("no answer within {patience:?}");
                return Err(io::Error::new(ErrorKind::TimedOut, text));
            }
            _ => {
                let left = io::Error::new(ErrorKind::ConnectionAborted, "the switch ended the connection");
                return Err(sent.err().filter(|e| e.kind() != ErrorKind::BrokenPipe).unwrap_or(left));
            }
        }
        let answer: Answer = serde_json::from_str(&answer).map_err(|e| {
            io::Error::new(ErrorKind::InvalidData, format!("the server that answered is not p4jet: {e}"))
        })?;
        match &answer.error {
            // The user's input is not at fault.
            Some(error) if error.kind == "request" => {
                Err(io::Error::new(ErrorKind::InvalidInput, error.text.clone()))
            }
            _ => Ok(answer),
        }
    }

    /// Runs one command. With `data`, the results of a reading command are also returned as JSON.
    pub fn command(&mut self, line: &str, data: bool) -> io::Result<Answer> {
        let refused = |error: LineError| Answer { error: Some(error.into()), ..Answer::default() };
        match FileCommand::parse(line) {
            Some(FileCommand::Load { path, aside }) if let Some(read) = self.reader => match read(path) {
                Ok((path, texts)) => self.ask(&Request::Program { path, texts, aside }),
                Err(why) => Ok(refused(LineError::new(why))),
            },
            None if line.trim() == "stats" => {
                let reply = self.stats()?.and_then(|stats| stats_reply(&stats, data));
                Ok(reply.unwrap_or_else(Reply::from).into())
            }
            None | Some(FileCommand::Load { .. }) => {
                self.ask(&Request::Command { line: with_absolute_path(line), data })
            }
            Some(FileCommand::Save(path)) => {
                let answer = self.ask(&Request::Command { line: "dump".into(), data: false })?;
                Ok(match files::write(path, &answer.output) {
                    Ok(()) => Answer { output: String::new(), ..answer },
                    Err(error) => refused(error),
                })
            }
            Some(FileCommand::Restore(path)) => match files::read(path) {
                Ok(text) => {
                    let reply = Reply::from(self.ask(&Request::Restore { text })?);
                    Ok(named_state(path, reply).into())
                }
                Err(error) => Ok(refused(error)),
            },
            Some(FileCommand::Frames { kind, port, path }) => {
                let send =
                    |line: &str| self.ask(&Request::Command { line: line.into(), data }).map(Reply::from);
                let reply = files::each_frame(kind, port, path, send)?;
                Ok(Reply { data: reply.data.filter(|_| data), ..reply }.into())
            }
        }
    }

    /// Turns the connection into a subscription to all further messages.
    pub fn subscribe(mut self, topics: Topics) -> io::Result<Messages> {
        let answer = self.ask(&Request::Subscribe { topics })?;
        match answer.error {
            Some(error) => Err(io::Error::new(ErrorKind::Unsupported, error.text)),
            None => Ok(Messages { client: self, line: Vec::new() }),
        }
    }

    /// Reads the statistics of the switch.
    pub fn stats(&mut self) -> io::Result<Result<Stats, ControlError>> {
        let answer = self.ask(&Request::Stats)?;
        Ok(match (answer.error, answer.stats) {
            (Some(error), _) => Err(error.into_command_error()),
            (None, Some(stats)) => Ok(*stats),
            (None, None) => Err(ControlError::new("the switch sent no statistics")),
        })
    }

    /// The objects of the program that runs, with their shapes.
    pub fn schema(&mut self) -> io::Result<Result<Description, ControlError>> {
        let answer = self.ask(&Request::Schema)?;
        Ok(match (answer.error, answer.schema) {
            (Some(error), _) => Err(error.into_command_error()),
            (None, Some(schema)) => Ok(*schema),
            (None, None) => Err(ControlError::new("the switch sent no schema")),
        })
    }

    /// One page of at most `max` objects. The first page begins `from` 0, each other one at [`NamedPage::next`] of the page
    /// before.
    pub fn read(
        &mut self,
        selector: &NamedSelector,
        from: u64,
        max: usize,
    ) -> io::Result<Result<NamedPage, ControlError>> {
        let answer = self.ask(&Request::Read { selector: selector.clone(), from, max })?;
        Ok(match answer.error {
            Some(error) => Err(error.into_command_error()),
            None => Ok(NamedPage { records: answer.records.unwrap_or_default(), next: answer.next }),
        })
    }

    /// All objects that a selector chooses, read in pages: changes between two pages may be included or not.
    pub fn read_all(&mut self, selector: &NamedSelector) -> io::Result<Result<Vec<Record>, ControlError>> {
        let (mut records, mut from) = (Vec::new(), Some(0));
        while let Some(at) = from {
            match self.read(selector, at, PAGE_MAX)? {
                Ok(page) => {
                    records.extend(page.records);
                    from = page.next;
                }
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(records))
    }

    /// Applies a batch of updates. Returns a result for each: the handle of the created object, or the refusal.
    pub fn write(
        &mut self,
        updates: Vec<NamedUpdate>,
        atomicity: Atomicity,
    ) -> io::Result<Vec<Result<Option<u32>, ControlError>>> {
        let total = updates.len();
        let answer = self.ask(&Request::Write { updates, atomicity })?;
        if let Some(error) = answer.error {
            return Ok(vec![Err(error.into_command_error()); total]);
        }
        let results = answer.results.into_iter().map(|result| match result.error {
            Some(error) => Err(error.into_command_error()),
            None => Ok(result.handle),
        });
        Ok(results.collect())
    }

    /// Runs a file of commands: all of it or nothing.
    pub fn load(&mut self, name: &str, text: &str) -> io::Result<Result<LoadSummary, LoadError>> {
        let answer = self.ask(&Request::Load { text: text.into(), name: name.into() })?;
        Ok(match answer.error {
            None => Ok(LoadSummary {
                commands: answer.commands.unwrap_or(0),
                entries_added: answer.entries_added.unwrap_or(0),
                output: answer.output,
                note: answer.note,
            }),
            Some(error) => {
                let line = error.line.unwrap_or(1);
                Err(LoadError {
                    file: name.to_string(),
                    line,
                    text: text.lines().nth(line.saturating_sub(1)).unwrap_or("").to_string(),
                    error: Box::new(error.into_line_error()),
                })
            }
        })
    }
}

/// Messages of a running switch. Dropping it ends the subscription.
pub struct Messages {
    client: Client,
    /// The received part of the next message.
    line: Vec<u8>,
}

impl Messages {
    /// True if the next message has already arrived.
    pub fn has_more(&self) -> bool {
        self.client.input.buffer().contains(&b'\n')
    }

    /// Returns the next message, if one arrives within that time; without a time it waits indefinitely. The end of the switch is an
    /// error of the kind [`ErrorKind::UnexpectedEof`].
    pub fn next(&mut self, wait: Option<Duration>) -> io::Result<Option<Message>> {
        let Some(line) = self.next_line(wait)? else { return Ok(None) };
        let wrong = |e| io::Error::new(ErrorKind::InvalidData, format!("the message is not from p4jet: {e}"));
        serde_json::from_slice(&line).map(Some).map_err(wrong)
    }

    /// Like [`Self::next`], as a line of JSON with its line end.
    pub fn next_line(&mut self, wait: Option<Duration>) -> io::Result<Option<Vec<u8>>> {
        let until = wait.map(|wait| Instant::now() + wait);
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if !self.has_more() {
                // A wait of 0 does not exist.
                (self.client.set_waits)(left.map(|left| left.max(Duration::from_millis(1))), None)?;
            }
            match self.client.input.read_until(b'\n', &mut self.line) {
                Ok(_) if self.line.ends_with(b"\n") => {
                    return Ok(Some(std::mem::take(&mut self.line)));
                }
                Ok(_) => return Err(io::Error::new(ErrorKind::UnexpectedEof, "the switch has ended")),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if left.is_some_and(|left| left.is_zero()) {
                        return Ok(None);
                    }
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }
}

impl Commander for Client {
    fn reply(&mut self, line: &str) -> io::Result<Reply> {
        self.command(line, false).map(Reply::from)
    }

    fn complete(&mut self, line: &str, position: usize) -> (usize, Vec<String>) {
        let request = Request::Complete { line: line.to_string(), position };
        match self.ask(&request) {
            Ok(Answer { start: Some(start), choices, .. })
                if line.is_char_boundary(start) && start <= position =>
            {
                (start, choices)
            }
            _ => (position, Vec::new()),
        }
    }
}

/// The command with its file name made absolute, so that the switch finds the file from any folder. A path with blanks
/// cannot be sent, so it is unchanged.
fn with_absolute_path(line: &str) -> String {
    let absolute = |path: &str| {
        let path = std::path::absolute(path).ok()?.to_str()?.to_string();
        (!path.contains(|c: char| c.is_ascii_whitespace())).then_some(path)
    };
    let files = |spec: &str| match spec.strip_prefix("pcap:") {
        // The options of a link follow the two files.
        Some(files) => {
            let files = files.splitn(3, ',').enumerate().map(|(i, file)| match (i, file) {
                (2, _) | (_, "") => Some(file.to_string()),
                _ => absolute(file),
            });
            Some("pcap:".to_string() + &files.collect::<Option<Vec<_>>>()?.join(","))
        }
        None => Some(spec.to_string()),
    };
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let sent = match words[..] {
        [command @ ("load" | "load_new_config_file"), path] => {
            absolute(path).map(|path| format!("{command} {path}"))
        }
        ["capture", "start", port, path, ref options @ ..] => {
            absolute(path).map(|path| [&["capture", "start", port, &path], options].concat().join(" "))
        }
        ["port_add", spec, number] => files(spec).map(|spec| format!("port_add {spec} {number}")),
        ["port_add", spec, number, path] => {
            files(spec).zip(absolute(path)).map(|(spec, path)| format!("port_add {spec} {number} {path}"))
        }
        _ => None,
    };
    sent.unwrap_or_else(|| line.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_of_the_client() {
        let here = std::env::current_dir().unwrap();
        if let Some(here) = here.to_str().filter(|here| !here.contains(' ')) {
            for (line, sent) in [
                (" load  a.p4 ", format!("load {here}/a.p4")),
                ("capture start 0 a.pcap in count=3", format!("capture start 0 {here}/a.pcap in count=3")),
                ("port_add pcap:a,b,loss=1% 3", format!("port_add pcap:{here}/a,{here}/b,loss=1% 3")),
                ("port_add pcap:,b 3", format!("port_add pcap:,{here}/b 3")),
                ("port_add veth0 3 a.pcap", format!("port_add veth0 3 {here}/a.pcap")),
            ] {
                assert_eq!(with_absolute_path(line), sent);
            }
        }
        for line in ["load /a.p4", "load", "load a b", "table_add a.p4", "capture list", "port_add veth0 3"] {
            assert_eq!(with_absolute_path(line), line);
        }
    }
}
