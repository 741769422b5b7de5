//! The options about warnings, which select those that are shown and those that are errors, in all commands that compile.

use crate::common::{Output, TempDir, run};

/// Two warnings, and one more in an included file.
const PROGRAM: &str = r#"#include <core.p4>
#include <v1model.p4>
#include "more.p4"
header h_t { bit<8> a; }
struct headers { h_t h; }
struct meta {}
parser P(packet_in p, out headers hdr, inout meta m, inout standard_metadata_t s) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout meta m) { apply {} }
control I(inout headers hdr, inout meta m, inout standard_metadata_t s) {
    bit<8> x;
    apply {
        hdr.h.a = x;
        hdr.h.a = BIG;
        s.egress_spec = 1;
    }
}
control E(inout headers hdr, inout meta m, inout standard_metadata_t s) { apply {} }
control C(inout headers hdr, inout meta m) { apply {} }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

const MORE: &str = "#define BIG 256\nconst bit<8> SPARE = 1;\n";

fn p4jet_words(dir: &TempDir, words: &str) -> Output {
    let program = dir.file("prog.p4");
    dir.write("prog.p4", PROGRAM);
    dir.write("more.p4", MORE);
    let words: Vec<String> = words.split_whitespace().map(|w| w.replace("PROG", &program)).collect();
    run(&words)
}

#[test]
fn warnings_are_shown_in_order_of_place() {
    let dir = TempDir::new("warnings");
    let output = p4jet_words(&dir, "check PROG").expect_status(0);
    assert_eq!(output.stdout, "");
    let folder = dir.path().to_str().expect("UTF-8");
    let expected = "\
warning[uninitialized-use]: `x` may have no value here
  --> DIR/prog.p4:14:19
   |
12 |     bit<8> x;
   |            - `x` is declared here, without a value
13 |     apply {
14 |         hdr.h.a = x;
   |                   ^

warning[overflow]: 256 does not fit into `bit<8>` and becomes 0
  --> DIR/prog.p4:15:19
   |
15 |         hdr.h.a = BIG;
   |                   ^^^
   |
  ::: DIR/more.p4:1:9
   |
 1 | #define BIG 256
   |         --- the macro is defined here

warning[unused]: constant `SPARE` is never used
 --> DIR/more.p4:2:14
  |
2 | const bit<8> SPARE = 1;
  |              ^^^^^
  |
  = included from DIR/prog.p4:3

3 warnings
";
    assert_eq!(output.stderr.replace(folder, "DIR"), expected);
}

#[test]
fn options_select_reported_warnings() {
    let dir = TempDir::new("wdisable");
    for (options, status, said) in [
        ("--Wdisable", 0, ""),
        ("--Wdisable=unused,overflow", 0, "warning[uninitialized-use] 1 warning"),
        ("--Wdisable=unused --Wdisable=uninitialized_use", 0, "warning[overflow] 1 warning"),
        ("--Wdisable --Wwarn=unused", 0, "warning[unused] 1 warning"),
        ("--Werror", 1, "error[uninitialized-use] error[overflow] error[unused] 3 errors"),
        (
            "--Werror=overflow",
            1,
            "warning[uninitialized-use] error[overflow] warning[unused] 1 error, 2 warnings",
        ),
        ("--Werror=shadow", 0, "warning[uninitialized-use] warning[overflow] warning[unused] 3 warnings"),
        (
            "--Werror --Wwarn=unused --Wdisable=overflow",
            1,
            "error[uninitialized-use] warning[unused] 1 error, 1 warning",
        ),
        ("--Wdisable --Werror=overflow", 1, "error[overflow] 1 error"),
        ("--Winfo", 0, "info[uninitialized-use] info[overflow] info[unused] 3 remarks"),
        (
            "--Winfo=unused --Wdisable=overflow",
            0,
            "warning[uninitialized-use] info[unused] 1 warning, 1 remark",
        ),
        (
            "--Winfo --Werror=overflow",
            1,
            "info[uninitialized-use] error[overflow] info[unused] 1 error, 2 remarks",
        ),
        ("--Werror --Wdisable", 0, ""),
        ("--Wdisable=ignore-prop,type-inference --Wdisable", 0, ""),
    ] {
        let output = p4jet_words(&dir, &format!("check PROG {options}"));
        assert_eq!(output.status, status, "{options}\n{}", output.stderr);
        assert_eq!(titles(&output.stderr), said, "{options}\n{}", output.stderr);
    }
    let output = p4jet_words(&dir, "check PROG --Werror=unused").expect_status(1);
    output.says(&[
        "error[unused]: constant `SPARE` is never used",
        "the warning `unused` is an error by `--Werror`",
    ]);
}

/// Returns the start of each diagnostic, and the last line.
fn titles(stderr: &str) -> String {
    let last = stderr.lines().last();
    let titles = stderr
        .lines()
        .filter(|line| ["warning", "error", "info"].iter().any(|level| line.starts_with(level)))
        .filter_map(|line| line.split(':').next());
    titles.chain(last).collect::<Vec<_>>().join(" ")
}

#[test]
fn every_command_that_compiles_has_the_options() {
    let dir = TempDir::new("wcommands");
    for command in ["check PROG", "trace PROG 00", "run PROG -i 0@pcap:DIR/none,", "test PROG DIR/none.stf"] {
        let output = p4jet_words(&dir, &format!("{command} --Werror=unused")).expect_status(1);
        output.says(&["error[unused]: constant `SPARE` is never used"]);
    }
    let output = p4jet_words(&dir, "trace PROG 00").expect_status(0);
    assert!(output.stderr.starts_with("3 warnings; `p4jet check "), "{}", output.stderr);
}

#[test]
fn an_unknown_name_is_wrong_usage() {
    let dir = TempDir::new("wunknown");
    for option in ["--Wdisable=unsued", "--Werror=unused,unsued", "--Wwarn=unsued"] {
        let output = p4jet_words(&dir, &format!("check PROG {option}")).expect_status(2);
        let name = option.split('=').next().expect("a name");
        output.says(&[
            name,
            "unknown warning `unsued`: did you mean `unused`?",
            "invalid-header",
            "shadow",
            "unused",
        ]);
    }
}

/// A program need not use everything in a library, which is in a folder of `-I`. Other warnings about it are shown, and
/// so are those about files next to the program.
#[test]
fn unused_parts_of_a_library_are_not_reported() {
    let dir = TempDir::new("wlibrary");
    let folder = dir.file("lib");
    std::fs::create_dir(&folder).expect("a new folder");
    dir.write("lib/all.p4", "#include \"part.p4\"\nconst bit<8> SPARE = 256;\n#define BIG 255\n");
    dir.write("lib/part.p4", "const bit<8> PART = 2;\naction nobody() {}\n");
    dir.write("more.p4", "const bit<8> BESIDE = 3;\n#include <all.p4>\n");
    let program = dir.write("prog.p4", PROGRAM);
    let output = run(&["check", &program, "-I", &folder]).expect_status(0);
    let printed: Vec<&str> = output.stderr.lines().filter(|line| line.starts_with("warning[")).collect();
    assert_eq!(
        printed,
        [
            "warning[uninitialized-use]: `x` may have no value here",
            "warning[unused]: constant `BESIDE` is never used",
            "warning[overflow]: 256 does not fit into `bit<8>` and becomes 0",
        ],
        "{}",
        output.stderr
    );
}
