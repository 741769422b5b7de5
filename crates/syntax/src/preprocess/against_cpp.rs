//! Compares the tokens of this preprocessor and of `cpp`, for random and selected small programs of directives.
//!
//! Blind spots: white space in strings (`strings.rs` has tests of it), macro calls in them that continue in the next line, directives between a macro's name and its `)`, numbers that are valid in C but not in P4 (`1.5`),
//! unclosed strings, comments that end in a macro's name (`cpp` looks for its arguments in the next line), and the text
//! of errors: only their presence is compared.

use super::preprocess;
use crate::Options;
use crate::diagnostic::Severity;
use crate::lexer::{Interner, Kind, Token};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Number of random programs to compare; `CPP_PROGRAMS` overrides it.
const PROGRAMS: u64 = 100;

/// Returns the function that writes a token.
fn text_of(interner: &Interner) -> impl Fn(&Token) -> String {
    |token| match token.kind {
        // `#` may or may not produce a space in place of a macro that expands to nothing. `-P` leaves out empty lines.
        Kind::String => format!("\"{}\"", token.text(interner).replace([' ', '\n'], "")),
        _ => token.text(interner).to_string(),
    }
}

/// Returns the tokens of a text as they would be written, or the first error.
fn tokens(text: &str, dir: &Path) -> Result<Vec<String>, String> {
    let include_dirs = vec![dir.join("one"), dir.join("two")];
    let options = Options { include_dirs, ..Options::default() };
    let name = dir.join("main.p4").display().to_string();
    let output = preprocess(&name, text, &options);
    if let Some(error) = output.diagnostics.iter().find(|d| d.severity == Severity::Error) {
        return Err(error.message.clone());
    }
    let text = text_of(&output.interner);
    let tokens: Vec<String> = output.tokens.iter().filter(|t| t.kind != Kind::Eof).map(&text).collect();
    // The printed text has the same tokens. A `#` from a macro would begin a directive there.
    if !output.tokens.iter().any(|t| matches!(t.kind, Kind::Hash | Kind::HashHash | Kind::Unknown)) {
        let printed = output.print();
        let again = preprocess(&name, &printed, &Options::default());
        let again: Vec<String> =
            again.tokens.iter().filter(|t| t.kind != Kind::Eof).map(text_of(&again.interner)).collect();
        assert_eq!(again, tokens, "{printed}");
    }
    Ok(tokens)
}

/// Returns the output of `cpp` for the text, called as p4c does, or its errors.
fn cpp(text: &str, dir: &Path) -> Result<String, String> {
    let main = dir.join("main.p4");
    std::fs::write(&main, text).unwrap();
    let output = Command::new("cpp")
        .args(["-C", "-P", "-undef", "-nostdinc", "-x", "assembler-with-cpp", "-w"])
        .arg("-I")
        .arg(dir.join("one"))
        .arg("-I")
        .arg(dir.join("two"))
        .arg(&main)
        .stdin(Stdio::null())
        .output()
        .expect("cpp runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// Creates a folder with a few files to include; `None`, with a message, if there is no `cpp`.
fn folder(name: &str) -> Option<std::path::PathBuf> {
    let version = Command::new("cpp").arg("--version").output();
    if !version.is_ok_and(|v| v.status.success()) {
        let _ = writeln!(std::io::stderr(), "skipped: there is no cpp on this machine");
        return None;
    }
    let dir = std::env::temp_dir().join(format!("p4jet-cpp-{name}-{}", std::process::id()));
    for sub in ["one", "two"] {
        std::fs::create_dir_all(dir.join(sub)).unwrap();
    }
    std::fs::write(dir.join("beside.h"), "beside __INCLUDE_LEVEL__\n").unwrap();
    std::fs::write(dir.join("one/both.h"), "one\n#include_next <both.h>\n").unwrap();
    std::fs::write(dir.join("two/both.h"), "two __INCLUDE_LEVEL__\n").unwrap();
    std::fs::write(dir.join("two/guarded.h"), "#ifndef G\n#define G\nguarded __COUNTER__\n#endif\n").unwrap();
    std::fs::write(dir.join("two/once.h"), "#pragma once\nonce\n").unwrap();
    Some(dir)
}

fn compare(text: &str, dir: &Path) -> Result<(), String> {
    let ours = tokens(text, dir);
    let theirs = cpp(text, dir).and_then(|out| tokens(&out, dir));
    match (ours, theirs) {
        (Ok(ours), Ok(theirs)) if ours == theirs => Ok(()),
        (Err(_), Err(_)) => Ok(()),
        // `cpp` does not know that these quotes end a string of P4.
        (Err(error), _) if error.contains("inside a string") => Ok(()),
        (Ok(ours), Ok(theirs)) => {
            let same = ours.iter().zip(&theirs).take_while(|(a, b)| a == b).count();
            let end = |tokens: &[String]| {
                tokens.iter().skip(same.saturating_sub(8)).take(16).cloned().collect::<Vec<_>>().join(" ")
            };
            Err(format!("{text}\n  ours: … {}\n  cpp:  … {}", end(&ours), end(&theirs)))
        }
        (ours, theirs) => {
            let shown = |result: Result<Vec<String>, String>| match result {
                Ok(tokens) => tokens.join(" "),
                Err(error) => format!("error: {error}"),
            };
            Err(format!("{text}\n  ours: {}\n  cpp:  {}", shown(ours), shown(theirs)))
        }
    }
}

#[test]
fn chosen_programs_as_cpp() {
    let Some(dir) = folder("chosen") else { return };
    let programs = [
        // Tokens that `##` cannot join.
        "#define PUSH(id) action push_ ## id ## (inout h_t h) { h. ## id ## _e.x(); }\nPUSH(u0)\n",
        "#define P(a, b) a ## b\nP(+,=) P(a,1) P(1,a) P(.,x) P(\"x\",y) P(<,<) P(,a) P(a,) P(,) P(P,(1,2))\n",
        "#define C(a, b, c) a ## b ## c\n#define x 1\nC(,x,) C(x,,x) C(,,) C(+,-,x) C(x,+,x)\n",
        "#define S(a) l ## #a\nS(b) S()\n",
        // A comment that looks like a directive.
        "a\n# this is a comment\n   # another 'one'\n#! x\n#\nb # c\nd\n",
        "#ident \"x\"\n#sccs \"y\"\na\n",
        "#if 0\n# it's no directive\n#nonsense\n#else no\nb\n#endif\n",
        // Stringizing; a `#` that does not precede a parameter remains.
        "#define S(x) #x\nS( a   b ) S(\"q\\n\") S() S(a \"b c\" e)\n",
        "#define V(...) #__VA_ARGS__\nV(a, b ,c) V()\n",
        // Variadic macros.
        "#define A(f, ...) f(__VA_ARGS__)\nA(x) A(x,) A(x, 1) A(x, 1, 2)\n",
        "#define G(f, ...) f(1, ## __VA_ARGS__)\nG(x) G(x,) G(x, 2) G(x, 2, 3)\n#define M(...) 1, ## __VA_ARGS__\nM() M(2) M(2, 3)\n",
        "#define N(args...) [args]\nN() N(1) N(1, 2)\n",
        "#define O(a, ...) a __VA_OPT__(, a __VA_ARGS__)\nO(1) O(1,) O(1, 2) O(1, 2, 3)\n",
        // Expansion order.
        "#define f(a) a*g\n#define g(a) f(a)\nf(2)(9)\n",
        "#define x 3\n#define f(a) f(x * (a))\n#undef x\n#define x 2\n#define g f\n#define z z[0]\n#define h g(~\n\
         #define m(a) a(w)\n#define w 0,1\n#define t(a) a\nf(y+1) + f(f(z)) % t(t(g)(0) + t)(1);\ng(x+(3,4)-w) | h 5) & m\n(f)^m(m);\n",
        "#define str(s) # s\n#define xstr(s) str(s)\n#define INCFILE(n) vers ## n\nxstr(INCFILE(2).h) str(INCFILE(2).h)\n",
        "#define e\n#define p() q\np e () p\n() p\n",
        // Conditions.
        "#if 'a' == 97 && '\\n' == 10 && '\\x41' == 'A' && 'ab' == 24930\nyes\n#endif\n",
        "#if 010 == 8 && 0x10u == 16 && 1UL == 1 && 0b11 == 3\nyes\n#endif\n",
        "#if -1 > 0u\nunsigned\n#endif\n#if -1 < 0\nsigned\n#endif\n#if (2 || 1/0) && !(0 && 1%0)\nlazy\n#endif\n",
        "#if true\nyes\n#else\nno\n#endif\n",
        "#define HAS defined(X)\n#if HAS\nno\n#endif\n#define X\n#if HAS && defined X && !defined Y\nyes\n#endif\n",
        "#if 1\na\n#elif 1/0\nb\n#elif\nc\n#else\nd\n#endif\n",
        "#if 1 ? 2 : (1/0)\na\n#endif\n#if (1 << 62) > 0 && 1 << -1 == 0 && -8 >> 1 == -4\nb\n#endif\n",
        "#if (0) < (!((1 * 1)))\nw1\n#else\nw2\n#endif\n",
        "#if 0 < 1 ? 1 : 0\nw3\n#endif\n",
        "#if ((0) < (1)) ? (0) : ((1) >> ((1) - (0)))\nw4\n#endif\n",
        "#if ((8) >> ((1/1) - (!(0))))\nw5\n#endif\n",
        "#if ((9) >> ((1) - (!(1))))\nw6\n#endif\n",
        "#if (9 >> 1) == 4\nw7\n#endif\n",
        "#if ((((0x1f) && (1)) ? ((010) + (1)) : (0)) >> ((1 / 1) - (!(0))))\nw8\n#endif\n",
        "#if (1) >> (0 - 1)\nw9\n#endif\n",
        "#if (1) >> (1 - 2)\nw10\n#endif\n",
        "#if ((0 < 1)) ? (1) : (((1)) >> (((0) / (0)) - (1)))\nw11\n#endif\n",
        "#if 1 +\n#endif\n",
        "#if\n#endif\n",
        "#if 1/0\n#endif\n",
        "#if 1\n",
        "#endif\n",
        "#error no\n",
        "#warning yes\na\n",
        // Lines.
        "a \\\n b __LINE__\n#line 100\n__LINE__\n\n__LINE__\n# 7 \"other\"\n__LINE__ __FILE__\n",
        "#define L __LINE__\nL\nL L\n",
        "__COUNTER__ __COUNTER__\n#define K __COUNTER__\nK K __INCLUDE_LEVEL__ __ASSEMBLER__ __STDC__\n",
        "#ifdef __has_include\nasks\n#endif\n#ifdef __has_builtin\nno\n#endif\n#ifdef __FILE__\nfile\n#endif\n",
        // Includes.
        "#include \"beside.h\"\n#include <both.h>\n#include <guarded.h>\n#include <guarded.h>\n",
        "#include <once.h>\n#include <once.h>\n#import <two/x>\n",
        "#import <both.h>\n#import <both.h>\n",
        "#if __has_include(\"beside.h\") && __has_include(<both.h>) && !__has_include(<beside.h>)\nyes\n#endif\n",
        "#define WHICH <both.h>\n#include WHICH\n#if __has_include(WHICH)\nyes\n#endif\n",
        "#include <beside.h>\n",
        // Strings over several lines.
        "#define A 1\n#define F(x) <x>\n\"A\n A + F(A) // A\n#ifdef A\nyes A\n#else\nno A\n#endif\nB\n\" A \"x\" A\nA\n",
        "#define A 1\na(\"A\n#if 0\nA\n# it's\n#elif A\n#define B 2\nB 'B' it's B\n#endif\n# x B\n\\\"B\\\" B\n\") B \" B \" B\nB\n",
        "#define A 1\n\"a\n/* A */ A /* A */\n\"A\"\nA\n\"\nA\n",
        // Invalid macros.
        "#define 3\n",
        "#define defined 1\n",
        "#define f(a, a) 1\n",
        "#define f(a) ## a\n",
        "#define f(a) a\nf(1, 2)\n",
        "#define f(a, b) a\nf(1)\n",
        "#define f(a) a\nf(1\n",
    ];
    let wrong: Vec<String> = programs.iter().filter_map(|p| compare(p, &dir).err()).collect();
    std::fs::remove_dir_all(&dir).unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn random_programs_as_cpp() {
    let Some(dir) = folder("random") else { return };
    let count = std::env::var("CPP_PROGRAMS").ok().and_then(|n| n.parse().ok()).unwrap_or(PROGRAMS);
    let wrong: Vec<String> = (0..count)
        .filter_map(|seed| {
            let text = Random { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }.program();
            compare(&text, &dir).err().map(|e| format!("seed {seed}\n{e}"))
        })
        .take(5)
        .collect();
    std::fs::remove_dir_all(&dir).unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Generates programs (xorshift64*).
struct Random {
    state: u64,
}

const NAMES: [&str; 8] = ["a", "b", "c", "f", "g", "h", "x", "y1"];
const PARAMS: [&str; 3] = ["p", "q", "x"];

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        (self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % n
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    fn program(&mut self) -> String {
        let mut out = String::new();
        for _ in 0..4 {
            self.define(&mut out);
        }
        self.lines(&mut out, 0);
        out
    }

    fn lines(&mut self, out: &mut String, depth: usize) {
        for _ in 0..3 + self.below(6) {
            match self.below(13) {
                0 | 1 => self.define(out),
                2 => writeln!(out, "#undef {}", self.one(&NAMES)).unwrap(),
                3 if depth < 3 => self.conditional(out, depth),
                4 => writeln!(out, "# {} {} .", self.one(&["note", "see", "x"]), self.one(&NAMES)).unwrap(),
                5 => writeln!(out, "__LINE__ __COUNTER__").unwrap(),
                6 => {
                    let (first, last) = (self.one(&NAMES), self.one(&NAMES));
                    writeln!(out, "\"{first}").unwrap();
                    for _ in 0..self.below(4) {
                        match self.below(4) {
                            0 => self.define(out),
                            1 => writeln!(
                                out,
                                "#ifdef {0}\n  {0} + 1\n#else\n{0} // {0}\n#endif",
                                self.one(&NAMES)
                            )
                            .unwrap(),
                            _ => writeln!(out, " {} - {};", self.one(&NAMES[..3]), self.one(&NAMES[6..]))
                                .unwrap(),
                        }
                    }
                    writeln!(out, "{last}\" {first}").unwrap();
                }
                _ => {
                    let text = self.text(&NAMES, 0);
                    writeln!(out, "{text};").unwrap();
                }
            }
        }
    }

    fn conditional(&mut self, out: &mut String, depth: usize) {
        let condition = match self.below(3) {
            0 => format!("ifdef {}", self.one(&NAMES)),
            1 => format!("ifndef {}", self.one(&NAMES)),
            _ => format!("if {}", self.condition(0)),
        };
        writeln!(out, "#{condition}").unwrap();
        self.lines(out, depth + 1);
        for _ in 0..self.below(3) {
            writeln!(out, "#elif {}", self.condition(0)).unwrap();
            self.lines(out, depth + 1);
        }
        if self.below(2) == 0 {
            out.push_str("#else\n");
            self.lines(out, depth + 1);
        }
        out.push_str("#endif\n");
    }

    fn condition(&mut self, depth: usize) -> String {
        match self.below(if depth > 3 { 3 } else { 8 }) {
            0 => self.one(&["0", "1", "2", "7u", "010", "0x1f", "'c'", "-3"]).to_string(),
            1 => format!("defined {}", self.one(&NAMES)),
            2 => format!("defined({})", self.one(&NAMES)),
            3 => format!("!({})", self.condition(depth + 1)),
            4 => format!(
                "({}) ? ({}) : ({})",
                self.condition(depth + 1),
                self.condition(depth + 1),
                self.condition(depth + 1)
            ),
            _ => {
                let operators =
                    ["+", "-", "*", "&&", "||", "==", "!=", "<", ">=", "<<", ">>", "&", "|", "^", "/"];
                let operator = self.one(&operators);
                format!("({}) {operator} ({})", self.condition(depth + 1), self.condition(depth + 1))
            }
        }
    }

    fn define(&mut self, out: &mut String) {
        let name = self.one(&NAMES);
        // All macros of one name take arguments, or none does, so that most programs are valid.
        let (params, words): (&str, Vec<&str>) = match name {
            "f" => ("(p)", vec!["p"]),
            "g" => ("(p, q)", vec!["p", "q"]),
            "h" => ("(p, ...)", vec!["p", "__VA_ARGS__"]),
            _ => ("", vec![]),
        };
        let mut body = String::new();
        for i in 0..self.below(7) {
            let paste = i > 0 && self.below(5) == 0;
            body += if paste { " ## " } else { " " };
            match self.below(6) {
                0 if !words.is_empty() => write!(body, "#{}", self.one(&words)).unwrap(),
                1 | 2 if !words.is_empty() => body += self.one(&words),
                3 if !paste => body += &self.text(&NAMES, 1),
                4 => body += self.one(&["+", "-", "<", "1", "23", "z"]),
                _ => body += self.one(&NAMES[..3]),
            }
        }
        writeln!(out, "#undef {name}\n#define {name}{params}{body}").unwrap();
    }

    /// A few tokens, with calls of macros.
    fn text(&mut self, names: &[&str], depth: usize) -> String {
        let mut out = String::new();
        for _ in 0..1 + self.below(4) {
            match self.below(8) {
                0 if depth < 2 => write!(out, "f({}) ", self.text(names, depth + 1)).unwrap(),
                1 if depth < 2 => {
                    write!(out, "g({}, {}) ", self.text(names, depth + 1), self.text(names, depth + 1))
                        .unwrap();
                }
                2 if depth < 2 => {
                    write!(out, "h({}, {}) ", self.text(names, depth + 1), self.text(&PARAMS, depth + 1))
                        .unwrap();
                }
                3 => write!(out, "{} ", self.one(&["+", "1", "\"s \\\\ t\"", ";", "(2)", "{", "}", "="]))
                    .unwrap(),
                4 => write!(out, "{} ", self.one(&["f", "g ()", "h", "f ( )", "h()"])).unwrap(),
                _ => write!(out, "{} ", self.one(names)).unwrap(),
            }
        }
        out
    }
}
