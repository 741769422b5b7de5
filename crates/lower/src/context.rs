//! The state of one lowering: the program that grows, scopes and objects, the open graph.

use std::collections::{HashMap, HashSet};

use p4jet_analysis::typed;
use p4jet_ir as ir;
use p4jet_ir::{Expr, FieldId, FieldKind, HeaderId, Loc, NodeId, Op, Terminator};
use p4jet_syntax::diagnostic::Diagnostic;
use p4jet_syntax::span::{FileId, Span};

use crate::arch::Architecture;
use crate::cfg::CfgBuilder;
use crate::object::Object;
use crate::value::{Storage, Value};

/// A diagnostic was recorded; the statement at hand is given up, the next one is tried.
#[derive(Clone, Copy, Debug)]
pub struct Reported(());

/// A result whose error is already recorded.
pub type Lowered<T> = Result<T, Reported>;

/// Index of an [`Object`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ObjectId(pub(crate) u32);

/// Index of a [`Scope`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ScopeId(pub(crate) u32);

/// The scope of globals.
pub(crate) const GLOBAL: ScopeId = ScopeId(0);

/// What a variable or parameter stands for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Binding {
    /// Storage of its own, or of the argument.
    Storage(Storage),
    /// A value that does not change while the variable lives: `in` and constructor parameters, objects.
    Value(Value),
}

/// What one instance of a declaration means: the substitution environment of monomorphisation.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    /// Where to look further.
    pub(crate) parent: Option<ScopeId>,
    /// Control-plane path of the object: prefix of the names inside.
    pub(crate) path: String,
    /// Type arguments.
    pub(crate) types: HashMap<typed::TypeParamId, typed::Type>,
    /// Variables and parameters.
    pub(crate) vars: HashMap<typed::VarId, Binding>,
    /// Instances declared here.
    pub(crate) instances: HashMap<typed::InstanceId, ObjectId>,
    /// Objects made by `C.apply()` without instance, by the place of the call.
    pub(crate) direct: HashMap<Span, ObjectId>,
    /// Tables applied so far.
    pub(crate) tables: HashMap<typed::TableId, ir::TableId>,
    /// Actions that tables run, without bound arguments.
    pub(crate) actions: HashMap<typed::ActionId, ir::ActionId>,
    /// Value sets used so far.
    pub(crate) value_sets: HashMap<typed::ValueSetId, ir::TableId>,
    /// Whether this is the scope of a parser or control instance.
    pub(crate) is_block: bool,
}

/// What names are unique among.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Field,
    /// Variables, before their fields get names: `x` and `x_2` read better than `x.a` and `x.a_2`.
    Variable,
    Header,
    Action,
    Table,
    Instance,
    Block,
}

/// Where `return` or `exit` lead.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Jump {
    /// To a node of this graph.
    Node(NodeId),
    /// [`Terminator::Return`]
    Return,
    /// [`Terminator::Exit`]
    Exit,
}

impl Jump {
    fn terminator(self) -> Terminator {
        match self {
            Jump::Node(n) => Terminator::Goto(n),
            Jump::Return => Terminator::Return,
            Jump::Exit => Terminator::Exit,
        }
    }
}

/// Where control flow statements lead at this point.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    /// `return`
    pub(crate) ret: Jump,
    /// Where the returned value goes.
    pub(crate) result: Option<Storage>,
    /// `exit`
    pub(crate) exit: Jump,
    /// `continue` and `break` of the loops around, innermost last.
    pub(crate) loops: Vec<(NodeId, NodeId)>,
}

impl Default for Flow {
    fn default() -> Self {
        Flow { ret: Jump::Return, result: None, exit: Jump::Return, loops: Vec::new() }
    }
}

/// Lowers one program. Architectures work through its public methods.
pub struct Lowerer<'a> {
    /// What is lowered.
    pub program: &'a typed::Program,
    /// What has been made of it.
    pub ir: ir::Program,
    pub(crate) arch: &'a dyn Architecture,
    pub(crate) diagnostics: Vec<Diagnostic>,
    pub(crate) scopes: Vec<Scope>,
    pub(crate) scope: ScopeId,
    pub(crate) objects: Vec<Object>,
    pub(crate) cfg: CfgBuilder,
    pub(crate) flow: Flow,
    /// The place that statements and terminators are attributed to.
    pub(crate) span: Span,
    /// Other members of the union that a header belongs to.
    pub(crate) siblings: HashMap<HeaderId, Vec<HeaderId>>,
    /// How many call sites apply an instance.
    pub(crate) apply_sites: HashMap<typed::InstanceId, u32>,
    /// Actions declared in controls.
    pub(crate) local_actions: HashSet<typed::ActionId>,
    /// Whether the code at hand runs at most once per packet, so that fresh storage is known to be 0.
    pub(crate) runs_once: bool,
    /// Values of the parser's or control's key sets that hit: the hidden tables' action.
    pub(crate) member_action: Option<ir::ActionId>,
    /// Actions by control-plane name, before names are made unique.
    pub(crate) actions_named: HashMap<String, Vec<ir::ActionId>>,
    names: HashSet<(Kind, String)>,
    temporaries: u32,
    locs: HashMap<Span, Loc>,
    places: HashMap<ir::SourceLoc, Loc>,
    line_starts: HashMap<FileId, Vec<u32>>,
}

impl<'a> Lowerer<'a> {
    pub(crate) fn new(program: &'a typed::Program, arch: &'a dyn Architecture, name: &str) -> Self {
        // NoError is 0 in the IR, even if the program declares errors before it includes core.p4.
        let mut errors = program.errors.clone();
        let no_error = errors.iter().position(|e| e == "NoError").unwrap_or(0);
        if let Some(first) = errors.get_mut(..=no_error) {
            first.rotate_right(1);
        }
        let error = |name: &str| errors.iter().position(|e| e == name).unwrap_or(0) as u32;
        let ir = ir::Program {
            name: name.to_string(),
            error_packet_too_short: error("PacketTooShort"),
            error_header_too_short: error("HeaderTooShort"),
            errors,
            locs: vec![ir::SourceLoc::default()],
            ..ir::Program::default()
        };
        Lowerer {
            program,
            ir,
            arch,
            diagnostics: Vec::new(),
            scopes: vec![Scope { is_block: true, ..Scope::default() }],
            scope: GLOBAL,
            objects: Vec::new(),
            cfg: CfgBuilder::default(),
            flow: Flow::default(),
            span: nowhere(),
            siblings: HashMap::new(),
            apply_sites: crate::survey::apply_sites(program),
            local_actions: crate::survey::local_actions(program),
            runs_once: false,
            member_action: None,
            actions_named: HashMap::new(),
            names: HashSet::new(),
            temporaries: 0,
            locs: HashMap::new(),
            places: HashMap::new(),
            line_starts: HashMap::new(),
        }
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Diagnostics

    /// Records a diagnostic, once.
    pub fn report(&mut self, diagnostic: Diagnostic) -> Reported {
        let known = |d: &Diagnostic| d.span == diagnostic.span && d.message == diagnostic.message;
        if !self.diagnostics.iter().any(known) {
            self.diagnostics.push(diagnostic);
        }
        Reported(())
    }

    /// Refuses a feature that is missing.
    pub fn unsupported<T>(&mut self, span: Span, what: impl std::fmt::Display) -> Lowered<T> {
        Err(self.report(Diagnostic::unsupported(span, what)))
    }

    /// Refuses something that analysis should not have let through. A message instead of a panic: the running switch
    /// must survive.
    pub(crate) fn bug<T>(&mut self, span: Span, what: impl std::fmt::Display) -> Lowered<T> {
        let message = format!("p4jet is wrong here: {what}");
        Err(self.report(Diagnostic::error("internal", span, message).note("please report this program")))
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Places

    /// The IR place of a span.
    pub fn loc(&mut self, span: Span) -> Loc {
        if let Some(&loc) = self.locs.get(&span) {
            return loc;
        }
        let Some(file) = self.program.sources.files.get(span.file.0 as usize) else {
            return Loc(0);
        };
        let starts = self.line_starts.entry(span.file).or_insert_with(|| {
            let breaks = file.text.bytes().enumerate().filter(|(_, b)| *b == b'\n');
            std::iter::once(0).chain(breaks.map(|(i, _)| i as u32 + 1)).collect()
        });
        let lo = span.lo.min(file.text.len() as u32);
        let line = starts.partition_point(|&s| s <= lo).max(1);
        let before = &file.text.as_bytes()[starts[line - 1] as usize..lo as usize];
        let column = String::from_utf8_lossy(before).chars().count() as u32 + 1;
        let place = ir::SourceLoc { file: file.name.clone(), line: line as u32, column };
        let next = Loc(self.ir.locs.len() as u32);
        let loc = *self.places.entry(place.clone()).or_insert(next);
        if loc == next {
            self.ir.locs.push(place);
        }
        self.locs.insert(span, loc);
        loc
    }

    /// The text of a span.
    pub fn source_text(&self, span: Span) -> String {
        let file = self.program.sources.files.get(span.file.0 as usize);
        file.and_then(|f| f.text.get(span.lo as usize..span.hi as usize)).unwrap_or_default().to_string()
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Names and storage

    /// `name`, or `name_2`, `name_3` … if something of the kind is called so already.
    pub(crate) fn unique_name(&mut self, kind: Kind, name: &str) -> String {
        if self.names.insert((kind, name.to_string())) {
            return name.to_string();
        }
        let mut n = 2u32;
        loop {
            let candidate = format!("{name}_{n}");
            if self.names.insert((kind, candidate.clone())) {
                return candidate;
            }
            n += 1;
        }
    }

    /// Frees a name.
    pub(crate) fn release_name(&mut self, kind: Kind, name: &str) {
        self.names.remove(&(kind, name.to_string()));
    }

    /// A new field; its name is made unique.
    pub fn field(&mut self, name: &str, width: u32, kind: FieldKind) -> FieldId {
        let name = self.unique_name(Kind::Field, name);
        self.ir.fields.push(ir::Field { name, width, kind });
        FieldId(self.ir.fields.len() as u32 - 1)
    }

    /// A nameless field.
    pub fn temporary(&mut self, width: u32) -> FieldId {
        let name = format!("$t{}", self.temporaries);
        self.temporaries += 1;
        self.field(&name, width, FieldKind::Temporary)
    }

    /// The field of that full name.
    pub fn field_named(&self, name: &str) -> Option<FieldId> {
        self.ir.fields.iter().position(|f| f.name == name).map(|i| FieldId(i as u32))
    }

    /// The field that carries an intrinsic value; made if no field does yet.
    pub fn intrinsic(&mut self, intrinsic: ir::Intrinsic, name: &str, width: u32) -> FieldId {
        if let Some((_, field)) = self.ir.intrinsics.iter().find(|(i, _)| *i == intrinsic) {
            return *field;
        }
        let field = self.field(name, width, FieldKind::Metadata);
        self.ir.intrinsics.push((intrinsic, field));
        field
    }

    /// The width of an expression.
    pub fn width(&self, e: &Expr) -> u32 {
        e.width(&self.ir)
    }

    /// The code of an error by name; 0 (`NoError`) if the program does not declare it.
    pub fn error_code(&self, name: &str) -> u32 {
        self.ir.errors.iter().position(|e| e == name).unwrap_or(0) as u32
    }

    /// The index of a drop reason.
    pub fn drop_reason(&mut self, reason: &str) -> u32 {
        if let Some(i) = self.ir.drop_reasons.iter().position(|r| r == reason) {
            return i as u32;
        }
        self.ir.drop_reasons.push(reason.to_string());
        self.ir.drop_reasons.len() as u32 - 1
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Code

    /// Appends a statement, attributed to the P4 statement at hand.
    pub fn emit(&mut self, op: Op) {
        let loc = self.loc(self.span);
        self.cfg.push(op, loc);
    }

    /// `dest = value`, unless that does nothing.
    pub fn set(&mut self, dest: FieldId, value: Expr) {
        let (to, from) = (self.ir.width(dest), self.width(&value));
        if to != from {
            let what = format!("`{}` of width {to} set to {from} bits", self.ir.fields[dest.index()].name);
            let _: Lowered<()> = self.bug(self.span, what);
        } else if value != Expr::Field(dest) {
            self.emit(Op::Set { dest, value });
        }
    }

    /// Ends the node at hand. What follows is unreachable until [`Lowerer::enter`].
    pub fn terminate(&mut self, terminator: Terminator) {
        let loc = self.loc(self.span);
        self.cfg.terminate(terminator, loc);
    }

    /// A new node.
    pub fn node(&mut self) -> NodeId {
        self.cfg.node("")
    }

    /// Goes on in a node made by [`Lowerer::node`].
    pub fn enter(&mut self, node: NodeId) {
        self.cfg.enter(node);
    }

    /// Ends the node at hand with a goto.
    pub fn goto(&mut self, node: NodeId) {
        self.terminate(Terminator::Goto(node));
    }

    /// Runs `then` if `cond` holds, and goes on.
    pub fn when(&mut self, cond: Expr, then: impl FnOnce(&mut Self) -> Lowered<()>) -> Lowered<()> {
        match crate::build::as_const(&cond) {
            Some(c) if *c == 0u32.into() => return Ok(()),
            Some(_) => return then(self),
            None => {}
        }
        let (yes, join) = (self.node(), self.node());
        self.terminate(Terminator::If { cond, then: yes, otherwise: join });
        self.enter(yes);
        let result = then(self);
        self.goto(join);
        self.enter(join);
        result
    }

    /// Drops the packet if `cond` holds.
    pub fn drop_when(&mut self, cond: Expr, reason: &str) {
        let reason = self.drop_reason(reason);
        let (drop, on) = (self.node(), self.node());
        self.terminate(Terminator::If { cond, then: drop, otherwise: on });
        self.enter(drop);
        self.terminate(Terminator::Drop(reason));
        self.enter(on);
    }

    /// Calls an extern function of crate externs.
    pub fn call_extern(
        &mut self,
        function: &str,
        instance: Option<ir::InstanceId>,
        args: Vec<Expr>,
        outs: Vec<FieldId>,
        text: Vec<String>,
    ) {
        self.emit(Op::Extern { function: function.to_string(), instance, args, outs, text });
    }

    pub(crate) fn jump(&mut self, jump: Jump) {
        self.terminate(jump.terminator());
    }

    /// A node that does nothing but jump.
    pub(crate) fn jump_node(&mut self, jump: Jump) -> NodeId {
        let loc = self.loc(self.span);
        self.cfg.leaving(jump, jump.terminator(), loc)
    }

    /// Parser: rejects with an error code.
    pub(crate) fn reject(&mut self, code: u32) {
        self.terminate(Terminator::Reject(Expr::constant(code, 32)));
    }

    /// The value in temporaries of its own, so that it no longer changes with the fields it reads.
    pub(crate) fn snapshot(&mut self, value: Value) -> Value {
        value.map(&mut |e| self.snapshot_expr(e))
    }

    pub(crate) fn snapshot_expr(&mut self, e: Expr) -> Expr {
        if let Expr::Const { .. } = e {
            return e;
        }
        let temporary = self.temporary(self.width(&e));
        self.set(temporary, e);
        Expr::Field(temporary)
    }

    /// A constant or a field: safe to mention several times.
    pub(crate) fn atom(&mut self, e: Expr) -> Expr {
        match e {
            Expr::Const { .. } | Expr::Field(_) => e,
            e => self.snapshot_expr(e),
        }
    }

    /// Runs `f` on an empty graph and gives the graph; the open one is kept aside.
    pub(crate) fn graph(&mut self, flow: Flow, f: impl FnOnce(&mut Self) -> Lowered<()>) -> Lowered<ir::Cfg> {
        let outer_cfg = std::mem::take(&mut self.cfg);
        let outer_flow = std::mem::replace(&mut self.flow, flow);
        let outer_span = self.span;
        let result = f(self);
        self.span = outer_span;
        let end = self.loc(self.span);
        let cfg = std::mem::replace(&mut self.cfg, outer_cfg);
        self.flow = outer_flow;
        result.map(|()| cfg.finish(end))
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Scopes

    pub(crate) fn new_scope(&mut self, parent: ScopeId, path: String, is_block: bool) -> ScopeId {
        self.scopes.push(Scope { parent: Some(parent), path, is_block, ..Scope::default() });
        ScopeId(self.scopes.len() as u32 - 1)
    }

    pub(crate) fn scope_mut(&mut self, scope: ScopeId) -> &mut Scope {
        &mut self.scopes[scope.0 as usize]
    }

    /// Runs `f` with another scope in force.
    pub(crate) fn in_scope<T>(&mut self, scope: ScopeId, f: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.scope, scope);
        let result = f(self);
        self.scope = outer;
        result
    }

    /// The first answer on the way from the scope at hand outwards.
    pub(crate) fn lookup<T>(&self, f: impl Fn(&Scope) -> Option<T>) -> Option<T> {
        let mut at = Some(self.scope);
        while let Some(id) = at {
            let scope = &self.scopes[id.0 as usize];
            if let Some(found) = f(scope) {
                return Some(found);
            }
            at = scope.parent;
        }
        None
    }

    /// The scope of the parser or control instance that the code at hand belongs to.
    pub(crate) fn block_scope(&self) -> ScopeId {
        let mut at = self.scope;
        while !self.scopes[at.0 as usize].is_block {
            at = self.scopes[at.0 as usize].parent.unwrap_or(GLOBAL);
        }
        at
    }

    pub(crate) fn path(&self) -> &str {
        &self.scopes[self.scope.0 as usize].path
    }

    pub(crate) fn binding(&self, var: typed::VarId) -> Option<Binding> {
        self.lookup(|s| s.vars.get(&var).cloned())
    }

    pub(crate) fn bind(&mut self, var: typed::VarId, binding: Binding) {
        let scope = self.scope;
        self.scope_mut(scope).vars.insert(var, binding);
    }
}

/// A span that is in no file.
pub(crate) fn nowhere() -> Span {
    Span { file: FileId(u32::MAX), lo: 0, hi: 0 }
}

/// A name inside `path`; a leading dot makes it global.
pub(crate) fn full_name(path: &str, name: &str) -> String {
    match name.strip_prefix('.') {
        Some(global) => global.to_string(),
        None if path.is_empty() => name.to_string(),
        None => format!("{path}.{name}"),
    }
}
