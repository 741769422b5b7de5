//! Golden tests: the expected outcome of each `tests/golden/KIND/NAME.p4` is in `NAME.txt` beside it.
//!
//! * `parse`: the program must be valid; the outcome is its tree in short form (see `summary.rs`).
//! * `errors`: the outcome is the rendered diagnostics.
//!
//! `UPDATE=1 cargo test -p p4jet-syntax` writes the outcomes; the diff is the review.

use crate::summary;

use p4jet_syntax::diagnostic::Severity;
use p4jet_syntax::{Options, Parsed, parse_text, render};
use std::path::Path;

fn options() -> Options {
    Options {
        defines: vec![("FROM_COMMAND_LINE".into(), Some("7".into())), ("PLAIN".into(), None)],
        builtins: vec![
            ("core.p4", include_str!("golden/core.p4")),
            ("twice.p4", "#pragma once\nconst bit<8> INCLUDED_ONCE = 1;\n"),
        ],
        include_dirs: vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/include")],
        ..Options::default()
    }
}

/// Compares `outcome` for each program of `kind` with the text beside it.
fn check(kind: &str, outcome: impl Fn(&Parsed) -> String) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(kind);
    let mut paths: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.retain(|path| path.extension().is_some_and(|e| e == "p4"));
    assert!(!paths.is_empty());
    let mut wrong = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap().to_str().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let actual = outcome(&parse_text(name, &text, &options()));
        let beside = path.with_extension("txt");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&beside, actual).unwrap();
            continue;
        }
        let expected = std::fs::read_to_string(&beside).unwrap_or_default();
        if actual != expected {
            wrong.push(format!("--- {kind}/{name}: expected\n{expected}\n--- but got\n{actual}"));
        }
    }
    assert!(wrong.is_empty(), "UPDATE=1 accepts these:\n{}", wrong.join("\n"));
}

#[test]
fn programs_have_their_trees() {
    check("parse", |parsed| {
        let errors: Vec<_> = parsed.diagnostics.iter().filter(|d| d.severity == Severity::Error).collect();
        if errors.is_empty() {
            let warnings = render(&parsed.diagnostics, &parsed.sources, false);
            summary::program(&parsed.program) + &warnings
        } else {
            render(&parsed.diagnostics, &parsed.sources, false)
        }
    });
}

#[test]
fn errors_read_as_written() {
    check("errors", |parsed| {
        let text = render(&parsed.diagnostics, &parsed.sources, false);
        assert!(!text.is_empty(), "a program in `errors` has none");
        // The include directory depends on where the checkout is.
        text.replace(env!("CARGO_MANIFEST_DIR"), "")
    });
}
