//! The language corpus: one small program per construct, each with a packet test whose expectations were derived from
//! the specification by hand. Both engines must pass them.

use crate::common::{root, run, stem};
use std::fs;
use std::path::PathBuf;

/// The files of tests/language with an extension, sorted.
fn files(extension: &str) -> Vec<PathBuf> {
    let folder = fs::read_dir(root().join("tests/language")).expect("the folder is there");
    let paths = folder.map(|entry| entry.expect("readable").path());
    let mut files: Vec<_> = paths.filter(|p| p.extension().is_some_and(|e| e == extension)).collect();
    files.sort();
    files
}

#[test]
fn every_program_follows_the_specification() {
    let mut failed = Vec::new();
    let scripts = files("stf");
    assert!(scripts.len() >= 60, "only {} programs", scripts.len());
    for script in scripts {
        let program = script.with_extension("p4");
        let arguments = ["test".as_ref(), "--engine=both".as_ref(), program.as_os_str(), script.as_os_str()];
        let output = run(&arguments);
        let expected = format!("PASS {}\n1 passed, 0 failed\n", stem(&script));
        if output.stdout != expected || output.status != 0 {
            failed.push(format!("{}\n{}{}", program.display(), output.stdout, output.stderr));
        }
    }
    assert!(failed.is_empty(), "{} programs fail\n\n{}", failed.len(), failed.join("\n"));
}

/// A program without a packet test proves nothing, and neither does a packet test without expectations or a citation.
#[test]
fn every_program_has_a_test_and_cites_the_specification() {
    for path in files("p4") {
        let script = fs::read_to_string(path.with_extension("stf")).unwrap_or_default();
        assert!(script.lines().any(|l| l.starts_with("expect")), "{} expects nothing", path.display());
        let text = fs::read_to_string(&path).expect("readable");
        let cites = ["// P4_16 ", "// v1model: ", "// PSA: "].iter().any(|start| text.starts_with(start));
        assert!(
            cites,
            "{} does not say what it is about: `// P4_16 section`, `// v1model: …`, `// PSA: …`",
            path.display()
        );
    }
}
