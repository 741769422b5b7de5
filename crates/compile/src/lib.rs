//! The stages of the compiler in their order, from P4 text to the pipeline IR that the engines run.
//!
//! [`compile`] is the whole chain. The command line calls its parts, because it sets the levels of warnings, chooses the architecture,
//! and measures the time of each stage:
//!
//! 1. [`p4jet_syntax`] preprocesses and parses the text.
//! 2. [`analyse`] types the program.
//! 3. [`architecture`] determines what the program is written for.
//! 4. [`lower`] translates it to IR, verifies that, and runs the passes.

use p4jet_analysis::typed;
use p4jet_arch::Architecture;
use p4jet_ir::{Program, passes, verify};
use p4jet_syntax::diagnostic::{Diagnostic, Severity};
use p4jet_syntax::span::{SourceMap, Span};
use p4jet_syntax::{Options, Parsed, parse_text, render};
use std::time::{Duration, Instant};

/// A compiled program.
#[derive(Clone)]
pub struct Compiled {
    /// The pipeline IR before the passes, which the interpreter and traces use.
    pub lowered: Program,
    /// The pipeline IR after all passes, which is compiled to machine code.
    pub program: Program,
    /// Stage and time, in order.
    pub times: Vec<(&'static str, Duration)>,
}

/// A program that does not compile.
#[derive(Clone, Debug)]
pub struct Refused {
    /// The stage that refuses it.
    pub stage: &'static str,
    /// Its errors and warnings.
    pub diagnostics: Vec<Diagnostic>,
    /// The texts to which these refer.
    pub sources: SourceMap,
}

impl Refused {
    /// Returns the diagnostics as text without colours.
    pub fn text(&self) -> String {
        render(&self.diagnostics, &self.sources, false)
    }
}

/// Returns the macros of a program: `__TARGET_BMV2__`, as in p4c's back ends for bmv2, and the given ones, each `NAME` or
/// `NAME=VALUE`.
pub fn defines(given: &[String]) -> Vec<(String, Option<String>)> {
    let given = given.iter().map(|define| match define.split_once('=') {
        Some((name, value)) => (name.to_string(), Some(value.to_string())),
        None => (define.clone(), None),
    });
    std::iter::once(("__TARGET_BMV2__".to_string(), None)).chain(given).collect()
}

/// Compiles the text of a program that is written for one of the architectures. `name` appears in diagnostics.
pub fn compile(name: &str, text: &str) -> Result<Compiled, Refused> {
    let builtins = p4jet_analysis::BUILTINS.to_vec();
    let options = Options { builtins, defines: defines(&[]), ..Options::default() };
    let (typed, warnings) = analyse(parse_text(name, text, &options), |_| ())?;
    let refused = |stage, errors: Vec<Diagnostic>| {
        let diagnostics = warnings.iter().cloned().chain(errors).collect();
        Refused { stage, diagnostics, sources: typed.sources.clone() }
    };
    let architecture = architecture(&typed).map_err(|error| refused("architecture", vec![*error]))?;
    lower(&typed, architecture, name, false).map_err(|errors| refused("lower", errors))
}

/// Types a program. Also returns its warnings; `adjust` may change the severity of any, and remove some.
pub fn analyse(
    parsed: Parsed,
    adjust: impl FnOnce(&mut Vec<Diagnostic>),
) -> Result<(typed::Program, Vec<Diagnostic>), Refused> {
    let mut diagnostics = parsed.diagnostics;
    if has_errors(&diagnostics) {
        adjust(&mut diagnostics);
        return Err(Refused { stage: "parse", diagnostics, sources: parsed.sources });
    }
    let sources = parsed.sources.clone();
    let (typed, more) = p4jet_analysis::analyse(&parsed.program, parsed.sources);
    diagnostics.extend(more);
    if typed.is_some() {
        diagnostics.sort_by_key(|d| (d.span.file, d.span.lo));
    }
    adjust(&mut diagnostics);
    match typed {
        Some(typed) if !has_errors(&diagnostics) => Ok((typed, diagnostics)),
        _ => Err(Refused { stage: "analyse", diagnostics, sources }),
    }
}

/// True if a diagnostic is an error.
pub fn has_errors(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(|d| d.severity == Severity::Error)
}

/// Returns the architecture that a program is written for.
pub fn architecture(typed: &typed::Program) -> Result<&'static dyn Architecture, Box<Diagnostic>> {
    p4jet_arch::detect(typed).ok_or_else(|| match typed.main {
        None => Box::new(p4jet_analysis::no_main(typed)),
        Some(main) => {
            let main = &typed.instances[main.index()];
            let known = p4jet_arch::names().join(", ");
            let error = Diagnostic::unsupported(main.span, "the architecture of this package");
            Box::new(error.note(format!("p4jet knows the packages of: {known}")))
        }
    })
}

/// Lowers a program, for a switch with output queues if it is `queued`, and runs the passes. `name` is its name in reports.
pub fn lower(
    typed: &typed::Program,
    architecture: &dyn Architecture,
    name: &str,
    queued: bool,
) -> Result<Compiled, Vec<Diagnostic>> {
    let mut times = Vec::new();
    let start = Instant::now();
    let lower_to_ir = if queued { p4jet_lower::lower_queued } else { p4jet_lower::lower };
    let lowered = lower_to_ir(typed, architecture, name)?;
    times.push(("lower", start.elapsed()));
    let start = Instant::now();
    verify::verify(&lowered).map_err(|errors| vec![invalid(typed, &errors)])?;
    times.push(("verify", start.elapsed()));
    let start = Instant::now();
    let mut program = lowered.clone();
    passes::run(&mut program);
    times.push(("passes", start.elapsed()));
    Ok(Compiled { lowered, program, times })
}

/// Maximum number of the verifier's errors in a diagnostic.
const ERRORS_MAX: usize = 5;

fn invalid(typed: &typed::Program, errors: &[verify::VerifyError]) -> Diagnostic {
    let texts: Vec<String> = errors.iter().take(ERRORS_MAX).map(ToString::to_string).collect();
    let text = format!("internal error: the IR is invalid (please report): {}", texts.join("; "));
    let main = typed.main.map_or(Span::NOWHERE, |main| typed.instances[main.index()].span);
    Diagnostic::error("internal", main, text)
}
