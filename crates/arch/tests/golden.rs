//! Golden tests: the IR of `golden/NAME.p4` must print as `golden/NAME.ir`.
//!
//! `UPDATE=1 cargo test -p p4jet-arch --test arch golden::` rewrites the expected files; read the diff as a review. Fields of
//! `standard_metadata`, empty blocks and the target's own blocks are omitted, unless the name starts with `whole`.
//! Programs whose name starts with `refused_` must be refused; their `.ir` contains the rendered diagnostics.

use std::fs;
use std::path::Path;

/// The IR's text, or the rendered refusals.
fn lower(name: &str, text: &str) -> String {
    let options = p4jet_syntax::Options {
        builtins: p4jet_analysis::BUILTINS.to_vec(),
        ..p4jet_syntax::Options::default()
    };
    let parsed = p4jet_syntax::parse_text(&format!("{name}.p4"), text, &options);
    let render =
        |list: &[p4jet_syntax::diagnostic::Diagnostic], sources| p4jet_syntax::render(list, sources, false);
    let (typed, diagnostics) = p4jet_analysis::analyse(&parsed.program, parsed.sources);
    let Some(typed) = typed else {
        panic!("{name} is no program: {:?} {diagnostics:?}", parsed.diagnostics);
    };
    let arch = p4jet_arch::detect(&typed).expect("an architecture");
    match p4jet_lower::lower(&typed, arch, name) {
        Ok(program) => {
            p4jet_ir::verify::verify(&program).unwrap_or_else(|e| panic!("{name}: {e:?}"));
            let text = p4jet_ir::text::print(&program);
            assert_eq!(p4jet_ir::text::parse(&text).as_ref(), Ok(&program), "{name}: text form");
            text
        }
        Err(diagnostics) => {
            assert!(diagnostics.iter().all(|d| d.code != "internal"), "{name}: {diagnostics:?}");
            render(&diagnostics, &typed.sources)
        }
    }
}

/// Omits what is the same in every test.
fn shorten(text: &str) -> String {
    let boring = |paragraph: &&str| {
        let is_glue =
            ["block traffic_manager ", "block egress_start ", "block egress_drop ", "intrinsic ", "ingress "]
                .iter()
                .any(|start| paragraph.starts_with(start));
        let is_empty = paragraph.starts_with("block ")
            && paragraph.lines().count() == 4
            && paragraph.contains("\n    return");
        is_glue || is_empty || paragraph.starts_with("program ")
    };
    let kept: Vec<String> = text
        .split("\n\n")
        .filter(|p| !boring(p))
        .map(|p| {
            let lines = p.lines().filter(|l| !l.starts_with("field standard_metadata."));
            lines.map(|l| format!("{l}\n")).collect::<String>()
        })
        .collect();
    kept.join("\n")
}

#[test]
fn golden() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut names: Vec<String> = fs::read_dir(&dir)
        .expect("the folder of golden tests")
        .filter_map(|e| e.expect("an entry").file_name().to_str()?.strip_suffix(".p4").map(String::from))
        .collect();
    names.sort();
    assert!(!names.is_empty());
    let update = std::env::var_os("UPDATE").is_some();
    let mut wrong = Vec::new();
    for name in names {
        let text = fs::read_to_string(dir.join(format!("{name}.p4"))).expect("the program");
        let full = lower(&name, &text);
        let refused = full.starts_with("error");
        assert_eq!(refused, name.starts_with("refused_"), "{name}: {full}");
        let found = if name.starts_with("whole") || refused { full } else { shorten(&full) };
        let expected_path = dir.join(format!("{name}.ir"));
        if update {
            fs::write(&expected_path, &found).expect("the expected file");
        } else if fs::read_to_string(&expected_path).unwrap_or_default() != found {
            wrong.push(format!("--- {name}\n{found}"));
        }
    }
    assert!(wrong.is_empty(), "differs (UPDATE=1 accepts):\n{}", wrong.join("\n"));
}
