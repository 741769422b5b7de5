//! Shared by the whole-system tests: the binary with a deadline, temporary files, captures, generated workloads.
#![allow(dead_code, reason = "not every test that includes this module uses all of it")]

pub mod chain;
pub mod documents;
pub mod mutate;
pub mod targets;
pub mod workload;

use p4jet_dataplane::{Cancel, Running, Switch};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum time of any wait.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// Returns the root of the checkout.
pub fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the crate lies in crates/cli")
}

/// The folders of the network functions and of the user plane's services, each of which has a folder like those in programs/.
const CATALOGUE: &str = "programs/nf_catalogue";
const SERVICES: &str = "programs/upf/services";

/// Returns the path of a shipped program.
pub fn program(name: &str) -> PathBuf {
    let folders = ["programs", CATALOGUE, SERVICES].map(|folder| root().join(folder).join(name));
    let folder = folders.iter().find(|folder| folder.is_dir()).unwrap_or(&folders[0]);
    folder.join(format!("{name}.p4"))
}

/// Returns the folders of the shipped programs, sorted.
pub fn program_folders() -> Vec<PathBuf> {
    let catalogue = root().join(CATALOGUE);
    let folders_in = |folder: &Path| {
        let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        entries.map(|e| e.expect("readable").path()).filter(|p| p.is_dir()).collect::<Vec<_>>()
    };
    let mut folders = folders_in(&root().join("programs"));
    folders.retain(|folder| *folder != catalogue);
    folders.extend(folders_in(&catalogue));
    folders.extend(folders_in(&root().join(SERVICES)));
    folders.sort();
    folders
}

/// Returns the text of a program with the files that it includes by a path, each in its place.
pub fn text_with_includes(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let line = |line: &str| match line.strip_prefix("#include \"").and_then(|rest| rest.split_once('"')) {
        Some((name, _)) => text_with_includes(&path.parent().expect("it is in a folder").join(name)),
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// Returns the last component of a path, without extension.
pub fn stem(path: &Path) -> String {
    path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Turns the counting of lookups and drops on or off, and returns the switch that runs then.
pub fn set_counted(running: &Running, counted: bool) -> Arc<Switch> {
    match running.prepare_counted(counted, &Cancel::default()).expect("code") {
        Some(next) => running.replace_same(next).expect("the program still runs"),
        None => running.switch(),
    }
}

/// The exit status and output of a process.
#[derive(Debug)]
pub struct Output {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

/// A call of the binary.
pub fn p4jet() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_p4jet"));
    command.stdin(Stdio::null()).env_remove("RUST_BACKTRACE");
    command
}

/// Runs the binary with these arguments.
pub fn run<A: AsRef<std::ffi::OsStr>>(arguments: &[A]) -> Output {
    run_command(p4jet().args(arguments))
}

/// Runs a command. It must end in time and not by a signal.
pub fn run_command(command: &mut Command) -> Output {
    let what = format!("{command:?}");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let deadline = Instant::now() + DEADLINE;
    let mut child = loop {
        match command.spawn() {
            Ok(child) => break child,
            // A test may have just copied the binary, and a child that another thread forked meanwhile may still hold it
            // open.
            Err(e) if e.kind() == std::io::ErrorKind::ExecutableFileBusy && Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(10));
            }
            Err(e) => panic!("{what}: {e}"),
        }
    };
    let (stdout, stderr) = (collect(child.stdout.take()), collect(child.stderr.take()));
    let status = wait(&mut child, &what);
    let text = |reader: thread::JoinHandle<Vec<u8>>| {
        String::from_utf8_lossy(&reader.join().expect("a reader does not panic")).into_owned()
    };
    let (stdout, stderr) = (text(stdout), text(stderr));
    let status = status.code().unwrap_or_else(|| panic!("{what}: {status}\n{stdout}{stderr}"));
    assert_ne!(status, 101, "{what}: a panic\n{stderr}");
    Output { status, stdout, stderr }
}

fn collect(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // The output before an error is kept.
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

/// Waits for the end of a process; kills it at the deadline.
pub fn wait(child: &mut Child, what: &str) -> std::process::ExitStatus {
    let end = Instant::now() + DEADLINE;
    loop {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            return status;
        }
        if Instant::now() > end {
            let _ = child.kill();
            let _ = child.wait();
            panic!("{what}: still running after {DEADLINE:?}");
        }
        thread::sleep(Duration::from_millis(1));
    }
}

impl Output {
    /// Asserts the exit status; a failure shows the whole output.
    #[track_caller]
    pub fn expect_status(self, status: i32) -> Output {
        assert_eq!(
            self.status, status,
            "exit status\n--- stdout\n{}--- stderr\n{}",
            self.stdout, self.stderr
        );
        self
    }

    /// Asserts that standard error contains all of these.
    #[track_caller]
    pub fn says(self, parts: &[&str]) -> Output {
        for part in parts {
            assert!(self.stderr.contains(part), "expected `{part}` in\n{}", self.stderr);
        }
        self
    }

    /// Asserts that standard output contains all of these.
    #[track_caller]
    pub fn prints(self, parts: &[&str]) -> Output {
        for part in parts {
            assert!(self.stdout.contains(part), "expected `{part}` in\n{}", self.stdout);
        }
        self
    }
}

/// A temporary folder, deleted when dropped.
pub struct TempDir(PathBuf);

impl TempDir {
    pub fn new(role: &str) -> TempDir {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("p4jet-{}-{count}-{role}", std::process::id()));
        fs::create_dir_all(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        TempDir(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the path of a file in it, as text.
    pub fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("temporary paths are UTF-8").to_owned()
    }

    /// Writes a file and returns its path.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.file(name);
        fs::write(&path, content).unwrap_or_else(|e| panic!("{path}: {e}"));
        path
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the bytes of a capture file: pcap, little endian, microseconds, Ethernet.
pub fn pcap(frames: &[Vec<u8>]) -> Vec<u8> {
    pcap_of_link(1, frames)
}

/// Like [`pcap`], for any link type (LINKTYPE_ETHERNET is 1).
pub fn pcap_of_link(link: u32, frames: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let word = |v: u32, to: &mut Vec<u8>| to.extend(v.to_le_bytes());
    // Magic, version 2.4, time zone, accuracy, snapshot length, link type.
    for v in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 262_144, link] {
        word(v, &mut bytes);
    }
    for (i, frame) in (0u32..).zip(frames) {
        let len = u32::try_from(frame.len()).expect("frames are short");
        for v in [i / 1_000_000, i % 1_000_000, len, len] {
            word(v, &mut bytes);
        }
        bytes.extend(frame);
    }
    bytes
}

/// Returns the frames of a capture file that p4jet wrote.
pub fn read_pcap(path: &str) -> Vec<Vec<u8>> {
    p4jet_ports::read_capture(Path::new(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Converts hexadecimal digits, ignoring spaces, to bytes.
pub fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16).unwrap_or_else(|| panic!("`{c}` in {text}")) as u8)
        .collect();
    assert_eq!(digits.len() % 2, 0, "{text}");
    digits.chunks(2).map(|d| d[0] << 4 | d[1]).collect()
}

/// Bytes as hexadecimal digits.
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Returns the frames of the `packet` lines of a packet test, with their ports.
pub fn stf_packets(text: &str) -> Vec<(u32, Vec<u8>)> {
    let lines = text.lines().map(str::trim).filter_map(|l| l.strip_prefix("packet "));
    lines
        .map(|line| {
            let (port, data) = line.trim_start().split_once(' ').unwrap_or((line, ""));
            (port.parse().unwrap_or_else(|_| panic!("packet {line}")), hex(data))
        })
        .collect()
}

/// Returns the packet tests of a program's folder, sorted.
pub fn stf_files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder.join("tests")) else { return Vec::new() };
    let mut files: Vec<_> = entries
        .map(|e| e.expect("readable").path())
        .filter(|p| p.extension().is_some_and(|e| e == "stf"))
        .collect();
    files.sort();
    files
}
