//! Input that tries to exhaust the stack, the memory or the clock. Blind spot: patterns that are not listed here.

use p4jet_syntax::diagnostic::Severity;
use p4jet_syntax::{Options, Parsed, parse_text};
use std::fs;
use std::time::Duration;

/// Limit of processor time, so that a busy machine does not make the test fail.
const TIME_MAX: Duration = Duration::from_secs(20);

/// The processor time that this thread has used.
fn used() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").expect("Linux counts the time of threads");
    Duration::from_nanos(text.split(' ').next().unwrap().parse().expect("nanoseconds"))
}

/// Parses within the time limit, on the stack of a test thread.
fn parse(text: &str) -> Parsed {
    let start = used();
    let parsed = parse_text("hostile.p4", text, &Options::default());
    let shown = text.chars().take(60).collect::<String>();
    let time = used() - start;
    assert!(time < TIME_MAX, "{time:?} for {shown:?}…");
    let errors = parsed.diagnostics.iter().filter(|d| d.severity == Severity::Error).count();
    assert!(errors <= 100, "{errors} errors for {shown:?}…");
    parsed
}

fn first_error(parsed: &Parsed) -> &str {
    parsed.diagnostics.first().map_or("no error", |d| &d.message)
}

/// Text before the repeated part: different lists, statements and expressions.
const PLACES: &[&str] = &[
    "",
    "control c() { apply { ",
    "control c() { apply { x = ",
    "control c() { action a() { if (x == ",
    "control c() { table t { key = { ",
    "control c() { table t { actions = { ",
    "control c() { table t { const entries = { ",
    "parser p() { state start { transition select(x) { ",
    "parser p() { state start { ",
    "const bit<8> x = ",
    "struct S { ",
    "enum E { ",
    "extern E { ",
    "error { ",
    "@a[",
    "@a(",
    "header H {} const H x = ",
    "#if ",
    "#define x ",
];

const PIECES: &[&str] = &[
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    "<",
    ">",
    "((",
    "(a",
    "(bit<8>)",
    "(H)",
    "(H(",
    "a<",
    "a<b,",
    "a[",
    "a(",
    "{a,",
    "{a=",
    "bit<",
    "bit<(",
    "tuple<",
    "tuple<bit<8>,",
    "list<",
    "!",
    "-",
    "~",
    "a.",
    "a.b",
    "a+",
    "a ? ",
    "a ? b : ",
    "@a",
    "@a(",
    "@a[",
    "@a[x=",
    "if (a) ",
    "if (a) {",
    "if (a) {} else ",
    "for (;a;) ",
    "for (bit<8> i in ",
    "switch (a) { a: {",
    "E() e = {",
    "\"",
    "\\\"\n",
    "/*",
    "//",
    "'",
    "\u{1F600}",
    "\u{0}",
    "0x",
    "8w",
    "9",
    "_",
    ";",
    ",",
    ":",
    "a b",
    "a b;",
    "bit<8> x;",
    "state s {",
    "apply {",
    "table t {",
    "action a() {",
    "control c() {",
    "parser p() {",
    "header H {",
    "extern E {",
    "error {",
    "}\n#if 1\n",
    "\n#if 1\n",
    "\n#else\n",
    "\n#endif\n",
    "\n#define a a a\n",
    "\n#pragma a\n",
    "\n@pragma a\n",
    "\n#",
    "#",
    "##",
    "__LINE__ ",
    "defined ",
    "1 ? ",
    "1 + ",
    "default",
    "default:",
    "priority = ",
    "(a, ",
    "(_, ",
    "a &&& ",
    "a .. ",
    ".",
    "..",
    "...",
    "&&&",
    "|+|=",
    "{#}",
];

#[test]
fn repeated_pieces_end_soon() {
    for place in PLACES {
        for piece in PIECES {
            let count = 4_000 / piece.len();
            parse(&format!("{place}{}", piece.repeat(count)));
        }
    }
}

#[test]
fn long_repetitions_end_soon() {
    for piece in PIECES {
        let count = 200_000 / piece.len();
        parse(&format!("control c() {{ apply {{ x = {}", piece.repeat(count)));
    }
}

#[test]
fn nesting_is_bounded() {
    let parsed = parse(&format!("const bit<8> x = {}", "(".repeat(1_000_000)));
    assert_eq!(first_error(&parsed), "this nests more than 256 deep");
    assert_eq!(parsed.diagnostics.len(), 1);
}

#[test]
fn reasonable_nesting_is_accepted() {
    let depth = 100;
    let parens = format!("const bit<8> x = {}1{};", "(".repeat(depth), ")".repeat(depth));
    let sums = format!("const bit<8> y = 1{};", " + 1".repeat(900));
    let ifs = format!("action a() {{ {} }}", "if (true) {".repeat(depth) + &"}".repeat(depth));
    let chain = format!("action b() {{ if (true) {{}} {} }}", "else if (true) {}".repeat(900));
    let types = format!("typedef {}bit<8>{} T;", "tuple<".repeat(depth), ">".repeat(depth));
    let parsed = parse(&[parens, sums, ifs, chain, types].join("\n"));
    assert_eq!(first_error(&parsed), "no error");
    assert_eq!(parsed.program.decls.len(), 5);
}

#[test]
fn long_operator_chains_are_bounded() {
    for chain in [" + 1", ".a", "(x)", "[1]", " ? 1 : 1"] {
        let parsed = parse(&format!("const bit<8> x = y{};", chain.repeat(100_000)));
        let message = first_error(&parsed);
        assert!(message.contains("more than"), "{chain}: {message}");
        assert_eq!(parsed.diagnostics.len(), 1);
    }
}

#[test]
fn macros_that_double_are_bounded() {
    let mut text = "#define m0 x x\n".to_string();
    for i in 1..64 {
        text += &format!("#define m{i} m{} m{}\n", i - 1, i - 1);
    }
    let parsed = parse(&(text + "m63\n"));
    assert_eq!(first_error(&parsed), "macros produce more than 1000000 tokens");
}

#[test]
fn macro_arguments_that_double_are_bounded() {
    let twice = "#define d(x) x x\n";
    let parsed = parse(&format!("{twice}{}y{}\n", "d(".repeat(60), ")".repeat(60)));
    assert_eq!(first_error(&parsed), "macros produce more than 1000000 tokens");
    let parsed = parse(&format!("{twice}{}y{}\n", "d(".repeat(2000), ")".repeat(2000)));
    assert_eq!(first_error(&parsed), "macro calls nest more than 100 deep in macro arguments");
}

#[test]
fn pasted_names_that_double_are_bounded() {
    let mut text = "#define p(a) q(a, a)\n#define q(a, b) a##b\n".to_string();
    text += &format!("{}y{}\n", "p(".repeat(40), ")".repeat(40));
    let parsed = parse(&text);
    assert_eq!(first_error(&parsed), "`##` builds a token of more than 65536 bytes");
}

#[test]
fn includes_that_double_are_bounded() {
    let mut options = Options::default();
    for i in 0..40 {
        let next = if i < 39 { format!("#include <f{}.p4>\n", i + 1).repeat(2) } else { String::new() };
        options.builtins.push((format!("f{i}.p4").leak(), next.leak()));
    }
    let start = used();
    let parsed = parse_text("hostile.p4", "#include <f0.p4>\n", &options);
    assert!(used() - start < TIME_MAX);
    assert_eq!(first_error(&parsed), "more than 20000 includes");
}

#[test]
fn bytes_of_includes_that_double_are_bounded() {
    let mut options = Options::default();
    for i in 0..14 {
        let next = if i < 13 { format!("#include <f{}.p4>\n", i + 1).repeat(2) } else { "; ".repeat(30_000) };
        options.builtins.push((format!("f{i}.p4").leak(), next.leak()));
    }
    let start = used();
    let parsed = parse_text("hostile.p4", "#include <f0.p4>\n", &options);
    assert!(used() - start < TIME_MAX);
    assert_eq!(
        first_error(&parsed),
        "the program has more than 16777216 bytes, a file counted each time it is included"
    );
}

#[test]
fn many_long_pasted_names_are_bounded() {
    let long = "y".repeat(60_000);
    let parsed = parse(&format!("#define p(a) {long}##a\n{}", "p(z)\n".repeat(10_000)));
    assert_eq!(first_error(&parsed), "macros produce more than 1000000 tokens");
}

#[test]
fn macros_with_many_parameters_are_quick() {
    let params: Vec<String> = (0..30_000).map(|i| format!("p{i}")).collect();
    let text = format!("#define f({}) {}\n", params.join(", "), params.join(" "));
    parse(&text);
}

#[test]
fn a_file_that_includes_itself_is_bounded() {
    let options =
        Options { builtins: vec![("a.p4", "#include <a.p4>\n#include <a.p4>\n")], ..Options::default() };
    let parsed = parse_text("hostile.p4", "#include <a.p4>\n", &options);
    assert_eq!(first_error(&parsed), "includes nest more than 200 deep");
    assert_eq!(parsed.diagnostics.len(), 1);
}

#[test]
fn long_literals_are_bounded() {
    let parsed = parse(&format!("const bit<8> x = {};", "9".repeat(1_000_000)));
    assert_eq!(first_error(&parsed), "integer literal of more than 20000 digits");
    let parsed = parse(&format!("const bit<8> x = 0x{}z;", "f".repeat(1000)));
    assert!(first_error(&parsed).len() < 200);
}
