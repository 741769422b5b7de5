//! The state of an analysis, and small helpers that all rules share.

use crate::consts::CONSTANTS_MAX;
use crate::generic::POISON;
use crate::members::{Members, Owner};
use crate::scopes::{Noticed, Scopes, Symbol};
use crate::typed::*;
use p4jet_suggest as suggest;
use p4jet_syntax::ast::{self, DeclKind};
use p4jet_syntax::diagnostic::Diagnostic;
use p4jet_syntax::span::{SourceMap, Span};
use std::collections::{HashMap, HashSet};

/// Maximum nesting depth of expressions, types or statements.
pub(crate) const DEPTH_MAX: u32 = 2_000;

/// Maximum number of declarations that share a name, because a call examines each of them.
pub(crate) const OVERLOADS_MAX: usize = 256;

/// Maximum number of methods of an extern.
pub(crate) const METHODS_MAX: usize = 1_024;

/// Maximum number of names in scope that a note lists, innermost first.
const CHOICES_MAX: usize = 8;

/// Maximum number of errors reported in one run.
const ERRORS_MAX: usize = 200;
/// Maximum number of names examined to find what mistyped names were meant to be.
const NAMES_MAX: usize = 500_000;

/// The origin of a variable, which decides what may be done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VarKind {
    /// A declared variable.
    Local,
    /// A parameter of this direction.
    Param(ast::Direction),
    /// A directionless parameter of an action: action data.
    ActionData,
    /// A constructor parameter: known at compile time.
    Constructor,
}

/// The part of a program being checked; some statements are allowed only in some parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The top level.
    Top,
    /// Local declarations of a parser.
    ParserLocals,
    /// A parser state.
    State,
    /// Local declarations of a control.
    ControlLocals,
    /// A control's apply block.
    Apply,
    /// An action.
    Action,
    /// A function, or the implementation of an abstract method.
    Function,
    /// The declaration of a table.
    Table,
}

impl Place {
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Place::Top => "at top level",
            Place::ParserLocals => "among the declarations of a parser",
            Place::State => "in a parser state",
            Place::ControlLocals => "among the declarations of a control",
            Place::Apply => "in an apply block",
            Place::Action => "in an action",
            Place::Function => "in a function",
            Place::Table => "in a table",
        }
    }

    pub(crate) fn in_parser(self) -> bool {
        matches!(self, Place::ParserLocals | Place::State)
    }
}

/// The state of an analysis.
pub(crate) struct Checker {
    /// The program built so far.
    pub(crate) prog: Program,
    pub(crate) diagnostics: Vec<Diagnostic>,
    errors: usize,
    pub(crate) scopes: Scopes,
    /// Bindings of the type variables of inference, see `infer`.
    pub(crate) bindings: Vec<Option<Type>>,
    /// One per [`Program::vars`].
    pub(crate) var_kinds: Vec<VarKind>,
    pub(crate) place: Place,
    /// Name of the enclosing parser, control, action or function, for messages.
    pub(crate) owner: String,
    /// The type that `return` must have; `None` if it has no value.
    pub(crate) return_type: Option<Type>,
    /// The instance that `this` refers to.
    pub(crate) this: Option<InstanceId>,
    /// Number of loops around the statement.
    pub(crate) loops: u32,
    depth: u32,
    /// Functions, actions, parsers and controls whose bodies are being checked; recursion is refused.
    pub(crate) open: Vec<Open>,
    /// Control-plane names in use, by the enclosing object and the kind of thing.
    pub(crate) control_names: HashMap<(String, &'static str, String), Span>,
    /// True once it has been reported that `error` has no members.
    pub(crate) error_type_reported: bool,
    /// Number of names that may still be examined to find the intended one.
    names_left: usize,
    /// Match kinds that the user's files declare.
    pub(crate) own_match_kinds: HashSet<String>,
    /// Parsers, controls and packages that share a name, by the first of them: their numbers and constructor
    /// parameters.
    pub(crate) overloads: HashMap<(u8, u32), Vec<Overload>>,
    /// Collects the parameters created by `_` in a declaration's types; `None` where `_` is not a type.
    pub(crate) dont_care_params: Option<Vec<TypeParamId>>,
    /// The declarations in the enclosing bodies, outermost first, whether before or after the current place.
    pub(crate) declared: Vec<HashMap<String, Declared>>,
    /// The error about a missing standard include file, and the file that it names.
    missing_include: Option<(usize, &'static str)>,
    /// Members by name.
    pub(crate) members: Members,
    /// What is left of [`CONSTANTS_MAX`].
    units_left: u64,
    /// The error about that limit, once it is exceeded.
    units_exceeded: Option<usize>,
    /// Names declared `@deprecated`, by their places, with the annotation's text.
    pub(crate) deprecated: HashMap<Span, String>,
}

/// A parser, control or package that shares its name with others.
pub(crate) struct Overload {
    /// Its index among those of its kind.
    pub(crate) id: u32,
    /// The names of its constructor parameters.
    pub(crate) params: Vec<String>,
}

/// A name declared in a body, perhaps after the current place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Declared {
    /// The name.
    pub(crate) name: Span,
    /// The whole declaration.
    pub(crate) whole: Span,
    /// True if it declares a type.
    pub(crate) is_type: bool,
}

/// A body being checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Open {
    Function(FunctionId),
    Action(ActionId),
    Parser(ParserId),
    Control(ControlId),
}

impl Checker {
    /// Returns the position of the first member with that name.
    pub(crate) fn member_place(&mut self, owner: Owner, name: &str) -> Option<usize> {
        let (members, prog) = (&mut self.members, &self.prog);
        match owner {
            Owner::Struct(id) => {
                members.find(owner, prog.structs[id.index()].fields.iter().map(|f| &f.name), name)
            }
            Owner::Enum(id) => {
                members.find(owner, prog.enums[id.index()].members.iter().map(|(name, _)| name), name)
            }
            Owner::Errors => members.find(owner, prog.errors.iter(), name),
            Owner::Table(id) => {
                let listed = prog.tables[id.index()].actions.iter();
                members.find(owner, listed.map(|a| &prog.actions[a.action.action.index()].name), name)
            }
        }
    }
}

impl Checker {
    pub(crate) fn new(sources: SourceMap) -> Self {
        Checker {
            prog: Program { sources, ..Program::default() },
            diagnostics: Vec::new(),
            errors: 0,
            scopes: Scopes::new(),
            bindings: Vec::new(),
            var_kinds: Vec::new(),
            place: Place::Top,
            owner: String::new(),
            return_type: None,
            this: None,
            loops: 0,
            depth: 0,
            open: Vec::new(),
            control_names: HashMap::new(),
            names_left: NAMES_MAX,
            error_type_reported: false,
            own_match_kinds: HashSet::new(),
            overloads: HashMap::new(),
            dont_care_params: None,
            declared: Vec::new(),
            missing_include: None,
            members: Default::default(),
            units_left: CONSTANTS_MAX,
            units_exceeded: None,
            deprecated: HashMap::new(),
        }
    }

    pub(crate) fn finish(self) -> (Program, Vec<Diagnostic>, Noticed) {
        (self.prog, self.diagnostics, self.scopes.finish())
    }

    /// Reports an error or warning.
    pub(crate) fn report(&mut self, diagnostic: Diagnostic) {
        if diagnostic.severity == p4jet_syntax::diagnostic::Severity::Error {
            self.errors += 1;
            if self.errors > ERRORS_MAX {
                return;
            }
        }
        self.diagnostics.push(diagnostic);
    }

    /// True if names may be examined to find the intended one: not after many errors, nor when programs with many names
    /// would make it too expensive.
    pub(crate) fn may_search(&mut self, names: usize) -> bool {
        let left = self.names_left.checked_sub(names);
        self.names_left = left.unwrap_or(0);
        left.is_some() && self.errors < ERRORS_MAX
    }

    /// True if some errors are not shown, or the limit of values is exceeded; then the remaining statements are skipped.
    pub(crate) fn gave_up(&self) -> bool {
        self.errors > ERRORS_MAX || self.units_exceeded.is_some()
    }

    /// Removes the diagnostics reported after the first `count`.
    pub(crate) fn forget_since(&mut self, count: usize) {
        self.missing_include = self.missing_include.filter(|(at, _)| *at < count);
        self.units_exceeded = self.units_exceeded.filter(|at| *at < count);
        for diagnostic in self.diagnostics.drain(count.min(self.diagnostics.len())..) {
            if diagnostic.severity == p4jet_syntax::diagnostic::Severity::Error {
                self.errors -= 1;
            }
        }
    }

    /// Reports a plain error.
    pub(crate) fn error(&mut self, code: &'static str, span: Span, message: impl Into<String>) {
        self.report(Diagnostic::error(code, span, message));
    }

    /// Reports an unsupported feature.
    pub(crate) fn unsupported(&mut self, span: Span, what: impl std::fmt::Display) {
        self.report(Diagnostic::unsupported(span, what));
    }

    /// Counts values of constants, before they are made or copied: see [`crate::consts`]. Returns false, after an error, if the
    /// program makes too many.
    pub(crate) fn spend(&mut self, units: u64, span: Span) -> bool {
        if let Some(left) = self.units_left.checked_sub(units) {
            self.units_left = left;
            return true;
        }
        if self.units_exceeded.is_none() {
            let found = (CONSTANTS_MAX - self.units_left).saturating_add(units);
            let text = format!(
                "the program creates {found} constant values up to here, but at most {CONSTANTS_MAX} are allowed"
            );
            self.units_exceeded = Some(self.diagnostics.len());
            self.report(
                Diagnostic::error("limit-exceeded", span, text)
                    .note(
                        "each use of a constant copies the values inside it, and each operator makes a value",
                    )
                    .note("64 bytes of a string count as one value, and so do 512 bits of a number"),
            );
        }
        self.units_left = 0;
        false
    }

    /// Returns a copy of a constant for a use at `span`; [`Checker::expr`] counts what it adds to its operands.
    pub(crate) fn copy_of(&mut self, value: &Expr, span: Span) -> Expr {
        // What remains of a refused program is not walked again.
        let units = if self.units_left == 0 { 1 } else { crate::consts::operand_units(value) };
        match self.spend(units, span) {
            true => Expr { span, ..value.clone() },
            false => self.poison(span),
        }
    }

    /// Runs `f` one nesting level deeper, or reports an error and returns `None` if that is too deep.
    pub(crate) fn deeper<T>(&mut self, span: Span, f: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.depth >= DEPTH_MAX {
            self.error("too-deep", span, format!("more than {DEPTH_MAX} levels of nesting"));
            return None;
        }
        self.depth += 1;
        let result = f(self);
        self.depth -= 1;
        Some(result)
    }

    /// Runs `f` in a new scope.
    pub(crate) fn scoped<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> T {
        self.scopes.push();
        let result = f(self);
        self.scopes.pop();
        result
    }

    /// Runs `f` as part of a place.
    pub(crate) fn at<T>(&mut self, place: Place, f: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.place, place);
        let result = f(self);
        self.place = outer;
        result
    }

    /// Binds a name in the innermost scope; a second declaration there is an error.
    pub(crate) fn declare(&mut self, name: &ast::Ident, symbol: Symbol) {
        if let Some(earlier) = self.scopes.lookup_innermost(&name.text) {
            let span = earlier.span;
            self.report(
                Diagnostic::error(
                    "duplicate-declaration",
                    name.span,
                    format!("`{}` is declared twice", name.text),
                )
                .related(span, "declared here first"),
            );
            return;
        }
        self.scopes.bind(&name.text, symbol, name.span);
    }

    /// Records a control-plane name: two things of a kind cannot share one (P4_16, "Computing control-plane names").
    /// Names with a leading dot, which belong to the top level, can also collide between controls; lowering handles
    /// these, because it merges identical actions.
    pub(crate) fn claim_control_name(&mut self, name: &str, kind: &'static str, span: Span) {
        let (owner, name) = match name.strip_prefix('.') {
            Some(global) if self.owner.is_empty() => (String::new(), global),
            _ => (self.owner.clone(), name),
        };
        if let Some(earlier) = self.control_names.insert((owner, kind, name.to_owned()), span)
            && earlier != span
            // Duplicates in one scope are reported as another error.
            && self.source(earlier) != self.source(span)
        {
            let text = format!("two {kind}s have the control-plane name `{name}`");
            self.report(
                Diagnostic::error("duplicate-control-name", span, text).related(earlier, "the first is here"),
            );
        }
    }

    /// Returns the source text at a place.
    pub(crate) fn source(&self, span: Span) -> &str {
        let file = self.prog.sources.files.get(span.file.0 as usize);
        file.and_then(|file| file.text.get(span.lo as usize..span.hi as usize)).unwrap_or("")
    }

    /// Creates a variable.
    pub(crate) fn new_var(&mut self, name: &ast::Ident, ty: Type, kind: VarKind) -> VarId {
        let id = VarId(self.prog.vars.len() as u32);
        self.prog.vars.push(Var { name: name.text.clone(), ty, span: name.span });
        self.var_kinds.push(kind);
        id
    }

    /// Finds a name, or reports it with the nearest name that `wanted` accepts, or with some of them if none is near.
    pub(crate) fn resolve(
        &mut self,
        path: &ast::Path,
        what: &str,
        wanted: impl Fn(&Symbol) -> bool,
    ) -> Option<Symbol> {
        if let Some(binding) = self.scopes.lookup(&path.name.text, path.global) {
            let (symbol, declared) = (binding.symbol.clone(), binding.span);
            self.warn_if_deprecated(&path.name, declared);
            return Some(symbol);
        }
        if self.missing_include(&path.name) {
            return None;
        }
        let dot = if path.global { "." } else { "" };
        let name = &path.name.text;
        let diagnostic =
            Diagnostic::error("unknown-name", path.name.span, format!("unknown {what} `{dot}{name}`"));
        if !self.may_search(self.scopes.size()) {
            self.report(diagnostic);
            return None;
        }
        let names = match path.global {
            true => self.scopes.global_names(wanted),
            false => self.scopes.names(wanted),
        };
        let diagnostic = match self.declared_later(&diagnostic, &path.name) {
            Some(diagnostic) => diagnostic,
            None => match suggest::nearest(name, names.iter().map(String::as_str)) {
                Some(near) => self.declared_here(diagnostic, near).meant(near),
                None if names.is_empty() => diagnostic,
                None => diagnostic.some_choices("in scope", &names, CHOICES_MAX),
            },
        };
        self.report(diagnostic);
        None
    }

    /// Returns a diagnostic for a name that is used before its declaration.
    pub(crate) fn declared_later(&self, diagnostic: &Diagnostic, name: &ast::Ident) -> Option<Diagnostic> {
        let found = self.declared.iter().rev().find_map(|body| body.get(&name.text))?;
        let diagnostic = diagnostic.clone();
        let (here, whole) = (name.span, found.whole);
        let inside = here.file == whole.file && (whole.lo..whole.hi).contains(&here.lo);
        Some(match (inside, found.is_type) {
            (true, true) => {
                let text = format!("type `{}` contains itself", name.text);
                Diagnostic::error("recursive-type", here, text)
                    .related(found.name, "declared here")
                    .note("a value of it would be infinite; a type is known after its declaration")
            }
            (true, false) => diagnostic
                .related(found.name, "this declares it")
                .note("a name is known after its declaration"),
            (false, _) => diagnostic
                .related(found.name, "declared here, after its use")
                .note("a name is known after its declaration: move the declaration up"),
        })
    }

    /// True if an unknown name belongs to a standard include file that the program lacks; this is then reported.
    pub(crate) fn missing_include(&mut self, name: &ast::Ident) -> bool {
        let is = format!("`{}` is", name.text);
        crate::library::declares(&name.text).is_some_and(|file| self.missing_file(file, name.span, &is))
    }

    /// Reports that a file declares something, unless the program includes it. All missing names produce a single
    /// error, which names the file that declares all of them.
    pub(crate) fn missing_file(&mut self, file: &'static str, span: Span, is: &str) -> bool {
        let sources = &self.prog.sources.files;
        let has = |wanted: &str| {
            sources.iter().any(|f| f.name.trim_matches(['<', '>']).rsplit('/').next() == Some(wanted))
        };
        // A program for one architecture does not need another.
        if has(file) || has("v1model.p4") || has("psa.p4") {
            return false;
        }
        match self.missing_include {
            None => {
                self.missing_include = Some((self.diagnostics.len(), file));
                self.report(
                    Diagnostic::error("missing-include", span, format!("{is} declared in {file}"))
                        .note(format!("add `#include <{file}>`")),
                );
            }
            Some((at, "core.p4")) if file != "core.p4" => {
                self.missing_include = Some((at, file));
                if let Some(first) = self.diagnostics.get_mut(at) {
                    first.notes = vec![format!(
                        "add `#include <{file}>`: {is} declared there, and it includes core.p4"
                    )];
                }
            }
            Some(_) => {}
        }
        true
    }

    /// Warns about a use of something declared `@deprecated("…")`.
    pub(crate) fn warn_if_deprecated(&mut self, name: &ast::Ident, declared: Span) {
        let Some(why) = self.deprecated.get(&declared) else { return };
        let mut diagnostic =
            Diagnostic::warning("deprecated", name.span, format!("`{}` is deprecated", name.text));
        if !why.is_empty() {
            diagnostic = diagnostic.note(why.clone());
        }
        self.report(diagnostic);
    }

    /// Adds a note on where `name` is declared.
    pub(crate) fn declared_here(&self, diagnostic: Diagnostic, name: &str) -> Diagnostic {
        match self.scopes.lookup(name, false) {
            Some(binding) => diagnostic.related(binding.span, format!("`{name}` is declared here")),
            None => diagnostic,
        }
    }

    /// An expression that replaces an erroneous one.
    pub(crate) fn poison(&self, span: Span) -> Expr {
        Expr { ty: POISON, kind: ExprKind::Bool(false), span }
    }
}

/// Returns the declared names; of several declarations with one name, the first.
pub(crate) fn declared<'a>(decls: impl IntoIterator<Item = &'a ast::Decl>) -> HashMap<String, Declared> {
    let mut names = HashMap::new();
    for decl in decls {
        let Some(name) = decl.kind.name() else { continue };
        let is_type = matches!(decl.kind, DeclKind::Struct(_) | DeclKind::Enum(_) | DeclKind::Typedef(_));
        let found = Declared { name: name.span, whole: decl.span, is_type };
        names.entry(name.text.clone()).or_insert(found);
    }
    names
}
