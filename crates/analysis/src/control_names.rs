//! Control-plane names: which objects need different ones.

use p4jet_syntax::diagnostic::Diagnostic;
use p4jet_syntax::span::Span;

/// Kinds of objects that have control-plane names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// A table.
    Table,
    /// An action.
    Action,
    /// An action profile, with or without selector.
    ActionProfile,
    /// An indexed counter.
    Counter,
    /// A counter of a table's entries.
    DirectCounter,
    /// An indexed meter.
    Meter,
    /// A meter of a table's entries.
    DirectMeter,
    /// A register.
    Register,
    /// A digest.
    Digest,
    /// A value set of a parser.
    ValueSet,
    /// A header with `@controller_header`.
    ControllerHeader,
}

/// A set of objects whose control-plane names must differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NameSpace {
    /// Tables, and value sets, which are tables of the IR.
    Tables,
    /// Actions.
    Actions,
    /// Headers with `@controller_header`.
    Headers,
    /// All others, and value sets.
    Objects,
}

impl ObjectKind {
    /// Returns the name spaces in which its name must be unique. As in p4c, an object may have the name of a table or of
    /// an action.
    pub fn spaces(self) -> &'static [NameSpace] {
        match self {
            ObjectKind::Table => &[NameSpace::Tables],
            ObjectKind::Action => &[NameSpace::Actions],
            ObjectKind::ControllerHeader => &[NameSpace::Headers],
            ObjectKind::ValueSet => &[NameSpace::Objects, NameSpace::Tables],
            _ => &[NameSpace::Objects],
        }
    }

    /// Returns the words for one such object and for several.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            ObjectKind::Table => ("a table", "tables"),
            ObjectKind::Action => ("an action", "actions"),
            ObjectKind::ActionProfile => ("an action profile", "action profiles"),
            ObjectKind::Counter => ("a counter", "counters"),
            ObjectKind::DirectCounter => ("a direct counter", "direct counters"),
            ObjectKind::Meter => ("a meter", "meters"),
            ObjectKind::DirectMeter => ("a direct meter", "direct meters"),
            ObjectKind::Register => ("a register", "registers"),
            ObjectKind::Digest => ("a digest", "digests"),
            ObjectKind::ValueSet => ("a value set", "value sets"),
            ObjectKind::ControllerHeader => {
                ("a header with `@controller_header`", "headers with `@controller_header`")
            }
        }
    }
}

/// Returns the error for an object at `span` with the control-plane name of an earlier one.
pub fn duplicate(name: &str, earlier: ObjectKind, kind: ObjectKind, span: Span) -> Diagnostic {
    let (one, many) = kind.words();
    let two = match earlier == kind {
        true => format!("two {many}"),
        false => format!("{} and {one}", earlier.words().0),
    };
    let text = format!("{two} have the control-plane name `{name}`");
    Diagnostic::error("duplicate-control-name", span, text)
}
