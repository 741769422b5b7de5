//! Prints a tree in short form: one declaration or statement per line, operators with all their parentheses.

use p4jet_syntax::ast::*;
use std::fmt::Write;

/// The whole program.
pub fn program(program: &Program) -> String {
    let mut out = String::new();
    for decl in &program.decls {
        declaration(&mut out, decl, 0);
    }
    out
}

fn line(out: &mut String, depth: usize, text: impl AsRef<str>) {
    let _ = writeln!(out, "{}{}", "  ".repeat(depth), text.as_ref());
}

fn list<T>(items: &[T], show: impl Fn(&T) -> String) -> String {
    items.iter().map(show).collect::<Vec<_>>().join(", ")
}

fn annotations(annotations: &[Annotation]) -> String {
    let mut out = String::new();
    for annotation in annotations {
        let body = match &annotation.body {
            AnnotationBody::Empty => String::new(),
            AnnotationBody::Tokens(tokens) => {
                let show =
                    |t: &AnnotationToken| if t.is_string { format!("{:?}", t.text) } else { t.text.clone() };
                format!("({})", tokens.iter().map(show).collect::<Vec<_>>().join(" "))
            }
            AnnotationBody::Exprs(exprs) => format!("[{}]", list(exprs, expr)),
            AnnotationBody::KeyValues(pairs) => {
                format!("[{}]", list(pairs, |(k, v)| format!("{}={}", k.text, expr(v))))
            }
        };
        let _ = write!(out, "@{}{body} ", annotation.name.text);
    }
    out
}

fn type_params(params: &[Ident]) -> String {
    if params.is_empty() { String::new() } else { format!("<{}>", list(params, |p| p.text.clone())) }
}

fn params(params: &[Param]) -> String {
    let show = |p: &Param| {
        let dir = match p.dir {
            Direction::None => "",
            Direction::In => "in ",
            Direction::Out => "out ",
            Direction::InOut => "inout ",
        };
        let default = p.default.as_ref().map_or(String::new(), |d| format!(" = {}", expr(d)));
        format!("{}{dir}{} {}{default}", annotations(&p.annotations), ty(&p.ty), p.name.text)
    };
    format!("({})", list(params, show))
}

fn proto(proto: &FunctionProto) -> String {
    format!(
        "{} {}{}{}",
        ty(&proto.ret),
        proto.name.text,
        type_params(&proto.type_params),
        params(&proto.params)
    )
}

fn init(value: &Option<Expr>) -> String {
    value.as_ref().map_or(String::new(), |v| format!(" = {}", expr(v)))
}

fn declaration(out: &mut String, decl: &Decl, depth: usize) {
    let mut head = annotations(&decl.annotations);
    let names = |names: &[Ident]| list(names, |n| n.text.clone());
    match &decl.kind {
        DeclKind::Const(d) => {
            head += &format!("const {} {} = {}", ty(&d.ty), d.name.text, expr(&d.value));
            line(out, depth, head);
        }
        DeclKind::Variable(d) => {
            head += &format!("var {} {}{}", ty(&d.ty), d.name.text, init(&d.init));
            line(out, depth, head);
        }
        DeclKind::Instance(d) => {
            head += &format!("instance {}({}) {}", ty(&d.ty), list(&d.args, arg), d.name.text);
            line(out, depth, head);
            for decl in d.init.iter().flatten() {
                declaration(out, decl, depth + 1);
            }
        }
        DeclKind::ExternFunction(d) => line(out, depth, head + "extern " + &proto(d)),
        DeclKind::Extern(d) => {
            line(out, depth, head + "extern " + &d.name.text + &type_params(&d.type_params));
            for method in &d.methods {
                let mut text = annotations(&method.annotations);
                text += if method.is_abstract { "abstract " } else { "" };
                text += if method.is_constructor { "constructor " } else { "method " };
                line(out, depth + 1, text + &proto(&method.proto));
            }
        }
        DeclKind::Function(d) => {
            line(out, depth, head + "function " + &proto(&d.proto));
            block(out, &d.body, depth + 1);
        }
        DeclKind::Action(d) => {
            line(out, depth, format!("{head}action {}{}", d.name.text, params(&d.params)));
            block(out, &d.body, depth + 1);
        }
        DeclKind::Parser(d) => {
            head += &format!("parser {}{}{}", d.name.text, type_params(&d.type_params), params(&d.params));
            match &d.body {
                None => line(out, depth, head + " type"),
                Some(body) => {
                    line(out, depth, head + &params(&d.ctor_params));
                    for local in &body.locals {
                        declaration(out, local, depth + 1);
                    }
                    for state in &body.states {
                        parser_state(out, state, depth + 1);
                    }
                }
            }
        }
        DeclKind::Control(d) => {
            head += &format!("control {}{}{}", d.name.text, type_params(&d.type_params), params(&d.params));
            match &d.body {
                None => line(out, depth, head + " type"),
                Some(body) => {
                    line(out, depth, head + &params(&d.ctor_params));
                    for local in &body.locals {
                        declaration(out, local, depth + 1);
                    }
                    line(out, depth + 1, "apply");
                    block(out, &body.apply, depth + 2);
                }
            }
        }
        DeclKind::Package(d) => {
            head += &format!("package {}{}{}", d.name.text, type_params(&d.type_params), params(&d.params));
            line(out, depth, head);
        }
        DeclKind::Struct(d) => {
            line(out, depth, format!("{head}{:?} {}{}", d.kind, d.name.text, type_params(&d.type_params)));
            for field in &d.fields {
                line(
                    out,
                    depth + 1,
                    format!("{}{} {}", annotations(&field.annotations), ty(&field.ty), field.name.text),
                );
            }
        }
        DeclKind::Enum(d) => {
            let underlying = d.underlying.as_ref().map_or(String::new(), |t| ty(t) + " ");
            let members = list(&d.members, |(name, value)| name.text.clone() + &init(value));
            line(out, depth, format!("{head}enum {underlying}{} {{{members}}}", d.name.text));
        }
        DeclKind::Typedef(d) => {
            let word = if d.is_new_type { "type" } else { "typedef" };
            line(out, depth, format!("{head}{word} {} {}", ty(&d.ty), d.name.text));
        }
        DeclKind::Error(d) => line(out, depth, format!("{head}error {{{}}}", names(d))),
        DeclKind::MatchKind(d) => line(out, depth, format!("{head}match_kind {{{}}}", names(d))),
        DeclKind::ValueSet(d) => {
            line(out, depth, format!("{head}value_set<{}>({}) {}", ty(&d.ty), expr(&d.size), d.name.text));
        }
        DeclKind::Table(d) => {
            line(out, depth, format!("{head}table {}", d.name.text));
            for property in &d.properties {
                table_property(out, property, depth + 1);
            }
        }
    }
}

fn parser_state(out: &mut String, state: &State, depth: usize) {
    line(out, depth, format!("{}state {}", annotations(&state.annotations), state.name.text));
    for stmt in &state.stmts {
        statement(out, stmt, depth + 1);
    }
    match &state.transition {
        None => line(out, depth + 1, "no transition"),
        Some(Transition::Direct(name)) => line(out, depth + 1, format!("transition {}", name.text)),
        Some(Transition::Select { keys, cases, .. }) => {
            line(out, depth + 1, format!("select {}", list(keys, expr)));
            for case in cases {
                line(out, depth + 2, format!("{} -> {}", expr(&case.keyset), case.state.text));
            }
        }
    }
}

fn action_ref(action: &ActionRef) -> String {
    let args = action.args.as_ref().map_or(String::new(), |args| format!("({})", list(args, arg)));
    format!("{}{}{args}", annotations(&action.annotations), path(&action.name))
}

fn table_property(out: &mut String, property: &TableProperty, depth: usize) {
    let head = annotations(&property.annotations) + if property.is_const { "const " } else { "" };
    match &property.kind {
        TablePropertyKind::Key(elements) => {
            line(out, depth, head + "key");
            for e in elements {
                let text =
                    format!("{} : {} {}", expr(&e.expr), e.match_kind.text, annotations(&e.annotations));
                line(out, depth + 1, text.trim_end());
            }
        }
        TablePropertyKind::Actions(actions) => {
            line(out, depth, head + "actions");
            for action in actions {
                line(out, depth + 1, action_ref(action));
            }
        }
        TablePropertyKind::Entries(entries) => {
            line(out, depth, head + "entries");
            for e in entries {
                let is_const = if e.is_const { "const " } else { "" };
                let priority =
                    e.priority.as_ref().map_or(String::new(), |p| format!("priority {}: ", expr(p)));
                let text = format!("{is_const}{priority}{} -> {}", expr(&e.keyset), action_ref(&e.action));
                line(out, depth + 1, format!("{text} {}", annotations(&e.annotations)).trim_end());
            }
        }
        TablePropertyKind::Custom(name, value) => {
            line(out, depth, format!("{head}{} = {}", name.text, expr(value)))
        }
    }
}

fn block(out: &mut String, block: &Block, depth: usize) {
    if !block.annotations.is_empty() {
        line(out, depth, annotations(&block.annotations).trim_end());
    }
    for stmt in &block.stmts {
        statement(out, stmt, depth);
    }
}

fn statement(out: &mut String, stmt: &Stmt, depth: usize) {
    match &stmt.kind {
        StmtKind::Empty => line(out, depth, "empty"),
        StmtKind::Decl(decl) => declaration(out, decl, depth),
        StmtKind::Assign(left, op, right) => {
            let op = op.map_or(String::new(), |op| format!("{op:?} "));
            line(out, depth, format!("{} {op}= {}", expr(left), expr(right)));
        }
        StmtKind::Call(call) => line(out, depth, format!("call {}", expr(call))),
        StmtKind::If(condition, then, otherwise) => {
            line(out, depth, format!("if {}", expr(condition)));
            statement(out, then, depth + 1);
            if let Some(otherwise) = otherwise {
                line(out, depth, "else");
                statement(out, otherwise, depth + 1);
            }
        }
        StmtKind::Block(inner) => {
            line(out, depth, "block");
            block(out, inner, depth + 1);
        }
        StmtKind::Return(value) => {
            line(out, depth, format!("return {}", value.as_ref().map_or(String::new(), expr)).trim_end())
        }
        StmtKind::Break => line(out, depth, "break"),
        StmtKind::Continue => line(out, depth, "continue"),
        StmtKind::Exit => line(out, depth, "exit"),
        StmtKind::Switch(selector, cases) => {
            line(out, depth, format!("switch {}", expr(selector)));
            for case in cases {
                let falls = if case.body.is_none() { " falls through" } else { "" };
                line(out, depth + 1, format!("case {}{falls}", expr(&case.label)));
                if let Some(body) = &case.body {
                    block(out, body, depth + 2);
                }
            }
        }
        StmtKind::For { annotations: a, init, cond, update, body } => {
            line(out, depth, format!("{}for", annotations(a)));
            for stmt in init {
                statement(out, stmt, depth + 2);
            }
            line(out, depth + 1, format!("while {}", expr(cond)));
            for stmt in update {
                statement(out, stmt, depth + 2);
            }
            line(out, depth + 1, "do");
            statement(out, body, depth + 2);
        }
        StmtKind::ForIn { annotations: a, ty: of, name, collection, body } => {
            line(
                out,
                depth,
                format!("{}for {} {} in {}", annotations(a), ty(of), name.text, expr(collection)),
            );
            statement(out, body, depth + 1);
        }
    }
}

fn path(path: &Path) -> String {
    format!("{}{}", if path.global { "." } else { "" }, path.name.text)
}

fn ty(of: &TypeRef) -> String {
    match &of.kind {
        TypeKind::Bool => "bool".into(),
        TypeKind::Error => "error".into(),
        TypeKind::MatchKind => "match_kind".into(),
        TypeKind::String => "string".into(),
        TypeKind::Void => "void".into(),
        TypeKind::DontCare => "_".into(),
        TypeKind::Integer => "int".into(),
        TypeKind::Bit(width) => format!("bit<{}>", expr(width)),
        TypeKind::Int(width) => format!("int<{}>", expr(width)),
        TypeKind::Varbit(width) => format!("varbit<{}>", expr(width)),
        TypeKind::Named(name, args) if args.is_empty() => path(name),
        TypeKind::Named(name, args) => format!("{}<{}>", path(name), list(args, ty)),
        TypeKind::Stack(element, size) => format!("{}[{}]", ty(element), expr(size)),
        TypeKind::Tuple(args) => format!("tuple<{}>", list(args, ty)),
        TypeKind::List(element) => format!("list<{}>", ty(element)),
    }
}

fn arg(arg: &Arg) -> String {
    arg.name.as_ref().map_or(String::new(), |n| format!("{} = ", n.text)) + &expr(&arg.value)
}

fn expr(of: &Expr) -> String {
    let dots = |dots: &bool| if *dots { ", ..." } else { "" };
    match &of.kind {
        ExprKind::Int(IntLit { value, width: None }) => value.to_string(),
        ExprKind::Int(IntLit { value, width: Some((bits, signed)) }) => {
            format!("{bits}{}{value}", if *signed { 's' } else { 'w' })
        }
        ExprKind::Bool(value) => value.to_string(),
        ExprKind::String(text) => format!("{text:?}"),
        ExprKind::This => "this".into(),
        ExprKind::Path(name) => path(name),
        ExprKind::Type(inner) => format!("type {}", ty(inner)),
        ExprKind::Member(base, name) => format!("{}.{}", operand(base), name.text),
        ExprKind::Index(base, index) => format!("{}[{}]", operand(base), expr(index)),
        ExprKind::Slice(base, hi, lo) => format!("{}[{}:{}]", operand(base), expr(hi), expr(lo)),
        ExprKind::PlusSlice(base, lo, width) => format!("{}[{} +: {}]", operand(base), expr(lo), expr(width)),
        ExprKind::Unary(op, inner) => format!("({op:?} {})", expr(inner)),
        ExprKind::Binary(op, a, b) => format!("({} {op:?} {})", expr(a), expr(b)),
        ExprKind::Conditional(c, a, b) => format!("({} ? {} : {})", expr(c), expr(a), expr(b)),
        ExprKind::Cast(to, inner) => format!("(cast {}: {})", ty(to), expr(inner)),
        ExprKind::Call(callee, types, args) if types.is_empty() => {
            format!("{}({})", operand(callee), list(args, arg))
        }
        ExprKind::Call(callee, types, args) => {
            format!("{}<{}>({})", operand(callee), list(types, ty), list(args, arg))
        }
        ExprKind::List(items, d) => format!("{{{}{}}}", list(items, expr), dots(d)),
        ExprKind::Record(fields, d) => {
            format!("{{{}{}}}", list(fields, |(n, v)| format!("{} = {}", n.text, expr(v))), dots(d))
        }
        ExprKind::Tuple(items) => format!("tuple({})", list(items, expr)),
        ExprKind::Invalid => "invalid".into(),
        ExprKind::Dots => "...".into(),
        ExprKind::Default => "default".into(),
        ExprKind::DontCare => "_".into(),
    }
}

/// The operand of postfix operators.
fn operand(of: &Expr) -> String {
    if matches!(of.kind, ExprKind::Type(_)) { format!("({})", expr(of)) } else { expr(of) }
}
