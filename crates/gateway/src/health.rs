//! Checks of back ends, with a thread for each.

use crate::config::{Config, Health, HealthTimes};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The result of a check.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    /// Number of the watch.
    pub watch: u64,
    /// True if the back end is alive.
    pub alive: bool,
    /// The result of the last check.
    pub why: String,
}

/// Checks a back end as long as this exists.
pub(crate) struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

/// Small, because there may be many threads that need little stack.
const STACK_BYTES: usize = 256 << 10;
/// Maximum length of an HTTP status line.
const STATUS_LINE_MAX: usize = 1024;

impl Watch {
    /// Starts the checks. The first one decides; after that only changes are reported.
    pub fn start(
        number: u64,
        health: Health,
        times: HealthTimes,
        verdicts: SyncSender<Verdict>,
    ) -> std::io::Result<Watch> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let work = move || watch(number, &health, times, &stopped, &verdicts);
        let thread = p4jet_threads::builder("health", STACK_BYTES)?.spawn(work)?;
        Ok(Watch { stop, thread })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // The thread ends after a check in progress.
        self.thread.thread().unpark();
    }
}

fn watch(
    number: u64,
    health: &Health,
    times: HealthTimes,
    stop: &AtomicBool,
    verdicts: &SyncSender<Verdict>,
) {
    let mut alive: Option<bool> = None;
    let mut other_way = 0;
    let mut next = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let left = next.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            // A caller that stops the checks wakes it.
            std::thread::park_timeout(left);
            continue;
        }
        next = Instant::now() + times.interval;
        let found = check(health, times.timeout);
        let is = found.is_ok();
        other_way = if alive == Some(is) { 0 } else { other_way + 1 };
        let enough = if is { times.rise } else { times.fall };
        if alive.is_none() || other_way >= enough {
            (alive, other_way) = (Some(is), 0);
            let why = found.err().unwrap_or_default();
            if verdicts.send(Verdict { watch: number, alive: is, why }).is_err() {
                return;
            }
        }
    }
}

/// Returns which back ends are alive, by one check each. Back ends without checks count as alive.
pub fn check_all(config: &Config) -> Vec<bool> {
    let timeout = config.health.timeout;
    std::thread::scope(|scope| {
        let checks: Vec<_> = config
            .back_ends
            .iter()
            .map(|back_end| {
                let health = back_end.health.as_ref()?;
                let run = move || check(health, timeout).is_ok();
                // Without a thread, this one checks it now.
                let thread = p4jet_threads::builder("health", STACK_BYTES)
                    .and_then(|thread| thread.spawn_scoped(scope, run));
                Some(thread.map_err(|_| run()))
            })
            .collect();
        let alive = |check: Result<std::thread::ScopedJoinHandle<'_, bool>, bool>| match check {
            Ok(thread) => thread.join().unwrap_or(false),
            Err(alive) => alive,
        };
        checks.into_iter().map(|check| check.is_none_or(alive)).collect()
    })
}

/// Makes one check, which takes at most the timeout. The error is the reason of the failure.
fn check(health: &Health, timeout: Duration) -> Result<(), String> {
    let end = Instant::now() + timeout;
    match health {
        Health::Tcp(address) => connect(address, timeout).map(drop),
        Health::Http { address, path } => {
            let mut stream = connect(address, timeout)?;
            let left = || Some(end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1)));
            let failed = |e: std::io::Error| match e.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => "no answer in time".to_string(),
                _ => format!("no answer: {e}"),
            };
            stream.set_write_timeout(left()).map_err(failed)?;
            let request = format!(
                "GET {path} HTTP/1.1\r\nHost: {address}\r\nUser-Agent: p4jet\r\nConnection: close\r\n\r\n"
            );
            stream.write_all(request.as_bytes()).map_err(failed)?;
            let mut line = Vec::new();
            let mut bytes = [0; 256];
            while !line.contains(&b'\n') && line.len() < STATUS_LINE_MAX {
                if Instant::now() >= end {
                    return Err("no answer in time".to_string());
                }
                stream.set_read_timeout(left()).map_err(failed)?;
                match stream.read(&mut bytes).map_err(failed)? {
                    0 => break,
                    n => line.extend(&bytes[..n]),
                }
            }
            status(&line)
        }
    }
}

fn connect(address: &SocketAddr, timeout: Duration) -> Result<TcpStream, String> {
    TcpStream::connect_timeout(address, timeout).map_err(|e| format!("no connection: {e}"))
}

/// Checks that the first line of an answer has a status of success.
fn status(answer: &[u8]) -> Result<(), String> {
    let line = String::from_utf8_lossy(answer.split(|b| *b == b'\n').next().unwrap_or_default());
    let mut words = line.trim_end().split(' ');
    let (version, code) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    match code.parse::<u16>() {
        Ok(200..=399) if version.starts_with("HTTP/1.") => Ok(()),
        Ok(code) if version.starts_with("HTTP/1.") => Err(format!("HTTP status {code}")),
        _ => Err("the answer is not HTTP".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::sync::mpsc::sync_channel;

    const SHORT: Duration = Duration::from_millis(200);
    const LONG: Duration = Duration::from_secs(60);

    /// Listens, and sends the same answer to every request.
    fn answering(answer: &'static str) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().take(8) {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 512]);
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        address
    }

    fn http(answer: &'static str) -> Result<(), String> {
        check(&Health::Http { address: answering(answer), path: "/".to_string() }, LONG)
    }

    #[test]
    fn answers_are_judged() {
        assert_eq!(http("HTTP/1.1 200 OK\r\n\r\n"), Ok(()));
        assert_eq!(http("HTTP/1.0 301 Moved\r\n\r\n"), Ok(()));
        assert_eq!(http("HTTP/1.1 503 Sorry\r\n\r\n"), Err("HTTP status 503".into()));
        assert_eq!(http("HTTP/1.1 100 Continue\r\n\r\n"), Err("HTTP status 100".into()));
        assert_eq!(http("SSH-2.0-x\r\n"), Err("the answer is not HTTP".into()));
        assert_eq!(http(""), Err("the answer is not HTTP".into()));
    }

    #[test]
    fn silence_ends() {
        // It listens but never accepts: the kernel completes the connection, but there is no answer.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let found = check(&Health::Http { address, path: "/".into() }, SHORT);
        assert_eq!(found, Err("no answer in time".into()));
        assert_eq!(check(&Health::Tcp(address), LONG), Ok(()));
        drop(listener);
        assert!(check(&Health::Tcp(address), LONG).unwrap_err().starts_with("no connection"));
    }

    #[test]
    fn fall_and_rise_count_checks_in_a_row() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
        // Answers by number: two successes, then failures that end before a verdict, then enough of them; then the same
        // for successes.
        let answers = [true, true, false, false, true, false, false, false, true, false, true, true];
        let count = Arc::clone(&seen);
        // After an answer that decides, the next check waits until the verdict has been read.
        let (go, read) = sync_channel::<()>(1);
        std::thread::spawn(move || {
            for (stream, well) in listener.incoming().zip(answers) {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 512]);
                let number = count.fetch_add(1, Ordering::SeqCst) + 1;
                let _ = stream.write_all(if well {
                    b"HTTP/1.1 200 OK\r\n\r\n"
                } else {
                    b"HTTP/1.1 503 No\r\n\r\n"
                });
                drop(stream);
                if [1, 8].contains(&number) {
                    let _ = read.recv_timeout(LONG);
                }
            }
        });
        let (interval, timeout) = (Duration::from_millis(1), LONG);
        let times = HealthTimes { interval, timeout, fall: 3, rise: 2 };
        let (to, events) = sync_channel(1);
        let health = Health::Http { address, path: "/".to_string() };
        let _watch = Watch::start(7, health, times, to).unwrap();
        let mut verdicts = Vec::new();
        for _ in 0..3 {
            let verdict = match events.recv_timeout(LONG) {
                Ok(verdict) => verdict,
                Err(e) => panic!("no verdict: {e}"),
            };
            verdicts.push((verdict.alive, seen.load(Ordering::SeqCst)));
            let _ = go.try_send(());
        }
        // The first check decides, then the third consecutive failure, then the second consecutive success.
        assert_eq!(verdicts, [(true, 1), (false, 8), (true, 12)]);
    }

    #[test]
    fn falls_and_rises() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (interval, timeout) = (Duration::from_millis(30), Duration::from_millis(30));
        let times = HealthTimes { interval, timeout, fall: 3, rise: 2 };
        let (to, events) = sync_channel(9);
        let _watch = Watch::start(7, Health::Tcp(address), times, to).unwrap();
        let next = || match events.recv_timeout(Duration::from_secs(60)) {
            Ok(verdict) => verdict,
            Err(e) => panic!("no verdict: {e}"),
        };
        assert!(next().alive);
        let begin = Instant::now();
        drop(listener);
        let dead = next();
        assert!(!dead.alive && dead.watch == 7 && dead.why.starts_with("no connection"), "{dead:?}");
        assert!(begin.elapsed() >= interval * 2, "three failures in a row");
        let _listener = TcpListener::bind(address).unwrap();
        assert!(next().alive);
    }
}
