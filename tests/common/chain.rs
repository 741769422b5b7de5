//! The compiler in this process, up to machine code.

use p4jet_dataplane::Switch;
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
    let compiled = match p4jet_compile::compile(name, text) {
        Ok(compiled) => compiled,
        Err(refused) => {
            let text = refused.text();
            assert!(text.contains("error"), "refused by `{}` without a reason:\n{text}", refused.stage);
            if let Some(internal) = refused.diagnostics.iter().find(|d| d.code == "internal") {
                panic!("{}\n{text}", internal.message);
            }
            return Outcome::Refused(refused.stage);
        }
    };
    let p4jet_compile::Compiled { lowered, program, .. } = compiled;
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
