//! Parses and analyses P4 files and prints one line for each: `ok`, `refused` (analysis errors) or `syntax` (parser
//! errors).
//!
//! `cargo run -p p4jet-analysis --example check -- [-I DIR]… [-v] FILE…`; `-v` shows the diagnostics.

use p4jet_analysis::{BUILTINS, analyse};
use p4jet_syntax::diagnostic::Severity;
use p4jet_syntax::{Options, parse_file, render};
use std::path::PathBuf;

fn main() {
    let mut options = Options { builtins: BUILTINS.to_vec(), ..Options::default() };
    let mut verbose = false;
    let mut files = Vec::new();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "-I" => options.include_dirs.extend(args.next().map(PathBuf::from)),
            "-v" => verbose = true,
            _ => files.push(PathBuf::from(arg)),
        }
    }
    for file in files {
        let parsed = match parse_file(&file, &options) {
            Ok(parsed) => parsed,
            Err(problem) => {
                println!("unreadable {}: {problem}", file.display());
                continue;
            }
        };
        let is_error = |d: &p4jet_syntax::diagnostic::Diagnostic| d.severity == Severity::Error;
        let mut diagnostics = parsed.diagnostics;
        let mut verdict = "ok";
        if diagnostics.iter().any(is_error) {
            verdict = "syntax";
        } else {
            let (program, more) = analyse(&parsed.program, parsed.sources.clone());
            if program.is_none() {
                verdict = "refused";
            }
            diagnostics.extend(more);
        }
        let first = diagnostics.iter().find(|d| is_error(d)).map(|d| {
            let (line, _) = parsed.sources.line_column(d.span);
            format!(" [{}] line {line}: {}", d.code, d.message)
        });
        println!("{verdict} {}{}", file.display(), first.unwrap_or_default());
        if verbose && !diagnostics.is_empty() {
            println!("{}", render(&diagnostics, &parsed.sources, false));
        }
    }
}
