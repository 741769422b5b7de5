//! The instances of a program: its parsers, controls and extern objects, their full names, and which of them are applied.
//!
//! Names are those of the control plane: those of the architecture's blocks start with the name of the block's type, those
//! of inner controls also with the instance's name. `lower` gives its objects the same names.

use std::collections::{HashMap, HashSet, VecDeque};

use num_bigint::BigInt;
use p4jet_analysis::replace_params;
use p4jet_analysis::typed::{
    ActionId, Call, Callee, Collection, ControlId, EnumId, Expr, ExprKind, ExternId, FunctionId, InstanceId,
    KeySet, Local, ParserId, Program, Stmt, StmtKind, TableId, Target, Transition, Type, TypeParamId,
    ValueSetId, VarId,
};
use p4jet_syntax::ast::BinaryOp;
use p4jet_syntax::diagnostic::Diagnostic;
use p4jet_syntax::span::Span;

use crate::integers::{self, Folded};

/// Maximum number of instances and of applied tables.
const OBJECTS_MAX: usize = 200_000;
/// Maximum nesting of instances and calls.
const NESTING_MAX: usize = 100;

/// Names a scope of [`Blocks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScopeId(usize);

/// Names an instance of [`Blocks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ObjectId(usize);

/// A value known at compile time.
#[derive(Clone, Debug)]
pub enum Const {
    /// A number.
    Int(BigInt),
    /// A Boolean.
    Bool(bool),
    /// A member of an enum without representation.
    Member(EnumId, u32),
    /// An instance.
    Object(ObjectId),
    /// Something else.
    Other,
}

/// A parser, control or control type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decl {
    /// A parser.
    Parser(ParserId),
    /// A control.
    Control(ControlId),
}

/// An instance.
#[derive(Clone, Debug)]
pub enum Object {
    /// A parser or control.
    Block(Decl, ScopeId),
    /// An extern object.
    Extern(ExternObject),
    /// A package.
    Package(Vec<Option<Const>>),
}

/// An extern object.
#[derive(Clone, Debug)]
pub struct ExternObject {
    /// Its type.
    pub ext: ExternId,
    /// Type arguments.
    pub types: Vec<Type>,
    /// The number of the constructor.
    pub constructor: u32,
    /// Constructor arguments.
    pub args: Vec<Option<Const>>,
    /// Full name.
    pub name: String,
    /// Its declaration, if it has one.
    pub instance: Option<InstanceId>,
    /// The place of its declaration.
    pub span: Span,
}

/// The meaning of names inside an instance.
#[derive(Debug, Default)]
pub struct Scope {
    /// Prefix of full names.
    pub path: String,
    types: HashMap<TypeParamId, Type>,
    vars: HashMap<VarId, Const>,
    instances: HashMap<InstanceId, ObjectId>,
    direct: HashMap<Span, ObjectId>,
}

/// The instances of a program.
pub struct Blocks<'a> {
    program: &'a Program,
    /// Scopes; the first is the global one.
    scopes: Vec<Scope>,
    /// Instances in the order of their creation.
    objects: Vec<Object>,
    /// The tables that are applied.
    pub tables: Vec<(ScopeId, TableId)>,
    /// The actions that controls call, other than through tables.
    pub called: Vec<(ScopeId, ActionId)>,
    /// The value sets that parsers use.
    pub value_sets: Vec<(ScopeId, ValueSetId)>,
    /// The extern objects of the global scope and of applied parsers and controls.
    pub externs: Vec<ObjectId>,
    /// The calls of extern functions in applied controls: name, type arguments, place.
    pub calls: Vec<(&'a str, Vec<Type>, Span)>,
    seen_tables: HashSet<(ScopeId, TableId)>,
    queue: VecDeque<ObjectId>,
    applied: HashSet<ObjectId>,
    nesting: usize,
    failed: Option<Diagnostic>,
}

/// The place of a walk: the scope, and the type arguments of the functions around.
#[derive(Clone, Copy)]
struct At<'t> {
    scope: ScopeId,
    types: &'t HashMap<TypeParamId, Type>,
    /// False in parsers, whose calls of extern functions do not count.
    in_control: bool,
    /// True inside an action.
    in_action: bool,
}

/// Returns the full name of something inside `path`; a leading dot makes it global.
pub fn full_name(path: &str, name: &str) -> String {
    match name.strip_prefix('.') {
        Some(global) => global.to_string(),
        None if path.is_empty() => name.to_string(),
        None => format!("{path}.{name}"),
    }
}

const GLOBAL: ScopeId = ScopeId(0);

impl<'a> Blocks<'a> {
    /// Finds everything that `main` applies.
    pub fn of(program: &'a Program, main: InstanceId) -> Result<Self, Box<Diagnostic>> {
        let mut blocks = Blocks {
            program,
            scopes: vec![Scope::default()],
            objects: Vec::new(),
            tables: Vec::new(),
            called: Vec::new(),
            value_sets: Vec::new(),
            externs: Vec::new(),
            calls: Vec::new(),
            seen_tables: HashSet::new(),
            queue: VecDeque::new(),
            applied: HashSet::new(),
            nesting: 0,
            failed: None,
        };
        for id in &program.globals {
            if matches!(program.instances[id.index()].ty, Type::Extern(..))
                && let Const::Object(object) = blocks.instance(*id, GLOBAL)
            {
                blocks.externs.push(object);
            }
        }
        let main = blocks.instance(main, GLOBAL);
        blocks.apply_packages(&main);
        while let Some(object) = blocks.queue.pop_front() {
            if blocks.failed.is_some() {
                break;
            }
            blocks.walk_block(object);
        }
        match blocks.failed.take() {
            Some(failed) => Err(Box::new(failed)),
            None => Ok(blocks),
        }
    }

    /// Returns a scope.
    pub fn scope(&self, id: ScopeId) -> &Scope {
        &self.scopes[id.0]
    }

    /// Returns an instance.
    pub fn object(&self, id: ObjectId) -> &Object {
        &self.objects[id.0]
    }

    fn too_large(&mut self, span: Span) {
        let text = format!(
            "the program has more than {OBJECTS_MAX} instances, or nests them more than {NESTING_MAX} deep"
        );
        self.failed.get_or_insert_with(|| Diagnostic::error("too-large", span, text));
    }

    fn apply_packages(&mut self, value: &Const) {
        let Const::Object(id) = value else { return };
        match self.object(*id).clone() {
            Object::Package(args) => args.iter().flatten().for_each(|arg| self.apply_packages(arg)),
            Object::Block(..) => self.apply(*id),
            Object::Extern(_) => {}
        }
    }

    fn apply(&mut self, id: ObjectId) {
        if self.applied.insert(id) {
            self.queue.push_back(id);
        }
    }

    /// Returns the object of a declared instance.
    fn instance(&mut self, id: InstanceId, scope: ScopeId) -> Const {
        let known = |s: &Scope| s.instances.get(&id).copied();
        if let Some(object) = known(self.scope(scope)).or_else(|| known(self.scope(GLOBAL))) {
            return Const::Object(object);
        }
        self.declare(id, GLOBAL)
    }

    fn declare(&mut self, id: InstanceId, scope: ScopeId) -> Const {
        let program = self.program;
        let instance = &program.instances[id.index()];
        let ty = self.substituted(&instance.ty, scope);
        let is_block = matches!(ty, Type::Parser(..) | Type::Control(..));
        let name = match scope == GLOBAL && is_block {
            true => self.program.declared_name(&ty).unwrap_or_default().to_string(),
            false => full_name(&self.scope(scope).path, &instance.control_name),
        };
        let made = self.make(&ty, instance.constructor, &instance.args, name, Some(id), scope, instance.span);
        if let Const::Object(object) = made {
            self.scopes[scope.0].instances.insert(id, object);
        }
        made
    }

    #[allow(clippy::too_many_arguments)]
    fn make(
        &mut self,
        ty: &Type,
        constructor: u32,
        args: &[Option<Expr>],
        name: String,
        instance: Option<InstanceId>,
        scope: ScopeId,
        span: Span,
    ) -> Const {
        if self.objects.len() >= OBJECTS_MAX || self.nesting >= NESTING_MAX {
            self.too_large(span);
            return Const::Other;
        }
        self.nesting += 1;
        let args: Vec<Option<Const>> = args.iter().map(|a| Some(self.value(a.as_ref()?, scope))).collect();
        let program = self.program;
        let object = match ty {
            Type::Package(..) => Some(Object::Package(args)),
            Type::Extern(ext, types) => {
                let types = types.clone();
                Some(Object::Extern(ExternObject {
                    ext: *ext,
                    types,
                    constructor,
                    args,
                    name,
                    instance,
                    span,
                }))
            }
            Type::Parser(id, types) => {
                let parser = &program.parsers[id.index()];
                let locals = parser.body.as_ref().map_or(&[][..], |b| &b.locals);
                let params = (&parser.type_params[..], &parser.ctor_params[..]);
                Some(Object::Block(Decl::Parser(*id), self.enter(params, types, args, locals, name)))
            }
            Type::Control(id, types) => {
                let control = &program.controls[id.index()];
                let locals = control.body.as_ref().map_or(&[][..], |b| &b.locals);
                let params = (&control.type_params[..], &control.ctor_params[..]);
                Some(Object::Block(Decl::Control(*id), self.enter(params, types, args, locals, name)))
            }
            _ => None,
        };
        self.nesting -= 1;
        let Some(object) = object else { return Const::Other };
        self.objects.push(object);
        Const::Object(ObjectId(self.objects.len() - 1))
    }

    /// Creates the scope of a parser or control, and its instances.
    fn enter(
        &mut self,
        (type_params, params): (&[TypeParamId], &[p4jet_analysis::typed::Param]),
        types: &[Type],
        args: Vec<Option<Const>>,
        locals: &[Local],
        path: String,
    ) -> ScopeId {
        let types = type_params.iter().copied().zip(types.iter().cloned()).collect();
        let vars = params.iter().zip(args).filter_map(|(p, arg)| Some((p.var, arg?))).collect();
        self.scopes.push(Scope { path, types, vars, ..Scope::default() });
        let scope = ScopeId(self.scopes.len() - 1);
        for local in locals {
            if let Local::Instance(id) = local {
                self.declare(*id, scope);
            }
        }
        scope
    }

    /// Returns a type without the type parameters of a scope.
    pub fn substituted(&self, ty: &Type, scope: ScopeId) -> Type {
        replace_params(ty, &|id| self.scope(scope).types.get(&id).cloned())
    }

    /// Evaluates an expression.
    pub fn value(&mut self, e: &Expr, scope: ScopeId) -> Const {
        match &e.kind {
            ExprKind::Int(n) => Const::Int(n.clone()),
            ExprKind::Bool(b) => Const::Bool(*b),
            ExprKind::EnumMember(i) => match &e.ty {
                Type::Enum(id) => Const::Member(*id, *i),
                _ => Const::Other,
            },
            ExprKind::Var(var) => self.scope(scope).vars.get(var).cloned().unwrap_or(Const::Other),
            ExprKind::Instance(id) => self.instance(*id, scope),
            ExprKind::Construct { constructor, args } => {
                let ty = self.substituted(&e.ty, scope);
                let name =
                    full_name(&self.scope(scope).path, self.program.declared_name(&ty).unwrap_or_default());
                self.make(&ty, *constructor, args, name, None, scope, e.span)
            }
            ExprKind::Cast(inner) => self.value(inner, scope),
            ExprKind::Binary(op, a, b) => match (self.value(a, scope), self.value(b, scope)) {
                (Const::Int(a), Const::Int(b)) => match integers::binary(*op, a, b) {
                    Some(Folded::Int(n)) => Const::Int(n),
                    Some(Folded::Bool(b)) => Const::Bool(b),
                    None => Const::Other,
                },
                (Const::Bool(a), Const::Bool(b)) => match op {
                    BinaryOp::And => Const::Bool(a && b),
                    BinaryOp::Or => Const::Bool(a || b),
                    BinaryOp::Eq => Const::Bool(a == b),
                    BinaryOp::Ne => Const::Bool(a != b),
                    _ => Const::Other,
                },
                (Const::Bool(false), _) if *op == BinaryOp::And => Const::Bool(false),
                (Const::Bool(true), _) if *op == BinaryOp::Or => Const::Bool(true),
                _ => Const::Other,
            },
            ExprKind::Unary(p4jet_syntax::ast::UnaryOp::Not, inner) => match self.value(inner, scope) {
                Const::Bool(b) => Const::Bool(!b),
                _ => Const::Other,
            },
            _ => Const::Other,
        }
    }

    /// Finds what an applied parser or control contains.
    fn walk_block(&mut self, id: ObjectId) {
        let Object::Block(decl, scope) = *self.object(id) else { return };
        let program = self.program;
        let none = HashMap::new();
        let body = match decl {
            Decl::Parser(id) => program.parsers[id.index()].body.as_ref().map(|b| &b.locals),
            Decl::Control(id) => program.controls[id.index()].body.as_ref().map(|b| &b.locals),
        };
        for local in body.into_iter().flatten() {
            if let Local::Instance(id) = local
                && let Some(object) = self.scope(scope).instances.get(id)
                && matches!(self.object(*object), Object::Extern(_))
            {
                self.externs.push(*object);
            }
        }
        match decl {
            Decl::Parser(id) => {
                let Some(body) = &program.parsers[id.index()].body else { return };
                let at = At { scope, types: &none, in_control: false, in_action: false };
                let mut open = vec![body.start];
                let mut seen = HashSet::new();
                let mut used = HashSet::new();
                while let Some(state) = open.pop() {
                    let Some(state) = body.states.get(state as usize).filter(|_| seen.insert(state)) else {
                        continue;
                    };
                    self.stmts(&state.stmts, at);
                    let mut next = |target: &Target| {
                        if let Target::State(state) = target {
                            open.push(*state);
                        }
                    };
                    match &state.transition {
                        Transition::Direct(target, _) => next(target),
                        Transition::Select { cases, .. } => {
                            for case in cases {
                                next(&case.target);
                                for set in &case.keysets {
                                    if let KeySet::ValueSet(id) = set {
                                        used.insert(*id);
                                    }
                                }
                            }
                        }
                    }
                }
                for local in &body.locals {
                    if let Local::ValueSet(id) = local
                        && used.contains(id)
                    {
                        self.value_sets.push((scope, *id));
                    }
                }
            }
            Decl::Control(id) => {
                let Some(body) = &program.controls[id.index()].body else { return };
                self.stmts(&body.apply, At { scope, types: &none, in_control: true, in_action: false });
            }
        }
    }

    fn stmts(&mut self, stmts: &'a [Stmt], at: At<'_>) {
        for stmt in stmts {
            if self.failed.is_some() {
                return;
            }
            self.stmt(stmt, at);
        }
    }

    fn stmt(&mut self, stmt: &'a Stmt, at: At<'_>) {
        match &stmt.kind {
            StmtKind::Call(call) => self.call(call, at),
            StmtKind::Var(_, Some(value)) | StmtKind::Return(Some(value)) => self.expr(value, at),
            StmtKind::Assign(place, value) | StmtKind::AssignOp(place, _, value) => {
                self.expr(place, at);
                self.expr(value, at);
            }
            StmtKind::If(cond, then, other) => match self.value(cond, at.scope) {
                Const::Bool(true) => self.stmts(then, at),
                Const::Bool(false) => self.stmts(other, at),
                _ => {
                    self.expr(cond, at);
                    self.stmts(then, at);
                    self.stmts(other, at);
                }
            },
            StmtKind::Block { stmts, .. } => self.stmts(stmts, at),
            StmtKind::SwitchAction { table, cases } => {
                self.table(*table, at);
                cases.iter().for_each(|case| self.stmts(&case.body, at));
            }
            StmtKind::Switch { value, cases } => {
                self.expr(value, at);
                cases.iter().for_each(|case| self.stmts(&case.body, at));
            }
            StmtKind::For { init, cond, update, body } => {
                self.stmts(init, at);
                self.expr(cond, at);
                self.stmts(update, at);
                self.stmts(body, at);
            }
            StmtKind::ForIn { collection, body, .. } => {
                match collection {
                    Collection::Range(lo, hi) => {
                        self.expr(lo, at);
                        self.expr(hi, at);
                    }
                    Collection::Elements(elements) => self.expr(elements, at),
                }
                self.stmts(body, at);
            }
            StmtKind::Var(_, None)
            | StmtKind::Return(None)
            | StmtKind::Instance(_)
            | StmtKind::Break
            | StmtKind::Continue
            | StmtKind::Exit => {}
        }
    }

    fn expr(&mut self, e: &'a Expr, at: At<'_>) {
        match &e.kind {
            ExprKind::Call(call) => self.call(call, at),
            ExprKind::ApplyHit { table, .. } => self.table(*table, at),
            _ => e.operands().for_each(|operand| self.expr(operand, at)),
        }
    }

    fn call(&mut self, call: &'a Call, at: At<'_>) {
        call.args.iter().flatten().for_each(|arg| self.expr(arg, at));
        if self.nesting >= NESTING_MAX {
            return self.too_large(call.span);
        }
        let program = self.program;
        self.nesting += 1;
        match &call.callee {
            Callee::TableApply(table) => self.table(*table, at),
            Callee::Apply(object) => {
                if let Const::Object(object) = self.value(object, at.scope) {
                    self.apply(object);
                }
            }
            Callee::DirectApply(ty) => {
                let object = match self.scope(at.scope).direct.get(&call.span) {
                    Some(object) => Const::Object(*object),
                    None => {
                        let ty = self.substituted(ty, at.scope);
                        let name = full_name(
                            &self.scope(at.scope).path,
                            self.program.declared_name(&ty).unwrap_or_default(),
                        );
                        self.make(&ty, 0, &[], name, None, at.scope, call.span)
                    }
                };
                if let Const::Object(object) = object {
                    self.scopes[at.scope.0].direct.insert(call.span, object);
                    self.apply(object);
                }
            }
            Callee::Action(id) => {
                if !at.in_action && !self.called.contains(&(at.scope, *id)) {
                    self.called.push((at.scope, *id));
                }
                self.stmts(&program.actions[id.index()].body, At { in_action: true, ..at });
            }
            Callee::Function(id) => self.function(*id, call, at),
            Callee::Method { object, .. } => self.expr(object, at),
            Callee::SetValid(_)
            | Callee::SetInvalid(_)
            | Callee::IsValid(_)
            | Callee::PushFront(..)
            | Callee::PopFront(..) => {}
        }
        self.nesting -= 1;
    }

    fn function(&mut self, id: FunctionId, call: &'a Call, at: At<'_>) {
        let function = &self.program.functions[id.index()];
        let types: Vec<Type> = call
            .type_args
            .iter()
            .map(|ty| self.substituted(&replace_params(ty, &|id| at.types.get(&id).cloned()), at.scope))
            .collect();
        match &function.body {
            Some(body) => {
                let types = function.type_params.iter().copied().zip(types).collect();
                self.stmts(body, At { types: &types, ..at });
            }
            None if at.in_control => self.calls.push((&function.name, types, call.span)),
            None => {}
        }
    }

    fn table(&mut self, id: TableId, at: At<'_>) {
        if !self.seen_tables.insert((at.scope, id)) {
            return;
        }
        if self.tables.len() >= OBJECTS_MAX {
            return self.too_large(self.program.tables[id.index()].span);
        }
        self.tables.push((at.scope, id));
        let program = self.program;
        let table = &program.tables[id.index()];
        table.keys.iter().for_each(|key| self.expr(&key.expr, at));
        let mut actions: Vec<ActionId> = Vec::new();
        for action in table.actions.iter().map(|listed| &listed.action).chain([&table.default]) {
            if !actions.contains(&action.action) {
                actions.push(action.action);
                self.stmts(&program.actions[action.action.index()].body, At { in_action: true, ..at });
            }
        }
    }
}
