//! Counts the source: every statement reachable from `main`, once, at its place.
//!
//! The typed program is counted, not the IR, because lowering inlines calls and turns some statements into several where
//! headers may be invalid.

use super::count::{Counts, What};
use p4jet_analysis::typed::{
    ActionId, ActionRef, Call, Callee, Collection, Control, ControlId, Expr, ExprKind, FunctionId, Instance,
    InstanceId, KeySet, Local, Param, Parser, ParserId, Program, Stmt, StmtKind, StructId, TableId,
    Transition, Type, VarId,
};
use p4jet_ir::SourceLoc;
use p4jet_syntax::ast::{BinaryOp, Direction, StructKind, UnaryOp};
use p4jet_syntax::span::{FileId, Span};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// The counts of a program, statement by statement.
pub(super) struct Source {
    /// The places of statements, with the counts of each, without the statements inside it.
    sites: Vec<(Span, Counts)>,
    /// For the files of sites: the start of each line.
    files: HashMap<String, (FileId, String, Vec<usize>)>,
    /// Counts that belong to no statement: states, tables, actions.
    structure: Counts,
}

impl Source {
    /// Counts the blocks of `main`.
    pub fn new(program: &Program) -> Source {
        let mut walker = Walker {
            program,
            sites: Vec::new(),
            known: HashMap::new(),
            structure: Counts::default(),
            metadata: HashMap::new(),
            locals: HashSet::new(),
            seen: Seen::default(),
            site: 0,
            in_parser: false,
            copied: HashSet::new(),
        };
        if let Some(main) = program.main {
            walker.blocks(main);
        }
        let mut files = HashMap::new();
        for (span, _) in &walker.sites {
            let file = &program.sources.files[span.file.0 as usize];
            files.entry(file.name.clone()).or_insert_with(|| {
                let ends = file.text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(at, _)| at + 1);
                (span.file, file.text.clone(), std::iter::once(0).chain(ends).collect())
            });
        }
        Source { sites: walker.sites, files, structure: walker.structure }
    }

    /// Returns the counts of the whole program.
    pub fn whole(&self) -> Counts {
        self.sites.iter().fold(self.structure.clone(), |sum, (_, counts)| sum.add(counts))
    }

    /// Returns the counts of the statements that contain these places, each statement once.
    pub fn of_places<'a>(&self, places: impl Iterator<Item = &'a SourceLoc>) -> Counts {
        let places: BTreeSet<(FileId, u32)> = places.filter_map(|place| self.offset(place)).collect();
        let mut order: Vec<usize> = (0..self.sites.len()).collect();
        // Enclosing statements come before those inside.
        order.sort_by_key(|&i| {
            let span = self.sites[i].0;
            (span.file, span.lo, std::cmp::Reverse(span.hi))
        });
        let mut order = order.into_iter().peekable();
        let mut open: Vec<usize> = Vec::new();
        let mut found: BTreeSet<usize> = BTreeSet::new();
        for (file, at) in places {
            while let Some(&site) = order.peek() {
                let span = self.sites[site].0;
                if (span.file, span.lo) > (file, at) {
                    break;
                }
                open.push(site);
                order.next();
            }
            let ended = |site: &usize| {
                let span = self.sites[*site].0;
                span.file != file || span.hi <= at
            };
            while open.last().is_some_and(ended) {
                open.pop();
            }
            found.extend(open.last());
        }
        found.into_iter().fold(Counts::default(), |sum, site| sum.add(&self.sites[site].1))
    }

    fn offset(&self, place: &SourceLoc) -> Option<(FileId, u32)> {
        let (file, text, lines) = self.files.get(&place.file)?;
        let line = *lines.get((place.line as usize).checked_sub(1)?)?;
        let rest = text.get(line..)?;
        let (column, _) = rest.char_indices().nth((place.column as usize).checked_sub(1)?)?;
        Some((*file, (line + column) as u32))
    }
}

/// The counts so far.
#[derive(Default)]
struct Seen {
    parsers: HashSet<ParserId>,
    controls: HashSet<ControlId>,
    actions: HashSet<ActionId>,
    functions: HashSet<FunctionId>,
    tables: HashSet<TableId>,
    instances: HashSet<InstanceId>,
}

/// The owner of the metadata in a struct.
#[derive(Clone)]
struct Metadata {
    /// True for the architecture's, false for the program's.
    architecture: bool,
    /// Prefix of its fields' names.
    prefix: String,
}

/// The place that an expression refers to.
enum Place {
    HeaderField,
    Metadata { architecture: bool, name: String },
    Other,
}

struct Walker<'a> {
    program: &'a Program,
    sites: Vec<(Span, Counts)>,
    /// Sites by place; all statements of a macro share one.
    known: HashMap<Span, usize>,
    structure: Counts,
    metadata: HashMap<StructId, Metadata>,
    /// Variables, as opposed to parameters: they are not metadata, regardless of their type.
    locals: HashSet<VarId>,
    seen: Seen,
    /// The current site.
    site: usize,
    in_parser: bool,
    /// Assignments, by place, that together copy a header.
    copied: HashSet<Span>,
}

impl<'a> Walker<'a> {
    fn count(&mut self, what: What) {
        self.count_n(what, 1);
    }

    fn count_n(&mut self, what: What, n: usize) {
        self.counts()[what] += n;
    }

    fn counts(&mut self) -> &mut Counts {
        &mut self.sites[self.site].1
    }

    /// Attributes the counts of `work` to a place.
    fn at(&mut self, span: Span, work: impl FnOnce(&mut Self)) {
        let next = self.sites.len();
        let site = *self.known.entry(span).or_insert(next);
        if site == next {
            self.sites.push((span, Counts::default()));
        }
        let outer = std::mem::replace(&mut self.site, site);
        work(self);
        self.site = outer;
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Blocks

    /// The parsers and controls of a package.
    fn blocks(&mut self, main: InstanceId) {
        let instance = &self.program.instances[main.index()];
        self.package(&instance.ty, &instance.args);
    }

    fn package(&mut self, ty: &Type, args: &'a [Option<Expr>]) {
        let Type::Package(id, _) = ty else { return };
        let params = &self.program.packages[id.index()].params;
        let mut blocks = Vec::new();
        for (param, arg) in params.iter().zip(args) {
            let Some(arg) = arg else { continue };
            match (&self.program.vars[param.var.index()].ty, &arg.ty, self.object_args(arg)) {
                (Type::Parser(as_, _), Type::Parser(id, _), _) => {
                    let own = &self.program.parsers[id.index()].params;
                    self.block_params(&self.program.parsers[as_.index()].params, own);
                    blocks.push(arg);
                }
                (Type::Control(as_, _), Type::Control(id, _), _) => {
                    let own = &self.program.controls[id.index()].params;
                    self.block_params(&self.program.controls[as_.index()].params, own);
                    blocks.push(arg);
                }
                (_, ty @ Type::Package(..), Some(args)) => self.package(ty, args),
                _ => {}
            }
        }
        blocks.into_iter().for_each(|block| self.object(block));
    }

    /// Determines whose metadata a block's parameters are: if the architecture leaves the type open, the program's.
    fn block_params(&mut self, as_: &[Param], own: &[Param]) {
        for (as_, own) in as_.iter().zip(own) {
            let own = &self.program.vars[own.var.index()];
            let architecture = !matches!(self.program.vars[as_.var.index()].ty, Type::Param(_));
            if let Type::Struct(id, _) = &own.ty {
                let name = &self.program.structs[id.index()].name;
                let prefix = if architecture { name.trim_end_matches("_t") } else { &own.name };
                self.metadata_struct(&own.ty, &Metadata { architecture, prefix: prefix.to_string() });
            }
        }
    }

    fn metadata_struct(&mut self, ty: &Type, metadata: &Metadata) {
        match ty {
            Type::Struct(id, _) if self.program.structs[id.index()].kind == StructKind::Struct => {
                if self.metadata.contains_key(id) {
                    return;
                }
                self.metadata.insert(*id, metadata.clone());
                for field in &self.program.structs[id.index()].fields {
                    let prefix = format!("{}.{}", metadata.prefix, field.name);
                    self.metadata_struct(&field.ty, &Metadata { prefix, ..*metadata });
                }
            }
            Type::Stack(element, _) => {
                let prefix = format!("{}[]", metadata.prefix);
                self.metadata_struct(element, &Metadata { prefix, ..*metadata });
            }
            _ => {}
        }
    }

    fn object_args(&self, e: &'a Expr) -> Option<&'a [Option<Expr>]> {
        match &e.kind {
            ExprKind::Instance(id) => Some(&self.program.instances[id.index()].args),
            ExprKind::Construct { args, .. } => Some(args),
            _ => None,
        }
    }

    /// Counts an object that is passed to a constructor or applied.
    fn object(&mut self, e: &'a Expr) {
        if let ExprKind::Instance(id) = &e.kind {
            self.instance(*id);
        }
        self.object_args(e).unwrap_or_default().iter().flatten().for_each(|arg| self.object(arg));
        self.object_type(&e.ty);
    }

    fn object_type(&mut self, ty: &Type) {
        match ty {
            Type::Parser(id, _) if self.seen.parsers.insert(*id) => {
                self.parser(&self.program.parsers[id.index()])
            }
            Type::Control(id, _) if self.seen.controls.insert(*id) => {
                self.control(&self.program.controls[id.index()])
            }
            _ => {}
        }
    }

    fn instance(&mut self, id: InstanceId) {
        if !self.seen.instances.insert(id) {
            return;
        }
        let instance: &Instance = &self.program.instances[id.index()];
        instance.args.iter().flatten().for_each(|arg| self.object(arg));
        instance.methods.iter().for_each(|method| self.function(*method));
    }

    fn locals(&mut self, locals: &'a [Local]) {
        for local in locals {
            match local {
                Local::Var(var, value) => {
                    self.locals.insert(*var);
                    if let Some(value) = value {
                        self.at(value.span, |w| w.read(value));
                    }
                }
                Local::Instance(id) => self.instance(*id),
                Local::Action(_) | Local::Table(_) | Local::ValueSet(_) => {}
            }
        }
    }

    fn parser(&mut self, parser: &'a Parser) {
        let Some(body) = &parser.body else { return };
        let outer = std::mem::replace(&mut self.in_parser, true);
        self.locals(&body.locals);
        let (mut work, mut reached) = (vec![body.start], HashSet::from([body.start]));
        while let Some(at) = work.pop() {
            let state = &body.states[at as usize];
            self.structure[What::ParserStates] += 1;
            self.stmts(&state.stmts);
            let mut lead = |target| {
                if let p4jet_analysis::typed::Target::State(next) = target
                    && reached.insert(next)
                {
                    work.push(next);
                }
            };
            match &state.transition {
                Transition::Direct(target, _) => {
                    self.structure[What::Transitions] += 1;
                    lead(*target);
                }
                Transition::Select { keys, cases, span } => {
                    self.structure[What::Transitions] += cases.len();
                    cases.iter().for_each(|case| lead(case.target));
                    self.at(*span, |w| {
                        w.count(What::ParserBranches);
                        keys.iter().for_each(|key| w.read(key));
                        cases
                            .iter()
                            .flat_map(|case| &case.keysets)
                            .flat_map(KeySet::exprs)
                            .for_each(|expr| w.read(expr));
                    });
                }
            }
        }
        self.in_parser = outer;
    }

    fn control(&mut self, control: &'a Control) {
        let Some(body) = &control.body else { return };
        let outer = std::mem::replace(&mut self.in_parser, false);
        self.locals(&body.locals);
        self.stmts(&body.apply);
        self.in_parser = outer;
    }

    fn function(&mut self, id: FunctionId) {
        if self.seen.functions.insert(id)
            && let Some(body) = &self.program.functions[id.index()].body
        {
            self.stmts(body);
        }
    }

    fn action(&mut self, id: ActionId) {
        let action = &self.program.actions[id.index()];
        if self.seen.actions.insert(id) && action.name != "NoAction" {
            self.structure[What::Actions] += 1;
            self.stmts(&action.body);
        }
    }

    /// Counts a lookup of a table.
    fn apply(&mut self, id: TableId) {
        let table = &self.program.tables[id.index()];
        // A selector's keys select a member of a group; they find no entry.
        let keys = table.keys.iter().filter(|key| key.match_kind != "selector");
        let keys: Vec<String> =
            keys.map(|key| format!("{}[{}]", key.match_kind, self.width(&key.expr.ty))).collect();
        if !keys.is_empty() {
            *self.counts().lookups.entry(keys.join("+")).or_default() += 1;
        }
        if !self.seen.tables.insert(id) {
            return;
        }
        self.structure[What::Tables] += 1;
        // Reads of keys belong to the table, not to the place that applies it.
        self.at(table.span, |w| {
            table.keys.iter().for_each(|key| w.read(&key.expr));
            let bound = |w: &mut Self, action: &'a ActionRef| {
                let params = &w.program.actions[action.action.index()].params;
                w.args(params, &action.args, false);
            };
            table.actions.iter().for_each(|action| bound(w, &action.action));
        });
        let outer = std::mem::replace(&mut self.in_parser, false);
        table.actions.iter().for_each(|action| self.action(action.action.action));
        self.action(table.default.action);
        self.in_parser = outer;
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Statements

    fn stmts(&mut self, stmts: &'a [Stmt]) {
        self.find_copies(stmts);
        for stmt in stmts {
            match &stmt.kind {
                StmtKind::Block { stmts, .. } => self.stmts(stmts),
                StmtKind::Return(None) | StmtKind::Break | StmtKind::Continue | StmtKind::Exit => {}
                _ => self.at(stmt.span, |w| w.stmt(stmt)),
            }
        }
    }

    fn stmt(&mut self, stmt: &'a Stmt) {
        match &stmt.kind {
            StmtKind::Var(var, value) => {
                self.locals.insert(*var);
                value.iter().for_each(|value| self.read(value));
            }
            StmtKind::Instance(id) => self.instance(*id),
            StmtKind::Assign(..) if self.copied.contains(&stmt.span) => {}
            StmtKind::Assign(l, r) => self.assign(l, r),
            StmtKind::AssignOp(l, op, r) => {
                self.operator(*op);
                self.read(l);
                self.read(r);
                self.write(l);
            }
            StmtKind::Call(call) => self.call(call),
            StmtKind::If(cond, then, otherwise) => {
                self.branch();
                self.read(cond);
                self.stmts(then);
                self.stmts(otherwise);
            }
            StmtKind::Block { stmts, .. } => self.stmts(stmts),
            StmtKind::Return(value) => value.iter().for_each(|value| self.read(value)),
            StmtKind::Break | StmtKind::Continue | StmtKind::Exit => {}
            StmtKind::SwitchAction { table, cases } => {
                self.branch();
                self.apply(*table);
                cases.iter().for_each(|case| self.stmts(&case.body));
            }
            StmtKind::Switch { value, cases } => {
                self.branch();
                self.read(value);
                cases.iter().for_each(|case| self.stmts(&case.body));
            }
            StmtKind::For { init, cond, update, body } => {
                self.branch();
                self.stmts(init);
                self.read(cond);
                self.stmts(body);
                self.stmts(update);
            }
            StmtKind::ForIn { var, collection, body } => {
                self.locals.insert(*var);
                self.branch();
                match collection {
                    Collection::Range(lo, hi) => {
                        self.read(lo);
                        self.read(hi);
                    }
                    Collection::Elements(e) => self.read(e),
                }
                self.stmts(body);
            }
        }
    }

    fn branch(&mut self) {
        self.count(if self.in_parser { What::ParserBranches } else { What::Branches });
    }

    /// Finds assignments that set all fields of a header, one by one, to those of one other header: a copy of it.
    fn find_copies(&mut self, stmts: &[Stmt]) {
        #[derive(Default)]
        struct Group {
            sources: BTreeSet<String>,
            fields: BTreeSet<u32>,
            spans: Vec<Span>,
            fields_of_all: usize,
        }
        let mut groups: BTreeMap<String, Group> = BTreeMap::new();
        for stmt in stmts {
            let StmtKind::Assign(l, r) = &stmt.kind else { continue };
            let (ExprKind::Field(to, field), ExprKind::Field(from, _)) = (&l.kind, &r.kind) else { continue };
            let headers = self.header_fields(&to.ty).zip(self.header_fields(&from.ty));
            let (Some((fields, _)), Some(target), Some(source)) = (headers, path(to), path(from)) else {
                continue;
            };
            if target == source {
                continue;
            }
            let group = groups.entry(target).or_default();
            group.sources.insert(source);
            group.fields.insert(*field);
            group.spans.push(stmt.span);
            group.fields_of_all = fields;
        }
        for group in groups.into_values() {
            let whole = group.fields.len() == group.fields_of_all && group.fields_of_all > 1;
            if whole && group.sources.len() == 1 {
                self.at(group.spans[0], |w| w.count(What::HeaderCopies));
                self.copied.extend(group.spans);
            }
        }
    }

    /// Returns the number of fields of a header.
    fn header_fields(&self, ty: &Type) -> Option<usize> {
        match ty {
            Type::Struct(id, _) if self.program.structs[id.index()].kind == StructKind::Header => {
                Some(self.program.structs[id.index()].fields.len())
            }
            _ => None,
        }
    }

    fn assign(&mut self, l: &'a Expr, r: &'a Expr) {
        let place = self.place(l);
        self.assign_as(&l.ty, &place, r);
    }

    /// Counts an assignment of a value of type `ty`.
    fn assign_as(&mut self, ty: &Type, place: &Place, r: &'a Expr) {
        let r = uncast(r);
        let (headers, _) = self.size(ty);
        if headers == 0 && !matches!(ty, Type::Struct(..)) {
            self.read(r);
            self.write_place(place, ty);
            return;
        }
        let is_header = matches!(self.kind(ty), Some(StructKind::Header | StructKind::HeaderUnion));
        match (&r.kind, ty) {
            (ExprKind::Invalid, _) => self.count_n(What::HeaderRemoves, headers),
            (ExprKind::Aggregate(values), Type::Struct(id, _)) => {
                if is_header {
                    self.count(What::HeaderAdds);
                }
                for (i, value) in values.iter().enumerate() {
                    let fields = &self.program.structs[id.index()].fields;
                    let Some(name) = fields.get(i).map(|field| field.name.clone()) else { continue };
                    let place = match self.metadata.get(id) {
                        _ if is_header => Place::HeaderField,
                        Some(m) => Place::Metadata {
                            architecture: m.architecture,
                            name: format!("{}.{name}", m.prefix),
                        },
                        None => Place::Other,
                    };
                    self.assign_as(&value.ty, &place, value);
                }
            }
            _ => {
                self.count_n(What::HeaderCopies, headers);
                match path(r) {
                    // The fields of a copied header are neither read nor written individually.
                    Some(_) if is_header => self.indices(r),
                    _ => self.read(r),
                }
                if let (Type::Struct(id, _), false) = (ty, is_header) {
                    self.metadata_of_struct(*id, true);
                }
            }
        }
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Expressions

    fn operator(&mut self, op: BinaryOp) {
        match op {
            BinaryOp::Add
            | BinaryOp::Sub
            | BinaryOp::SatAdd
            | BinaryOp::SatSub
            | BinaryOp::Mul
            | BinaryOp::Div
            | BinaryOp::Mod
            | BinaryOp::Shl
            | BinaryOp::Shr => self.count(What::Arithmetic),
            BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor => self.count(What::Bitwise),
            BinaryOp::And
            | BinaryOp::Or
            | BinaryOp::Eq
            | BinaryOp::Ne
            | BinaryOp::Lt
            | BinaryOp::Le
            | BinaryOp::Gt
            | BinaryOp::Ge => self.count(What::Boolean),
            BinaryOp::Concat | BinaryOp::Mask | BinaryOp::Range => {}
        }
    }

    /// Counts the reads of an expression.
    fn read(&mut self, e: &'a Expr) {
        match &e.kind {
            ExprKind::Field(..) | ExprKind::Index(..) | ExprKind::StackNext(_) | ExprKind::StackLast(_) => {
                let place = self.place(e);
                match (&e.ty, place) {
                    (Type::Struct(id, _), _) if !self.is_header(&e.ty) => self.metadata_of_struct(*id, false),
                    (ty, _) if self.size(ty).0 > 0 => {
                        let fields = self.size(ty).1;
                        self.count_n(What::FieldReads, fields);
                    }
                    (_, Place::HeaderField) => self.count(What::FieldReads),
                    (ty, Place::Metadata { architecture, name }) => self.touch(architecture, name, ty, false),
                    (_, Place::Other) => {}
                }
            }
            ExprKind::Var(var) => {
                if let (Type::Struct(id, _), false) = (&e.ty, self.locals.contains(var)) {
                    self.metadata_of_struct(*id, false);
                }
            }
            ExprKind::Slice(e, ..) | ExprKind::Cast(e) | ExprKind::StackLastIndex(e) => self.read_inner(e),
            ExprKind::Call(call) => self.call(call),
            ExprKind::ApplyHit { table, .. } => self.apply(*table),
            _ => {
                match &e.kind {
                    ExprKind::Unary(UnaryOp::Neg, _) => self.count(What::Arithmetic),
                    ExprKind::Unary(UnaryOp::Not, _) => self.count(What::Boolean),
                    ExprKind::Unary(UnaryOp::Complement, _) => self.count(What::Bitwise),
                    ExprKind::Binary(op, ..) => self.operator(*op),
                    ExprKind::Conditional(..) => self.branch(),
                    _ => {}
                }
                e.operands().for_each(|operand| self.read(operand));
            }
        }
    }

    /// `s.lastIndex` does not read the stack.
    fn read_inner(&mut self, e: &'a Expr) {
        if matches!(e.ty, Type::Stack(..)) { self.indices(e) } else { self.read(e) }
    }

    fn write(&mut self, e: &'a Expr) {
        let place = self.place(e);
        self.write_place(&place, &e.ty);
    }

    fn write_place(&mut self, place: &Place, ty: &Type) {
        match place {
            Place::HeaderField => self.count(What::FieldWrites),
            Place::Metadata { architecture, name } => self.touch(*architecture, name.clone(), ty, true),
            Place::Other => {}
        }
    }

    /// Returns the place of an expression; counts the reads of its indices.
    fn place(&mut self, e: &'a Expr) -> Place {
        self.indices(e);
        let mut at = e;
        loop {
            match &at.kind {
                ExprKind::Slice(inner, ..)
                | ExprKind::SliceAt { value: inner, .. }
                | ExprKind::Cast(inner)
                | ExprKind::Index(inner, _)
                | ExprKind::StackNext(inner)
                | ExprKind::StackLast(inner) => at = inner,
                ExprKind::Field(inner, field) => {
                    if self.inside_header(inner) {
                        return Place::HeaderField;
                    }
                    let Type::Struct(id, _) = &inner.ty else { return Place::Other };
                    let (Some(metadata), false) = (self.metadata.get(id), self.is_local(inner)) else {
                        return Place::Other;
                    };
                    let name = &self.program.structs[id.index()].fields[*field as usize].name;
                    let name = format!("{}.{name}", metadata.prefix);
                    return Place::Metadata { architecture: metadata.architecture, name };
                }
                _ => return Place::Other,
            }
        }
    }

    fn inside_header(&self, e: &Expr) -> bool {
        let mut at = e;
        loop {
            if self.is_header(&at.ty) {
                return true;
            }
            match base(at) {
                Some(inner) => at = inner,
                None => return false,
            }
        }
    }

    fn is_local(&self, e: &Expr) -> bool {
        let mut at = e;
        while let Some(inner) = base(at) {
            at = inner;
        }
        !matches!(&at.kind, ExprKind::Var(var) if !self.locals.contains(var))
    }

    /// Counts the reads of the indices of a place.
    fn indices(&mut self, e: &'a Expr) {
        let mut at = e;
        loop {
            match &at.kind {
                ExprKind::Index(_, index) => self.read(index),
                ExprKind::SliceAt { lo, .. } => self.read(lo),
                _ => {}
            }
            match base(at) {
                Some(inner) => at = inner,
                None => break,
            }
        }
        if let ExprKind::Call(call) = &at.kind {
            self.call(call);
        }
    }

    fn touch(&mut self, architecture: bool, name: String, ty: &Type, written: bool) {
        let width = self.width(ty);
        let counts = self.counts();
        let (fields, what) = match (architecture, written) {
            (false, false) => (&mut counts.metadata, What::MetadataReads),
            (false, true) => (&mut counts.metadata, What::MetadataWrites),
            (true, false) => (&mut counts.architecture_metadata, What::ArchitectureReads),
            (true, true) => (&mut counts.architecture_metadata, What::ArchitectureWrites),
        };
        fields.insert(name, width);
        counts[what] += 1;
    }

    /// Counts reads or writes of all fields of a struct.
    fn metadata_of_struct(&mut self, id: StructId, written: bool) {
        let Some(metadata) = self.metadata.get(&id).cloned() else { return };
        for field in &self.program.structs[id.index()].fields {
            match &field.ty {
                Type::Struct(inner, _) => self.metadata_of_struct(*inner, written),
                ty if self.size(ty).0 == 0 => {
                    let name = format!("{}.{}", metadata.prefix, field.name);
                    self.touch(metadata.architecture, name, ty, written);
                }
                _ => {}
            }
        }
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Calls

    fn call(&mut self, call: &'a Call) {
        match &call.callee {
            Callee::Function(id) => {
                let function = &self.program.functions[id.index()];
                let is_extern = function.body.is_none();
                if is_extern && function.name == "static_assert" {
                    return;
                }
                self.args(&function.params, &call.args, is_extern);
                if is_extern {
                    let algorithm = call.args.iter().flatten().find_map(|arg| self.algorithm(arg));
                    self.extern_call(&function.name, algorithm);
                } else {
                    self.function(*id);
                }
            }
            Callee::Action(id) => {
                self.args(&self.program.actions[id.index()].params, &call.args, false);
                self.action(*id);
            }
            Callee::Method { object, ext, method } => {
                let ext = &self.program.externs[ext.index()];
                let method = &ext.methods[*method as usize];
                if let ExprKind::Instance(id) = &object.kind {
                    self.instance(*id);
                }
                match (ext.name.as_str(), method.name.as_str()) {
                    ("packet_in", "extract") => {
                        let header = call.args.first().and_then(Option::as_ref);
                        let ty = header.map(|e| &e.ty).or(call.type_args.first());
                        let fields = ty.map_or(0, |ty| self.size(ty).1);
                        self.count(What::Headers);
                        self.count_n(What::Fields, fields);
                        header.into_iter().for_each(|e| self.indices(e));
                        call.args.iter().skip(1).flatten().for_each(|e| self.read(e));
                    }
                    ("packet_out", "emit") => call.args.iter().flatten().for_each(|e| self.indices(e)),
                    ("packet_in", _) => self.args(&method.params, &call.args, true),
                    ("register" | "Register", name @ ("read" | "write")) => {
                        self.args(&method.params, &call.args, true);
                        let read = name == "read";
                        self.count(if read { What::RegisterReads } else { What::RegisterWrites });
                    }
                    (object_type, name) => {
                        self.args(&method.params, &call.args, true);
                        let given = self.object_args(object).unwrap_or_default();
                        let algorithm = given.iter().flatten().find_map(|arg| self.algorithm(arg));
                        let sum = matches!(object_type, "InternetChecksum" | "Checksum16") && name == "get";
                        let algorithm = if sum { Some("csum16".to_string()) } else { algorithm };
                        self.extern_call(&format!("{object_type}.{name}"), algorithm);
                    }
                }
            }
            Callee::Apply(object) => {
                let params = self.block_parameters(&object.ty);
                self.args(params, &call.args, false);
                self.object(object);
            }
            Callee::DirectApply(ty) => {
                self.args(self.block_parameters(ty), &call.args, false);
                self.object_type(ty);
            }
            Callee::TableApply(table) => self.apply(*table),
            Callee::SetValid(header) => {
                self.indices(header);
                self.count(What::HeaderAdds);
            }
            Callee::SetInvalid(header) => {
                self.indices(header);
                self.count(What::HeaderRemoves);
            }
            Callee::IsValid(header) => self.indices(header),
            Callee::PushFront(stack, _) => {
                self.indices(stack);
                self.count(What::StackShifts);
            }
            Callee::PopFront(stack, n) => {
                self.indices(stack);
                self.count(What::StackShifts);
                self.count_n(What::HeaderRemoves, *n as usize);
            }
        }
    }

    fn block_parameters(&self, ty: &Type) -> &'a [Param] {
        match ty {
            Type::Parser(id, _) => &self.program.parsers[id.index()].params,
            Type::Control(id, _) => &self.program.controls[id.index()].params,
            _ => &[],
        }
    }

    fn args(&mut self, params: &[Param], args: &'a [Option<Expr>], is_extern: bool) {
        for (param, arg) in params.iter().zip(args) {
            let Some(arg) = arg else { continue };
            let whole = matches!(arg.ty, Type::Struct(..) | Type::Stack(..)) && path(arg).is_some();
            let value = matches!(param.dir, Direction::In | Direction::None);
            match param.dir {
                // Passing a struct on neither reads nor writes it.
                _ if whole && !(is_extern && value) => self.indices(arg),
                Direction::In | Direction::None => self.read(arg),
                Direction::Out => self.write(arg),
                Direction::InOut => {
                    self.read(arg);
                    self.write(arg);
                }
            }
        }
    }

    /// Returns the name of a hash algorithm, if this is one.
    fn algorithm(&self, e: &Expr) -> Option<String> {
        match (&uncast(e).kind, &e.ty) {
            (ExprKind::EnumMember(member), Type::Enum(id)) => {
                let of = &self.program.enums[id.index()];
                let name = &of.members.get(*member as usize)?.0;
                of.name.contains("HashAlgorithm").then(|| name.clone())
            }
            _ => None,
        }
    }

    fn extern_call(&mut self, name: &str, algorithm: Option<String>) {
        match algorithm.as_deref() {
            Some("csum16" | "ONES_COMPLEMENT16") => self.count(What::Checksums),
            algorithm => {
                let name =
                    algorithm.map_or_else(|| name.to_string(), |algorithm| format!("{name}({algorithm})"));
                *self.counts().externs.entry(name).or_default() += 1;
            }
        }
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Types

    fn kind(&self, ty: &Type) -> Option<StructKind> {
        match ty {
            Type::Struct(id, _) => Some(self.program.structs[id.index()].kind),
            _ => None,
        }
    }

    fn is_header(&self, ty: &Type) -> bool {
        matches!(self.kind(ty), Some(StructKind::Header | StructKind::HeaderUnion))
    }

    /// Returns the number of headers in a type, and of their fields.
    fn size(&self, ty: &Type) -> (usize, usize) {
        let sum = |sizes: &mut dyn Iterator<Item = (usize, usize)>| {
            sizes.fold((0usize, 0usize), |a, b| (a.0.saturating_add(b.0), a.1.saturating_add(b.1)))
        };
        match ty {
            Type::Struct(id, _) => {
                let of = &self.program.structs[id.index()];
                match of.kind {
                    StructKind::Header => (1, of.fields.iter().map(|field| self.leaves(&field.ty)).sum()),
                    _ => sum(&mut of.fields.iter().map(|field| self.size(&field.ty))),
                }
            }
            Type::Stack(element, n) => {
                let (headers, fields) = self.size(element);
                (headers.saturating_mul(*n as usize), fields.saturating_mul(*n as usize))
            }
            Type::Tuple(types) => sum(&mut types.iter().map(|ty| self.size(ty))),
            _ => (0, 0),
        }
    }

    /// Returns the number of fields in a header's field, which may be a struct or an array.
    fn leaves(&self, ty: &Type) -> usize {
        match ty {
            Type::Struct(id, _) => {
                self.program.structs[id.index()].fields.iter().map(|field| self.leaves(&field.ty)).sum()
            }
            Type::Stack(element, n) => self.leaves(element).saturating_mul(*n as usize),
            _ => 1,
        }
    }

    fn width(&self, ty: &Type) -> u32 {
        match ty {
            Type::Bool => 1,
            Type::Bit(width) | Type::Int(width) | Type::Varbit(width) => *width,
            Type::New(id) => self.width(&self.program.new_types[id.index()].ty),
            Type::Enum(id) => self.program.enums[id.index()]
                .underlying
                .as_ref()
                .map_or(32, |underlying| self.width(underlying)),
            Type::Error | Type::ActionEnum(_) => 32,
            Type::Stack(element, n) => self.width(element).saturating_mul(*n),
            _ => 0,
        }
    }
}

fn uncast(e: &Expr) -> &Expr {
    match &e.kind {
        ExprKind::Cast(inner) => uncast(inner),
        _ => e,
    }
}

/// Returns the enclosing expression of a place.
fn base(e: &Expr) -> Option<&Expr> {
    match &e.kind {
        ExprKind::Field(inner, _)
        | ExprKind::Index(inner, _)
        | ExprKind::StackNext(inner)
        | ExprKind::StackLast(inner)
        | ExprKind::Slice(inner, ..)
        | ExprKind::SliceAt { value: inner, .. }
        | ExprKind::Cast(inner) => Some(inner),
        _ => None,
    }
}

/// Returns a name for a place, if it is one.
fn path(e: &Expr) -> Option<String> {
    match &e.kind {
        ExprKind::Var(var) => Some(format!("{}", var.0)),
        ExprKind::Field(inner, field) => Some(format!("{}.{field}", path(inner)?)),
        ExprKind::Index(inner, index) => match &uncast(index).kind {
            ExprKind::Int(n) => Some(format!("{}[{n}]", path(inner)?)),
            _ => Some(format!("{}[{}:{}]", path(inner)?, index.span.file.0, index.span.lo)),
        },
        ExprKind::StackNext(inner) => Some(format!("{}.next", path(inner)?)),
        ExprKind::StackLast(inner) => Some(format!("{}.last", path(inner)?)),
        _ => None,
    }
}
