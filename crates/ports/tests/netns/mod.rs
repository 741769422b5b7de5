//! Network namespaces that a test creates and deletes again.

// Reason: setns(2).
#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Maximum time of any wait.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// A namespace; deleted when dropped, with the interfaces in it.
pub struct Namespace {
    name: String,
}

/// Returns why tests with namespaces cannot run here, if they cannot.
pub fn missing() -> Option<String> {
    // SAFETY: no arguments.
    if unsafe { libc::geteuid() } != 0 {
        return Some("not root".into());
    }
    match Command::new("ip").arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Err(error) => return Some(format!("`ip` (iproute2): {error}")),
        Ok(status) if !status.success() => return Some("`ip -V` fails".into()),
        Ok(_) => {}
    }
    // A container may be root and yet not be allowed to create namespaces.
    Namespace::try_new("probe").err()
}

/// Ends the test with a message if namespaces cannot be created.
#[macro_export]
macro_rules! need_namespaces {
    () => {
        if let Some(why) = $crate::netns::missing() {
            eprintln!("SKIPPED: {why}");
            return;
        }
    };
}

/// Runs `ip` with these arguments.
pub fn ip(arguments: &str) -> Result<(), String> {
    let words = arguments.split_whitespace();
    let mut child = Command::new("ip")
        .args(words)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| format!("ip: {error}"))?;
    let end = Instant::now() + DEADLINE;
    while child.try_wait().map_err(|error| error.to_string())?.is_none() {
        if Instant::now() > end {
            let _ = child.kill();
        }
        thread::sleep(Duration::from_millis(1));
    }
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("ip {arguments}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

impl Namespace {
    /// Creates a namespace whose name starts with the process and ends with `role`.
    pub fn new(role: &str) -> Namespace {
        Namespace::try_new(role).unwrap()
    }

    fn try_new(role: &str) -> Result<Namespace, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("p4jet-{}-{count}-{role}", std::process::id());
        ip(&format!("netns add {name}"))?;
        let namespace = Namespace { name };
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    #[allow(dead_code, reason = "not every test that includes this module asks")]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` inside.
    pub fn ip(&self, arguments: &str) -> Result<(), String> {
        ip(&format!("-n {} {arguments}", self.name))
    }

    /// Runs `work` on a thread inside.
    pub fn spawn<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        let path = format!("/var/run/netns/{}", self.name);
        thread::spawn(move || {
            let file = File::open(path).unwrap();
            // SAFETY: passes a descriptor and a number. It moves only this thread.
            assert_eq!(unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) }, 0);
            work()
        })
    }

    /// Runs `work` inside and waits for it.
    pub fn enter<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        self.spawn(work).join().unwrap()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Err(error) = ip(&format!("netns del {}", self.name)) {
            eprintln!("{error}");
        }
    }
}
