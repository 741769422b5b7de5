//! Lowering: from the typed program to the pipeline IR.
//!
//! ```text
//! main = V1Switch(P(), V(), I(), E(), C(), D())
//!   object     instantiate P, V, I … and all they declare, each with its substitution environment
//!   arch       the architecture binds storage to their parameters and puts them in order
//!   parser     states become nodes          stmt, expr, place   statements become IR
//!   call       functions, actions, sub-parsers and sub-controls are inlined
//!   table      tables and the actions they run
//! ```
//!
//! This crate knows P4_16 and core.p4; architectures are behind [`Architecture`]. Unsupported constructs are refused with
//! their place in the text, never miscompiled.
//!
//! # What "undefined" means
//!
//! Variables before their first assignment are 0, and so are `out` arguments, the fields of headers that were never
//! valid, and stack elements and slices beyond the end. Writes beyond the end of a stack are ignored.
//!
//! The fields of an invalid header follow bmv2. `setInvalid` and copying an invalid header leave them unchanged;
//! `setValid` of an invalid header sets them to 0. A table key that names such a field is 0.
//!
//! # Limits
//!
//! Loops and parser states become plain cycles. At the end, [`p4jet_ir::turns::count`] bounds those that need it: for a
//! packet that has used up its turns, a parser rejects with `ParserTimeout`; elsewhere it is dropped.
//!
//! Inlining may double a program with each level of calls, so programs that grow beyond [`PROGRAM_SIZE_MAX`] are refused.

mod arch;
mod bits;
mod block;
pub mod build;
mod call;
mod cfg;
mod context;
mod expr;
mod headers;
mod object;
mod packet;
mod parser;
mod place;
mod profiles;
mod scope;
mod stmt;
mod survey;
mod table;
mod twins;
mod types;
mod value;

pub use arch::{Architecture, Arg, ExternCall, Property};
pub use block::BlockArg;
pub use context::{Lowered, Lowerer, PROGRAM_SIZE_MAX, Reported};
pub use place::Place;
pub use scope::{BlockDecl, BlockObject, ExternObject, Object, PackageObject};
pub use types::Role;
pub use value::{ObjectId, Piece, Storage, Value};

pub use p4jet_syntax::ast::Direction;
pub use p4jet_syntax::diagnostic::Diagnostic;
pub use p4jet_syntax::span::Span;

use p4jet_analysis::typed;
use p4jet_ir as ir;

/// Lowers a program for an architecture. `name` is the program's name in reports.
pub fn lower(
    program: &typed::Program,
    arch: &dyn Architecture,
    name: &str,
) -> Result<ir::Program, Vec<Diagnostic>> {
    lower_as(program, arch, name, false)
}

/// Like [`lower`], for a switch with output queues, which lie between ingress and egress.
pub fn lower_queued(
    program: &typed::Program,
    arch: &dyn Architecture,
    name: &str,
) -> Result<ir::Program, Vec<Diagnostic>> {
    lower_as(program, arch, name, true)
}

fn lower_as(
    program: &typed::Program,
    arch: &dyn Architecture,
    name: &str,
    queued: bool,
) -> Result<ir::Program, Vec<Diagnostic>> {
    let Some(main) = program.main else {
        let span = context::nowhere();
        return Err(vec![Diagnostic::error("main", span, "the program has no instance called `main`")]);
    };
    let lower = |cx: &mut Lowerer<'_>| {
        cx.span = program.instances[main.index()].span;
        cx.instance(main).and_then(|main| arch.pipeline(cx, main))
    };
    let new = || {
        let mut cx = Lowerer::new(program, arch, name);
        cx.queued = queued;
        cx
    };
    let mut cx = new();
    let mut outcome = lower(&mut cx);
    if cx.needs_bits {
        cx = new();
        cx.count_bits();
        outcome = lower(&mut cx);
    }
    if outcome.is_err() || !cx.diagnostics.is_empty() {
        return Err(cx.diagnostics);
    }
    let mut lowered = cx.ir;
    headers::dissolve_odd(&mut lowered);
    profiles::join_lists(&mut lowered);
    ir::turns::count(&mut lowered);
    Ok(lowered)
}
