//! Names in force at a place: a stack of scopes, searched from the inside out (P4_16, "Name resolution").

use crate::typed::*;
use p4jet_syntax::span::Span;
use std::collections::HashMap;

/// What a name means.
#[derive(Clone, Debug)]
pub(crate) enum Symbol {
    /// A type that is complete as it stands: a typedef or a type parameter.
    Type(Type),
    /// A struct, header or header union, perhaps generic.
    Struct(StructId),
    /// An extern object's type.
    Extern(ExternId),
    /// A parser or parser type.
    Parser(ParserId),
    /// A control or control type.
    Control(ControlId),
    /// A package type.
    Package(PackageId),
    /// A constant: its value.
    Const(Expr),
    /// A variable or parameter.
    Var(VarId),
    /// A declared object.
    Instance(InstanceId),
    /// Functions of one name.
    Functions(Vec<FunctionId>),
    /// An action.
    Action(ActionId),
    /// A table.
    Table(TableId),
    /// A value set.
    ValueSet(ValueSetId),
    /// Its declaration was wrong: uses are not reported again.
    Poison,
}

impl Symbol {
    /// Whether it names a type.
    pub(crate) fn is_type(&self) -> bool {
        matches!(
            self,
            Symbol::Type(_)
                | Symbol::Struct(_)
                | Symbol::Extern(_)
                | Symbol::Parser(_)
                | Symbol::Control(_)
                | Symbol::Package(_)
        )
    }

    /// With its article, for messages.
    pub(crate) fn describe(&self) -> &'static str {
        match self {
            Symbol::Type(_) => "a type",
            Symbol::Struct(_) => "a struct or header type",
            Symbol::Extern(_) => "an extern type",
            Symbol::Parser(_) => "a parser",
            Symbol::Control(_) => "a control",
            Symbol::Package(_) => "a package type",
            Symbol::Const(_) => "a constant",
            Symbol::Var(_) => "a variable",
            Symbol::Instance(_) => "an instance",
            Symbol::Functions(_) => "a function",
            Symbol::Action(_) => "an action",
            Symbol::Table(_) => "a table",
            Symbol::ValueSet(_) => "a value set",
            Symbol::Poison => "a name declared with errors",
        }
    }
}

/// A name's meaning and the place of its declaration.
#[derive(Clone, Debug)]
pub(crate) struct Binding {
    pub(crate) symbol: Symbol,
    pub(crate) span: Span,
}

/// The stack of scopes; the first is the top level.
#[derive(Debug)]
pub(crate) struct Scopes {
    frames: Vec<HashMap<String, Binding>>,
}

impl Scopes {
    pub(crate) fn new() -> Self {
        Scopes { frames: vec![HashMap::new()] }
    }

    pub(crate) fn push(&mut self) {
        self.frames.push(HashMap::new());
    }

    pub(crate) fn pop(&mut self) {
        debug_assert!(self.frames.len() > 1, "the top level stays");
        self.frames.pop();
    }

    /// The meaning of a name here; with `global`, of `.name`.
    pub(crate) fn lookup(&self, name: &str, global: bool) -> Option<&Binding> {
        if global {
            return self.frames[0].get(name);
        }
        self.frames.iter().rev().find_map(|frame| frame.get(name))
    }

    /// What the innermost scope itself says about a name.
    pub(crate) fn lookup_innermost(&self, name: &str) -> Option<&Binding> {
        self.frames.last().and_then(|frame| frame.get(name))
    }

    /// Gives a name its meaning in the innermost scope.
    pub(crate) fn bind(&mut self, name: &str, symbol: Symbol, span: Span) {
        if let Some(frame) = self.frames.last_mut() {
            frame.insert(name.to_owned(), Binding { symbol, span });
        }
    }

    /// Gives a name its meaning at the top level.
    pub(crate) fn bind_global(&mut self, name: &str, symbol: Symbol, span: Span) {
        self.frames[0].insert(name.to_owned(), Binding { symbol, span });
    }

    /// All names in force that `wanted` accepts: inner scopes first, sorted within a scope, without the shadowed.
    pub(crate) fn names(&self, wanted: impl Fn(&Symbol) -> bool) -> Vec<String> {
        Self::names_of(self.frames.iter().rev(), wanted)
    }

    /// Those at the top level.
    pub(crate) fn global_names(&self, wanted: impl Fn(&Symbol) -> bool) -> Vec<String> {
        Self::names_of(self.frames.iter().take(1), wanted)
    }

    fn names_of<'a>(
        frames: impl Iterator<Item = &'a HashMap<String, Binding>>,
        wanted: impl Fn(&Symbol) -> bool,
    ) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for frame in frames {
            let mut here: Vec<(Span, &String)> =
                frame.iter().filter(|(_, b)| wanted(&b.symbol)).map(|(n, b)| (b.span, n)).collect();
            here.sort();
            for (_, name) in here {
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
        }
        names
    }
}
