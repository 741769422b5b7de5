//! Mistakes that only the whole program reveals: headers that are never emitted, counters that are called and ports that are set
//! without effect.

use super::flow::{path, root};
use crate::direct::misuses;
use crate::typed::*;
use crate::walk::{Body, Visit, bodies, params, walk};
use p4jet_syntax::ast::StructKind;
use p4jet_syntax::diagnostic::Diagnostic;
use std::collections::{BTreeMap, HashSet};

pub(super) fn warn(program: &Program, found: &mut Vec<Diagnostic>) {
    let Some(main) = program.main else { return };
    let mut blocks = Blocks::default();
    blocks.of(program, &program.instances[main.index()].args);
    never_emitted(program, &blocks, found);
    if let Type::Package(package, _) = &program.instances[main.index()].ty
        && program.packages[package.index()].name == "V1Switch"
    {
        egress_port(program, &program.instances[main.index()].args, found);
        direct_counters(program, found);
    }
}

/// The parsers and controls of a package.
#[derive(Default)]
struct Blocks {
    parsers: Vec<ParserId>,
    controls: Vec<ControlId>,
    seen: HashSet<InstanceId>,
}

impl Blocks {
    fn of(&mut self, program: &Program, args: &[Option<Expr>]) {
        for arg in args.iter().flatten() {
            match &arg.ty {
                Type::Parser(id, _) => self.parsers.push(*id),
                Type::Control(id, _) => self.controls.push(*id),
                Type::Package(..) => match &arg.kind {
                    ExprKind::Construct { args, .. } => self.of(program, args),
                    ExprKind::Instance(id) if self.seen.insert(*id) => {
                        self.of(program, &program.instances[id.index()].args);
                    }
                    _ => {}
                },
                _ => {}
            }
        }
    }
}

// Headers that are set valid but never emitted.

/// A field of a struct type, in any variable.
type Member = (StructId, u32);

fn never_emitted(program: &Program, blocks: &Blocks, found: &mut Vec<Diagnostic>) {
    let is_deparser = |control: &&Control| control.params.iter().any(|p| is_packet_out(program, p));
    let deparsers: Vec<&Control> =
        blocks.controls.iter().map(|id| &program.controls[id.index()]).filter(is_deparser).collect();
    let parsed = blocks.parsers.iter().flat_map(|id| &program.parsers[id.index()].params);
    let parsed: Vec<&Type> = parsed.map(|param| &program.vars[param.var.index()].ty).collect();
    // The structs of headers, which come from a parser and go to a deparser.
    let mut headers = Inside::default();
    for param in deparsers.iter().flat_map(|control| &control.params) {
        let ty = &program.vars[param.var.index()].ty;
        if parsed.contains(&ty) {
            headers.add(program, ty);
        }
    }
    let Some(deparser) = deparsers.first().filter(|_| !headers.structs.is_empty()) else { return };
    let mut uses = Uses::new(program);
    bodies(program).for_each(|body| walk(program, body, &mut uses));
    for (member, header) in &uses.set_valid {
        let (owner, field) = *member;
        let ty = &program.structs[owner.index()].fields[field as usize].ty;
        let is_emitted = uses.emitted.members.contains(member)
            || uses.emitted.structs.contains(&owner)
            || header_of(ty).is_some_and(|header| uses.emitted_types.contains(&header));
        // A header that is not part of any packet may serve as a variable.
        let is_variable = !uses.extracted.contains(member) && uses.is_read(member);
        if is_emitted || is_variable || !headers.structs.contains(&owner) {
            continue;
        }
        let what = path(program, header);
        let text = format!("header `{what}` is set valid, but never emitted");
        let name = &deparser.name;
        found.push(
            Diagnostic::warning("never-emitted", header.span, text)
                .related(deparser.span, format!("control `{name}` assembles the packet"))
                .note(format!("without an `emit` of `{what}`, no packet leaves with it")),
        );
    }
}

fn is_packet_out(program: &Program, param: &Param) -> bool {
    matches!(&program.vars[param.var.index()].ty,
        Type::Extern(id, _) if program.externs[id.index()].name == "packet_out")
}

/// Returns the type of a header or union, or of the elements of a stack.
fn header_of(ty: &Type) -> Option<StructId> {
    match ty {
        Type::Struct(id, _) => Some(*id),
        Type::Stack(element, _) => header_of(element),
        _ => None,
    }
}

/// The structs inside types, each examined once.
#[derive(Default)]
struct Inside {
    structs: HashSet<StructId>,
    /// Fields that are named individually.
    members: HashSet<Member>,
}

impl Inside {
    fn add(&mut self, program: &Program, ty: &Type) {
        let mut open = vec![ty];
        while let Some(ty) = open.pop() {
            match ty {
                Type::Struct(id, args) => {
                    open.extend(args);
                    if self.structs.insert(*id) {
                        open.extend(program.structs[id.index()].fields.iter().map(|field| &field.ty));
                    }
                }
                Type::Stack(element, _) => open.push(element),
                Type::Tuple(types) => open.extend(types),
                _ => {}
            }
        }
    }
}

/// A program's uses of the members of structs.
struct Uses<'a> {
    program: &'a Program,
    /// Parameters, whose values may reach the deparser, unlike those of the program's own variables.
    params: HashSet<VarId>,
    /// For each member, the first place, in a parameter, that makes it valid.
    set_valid: BTreeMap<Member, &'a Expr>,
    extracted: HashSet<Member>,
    emitted: Inside,
    /// Header types with an emitted variable.
    emitted_types: HashSet<StructId>,
    read: Inside,
}

impl<'a> Uses<'a> {
    fn new(program: &'a Program) -> Self {
        let blocks = program.controls.iter().map(|control| &control.params);
        let blocks = blocks.chain(program.parsers.iter().map(|parser| &parser.params));
        let code = program.actions.iter().map(|action| &action.params);
        let code = code.chain(program.functions.iter().map(|function| &function.params));
        Uses {
            program,
            params: blocks.chain(code).flatten().map(|param| param.var).collect(),
            set_valid: BTreeMap::new(),
            extracted: HashSet::new(),
            emitted: Inside::default(),
            emitted_types: HashSet::new(),
            read: Inside::default(),
        }
    }

    fn made_valid(&mut self, header: &'a Expr) {
        if let Some(member) = member(header)
            && root(header).is_some_and(|var| self.params.contains(&var))
        {
            self.set_valid.entry(member).or_insert(header);
        }
    }

    /// An extern may read or emit everything inside the values that it receives.
    fn hand_out(&mut self, call: &'a Call) {
        let sends = params(self.program, &call.callee).iter().any(|p| is_packet_out(self.program, p));
        for arg in call.args.iter().flatten() {
            self.read.add(self.program, &arg.ty);
            if sends {
                self.emit(arg);
            }
        }
    }

    fn is_read(&self, member: &Member) -> bool {
        self.read.members.contains(member) || self.read.structs.contains(&member.0)
    }

    fn emit(&mut self, value: &'a Expr) {
        match &value.kind {
            ExprKind::Cast(inner) => self.emit(inner),
            ExprKind::Aggregate(items) => items.iter().for_each(|item| self.emit(item)),
            _ => {
                let member = member(value);
                // A header in its own variable may be a copy of any header of its type.
                match header_of(&value.ty) {
                    Some(id) if self.program.structs[id.index()].kind == StructKind::Header => {
                        self.emitted_types.extend(member.is_none().then_some(id));
                    }
                    _ => self.emitted.add(self.program, &value.ty),
                }
                self.emitted.members.extend(member);
            }
        }
    }
}

/// Returns the field that a header is, or the stack that contains it.
fn member(place: &Expr) -> Option<Member> {
    match &place.kind {
        ExprKind::Field(base, field) => match &base.ty {
            Type::Struct(id, _) => Some((*id, *field)),
            _ => None,
        },
        ExprKind::Index(base, _) | ExprKind::StackNext(base) | ExprKind::StackLast(base) => member(base),
        _ => None,
    }
}

impl<'a> Visit<'a> for Uses<'a> {
    fn read(&mut self, expr: &'a Expr) {
        let mut place = expr;
        loop {
            self.read.members.extend(member(place));
            match &place.kind {
                ExprKind::Field(base, _)
                | ExprKind::Index(base, _)
                | ExprKind::StackNext(base)
                | ExprKind::StackLast(base)
                | ExprKind::StackLastIndex(base) => place = base,
                _ => break,
            }
        }
    }

    fn write(&mut self, place: &'a Expr, value: Option<&'a Expr>) {
        let is_header = matches!(&place.ty, Type::Struct(id, _) if self.program.structs[id.index()].kind == StructKind::Header);
        if is_header && value.is_some_and(|value| matches!(value.kind, ExprKind::Aggregate(_))) {
            self.made_valid(place);
        }
    }

    fn call(&mut self, call: &'a Call) {
        let program = self.program;
        match &call.callee {
            Callee::SetValid(header) => self.made_valid(header),
            Callee::Method { ext, method, .. } => {
                let ext = &program.externs[ext.index()];
                match (ext.name.as_str(), ext.methods[*method as usize].name.as_str()) {
                    ("packet_in", "extract") => {
                        self.extracted.extend(call.args.first().and_then(|arg| member(arg.as_ref()?)));
                    }
                    ("packet_out", _) => call.args.iter().flatten().for_each(|arg| self.emit(arg)),
                    _ => self.hand_out(call),
                }
            }
            Callee::Function(id) if program.functions[id.index()].body.is_none() => self.hand_out(call),
            _ => {}
        }
    }
}

// Direct counters of v1model that are called outside the actions of their table.

fn direct_counters(program: &Program, found: &mut Vec<Diagnostic>) {
    for misuse in misuses(program, &["counters"], Some("direct_counter")) {
        let name = &program.instances[misuse.object.index()].name;
        let warning = |text: String| Diagnostic::warning("direct-counter", misuse.span, text);
        found.push(match misuse.owner.map(|owner| &program.tables[owner.index()]) {
            Some(owner) => {
                let (table, place) = (&owner.name, &misuse.place);
                let text = format!(
                    "`count()` has no effect: `{name}` belongs to table `{table}`, but is used {place}"
                );
                warning(text)
                    .related(owner.span, "it belongs to this table")
                    .note(format!("it counts the packets of table `{table}`, and no others"))
            }
            None => {
                warning(format!("`count()` has no effect: the direct counter `{name}` belongs to no table"))
                    .note(
                        "a direct counter counts the packets of the table whose property `counters` names it",
                    )
            }
        });
    }
}

// Egress ports that ingress writes and nothing reads.

/// The index of the ingress control among the arguments of `V1Switch`, and that of the egress control.
const INGRESS: usize = 2;
const EGRESS: usize = 3;

fn egress_port(program: &Program, args: &[Option<Expr>], found: &mut Vec<Diagnostic>) {
    let from = |i: usize| match args.get(i) {
        Some(Some(Expr { ty: Type::Control(id, _), .. })) => Reached::from(program, Body::Control(*id)),
        _ => Reached::new(program),
    };
    let egress = from(EGRESS).bodies;
    let mut ports = Ports { program, found };
    for body in from(INGRESS).order {
        if !egress.contains(&body) {
            walk(program, body, &mut ports);
        }
    }
}

/// The bodies that one of them runs, including itself.
struct Reached<'a> {
    program: &'a Program,
    bodies: HashSet<Body>,
    order: Vec<Body>,
}

impl<'a> Reached<'a> {
    fn new(program: &'a Program) -> Self {
        Reached { program, bodies: HashSet::new(), order: Vec::new() }
    }

    fn from(program: &'a Program, first: Body) -> Self {
        let mut reached = Reached::new(program);
        reached.add(first);
        let mut done = 0;
        while let Some(body) = reached.order.get(done).copied() {
            done += 1;
            walk(program, body, &mut reached);
        }
        reached
    }

    /// Adds a body. Returns false if it was known.
    fn add(&mut self, body: Body) {
        if self.bodies.insert(body) {
            self.order.push(body);
        }
    }

    fn block(&mut self, ty: &Type) {
        match ty {
            Type::Parser(id, _) => self.add(Body::Parser(*id)),
            Type::Control(id, _) => self.add(Body::Control(*id)),
            _ => {}
        }
    }
}

impl<'a> Visit<'a> for Reached<'a> {
    fn call(&mut self, call: &'a Call) {
        match &call.callee {
            Callee::Action(id) => self.add(Body::Action(*id)),
            Callee::Function(id) => self.add(Body::Function(*id)),
            Callee::Apply(object) => self.block(&object.ty),
            Callee::DirectApply(ty) => self.block(ty),
            _ => {}
        }
    }

    fn apply(&mut self, id: TableId) {
        // Once for each table: it may have thousands of actions, and be applied at thousands of places.
        if self.bodies.contains(&Body::Table(id)) {
            return;
        }
        self.add(Body::Table(id));
        let table = &self.program.tables[id.index()];
        let listed = table.actions.iter().map(|listed| listed.action.action);
        listed.chain([table.default.action]).for_each(|action| self.add(Body::Action(action)));
    }
}

struct Ports<'a, 'f> {
    program: &'a Program,
    found: &'f mut Vec<Diagnostic>,
}

impl Ports<'_, '_> {
    /// True if a place is this field of the standard metadata, or part of it.
    fn is(&self, place: &Expr, name: &str) -> bool {
        match &place.kind {
            ExprKind::Slice(value, ..) | ExprKind::SliceAt { value, .. } => self.is(value, name),
            ExprKind::Field(base, field) => match &base.ty {
                Type::Struct(id, _) => {
                    let decl = &self.program.structs[id.index()];
                    decl.name == "standard_metadata_t" && decl.fields[*field as usize].name == name
                }
                _ => false,
            },
            _ => false,
        }
    }
}

impl<'a> Visit<'a> for Ports<'a, '_> {
    fn stmts(&mut self, stmts: &'a [Stmt]) {
        let writes = |name: &str| -> Vec<&'a Expr> {
            let targets = stmts.iter().filter_map(|stmt| match &stmt.kind {
                StmtKind::Assign(place, _) | StmtKind::AssignOp(place, ..) => Some(place),
                _ => None,
            });
            targets.filter(|place| self.is(place, name)).collect()
        };
        // A program that sets both knows which of them counts.
        if !writes("egress_spec").is_empty() {
            return;
        }
        for place in writes("egress_port") {
            let text = "ingress writes `egress_port`, which does not choose the port";
            let spec = path(self.program, place).replace("egress_port", "egress_spec");
            self.found.push(
                Diagnostic::warning("egress-port", place.span, text)
                    .label("egress gets another value")
                    .note("v1model sends a packet to the port in `egress_spec`, and sets `egress_port` from it after ingress")
                    .meant(spec),
            );
        }
    }
}
