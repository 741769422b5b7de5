//! Properties on which callers rely: spans, files, include order, severities.

use p4jet_syntax::ast::{DeclKind, ExprKind};
use p4jet_syntax::diagnostic::{Diagnostic, Severity};
use p4jet_syntax::span::Span;
use p4jet_syntax::{Options, Parsed, parse_file, parse_text, render};
use std::path::{Path, PathBuf};

fn parse(text: &str) -> Parsed {
    parse_text("test.p4", text, &Options::default())
}

fn source(parsed: &Parsed, span: Span) -> &str {
    &parsed.sources.files[span.file.0 as usize].text[span.lo as usize..span.hi as usize]
}

fn value_span(parsed: &Parsed, index: usize) -> Span {
    match &parsed.program.decls[index].kind {
        DeclKind::Const(decl) => decl.value.span,
        other => panic!("no constant: {other:?}"),
    }
}

/// A directory of files that is removed at the end of the test.
struct Files(PathBuf);

impl Files {
    fn new(test: &str, files: &[(&str, &str)]) -> Self {
        let dir = std::env::temp_dir().join(format!("p4jet-syntax-{test}-{}", std::process::id()));
        for (name, text) in files {
            let path = dir.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Files(dir)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn spans_cover_the_text() {
    let parsed = parse("const bit<8> x = (1 + f.g[3:0]) * 2;\n@a action b() { x = 1; }");
    assert_eq!(source(&parsed, value_span(&parsed, 0)), "(1 + f.g[3:0]) * 2");
    assert_eq!(source(&parsed, parsed.program.decls[1].span), "@a action b() { x = 1; }");
}

#[test]
fn tokens_of_a_macro_have_the_span_of_its_use() {
    let parsed = parse("#define INNER 1 + 2\n#define OUTER(x) (INNER + x)\nconst bit<8> a = OUTER(7);\n");
    assert_eq!(source(&parsed, value_span(&parsed, 0)), "OUTER");
    let DeclKind::Const(decl) = &parsed.program.decls[0].kind else { panic!() };
    let ExprKind::Binary(_, _, seven) = &decl.value.kind else { panic!() };
    assert_eq!(source(&parsed, seven.span), "7");
}

#[test]
fn spans_survive_line_splices() {
    let parsed = parse("const bit<8> a = al\\\npha + \\\r\nbeta;\nconst bit<8> b = gamma;\n");
    assert_eq!(source(&parsed, value_span(&parsed, 0)), "al\\\npha + \\\r\nbeta");
    assert_eq!(source(&parsed, value_span(&parsed, 1)), "gamma");
}

#[test]
fn spans_survive_other_scripts() {
    let parsed = parse("/* größer ☺ */ const string s = \"ñandú\"; const bit<8> b = gamma;\n");
    assert_eq!(source(&parsed, value_span(&parsed, 0)), "\"ñandú\"");
    assert_eq!(source(&parsed, value_span(&parsed, 1)), "gamma");
}

#[test]
fn the_program_is_the_first_file_and_builtins_are_marked() {
    let options = Options {
        defines: vec![("X".into(), Some("3".into()))],
        builtins: vec![("core.p4", "error { NoError }\n")],
        ..Options::default()
    };
    let parsed = parse_text("main.p4", "#include <core.p4>\nconst bit<8> x = X;\n", &options);
    let files: Vec<_> = parsed.sources.files.iter().map(|f| (f.name.as_str(), f.builtin)).collect();
    assert_eq!(files, [("main.p4", false), ("<command line>", true), ("<core.p4>", true)]);
    assert!(parsed.diagnostics.is_empty());
}

#[test]
fn quoted_includes_look_beside_the_file_first() {
    let files = Files::new(
        "include",
        &[
            ("main.p4", "#include \"sub/a.p4\"\n#include <b.p4>\n#include \"c.p4\"\n"),
            ("sub/a.p4", "#include \"b.p4\"\n"),
            ("sub/b.p4", "const bit<8> beside = 1;\n"),
            ("dir/b.p4", "const bit<8> in_dir = 1;\n"),
        ],
    );
    let options = Options {
        include_dirs: vec![files.0.join("dir")],
        builtins: vec![("b.p4", "const bit<8> builtin_b = 1;\n"), ("c.p4", "const bit<8> builtin_c = 1;\n")],
        ..Options::default()
    };
    let parsed = parse_file(&files.0.join("main.p4"), &options).unwrap();
    assert_eq!(render(&parsed.diagnostics, &parsed.sources, false), "");
    let names: Vec<_> = parsed
        .program
        .decls
        .iter()
        .map(|d| match &d.kind {
            DeclKind::Const(c) => c.name.text.as_str(),
            _ => "?",
        })
        .collect();
    assert_eq!(names, ["beside", "in_dir", "builtin_c"]);
}

#[test]
fn includes_that_are_no_files_are_refused() {
    let files = Files::new("directory", &[("sub/x.p4", "")]);
    let options = Options { include_dirs: vec![files.0.clone()], ..Options::default() };
    let parsed = parse_text("main.p4", "#include <sub>\n", &options);
    assert_eq!(parsed.diagnostics.len(), 1);
    assert!(parsed.diagnostics[0].notes[0].contains("is a directory; a regular file is needed"));
}

#[test]
fn a_main_file_that_is_not_there_is_an_io_error() {
    let error = parse_file(Path::new("/nonexistent/x.p4"), &Options::default()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn text_that_is_not_utf8_is_read() {
    let files = Files::new("latin1", &[]);
    std::fs::create_dir_all(&files.0).unwrap();
    let path = files.0.join("latin1.p4");
    std::fs::write(&path, b"// caf\xe9\nconst string s = \"\xff\";\n").unwrap();
    let parsed = parse_file(&path, &Options::default()).unwrap();
    assert!(parsed.diagnostics.is_empty());
    assert_eq!(parsed.program.decls.len(), 1);
}

#[test]
fn rendering_copes_with_any_span() {
    let parsed = parse("a\tß\n\nlast");
    let file = p4jet_syntax::span::FileId(0);
    for (lo, hi) in [(0, 0), (2, 3), (3, 3), (4, 6), (5, 5), (0, 99), (50, 99), (9, 2), (10, 10)] {
        let diagnostic = Diagnostic::error("syntax", Span { file, lo, hi }, "message")
            .related(Span { file, lo: 1, hi: 7 }, "over lines")
            .note("note");
        for color in [false, true] {
            let text = render(std::slice::from_ref(&diagnostic), &parsed.sources, color);
            assert!(text.contains("message") && text.ends_with("1 error\n"));
        }
    }
    let nowhere =
        Diagnostic::warning("test", Span { file: p4jet_syntax::span::FileId(9), lo: 0, hi: 0 }, "message");
    assert_eq!(nowhere.severity, Severity::Warning);
    assert!(render(&[nowhere], &parsed.sources, false).ends_with("1 warning\n"));
}

/// In a line that is too long, the text around each place is shown, with its true line and column.
#[test]
fn long_lines_are_cut_around_the_places() {
    let (before, after) = ("a".repeat(500), "b".repeat(500));
    let parsed = parse(&format!("first\n{before}HERE{after}THERE"));
    let file = p4jet_syntax::span::FileId(0);
    let diagnostic = Diagnostic::error("syntax", Span { file, lo: 506, hi: 510 }, "message")
        .label("this")
        .related(Span { file, lo: 1010, hi: 1015 }, "and that")
        .note("note");
    let text = render(std::slice::from_ref(&diagnostic), &parsed.sources, false);
    let (a, b, blanks) = ("a".repeat(60), "b".repeat(60), " ".repeat(61));
    let wanted = format!(
        "error[syntax]: message\n --> test.p4:2:501\n  |\n2 | …{a}HERE{b}…\n  | {blanks}^^^^ this\n \
         ::: test.p4:2:1005\n  |\n2 | …{b}THERE\n  | {blanks}----- and that\n  |\n  = note\n\n1 error\n"
    );
    assert_eq!(text, wanted);
    // The text with colours is the same.
    let coloured = render(std::slice::from_ref(&diagnostic), &parsed.sources, true);
    assert_eq!(coloured.lines().count(), wanted.lines().count(), "{coloured}");
}

/// Nothing is searched for the files of a program that came as a whole, so no folder is named.
#[test]
fn a_whole_program_includes_its_own_files_only() {
    let text = "#include \"part.p4\"\n#include \"/etc/passwd\"\n#include \"api.rs\"\n#include <core.p5>\n";
    let texts = [("dir/main.p4", text), ("dir/part.p4", "const bit<8> x = 1;\n")];
    let texts = texts.map(|(path, text)| (PathBuf::from(path), text.to_string()));
    let options = Options {
        include_dirs: vec!["tests".into()],
        builtins: vec![("core.p4", "")],
        files: p4jet_syntax::Files::Whole(std::sync::Arc::new(texts.into())),
        ..Options::default()
    };
    let parsed = parse_file(Path::new("dir/main.p4"), &options).unwrap();
    assert_eq!((parsed.program.decls.len(), parsed.diagnostics.len()), (1, 3));
    let shown = render(&parsed.diagnostics, &parsed.sources, false);
    let why = "the program can include only the files that came with it and those that come with p4jet";
    assert_eq!((shown.matches(why).count(), shown.matches("searched").count()), (3, 0), "{shown}");
}
