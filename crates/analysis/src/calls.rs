//! Calls: finding the callee, choosing among overloads, matching arguments to parameters, inferring type arguments
//! (P4_16, "Method invocations and function calls", "Calling convention: call by copy in/copy out").

use crate::check::{Checker, Open, Place};
use crate::consts::{operand_units, own_units};
use crate::generic::{POISON, is_poison, nodes, substitute, substitute_expr};
use crate::scopes::Symbol;
use crate::typed::*;
use crate::types::Missing;
use indexmap::IndexSet;
use num_bigint::BigInt;
use p4jet_suggest as suggest;
use p4jet_syntax::ast::{self, Direction, StructKind};
use p4jet_syntax::diagnostic::Diagnostic;
use p4jet_syntax::span::Span;
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;

/// A parameter as a call sees it.
#[derive(Clone, Debug)]
pub(crate) struct Formal {
    pub(crate) name: String,
    pub(crate) dir: Direction,
    pub(crate) optional: bool,
    pub(crate) default: Option<DefaultValue>,
    pub(crate) ty: Type,
    pub(crate) span: Span,
}

impl Formal {
    fn may_be_left_out(&self) -> bool {
        self.optional || self.default.is_some()
    }
}

/// A parameter's default value. It is copied only by calls that leave out the argument.
#[derive(Clone, Debug)]
pub(crate) struct DefaultValue {
    /// May mention type parameters.
    value: Arc<Expr>,
    type_params: Rc<[TypeParamId]>,
    type_args: Rc<[Type]>,
}

/// The kind of call to which arguments belong.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Calling {
    /// A function or method: directionless parameters take compile-time values.
    Function,
    /// An action, parser or control: directionless parameters behave like `in`.
    Block,
    /// A constructor: all arguments are known at compile time.
    Constructor,
}

const SIZES: [&str; 4] = ["minSizeInBits", "minSizeInBytes", "maxSizeInBits", "maxSizeInBytes"];

impl Checker {
    /// `callee<type_args>(args)`
    pub(crate) fn call(
        &mut self,
        callee: &ast::Expr,
        type_args: &[ast::TypeRef],
        args: &[ast::Arg],
        expected: Option<&Type>,
        span: Span,
    ) -> Expr {
        if let Some(ty) = self.as_type(callee) {
            let ty = match &ty.kind {
                ast::TypeKind::Named(path, inner) if inner.is_empty() && !type_args.is_empty() => {
                    ast::TypeRef {
                        kind: ast::TypeKind::Named(path.clone(), type_args.to_vec()),
                        span: ty.span,
                    }
                }
                _ => ty.into_owned(),
            };
            return self.constructor_call(&ty, args, span);
        }
        match &callee.kind {
            ast::ExprKind::Member(base, name) => {
                self.method_call(base, name, type_args, args, expected, span)
            }
            ast::ExprKind::Path(path) => self.path_call(path, type_args, args, expected, span),
            ast::ExprKind::Type(ty) => match &ty.kind {
                ast::TypeKind::Named(path, _) => self.path_call(path, type_args, args, expected, span),
                _ => {
                    self.error("not-callable", callee.span, "this cannot be called");
                    self.poison(span)
                }
            },
            _ => {
                let base = self.expr(callee, None);
                self.check_arguments_anyway(args);
                if !is_poison(&base.ty) {
                    let shown = self.show(&base.ty);
                    self.error("not-callable", callee.span, format!("{shown} cannot be called"));
                }
                self.poison(span)
            }
        }
    }

    /// Checks the arguments of a call whose callee is wrong.
    fn check_arguments_anyway(&mut self, args: &[ast::Arg]) {
        for arg in args {
            if !crate::exprs::soft(&arg.value) && !matches!(arg.value.kind, ast::ExprKind::DontCare) {
                self.expr(&arg.value, None);
            }
        }
    }

    fn path_call(
        &mut self,
        path: &ast::Path,
        type_args: &[ast::TypeRef],
        args: &[ast::Arg],
        expected: Option<&Type>,
        span: Span,
    ) -> Expr {
        let callable = |s: &Symbol| matches!(s, Symbol::Functions(_) | Symbol::Action(_));
        match self.resolve(path, "function or action", callable) {
            Some(Symbol::Functions(ids)) => {
                self.function_call(&path.name.text, &ids, type_args, args, expected, span)
            }
            Some(Symbol::Action(id)) => {
                if !type_args.is_empty() {
                    let text = format!("action `{}` takes no type arguments", path.name.text);
                    self.error("type-arguments", span, text);
                }
                self.action_call(id, args, span)
            }
            Some(Symbol::Poison) | None => {
                self.check_arguments_anyway(args);
                self.poison(span)
            }
            Some(other) => {
                self.check_arguments_anyway(args);
                let name = &path.name.text;
                let mut diagnostic = Diagnostic::error(
                    "not-callable",
                    path.name.span,
                    format!("`{name}` is {}, which cannot be called", other.describe()),
                );
                if matches!(other, Symbol::Table(_) | Symbol::Instance(_)) {
                    diagnostic = diagnostic.note(format!("did you mean `{name}.apply(…)`?"));
                }
                let diagnostic = self.declared_here(diagnostic, name);
                self.report(diagnostic);
                self.poison(span)
            }
        }
    }

    fn function_call(
        &mut self,
        name: &str,
        ids: &[FunctionId],
        type_args: &[ast::TypeRef],
        args: &[ast::Arg],
        expected: Option<&Type>,
        span: Span,
    ) -> Expr {
        let candidates: Vec<Vec<Formal>> =
            ids.iter().map(|id| self.formals(&self.prog.functions[id.index()].params, &[], &[])).collect();
        let Some(chosen) = self.choose(name, &candidates, args, span) else {
            self.check_arguments_anyway(args);
            return self.poison(span);
        };
        let id = ids[chosen];
        if self.open.contains(&Open::Function(id)) {
            self.error("recursion", span, format!("function `{name}` calls itself; P4 has no recursion"));
            return self.poison(span);
        }
        if name == "verify" && self.prog.functions[id.index()].body.is_none() && !self.place.in_parser() {
            let place = self.place.describe();
            self.report(
                Diagnostic::error("place", span, format!("`verify` {place}"))
                    .note("it belongs to parser states"),
            );
        }
        let (params, ret) = {
            let function = &self.prog.functions[id.index()];
            (function.type_params.clone(), function.ret.clone())
        };
        let type_args = self.type_arguments(name, &params, type_args, span);
        let formals = self.formals(&self.prog.functions[id.index()].params.clone(), &params, &type_args);
        let ret = substitute(&ret, &params, &type_args);
        let Some(args) = self.arguments(name, &formals, args, Calling::Function, span) else {
            return self.poison(span);
        };
        if let (true, Some(expected)) = (self.is_open(&ret), expected) {
            self.unify(&ret, expected);
        }
        let Some(type_args) = self.inferred(&params, &type_args, name, span) else {
            return self.poison(span);
        };
        let Some(ty) = self.result_type(&ret, name, span) else {
            return self.poison(span);
        };
        if ty == Type::Integer && self.prog.functions[id.index()].ret != Type::Integer {
            self.report(
                Diagnostic::error(
                    "cannot-infer",
                    span,
                    format!("cannot infer the width of the result of `{name}`"),
                )
                .note("give the number a width, as in `16w1`, or write the type arguments"),
            );
            return self.poison(span);
        }
        if name == "static_assert" && self.prog.functions[id.index()].body.is_none() {
            return self.static_assert(&args, span);
        }
        let call = Call { callee: Callee::Function(id), type_args, args, span };
        Expr { ty, kind: ExprKind::Call(Box::new(call)), span }
    }

    /// P4_16, "Static assertions".
    fn static_assert(&mut self, args: &[Option<Expr>], span: Span) -> Expr {
        match args.first().and_then(|a| a.as_ref()).map(|a| &a.kind) {
            Some(ExprKind::Bool(true)) => {}
            Some(ExprKind::Bool(false)) => {
                let message = match args.get(1).and_then(|a| a.as_ref()).map(|a| &a.kind) {
                    Some(ExprKind::String(text)) => format!("static_assert failed: {text}"),
                    _ => "static_assert failed".to_owned(),
                };
                self.error("static-assert", span, message);
            }
            _ => self.error(
                "not-constant",
                span,
                "the condition of `static_assert` must be known at compile time",
            ),
        }
        Expr { ty: Type::Bool, kind: ExprKind::Bool(true), span }
    }

    fn action_call(&mut self, id: ActionId, args: &[ast::Arg], span: Span) -> Expr {
        let name = self.prog.actions[id.index()].name.clone();
        if self.open.contains(&Open::Action(id)) {
            self.error("recursion", span, format!("action `{name}` calls itself; P4 has no recursion"));
            return self.poison(span);
        }
        if !matches!(self.place, Place::Apply | Place::Action) {
            let place = self.place.describe();
            self.report(
                Diagnostic::error("place", span, format!("action `{name}` is called {place}"))
                    .note("actions are called in apply blocks and in other actions"),
            );
        }
        let formals = self.formals(&self.prog.actions[id.index()].params.clone(), &[], &[]);
        let Some(args) = self.arguments(&name, &formals, args, Calling::Block, span) else {
            return self.poison(span);
        };
        let call = Call { callee: Callee::Action(id), type_args: Vec::new(), args, span };
        Expr { ty: Type::Void, kind: ExprKind::Call(Box::new(call)), span }
    }

    fn method_call(
        &mut self,
        base: &ast::Expr,
        name: &ast::Ident,
        type_args: &[ast::TypeRef],
        args: &[ast::Arg],
        expected: Option<&Type>,
        span: Span,
    ) -> Expr {
        if let Some(ty) = self.as_type(base) {
            let ty = ty.into_owned();
            return self.type_method(&ty, name, args, span);
        }
        if let ast::ExprKind::Path(path) = &base.kind
            && let Some(Symbol::Table(id)) =
                self.scopes.lookup(&path.name.text, path.global).map(|b| &b.symbol)
        {
            let id = *id;
            return self.table_apply(id, name, args, span);
        }
        let object = self.expr(base, None);
        let ty = self.known(&object.ty);
        if is_poison(&ty) {
            self.check_arguments_anyway(args);
            return self.poison(span);
        }
        if let Type::Extern(id, outer) = &ty {
            return self.extern_method(object, *id, outer, name, type_args, args, expected, span);
        }
        if SIZES.contains(&name.text.as_str()) {
            return self.size_method(&ty, name, args, span);
        }
        let simple = |callee: Callee, ty: Type| {
            let call = Call { callee, type_args: Vec::new(), args: Vec::new(), span };
            Expr { ty, kind: ExprKind::Call(Box::new(call)), span }
        };
        match (&ty, name.text.as_str()) {
            (Type::Parser(..) | Type::Control(..), "apply") => {
                self.block_apply(Some(object), &ty, args, span)
            }
            (Type::Struct(..), method @ ("isValid" | "setValid" | "setInvalid"))
                if self.struct_kind(&ty) != Some(StructKind::Struct) =>
            {
                if !args.is_empty() {
                    self.error("argument-count", span, format!("`{method}()` takes no arguments"));
                }
                match method {
                    "isValid" => simple(Callee::IsValid(Box::new(object)), Type::Bool),
                    _ if self.struct_kind(&ty) == Some(StructKind::HeaderUnion) => {
                        let text = format!("a header union has no method `{method}`");
                        self.report(
                            Diagnostic::error("unknown-method", name.span, text)
                                .note("set the validity of one of its headers; that decides the union's"),
                        );
                        self.poison(span)
                    }
                    "setValid" => {
                        self.require_lvalue(&object, "`setValid` changes its header");
                        simple(Callee::SetValid(Box::new(object)), Type::Void)
                    }
                    _ => {
                        self.require_lvalue(&object, "`setInvalid` changes its header");
                        simple(Callee::SetInvalid(Box::new(object)), Type::Void)
                    }
                }
            }
            (Type::Stack(element, _), method @ ("push_front" | "pop_front"))
                if self.struct_kind(element).is_some() || is_poison(element) =>
            {
                self.require_lvalue(&object, &format!("`{method}` changes its header stack"));
                if args.len() != 1 {
                    self.error(
                        "argument-count",
                        span,
                        format!("`{method}` takes one argument: by how many elements"),
                    );
                    return self.poison(span);
                }
                let what = format!("the argument of `{method}`");
                let Some(count) = self.count(&args[0].value, &what, 1, u32::MAX) else {
                    return self.poison(span);
                };
                let callee = if method == "push_front" {
                    Callee::PushFront(Box::new(object), count)
                } else {
                    Callee::PopFront(Box::new(object), count)
                };
                simple(callee, Type::Void)
            }
            _ => {
                self.check_arguments_anyway(args);
                let shown = self.show(&ty);
                let methods: &[&str] = match &ty {
                    Type::Struct(..) => match self.struct_kind(&ty) {
                        Some(StructKind::Header) => &["isValid", "setValid", "setInvalid", "minSizeInBits"],
                        Some(StructKind::HeaderUnion) => &["isValid"],
                        _ => &["minSizeInBits", "maxSizeInBits"],
                    },
                    Type::Stack(..) if !self.is_header_stack(&ty) => &["minSizeInBits", "maxSizeInBits"],
                    Type::Stack(..) => &["push_front", "pop_front", "minSizeInBits"],
                    Type::Parser(..) | Type::Control(..) => &["apply"],
                    _ => &[],
                };
                let mut diagnostic = Diagnostic::error(
                    "unknown-method",
                    name.span,
                    format!("{shown} has no method `{}`", name.text),
                );
                diagnostic = diagnostic.suggest(&name.text, methods.iter().copied());
                if !methods.is_empty() {
                    diagnostic = diagnostic.choices("its methods", methods);
                }
                self.report(diagnostic);
                self.poison(span)
            }
        }
    }

    /// `T.minSizeInBits()`, `C.apply(…)`
    fn type_method(&mut self, ty: &ast::TypeRef, name: &ast::Ident, args: &[ast::Arg], span: Span) -> Expr {
        if SIZES.contains(&name.text.as_str()) {
            let ty = self.resolve_type(ty);
            return self.size_method(&ty, name, args, span);
        }
        let resolved = self.type_ref(ty, Missing::Infer);
        let (block, ctor_params) = match &resolved {
            Type::Parser(id, _) => {
                let parser = &self.prog.parsers[id.index()];
                (parser.body.is_some() || self.open.contains(&Open::Parser(*id)), parser.ctor_params.len())
            }
            Type::Control(id, _) => {
                let control = &self.prog.controls[id.index()];
                (control.body.is_some() || self.open.contains(&Open::Control(*id)), control.ctor_params.len())
            }
            _ => (false, 0),
        };
        if is_poison(&resolved) {
            self.check_arguments_anyway(args);
            return self.poison(span);
        }
        if name.text != "apply" || !matches!(resolved, Type::Parser(..) | Type::Control(..)) {
            self.check_arguments_anyway(args);
            let shown = self.show(&resolved);
            self.error(
                "unknown-method",
                name.span,
                format!("{shown} is a type that has no method `{}`", name.text),
            );
            return self.poison(span);
        }
        if !block {
            let shown = self.show(&resolved);
            self.error("not-callable", span, format!("{shown} is only a type: it has no body to apply"));
            return self.poison(span);
        }
        if ctor_params > 0 {
            let shown = self.show(&resolved);
            self.report(
                Diagnostic::error("direct-application", span, format!("{shown} has constructor parameters"))
                    .note("declare an instance with its arguments, and apply that"),
            );
            return self.poison(span);
        }
        self.block_apply(None, &resolved, args, span)
    }

    fn size_method(&mut self, ty: &Type, name: &ast::Ident, args: &[ast::Arg], span: Span) -> Expr {
        if is_poison(ty) {
            return self.poison(span);
        }
        if !args.is_empty() {
            self.error("argument-count", span, format!("`{}()` takes no arguments", name.text));
        }
        let Some((lo, hi)) = self.size_in_bits(ty) else {
            let shown = self.show(ty);
            self.error("unknown-method", span, format!("{shown} has no size in bits"));
            return self.poison(span);
        };
        let value = match name.text.as_str() {
            "minSizeInBits" => lo,
            "minSizeInBytes" => lo.div_ceil(8),
            "maxSizeInBits" => hi,
            _ => hi.div_ceil(8),
        };
        Expr { ty: Type::Integer, kind: ExprKind::Int(BigInt::from(value)), span }
    }

    fn table_apply(&mut self, id: TableId, name: &ast::Ident, args: &[ast::Arg], span: Span) -> Expr {
        let table = self.prog.tables[id.index()].name.clone();
        if name.text != "apply" {
            self.report(
                Diagnostic::error(
                    "unknown-method",
                    name.span,
                    format!("a table has no method `{}`", name.text),
                )
                .suggest(&name.text, ["apply"])
                .note(format!("tables have one method: `{table}.apply()`")),
            );
            return self.poison(span);
        }
        if !args.is_empty() {
            self.error("argument-count", span, "a table is applied without arguments");
        }
        if self.place != Place::Apply {
            let place = self.place.describe();
            self.report(
                Diagnostic::error("place", span, format!("table `{table}` is applied {place}"))
                    .note("tables are applied in the apply block of their control"),
            );
        }
        let call = Call { callee: Callee::TableApply(id), type_args: Vec::new(), args: Vec::new(), span };
        Expr { ty: Type::ApplyResult(id), kind: ExprKind::Call(Box::new(call)), span }
    }

    /// `x.apply(…)` of an instance, or `C.apply(…)`.
    fn block_apply(&mut self, object: Option<Expr>, ty: &Type, args: &[ast::Arg], span: Span) -> Expr {
        let (name, wanted, open) = match ty {
            Type::Parser(id, _) => {
                (self.prog.parsers[id.index()].name.clone(), Place::State, Open::Parser(*id))
            }
            Type::Control(id, _) => {
                (self.prog.controls[id.index()].name.clone(), Place::Apply, Open::Control(*id))
            }
            _ => return self.poison(span),
        };
        if self.open.contains(&open) {
            self.error("recursion", span, format!("`{name}` applies itself; P4 has no recursion"));
            return self.poison(span);
        }
        if self.place != wanted {
            let place = self.place.describe();
            let note = match wanted {
                Place::State => "parsers are applied in parser states",
                _ => "controls are applied in apply blocks of controls",
            };
            self.report(Diagnostic::error("place", span, format!("`{name}` is applied {place}")).note(note));
        }
        let formals = match ty {
            Type::Parser(id, targs) => {
                let parser = self.prog.parsers[id.index()].clone_signature();
                self.formals(&parser.1, &parser.0, targs)
            }
            Type::Control(id, targs) => {
                let control = self.prog.controls[id.index()].clone_signature();
                self.formals(&control.1, &control.0, targs)
            }
            _ => Vec::new(),
        };
        let Some(args) = self.arguments(&name, &formals, args, Calling::Block, span) else {
            return self.poison(span);
        };
        let ty = self.known(ty);
        if self.is_open(&ty) {
            self.report(
                Diagnostic::error(
                    "cannot-infer",
                    span,
                    format!("cannot infer the type arguments of `{name}`"),
                )
                .note(format!("write them: `{name}<…>.apply(…)`")),
            );
            return self.poison(span);
        }
        let callee = match object {
            Some(object) => Callee::Apply(Box::new(object)),
            None => Callee::DirectApply(ty),
        };
        let call = Call { callee, type_args: Vec::new(), args, span };
        Expr { ty: Type::Void, kind: ExprKind::Call(Box::new(call)), span }
    }

    #[allow(clippy::too_many_arguments)]
    fn extern_method(
        &mut self,
        object: Expr,
        id: ExternId,
        outer: &[Type],
        name: &ast::Ident,
        type_args: &[ast::TypeRef],
        args: &[ast::Arg],
        expected: Option<&Type>,
        span: Span,
    ) -> Expr {
        let decl = &self.prog.externs[id.index()];
        let overloads: Vec<usize> =
            (0..decl.methods.len()).filter(|i| decl.methods[*i].name == name.text).collect();
        if overloads.is_empty() {
            let decl = decl.clone();
            self.check_arguments_anyway(args);
            let names: IndexSet<&str> = decl.methods.iter().map(|method| method.name.as_str()).collect();
            let names: Vec<&str> = names.into_iter().collect();
            let mut diagnostic = Diagnostic::error(
                "unknown-method",
                name.span,
                format!("extern `{}` has no method `{}`", decl.name, name.text),
            )
            .related(decl.span, format!("`{}` is declared here", decl.name));
            diagnostic = diagnostic.suggest(&name.text, names.iter().copied());
            if !names.is_empty() {
                diagnostic = diagnostic.choices("its methods", &names);
            }
            self.report(diagnostic);
            return self.poison(span);
        }
        let full_name = format!("{}.{}", decl.name, name.text);
        let on_packets = decl.name == "packet_in" || decl.name == "packet_out";
        let candidates: Vec<Vec<Formal>> =
            overloads.iter().map(|i| self.formals(&decl.methods[*i].params, &[], &[])).collect();
        let Some(chosen) = self.choose(&full_name, &candidates, args, span) else {
            self.check_arguments_anyway(args);
            return self.poison(span);
        };
        let index = overloads[chosen];
        let decl = &self.prog.externs[id.index()];
        let method = decl.methods[index].clone();
        let outer_params = decl.type_params.clone();
        let own = self.type_arguments(&full_name, &method.type_params, type_args, span);
        let params: Vec<TypeParamId> = outer_params.iter().chain(&method.type_params).copied().collect();
        let all: Vec<Type> = outer.iter().chain(&own).cloned().collect();
        let formals = self.formals(&method.params, &params, &all);
        let ret = substitute(&method.ret, &params, &all);
        let Some(args) = self.arguments(&full_name, &formals, args, Calling::Function, span) else {
            return self.poison(span);
        };
        if let (true, Some(expected)) = (self.is_open(&ret), expected) {
            self.unify(&ret, expected);
        }
        let Some(type_args) = self.inferred(&method.type_params, &own, &name.text, span) else {
            return self.poison(span);
        };
        if on_packets {
            self.check_packet_method(&name.text, &type_args, args.len(), &args, span);
        }
        let Some(ty) = self.result_type(&ret, &name.text, span) else {
            return self.poison(span);
        };
        let callee = Callee::Method { object: Box::new(object), ext: id, method: index as u32 };
        let call = Call { callee, type_args, args, span };
        Expr { ty, kind: ExprKind::Call(Box::new(call)), span }
    }

    /// The core library's requirements on the types of packet methods (P4_16, "Data extraction", "Deparsing").
    fn check_packet_method(
        &mut self,
        name: &str,
        types: &[Type],
        n: usize,
        args: &[Option<Expr>],
        span: Span,
    ) {
        let Some(ty) = types.first() else { return };
        if is_poison(ty) || crate::generic::is_generic(ty) {
            return;
        }
        let at = args.first().and_then(|a| a.as_ref()).map_or(span, |a| a.span);
        let shown = self.show(ty);
        let varbits = self.varbits(ty);
        match name {
            "extract" if self.struct_kind(ty) != Some(StructKind::Header) => {
                let text = format!("`extract` takes a header, not {shown}");
                let mut diagnostic = Diagnostic::error("type-mismatch", at, text);
                if let Type::Stack(..) = ty {
                    diagnostic = diagnostic.note("extract one element at a time: `stack.next`");
                }
                if let Type::Struct(..) = ty {
                    diagnostic = diagnostic.note("extract its headers one by one");
                }
                self.report(diagnostic);
            }
            "extract" if n == 1 && varbits > 0 => {
                let text = format!("{shown} has a `varbit` field, whose size `extract` needs as an argument");
                self.report(
                    Diagnostic::error("type-mismatch", at, text)
                        .note("write `extract(header, size_in_bits)`, with the size of the `varbit` field"),
                );
            }
            "extract" if n == 2 && varbits != 1 => {
                let text = format!(
                    "`extract` with a size takes a header with one `varbit` field, which {shown} is not"
                );
                self.error("type-mismatch", at, text);
            }
            "lookahead" if varbits > 0 || self.size_in_bits(ty).is_none() => {
                self.error(
                    "type-mismatch",
                    span,
                    format!("`lookahead` of {shown}, which has no fixed size in bits"),
                );
            }
            "emit" if !self.is_emittable(ty) => {
                self.report(
                    Diagnostic::error("type-mismatch", at, format!("`emit` of {shown}"))
                        .note("it takes headers, header unions, header stacks, and structs of these"),
                );
            }
            _ => {}
        }
    }

    fn varbits(&self, ty: &Type) -> usize {
        match ty {
            Type::Varbit(_) => 1,
            Type::Struct(..) => self.fields(ty).iter().map(|(_, t)| self.varbits(t)).sum(),
            Type::Tuple(types) => types.iter().map(|t| self.varbits(t)).sum(),
            Type::Stack(element, _) => self.varbits(element),
            _ => 0,
        }
    }

    fn is_emittable(&self, ty: &Type) -> bool {
        match ty {
            Type::Struct(..) if self.struct_kind(ty) == Some(StructKind::Struct) => {
                self.fields(ty).iter().all(|(_, t)| self.is_emittable(t))
            }
            Type::Struct(..) => true,
            Type::Stack(element, _) => self.is_emittable(element),
            Type::Tuple(types) => types.iter().all(|t| self.is_emittable(t)),
            _ => false,
        }
    }

    /// The given type arguments, or type variables if there are none.
    pub(crate) fn type_arguments(
        &mut self,
        name: &str,
        params: &[TypeParamId],
        written: &[ast::TypeRef],
        span: Span,
    ) -> Vec<Type> {
        let named = params.iter().filter(|p| self.prog.type_params[p.index()] != "_").count();
        let mut types: Vec<Type> = written.iter().map(|t| self.type_ref(t, Missing::Infer)).collect();
        if !types.is_empty() && types.len() != named {
            self.error(
                "type-arguments",
                span,
                format!(
                    "`{name}` takes {}, but {} given",
                    crate::types::arguments(named),
                    crate::types::were(types.len())
                ),
            );
            return vec![POISON; params.len()];
        }
        while types.len() < params.len() {
            let fresh = self.fresh();
            types.push(fresh);
        }
        types
    }

    /// Returns the parameters with type arguments substituted.
    pub(crate) fn formals(
        &self,
        params: &[Param],
        type_params: &[TypeParamId],
        args: &[Type],
    ) -> Vec<Formal> {
        params
            .iter()
            .map(|p| {
                let var = &self.prog.vars[p.var.index()];
                Formal {
                    name: var.name.clone(),
                    dir: p.dir,
                    optional: p.optional,
                    default: p.default.as_ref().map(|value| DefaultValue {
                        value: Arc::clone(value),
                        type_params: type_params.into(),
                        type_args: args.into(),
                    }),
                    ty: substitute(&var.ty, type_params, args),
                    span: var.span,
                }
            })
            .collect()
    }

    /// Selects an overload by the number and names of arguments (P4_16, "Extern objects": methods may share a name if
    /// their parameters differ in this way).
    pub(crate) fn choose(
        &mut self,
        name: &str,
        candidates: &[Vec<Formal>],
        args: &[ast::Arg],
        span: Span,
    ) -> Option<usize> {
        if candidates.len() == 1 {
            return Some(0);
        }
        let named = !args.is_empty() && args.iter().all(|a| a.name.is_some());
        let names: HashSet<&str> = args.iter().flat_map(|a| &a.name).map(|n| n.text.as_str()).collect();
        let fits = |formals: &Vec<Formal>, exactly: bool| {
            let given = |i: usize, f: &Formal| match named {
                true => names.contains(f.name.as_str()),
                false => i < args.len(),
            };
            args.len() <= formals.len()
                && (!named
                    || formals.iter().filter(|f| names.contains(f.name.as_str())).count() == names.len())
                && formals.iter().enumerate().all(|(i, f)| given(i, f) || (!exactly && f.may_be_left_out()))
        };
        let exact: Vec<usize> = (0..candidates.len()).filter(|i| fits(&candidates[*i], true)).collect();
        let found = if exact.is_empty() {
            (0..candidates.len()).filter(|i| fits(&candidates[*i], false)).collect()
        } else {
            exact
        };
        if let [one] = found[..] {
            return Some(one);
        }
        let signatures: Vec<String> = candidates
            .iter()
            .map(|formals| {
                format!("{name}({})", formals.iter().map(|f| f.name.clone()).collect::<Vec<_>>().join(", "))
            })
            .collect();
        let message = if found.is_empty() {
            format!("no `{name}` takes these arguments")
        } else {
            format!("more than one `{name}` takes these arguments")
        };
        self.report(
            Diagnostic::error("overload", span, message)
                .note(format!("there are {}", suggest::list(&signatures))),
        );
        None
    }

    /// Matches arguments to parameters and checks them. Returns one result per parameter.
    pub(crate) fn arguments(
        &mut self,
        callee: &str,
        formals: &[Formal],
        args: &[ast::Arg],
        calling: Calling,
        span: Span,
    ) -> Option<Vec<Option<Expr>>> {
        let Some(slots) = self.match_arguments(callee, formals, args, span) else {
            self.check_arguments_anyway(args);
            return None;
        };
        let mut results: Vec<Option<Expr>> = vec![None; formals.len()];
        // Arguments with little type information are checked after the others.
        let mut later: Vec<(usize, Option<Expr>)> = Vec::new();
        let mut ok = true;
        for (i, formal) in formals.iter().enumerate() {
            let Some(arg) = slots[i] else {
                if let Some(default) = &formal.default {
                    let what = argument_name(callee, formal);
                    let default = self.left_out(default, span);
                    results[i] = Some(self.coerce(default, &formal.ty, &what));
                }
                continue;
            };
            if matches!(arg.value.kind, ast::ExprKind::DontCare) {
                if formal.dir != Direction::Out && !formal.optional {
                    self.report(
                        Diagnostic::error(
                            "not-a-value",
                            arg.value.span,
                            format!("`_` for parameter `{}` of `{callee}`, which needs a value", formal.name),
                        )
                        .note("`_` stands for arguments of `out` parameters")
                        .related(formal.span, "declared here"),
                    );
                    ok = false;
                }
                continue;
            }
            if matches!(formal.dir, Direction::Out | Direction::InOut) {
                let value = self.expr(&arg.value, None);
                let right = self.out_argument(callee, formal, &value);
                ok &= right;
                results[i] = Some(if right { value } else { self.poison(value.span) });
            } else if !self.is_open(&formal.ty) {
                let what = argument_name(callee, formal);
                results[i] = Some(self.expr_of(&arg.value, &formal.ty, &what));
            } else if crate::exprs::soft(&arg.value) {
                later.push((i, None));
            } else {
                let value = self.expr(&arg.value, Some(&formal.ty));
                if vague(&value.ty) {
                    later.push((i, Some(value)));
                } else {
                    results[i] = Some(self.coerce(value, &formal.ty, &argument_name(callee, formal)));
                }
            }
        }
        for (i, value) in later {
            let formal = &formals[i];
            let what = argument_name(callee, formal);
            let value = match (value, slots[i]) {
                (Some(value), _) => value,
                (None, Some(arg)) => {
                    let ty = self.known(&formal.ty);
                    self.expr(&arg.value, Some(&ty))
                }
                (None, None) => continue,
            };
            results[i] = Some(self.coerce(value, &formal.ty, &what));
        }
        for (i, formal) in formals.iter().enumerate() {
            if results[i].is_none() && slots[i].is_none() && self.is_open(&formal.ty) {
                // Nothing uses a type that only occurs in omitted optional arguments.
                self.close(&formal.ty);
            }
        }
        for (i, formal) in formals.iter().enumerate() {
            let Some(value) = &mut results[i] else { continue };
            self.settle(value);
            if is_poison(&value.ty) {
                ok = false;
                continue;
            }
            if calling != Calling::Constructor
                && vague(&value.ty)
                && formal.dir != Direction::None
                && !matches!(formal.ty, Type::Integer)
            {
                let text = format!("cannot infer the width of {}", argument_name(callee, formal));
                self.report(
                    Diagnostic::error("cannot-infer", value.span, text)
                        .note("give the number a width, as in `16w1` or `(bit<16>) 1`")
                        .related(formal.span, "declared here"),
                );
                ok = false;
                continue;
            }
            if calling != Calling::Constructor
                && matches!(value.ty, Type::Parser(..) | Type::Control(..) | Type::Package(..) | Type::String)
                && formal.ty != Type::String
                && !(value.ty == Type::String && formal.dir == Direction::None)
            {
                let shown = self.show(&value.ty);
                let text = format!("{} cannot be {shown}", argument_name(callee, formal));
                self.report(
                    Diagnostic::error("type-mismatch", value.span, text)
                        .related(formal.span, "declared here"),
                );
                ok = false;
                continue;
            }
            let constant = match calling {
                Calling::Constructor => true,
                Calling::Function => formal.dir == Direction::None && !matches!(value.ty, Type::Extern(..)),
                Calling::Block => false,
            };
            if constant && !self.compile_time(value) {
                let text = format!("{} must be known at compile time", argument_name(callee, formal));
                self.report(
                    Diagnostic::error("not-constant", value.span, text).related(formal.span, "declared here"),
                );
                ok = false;
            }
        }
        ok.then_some(results)
    }

    /// Returns the value of an argument that a call leaves out.
    fn left_out(&mut self, default: &DefaultValue, span: Span) -> Expr {
        let DefaultValue { value, type_params, type_args } = default;
        // Each type in the value may mention all type arguments.
        let types = type_args.iter().map(|ty| nodes(ty) as u64).sum::<u64>();
        if !self.spend((own_units(value) + operand_units(value)) * types.max(1), span) {
            return self.poison(span);
        }
        let value = self.refreshed(substitute_expr(value, type_params, type_args));
        Expr { span, ..value }
    }

    /// Checks the argument of an `out` or `inout` parameter: an l-value of exactly the parameter's type.
    fn out_argument(&mut self, callee: &str, formal: &Formal, value: &Expr) -> bool {
        if is_poison(&value.ty) {
            return false;
        }
        let what = argument_name(callee, formal);
        if !self.require_lvalue(value, &what) {
            return false;
        }
        if !self.unify(&formal.ty, &value.ty) {
            let found = self.known(&value.ty);
            let diagnostic =
                self.mismatch(value.span, &formal.ty, &found, &what).related(formal.span, "declared here");
            self.report(diagnostic);
            return false;
        }
        true
    }

    /// Finds the argument of each parameter.
    fn match_arguments<'a>(
        &mut self,
        callee: &str,
        formals: &[Formal],
        args: &'a [ast::Arg],
        span: Span,
    ) -> Option<Vec<Option<&'a ast::Arg>>> {
        let mut slots: Vec<Option<&ast::Arg>> = vec![None; formals.len()];
        let named = args.iter().filter(|a| a.name.is_some()).count();
        if named > 0 && named < args.len() {
            self.report(
                Diagnostic::error(
                    "arguments",
                    span,
                    format!("a call of `{callee}` that names some of its arguments"),
                )
                .note("name all of them or none"),
            );
            return None;
        }
        let mut ok = true;
        if named > 0 {
            for arg in args {
                let Some(name) = &arg.name else { continue };
                match formals.iter().position(|f| f.name == name.text) {
                    Some(i) if slots[i].is_some() => {
                        self.error(
                            "arguments",
                            name.span,
                            format!("argument `{}` is given twice", name.text),
                        );
                        ok = false;
                    }
                    Some(i) => slots[i] = Some(arg),
                    None => {
                        let names: Vec<&str> = formals.iter().map(|f| f.name.as_str()).collect();
                        let mut diagnostic = Diagnostic::error(
                            "arguments",
                            name.span,
                            format!("`{callee}` has no parameter `{}`", name.text),
                        );
                        diagnostic = diagnostic.suggest(&name.text, names.iter().copied());
                        if !names.is_empty() {
                            diagnostic = diagnostic.choices("its parameters", &names);
                        }
                        self.report(diagnostic);
                        ok = false;
                    }
                }
            }
        } else {
            if args.len() > formals.len() {
                self.argument_count(callee, formals, args.len(), span);
                return None;
            }
            for (slot, arg) in slots.iter_mut().zip(args) {
                *slot = Some(arg);
            }
        }
        if !ok {
            return None;
        }
        let missing: Vec<&Formal> = formals
            .iter()
            .zip(&slots)
            .filter(|(f, s)| s.is_none() && !f.may_be_left_out())
            .map(|(f, _)| f)
            .collect();
        if missing.is_empty() {
            return Some(slots);
        }
        if named == 0 {
            self.argument_count(callee, formals, args.len(), span);
        } else {
            let names: Vec<&str> = missing.iter().map(|f| f.name.as_str()).collect();
            self.error("arguments", span, format!("`{callee}` also needs {}", suggest::list(&names)));
        }
        None
    }

    fn argument_count(&mut self, callee: &str, formals: &[Formal], given: usize, span: Span) {
        let least = formals.iter().filter(|f| !f.may_be_left_out()).count();
        let range =
            if least == formals.len() { format!("{least}") } else { format!("{least} to {}", formals.len()) };
        let plural = if range == "1" { "" } else { "s" };
        let verb = if given == 1 { "is" } else { "are" };
        let mut diagnostic = Diagnostic::error(
            "argument-count",
            span,
            format!("`{callee}` takes {range} argument{plural}, but {given} {verb} given"),
        );
        if !formals.is_empty() {
            let names: Vec<&str> = formals.iter().map(|f| f.name.as_str()).collect();
            diagnostic = diagnostic.choices("its parameters", &names);
        }
        diagnostic = match formals.get(given..).and_then(|rest| rest.iter().find(|f| !f.may_be_left_out())) {
            Some(missing) => diagnostic.related(missing.span, "no argument for this one"),
            None => match formals.last() {
                Some(last) => diagnostic.related(last.span, "this is the last one"),
                None => diagnostic,
            },
        };
        self.report(diagnostic);
    }
}

/// True if a type comes from literals without width, so that other arguments should decide it.
fn vague(ty: &Type) -> bool {
    match ty {
        Type::Integer => true,
        Type::Tuple(types) => types.iter().any(vague),
        _ => false,
    }
}

fn argument_name(callee: &str, formal: &Formal) -> String {
    format!("argument `{}` of `{callee}`", formal.name)
}

trait Signature {
    fn clone_signature(&self) -> (Vec<TypeParamId>, Vec<Param>);
}

impl Signature for Parser {
    fn clone_signature(&self) -> (Vec<TypeParamId>, Vec<Param>) {
        (self.type_params.clone(), self.params.clone())
    }
}

impl Signature for Control {
    fn clone_signature(&self) -> (Vec<TypeParamId>, Vec<Param>) {
        (self.type_params.clone(), self.params.clone())
    }
}
