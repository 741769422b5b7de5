//! Golden tests: each `ok/*.p4` must be accepted, and its typed program and warnings are compared with the `.txt` beside
//! it; each `errors/*.p4` must be refused, and its diagnostics are compared.
//!
//! `UPDATE=1 cargo test -p p4jet-analysis` rewrites the expectations; the diff is the review.
//! Blind spot: what lowering makes of the typed program is tested there.

mod dump;

use p4jet_analysis::{BUILTINS, analyse};
use p4jet_syntax::diagnostic::Severity;
use p4jet_syntax::{Options, parse_text, render};
use std::fs;
use std::path::{Path, PathBuf};

/// Whether the program is accepted, and its text: diagnostics, then the typed program.
fn run(name: &str, text: &str) -> (bool, String) {
    let options = Options { builtins: BUILTINS.to_vec(), ..Options::default() };
    let parsed = parse_text(name, text, &options);
    let syntax_errors = parsed.diagnostics.iter().any(|d| d.severity == Severity::Error);
    assert!(!syntax_errors, "{name}:\n{}", render(&parsed.diagnostics, &parsed.sources, false));
    let (program, diagnostics) = analyse(&parsed.program, parsed.sources.clone());
    let mut out = render(&diagnostics, &parsed.sources, false);
    if let Some(program) = &program {
        out.push_str(&dump::program(program));
    }
    (program.is_some(), out)
}

fn check(directory: &str, accepted: bool) {
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
    check("ok", true);
}

#[test]
fn refused_programs() {
    check("errors", false);
}

/// Nothing that a program may look like makes the analysis crash: long chains and deep nesting end in an error at worst.
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

/// Every `const` doubles the one before; the analysis stops in time.
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
