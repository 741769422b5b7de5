//! Lowers P4 files and prints the result of each: `cargo run -p p4jet-arch --example lower -- [--ir] FILE…`
//!
//! With `--ir`, or for a single file, it prints the IR. The last lines count the reasons for refusals, so that a run
//! over a corpus shows what to do next. The status is 1 after anything but "not supported yet" or an error of the
//! program.

use std::collections::BTreeMap;
use std::panic::catch_unwind;
use std::path::Path;
use std::process::ExitCode;

use p4jet_syntax::diagnostic::{Diagnostic, Severity};
use p4jet_syntax::span::{FileId, Span};

const SPAN_NONE: Span = Span { file: FileId(0), lo: 0, hi: 0 };

enum Outcome {
    Lowered(Box<p4jet_ir::Program>),
    Refused(Vec<Diagnostic>),
    Wrong(Vec<Diagnostic>),
    Invalid(String),
}

fn main() -> ExitCode {
    let mut files: Vec<String> = std::env::args().skip(1).collect();
    let print = files.first().is_some_and(|f| f == "--ir");
    if print {
        files.remove(0);
    }
    let print = print || files.len() == 1;
    let mut counts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let (mut lowered, mut refused, mut wrong, mut bad) = (0, 0, 0, 0);
    for file in &files {
        let outcome = catch_unwind(|| lower(file)).unwrap_or_else(|_| Outcome::Invalid("panic".into()));
        match outcome {
            Outcome::Lowered(program) => {
                lowered += 1;
                if print {
                    println!("{}", p4jet_ir::text::print(&program));
                }
            }
            Outcome::Wrong(diagnostics) => {
                wrong += 1;
                println!("{file}: error: {}", diagnostics[0].message);
            }
            Outcome::Refused(diagnostics) => {
                refused += 1;
                if diagnostics.iter().any(|d| d.code == "internal") {
                    bad += 1;
                }
                for d in diagnostics {
                    println!("{file}:{}: {}", d.notes.first().map_or("", |n| n), d.message);
                    counts.entry(d.message).or_default().push(file.clone());
                }
            }
            Outcome::Invalid(message) => {
                bad += 1;
                println!("{file}: INVALID: {message}");
            }
        }
    }
    if files.len() > 1 {
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|(_, files)| std::cmp::Reverse(files.len()));
        for (message, files) in counts {
            println!("{:4} {message}   ({})", files.len(), Path::new(&files[0]).display());
        }
        println!(
            "{lowered} lowered, {refused} refused, {wrong} wrong programs, {bad} bad of {}",
            files.len()
        );
    }
    if bad > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn lower(file: &str) -> Outcome {
    let options = p4jet_syntax::Options {
        builtins: p4jet_analysis::BUILTINS.to_vec(),
        ..p4jet_syntax::Options::default()
    };
    let parsed = match p4jet_syntax::parse_file(Path::new(file), &options) {
        Ok(parsed) => parsed,
        Err(e) => return Outcome::Invalid(e.to_string()),
    };
    let errors = |list: Vec<Diagnostic>| -> Vec<Diagnostic> {
        list.into_iter().filter(|d| d.severity == Severity::Error).collect()
    };
    let syntax_errors = errors(parsed.diagnostics);
    if !syntax_errors.is_empty() {
        return Outcome::Wrong(syntax_errors);
    }
    let (typed, diagnostics) = p4jet_analysis::analyse(&parsed.program, parsed.sources);
    let Some(typed) = typed else { return Outcome::Wrong(errors(diagnostics)) };
    let Some(arch) = p4jet_arch::detect(&typed) else {
        let span = typed.instances.last().map_or(SPAN_NONE, |i| i.span);
        return Outcome::Refused(vec![Diagnostic::unsupported(span, "this architecture")]);
    };
    let name = Path::new(file).file_stem().map_or(String::new(), |s| s.to_string_lossy().into_owned());
    match p4jet_lower::lower(&typed, arch, &name) {
        Ok(program) => match p4jet_ir::verify::verify(&program) {
            Ok(()) => Outcome::Lowered(Box::new(program)),
            Err(errors) => {
                let text: Vec<String> = errors.iter().take(4).map(|e| e.to_string()).collect();
                Outcome::Invalid(text.join("; "))
            }
        },
        Err(mut diagnostics) => {
            for d in &mut diagnostics {
                let place = match typed.sources.files.get(d.span.file.0 as usize) {
                    Some(_) => typed.sources.line_column(d.span).0.to_string(),
                    None => "?".to_string(),
                };
                d.notes.insert(0, place);
            }
            Outcome::Refused(diagnostics)
        }
    }
}
