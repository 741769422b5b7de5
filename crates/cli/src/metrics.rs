//! `run --metrics`: the numbers of a running switch for Prometheus, over HTTP.
//!
//! The cost of clients is bounded: their number, their time and the size of their requests are limited, and the workers
//! are queried only a few times per second, however often clients ask.

use crate::stats::prometheus;
use p4jet_control::{ControlError, Host};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Maximum number of simultaneous clients; others are rejected.
const CLIENTS_MAX: usize = 16;
/// Maximum time for a request and its answer.
const TIME_MAX: Duration = Duration::from_secs(5);
/// Maximum size of a request.
const REQUEST_BYTES_MAX: usize = 8 << 10;
/// Age up to which an answer is reused.
const FRESH: Duration = Duration::from_millis(50);

/// Answers requests until it is dropped.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

struct Shared {
    host: Arc<dyn Host>,
    last: Mutex<Option<(Instant, Arc<str>)>>,
    clients: AtomicUsize,
    stop: AtomicBool,
}

impl Shared {
    fn text(&self) -> Result<Arc<str>, ControlError> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((when, text)) if when.elapsed() < FRESH => Ok(Arc::clone(text)),
            _ => {
                let text: Arc<str> = prometheus(&self.host.stats()?).into();
                *last = Some((Instant::now(), Arc::clone(&text)));
                Ok(text)
            }
        }
    }
}

impl Server {
    /// Listens at `address`; port 0 means any port.
    pub fn start(address: SocketAddr, host: Arc<dyn Host>) -> io::Result<Server> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            host,
            last: Mutex::new(None),
            clients: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
        });
        let accepting = {
            let shared = Arc::clone(&shared);
            p4jet_threads::spawn("metrics", move || accept(&listener, &shared))?
        };
        Ok(Server { address, shared, accepting: Some(accepting) })
    }

    /// Returns the address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        // Ends the wait for a client.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_millis(100));
        if let Some(thread) = self.accepting.take() {
            let _ = thread.join();
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    loop {
        let accepted = listener.accept();
        if shared.stop.load(Ordering::Relaxed) {
            return;
        }
        let Ok((stream, _)) = accepted else {
            // For example, no descriptors are left: some client will disconnect.
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        if shared.clients.fetch_add(1, Ordering::Relaxed) >= CLIENTS_MAX {
            shared.clients.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let of_client = Arc::clone(shared);
        let client = move || {
            // A client that disconnects has what it needs.
            let _ = serve(stream, &of_client);
            of_client.clients.fetch_sub(1, Ordering::Relaxed);
        };
        if p4jet_threads::spawn("metrics client", client).is_err() {
            shared.clients.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Answers one request.
fn serve(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    let end = Instant::now() + TIME_MAX;
    let left = || match end.checked_duration_since(Instant::now()) {
        Some(left) if !left.is_zero() => Ok(left),
        _ => Err(io::Error::from(io::ErrorKind::TimedOut)),
    };
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        if request.len() > REQUEST_BYTES_MAX {
            return Ok(());
        }
        let mut some = [0; 1024];
        stream.set_read_timeout(Some(left()?))?;
        match stream.read(&mut some)? {
            0 => return Ok(()),
            n => request.extend_from_slice(&some[..n]),
        }
    }
    let answer = answer(&request, shared);
    let mut rest = answer.as_bytes();
    while !rest.is_empty() {
        stream.set_write_timeout(Some(left()?))?;
        match stream.write(rest)? {
            0 => return Ok(()),
            n => rest = &rest[n..],
        }
    }
    Ok(())
}

fn answer(request: &[u8], shared: &Shared) -> String {
    const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
    const PLAIN: &str = "text/plain; charset=utf-8";
    let first = request.split(|b| *b == b'\r').next().unwrap_or_default();
    let first = String::from_utf8_lossy(first);
    let mut words = first.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split('?').next().unwrap_or_default();
    let (status, kind, body): (&str, &str, Arc<str>) = match (method, path) {
        ("GET" | "HEAD", "/metrics") => match shared.text() {
            Ok(text) => ("200 OK", METRICS, text),
            Err(error) => ("503 Service Unavailable", PLAIN, format!("{error}\n").into()),
        },
        ("GET" | "HEAD", "/") => ("200 OK", PLAIN, "p4jet: see /metrics\n".into()),
        ("GET" | "HEAD", _) => ("404 Not Found", PLAIN, "there is only /metrics\n".into()),
        _ => ("405 Method Not Allowed", PLAIN, "only GET\n".into()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    if method == "HEAD" { head } else { head + &body }
}
