//! The state of lowering: the growing program, scopes and objects, and the open graph.
//!
//! Of the modules that lower constructs, only [`crate::arch`] is known here, because architectures are called through it.

use std::any::Any;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use p4jet_analysis::control_names::{self, NameSpace, ObjectKind};
use p4jet_analysis::typed;
use p4jet_ir as ir;
use p4jet_ir::{Expr, FieldId, FieldKind, Function, HeaderId, Loc, NodeId, Op, Terminator};
use p4jet_syntax::diagnostic::Diagnostic;
use p4jet_syntax::span::{FileId, Span};

use crate::arch::Architecture;
use crate::cfg::{CfgBuilder, Jump};
use crate::scope::{Binding, GLOBAL, Object, Scope, ScopeId};
use crate::value::{Columns, ObjectId, Storage, Value};

/// A diagnostic was recorded; lowering abandons the current statement and continues with the next one.
#[derive(Clone, Copy, Debug)]
pub struct Reported(());

/// A result whose error has been recorded.
pub type Lowered<T> = Result<T, Reported>;

/// Maximum number of statements, nodes, fields, inlined calls and instances of a program, and of turns of loops over
/// elements, which are unrolled. The programs in p4c's packet tests are far below it.
pub const PROGRAM_SIZE_MAX: u32 = 200_000;

/// Maximum number of operators, fields and constants in the expressions of a program, and of scalars in all intermediate
/// values: values of large structs have many.
pub const EXPRESSIONS_SIZE_MAX: usize = 1 << 24;

/// Maximum number of errors reported in one run.
const ERRORS_MAX: usize = 200;

/// Maximum nesting depth of calls, because lowering recurses with them.
const NESTING_MAX: usize = 100;

/// The namespace in which names are unique.
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

/// The possible effects of a table's actions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableEffects {
    pub(crate) exits: bool,
    pub(crate) touches_registers: bool,
}

/// The owner of each control-plane name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    kind: ObjectKind,
    span: Span,
    scope: ScopeId,
    /// The call or instance for which it was created.
    site: Option<Span>,
    /// True if another owner was refused.
    pub(crate) contested: bool,
}

/// The current targets of control flow statements.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    /// `return`
    pub(crate) ret: Jump,
    /// Storage for the returned value.
    pub(crate) result: Option<Storage>,
    /// `exit`
    pub(crate) exit: Jump,
    /// Targets of `continue` and `break` in the enclosing loops, innermost last.
    pub(crate) loops: Vec<(NodeId, NodeId)>,
}

impl Default for Flow {
    fn default() -> Self {
        Flow { ret: Jump::Return, result: None, exit: Jump::Return, loops: Vec::new() }
    }
}

/// The position of a packet between two bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BitCursor {
    /// Parser: the remaining bits of the byte before the cursor, right-aligned. Width 7.
    pub(crate) left: FieldId,
    /// Their number. Width 3.
    pub(crate) left_count: FieldId,
    /// Deparser: the bits of an incomplete byte, right-aligned. Width 7.
    pub(crate) waiting: FieldId,
    /// Their number. Width 3.
    pub(crate) count: FieldId,
}

/// Lowers one program. Architectures work through its public methods.
pub struct Lowerer<'a> {
    /// The input.
    pub program: &'a typed::Program,
    /// The output so far.
    pub ir: ir::Program,
    /// True if packets wait in output queues between ingress and egress.
    pub queued: bool,
    /// State of the architecture between its calls.
    pub memory: Box<dyn Any>,
    pub(crate) arch: &'a dyn Architecture,
    pub(crate) diagnostics: Vec<Diagnostic>,
    pub(crate) scopes: Vec<Scope>,
    pub(crate) scope: ScopeId,
    pub(crate) objects: Vec<Object>,
    pub(crate) cfg: CfgBuilder,
    pub(crate) flow: Flow,
    /// The place to which statements and terminators are attributed.
    pub(crate) span: Span,
    /// Other members of the union that a header belongs to.
    pub(crate) siblings: HashMap<HeaderId, Vec<HeaderId>>,
    /// The columns of fields in arrays and stacks, by field.
    pub(crate) columns: Columns<FieldId>,
    /// The columns of headers, by header.
    pub(crate) header_columns: Columns<HeaderId>,
    /// Number of call sites that apply each instance.
    pub(crate) apply_sites: HashMap<typed::InstanceId, u32>,
    /// Actions declared in controls.
    pub(crate) local_actions: HashSet<typed::ActionId>,
    /// True if the current code runs at most once per packet, so that fresh storage is 0.
    pub(crate) runs_once: bool,
    /// True in [`Lowerer::add_branches`].
    adds_branches: bool,
    /// True if the current code belongs to an action that tables run.
    pub(crate) in_table_action: bool,
    /// True if a header that is not a whole number of bytes is extracted or emitted.
    pub(crate) needs_bits: bool,
    /// The fields that count bits in that case.
    pub(crate) bit_cursor: Option<BitCursor>,
    /// The action of hidden tables for value sets.
    pub(crate) member_action: Option<ir::ActionId>,
    /// Actions by control-plane name, before names are made unique.
    pub(crate) actions_named: HashMap<String, Vec<ir::ActionId>>,
    /// Fields that pass the cell of the matching entry to actions, for tables with an action that needs it.
    pub(crate) entry_cells: HashMap<ir::TableId, FieldId>,
    /// True if an action of a table exits, and if one touches registers.
    pub(crate) table_effects: HashMap<ir::TableId, TableEffects>,
    /// Statements that a table runs on a hit before the action.
    pub(crate) on_hit: HashMap<ir::TableId, Vec<Op>>,
    /// The action profile of each table that has one.
    pub(crate) profiles: HashMap<ir::TableId, ObjectId>,
    /// Names in use, each with the smallest suffix that may still be free: all smaller ones are taken.
    names: HashMap<(Kind, String), u32>,
    temporaries: u32,
    /// Number of statements, nodes, fields, inlined calls and instances so far.
    grown: u32,
    /// Number of parts of expressions and values so far.
    expressions: usize,
    /// The calls being inlined and the instances being created, outermost first.
    nesting: Vec<Span>,
    /// True if the program has been refused as too large.
    too_large: bool,
    /// The owner of each control-plane name.
    pub(crate) claims: HashMap<(NameSpace, String), Claim>,
    locs: HashMap<Span, Loc>,
    places: HashMap<ir::SourceLoc, Loc>,
    lines: HashMap<FileId, Lines>,
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
            error_invalid_argument: error("ParserInvalidArgument"),
            errors,
            locs: vec![ir::SourceLoc::default()],
            ..ir::Program::default()
        };
        let mut lowerer = Lowerer {
            program,
            ir,
            queued: false,
            memory: Box::new(()),
            arch,
            diagnostics: Vec::new(),
            scopes: vec![Scope { is_block: true, ..Scope::default() }],
            scope: GLOBAL,
            objects: Vec::new(),
            cfg: CfgBuilder::default(),
            flow: Flow::default(),
            span: nowhere(),
            siblings: HashMap::new(),
            columns: HashMap::new(),
            header_columns: HashMap::new(),
            apply_sites: crate::survey::apply_sites(program),
            local_actions: crate::survey::local_actions(program),
            runs_once: false,
            adds_branches: false,
            in_table_action: false,
            needs_bits: false,
            bit_cursor: None,
            member_action: None,
            actions_named: HashMap::new(),
            entry_cells: HashMap::new(),
            table_effects: HashMap::new(),
            on_hit: HashMap::new(),
            profiles: HashMap::new(),
            names: HashMap::new(),
            temporaries: 0,
            grown: 0,
            expressions: 0,
            nesting: Vec::new(),
            too_large: false,
            claims: HashMap::new(),
            locs: HashMap::new(),
            places: HashMap::new(),
            lines: HashMap::new(),
        };
        lowerer.ir.translated = lowerer.translated_types();
        lowerer
    }

    /// The types whose values controllers see under other names.
    fn translated_types(&self) -> Vec<(String, u32)> {
        let is_translated = |new: &&typed::NewType| {
            new.annotations.iter().any(|annotation| annotation.name.text == "p4runtime_translation")
        };
        let width = |new: &typed::NewType| match self.underlying(&new.ty) {
            typed::Type::Bit(width) => Some((new.control_name.clone(), width)),
            _ => None,
        };
        self.program.new_types.iter().filter(is_translated).filter_map(width).collect()
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Diagnostics

    /// Records a diagnostic once. Errors after the refusal of a too large program are not mistakes of the program.
    pub fn report(&mut self, diagnostic: Diagnostic) -> Reported {
        if self.too_large || self.diagnostics.len() >= ERRORS_MAX {
            return Reported(());
        }
        let known = |d: &Diagnostic| d.span == diagnostic.span && d.message == diagnostic.message;
        if !self.diagnostics.iter().any(known) {
            self.diagnostics.push(diagnostic);
        }
        Reported(())
    }

    /// Refuses an unsupported feature.
    pub fn unsupported<T>(&mut self, span: Span, what: impl std::fmt::Display) -> Lowered<T> {
        Err(self.report(Diagnostic::unsupported(span, what)))
    }

    /// Refuses something that analysis should have rejected, with a message instead of a panic: the running switch must
    /// survive. After another error, unfinished parts may look like a bug of p4jet; the other error suffices.
    pub(crate) fn bug<T>(&mut self, span: Span, what: impl std::fmt::Display) -> Lowered<T> {
        if !self.diagnostics.is_empty() {
            return Err(Reported(()));
        }
        let message = format!("bug in p4jet: {what}");
        Err(self.report(Diagnostic::error("internal", span, message).note("please report this program")))
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Places

    /// Returns the IR place of a span.
    pub fn loc(&mut self, span: Span) -> Loc {
        if let Some(&loc) = self.locs.get(&span) {
            return loc;
        }
        let Some(file) = self.program.sources.files.get(span.file.0 as usize) else {
            return Loc(0);
        };
        let lines = self.lines.entry(span.file).or_insert_with(|| Lines::of(&file.text));
        let (line, column) = lines.line_column(&file.text, span.lo.min(file.text.len() as u32));
        let place = ir::SourceLoc { file: file.name.clone(), line, column };
        let next = Loc(self.ir.locs.len() as u32);
        let loc = *self.places.entry(place.clone()).or_insert(next);
        if loc == next {
            self.ir.locs.push(place);
        }
        self.locs.insert(span, loc);
        loc
    }

    /// Returns the text of a span.
    pub fn source_text(&self, span: Span) -> String {
        let file = self.program.sources.files.get(span.file.0 as usize);
        file.and_then(|f| f.text.get(span.lo as usize..span.hi as usize)).unwrap_or_default().to_string()
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Names and storage

    /// Returns `name`, or `name_2`, `name_3` … if the name is in use for this kind.
    pub(crate) fn unique_name(&mut self, kind: Kind, name: &str) -> String {
        let base = (kind, name.to_string());
        let Some(&first) = self.names.get(&base) else {
            self.names.insert(base, 2);
            return name.to_string();
        };
        let mut n = first;
        loop {
            let candidate = format!("{name}_{n}");
            n += 1;
            if let Entry::Vacant(vacant) = self.names.entry((kind, candidate.clone())) {
                vacant.insert(2);
                self.names.insert(base, n);
                return candidate;
            }
        }
    }

    /// Frees a name.
    pub(crate) fn release_name(&mut self, kind: Kind, name: &str) {
        self.names.remove(&(kind, name.to_string()));
        if let Some((base, number)) = name.rsplit_once('_')
            && let Ok(number) = number.parse::<u32>()
            && let Some(next) = self.names.get_mut(&(kind, base.to_string()))
        {
            *next = number.min(*next).max(2);
        }
    }

    /// Gives a control-plane name to something declared at `span` in a scope. If another thing has it whose name must
    /// differ, that is an error, because runtime commands could not distinguish them.
    pub(crate) fn claim(&mut self, kind: ObjectKind, name: &str, span: Span, scope: ScopeId) {
        let new = Claim { kind, span, scope, site: self.nesting.last().copied(), contested: false };
        let keys = || kind.spaces().iter().map(|space| (*space, name.to_string()));
        let taken = keys().find(|key| self.claims.contains_key(key));
        for key in keys() {
            self.claims.entry(key).or_insert(new);
        }
        let Some(earlier) = taken.and_then(|key| self.claims.get_mut(&key)) else { return };
        // An action that several tables bind to arguments is still one action.
        if kind == ObjectKind::Action && (earlier.span, earlier.scope) == (span, scope) {
            return;
        }
        earlier.contested = true;
        let earlier = *earlier;
        let mut diagnostic = control_names::duplicate(name, earlier.kind, kind, span);
        match (earlier.site, new.site) {
            (Some(first), Some(second)) if earlier.span == span && first != second => {
                diagnostic = diagnostic
                    .related(first, "the first is created here")
                    .related(second, "the second is created here");
            }
            _ if earlier.span == span => {
                diagnostic = diagnostic.note("its declaration is instantiated twice under one name");
            }
            _ => diagnostic = diagnostic.related(earlier.span, "the first is here"),
        }
        self.report(
            diagnostic.note("runtime commands could not distinguish them: `@name` gives another name"),
        );
    }

    /// Creates a field; its name is made unique.
    pub fn field(&mut self, name: &str, width: u32, kind: FieldKind) -> FieldId {
        self.grow();
        let name = self.unique_name(Kind::Field, name);
        self.ir.fields.push(ir::Field { name, width, kind });
        FieldId(self.ir.fields.len() as u32 - 1)
    }

    /// Creates an unnamed field.
    pub fn temporary(&mut self, width: u32) -> FieldId {
        let name = format!("$t{}", self.temporaries);
        self.temporaries += 1;
        self.field(&name, width, FieldKind::Temporary)
    }

    /// Returns the field with this full name.
    pub fn field_named(&self, name: &str) -> Option<FieldId> {
        self.ir.fields.iter().position(|f| f.name == name).map(|i| FieldId(i as u32))
    }

    /// Returns the field of an intrinsic value, and creates it if necessary.
    pub fn intrinsic(&mut self, intrinsic: ir::Intrinsic, name: &str, width: u32) -> FieldId {
        if let Some((_, field)) = self.ir.intrinsics.iter().find(|(i, _)| *i == intrinsic) {
            return *field;
        }
        let field = self.field(name, width, FieldKind::Metadata);
        self.ir.intrinsics.push((intrinsic, field));
        field
    }

    /// Returns the width of an expression.
    pub fn width(&self, e: &Expr) -> u32 {
        e.width(&self.ir)
    }

    /// Returns the code of an error by name; 0 (`NoError`) if the program does not declare it.
    pub fn error_code(&self, name: &str) -> u32 {
        self.ir.errors.iter().position(|e| e == name).unwrap_or(0) as u32
    }

    /// Returns the index of a drop reason.
    pub fn drop_reason(&mut self, reason: &str) -> u32 {
        if let Some(i) = self.ir.drop_reasons.iter().position(|r| r == reason) {
            return i as u32;
        }
        self.ir.drop_reasons.push(reason.to_string());
        self.ir.drop_reasons.len() as u32 - 1
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Code

    /// Appends a statement, attributed to the current P4 statement.
    pub fn emit(&mut self, op: Op) {
        op.for_each_expr(&mut |e| self.grow_expressions(e.size()));
        if !self.grow() {
            return;
        }
        let loc = self.loc(self.span);
        self.cfg.push(op, loc);
    }

    /// Appends `dest = value`, unless it has no effect.
    pub fn set(&mut self, dest: FieldId, value: Expr) {
        let (to, from) = (self.ir.width(dest), self.width(&value));
        if to != from {
            let what = format!("`{}` of width {to} set to {from} bits", self.ir.fields[dest.index()].name);
            let _: Lowered<()> = self.bug(self.span, what);
        } else if value != Expr::Field(dest) {
            self.emit(Op::Set { dest, value });
        }
    }

    /// Ends the current node. The following code is unreachable until [`Lowerer::enter`].
    pub fn terminate(&mut self, terminator: Terminator) {
        terminator.for_each_expr(&mut |e| self.grow_expressions(e.size()));
        if !self.grow() {
            return;
        }
        let is_branch = matches!(terminator, Terminator::If { .. } | Terminator::Switch { .. });
        let loc = if self.adds_branches && is_branch { Loc(0) } else { self.loc(self.span) };
        self.cfg.terminate(terminator, loc);
    }

    /// Calls `f`, whose branches are not in the program's text. They get no place, so traces omit them.
    pub fn add_branches<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.adds_branches, true);
        let result = f(self);
        self.adds_branches = outer;
        result
    }

    /// A new node.
    pub fn node(&mut self) -> NodeId {
        self.labelled_node(String::new())
    }

    /// A new node with a label.
    pub(crate) fn labelled_node(&mut self, label: String) -> NodeId {
        // Its terminator will be counted.
        if self.too_large { self.cfg.current() } else { self.cfg.node(label) }
    }

    /// Continues in a node created by [`Lowerer::node`].
    pub fn enter(&mut self, node: NodeId) {
        self.cfg.enter(node);
    }

    /// Ends the current node with a goto.
    pub fn goto(&mut self, node: NodeId) {
        self.terminate(Terminator::Goto(node));
    }

    /// Runs `then` if `cond` holds, and continues.
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

    /// Calls an extern function.
    pub fn call_extern(
        &mut self,
        function: impl Into<Function>,
        instance: Option<ir::InstanceId>,
        args: Vec<Expr>,
        outs: Vec<FieldId>,
        text: Vec<String>,
    ) {
        self.emit(Op::Extern { function: function.into(), instance, args, outs, text });
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

    /// Copies a value to temporaries, so that it no longer changes with the fields that it reads.
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

    /// Returns a constant or a field, which may be used several times.
    pub(crate) fn atom(&mut self, e: Expr) -> Expr {
        match e {
            Expr::Const { .. } | Expr::Field(_) => e,
            e => self.snapshot_expr(e),
        }
    }

    /// Runs `f` on an empty graph and returns the graph; the open graph is set aside.
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
    // Size

    /// Inlines a call or creates an instance, whose place is `span`, unless the program has become too large: otherwise,
    /// calls that double at each level would take for ever.
    pub(crate) fn nested<T>(
        &mut self,
        span: Span,
        inline: impl FnOnce(&mut Self) -> Lowered<T>,
    ) -> Lowered<T> {
        self.nesting.push(span);
        let outer = std::mem::replace(&mut self.span, span);
        let grown = self.grow();
        self.span = outer;
        let result = if !grown {
            Err(Reported(()))
        } else if self.nesting.len() > NESTING_MAX {
            Err(self.refuse_size(span, format!("calls nested more than {NESTING_MAX} deep")))
        } else {
            inline(self)
        };
        self.nesting.pop();
        result
    }

    /// Counts something new: a statement, a node, a field, an instance, an inlined call. True if it may be created. All
    /// code that creates such things calls this, so a program cannot grow without bound.
    pub(crate) fn grow(&mut self) -> bool {
        self.grown = self.grown.saturating_add(1);
        if self.grown > PROGRAM_SIZE_MAX && !self.too_large {
            let what = format!("more than {PROGRAM_SIZE_MAX} statements, nodes, fields and instances");
            self.refuse_size(self.span, what);
        }
        !self.too_large
    }

    /// Counts parts of an expression or value.
    pub(crate) fn grow_expressions(&mut self, parts: usize) {
        self.expressions = self.expressions.saturating_add(parts);
        if self.expressions > EXPRESSIONS_SIZE_MAX && !self.too_large {
            let what =
                format!("more than {EXPRESSIONS_SIZE_MAX} operators, fields and constants in expressions");
            self.refuse_size(self.span, what);
        }
    }

    /// Returns an error once the program has been refused as too large, which stops lowering.
    pub(crate) fn go_on(&self) -> Lowered<()> {
        if self.too_large { Err(Reported(())) } else { Ok(()) }
    }

    /// Reports once that the program is too large.
    pub(crate) fn refuse_size(&mut self, span: Span, what: String) -> Reported {
        if self.too_large {
            return Reported(());
        }
        let text = format!("the program grows too large: {what}");
        let outermost = self.nesting.first().copied().unwrap_or(span);
        let mut diagnostic = Diagnostic::error("too-large", outermost, text);
        if outermost != span {
            diagnostic = diagnostic.related(span, "the limit is reached here");
        }
        let reported = self.report(
            diagnostic
                .note("each call of a function, action, parser or control is a copy of its body")
                .note("so is each turn of a loop over the elements of a list or stack"),
        );
        self.too_large = true;
        reported
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

    /// Runs `f` in another scope.
    pub(crate) fn in_scope<T>(&mut self, scope: ScopeId, f: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.scope, scope);
        let result = f(self);
        self.scope = outer;
        result
    }

    /// Returns the first result from the current scope outwards.
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

    /// Returns the scope of the parser or control instance that contains the current code.
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

    /// Returns the binding of a variable without copying it.
    pub(crate) fn binding_of(&self, var: typed::VarId) -> Option<&Binding> {
        let mut at = Some(self.scope);
        while let Some(id) = at {
            let scope = &self.scopes[id.0 as usize];
            if let Some(found) = scope.vars.get(&var) {
                return Some(found);
            }
            at = scope.parent;
        }
        None
    }

    pub(crate) fn bind(&mut self, var: typed::VarId, binding: Binding) {
        let scope = self.scope;
        self.scope_mut(scope).vars.insert(var, binding);
    }
}

/// Distance in bytes between two places of a text up to which characters have been counted.
const MARK_DISTANCE: usize = 256;

/// Lines and columns of a text. Lines may be as long as the text, so characters are not counted from the start of the line.
#[derive(Debug)]
struct Lines {
    /// The start of each line.
    starts: Vec<u32>,
    /// The number of characters before each multiple of [`MARK_DISTANCE`] bytes.
    marks: Vec<u32>,
}

/// Returns the number of characters that start in these bytes: all bytes except continuation bytes.
fn characters(bytes: &[u8]) -> u32 {
    bytes.iter().filter(|&&b| b & 0xc0 != 0x80).count() as u32
}

impl Lines {
    fn of(text: &str) -> Lines {
        let breaks = text.bytes().enumerate().filter(|(_, b)| *b == b'\n');
        let starts = std::iter::once(0).chain(breaks.map(|(i, _)| i as u32 + 1)).collect();
        let mut before = 0;
        let marks = text.as_bytes().chunks(MARK_DISTANCE).map(|chunk| {
            let mark = before;
            before += characters(chunk);
            mark
        });
        Lines { starts, marks: marks.collect() }
    }

    /// Returns the number of characters before a byte.
    fn before(&self, text: &str, at: u32) -> u32 {
        let at = at as usize;
        let mark = (at / MARK_DISTANCE).min(self.marks.len().saturating_sub(1));
        let counted = self.marks.get(mark).copied().unwrap_or(0);
        counted + characters(&text.as_bytes()[mark * MARK_DISTANCE..at])
    }

    /// Returns line and column of a byte, from 1.
    fn line_column(&self, text: &str, at: u32) -> (u32, u32) {
        let line = self.starts.partition_point(|&s| s <= at).max(1);
        let start = self.starts[line - 1];
        (line as u32, self.before(text, at) - self.before(text, start) + 1)
    }
}

/// Returns a span that is in no file.
pub(crate) fn nowhere() -> Span {
    Span { file: FileId(u32::MAX), lo: 0, hi: 0 }
}

/// Returns the full name of something inside `path`; a leading dot makes it global.
pub(crate) fn full_name(path: &str, name: &str) -> String {
    match name.strip_prefix('.') {
        Some(global) => global.to_string(),
        None if path.is_empty() => name.to_string(),
        None => format!("{path}.{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::{ExternCall, Property};

    struct NoArch;

    impl Architecture for NoArch {
        fn name(&self) -> &'static str {
            "none"
        }
        fn recognises(&self, _: &typed::Program) -> bool {
            false
        }
        fn pipeline(&self, _: &mut Lowerer<'_>, _: ObjectId) -> Lowered<()> {
            Ok(())
        }
        fn construct(&self, _: &mut Lowerer<'_>, _: ObjectId) -> Lowered<()> {
            Ok(())
        }
        fn call(&self, _: &mut Lowerer<'_>, _: &ExternCall) -> Lowered<Value> {
            Ok(Value::Void)
        }
        fn table_property(&self, _: &mut Lowerer<'_>, _: ir::TableId, _: &Property) -> Lowered<()> {
            Ok(())
        }
        fn select_member(&self, cx: &mut Lowerer<'_>, _: ObjectId, _: Vec<Value>) -> Lowered<Expr> {
            cx.unsupported(nowhere(), "selectors")
        }
        fn has_empty_group_actions(&self) -> bool {
            false
        }
    }

    #[test]
    fn names_are_new_and_freed_ones_come_again() {
        let program = typed::Program::default();
        let mut cx = Lowerer::new(&program, &NoArch, "test");
        let mut fresh = |name: &str| cx.unique_name(Kind::Field, name);
        assert_eq!(["x", "x_3", "x", "x", "x_3"].map(&mut fresh), ["x", "x_3", "x_2", "x_4", "x_3_2"]);
        cx.release_name(Kind::Field, "x_2");
        let mut fresh = |name: &str| cx.unique_name(Kind::Field, name);
        assert_eq!(["x", "x", "x"].map(&mut fresh), ["x_2", "x_5", "x_6"]);
    }

    #[test]
    fn columns_count_characters_across_marks() {
        let text = format!("ab\n{}\u{e4}x\n\u{e4}\u{e4}y", "\u{e4}".repeat(300));
        let lines = Lines::of(&text);
        for (at, c) in text.char_indices().filter(|(_, c)| *c != '\n') {
            let line_start = text[..at].rfind('\n').map_or(0, |i| i + 1);
            let line = text[..at].matches('\n').count() as u32 + 1;
            let column = text[line_start..at].chars().count() as u32 + 1;
            assert_eq!(lines.line_column(&text, at as u32), (line, column), "{c} at {at}");
        }
        assert_eq!(Lines::of("").line_column("", 0), (1, 1));
    }

    /// The next number to try is stored: without it, a hundred thousand equal names took minutes.
    #[test]
    fn many_names_of_one_base_take_no_time() {
        let program = typed::Program::default();
        let mut cx = Lowerer::new(&program, &NoArch, "test");
        let started = std::time::Instant::now();
        for _ in 0..100_000 {
            cx.unique_name(Kind::Field, "x");
        }
        assert!(started.elapsed().as_secs() < 10);
    }
}
