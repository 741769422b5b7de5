//! The values that the constants of a program make together are bounded, however a program makes them.
//!
//! Blind spot: the time and memory that the refusals take; tests/growth.rs bounds these for some of the programs.

use p4jet_analysis::{BUILTINS, analyse};
use p4jet_syntax::diagnostic::{Diagnostic, Severity};
use p4jet_syntax::{Options, parse_text, render};

/// `CONSTANTS_MAX` in consts.rs.
const LIMIT: &str = "4194304";

/// `LARGE` is a constant of 32,768 values in two halves, and one more; `X` has 65,000 bits.
const LARGE: &str = "struct S { bit<8>[4096] a; bit<8>[4096] b; bit<8>[4096] c; bit<8>[4096] d; }
struct L { S a; S b; bit<8> c; }
const L LARGE = ...;
const int X = (1 << 65000) - 1;
";

/// Returns the errors of a program and their text.
fn errors(text: &str) -> (Vec<Diagnostic>, String) {
    let options = Options { builtins: BUILTINS.to_vec(), ..Options::default() };
    let parsed = parse_text("constants.p4", text, &options);
    assert!(parsed.diagnostics.is_empty(), "{}", render(&parsed.diagnostics, &parsed.sources, false));
    let (program, mut diagnostics) = analyse(&parsed.program, parsed.sources.clone());
    diagnostics.retain(|d| d.severity == Severity::Error);
    assert_eq!(program.is_some(), diagnostics.is_empty());
    let text = render(&diagnostics, &parsed.sources, false);
    (diagnostics, text)
}

/// Repeats `text` for each number below `n`.
fn times(n: usize, text: impl Fn(usize) -> String) -> String {
    (0..n).map(|i| text(i) + "\n").collect()
}

/// A way to make values: its name, a number of uses beyond the limit, and the program with a number of uses.
type Way<'a> = (&'a str, usize, &'a dyn Fn(usize) -> String);

/// Each way to make values ends in one error with place and limit, and the same program with fewer uses is accepted.
#[test]
fn the_values_of_all_constants_are_bounded() {
    let text = "a".repeat(60_000);
    let ways: [Way; 13] = [
        ("uses in constants", 130, &|n| times(n, |i| format!("const L c{i} = LARGE;"))),
        ("uses in variables", 130, &|n| {
            format!("control c() {{ apply {{ {} }} }}", times(n, |i| format!("L c{i} = LARGE;")))
        }),
        ("fields of constants", 260, &|n| times(n, |i| format!("const S c{i} = LARGE.b;"))),
        ("default values", 130, &|n| times(n, |i| format!("const L c{i} = ...;"))),
        ("comparisons", 70, &|n| times(n, |i| format!("const bool c{i} = LARGE == LARGE;"))),
        ("omitted arguments", 130, &|n| {
            let calls = "f();\n".repeat(n);
            format!("extern void f(in L x = LARGE); control c() {{ apply {{ {calls} }} }}")
        }),
        ("arguments in a function", 130, &|n| {
            let calls = "g(LARGE);\n".repeat(n);
            format!("extern void g(in L x); bit<8> f() {{ {calls} return 1; }}")
        }),
        ("omitted arguments of generic functions", 130, &|n| {
            let calls = "f(8w1);\n".repeat(n);
            format!("extern void f<T>(in T y, in L x = LARGE); control c() {{ apply {{ {calls} }} }}")
        }),
        ("texts", 2_300, &|n| {
            format!("const string s = \"{text}\";\n")
                + &times(n, |i| format!("const string s{i} = s ++ \"{i}\";"))
        }),
        ("large numbers", 20_000, &|n| times(n, |i| format!("const int x{i} = X + {i};"))),
        ("quotients", 600, &|n| {
            "const int Y = X >> 32000;\n".to_string() + &times(n, |i| format!("const int x{i} = X / Y;"))
        }),
        ("large types", 1_100, &|n| {
            let fields = ["bit<1>"; 4_000].join(", ");
            let calls = "f(v);\n".repeat(n);
            format!(
                "typedef tuple<{fields}> T; extern void f(in T x); control c(in T v) {{ apply {{ {calls} }} }}"
            )
        }),
        ("values known once a control is instantiated", 22, &|n| {
            let constants = times(n, |i| format!("const bit<8> c{} = c{i} + c{i};", i + 1));
            format!("control c()(bit<8> c0) {{ {constants} apply {{}} }}")
        }),
    ];
    for (name, n, program) in ways {
        let (found, shown) = errors(&(LARGE.to_string() + &program(n)));
        assert_eq!(found.len(), 1, "{name}:\n{shown}");
        assert_eq!(found[0].code, "limit-exceeded", "{name}:\n{shown}");
        assert!(shown.contains(&format!("at most {LIMIT} are allowed")), "{name}:\n{shown}");
        assert!(shown.contains("--> constants.p4:"), "{name}:\n{shown}");
        let fewer = if n < 30 { n - 5 } else { n / 2 };
        let (_, shown) = errors(&(LARGE.to_string() + &program(fewer)));
        assert_eq!(shown.lines().next(), None, "{name}, {fewer} times");
    }
}

/// The limit does not count what the text of a program bounds: small numbers, and small parts of large constants.
#[test]
fn small_values_do_not_count() {
    let uses = times(100_000, |i| format!("const bit<8> c{i} = LARGE.c + (bit<8>) ({i} & 0xff) * 8w3;"));
    let (_, shown) = errors(&(LARGE.to_string() + &uses));
    assert_eq!(shown.lines().next(), None);
}
