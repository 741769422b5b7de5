//! Parses P4 files and prints their diagnostics: `parse [-I DIR]… [-D NAME[=VALUE]]… [-q] FILE…`

use p4jet_syntax::diagnostic::Severity;
use p4jet_syntax::{Options, parse_file, render};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut options = Options::default();
    let mut files = Vec::new();
    let mut quiet = false;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "-q" => quiet = true,
            "-I" => options.include_dirs.extend(args.next().map(Into::into)),
            "-D" => {
                let define = args.next().unwrap_or_default();
                options.defines.push(match define.split_once('=') {
                    Some((name, value)) => (name.to_string(), Some(value.to_string())),
                    None => (define, None),
                });
            }
            _ => files.push(arg),
        }
    }
    let mut failed = 0;
    for file in &files {
        let start = std::time::Instant::now();
        match parse_file(Path::new(file), &options) {
            Ok(parsed) => {
                let errors = parsed.diagnostics.iter().filter(|d| d.severity == Severity::Error).count();
                failed += usize::from(errors > 0);
                if !quiet && !parsed.diagnostics.is_empty() {
                    print!("{}", render(&parsed.diagnostics, &parsed.sources, false));
                }
                let seconds = start.elapsed().as_secs_f64();
                if errors > 0 || seconds > 0.5 {
                    println!("{file}: {errors} errors, {seconds:.3} s");
                }
            }
            Err(error) => {
                failed += 1;
                println!("{file}: {error}");
            }
        }
    }
    println!("{} files, {failed} with errors", files.len());
    if failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
