//! P4Info of test programs, and its errors. `UPDATE=1 cargo test -p p4jet-p4info --test all golden::` writes the expected files.

use p4jet_p4info::{Format, Generated, generate};
use p4jet_syntax::diagnostic::Severity;

fn options() -> p4jet_syntax::Options {
    p4jet_syntax::Options {
        include_dirs: Vec::new(),
        defines: Vec::new(),
        builtins: p4jet_analysis::BUILTINS.to_vec(),
        files: p4jet_syntax::Files::System,
    }
}

/// P4Info of a program, or its errors as they are shown.
fn made(name: &str, text: &str, arch: &str) -> Result<Generated, String> {
    let parsed = p4jet_syntax::parse_text(name, text, &options());
    let (sources, mut diagnostics) = (parsed.sources.clone(), parsed.diagnostics);
    let (typed, more) = p4jet_analysis::analyse(&parsed.program, parsed.sources);
    diagnostics.extend(more);
    diagnostics.retain(|d| d.severity == Severity::Error);
    match typed {
        Some(typed) => {
            generate(&typed, arch).map_err(|errors| p4jet_syntax::render(&errors, &sources, false))
        }
        None => panic!("{}", p4jet_syntax::render(&diagnostics, &sources, false)),
    }
}

fn check(name: &str, arch: &str) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let text = std::fs::read_to_string(folder.join(format!("{name}.p4"))).expect("the program");
    let generated = made(&format!("{name}.p4"), &text, arch).unwrap_or_else(|errors| panic!("{errors}"));
    let files = [
        (format!("{name}.p4info.txtpb"), Format::Text.write(&generated.p4info)),
        (format!("{name}.p4info.json"), Format::Json.write(&generated.p4info)),
        (format!("{name}.entries.txtpb"), Format::Text.write(&generated.entries)),
    ];
    for (file, found) in files {
        let path = folder.join(&file);
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &found).expect("the folder can be written");
        }
        let expected = std::fs::read(&path).unwrap_or_default();
        let (expected, found) = (String::from_utf8_lossy(&expected), String::from_utf8_lossy(&found));
        let line = expected.lines().zip(found.lines()).position(|(a, b)| a != b);
        assert!(
            expected == found,
            "{file} differs from line {:?} on; UPDATE=1 writes it",
            line.map(|l| l + 1)
        );
    }
}

#[test]
fn v1model_is_described() {
    check("v1model", "v1model");
}

#[test]
fn psa_is_described() {
    check("psa", "psa");
}

/// The error of a v1model program whose ingress has these locals, statements and annotations of `main`.
fn error(locals: &str, apply: &str, main: &str) -> String {
    let text = format!(
        "#include <core.p4>\n#include <v1model.p4>\nheader h_t {{ bit<8> f; }}\nstruct H {{ h_t h; }}\nstruct M {{ int<8> i; }}\n\
         enum plain_t {{ A, B }}\n\
         parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s) {{ state start {{ transition accept; }} }}\n\
         control I(inout H h, inout M m, inout standard_metadata_t s) {{\n{locals}\napply {{ {apply} }}\n}}\n\
         control V(inout H h, inout M m) {{ apply {{}} }}\n\
         control E(inout H h, inout M m, inout standard_metadata_t s) {{ apply {{}} }}\n\
         control C(inout H h, inout M m) {{ apply {{}} }}\ncontrol D(packet_out p, in H h) {{ apply {{}} }}\n\
         {main}\nV1Switch(P(), V(), I(), E(), C(), D()) main;\n"
    );
    made("error.p4", &text, "v1model").expect_err("an error")
}

#[test]
fn errors_name_a_remedy() {
    let table = |annotation: &str, name: &str| {
        format!("{annotation} table {name} {{ key = {{ h.h.f: exact; }} actions = {{ NoAction; }} }}")
    };
    let wrong_prefix = error(&table("@id(0x01000007)", "t"), "t.apply();", "");
    assert!(wrong_prefix.contains("ids of this kind start with 0x02"), "{wrong_prefix}");
    let locals = table("@id(7)", "t") + &table("@id(0x02000007)", "u");
    let twice = error(&locals, "t.apply(); u.apply();", "");
    assert!(twice.contains("the `@id` of `I.u` is also that of another object of its kind"), "{twice}");
    let zero = error(&table("@id(0)", "t"), "t.apply();", "");
    assert!(zero.contains("an id is a number from 1"), "{zero}");

    let key = "table t { key = { h.h.f: exact @id(2); m.i: exact @id(2); } actions = { NoAction; } }";
    let keys = error(key, "t.apply();", "");
    assert!(keys.contains("`@id` 2 is given twice"), "{keys}");

    let local = "plain_t x = plain_t.A; table t { key = { x: exact; } actions = { NoAction; } }";
    let without_width = error(local, "t.apply();", "");
    assert!(without_width.contains("not supported yet: a key of this type in P4Info"), "{without_width}");
    assert!(without_width.contains("enum bit<8> E"), "{without_width}");

    let shared = "@name(\"x\") counter(8, CounterType.packets) a; @name(\"x\") register<bit<8>>(8) b;";
    let shared = error(shared, "a.count(1); b.write(0, 1);", "");
    assert!(shared.contains("a counter and a register have the control-plane name `I.x`"), "{shared}");
    assert!(shared.contains("the first is here") && shared.contains("`@name("), "{shared}");

    let scopes = "table t { actions = { @tableonly @defaultonly NoAction; } }";
    let scopes = error(scopes, "t.apply();", "");
    assert!(scopes.contains("both `@tableonly` and `@defaultonly`"), "{scopes}");

    let package = error("", "", "@pkginfo(name = \"a\", name = \"b\")");
    assert!(package.contains("`@pkginfo` gives `name` twice"), "{package}");
    let package = error("", "", "@pkginfo(name = 3)");
    assert!(package.contains("write `name = \"…\"`"), "{package}");
    let platform = error("", "", "@platform_property(multicast_group_table_size = \"many\")");
    assert!(platform.contains("is not a number from 0"), "{platform}");
    let long = error("", "", "@large[0x10000000000000000]");
    assert!(long.contains("a number of more than 64 bits"), "{long}");

    let selector = "@selector_size_semantics(\"some\") action_selector(HashAlgorithm.crc16, 8, 8) a;
        table t { key = { h.h.f: exact; } actions = { NoAction; } implementation = a; }";
    let selector = error(selector, "t.apply();", "");
    assert!(selector.contains("`sum_of_weights`, `sum_of_members`"), "{selector}");
}

#[test]
fn fields_of_type_bit_0_are_refused() {
    // A width of 0 means a text in P4Info.
    let says = error("", "", "@controller_header(\"packet_in\") header in_t { bit<0> none; bit<8> some; }");
    assert!(says.contains("not supported yet: field `none` of a header with `@controller_header`"), "{says}");
}

#[test]
fn too_many_instances_are_refused() {
    let mut text =
        String::from("#include <core.p4>\ncontrol N();\npackage S(N n);\ncontrol C0() { apply {} }\n");
    for i in 1..40 {
        let inner = i - 1;
        text +=
            &format!("control C{i}() {{ C{inner}() a; C{inner}() b; apply {{ a.apply(); b.apply(); }} }}\n");
    }
    text += "S(C39()) main;\n";
    let error = made("many.p4", &text, "v1model").expect_err("an error");
    assert!(error.contains("more than 200000 instances"), "{error}");
}
