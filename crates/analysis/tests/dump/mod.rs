//! Prints a typed program for review, with implicit casts, folded constants and inferred types.

use p4jet_analysis::typed::*;
use p4jet_syntax::ast::{BinaryOp, Direction, UnaryOp};
use std::fmt::Write;

/// Prints the part of a program that its own file declares.
pub fn program(p: &Program) -> String {
    let mut d = Dump { p, out: String::new(), indent: 0 };
    for f in p.functions.iter().filter(|f| own(f.span)) {
        let params = d.params(&f.params);
        d.line(&format!("function {} {}({params})", d.ty(&f.ret), f.name));
        if let Some(body) = &f.body {
            d.nested(|d| d.stmts(body));
        }
    }
    for c in p.parsers.iter().filter(|c| own(c.span)) {
        let Some(body) = &c.body else { continue };
        let params = d.params(&c.params);
        d.line(&format!("parser {}({params})", c.name));
        d.nested(|d| {
            d.locals(&body.locals);
            for state in &body.states {
                d.line(&format!("state {}", state.name));
                d.nested(|d| {
                    d.stmts(&state.stmts);
                    d.transition(&state.transition, &body.states);
                });
            }
        });
    }
    for c in p.controls.iter().filter(|c| own(c.span)) {
        let Some(body) = &c.body else { continue };
        let params = d.params(&c.params);
        d.line(&format!("control {}({params})", c.name));
        d.nested(|d| {
            d.locals(&body.locals);
            d.line("apply");
            d.nested(|d| d.stmts(&body.apply));
        });
    }
    for id in &p.globals {
        d.instance(*id);
    }
    d.out
}

fn own(span: p4jet_syntax::span::Span) -> bool {
    span.file.0 == 0
}

struct Dump<'a> {
    p: &'a Program,
    out: String,
    indent: usize,
}

impl Dump<'_> {
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{:1$}{text}", "", self.indent);
    }

    fn nested(&mut self, f: impl FnOnce(&mut Self)) {
        self.indent += 2;
        f(self);
        self.indent -= 2;
    }

    fn ty(&self, ty: &Type) -> String {
        let args = |name: &str, types: &[Type]| match types {
            [] => name.to_owned(),
            _ => format!("{name}<{}>", types.iter().map(|t| self.ty(t)).collect::<Vec<_>>().join(", ")),
        };
        match ty {
            Type::Void => "void".into(),
            Type::Bool => "bool".into(),
            Type::String => "string".into(),
            Type::Integer => "int".into(),
            Type::Bit(w) => format!("bit<{w}>"),
            Type::Int(w) => format!("int<{w}>"),
            Type::Varbit(w) => format!("varbit<{w}>"),
            Type::Error => "error".into(),
            Type::MatchKind => "match_kind".into(),
            Type::Struct(id, a) => args(&self.p.structs[id.index()].name, a),
            Type::Enum(id) => self.p.enums[id.index()].name.clone(),
            Type::New(id) => self.p.new_types[id.index()].name.clone(),
            Type::Stack(e, n) => format!("{}[{n}]", self.ty(e)),
            Type::Tuple(a) => args("tuple", a),
            Type::List(e) => format!("list<{}>", self.ty(e)),
            Type::Set(e) => format!("set<{}>", self.ty(e)),
            Type::Extern(id, a) => args(&self.p.externs[id.index()].name, a),
            Type::Parser(id, a) => args(&self.p.parsers[id.index()].name, a),
            Type::Control(id, a) => args(&self.p.controls[id.index()].name, a),
            Type::Package(id, a) => args(&self.p.packages[id.index()].name, a),
            Type::ApplyResult(id) => format!("apply_result({})", self.p.tables[id.index()].name),
            Type::ActionEnum(id) => format!("action_list({})", self.p.tables[id.index()].name),
            Type::Param(id) => self.p.type_params[id.index()].clone(),
        }
    }

    fn params(&self, params: &[Param]) -> String {
        let one = |p: &Param| {
            let var = &self.p.vars[p.var.index()];
            let dir = match p.dir {
                Direction::None => "",
                Direction::In => "in ",
                Direction::Out => "out ",
                Direction::InOut => "inout ",
            };
            let known_as = match p.control_name == var.name {
                true => String::new(),
                false => format!(" `{}`", p.control_name),
            };
            format!("{dir}{} {}{known_as}", self.ty(&var.ty), var.name)
        };
        params.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    fn locals(&mut self, locals: &[Local]) {
        for local in locals {
            match local {
                Local::Var(var, init) => self.var(*var, init.as_ref()),
                Local::Instance(id) => self.instance(*id),
                Local::Action(id) => {
                    let a = &self.p.actions[id.index()];
                    let params = self.params(&a.params);
                    self.line(&format!("action {} `{}`({params})", a.name, a.control_name));
                    self.nested(|d| d.stmts(&a.body));
                }
                Local::Table(id) => self.table(*id),
                Local::ValueSet(id) => {
                    let v = &self.p.value_sets[id.index()];
                    let ty = self.ty(&v.ty);
                    self.line(&format!("value_set<{ty}>({}) {}", v.size, v.name));
                }
            }
        }
    }

    fn var(&mut self, var: VarId, init: Option<&Expr>) {
        let v = &self.p.vars[var.index()];
        let init = init.map(|e| format!(" = {}", self.expr(e))).unwrap_or_default();
        self.line(&format!("var {} {}{init}", self.ty(&v.ty), v.name));
    }

    fn instance(&mut self, id: InstanceId) {
        let i = &self.p.instances[id.index()];
        let text =
            format!("instance {} {} `{}`({})", self.ty(&i.ty), i.name, i.control_name, self.args(&i.args));
        self.line(&text);
        for method in &i.methods {
            let name = &self.p.functions[method.index()].name;
            self.nested(|d| d.line(&format!("defines {name}")));
        }
    }

    fn table(&mut self, id: TableId) {
        let t = &self.p.tables[id.index()];
        self.line(&format!("table {} `{}` size {:?}", t.name, t.control_name, t.size));
        self.nested(|d| {
            for key in &t.keys {
                let text = format!("key `{}` {} = {}", key.name, key.match_kind, d.expr(&key.expr));
                d.line(&text);
            }
            for action in &t.actions {
                let notes: Vec<String> =
                    action.annotations.iter().map(|a| format!(" @{}", a.name.text)).collect();
                let text = format!("action {}{}", d.action(&action.action), notes.concat());
                d.line(&text);
            }
            let text =
                format!("default {}{}", d.action(&t.default), if t.const_default { " const" } else { "" });
            d.line(&text);
            if let Some(action) = &t.empty_group_action {
                let text = format!("empty group {}", d.action(action));
                d.line(&text);
            }
            for entry in &t.entries {
                let sets: Vec<String> = entry.keysets.iter().map(|k| d.keyset(k)).collect();
                let priority = entry.priority.as_ref().map(|p| format!("priority {p}: ")).unwrap_or_default();
                let constant = if entry.is_const { "const " } else { "" };
                let notes: String = entry.annotations.iter().map(|a| format!(" @{}", a.name.text)).collect();
                let action = d.action(&entry.action);
                let text = format!("entry {constant}{priority}({}) : {action}{notes}", sets.join(", "));
                d.line(&text);
            }
            for (name, value) in &t.properties {
                let text = format!("property {name} = {}", d.expr(value));
                d.line(&text);
            }
        });
    }

    fn action(&self, a: &ActionRef) -> String {
        format!("{}({})", self.p.actions[a.action.index()].name, self.args(&a.args))
    }

    fn keyset(&self, set: &KeySet) -> String {
        match set {
            KeySet::Any => "_".into(),
            KeySet::Value(v) => self.expr(v),
            KeySet::Mask(v, m) => format!("{} &&& {}", self.expr(v), self.expr(m)),
            KeySet::Range(a, b) => format!("{} .. {}", self.expr(a), self.expr(b)),
            KeySet::ValueSet(id) => self.p.value_sets[id.index()].name.clone(),
        }
    }

    fn transition(&mut self, t: &Transition, states: &[State]) {
        let target = |t: &Target| match t {
            Target::Accept => "accept".to_owned(),
            Target::Reject => "reject".to_owned(),
            Target::State(i) => states[*i as usize].name.clone(),
        };
        match t {
            Transition::Direct(to, _) => self.line(&format!("goto {}", target(to))),
            Transition::Select { keys, cases, .. } => {
                let keys: Vec<String> = keys.iter().map(|k| self.expr(k)).collect();
                self.line(&format!("select ({})", keys.join(", ")));
                for case in cases {
                    let sets: Vec<String> = case.keysets.iter().map(|k| self.keyset(k)).collect();
                    let text = format!("({}) : {}", sets.join(", "), target(&case.target));
                    self.nested(|d| d.line(&text));
                }
            }
        }
    }

    fn stmts(&mut self, stmts: &[Stmt]) {
        for stmt in stmts {
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Var(var, init) => self.var(*var, init.as_ref()),
            StmtKind::Instance(id) => self.instance(*id),
            StmtKind::Assign(l, r) => self.line(&format!("{} = {}", self.expr(l), self.expr(r))),
            StmtKind::AssignOp(l, op, r) => {
                self.line(&format!("{} {}= {}", self.expr(l), sign(*op), self.expr(r)))
            }
            StmtKind::Call(call) => self.line(&self.call(call)),
            StmtKind::If(c, a, b) => {
                self.line(&format!("if {}", self.expr(c)));
                self.nested(|d| d.stmts(a));
                if !b.is_empty() {
                    self.line("else");
                    self.nested(|d| d.stmts(b));
                }
            }
            StmtKind::Block { stmts, atomic } => {
                self.line(if *atomic { "block atomic" } else { "block" });
                self.nested(|d| d.stmts(stmts));
            }
            StmtKind::Return(value) => {
                let value = value.as_ref().map(|v| format!(" {}", self.expr(v))).unwrap_or_default();
                self.line(&format!("return{value}"));
            }
            StmtKind::Break => self.line("break"),
            StmtKind::Continue => self.line("continue"),
            StmtKind::Exit => self.line("exit"),
            StmtKind::SwitchAction { table, cases } => {
                self.line(&format!("switch action of {}", self.p.tables[table.index()].name));
                for case in cases {
                    let actions = &self.p.tables[table.index()].actions;
                    let mut labels: Vec<String> = case
                        .actions
                        .iter()
                        .map(|i| self.p.actions[actions[*i as usize].action.action.index()].name.clone())
                        .collect();
                    labels.extend(case.has_default.then(|| "default".to_owned()));
                    self.case(&labels, &case.body);
                }
            }
            StmtKind::Switch { value, cases } => {
                self.line(&format!("switch {}", self.expr(value)));
                for case in cases {
                    let mut labels: Vec<String> = case.values.iter().map(|v| self.expr(v)).collect();
                    labels.extend(case.has_default.then(|| "default".to_owned()));
                    self.case(&labels, &case.body);
                }
            }
            StmtKind::For { init, cond, update, body } => {
                self.line(&format!("for {}", self.expr(cond)));
                self.nested(|d| {
                    d.line("init");
                    d.nested(|d| d.stmts(init));
                    d.line("body");
                    d.nested(|d| d.stmts(body));
                    d.line("update");
                    d.nested(|d| d.stmts(update));
                });
            }
            StmtKind::ForIn { var, collection, body } => {
                let v = &self.p.vars[var.index()];
                let over = match collection {
                    Collection::Range(a, b) => format!("{} .. {}", self.expr(a), self.expr(b)),
                    Collection::Elements(e) => self.expr(e),
                };
                self.line(&format!("for {} {} in {over}", self.ty(&v.ty), v.name));
                self.nested(|d| d.stmts(body));
            }
        }
    }

    fn case(&mut self, labels: &[String], body: &[Stmt]) {
        self.nested(|d| {
            d.line(&labels.join(", "));
            d.nested(|d| d.stmts(body));
        });
    }

    fn args(&self, args: &[Option<Expr>]) -> String {
        args.iter().map(|a| a.as_ref().map_or("-".into(), |e| self.expr(e))).collect::<Vec<_>>().join(", ")
    }

    fn call(&self, call: &Call) -> String {
        let name = match &call.callee {
            Callee::Function(id) => self.p.functions[id.index()].name.clone(),
            Callee::Action(id) => self.p.actions[id.index()].name.clone(),
            Callee::Method { object, ext, method } => {
                format!(
                    "{}.{}",
                    self.expr(object),
                    self.p.externs[ext.index()].methods[*method as usize].name
                )
            }
            Callee::Apply(object) => format!("{}.apply", self.expr(object)),
            Callee::DirectApply(ty) => format!("{}.apply", self.ty(ty)),
            Callee::TableApply(id) => format!("{}.apply", self.p.tables[id.index()].name),
            Callee::SetValid(e) => format!("{}.setValid", self.expr(e)),
            Callee::SetInvalid(e) => format!("{}.setInvalid", self.expr(e)),
            Callee::IsValid(e) => format!("{}.isValid", self.expr(e)),
            Callee::PushFront(e, n) => return format!("{}.push_front({n})", self.expr(e)),
            Callee::PopFront(e, n) => return format!("{}.pop_front({n})", self.expr(e)),
        };
        let types = match &call.type_args[..] {
            [] => String::new(),
            types => format!("<{}>", types.iter().map(|t| self.ty(t)).collect::<Vec<_>>().join(", ")),
        };
        format!("{name}{types}({})", self.args(&call.args))
    }

    fn expr(&self, e: &Expr) -> String {
        match &e.kind {
            ExprKind::Int(n) => match &e.ty {
                Type::Integer => n.to_string(),
                Type::Bit(w) => format!("{w}w{n}"),
                Type::Int(w) => format!("{w}s{n}"),
                other => format!("{}:{n}", self.ty(other)),
            },
            ExprKind::Bool(b) => b.to_string(),
            ExprKind::String(s) => format!("{s:?}"),
            ExprKind::EnumMember(i) => match &e.ty {
                Type::Enum(id) => {
                    let decl = &self.p.enums[id.index()];
                    format!("{}.{}", decl.name, decl.members[*i as usize].0)
                }
                _ => self.p.match_kinds[*i as usize].clone(),
            },
            ExprKind::Error(i) => format!("error.{}", self.p.errors[*i as usize]),
            ExprKind::Var(id) => self.p.vars[id.index()].name.clone(),
            ExprKind::Instance(id) => self.p.instances[id.index()].name.clone(),
            ExprKind::Construct { args, .. } => format!("new {}({})", self.ty(&e.ty), self.args(args)),
            ExprKind::Field(base, i) => {
                let name = match &base.ty {
                    Type::Struct(id, _) => self.p.structs[id.index()].fields[*i as usize].name.clone(),
                    _ => i.to_string(),
                };
                format!("{}.{name}", self.expr(base))
            }
            ExprKind::Index(a, i) => format!("{}[{}]", self.expr(a), self.expr(i)),
            ExprKind::StackNext(s) => format!("{}.next", self.expr(s)),
            ExprKind::StackLast(s) => format!("{}.last", self.expr(s)),
            ExprKind::StackLastIndex(s) => format!("{}.lastIndex", self.expr(s)),
            ExprKind::Slice(e, hi, lo) => format!("{}[{hi}:{lo}]", self.expr(e)),
            ExprKind::SliceAt { value, lo, width } => {
                format!("{}[{}+:{width}]", self.expr(value), self.expr(lo))
            }
            ExprKind::Unary(op, e) => {
                let sign = match op {
                    UnaryOp::Neg => "-",
                    UnaryOp::Plus => "+",
                    UnaryOp::Not => "!",
                    UnaryOp::Complement => "~",
                };
                format!("{sign}{}", self.expr(e))
            }
            ExprKind::Binary(op, a, b) => format!("({} {} {})", self.expr(a), sign(*op), self.expr(b)),
            ExprKind::Conditional(c, a, b) => {
                format!("({} ? {} : {})", self.expr(c), self.expr(a), self.expr(b))
            }
            ExprKind::Cast(inner) => format!("({})({})", self.ty(&e.ty), self.expr(inner)),
            ExprKind::Aggregate(items) => {
                let items: Vec<String> = items.iter().map(|i| self.expr(i)).collect();
                format!("{}{{{}}}", self.ty(&e.ty), items.join(", "))
            }
            ExprKind::Invalid => format!("{}{{#}}", self.ty(&e.ty)),
            ExprKind::Call(call) => self.call(call),
            ExprKind::ApplyHit { table, miss } => {
                let name = &self.p.tables[table.index()].name;
                format!("{name}.apply().{}", if *miss { "miss" } else { "hit" })
            }
        }
    }
}

fn sign(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => "+",
        BinaryOp::Sub => "-",
        BinaryOp::SatAdd => "|+|",
        BinaryOp::SatSub => "|-|",
        BinaryOp::Mul => "*",
        BinaryOp::Div => "/",
        BinaryOp::Mod => "%",
        BinaryOp::Shl => "<<",
        BinaryOp::Shr => ">>",
        BinaryOp::Concat => "++",
        BinaryOp::BitAnd => "&",
        BinaryOp::BitOr => "|",
        BinaryOp::BitXor => "^",
        BinaryOp::And => "&&",
        BinaryOp::Or => "||",
        BinaryOp::Eq => "==",
        BinaryOp::Ne => "!=",
        BinaryOp::Lt => "<",
        BinaryOp::Le => "<=",
        BinaryOp::Gt => ">",
        BinaryOp::Ge => ">=",
        BinaryOp::Mask => "&&&",
        BinaryOp::Range => "..",
    }
}
