//! Compares p4jet's P4Info of p4c's test programs with that of p4c:
//!
//!     P4C=/path/to/p4c cargo test --release -p p4jet-p4info --test p4info-conformance [-- WORD …]
//!
//! For each `testdata/p4_16_samples_outputs/NAME.p4info.txtpb` of a v1model or PSA program, the P4Info that p4jet makes of
//! `p4_16_samples/NAME` is the same message, and so are the initial entries of `NAME.entries.txtpb`, unless `p4info.txt`
//! says why not. Objects are compared as sets, by kind and name; everything in them is compared: ids, aliases, annotations,
//! types, the order of fields, parameters and entries.
//!
//! A line of `p4info.txt` is `PROGRAM: REASON`; an entry that is no longer needed is a failure. Words restrict the test to
//! programs that contain one, and show their differences in full. Without `P4C`, the test prints that it is skipped.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use p4jet_p4info::proto::config::{P4Info, Preamble};
use p4jet_p4info::proto::v1::{EntityKind, WriteRequest};
use p4jet_p4info::{Generated, generate, text};
use p4jet_syntax::diagnostic::Severity;

/// Lines of a difference that are shown.
const LINES_MAX: usize = 12;

fn main() -> ExitCode {
    let Some(p4c) = std::env::var_os("P4C").map(PathBuf::from) else {
        println!("SKIPPED: conformance needs a checkout of p4c: P4C=/path/to/p4c");
        return ExitCode::SUCCESS;
    };
    let words: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let (samples, outputs) = (p4c.join("testdata/p4_16_samples"), p4c.join("testdata/p4_16_samples_outputs"));
    let mut excused = excuses(include_str!("p4info.txt"));
    let mut expected: Vec<PathBuf> =
        fs::read_dir(&outputs).into_iter().flatten().filter_map(|e| Some(e.ok()?.path())).collect();
    expected.sort();
    let (mut bad, mut same, mut entries_same, mut with_entries, mut skipped, mut refused) =
        (0, 0, 0, 0, 0, 0);
    for path in expected {
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let Some(program) = name.strip_suffix(".p4info.txtpb") else { continue };
        if !words.is_empty() && !words.iter().any(|w| program.contains(w.as_str())) {
            continue;
        }
        let lines = if words.is_empty() { LINES_MAX } else { usize::MAX };
        match compare(&samples.join(program), &path, lines) {
            Outcome::OtherArchitecture => skipped += 1,
            Outcome::Same { entries } => {
                same += 1;
                with_entries += usize::from(entries);
                entries_same += usize::from(entries);
                if excused.remove(program).is_some() {
                    println!("{program}: is the same now; drop it from p4info.txt");
                    bad += 1;
                }
            }
            Outcome::Refused(_) if excused.remove(program).is_some() => refused += 1,
            Outcome::Different(_) if excused.remove(program).is_some() => refused += 1,
            Outcome::Refused(why) | Outcome::Different(why) => {
                println!("{program}:\n{why}");
                bad += 1;
            }
        }
    }
    if words.is_empty() {
        for program in excused.keys() {
            println!("{program}: p4c has no such program; drop it from p4info.txt");
            bad += 1;
        }
        if same == 0 {
            println!("P4C={}: no testdata/p4_16_samples_outputs in it", p4c.display());
            return ExitCode::FAILURE;
        }
    }
    println!(
        "P4Info: {same} same, {refused} excused, {skipped} of other architectures; initial entries: {entries_same} of \
         {with_entries} same; {bad} unexpected"
    );
    if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn excuses(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter(|l| !l.trim().is_empty() && !l.starts_with('#'));
    lines.filter_map(|l| l.split_once(": ")).map(|(program, why)| (program.into(), why.into())).collect()
}

enum Outcome {
    Same { entries: bool },
    OtherArchitecture,
    Refused(String),
    Different(String),
}

fn compare(program: &Path, expected_path: &Path, lines: usize) -> Outcome {
    let mut expected = P4Info::default();
    let text = fs::read_to_string(expected_path).unwrap_or_default();
    if let Err(why) = text::parse(&text, &mut expected) {
        return Outcome::Different(format!("  {}: {why}", expected_path.display()));
    }
    let arch = expected.pkg_info.as_ref().map_or("", |p| p.arch.as_str()).to_string();
    if !["v1model", "psa"].contains(&arch.as_str()) {
        return Outcome::OtherArchitecture;
    }
    let generated = match made(program, &arch) {
        Ok(generated) => generated,
        Err(why) => return Outcome::Refused(why),
    };
    let mut found = generated.p4info;
    sort(&mut expected);
    sort(&mut found);
    let mut why = String::new();
    if expected != found {
        why += &difference(&text::print(&expected, ""), &text::print(&found, ""), lines);
    }
    let entries_path = expected_path.to_string_lossy().replace(".p4info.txtpb", ".entries.txtpb");
    let entries_text = fs::read_to_string(entries_path).unwrap_or_default();
    let mut expected_entries = WriteRequest::default();
    if let Err(error) = text::parse(&entries_text, &mut expected_entries) {
        why += &format!("  entries: {error}\n");
    }
    let mut found_entries = generated.entries;
    by_table(&mut expected_entries);
    by_table(&mut found_entries);
    if expected_entries != found_entries {
        why += "  entries:\n";
        why += &difference(&text::print(&expected_entries, ""), &text::print(&found_entries, ""), lines);
    }
    match why.is_empty() {
        true => Outcome::Same { entries: !expected_entries.updates.is_empty() },
        false => Outcome::Different(why),
    }
}

fn made(program: &Path, arch: &str) -> Result<Generated, String> {
    // p4jet has no DPDK, but what that declares is like PSA.
    let for_dpdk = fs::read_to_string(program).is_ok_and(|text| text.contains("dpdk/psa.p4"));
    let include_dirs = if for_dpdk { vec![program.with_file_name("../../p4include")] } else { Vec::new() };
    let options = p4jet_syntax::Options {
        include_dirs,
        defines: vec![("__TARGET_BMV2__".to_string(), None)],
        builtins: p4jet_analysis::BUILTINS.to_vec(),
        files: p4jet_syntax::Files::System,
    };
    let parsed = p4jet_syntax::parse_file(program, &options).map_err(|e| format!("  {e}"))?;
    let first = |diagnostics: &[p4jet_syntax::diagnostic::Diagnostic]| {
        let error = diagnostics.iter().find(|d| d.severity == Severity::Error);
        error.map(|e| format!("  {}", e.message)).unwrap_or_default()
    };
    if parsed.diagnostics.iter().any(|d| d.severity == Severity::Error) {
        return Err(first(&parsed.diagnostics));
    }
    let (typed, diagnostics) = p4jet_analysis::analyse(&parsed.program, parsed.sources);
    let typed = typed.ok_or_else(|| first(&diagnostics))?;
    generate(&typed, arch).map_err(|errors| first(&errors))
}

/// Sorts the objects of each kind by name.
fn sort(info: &mut P4Info) {
    fn name(preamble: &Option<Preamble>) -> String {
        preamble.as_ref().map_or(String::new(), |p| p.name.clone())
    }
    info.tables.sort_by_key(|o| name(&o.preamble));
    info.actions.sort_by_key(|o| name(&o.preamble));
    info.action_profiles.sort_by_key(|o| name(&o.preamble));
    info.counters.sort_by_key(|o| name(&o.preamble));
    info.direct_counters.sort_by_key(|o| name(&o.preamble));
    info.meters.sort_by_key(|o| name(&o.preamble));
    info.direct_meters.sort_by_key(|o| name(&o.preamble));
    info.controller_packet_metadata.sort_by_key(|o| name(&o.preamble));
    info.value_sets.sort_by_key(|o| name(&o.preamble));
    info.registers.sort_by_key(|o| name(&o.preamble));
    info.digests.sort_by_key(|o| name(&o.preamble));
}

/// Sorts entries by table; those of a table keep their order.
fn by_table(entries: &mut WriteRequest) {
    entries.updates.sort_by_key(|update| match update.entity.as_ref().and_then(|e| e.entity.as_ref()) {
        Some(EntityKind::TableEntry(entry)) => entry.table_id,
        _ => 0,
    });
}

/// Returns the lines that differ, by the longest common subsequence of lines.
fn difference(expected: &str, found: &str, lines: usize) -> String {
    let (a, b): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), found.lines().collect());
    // Equal beginnings and ends need no table.
    let start = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let end = a[start..].iter().rev().zip(b[start..].iter().rev()).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[start..a.len() - end], &b[start..b.len() - end]);
    let mut out = Vec::new();
    out.extend(a.iter().take(lines).map(|line| format!("  - {line}\n")));
    out.extend(b.iter().take(lines).map(|line| format!("  + {line}\n")));
    out.concat()
}
