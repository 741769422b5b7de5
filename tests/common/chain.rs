//! The compiler in this process: the stages of `p4jet check`, in their order (crates/cli/src/compile.rs).

use p4jet_dataplane::Switch;
use p4jet_syntax::diagnostic::{Diagnostic, Severity};
use p4jet_syntax::{Options, render};
use std::sync::Arc;

/// The outcome of the compilation of a program.
pub enum Outcome {
    /// The stage that refused it.
    Refused(&'static str),
    /// Machine code was generated: switches with the program as lowered and as optimised by the passes.
    Compiled { reference: Arc<Switch>, optimised: Arc<Switch> },
}

/// Compiles `text` to machine code; `jit` has the options for the optimised program.
///
/// A refusal without a message or with the code `internal`, and IR that the verifier refuses, are bugs of p4jet: they
/// panic.
pub fn compile(name: &str, text: &str, jit: p4jet_jit::Options) -> Outcome {
    let options = Options { builtins: p4jet_analysis::BUILTINS.to_vec(), ..Options::default() };
    let parsed = p4jet_syntax::parse_text(name, text, &options);
    let sources = parsed.sources.clone();
    let mut diagnostics = parsed.diagnostics;
    let is_wrong = |all: &[Diagnostic]| all.iter().any(|d| d.severity == Severity::Error);
    let refuse = |stage, diagnostics: &[Diagnostic]| {
        let text = render(diagnostics, &sources, false);
        assert!(text.contains("error"), "refused by `{stage}` without a reason:\n{text}");
        if let Some(internal) = diagnostics.iter().find(|d| d.code == "internal") {
            panic!("{}\n{text}", internal.message);
        }
        Outcome::Refused(stage)
    };
    if is_wrong(&diagnostics) {
        return refuse("parse", &diagnostics);
    }
    let (typed, more) = p4jet_analysis::analyse(&parsed.program, parsed.sources);
    diagnostics.extend(more);
    let Some(typed) = typed else { return refuse("analyse", &diagnostics) };
    let Some(architecture) = p4jet_arch::detect(&typed) else {
        return Outcome::Refused("architecture");
    };
    let lowered = match p4jet_lower::lower(&typed, architecture, name) {
        Ok(program) => program,
        Err(more) => {
            diagnostics.extend(more);
            return refuse("lower", &diagnostics);
        }
    };
    if let Err(errors) = p4jet_ir::verify::verify(&lowered) {
        panic!("lowered to invalid IR: {}", errors[0]);
    }
    let mut program = lowered.clone();
    p4jet_ir::passes::run(&mut program);
    if let Err(errors) = p4jet_ir::verify::verify(&program) {
        panic!("invalid IR after the passes: {}", errors[0]);
    }
    let switches =
        Switch::new(lowered).and_then(|reference| Ok((reference, Switch::with_options(program, jit, 1)?)));
    let (reference, optimised) = match switches {
        Ok(pair) => pair,
        Err(_) => return Outcome::Refused("tables"),
    };
    match optimised.code() {
        Ok(_) => Outcome::Compiled { reference, optimised },
        Err(_) => Outcome::Refused("machine code"),
    }
}
