//! Declarations: everything that gets a name.

use crate::check::{Checker, METHODS_MAX, OVERLOADS_MAX, Open, Overload, Place, VarKind, declared};
use crate::generic::is_poison;
use crate::members::Owner;
use crate::scopes::Symbol;
use crate::shapes::{LEAVES_MAX, LEVELS_MAX};
use crate::typed::*;
use crate::types::struct_kind_name;
use num_bigint::BigInt;
use p4jet_syntax::ast::{self, Annotation, AnnotationBody, DeclKind, Direction};
use p4jet_syntax::diagnostic::Diagnostic;
use p4jet_syntax::span::Span;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

/// Maximum number of values inside a constant.
const CONSTANT_MAX: usize = 1 << 16;

/// Maximum number of members of a parser value set.
const VALUE_SET_MAX: u32 = 1 << 24;

impl Checker {
    /// The whole program.
    pub(crate) fn program(&mut self, program: &ast::Program) {
        self.declared.push(declared(&program.decls));
        // P4_16, "The error type": an error is visible everywhere, regardless of the place of its declaration.
        for decl in &program.decls {
            if let DeclKind::Error(names) = &decl.kind {
                names.iter().for_each(|name| self.declare_error(name));
            }
        }
        for decl in &program.decls {
            self.top_level(decl);
        }
        self.declared.pop();
        self.check_main();
    }

    fn declare_error(&mut self, name: &ast::Ident) {
        if self.member_place(Owner::Errors, &name.text).is_some() {
            let message = format!("error `{}` already exists", name.text);
            self.error("duplicate-declaration", name.span, message);
        } else {
            self.prog.errors.push(name.text.clone());
        }
    }

    /// Something called `main` must be a package. Its absence is an error only for programs that are to run: see
    /// [`crate::no_main`].
    fn check_main(&mut self) {
        let main = self.scopes.lookup("main", true).cloned();
        match main.as_ref().map(|b| &b.symbol) {
            Some(Symbol::Instance(id)) => {
                if matches!(self.prog.instances[id.index()].ty, Type::Package(..)) {
                    self.prog.main = Some(*id);
                } else {
                    let span = self.prog.instances[id.index()].span;
                    let shown = self.show(&self.prog.instances[id.index()].ty.clone());
                    self.error("main", span, format!("`main` must be an instance of a package, not {shown}"));
                }
            }
            // A function may have any name.
            Some(Symbol::Poison | Symbol::Functions(_)) => {}
            Some(other) => {
                let text = format!("`main` must be an instance of a package, not {}", other.describe());
                let span = main.as_ref().map_or(crate::EMPTY_SPAN, |b| b.span);
                self.error("main", span, text);
            }
            None => {}
        }
    }

    fn top_level(&mut self, decl: &ast::Decl) {
        self.annotations(&decl.annotations);
        if decl.annotations.iter().any(|a| a.name.text == "deprecated")
            && let Some(name) = decl.kind.name()
            // Several functions may have one name.
            && !matches!(decl.kind, DeclKind::Function(_) | DeclKind::ExternFunction(_))
        {
            let why = match text_annotation(&decl.annotations, "deprecated") {
                Some(Ok(text)) => text,
                _ => String::new(),
            };
            self.deprecated.insert(name.span, why);
        }
        match &decl.kind {
            DeclKind::Const(c) => self.constant(c),
            DeclKind::Instance(instance) => {
                if let Some(id) = self.instance(decl, instance) {
                    self.prog.globals.push(id);
                }
            }
            DeclKind::ExternFunction(proto) => self.extern_function(decl, proto),
            DeclKind::Extern(e) => self.extern_object(decl, e),
            DeclKind::Function(f) => {
                self.function(decl, f, true);
            }
            DeclKind::Action(a) => {
                self.action(decl, a);
            }
            DeclKind::Parser(p) => self.parser(decl, p),
            DeclKind::Control(c) => self.control(decl, c),
            DeclKind::Package(p) => self.package(p),
            DeclKind::Struct(s) => self.structure(decl, s),
            DeclKind::Enum(e) => self.enumeration(decl, e),
            DeclKind::Typedef(t) => self.typedef(decl, t),
            // Declared before all others.
            DeclKind::Error(_) => {}
            DeclKind::MatchKind(names) => {
                for name in names {
                    if !self.prog.match_kinds.insert(name.text.clone()) {
                        let text = format!("match kind `{}` already exists", name.text);
                        self.error("duplicate-declaration", name.span, text);
                    } else {
                        let file = self.prog.sources.files.get(name.span.file.0 as usize);
                        if !file.is_some_and(|f| f.builtin) {
                            self.own_match_kinds.insert(name.text.clone());
                        }
                    }
                }
            }
            DeclKind::ValueSet(v) => {
                self.value_set(decl, v);
            }
            DeclKind::Variable(v) => {
                self.report(
                    Diagnostic::error("place", decl.span, format!("variable `{}` at top level", v.name.text))
                        .note("only constants are allowed at top level: `const T x = …;`"),
                );
                self.declare(&v.name, Symbol::Poison);
            }
            DeclKind::Table(t) => {
                self.report(
                    Diagnostic::error("place", decl.span, format!("table `{}` at top level", t.name.text))
                        .note("tables are declared in controls"),
                );
                self.declare(&t.name, Symbol::Poison);
            }
        }
    }

    /// `const T x = e;`
    pub(crate) fn constant(&mut self, decl: &ast::ConstDecl) {
        let ty = self.resolve_type(&decl.ty);
        if Self::is_object(&ty) {
            let shown = self.show(&ty);
            self.report(
                Diagnostic::error(
                    "type-mismatch",
                    decl.ty.span,
                    format!("a constant cannot have type {shown}"),
                )
                .note("objects are instantiated: `T(…) name;`"),
            );
            self.declare(&decl.name, Symbol::Poison);
            return;
        }
        let value =
            self.constant_of(&decl.value, &ty, &format!("the value of constant `{}`", decl.name.text));
        if is_poison(&ty) || is_poison(&value.ty) {
            self.declare(&decl.name, Symbol::Poison);
        } else if crate::consts::size(&value) > CONSTANT_MAX {
            // Constants are copied to where they are used.
            self.unsupported(
                decl.value.span,
                format_args!("a constant with more than {CONSTANT_MAX} values inside"),
            );
            self.declare(&decl.name, Symbol::Poison);
        } else {
            if let ExprKind::Int(number) = &value.kind {
                self.prog.constants.entry(decl.name.text.clone()).or_insert_with(|| number.clone());
            }
            self.declare(&decl.name, Symbol::Const(Rc::new(value)));
            if calls_static_assert(&decl.value) {
                // The constant exists only for its declaration.
                self.scopes.lookup(&decl.name.text, false);
            }
        }
    }

    /// `T x;` or `T x = e;`. Returns the variable and its initial value.
    pub(crate) fn variable(&mut self, decl: &ast::VarDecl) -> (VarId, Option<Expr>) {
        let ty = self.resolve_type(&decl.ty);
        self.check_variable_type(&ty, &decl.name, decl.ty.span);
        let init =
            decl.init.as_ref().map(|e| self.expr_of(e, &ty, &format!("the value of `{}`", decl.name.text)));
        if let Some(Symbol::Var(earlier)) = self.scopes.peek(&decl.name.text).map(|b| &b.symbol)
            && matches!(self.var_kinds[earlier.index()], VarKind::Param(_))
            && matches!(self.place, Place::Apply | Place::State)
        {
            let parameter = self.prog.vars[earlier.index()].span;
            let text = format!("variable `{}` hides a parameter", decl.name.text);
            self.report(
                Diagnostic::error("shadow", decl.name.span, text)
                    .related(parameter, "the parameter is declared here")
                    .note("give the variable another name"),
            );
        }
        let var = self.new_var(&decl.name, ty, VarKind::Local);
        self.declare(&decl.name, Symbol::Var(var));
        (var, init)
    }

    /// Variables cannot have some types (P4_16, "Variables").
    pub(crate) fn check_variable_type(&mut self, ty: &Type, name: &ast::Ident, span: Span) {
        let note = match ty {
            Type::Integer => "`int` has no width and exists at compile time only: `const int`, or `bit<W>`",
            Type::String => "strings are constants: `const string`",
            Type::Void => "`void` is the type of functions that return nothing",
            Type::MatchKind => "match kinds exist at compile time only",
            Type::List(_) => "lists exist at compile time only",
            _ if Self::is_object(ty) => "objects are instantiated: `T(…) name;`",
            _ => return,
        };
        let shown = self.show(ty);
        self.report(
            Diagnostic::error(
                "type-mismatch",
                span,
                format!("variable `{}` cannot have type {shown}", name.text),
            )
            .note(note),
        );
    }

    /// Binds type parameters in the innermost scope.
    fn type_params(&mut self, names: &[ast::Ident]) -> Vec<TypeParamId> {
        names
            .iter()
            .map(|name| {
                let id = self.new_type_param(&name.text);
                self.declare(name, Symbol::Type(Type::Param(id)));
                id
            })
            .collect()
    }

    /// Parameters, bound in the innermost scope.
    fn params(&mut self, params: &[ast::Param], kind: impl Fn(Direction) -> VarKind) -> Vec<Param> {
        params
            .iter()
            .map(|p| {
                let ty = self.resolve_type(&p.ty);
                if Self::is_object(&ty) && p.dir != Direction::None {
                    let shown = self.show(&ty);
                    self.report(
                        Diagnostic::error(
                            "direction",
                            p.span,
                            format!("parameter `{}` is {shown}", p.name.text),
                        )
                        .note("objects are passed without direction"),
                    );
                }
                if ty == Type::Void {
                    self.error(
                        "type-mismatch",
                        p.span,
                        format!("parameter `{}` cannot be `void`", p.name.text),
                    );
                }
                if p.dir != Direction::None
                    && matches!(ty, Type::Integer | Type::String | Type::MatchKind | Type::List(_))
                {
                    let shown = self.show(&ty);
                    let text = format!("parameter `{}` of type {shown} has a direction", p.name.text);
                    self.report(
                        Diagnostic::error("direction", p.span, text)
                            .note("values that exist at compile time only are passed without direction"),
                    );
                }
                let optional = p.annotations.iter().any(|a| a.name.text == "optional");
                let default = p.default.as_ref().map(|e| {
                    if p.dir != Direction::In && p.dir != Direction::None {
                        self.error(
                            "direction",
                            p.span,
                            "only parameters with direction `in` or none have defaults",
                        );
                    }
                    if optional {
                        self.error("direction", p.span, "an `@optional` parameter has no default");
                    }
                    let what = format!("the default of parameter `{}`", p.name.text);
                    if crate::generic::is_generic(&ty) {
                        // Checked against the type that each use gives the parameter.
                        let typed = self.expr(e, None);
                        if !is_poison(&typed.ty) && !self.compile_time(&typed) {
                            self.error(
                                "not-constant",
                                e.span,
                                format!("{what} must be known at compile time"),
                            );
                        }
                        typed
                    } else {
                        self.constant_of(e, &ty, &what)
                    }
                });
                let var = self.new_var(&p.name, ty, kind(p.dir));
                self.declare(&p.name, Symbol::Var(var));
                Param {
                    var,
                    control_name: control_name(&p.annotations, &p.name.text),
                    dir: p.dir,
                    optional,
                    default: default.map(Arc::new),
                    annotations: p.annotations.clone(),
                }
            })
            .collect()
    }

    /// Runs `f`, in which `_` as a type creates a type parameter; returns these parameters too.
    fn with_dont_cares<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> (T, Vec<TypeParamId>) {
        let outer = self.dont_care_params.replace(Vec::new());
        let result = f(self);
        let params = std::mem::replace(&mut self.dont_care_params, outer).unwrap_or_default();
        (result, params)
    }

    fn extern_function(&mut self, decl: &ast::Decl, proto: &ast::FunctionProto) {
        let ((mut type_params, ret, params), extra) = self.with_dont_cares(|c| {
            c.scoped(|c| {
                let type_params = c.type_params(&proto.type_params);
                let ret = c.resolve_type(&proto.ret);
                let params = c.params(&proto.params, VarKind::Param);
                c.refuse_block_params(&proto.params, &params, "an extern function");
                (type_params, ret, params)
            })
        });
        type_params.extend(extra);
        let id = FunctionId(self.prog.functions.len() as u32);
        self.prog.functions.push(Function {
            name: proto.name.text.clone(),
            type_params,
            params,
            ret,
            body: None,
            annotations: decl.annotations.clone(),
            span: decl.span,
        });
        self.declare_function(&proto.name, id);
    }

    /// Functions may share a name if the number or the names of their parameters differ.
    fn declare_function(&mut self, name: &ast::Ident, id: FunctionId) {
        let Some(earlier) = self.scopes.lookup_innermost(&name.text).cloned() else {
            self.scopes.bind(&name.text, Symbol::Functions(vec![id]), name.span);
            return;
        };
        let Symbol::Functions(mut ids) = earlier.symbol else {
            self.declare(name, Symbol::Functions(vec![id]));
            return;
        };
        if ids.len() == OVERLOADS_MAX {
            return self.refuse_overloads(name);
        }
        let names = |id: FunctionId| {
            let params = &self.prog.functions[id.index()].params;
            params.iter().map(|p| self.prog.vars[p.var.index()].name.clone()).collect::<Vec<_>>()
        };
        if let Some(same) = ids.iter().find(|other| names(**other) == names(id)) {
            let span = self.prog.functions[same.index()].span;
            // Neither of them can be called, but that is no error unless a call occurs.
            self.report(
                Diagnostic::warning(
                    "duplicate-declaration",
                    name.span,
                    format!("function `{}` is declared twice with the same parameters", name.text),
                )
                .related(span, "declared here first"),
            );
        }
        ids.push(id);
        self.scopes.bind(&name.text, Symbol::Functions(ids), earlier.span);
    }

    fn refuse_overloads(&mut self, name: &ast::Ident) {
        let text = format!("more than {OVERLOADS_MAX} declarations of `{}`", name.text);
        self.error("limit-exceeded", name.span, text);
    }

    fn extern_object(&mut self, decl: &ast::Decl, e: &ast::ExternDecl) {
        let id = ExternId(self.prog.externs.len() as u32);
        self.prog.externs.push(Extern {
            name: e.name.text.clone(),
            type_params: Vec::new(),
            constructors: Vec::new(),
            methods: Vec::new(),
            span: decl.span,
        });
        self.declare(&e.name, Symbol::Extern(id));
        self.scopes.push();
        let type_params = self.type_params(&e.type_params);
        self.prog.externs[id.index()].type_params = type_params;
        if let Some(beyond) = e.methods.get(METHODS_MAX) {
            let text = format!("extern `{}` has more than {METHODS_MAX} methods", e.name.text);
            self.error("limit-exceeded", beyond.proto.name.span, text);
        }
        for method in e.methods.iter().take(METHODS_MAX) {
            let ((mut type_params, ret, params), extra) = self.with_dont_cares(|c| {
                c.scoped(|c| {
                    let type_params = c.type_params(&method.proto.type_params);
                    let ret =
                        if method.is_constructor { Type::Void } else { c.resolve_type(&method.proto.ret) };
                    let kind =
                        |dir| if method.is_constructor { VarKind::Constructor } else { VarKind::Param(dir) };
                    if ret == Type::Integer {
                        let span = method.proto.ret.span;
                        c.error("type-mismatch", span, "a method cannot return `int`, which has no width");
                    }
                    let params = c.params(&method.proto.params, kind);
                    c.refuse_block_params(&method.proto.params, &params, "an extern");
                    for (param, source) in params.iter().zip(&method.proto.params) {
                        let own = matches!(c.prog.vars[param.var.index()].ty, Type::Extern(e, _) if e == id);
                        if own {
                            let text = format!("extern `{}` has itself as a parameter", e.name.text);
                            c.error("type-mismatch", source.span, text);
                        }
                    }
                    (type_params, ret, params)
                })
            });
            type_params.extend(extra);
            let name = method.proto.name.text.clone();
            if method.is_constructor && name != e.name.text {
                let text = format!("constructor `{name}` in extern `{}`", e.name.text);
                self.report(
                    Diagnostic::error("constructor", method.proto.name.span, text)
                        .note("a constructor has the name of its extern; a method has a return type"),
                );
                continue;
            }
            if !method.is_constructor && name == e.name.text {
                self.report(
                    Diagnostic::error(
                        "constructor",
                        method.proto.name.span,
                        "a constructor with a return type",
                    )
                    .note(format!("a constructor is declared without one: `{name}(…);`")),
                );
                continue;
            }
            let names = |c: &Self, params: &[Param]| {
                params.iter().map(|p| c.prog.vars[p.var.index()].name.clone()).collect::<Vec<_>>()
            };
            let own = names(self, &params);
            let siblings = if method.is_constructor {
                &self.prog.externs[id.index()].constructors
            } else {
                &self.prog.externs[id.index()].methods
            };
            if siblings.iter().filter(|m| m.name == name).count() == OVERLOADS_MAX {
                self.refuse_overloads(&method.proto.name);
                continue;
            }
            if siblings.iter().any(|m| m.name == name && names(self, &m.params) == own) {
                let text = format!("method `{name}` is declared twice with the same parameters");
                self.error("duplicate-declaration", method.proto.name.span, text);
                continue;
            }
            let is_optional = method.annotations.iter().any(|a| a.name.text == "optional");
            let typed =
                Method { name, is_abstract: method.is_abstract, is_optional, type_params, params, ret };
            let decl = &mut self.prog.externs[id.index()];
            if method.is_constructor {
                decl.constructors.push(typed);
            } else {
                decl.methods.push(typed);
            }
        }
        self.scopes.pop();
    }

    /// `T f(…) { … }`; `named` functions enter the scope, implementations of abstract methods do not.
    pub(crate) fn function(
        &mut self,
        decl: &ast::Decl,
        f: &ast::FunctionDecl,
        named: bool,
    ) -> Option<FunctionId> {
        let id = FunctionId(self.prog.functions.len() as u32);
        self.prog.functions.push(Function {
            name: f.proto.name.text.clone(),
            type_params: Vec::new(),
            params: Vec::new(),
            ret: Type::Void,
            body: None,
            annotations: decl.annotations.clone(),
            span: decl.span,
        });
        self.scopes.push();
        let type_params = self.type_params(&f.proto.type_params);
        let ret = self.resolve_type(&f.proto.ret);
        if ret == Type::Integer {
            self.error(
                "type-mismatch",
                f.proto.ret.span,
                "a function cannot return `int`, which has no width",
            );
        }
        let params = self.params(&f.proto.params, VarKind::Param);
        self.check_name_annotation(&decl.annotations);
        self.refuse_optional(&f.proto.params, "a function");
        {
            let function = &mut self.prog.functions[id.index()];
            function.type_params = type_params;
            function.params = params;
            function.ret = ret.clone();
        }
        if named {
            // Visible inside, so that recursion gets a specific error.
            let span = f.proto.name.span;
            if let Some(param) = f.proto.params.iter().position(|p| p.name.text == f.proto.name.text) {
                let var = self.prog.functions[id.index()].params[param].var;
                let at = f.proto.params[param].name.span;
                self.scopes.hides_function(&f.proto.name.text, (var, at), span);
            }
            if self.scopes.peek(&f.proto.name.text).is_none() {
                self.scopes.push();
                self.scopes.bind_self(&f.proto.name.text, Symbol::Functions(vec![id]), span);
            } else {
                self.scopes.push();
            }
        } else {
            self.scopes.push();
        }
        self.open.push(Open::Function(id));
        let outer_owner = std::mem::replace(&mut self.owner, f.proto.name.text.clone());
        let outer_return = self.return_type.replace(ret.clone());
        let outer_loops = std::mem::take(&mut self.loops);
        let body = self.at(Place::Function, |c| c.block(&f.body));
        self.loops = outer_loops;
        self.return_type = outer_return;
        self.owner = outer_owner;
        self.open.pop();
        self.scopes.pop();
        self.scopes.pop();
        if ret != Type::Void && !is_poison(&ret) && !crate::stmts::ends(&body) && !self.gave_up() {
            self.report(
                Diagnostic::error(
                    "missing-return",
                    f.proto.name.span,
                    format!("function `{}` does not return a value on every path", f.proto.name.text),
                )
                .note(format!("it must return {}", self.show(&ret))),
            );
        }
        self.prog.functions[id.index()].body = Some(body);
        if named {
            self.declare_function(&f.proto.name, id);
        }
        Some(id)
    }

    /// `action a(…) { … }`
    pub(crate) fn action(&mut self, decl: &ast::Decl, a: &ast::ActionDecl) -> ActionId {
        self.scopes.push();
        let kind = |dir| if dir == Direction::None { VarKind::ActionData } else { VarKind::Param(dir) };
        let params = self.params(&a.params, kind);
        let mut data = false;
        for (param, source) in params.iter().zip(&a.params) {
            match self.prog.vars[param.var.index()].ty {
                Type::Extern(..) => {
                    self.error("type-mismatch", source.span, "an action has no extern parameters");
                }
                Type::Integer => self.report(
                    Diagnostic::error(
                        "type-mismatch",
                        source.span,
                        "an action has no parameters of type `int`",
                    )
                    .note("the control plane gives action data with a width: `bit<W>`, `int<W>`"),
                ),
                _ => {}
            }
            if data && param.dir != Direction::None {
                self.report(
                    Diagnostic::error(
                        "direction",
                        source.span,
                        format!("parameter `{}` with a direction follows action data", source.name.text),
                    )
                    .note("parameters without direction come last"),
                );
            }
            data |= param.dir == Direction::None;
        }
        let id = ActionId(self.prog.actions.len() as u32);
        self.prog.actions.push(Action {
            name: a.name.text.clone(),
            control_name: control_name(&decl.annotations, &a.name.text),
            params,
            body: Vec::new(),
            annotations: decl.annotations.clone(),
            span: decl.span,
        });
        self.check_name_annotation(&decl.annotations);
        a.params.iter().for_each(|p| self.check_name_annotation(&p.annotations));
        if !decl.annotations.iter().any(|a| a.name.text == "hidden") {
            let name = self.prog.actions[id.index()].control_name.clone();
            self.claim_control_name(&name, "action", a.name.span);
        }
        self.open.push(Open::Action(id));
        self.scopes.push();
        if self.scopes.peek(&a.name.text).is_none() {
            self.scopes.bind_self(&a.name.text, Symbol::Action(id), a.name.span);
            self.scopes.push();
        } else {
            self.scopes.push();
        }
        let outer_return = self.return_type.take();
        let outer_loops = std::mem::take(&mut self.loops);
        let body = self.at(Place::Action, |c| c.block(&a.body));
        self.loops = outer_loops;
        self.return_type = outer_return;
        self.scopes.pop();
        self.scopes.pop();
        self.open.pop();
        self.scopes.pop();
        self.prog.actions[id.index()].body = body;
        self.declare(&a.name, Symbol::Action(id));
        id
    }

    pub(crate) fn check_name_annotation(&mut self, annotations: &[Annotation]) {
        if let Some(Err(problem)) = text_annotation(annotations, "name") {
            self.report(problem);
        }
    }

    /// Declares the type parameters, apply parameters and constructor parameters of a parser or control.
    fn signature_of_block(
        &mut self,
        type_params: &[ast::Ident],
        params: &[ast::Param],
        ctor_params: &[ast::Param],
    ) -> (Vec<TypeParamId>, Vec<Param>, Vec<Param>) {
        let ((mut types, apply, constructor), extra) = self.with_dont_cares(|c| {
            let types = c.type_params(type_params);
            let apply = c.params(params, VarKind::Param);
            let constructor = c.params(ctor_params, |_| VarKind::Constructor);
            (types, apply, constructor)
        });
        types.extend(extra);
        self.check_ctor_params(ctor_params, false);
        self.refuse_blocks(params, &apply, true);
        self.refuse_blocks(ctor_params, &constructor, false);
        (types, apply, constructor)
    }

    fn parser(&mut self, decl: &ast::Decl, p: &ast::ParserDecl) {
        let id = ParserId(self.prog.parsers.len() as u32);
        self.prog.parsers.push(Parser {
            name: p.name.text.clone(),
            type_params: Vec::new(),
            params: Vec::new(),
            ctor_params: Vec::new(),
            body: None,
            annotations: decl.annotations.clone(),
            span: decl.span,
        });
        self.declare_block(&p.name, Symbol::Parser(id), &p.ctor_params);
        self.scopes.push();
        let (type_params, params, ctor_params) =
            self.signature_of_block(&p.type_params, &p.params, &p.ctor_params);
        let parser = &mut self.prog.parsers[id.index()];
        parser.type_params = type_params;
        parser.params = params;
        parser.ctor_params = ctor_params;
        if let Some(body) = &p.body {
            let outer_owner = std::mem::replace(&mut self.owner, format!("parser `{}`", p.name.text));
            self.open.push(Open::Parser(id));
            let body = self.parser_body(&p.name, body);
            self.open.pop();
            self.owner = outer_owner;
            self.prog.parsers[id.index()].body = Some(body);
        }
        self.scopes.pop();
    }

    fn control(&mut self, decl: &ast::Decl, c: &ast::ControlDecl) {
        let id = ControlId(self.prog.controls.len() as u32);
        self.prog.controls.push(Control {
            name: c.name.text.clone(),
            type_params: Vec::new(),
            params: Vec::new(),
            ctor_params: Vec::new(),
            body: None,
            annotations: decl.annotations.clone(),
            span: decl.span,
        });
        self.declare_block(&c.name, Symbol::Control(id), &c.ctor_params);
        self.scopes.push();
        let (type_params, params, ctor_params) =
            self.signature_of_block(&c.type_params, &c.params, &c.ctor_params);
        let control = &mut self.prog.controls[id.index()];
        control.type_params = type_params;
        control.params = params;
        control.ctor_params = ctor_params;
        if let Some(body) = &c.body {
            let outer_owner = std::mem::replace(&mut self.owner, format!("control `{}`", c.name.text));
            self.open.push(Open::Control(id));
            self.scopes.push();
            self.declared.push(declared(&body.locals));
            let locals = self.at(Place::ControlLocals, |k| {
                body.locals.iter().filter_map(|local| k.local(local, "control")).collect()
            });
            let apply = self.at(Place::Apply, |k| k.block(&body.apply));
            self.declared.pop();
            self.scopes.pop();
            self.open.pop();
            self.owner = outer_owner;
            self.prog.controls[id.index()].body = Some(ControlBody { locals, apply });
        }
        self.scopes.pop();
    }

    /// P4_16, "Restrictions on compile time and run time calls": externs cannot take parsers, controls or packages.
    fn refuse_block_params(&mut self, source: &[ast::Param], params: &[Param], what: &str) {
        for (param, source) in params.iter().zip(source) {
            let ty = self.prog.vars[param.var.index()].ty.clone();
            if matches!(ty, Type::Parser(..) | Type::Control(..) | Type::Package(..)) {
                let shown = self.show(&ty);
                self.error(
                    "type-mismatch",
                    source.span,
                    format!("{what} cannot have {shown} as a parameter"),
                );
            }
        }
    }

    /// Parsers and controls can only be constructor parameters, and those have a type without body, which several of
    /// them may fit.
    fn refuse_blocks(&mut self, source: &[ast::Param], params: &[Param], apply: bool) {
        for (param, source) in params.iter().zip(source) {
            let ty = self.prog.vars[param.var.index()].ty.clone();
            let (is_block, has_body) = match &ty {
                Type::Parser(id, _) => (true, self.prog.parsers[id.index()].body.is_some()),
                Type::Control(id, _) => (true, self.prog.controls[id.index()].body.is_some()),
                Type::Package(..) => (true, true),
                _ => (false, false),
            };
            if !is_block || !(apply || has_body) {
                continue;
            }
            let shown = self.show(&ty);
            let note = match (apply, &ty) {
                (_, Type::Package(..)) => "packages are instantiated at top level only",
                (true, _) => "it can be a constructor parameter, in a second pair of parentheses",
                (false, _) => "use a type that has no body and that this one matches",
            };
            let text = format!("parameter `{}` cannot be {shown}", source.name.text);
            self.report(Diagnostic::error("type-mismatch", source.span, text).note(note));
        }
    }

    fn refuse_optional(&mut self, params: &[ast::Param], what: &str) {
        for param in params {
            if param.annotations.iter().any(|a| a.name.text == "optional") {
                let text = format!("`@optional` on parameter `{}` of {what}", param.name.text);
                self.report(
                    Diagnostic::error("annotation", param.span, text)
                        .note("only declarations that the architecture implements have optional parameters"),
                );
            }
        }
    }

    fn check_ctor_params(&mut self, params: &[ast::Param], optional: bool) {
        if !optional {
            self.refuse_optional(params, "a parser's or control's constructor");
        }
        for param in params {
            if param.dir != Direction::None {
                self.report(
                    Diagnostic::error(
                        "direction",
                        param.span,
                        format!("constructor parameter `{}` has a direction", param.name.text),
                    )
                    .note("constructor parameters are known at compile time and have no direction"),
                );
            }
        }
    }

    /// A local declaration of a parser or control.
    pub(crate) fn local(&mut self, decl: &ast::Decl, inside: &str) -> Option<Local> {
        self.annotations(&decl.annotations);
        match &decl.kind {
            DeclKind::Const(c) => {
                self.constant(c);
                None
            }
            DeclKind::Variable(v) => {
                let (var, init) = self.variable(v);
                Some(Local::Var(var, init))
            }
            DeclKind::Instance(i) => self.instance(decl, i).map(Local::Instance),
            DeclKind::Action(a) if inside == "control" => Some(Local::Action(self.action(decl, a))),
            DeclKind::Table(t) if inside == "control" => self.table(decl, t).map(Local::Table),
            DeclKind::ValueSet(v) if inside == "parser" => self.value_set(decl, v).map(Local::ValueSet),
            _ => {
                let choices = match inside {
                    "parser" => "constants, variables, instances, value sets, states",
                    _ => "constants, variables, instances, actions, tables",
                };
                self.report(
                    Diagnostic::error(
                        "place",
                        decl.span,
                        format!("this declaration is not allowed in a {inside}"),
                    )
                    .note(format!("a {inside} declares {choices}")),
                );
                None
            }
        }
    }

    fn value_set(&mut self, decl: &ast::Decl, v: &ast::ValueSetDecl) -> Option<ValueSetId> {
        let ty = self.resolve_type(&v.ty);
        let size = self.count(&v.size, "the size of a value set", 0, VALUE_SET_MAX);
        let allowed = match &ty {
            Type::Struct(..) => self.struct_kind(&ty) == Some(ast::StructKind::Struct),
            Type::Bit(_)
            | Type::Int(_)
            | Type::Bool
            | Type::Enum(_)
            | Type::New(_)
            | Type::Tuple(_)
            | Type::Error => true,
            _ => is_poison(&ty),
        };
        if !allowed {
            let shown = self.show(&ty);
            self.error("type-mismatch", v.ty.span, format!("a value set cannot hold {shown}"));
        }
        let Some(size) = size.filter(|_| allowed && !is_poison(&ty)) else {
            self.declare(&v.name, Symbol::Poison);
            return None;
        };
        self.check_name_annotation(&decl.annotations);
        let id = ValueSetId(self.prog.value_sets.len() as u32);
        self.prog.value_sets.push(ValueSet {
            name: control_name(&decl.annotations, &v.name.text),
            ty,
            size,
            annotations: decl.annotations.clone(),
            span: decl.span,
        });
        self.declare(&v.name, Symbol::ValueSet(id));
        Some(id)
    }

    fn package(&mut self, p: &ast::PackageDecl) {
        let ((mut type_params, params), extra) = self.with_dont_cares(|c| {
            c.scoped(|c| {
                let type_params = c.type_params(&p.type_params);
                let params = c.params(&p.params, |_| VarKind::Constructor);
                (type_params, params)
            })
        });
        self.check_ctor_params(&p.params, true);
        type_params.extend(extra);
        let id = PackageId(self.prog.packages.len() as u32);
        self.prog.packages.push(Package { name: p.name.text.clone(), type_params, params });
        self.declare_block(&p.name, Symbol::Package(id), &p.params);
    }

    /// Parsers, controls and packages may share a name if their constructors differ in the number or the names of
    /// their parameters. The first one has the name; the others are found through it.
    fn declare_block(&mut self, name: &ast::Ident, symbol: Symbol, ctor_params: &[ast::Param]) {
        let names: Vec<String> = ctor_params.iter().map(|p| p.name.text.clone()).collect();
        let earlier = self.scopes.lookup_innermost(&name.text).map(|b| b.symbol.clone());
        if let Some((first, this)) = earlier.as_ref().and_then(block_key).zip(block_key(&symbol))
            && first.0 == this.0
        {
            let family = self.overloads.entry(first).or_default();
            if family.len() == OVERLOADS_MAX {
                return self.refuse_overloads(name);
            }
            if family.iter().all(|other| other.params != names) {
                family.push(Overload { id: this.1, params: names });
                return;
            }
        }
        self.declare(name, symbol.clone());
        if let Some(key) = block_key(&symbol) {
            self.overloads.entry(key).or_insert_with(|| vec![Overload { id: key.1, params: names }]);
        }
    }

    fn structure(&mut self, decl: &ast::Decl, s: &ast::StructDecl) {
        self.scopes.push();
        let type_params = self.type_params(&s.type_params);
        let mut fields: Vec<Field> = Vec::new();
        let mut places: HashMap<&str, Span> = HashMap::new();
        let container = struct_kind_name(s.kind);
        for field in &s.fields {
            let ty = self.resolve_type(&field.ty);
            self.annotations(&field.annotations);
            self.check_length(&field.annotations, &places);
            if !is_poison(&ty) {
                self.check_nesting(&ty, container, field.ty.span);
            }
            if let Some(first) = places.insert(&field.name.text, field.name.span) {
                self.report(
                    Diagnostic::error(
                        "duplicate-declaration",
                        field.name.span,
                        format!("{container} `{}` has two fields `{}`", s.name.text, field.name.text),
                    )
                    .related(first, "declared here first"),
                );
            }
            fields.push(Field {
                name: field.name.text.clone(),
                ty,
                annotations: field.annotations.clone(),
                span: field.name.span,
            });
        }
        self.scopes.pop();
        let shape = Shape::of_struct(fields.iter().map(|f| self.prog.shape(&f.ty)));
        let problem = if shape.levels > LEVELS_MAX {
            Some(format!("more than {LEVELS_MAX} types inside each other"))
        } else if shape.values() > LEAVES_MAX {
            Some(format!(
                "more than {LEAVES_MAX} fields, nested ones counted (`bit<0>` and an empty struct count as {EMPTY_LEAVES})"
            ))
        } else {
            None
        };
        if let Some(problem) = problem {
            let text = format!("{container} `{}` with {problem}", s.name.text);
            self.error("limit-exceeded", decl.span, text);
            self.declare(&s.name, Symbol::Poison);
            return;
        }
        let id = StructId(self.prog.structs.len() as u32);
        self.prog.structs.push(Struct {
            name: s.name.text.clone(),
            kind: s.kind,
            type_params,
            fields,
            annotations: decl.annotations.clone(),
            span: decl.span,
            shape,
        });
        self.declare(&s.name, Symbol::Struct(id));
    }

    /// `@length(f)` names an earlier field, or a constant.
    fn check_length(&mut self, annotations: &[Annotation], fields: &HashMap<&str, Span>) {
        for annotation in annotations.iter().filter(|a| a.name.text == "length") {
            let AnnotationBody::Tokens(tokens) = &annotation.body else { continue };
            let [token] = &tokens[..] else { continue };
            let is_name = token.text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
            if is_name
                && !fields.contains_key(token.text.as_str())
                && self.scopes.lookup(&token.text, false).is_none()
            {
                let text = format!("`@length` names `{}`, which is not a field before this one", token.text);
                let mut diagnostic = Diagnostic::error("unknown-name", token.span, text);
                diagnostic = diagnostic.suggest(&token.text, fields.keys().copied());
                self.report(diagnostic);
            }
        }
    }

    fn enumeration(&mut self, decl: &ast::Decl, e: &ast::EnumDecl) {
        let underlying = e.underlying.as_ref().map(|t| (self.resolve_type(t), t.span));
        let underlying = match underlying {
            Some((ty @ (Type::Bit(_) | Type::Int(_)), _)) => Some(ty),
            Some((ty, span)) => {
                if !is_poison(&ty) {
                    let shown = self.show(&ty);
                    let text =
                        format!("the underlying type of an enum must be `bit<W>` or `int<W>`, not {shown}");
                    self.error("type-mismatch", span, text);
                }
                self.declare(&e.name, Symbol::Poison);
                return;
            }
            None => None,
        };
        let mut members: Vec<(String, BigInt)> = Vec::new();
        let mut seen = HashSet::new();
        // A value may name the members before it.
        self.scopes.push();
        for (i, (name, value)) in e.members.iter().enumerate() {
            if !seen.insert(name.text.as_str()) {
                let text = format!("enum `{}` has two members `{}`", e.name.text, name.text);
                let first = e.members.iter().find(|(first, _)| first.text == name.text);
                let diagnostic = Diagnostic::error("duplicate-declaration", name.span, text);
                self.report(match first {
                    Some((first, _)) => diagnostic.related(first.span, "declared here first"),
                    None => diagnostic,
                });
            }
            let number = match (&underlying, value) {
                (Some(ty), Some(value)) => {
                    let typed = self.constant_of(value, ty, &format!("the value of `{}`", name.text));
                    match typed.kind {
                        ExprKind::Int(n) => n,
                        _ => BigInt::from(0),
                    }
                }
                (Some(_), None) => {
                    let text =
                        format!("member `{}` of an enum with an underlying type needs a value", name.text);
                    self.error("enum", name.span, text);
                    BigInt::from(0)
                }
                (None, Some(value)) => {
                    self.report(
                        Diagnostic::error(
                            "enum",
                            value.span,
                            "a member with a value in an enum without a type",
                        )
                        .note(format!("give the enum one: `enum bit<8> {} {{ … }}`", e.name.text)),
                    );
                    BigInt::from(i)
                }
                (None, None) => BigInt::from(i),
            };
            if let Some(ty) = &underlying {
                let value = Expr { ty: ty.clone(), kind: ExprKind::Int(number.clone()), span: name.span };
                self.scopes.bind_self(&name.text, Symbol::Const(Rc::new(value)), name.span);
            }
            members.push((name.text.clone(), number));
        }
        self.scopes.pop();
        let id = EnumId(self.prog.enums.len() as u32);
        let annotations = decl.annotations.clone();
        self.prog.enums.push(Enum {
            name: e.name.text.clone(),
            underlying,
            members,
            annotations,
            span: decl.span,
        });
        self.declare(&e.name, Symbol::Type(Type::Enum(id)));
    }

    fn typedef(&mut self, decl: &ast::Decl, t: &ast::TypedefDecl) {
        // No typedef may name a generic parser, control or package type without arguments; a plain name of such a type
        // is resolved like any other.
        let ty = self.resolve_type(&t.ty);
        if is_poison(&ty) {
            self.declare(&t.name, Symbol::Poison);
            return;
        }
        let refused = match (&ty, t.is_new_type) {
            (Type::Void | Type::MatchKind, _) => true,
            (Type::Bit(_) | Type::Int(_) | Type::Bool | Type::New(_), true) => false,
            (_, is_new) => is_new,
        };
        if refused {
            let shown = self.show(&ty);
            let keyword = if t.is_new_type { "type" } else { "typedef" };
            let mut diagnostic = Diagnostic::error(
                "type-mismatch",
                t.ty.span,
                format!("a `{keyword}` cannot be based on {shown}"),
            );
            if t.is_new_type {
                diagnostic =
                    diagnostic.note("a `type` is based on `bit<W>`, `int<W>`, `bool` or another `type`");
            }
            self.report(diagnostic);
            self.declare(&t.name, Symbol::Poison);
            return;
        }
        if t.is_new_type {
            let id = NewTypeId(self.prog.new_types.len() as u32);
            self.prog.new_types.push(NewType {
                name: t.name.text.clone(),
                control_name: control_name(&decl.annotations, &t.name.text),
                ty,
                annotations: decl.annotations.clone(),
            });
            self.declare(&t.name, Symbol::Type(Type::New(id)));
        } else {
            self.declare(&t.name, Symbol::Type(ty));
        }
    }
}

/// Returns kind and index of a parser, control or package.
fn block_key(symbol: &Symbol) -> Option<(u8, u32)> {
    match symbol {
        Symbol::Parser(id) => Some((0, id.0)),
        Symbol::Control(id) => Some((1, id.0)),
        Symbol::Package(id) => Some((2, id.0)),
        _ => None,
    }
}

/// `const bool x = static_assert(…);`
fn calls_static_assert(value: &ast::Expr) -> bool {
    let ast::ExprKind::Call(callee, ..) = &value.kind else { return false };
    matches!(&callee.kind, ast::ExprKind::Path(path) if path.name.text == "static_assert")
}

/// Returns the text of `@name("…")` and similar annotations.
pub(crate) fn text_annotation(annotations: &[Annotation], name: &str) -> Option<Result<String, Diagnostic>> {
    let annotation = annotations.iter().find(|a| a.name.text == name)?;
    match &annotation.body {
        AnnotationBody::Tokens(tokens)
            if tokens.iter().any(|t| t.is_string) && tokens.iter().all(|t| t.is_string || t.text == "++") =>
        {
            Some(Ok(tokens.iter().filter(|t| t.is_string).map(|t| t.text.as_str()).collect()))
        }
        _ => Some(Err(Diagnostic::error(
            "annotation",
            annotation.span,
            format!("`@{name}` needs a string: `@{name}(\"…\")`"),
        ))),
    }
}

/// Returns the control-plane name: that of `@name`, or else the source name.
pub(crate) fn control_name(annotations: &[Annotation], name: &str) -> String {
    match text_annotation(annotations, "name") {
        Some(Ok(text)) => text,
        _ => name.to_owned(),
    }
}
