//! Golden tests: each `ok/*.p4` must be accepted, and its typed program and warnings, except those about unused names,
//! are compared with the `.txt` beside it; each `errors/*.p4` must be refused, and its diagnostics are compared; each
//! `warnings/*.p4` must be accepted, and all its warnings are compared.
//!
//! `UPDATE=1 cargo test -p p4jet-analysis` rewrites the expectations; the diff is the review. Blind spot: the meaning of
//! the typed program, which the tests of lowering cover.

use crate::dump;

use p4jet_analysis::warnings::NAMES;
use p4jet_analysis::{BUILTINS, analyse};
use p4jet_syntax::diagnostic::{Diagnostic, Severity};
use p4jet_syntax::{Options, parse_text, render};
use std::fs;
use std::path::{Path, PathBuf};

/// Returns true if the program is accepted, and its text: diagnostics, then the typed program.
fn run(name: &str, text: &str) -> (bool, String) {
    analysed(name, text, |diagnostic| diagnostic.code != "unused", true)
}

/// Like [`run`], with some of the diagnostics, and the typed program if `typed` is true.
fn analysed(
    name: &str,
    text: &str,
    wanted: impl Fn(&Diagnostic) -> bool,
    with_program: bool,
) -> (bool, String) {
    let options = Options { builtins: BUILTINS.to_vec(), ..Options::default() };
    let parsed = parse_text(name, text, &options);
    let syntax_errors = parsed.diagnostics.iter().any(|d| d.severity == Severity::Error);
    assert!(!syntax_errors, "{name}:\n{}", render(&parsed.diagnostics, &parsed.sources, false));
    let (program, mut diagnostics) = analyse(&parsed.program, parsed.sources.clone());
    diagnostics.retain(wanted);
    let mut out = render(&diagnostics, &parsed.sources, false);
    if let Some(program) = program.as_ref().filter(|_| with_program) {
        out.push_str(&dump::program(program));
    }
    (program.is_some(), out)
}

fn check(directory: &str, accepted: bool, run: fn(&str, &str) -> (bool, String)) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(directory);
    let mut files: Vec<PathBuf> = fs::read_dir(&directory)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "p4"))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    let mut wrong = Vec::new();
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let (ok, found) = run(&name, &fs::read_to_string(&file).unwrap());
        assert_eq!(ok, accepted, "{name}:\n{found}");
        let golden = file.with_extension("txt");
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&golden, &found).unwrap();
            continue;
        }
        let expected = fs::read_to_string(&golden).unwrap_or_default();
        if expected != found {
            wrong.push(format!("{name}: expected\n{expected}\nfound\n{found}"));
        }
    }
    assert!(wrong.is_empty(), "{}\n(UPDATE=1 rewrites the expectations)", wrong.join("\n"));
}

#[test]
fn accepted_programs() {
    check("ok", true, run);
}

#[test]
fn refused_programs() {
    check("errors", false, run);
}

#[test]
fn doubtful_programs() {
    check("warnings", true, |name, text| analysed(name, text, |_| true, false));
}

/// Every warning of the analysis has a golden test and is in the list of names.
#[test]
fn every_warning_is_shown() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let shown: String = ["ok", "errors", "warnings"]
        .iter()
        .flat_map(|directory| fs::read_dir(tests.join(directory)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "txt"))
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    let preprocessor =
        ["bad-pragma", "ignored-pragma", "macro-redefined", "unknown-directive", "warning-directive"];
    for (name, _) in NAMES {
        let found = shown.contains(&format!("warning[{name}]: "));
        assert!(found || preprocessor.contains(name), "no golden test shows `{name}`");
    }
    for line in shown.lines().filter_map(|line| line.strip_prefix("warning[")) {
        let name = line.split(']').next().unwrap();
        assert!(NAMES.iter().any(|(known, _)| *known == name), "`{name}` is not in the list");
    }
}

/// No program makes the analysis crash: at worst, long chains and deep nesting end in an error.
#[test]
fn hostile_shapes() {
    let frame = |body: &str| {
        format!(
            "control Work(inout bit<8> x) {{ apply {{ {body} }} }}\ncontrol C(inout bit<8> x);\npackage Top(C c);\nTop(Work()) main;\n"
        )
    };
    let n = 50_000;
    let bodies = [
        format!("x = x{};", " + x".repeat(n)),
        format!("x = {}x{};", "(".repeat(n), ")".repeat(n)),
        format!("x = {}x;", "~".repeat(n)),
        "if (x == 1) x = 2; else ".repeat(n) + "x = 3;",
        "{".repeat(n) + &"}".repeat(n),
        format!("x = {}1{};", "{".repeat(n), "}".repeat(n)),
    ];
    for body in bodies {
        let options = Options { builtins: BUILTINS.to_vec(), ..Options::default() };
        let parsed = parse_text("hostile.p4", &frame(&body), &options);
        analyse(&parsed.program, parsed.sources);
    }
}

/// Each `const` doubles the previous one; the analysis stops in time.
#[test]
fn growing_constants() {
    let mut text = String::from(
        "typedef tuple<bit<1>, bit<1>> T0;\nconst T0 c0 = { 1, 1 };\nconst string s0 = \"ab\";\n",
    );
    for i in 1..64 {
        let j = i - 1;
        text.push_str(&format!("typedef tuple<T{j}, T{j}> T{i};\nconst T{i} c{i} = {{ c{j}, c{j} }};\n"));
        text.push_str(&format!("const string s{i} = s{j} ++ s{j};\nstruct S{i}<T> {{ T a; T b; }}\n"));
    }
    let (ok, found) = run("growing.p4", &text);
    assert!(!ok);
    assert!(found.contains("not supported yet"), "{found}");
}
