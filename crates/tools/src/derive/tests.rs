//! Searches end at their limits.

use super::work::STEPS_MAX;
use super::{Options, Search, derive, report, switch};
use crate::complexity::{What, complexity};
use p4jet_analysis::typed;
use p4jet_ir::Program;

/// Returns a program whose parser has `n` optional headers in a row: 2^n paths. State `i` goes on without one if `select(i)`
/// is zero.
fn optional_headers(n: usize, select: impl Fn(usize) -> String) -> String {
    let each = |text: &dyn Fn(usize) -> String| (0..n).map(text).collect::<String>();
    let headers = each(&|i| format!("o_t o{i}; "));
    let states = each(&|i| {
        let (next, select) = (i + 1, select(i));
        format!(
            "state s{i} {{ transition select({select}) {{ 0: s{next}; default: t{i}; }} }}
             state t{i} {{ p.extract(h.o{i}); transition s{next}; }}\n"
        )
    });
    format!(
        "#include <core.p4>
        #include <v1model.p4>
        header h_t {{ bit<16> a; bit<16> b; bit<64> c; }}
        header o_t {{ bit<8> f; }}
        struct H {{ h_t h; {headers} }}
        struct M {{}}
        parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s) {{
            state start {{ p.extract(h.h); transition s0; }}
            {states}
            state s{n} {{ transition accept; }}
        }}
        control V(inout H h, inout M m) {{ apply {{}} }}
        control I(inout H h, inout M m, inout standard_metadata_t s) {{ apply {{}} }}
        control E(inout H h, inout M m, inout standard_metadata_t s) {{ apply {{}} }}
        control D(packet_out p, in H h) {{ apply {{ p.emit(h); }} }}
        V1Switch(P(), V(), I(), E(), V(), D()) main;"
    )
}

/// Each state tests a bit of its own.
fn a_bit_each(n: usize) -> String {
    optional_headers(n, |i| format!("h.h.c[{i}:{i}]"))
}

fn compiled(text: &str) -> (Program, typed::Program) {
    let options = p4jet_syntax::Options { builtins: p4jet_analysis::BUILTINS.to_vec(), ..Default::default() };
    let parsed = p4jet_syntax::parse_text("test.p4", text, &options);
    let (typed, _) = p4jet_compile::analyse(parsed, |_| ()).expect("it is correct");
    let architecture = p4jet_compile::architecture(&typed).expect("it is for v1model");
    let lowered =
        p4jet_compile::lower(&typed, architecture, "test", false).expect("it can be lowered").lowered;
    (lowered, typed)
}

fn options(paths_max: usize) -> Options {
    Options { port: None, paths_max, visits_max: 4, seed: 1, commands: None }
}

/// 2^40 paths through a parser: packets for 256 of them cover everything, with a small part of the allowed steps.
#[test]
fn a_parser_may_have_any_number_of_paths() {
    const HEADERS: usize = 40;
    let (program, typed) = compiled(&a_bit_each(HEADERS));
    let options = options(256);
    let base = switch(&program, &options).unwrap();
    let (search, paths) = Search::run(&program, &base, &options).unwrap();
    assert!(search.map.work.steps() < STEPS_MAX / 2, "{} steps", search.map.work.steps());
    let derived = report::derived(search, paths).unwrap();
    assert_eq!((derived.paths, derived.paths_taken, derived.paths_more), (256, 256, true));
    assert!(!derived.stopped);
    let own: Vec<_> = derived.decisions.iter().filter(|decision| decision.what.contains(": P: ")).collect();
    assert!(own.len() == 2 * HEADERS && own.iter().all(|decision| decision.taken), "{}", derived.text());
    assert!(derived.text().contains("256 of 256, and there are more"), "{}", derived.text());
    // The first and the last path: no optional header, and all of them.
    let found = complexity(&program, &typed, &options).unwrap();
    let headers = found.paths.iter().map(|path| path.counts[What::Headers]);
    assert_eq!((headers.clone().min(), headers.max()), (Some(1), Some(HEADERS + 1)));
    assert_eq!(found.to_json()["paths_more"], true);
    let text = found.markdown("test");
    assert!(text.contains("paths of packets were examined. There may be more"), "{text}");
}

/// Few paths: all are found, shortest first, and nothing says that there are more.
#[test]
fn all_paths_are_found_if_they_are_few() {
    let (program, typed) = compiled(&a_bit_each(4));
    let derived = derive(&program, &options(256)).unwrap();
    assert_eq!((derived.paths, derived.paths_taken), (16, 16));
    assert!(!derived.paths_more && !derived.stopped);
    let found = complexity(&program, &typed, &options(256)).unwrap();
    assert_eq!(found.to_json()["paths_more"], false);
    assert!(!found.markdown("test").contains("Only"));
}

/// Conditions that take long to solve: the search ends at its limit, with packets, and says so.
#[test]
fn hard_conditions_end_the_search() {
    let hard = |i: usize| format!("(h.h.c * (h.h.c >> {}) % ((bit<64>)h.h.a | 1))[{i}:{i}]", i + 1);
    let (program, _) = compiled(&optional_headers(24, hard));
    let options = options(100_000);
    let base = switch(&program, &options).unwrap();
    let (search, paths) = Search::run(&program, &base, &options).unwrap();
    let steps = search.map.work.steps();
    assert!((STEPS_MAX / 4..STEPS_MAX + STEPS_MAX / 10).contains(&steps), "{steps} steps");
    let derived = report::derived(search, paths).unwrap();
    assert!(derived.stopped && derived.paths_more && !derived.packets.is_empty(), "{}", derived.text());
    assert!(derived.text().contains("ended at its limit"), "{}", derived.text());
    assert_eq!(derived.to_json()["stopped"], true);
}
