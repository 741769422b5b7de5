//! The names visible at a place: a stack of scopes, searched from the innermost to the outermost (P4_16, "Name
//! resolution").

use crate::typed::*;
use p4jet_syntax::span::Span;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// The meaning of a name.
#[derive(Clone, Debug)]
pub(crate) enum Symbol {
    /// A complete type: a typedef or a type parameter.
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
    Const(Rc<Expr>),
    /// A variable or parameter.
    Var(VarId),
    /// A declared object.
    Instance(InstanceId),
    /// Functions that share a name.
    Functions(Vec<FunctionId>),
    /// An action.
    Action(ActionId),
    /// A table.
    Table(TableId),
    /// A value set.
    ValueSet(ValueSetId),
    /// A wrong declaration: uses are not reported again.
    Poison,
}

impl Symbol {
    /// True if it names a type.
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

    /// Returns the kind with its article, for messages.
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

/// True if a name is meant for the compiler: `__v1model_version`.
pub(crate) fn is_internal(name: &str) -> bool {
    name.starts_with("__")
}

/// A name's meaning and the place of its declaration.
#[derive(Clone, Debug)]
pub(crate) struct Binding {
    pub(crate) symbol: Symbol,
    pub(crate) span: Span,
    /// True once something has looked it up.
    used: Cell<bool>,
}

/// A declaration that hides another one of the same name.
#[derive(Debug)]
pub(crate) struct Shadowing {
    pub(crate) name: String,
    pub(crate) symbol: Symbol,
    pub(crate) span: Span,
    /// The place and kind of the hidden declaration.
    pub(crate) hidden: (Span, Symbol),
}

/// Legal but doubtful uses of names.
#[derive(Debug, Default)]
pub(crate) struct Noticed {
    /// Names that nothing used.
    pub(crate) unused: Vec<(String, Binding)>,
    /// Names that hide others.
    pub(crate) shadowing: Vec<Shadowing>,
}

/// The stack of scopes; the first is the top level.
#[derive(Debug)]
pub(crate) struct Scopes {
    frames: Vec<HashMap<String, Binding>>,
    noticed: Noticed,
}

impl Scopes {
    pub(crate) fn new() -> Self {
        Scopes { frames: vec![HashMap::new()], noticed: Noticed::default() }
    }

    pub(crate) fn push(&mut self) {
        self.frames.push(HashMap::new());
    }

    pub(crate) fn pop(&mut self) {
        debug_assert!(self.frames.len() > 1, "the top level stays");
        self.leave();
    }

    /// Leaves the top level, and returns the findings.
    pub(crate) fn finish(mut self) -> Noticed {
        while !self.frames.is_empty() {
            self.leave();
        }
        self.noticed
    }

    fn leave(&mut self) {
        let frame = self.frames.pop().unwrap_or_default();
        self.noticed.unused.extend(frame.into_iter().filter(|(_, binding)| !binding.used.get()));
    }

    /// Returns the meaning of a name here or, with `global`, of `.name`.
    pub(crate) fn lookup(&self, name: &str, global: bool) -> Option<&Binding> {
        let binding = self.find(name, global)?;
        binding.used.set(true);
        Some(binding)
    }

    /// Like [`Scopes::lookup`], but does not count as a use of the name.
    pub(crate) fn peek(&self, name: &str) -> Option<&Binding> {
        self.find(name, false)
    }

    /// Notes that a parameter has the name of the function that it belongs to.
    pub(crate) fn hides_function(&mut self, name: &str, param: (VarId, Span), function: Span) {
        self.noticed.shadowing.push(Shadowing {
            name: name.to_owned(),
            symbol: Symbol::Var(param.0),
            span: param.1,
            hidden: (function, Symbol::Functions(Vec::new())),
        });
    }

    fn find(&self, name: &str, global: bool) -> Option<&Binding> {
        if global {
            return self.frames.first()?.get(name);
        }
        self.frames.iter().rev().find_map(|frame| frame.get(name))
    }

    /// Returns the binding of a name in the innermost scope.
    pub(crate) fn lookup_innermost(&self, name: &str) -> Option<&Binding> {
        self.frames.last().and_then(|frame| frame.get(name))
    }

    /// Returns the number of visible names.
    pub(crate) fn size(&self) -> usize {
        self.frames.iter().map(HashMap::len).sum()
    }

    /// Binds a name in the innermost scope.
    pub(crate) fn bind(&mut self, name: &str, symbol: Symbol, span: Span) {
        if let Some((frame, outer)) = self.frames.split_last_mut() {
            if let Some(hidden) = outer.iter().rev().find_map(|frame| frame.get(name)) {
                self.noticed.shadowing.push(Shadowing {
                    name: name.to_owned(),
                    symbol: symbol.clone(),
                    span,
                    hidden: (hidden.span, hidden.symbol.clone()),
                });
            }
            let used = frame.get(name).is_some_and(|earlier| earlier.used.get());
            frame.insert(name.to_owned(), Binding { symbol, span, used: Cell::new(used) });
        }
    }

    /// Like [`Scopes::bind`], but uses do not count: for the name of a declaration inside itself.
    pub(crate) fn bind_self(&mut self, name: &str, symbol: Symbol, span: Span) {
        if let Some(frame) = self.frames.last_mut() {
            frame.insert(name.to_owned(), Binding { symbol, span, used: Cell::new(true) });
        }
    }

    /// Binds a name at the top level.
    pub(crate) fn bind_global(&mut self, name: &str, symbol: Symbol, span: Span) {
        self.frames[0].insert(name.to_owned(), Binding { symbol, span, used: Cell::new(true) });
    }

    /// Returns all visible names that `wanted` accepts: inner scopes first, sorted within a scope, without shadowed
    /// names.
    pub(crate) fn names(&self, wanted: impl Fn(&Symbol) -> bool) -> Vec<String> {
        Self::names_of(self.frames.iter().rev(), wanted)
    }

    /// Returns the top-level names that `wanted` accepts.
    pub(crate) fn global_names(&self, wanted: impl Fn(&Symbol) -> bool) -> Vec<String> {
        Self::names_of(self.frames.iter().take(1), wanted)
    }

    fn names_of<'a>(
        frames: impl Iterator<Item = &'a HashMap<String, Binding>>,
        wanted: impl Fn(&Symbol) -> bool,
    ) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        let mut seen: HashSet<&String> = HashSet::new();
        for frame in frames {
            let mut here: Vec<(Span, &String)> = frame
                .iter()
                .filter(|(n, b)| wanted(&b.symbol) && !is_internal(n))
                .map(|(n, b)| (b.span, n))
                .collect();
            here.sort();
            for (_, name) in here {
                if seen.insert(name) {
                    names.push(name.clone());
                }
            }
        }
        names
    }
}
