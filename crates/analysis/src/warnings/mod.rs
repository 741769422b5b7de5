//! Warnings about legal P4_16 that is likely a mistake.
//!
//! They are produced only for programs without errors, so that a mistake is not reported twice. Their names are those of
//! p4c, so that `--Wdisable`, `--Werror` and `@noWarn` mean the same; `direct-counter`, `egress-port`,
//! `incomplete-select` and `never-emitted` exist only in p4jet.

mod calls;
mod coverage;
mod entries;
mod flow;
mod layout;
mod names;
mod parsers;
mod pipeline;
mod state;
mod suppress;

use crate::scopes::Noticed;
use crate::typed::Program;
use p4jet_syntax::ast;
use p4jet_syntax::diagnostic::{Diagnostic, Severity};
use p4jet_syntax::span::Span;

/// The names of all warnings with descriptions, sorted.
pub const NAMES: &[(&str, &str)] = &[
    ("bad-pragma", "a pragma without a name"),
    ("deprecated", "a use of something declared `@deprecated`"),
    ("direct-counter", "v1model's `count()` of a direct counter outside the actions of its table"),
    ("duplicate-declaration", "two functions that no call can distinguish"),
    ("duplicate-priorities", "two table entries with one priority"),
    ("egress-port", "ingress of v1model writes `egress_port`, which does not choose the port"),
    ("entries-out-of-priority-order", "table entries not in the order of their priorities"),
    ("ignore-prop", "an unknown table property"),
    ("ignored-pragma", "a pragma that precedes nothing"),
    ("incomplete-select", "a `select` without a case for some values of its keys"),
    ("invalid", "a range that is empty, an array of size 0"),
    ("invalid-header", "an access to a field of a header that is or may be invalid"),
    ("macro-redefined", "a macro with two meanings"),
    ("mismatch", "a value that is not of the type it is used as; a table key that is constant"),
    ("missing", "a last `switch` label without statement"),
    ("never-emitted", "a header that is set valid, but not emitted by any deparser"),
    ("ordering", "`out` arguments of a call that share storage"),
    ("overflow", "a number that does not fit, a shift by too much"),
    (
        "parser-transition",
        "a `select` case that is never taken, or decides nothing; a state without transition",
    ),
    ("shadow", "a name that hides another"),
    ("uninitialized", "reading `stack.next`"),
    ("uninitialized-out-param", "an `out` parameter that may never be set"),
    ("uninitialized-use", "reading a value that may never have been written"),
    ("unknown", "an unknown name of a warning in `@noWarn`"),
    ("unknown-directive", "a comment that looks like a misspelt directive"),
    ("unreachable", "a parser state that is never entered"),
    ("unused", "a declaration that nothing uses"),
    ("warning-directive", "`#warning`"),
];

/// Warnings of p4c that p4jet never produces. Their names are accepted all the same.
const ELSEWHERE: &[&str] = &["branch", "failed", "ignore", "keys", "legacy", "type-inference", "unsupported"];

/// True if this is the name of a warning.
pub fn is_name(name: &str) -> bool {
    NAMES.iter().any(|(known, _)| *known == name) || ELSEWHERE.contains(&name)
}

fn contains(outer: Span, inner: Span) -> bool {
    inner.file == outer.file && inner.lo >= outer.lo && inner.hi <= outer.hi
}

/// Adds the warnings about a correct program to those that the analysis found, and drops suppressed ones.
pub(crate) fn add(
    diagnostics: &mut Vec<Diagnostic>,
    program: &Program,
    tree: &ast::Program,
    noticed: Noticed,
) {
    let unused = names::warn(program, noticed, diagnostics);
    parsers::warn(program, diagnostics);
    entries::warn(program, diagnostics);
    let mut behaviour = Vec::new();
    calls::warn(program, &mut behaviour);
    flow::warn(program, &mut behaviour);
    pipeline::warn(program, &mut behaviour);
    diagnostics
        .extend(behaviour.into_iter().filter(|d| !unused.iter().any(|outer| contains(*outer, d.span))));
    suppress(diagnostics, program, tree);
    diagnostics.sort_by_key(|d| (d.span.file, d.span.lo, d.span.hi, d.code));
}

/// Drops warnings that annotations suppress, that are about the files that come with p4jet, or that are about unused parts
/// of a library.
pub(crate) fn suppress(diagnostics: &mut Vec<Diagnostic>, program: &Program, tree: &ast::Program) {
    suppress::apply(tree, diagnostics);
    diagnostics.retain(|d| {
        let file = program.sources.files.get(d.span.file.0 as usize);
        d.severity == Severity::Error
            || file.is_some_and(|file| !(file.builtin || file.library && d.code == "unused"))
    });
}
