//! Tests p4jet with p4c's own test programs:
//!
//!     P4C=/path/to/p4c cargo test --release -p p4jet-cli --test conformance
//!
//! * Packet tests: every v1model or PSA program of `testdata/p4_16_samples` that has an `.stf` file passes on both engines,
//!   unless `packets.txt` gives a reason.
//! * Accepted programs: every v1model, PSA and core-only program that p4c accepts is accepted, unless `accepted.txt` gives
//!   a reason.
//! * Refused programs: those in `testdata/p4_16_errors` are refused for the same fault, that is, with an error on a line
//!   that p4c's first error concerns; `refused.txt` lists different judgements.
//!
//! A line of these files is `PROGRAM: REASON`; an entry that is no longer needed is a failure, and so is a panic, a signal
//! or a program that takes too long. Without `P4C`, the test prints that it is skipped.
//!
//! Blind spots: an error on the right line for the wrong reason; programs for other architectures; another version of `P4C`
//! than the one for which the files were written.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// Maximum time for one program with its packet tests; without optimisation everything takes about ten times as long.
const TIME_MAX: Duration = Duration::from_secs(if cfg!(debug_assertions) { 60 } else { 10 });

fn main() -> ExitCode {
    let Some(p4c) = std::env::var_os("P4C").map(PathBuf::from) else {
        println!("SKIPPED: conformance needs a checkout of p4c: P4C=/path/to/p4c");
        return ExitCode::SUCCESS;
    };
    let samples = programs(&p4c.join("testdata/p4_16_samples"));
    let errors = programs(&p4c.join("testdata/p4_16_errors"));
    if samples.is_empty() || errors.is_empty() {
        println!("P4C={}: no testdata/p4_16_samples and testdata/p4_16_errors in it", p4c.display());
        return ExitCode::FAILURE;
    }
    let mut bad = packet_tests(&samples);
    bad += accepted(&samples);
    bad += refused(&errors);
    println!("{bad} unexpected");
    if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The declarations that a program uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    V1model,
    Psa,
    /// Only core.p4.
    Core,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::V1model => "v1model",
            Kind::Psa => "psa",
            Kind::Core => "core only",
        })
    }
}

struct Program {
    path: PathBuf,
    /// Path from the folder of its corpus.
    name: String,
    kind: Kind,
    /// The output of p4c: the expected standard error of its tests.
    said: String,
}

/// Returns the programs of a corpus that p4jet supports.
fn programs(folder: &Path) -> Vec<Program> {
    let outputs = folder.with_file_name(format!("{}_outputs", file_name(folder)));
    let mut found = Vec::new();
    for path in p4_files(folder) {
        let name = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
        // A program with a separate folder has files that are not programs.
        let is_part = name.contains('/') && !read(&path).contains("main;");
        let Some(kind) = kind(&path).filter(|_| !is_part) else { continue };
        let said = read(&outputs.join(format!("{name}-stderr")));
        found.push(Program { path, name, kind, said });
    }
    found
}

fn p4_files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    paths.sort();
    let (folders, files): (Vec<_>, Vec<_>) = paths.into_iter().partition(|p| p.is_dir());
    let is_p4 = |p: &PathBuf| p.extension().is_some_and(|e| e == "p4");
    files.into_iter().filter(is_p4).chain(folders.iter().flat_map(|f| p4_files(f))).collect()
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Returns the text of a file; empty if it does not exist.
fn read(path: &Path) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// Returns the kind of a program, by the files that it includes, also indirectly; `None` for another architecture.
fn kind(path: &Path) -> Option<Kind> {
    let mut kind = Kind::Core;
    let mut seen = BTreeSet::new();
    let mut open = vec![path.to_path_buf()];
    while let Some(path) = open.pop() {
        if !seen.insert(path.clone()) {
            continue;
        }
        for included in read(&path).lines().filter_map(included) {
            let beside = path.with_file_name("").join(included);
            match included {
                "core.p4" => {}
                "v1model.p4" => kind = Kind::V1model,
                "psa.p4" | "bmv2/psa.p4" => kind = Kind::Psa,
                _ if beside.is_file() => open.push(beside),
                _ => return None,
            }
        }
    }
    Some(kind)
}

/// The name in an `#include`.
fn included(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?.trim_start();
    let end = match rest.chars().next()? {
        '<' => '>',
        '"' => '"',
        _ => return None,
    };
    rest[1..].split_once(end).map(|(name, _)| name)
}

/// The result of a call of p4jet.
struct Answer {
    /// `None` if it ended by a signal or took too long.
    status: Option<i32>,
    out: String,
    err: String,
}

impl Answer {
    /// Returns a panic, a signal, or a timeout: wrong for any program.
    fn crash(&self) -> Option<String> {
        match self.status {
            Some(0 | 1) => None,
            Some(status) => Some(format!("exit status {status}: {}", first(&self.err, "thread"))),
            None => Some(format!("killed, by a signal or after {TIME_MAX:?}")),
        }
    }
}

/// Returns the first line with this start, or else the first line.
fn first<'a>(text: &'a str, start: &str) -> &'a str {
    text.lines().find(|l| l.starts_with(start)).or(text.lines().next()).unwrap_or("nothing said")
}

fn p4jet(arguments: &[&Path]) -> Answer {
    let mut command = Command::new(env!("CARGO_BIN_EXE_p4jet"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary is there");
    let (out, err) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let (out, err) = (collect(out), collect(err));
    let start = Instant::now();
    let status = loop {
        match child.try_wait().expect("a child can be waited for") {
            Some(status) => break status.code(),
            None if start.elapsed() > TIME_MAX => {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
            None => thread::sleep(Duration::from_millis(2)),
        }
    };
    let text = |reader: thread::JoinHandle<String>| reader.join().expect("a reader does not panic");
    Answer { status, out: text(out), err: text(err) }
}

fn collect(mut pipe: impl std::io::Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // The output before an error is kept.
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Returns the result of `judge` for each program, in order; as many run at once as there are cores.
fn for_each<T: Send>(programs: &[&Program], judge: impl Fn(&Program) -> T + Sync) -> Vec<T> {
    let next = Mutex::new(programs.iter().enumerate());
    let results = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let job = next.lock().expect("no panic").next();
                    let Some((i, program)) = job else { break };
                    let result = judge(program);
                    results.lock().expect("no panic").push((i, result));
                }
            });
        }
    });
    let mut results = results.into_inner().expect("no panic");
    results.sort_by_key(|(i, _)| *i);
    results.into_iter().map(|(_, result)| result).collect()
}

/// A list of exceptions: program and reason.
struct Exceptions {
    file: &'static str,
    reasons: BTreeMap<String, String>,
}

impl Exceptions {
    fn read(file: &'static str) -> Exceptions {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance").join(file);
        let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let mut reasons = BTreeMap::new();
        for line in text.lines().filter(|l| !l.is_empty() && !l.starts_with('#')) {
            let (name, reason) = line.split_once(": ").unwrap_or_else(|| panic!("{file}: no reason: {line}"));
            let old = reasons.insert(name.to_string(), reason.to_string());
            assert!(old.is_none(), "{file}: {name} is there twice");
        }
        Exceptions { file, reasons }
    }

    /// Prints a failure that no exception covers, or an exception that covers none; returns their number.
    fn check(&self, name: &str, failure: Option<&str>) -> usize {
        match (failure, self.reasons.contains_key(name)) {
            (Some(why), false) => println!("  FAIL {name}: {why}"),
            (None, true) => println!("  FAIL {name}: as it should be; its line in {} can go", self.file),
            _ => return 0,
        }
        1
    }

    /// Prints exceptions for programs that do not exist.
    fn check_names(&self, names: &BTreeSet<&str>) -> usize {
        let unknown = self.reasons.keys().filter(|name| !names.contains(name.as_str()));
        unknown.map(|name| println!("  FAIL {name}: in {}, but not in the corpus", self.file)).count()
    }
}

fn of_kind(programs: &[Program], kind: Kind, wanted: impl Fn(&Program) -> bool) -> Vec<&Program> {
    programs.iter().filter(|p| p.kind == kind && wanted(p)).collect()
}

fn packet_tests(samples: &[Program]) -> usize {
    let exceptions = Exceptions::read("packets.txt");
    let mut names = BTreeSet::new();
    let mut bad = 0;
    for kind in [Kind::V1model, Kind::Psa] {
        let chosen = of_kind(samples, kind, |p| p.path.with_extension("stf").is_file());
        let failures = for_each(&chosen, |program| {
            let stf = program.path.with_extension("stf");
            let options = ["test", "--engine", "both"].map(Path::new);
            let answer = p4jet(&[options.as_slice(), &[&program.path, &stf]].concat());
            let why = || match first(&answer.out, "FAIL") {
                "nothing said" => first(&answer.err, "error").to_string(),
                line => line.to_string(),
            };
            answer.crash().or_else(|| (answer.status != Some(0)).then(why))
        });
        let passed = failures.iter().filter(|f| f.is_none()).count();
        println!("packet tests, {kind}: {passed}/{} passed", chosen.len());
        for (program, failure) in chosen.iter().zip(&failures) {
            names.insert(&program.name[..]);
            bad += exceptions.check(&program.name, failure.as_deref());
        }
    }
    bad + exceptions.check_names(&names)
}

fn accepted(samples: &[Program]) -> usize {
    let exceptions = Exceptions::read("accepted.txt");
    let mut names = BTreeSet::new();
    let mut bad = 0;
    for kind in [Kind::V1model, Kind::Psa, Kind::Core] {
        let chosen = of_kind(samples, kind, |p| fault(&p.said).is_none());
        let failures = for_each(&chosen, check_accepts);
        let accepted = failures.iter().filter(|f| f.is_none()).count();
        println!("accepted programs, {kind}: {accepted}/{}", chosen.len());
        for (program, failure) in chosen.iter().zip(&failures) {
            names.insert(&program.name[..]);
            bad += exceptions.check(&program.name, failure.as_deref());
        }
    }
    bad + exceptions.check_names(&names)
}

/// Why a program is not accepted.
fn check_accepts(program: &Program) -> Option<String> {
    let answer = p4jet(&[Path::new("check"), &program.path]);
    let why = || {
        let place = answer.err.lines().find_map(|l| l.trim_start().strip_prefix("--> ")).unwrap_or("");
        format!("{}, {place}", first(&answer.err, "error"))
    };
    answer.crash().or_else(|| (answer.status != Some(0)).then(why))
}

fn refused(errors: &[Program]) -> usize {
    let exceptions = Exceptions::read("refused.txt");
    let mut names = BTreeSet::new();
    let (mut bad, mut refused, mut same, mut total) = (0, 0, 0, 0);
    for kind in [Kind::V1model, Kind::Psa, Kind::Core] {
        // If p4c only warns, the program is correct.
        let right = of_kind(errors, kind, |p| fault(&p.said).is_none());
        for (program, failure) in right.iter().zip(for_each(&right, check_accepts)) {
            names.insert(&program.name[..]);
            bad += exceptions.check(&program.name, failure.as_deref());
        }
        let wrong = of_kind(errors, kind, |p| fault(&p.said).is_some());
        let verdicts = for_each(&wrong, |program| {
            let answer = p4jet(&[Path::new("check"), &program.path]);
            let fault = fault(&program.said).expect("chosen by it");
            match answer.status {
                _ if answer.crash().is_some() => (false, answer.crash()),
                Some(0) => (false, Some(format!("accepted; p4c says: {}", fault.text))),
                _ if fault.lines.is_empty() || !fault.lines.is_disjoint(&error_lines(&answer.err)) => {
                    (true, None)
                }
                _ => {
                    let lines: Vec<String> = error_lines(&answer.err).iter().map(u32::to_string).collect();
                    let (ours, at) = (first(&answer.err, "error"), lines.join(", "));
                    (true, Some(format!("lines {at}: {ours}; p4c says: {}", fault.text)))
                }
            }
        });
        total += wrong.len();
        for (program, (is_refused, failure)) in wrong.iter().zip(&verdicts) {
            names.insert(&program.name[..]);
            refused += usize::from(*is_refused);
            let judged = exceptions.reasons.get(&program.name).is_some_and(|r| r.starts_with("same fault"));
            same += usize::from(*is_refused && (failure.is_none() || judged));
            bad += exceptions.check(&program.name, failure.as_deref());
        }
    }
    println!("wrong programs: {refused}/{total} refused, {same}/{total} for the same fault");
    bad + exceptions.check_names(&names)
}

/// p4c's first error.
struct Fault<'a> {
    text: &'a str,
    /// Its lines: that of the error, and those from which p4c says it originates.
    lines: BTreeSet<u32>,
}

/// Returns the first error in p4c's output: `FILE(LINE): [--Werror=KIND] error: …` or `FILE(LINE):syntax error, …`. If the
/// place does not come first, it is on a separate line below. `---- Actual error:` and `---- Originating from:` precede the
/// places of details.
fn fault(said: &str) -> Option<Fault<'_>> {
    let is_error = |line: &str| {
        let is_summary = line.contains("error: ") && line.contains("errors encountered");
        !is_summary && (line.contains("error: ") || line.contains("syntax error") || is_other_error(line))
    };
    let mut lines = said.lines().skip_while(|line| !is_error(line));
    let text = lines.next()?;
    let details: Vec<&str> =
        lines.take_while(|l| !l.contains("error: ") && !l.contains("warning: ")).collect();
    let mut at: BTreeSet<u32> =
        place(text).or_else(|| details.iter().find_map(|l| place(l))).into_iter().collect();
    let pairs = details.windows(2).filter(|pair| pair[0].trim_start().starts_with("----"));
    at.extend(pairs.filter_map(|pair| place(pair[1])));
    Some(Fault { text, lines: at })
}

/// Lexical errors and those of the preprocessor have other forms.
fn is_other_error(line: &str) -> bool {
    place(line).is_some() && line.contains("): error")
}

/// The number in `FILE(LINE)…`.
fn place(line: &str) -> Option<u32> {
    let (file, rest) = line.split_once('(')?;
    if !file.ends_with(".p4") || file.contains(' ') {
        return None;
    }
    rest.split_once(')')?.0.parse().ok()
}

/// Returns the lines of p4jet's errors.
fn error_lines(err: &str) -> BTreeSet<u32> {
    let mut lines = BTreeSet::new();
    let mut is_error = false;
    for line in err.lines() {
        if !line.starts_with([' ', '|']) && !line.starts_with(|c: char| c.is_ascii_digit()) {
            is_error = line.starts_with("error");
        } else if let Some(place) = line.trim_start().strip_prefix("--> ").filter(|_| is_error) {
            // FILE:LINE:COLUMN
            lines.extend(place.rsplit(':').nth(1).and_then(|n| n.parse::<u32>().ok()));
        }
    }
    lines
}
