//! Mutated texts for every place that receives text from outside (`common/targets.rs`), and every text that was once a
//! finding. Every text gets a timely answer: no panic, no invalid IR, no silent refusal. Programs that still compile forward
//! packets on both engines, which must agree.
//!
//! A case is identified by its number, so that it can be repeated alone: `CASE=compiler:1234 cargo test --release -p
//! p4jet-cli --test fuzz`. `CASE=language:4000..9000` runs more cases of one target; `SEEDS=DIR` also mutates the programs
//! of that folder (`language` only). A case that kills the process (stack, memory) is among those in the files `fuzz.*.case`
//! in the target folder for tests; one that does not end in time aborts the process with its text on standard error.
//!
//! Blind spots: texts that differ from the seeds by more than a few edits (fuzz/ goes further); deep structure
//! (crates/syntax has tests for that); what the packets do not reach.

mod common;

use common::mutate::{Random, mutate};
use common::targets::{self, ALL, COMPILER, FORWARDED, Target};
use common::{TempDir, root, run};
use p4jet_ir::random;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Without optimisation a case takes about ten times as long.
const SLOWDOWN: u64 = if cfg!(debug_assertions) { 10 } else { 1 };
const CASES_BY_BINARY: u64 = 50;
/// Limit of the process's processor time, so that a busy machine does not make a case fail. Two cases run at once.
const CASE_TIME_MAX: Duration = Duration::from_secs(20);
/// Limit for a case that waits instead of working, and for a whole process.
const CASE_WAIT_MAX: Duration = Duration::from_secs(60);
/// Slower cases are reported; a busy machine may be the cause.
const SLOW: Duration = Duration::from_secs(2);
/// The stack of the binary's main thread.
const STACK_BYTES: usize = 8 << 20;
/// Maximum number of distinct panics to report.
const REPORTED_MAX: usize = 10;
/// Number of packets of its program with which a case is tested.
const FRAMES_EACH: usize = 12;
/// One of this many cases is run with its program's entries: routes take much memory, and so time.
const ENTRIES_EVERY: u64 = 5;

fn cases(target: &Target) -> u64 {
    let cases = match target.name {
        "compiler" => 1_200,
        "ir" => 600,
        "language" => 600,
        _ => 900,
    };
    cases / SLOWDOWN
}

/// A seed text.
#[derive(Default)]
struct Seed {
    text: String,
    /// For a shipped program, its entries.cmd.
    entries: String,
    /// For a shipped program, the packets of its packet tests.
    frames: Vec<Vec<u8>>,
}

fn seeds(target: &Target) -> Vec<Seed> {
    let text = |text: String| Seed { text, ..Seed::default() };
    let files = |folders: &[&str]| -> Vec<Seed> {
        folders.iter().flat_map(|f| texts(&root().join(f))).map(|(_, t)| text(t)).collect()
    };
    let seeds = match target.name {
        "preprocessor" => files(&["fuzz/seeds/preprocessor", "crates/syntax/tests/golden"]),
        "parser" => files(&["crates/syntax/tests/golden"]),
        "compiler" => common::program_folders().iter().map(|folder| shipped(folder)).collect(),
        "language" => {
            let mut folders = vec![root().join("tests/language"), root().join("crates/analysis/tests")];
            folders.extend(std::env::var_os("SEEDS").map(PathBuf::from));
            let programs = folders.iter().flat_map(|folder| texts(folder));
            let programs = programs.filter(|(path, _)| path.ends_with(".p4") && !path.contains("/include/"));
            programs.map(|(_, t)| text(without_comments(&with_includes(&t)))).collect()
        }
        "ir" => {
            let mut seeds = files(&["crates/ir/tests/passes"]);
            seeds.extend((0..60).map(|seed| text(p4jet_ir::text::print(&random::program(seed)))));
            seeds
        }
        "stf" => files(&["fuzz/seeds/stf"]),
        "commands" => files(&["fuzz/seeds/commands"]),
        "updates" => {
            let texts = texts(&root().join("crates/control/tests/common"));
            texts.into_iter().filter(|(path, _)| path.ends_with(".json")).map(|(_, t)| text(t)).collect()
        }
        "p4runtime" => files(&["fuzz/seeds/p4runtime"]),
        other => panic!("no seeds for {other}"),
    };
    assert!(!seeds.is_empty(), "{}", target.name);
    seeds
}

fn shipped(folder: &Path) -> Seed {
    let text = fs::read_to_string(common::program(&common::stem(folder))).unwrap();
    let scripts = common::stf_files(folder).into_iter().map(|f| fs::read_to_string(f).unwrap());
    Seed {
        // A mutation of a comment changes nothing.
        text: without_comments(&text),
        entries: fs::read_to_string(folder.join("entries.cmd")).unwrap(),
        frames: scripts.flat_map(|s| common::stf_packets(&s)).map(|(_, frame)| frame).collect(),
    }
}

fn without_comments(text: &str) -> String {
    let lines = text.lines().map(|l| l.split("//").next().unwrap_or(l).trim_end()).filter(|l| !l.is_empty());
    lines.map(|l| format!("{l}\n")).collect()
}

/// Returns a language test with the files of tests/language/include inserted.
fn with_includes(text: &str) -> String {
    let line = |line: &str| {
        let name = line.strip_prefix("#include \"")?.strip_suffix('"')?;
        fs::read_to_string(root().join("tests/language").join(name)).ok()
    };
    let lines = text.lines().map(|l| line(l).map_or_else(|| l.to_string(), |text| with_includes(&text)));
    lines.map(|l| l + "\n").collect()
}

/// Returns the files in a folder and below, by path; invalid UTF-8 is replaced.
fn texts(folder: &Path) -> Vec<(String, String)> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<_> = entries.map(|e| e.unwrap().path()).collect();
    paths.sort();
    let (folders, files): (Vec<_>, Vec<_>) = paths.into_iter().partition(|p| p.is_dir());
    let read = |p: &Path| String::from_utf8_lossy(&fs::read(p).unwrap()).into_owned();
    let mut all: Vec<_> = files.iter().map(|p| (p.display().to_string(), read(p))).collect();
    all.extend(folders.iter().flat_map(|f| texts(f)));
    all
}

/// Returns the text of a case and its seed.
fn case<'a>(target: &Target, number: u64, seeds: &'a [Seed]) -> (&'a Seed, String) {
    let mut random = Random::from_number(number);
    let (seed, other) = (&seeds[random.below(seeds.len())], &seeds[random.below(seeds.len())]);
    (seed, mutate(&mut random, &seed.text, &other.text, target.vocabulary))
}

/// The running case, for the watchdog.
struct Current {
    name: String,
    text: String,
    start: Instant,
}

type Shared<T> = Arc<Mutex<T>>;

fn lock<T>(shared: &Shared<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Processor time of this process.
fn processor_time() -> Duration {
    // proc(5): utime and stime are fields 14 and 15, and the first one after the name is the third; 100 ticks per second.
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|t| t.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// Ends the process if a case takes too long, because nothing else can stop it.
fn watch(current: &Shared<Option<Current>>) {
    let current = current.clone();
    thread::spawn(move || {
        // The case seen last, and the processor time when it was first seen.
        let mut seen = (String::new(), Duration::ZERO);
        loop {
            thread::sleep(Duration::from_millis(100));
            let Some(Current { name, text, start }) = &*lock(&current) else { continue };
            if seen.0 != *name {
                seen = (name.clone(), processor_time());
            }
            if processor_time() - seen.1 > CASE_TIME_MAX || start.elapsed() > CASE_WAIT_MAX {
                eprintln!("{name} does not end:\n{text}\n{name}: too slow");
                std::process::abort();
            }
        }
    });
}

/// Runs cases in sequence and records failures.
struct Runner {
    /// For the watchdog.
    current: Shared<Option<Current>>,
    /// Place and message of the last panic.
    panicked: Shared<String>,
    progress: fs::File,
    /// By place, so that each bug is reported once: the first case, the number of cases, and the message.
    panics: BTreeMap<String, (String, u64, String)>,
    slowest: (Duration, String),
}

impl Runner {
    fn run(&mut self, name: String, text: &str, work: impl FnOnce() -> &'static str) -> &'static str {
        self.progress.seek(SeekFrom::Start(0)).and_then(|_| writeln!(self.progress, "{name:<60}")).unwrap();
        let start = Instant::now();
        *lock(&self.current) = Some(Current { name: name.clone(), text: text.to_string(), start });
        let result = catch_unwind(AssertUnwindSafe(work));
        *lock(&self.current) = None;
        if start.elapsed() > SLOW {
            println!("{name}: {:?}", start.elapsed());
        }
        if start.elapsed() > self.slowest.0 {
            self.slowest = (start.elapsed(), name.clone());
        }
        result.unwrap_or_else(|_| {
            let what = std::mem::take(&mut *lock(&self.panicked));
            // Errors that p4jet itself calls internal are reported from one place.
            let place = what.lines().next().unwrap_or_default().to_string();
            self.panics.entry(place).or_insert((name, 0, what)).1 += 1;
            "panic"
        })
    }

    /// Runs the texts that were once findings.
    fn regressions(&mut self, target: &Target) {
        for (path, text) in texts(&root().join("fuzz/regressions").join(target.name)) {
            self.run(path, &text, || (target.run)(&text));
        }
    }

    /// Runs the cases of a target, or some of them.
    fn mutations(&mut self, target: &Target, only: Option<Range<u64>>) {
        let seeds = seeds(target);
        if only.is_none() && matches!(target.name, "stf" | "commands" | "updates" | "p4runtime") {
            for seed in &seeds {
                let outcome = (target.run)(&seed.text);
                assert_ne!(outcome, "refused", "this seed:\n{}", seed.text);
            }
        }
        let start = Instant::now();
        let mut outcomes: BTreeMap<&str, u64> = BTreeMap::new();
        for number in only.clone().unwrap_or(0..cases(target)) {
            let (seed, text) = case(target, number, &seeds);
            let entries: Vec<&str> =
                if number % ENTRIES_EVERY == 0 { seed.entries.lines().collect() } else { Vec::new() };
            let frames: Vec<_> = (0..FRAMES_EACH.min(seed.frames.len()))
                .map(|i| seed.frames[(number as usize * 7 + i * 5) % seed.frames.len()].clone())
                .collect();
            let outcome = self.run(format!("{}:{number}", target.name), &text, || match target.name {
                "compiler" => targets::forward(&text, &entries, &frames),
                _ => (target.run)(&text),
            });
            *outcomes.entry(outcome).or_default() += 1;
            if only.as_ref().is_some_and(|only| only.end == only.start + 1) {
                println!("{text}\n{outcome}");
            }
        }
        println!("{}: {outcomes:?} in {:?}", target.name, start.elapsed());
        if only.is_none() {
            // Of a batch of dozens of mutated updates some are always refused, and never all.
            let one_outcome = target.name == targets::UPDATES.name;
            assert!(one_outcome || outcomes.len() > 1, "{}: too few stages were reached", target.name);
            let far = outcomes.get(FORWARDED).copied().unwrap_or(0);
            assert!(
                target.name != COMPILER.name || far > cases(target) / 20,
                "only {far} programs compiled: the mutations are too wild"
            );
        }
    }
}

#[test]
fn every_text_gets_an_answer() {
    let only = std::env::var("CASE").ok().map(|case| {
        let (name, numbers) = case.split_once(':').expect("CASE is TARGET:NUMBER");
        let target = ALL.iter().find(|t| t.name == name).expect("CASE names a target");
        let number = |text: &str| text.parse::<u64>().expect("the number of a case");
        match numbers.split_once("..") {
            Some((first, end)) => (*target, number(first)..number(end)),
            None => (*target, number(numbers)..number(numbers) + 1),
        }
    });
    let panicked: Shared<String> = Arc::default();
    let (hook_place, said) = (panicked.clone(), panicked.clone());
    // Silent, because thousands of cases may print a lot. Compiler stages may run on separate threads.
    let (usual_hook, main_test) = (std::panic::take_hook(), thread::current().id());
    std::panic::set_hook(Box::new(move |info| {
        // The tests themselves, this one and the other, print as usual.
        let name = thread::current().name().map(str::to_string);
        if thread::current().id() == main_test || name.as_deref() == Some("the_binary_answers_too") {
            return usual_hook(info);
        }
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let message = info.payload_as_str().unwrap_or("no message");
        *lock(&hook_place) = format!("{place}: {message}");
    }));
    // Two at once: programs, whose cases take longest, and the others.
    let (programs, others): (Vec<&Target>, Vec<&Target>) =
        ALL.iter().copied().partition(|target| target.name == COMPILER.name);
    let begin = |name: &str, targets: Vec<&'static Target>| {
        let only = only.clone();
        let current: Shared<Option<Current>> = Arc::default();
        watch(&current);
        let progress = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz.{name}.case"));
        let mut runner = Runner {
            current,
            panicked: panicked.clone(),
            progress: fs::File::create(progress).unwrap(),
            panics: BTreeMap::new(),
            slowest: Default::default(),
        };
        let work = move || {
            for target in targets {
                match &only {
                    Some((of, numbers)) if of.name == target.name => {
                        runner.mutations(target, Some(numbers.clone()))
                    }
                    Some(_) => {}
                    None => {
                        runner.regressions(target);
                        runner.mutations(target, None);
                    }
                }
            }
            runner
        };
        thread::Builder::new().stack_size(STACK_BYTES).spawn(work).unwrap()
    };
    let threads = [begin("programs", programs), begin("others", others)];
    let runners = threads.map(|thread| thread.join().unwrap_or_else(|_| panic!("{}", lock(&said))));
    for runner in &runners {
        println!("slowest: {} with {:?}", runner.slowest.1, runner.slowest.0);
    }
    let report: Vec<String> = runners
        .iter()
        .flat_map(|runner| runner.panics.values())
        .map(|(name, count, what)| format!("CASE={name} (and {} more): {what}", count - 1))
        .collect();
    let shown = report[..report.len().min(REPORTED_MAX)].join("\n");
    assert!(report.is_empty(), "{} kinds of panic:\n{shown}", report.len());
}

/// A few through the binary, which adds reading the file and printing.
#[test]
fn the_binary_answers_too() {
    let dir = TempDir::new("fuzz");
    let seeds = seeds(&COMPILER);
    let first = cases(&COMPILER);
    for number in first..first + CASES_BY_BINARY {
        let (_, text) = case(&COMPILER, number, &seeds);
        let path = dir.write("fuzz.p4", &text);
        let start = Instant::now();
        let output = run(&["check", &path]);
        assert!(start.elapsed() < CASE_WAIT_MAX, "case {number} takes {:?}", start.elapsed());
        match output.status {
            // Without `main` it is correct, and `check` reports that.
            0 => assert!(
                output.stdout.is_empty() || output.stdout.contains("fine as P4"),
                "case {number}: {}",
                output.stdout
            ),
            1 => assert!(output.stderr.contains("error"), "case {number}: {}", output.stderr),
            status => panic!("case {number}: exit status {status}\n{}", output.stderr),
        }
    }
}
