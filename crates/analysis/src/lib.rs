//! Names, types and constants: from the syntax tree to the typed program.
//!
//! [`analyse`] walks the declarations once, in order, because P4_16 requires declaration before use. Each module
//! implements part of the rules:
//!
//! | module | rules |
//! |---|---|
//! | `annotations` | annotations |
//! | `scopes` | names, shadowing, duplicates |
//! | `types` | type references, nesting, sizes |
//! | `infer` | type variables, unification, substitution |
//! | `consts` | folding of values known at compile time |
//! | `casts` | implicit and explicit casts |
//! | `integers` | `int` at run time |
//! | `exprs` | expressions, l-values |
//! | `aggregates` | `{ … }` and similar initialisers |
//! | `calls` | arguments, overloads, methods |
//! | `instances` | constructor calls, instantiations, abstract methods |
//! | `stmts` | statements |
//! | `tables` | tables and their entries |
//! | `parsers` | states, transitions |
//! | `keysets` | key sets of selects and entries |
//! | `library` | which standard include file declares what |
//! | `decls` | declarations of everything that has a name |
//! | `control_names` | which objects need different control-plane names |
//! | `warnings` | legal code that is likely a mistake |
//!
//! [`walk`] visits everything that a typed program executes.
//!
//! An erroneous part of a program gets the internal type `generic::POISON`, which agrees with everything, so that one
//! mistake produces one error.

mod aggregates;
mod annotations;
mod calls;
mod casts;
mod check;
mod consts;
pub mod control_names;
mod decls;
pub mod direct;
mod exprs;
mod generic;
mod infer;
mod instances;
mod integers;
mod keysets;
mod library;
mod members;
mod parsers;
mod scopes;
pub mod shapes;
mod stmts;
mod tables;
pub mod typed;
mod types;
pub mod walk;
pub mod warnings;

pub use generic::{replace_params, substitute};

use p4jet_syntax::ast;
use p4jet_syntax::diagnostic::{Diagnostic, Severity};
use p4jet_syntax::span::{FileId, SourceMap, Span};

/// The standard include files that come with p4jet: name and text.
pub const BUILTINS: &[(&str, &str)] = &[
    ("core.p4", include_str!("../../../p4/core.p4")),
    ("v1model.p4", include_str!("../../../p4/v1model.p4")),
    ("psa.p4", PSA),
    ("bmv2/psa.p4", PSA),
];

const PSA: &str = include_str!("../../../p4/psa.p4");

/// Stack size of the thread that runs the analysis. Recursion is limited to [`check::DEPTH_MAX`] nested expressions or
/// statements; a level takes a few KiB in builds without optimisation.
const STACK_BYTES: usize = 256 << 20;

/// An empty place: the start of the first file.
const EMPTY_SPAN: Span = Span { file: FileId(0), lo: 0, hi: 0 };

/// Checks a program. Returns the typed program if and only if no diagnostic is an error.
pub fn analyse(program: &ast::Program, sources: SourceMap) -> (Option<typed::Program>, Vec<Diagnostic>) {
    let run = || {
        let mut checker = check::Checker::new(sources);
        checker.program(program);
        let (typed, mut diagnostics, noticed) = checker.finish();
        let failed = diagnostics.iter().any(|d| d.severity == Severity::Error);
        if failed {
            warnings::suppress(&mut diagnostics, &typed, program);
        } else {
            warnings::add(&mut diagnostics, &typed, program, noticed);
        }
        (typed, diagnostics, failed)
    };
    let analysed = std::thread::scope(|scope| {
        let thread = p4jet_threads::builder("analysis", STACK_BYTES)?.spawn_scoped(scope, run)?;
        Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    let (typed, mut diagnostics, failed) = match analysed {
        Ok(analysed) => analysed,
        Err(error) => {
            let error: std::io::Error = error;
            let text = format!("no thread to check the program: {error}");
            let note = "the system is out of memory or threads: see `ulimit -u` and `ulimit -v`";
            return (None, vec![Diagnostic::error("system", Span::NOWHERE, text).note(note)]);
        }
    };
    diagnostics.dedup_by(|a, b| a.span == b.span && a.message == b.message);
    (if failed { None } else { Some(typed) }, diagnostics)
}

/// Returns the error of a checked program without `main`, which cannot run.
pub fn no_main(program: &typed::Program) -> Diagnostic {
    let text = "the program has no instance called `main`, where everything starts";
    let packages: Vec<&str> = program.packages.iter().map(|p| p.name.as_str()).collect();
    let diagnostic = Diagnostic::error("main", end_of_program(&program.sources), text);
    match packages.is_empty() {
        true => diagnostic.note("no package is declared: is the `#include` of an architecture missing?"),
        false => diagnostic.choices("packages that it can be an instance of", &packages),
    }
}

/// Returns the last non-empty line of the user's file.
fn end_of_program(sources: &SourceMap) -> Span {
    let Some(file) = sources.files.first() else { return EMPTY_SPAN };
    let text = file.text.trim_end();
    let line = text.rfind('\n').map_or(0, |i| i + 1);
    let start = line + text[line..].len() - text[line..].trim_start().len();
    Span { lo: start as u32, hi: text.len() as u32, ..EMPTY_SPAN }
}
