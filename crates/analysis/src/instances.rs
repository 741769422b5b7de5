//! Constructor calls and instantiations (P4_16, "Constructor invocations", "Instantiations").

use crate::calls::{Calling, Formal};
use crate::check::{Checker, Open, Place};
use crate::decls::{control_name, text_annotation};
use crate::generic::{is_poison, substitute};
use crate::scopes::Symbol;
use crate::typed::*;
use crate::types::Missing;
use p4jet_syntax::ast;
use p4jet_syntax::diagnostic::Diagnostic;
use p4jet_syntax::span::Span;

impl Checker {
    /// `T(args)` as an expression.
    pub(crate) fn constructor_call(&mut self, ty: &ast::TypeRef, args: &[ast::Arg], span: Span) -> Expr {
        let resolved = self.type_ref(ty, Missing::Infer);
        if let Type::Extern(id, _) = &resolved {
            let decl = &self.prog.externs[id.index()];
            if let Some(method) = decl.methods.iter().find(|m| m.is_abstract) {
                let text =
                    format!("extern `{}` has the abstract method `{}` to define", decl.name, method.name);
                self.report(
                    Diagnostic::error("initializer", span, text)
                        .note("declare an instance that defines it: `T(…) name = { … };`"),
                );
                return self.poison(span);
            }
        }
        match self.construct(&resolved, args, span) {
            Some((ty, constructor, args)) => {
                Expr { ty, kind: ExprKind::Construct { constructor, args }, span }
            }
            None => self.poison(span),
        }
    }

    /// Checks constructor arguments; the type may keep variables that the context determines.
    fn construct(
        &mut self,
        ty: &Type,
        args: &[ast::Arg],
        span: Span,
    ) -> Option<(Type, u32, Vec<Option<Expr>>)> {
        if is_poison(ty) {
            for arg in args {
                if !crate::exprs::soft(&arg.value) && !matches!(arg.value.kind, ast::ExprKind::DontCare) {
                    self.expr(&arg.value, None);
                }
            }
            return None;
        }
        let ty = &self.overloaded(ty, args);
        let (name, candidates): (String, Vec<Vec<Formal>>) = match ty {
            Type::Extern(id, targs) => {
                let decl = self.prog.externs[id.index()].clone();
                let mut candidates = Vec::new();
                for constructor in &decl.constructors {
                    // `_` in a constructor's types created type parameters.
                    let own: Vec<Type> = constructor.type_params.iter().map(|_| self.fresh()).collect();
                    let params: Vec<TypeParamId> =
                        decl.type_params.iter().chain(&constructor.type_params).copied().collect();
                    let all: Vec<Type> = targs.iter().chain(&own).cloned().collect();
                    candidates.push(self.formals(&constructor.params, &params, &all));
                }
                (decl.name.clone(), candidates)
            }
            Type::Parser(id, targs) => {
                let decl = &self.prog.parsers[id.index()];
                if decl.body.is_none() && !self.open.contains(&Open::Parser(*id)) {
                    return self.refuse_bodiless(&decl.name.clone(), "parser", span);
                }
                if self.open.contains(&Open::Parser(*id)) {
                    return self.refuse_recursion(&decl.name.clone(), span);
                }
                (decl.name.clone(), vec![self.formals(&decl.ctor_params, &decl.type_params, targs)])
            }
            Type::Control(id, targs) => {
                let decl = &self.prog.controls[id.index()];
                if decl.body.is_none() && !self.open.contains(&Open::Control(*id)) {
                    return self.refuse_bodiless(&decl.name.clone(), "control", span);
                }
                if self.open.contains(&Open::Control(*id)) {
                    return self.refuse_recursion(&decl.name.clone(), span);
                }
                (decl.name.clone(), vec![self.formals(&decl.ctor_params, &decl.type_params, targs)])
            }
            Type::Package(id, targs) => {
                let decl = &self.prog.packages[id.index()];
                (decl.name.clone(), vec![self.formals(&decl.params, &decl.type_params, targs)])
            }
            _ => {
                let shown = self.show(ty);
                self.report(
                    Diagnostic::error("not-callable", span, format!("{shown} has no constructor"))
                        .note("externs, parsers, controls and packages have constructors; a cast is written `(T) e`"),
                );
                return None;
            }
        };
        if candidates.is_empty() {
            self.error(
                "not-callable",
                span,
                format!("extern `{name}` has no constructor: it cannot be instantiated"),
            );
            return None;
        }
        let chosen = self.choose(&name, &candidates, args, span)?;
        let args = self.arguments(&name, &candidates[chosen], args, Calling::Constructor, span)?;
        Some((self.known(ty), chosen as u32, args))
    }

    /// Selects, by the arguments, one of the parsers, controls or packages that share a name; the first if none fits
    /// better.
    fn overloaded(&mut self, ty: &Type, args: &[ast::Arg]) -> Type {
        let (kind, first) = match ty {
            Type::Parser(id, _) => (0, id.0),
            Type::Control(id, _) => (1, id.0),
            Type::Package(id, _) => (2, id.0),
            _ => return ty.clone(),
        };
        let Some(family) = self.overloads.get(&(kind, first)).filter(|f| f.len() > 1) else {
            return ty.clone();
        };
        let named = !args.is_empty() && args.iter().all(|a| a.name.is_some());
        let fits = |names: &[String]| {
            names.len() == args.len()
                && (!named || args.iter().flat_map(|a| &a.name).all(|n| names.contains(&n.text)))
        };
        let Some(found) = family.iter().find(|o| fits(&o.params)).map(|o| o.id) else {
            return ty.clone();
        };
        if found == first {
            return ty.clone();
        }
        let (params, written) = match ty {
            Type::Parser(_, a) => (self.prog.parsers[found as usize].type_params.len(), a),
            Type::Control(_, a) => (self.prog.controls[found as usize].type_params.len(), a),
            Type::Package(_, a) => (self.prog.packages[found as usize].type_params.len(), a),
            _ => return ty.clone(),
        };
        let targs = match written.len() == params {
            true => written.clone(),
            false => (0..params).map(|_| self.fresh()).collect(),
        };
        match kind {
            0 => Type::Parser(ParserId(found), targs),
            1 => Type::Control(ControlId(found), targs),
            _ => Type::Package(PackageId(found), targs),
        }
    }

    fn refuse_bodiless<T>(&mut self, name: &str, kind: &str, span: Span) -> Option<T> {
        self.report(
            Diagnostic::error(
                "not-callable",
                span,
                format!("`{name}` is a {kind} type, which has no instances"),
            )
            .note(format!("declare a {kind} with a body and instantiate that")),
        );
        None
    }

    fn refuse_recursion<T>(&mut self, name: &str, span: Span) -> Option<T> {
        self.error(
            "recursion",
            span,
            format!("`{name}` contains an instance of itself; P4 has no recursion"),
        );
        None
    }

    /// `T(args) name;`, possibly with definitions of abstract methods.
    pub(crate) fn instance(&mut self, decl: &ast::Decl, instance: &ast::Instance) -> Option<InstanceId> {
        let span = decl.span;
        let resolved = self.type_ref(&instance.ty, Missing::Infer);
        self.check_instance_place(&resolved, instance.ty.span);
        // `T(…) name[n];` creates an array of objects, each with these arguments.
        let mut sizes = Vec::new();
        let mut element = self.known(&resolved);
        while let Type::Stack(inner, size) = element {
            sizes.push(size);
            element = *inner;
        }
        let built = self.construct(&element, &instance.args, span);
        let Some((ty, constructor, mut args)) = built else {
            self.declare(&instance.name, Symbol::Poison);
            return None;
        };
        if self.is_open(&ty) && !self.refuse_open(&ty, &args, &instance.ty, span) {
            self.declare(&instance.name, Symbol::Poison);
            return None;
        }
        for arg in args.iter_mut().flatten() {
            self.settle(arg);
            if matches!(arg.ty, Type::Parser(..) | Type::Control(..)) {
                // Types that no signature mentions are not needed.
                self.close(&arg.ty);
                self.settle(arg);
            }
            if self.is_open(&arg.ty) {
                let shown = self.show(&arg.ty);
                self.error("cannot-infer", arg.span, format!("cannot infer the type arguments of {shown}"));
            }
        }
        let ty = sizes.iter().rev().fold(self.known(&ty), |ty, size| Type::Stack(Box::new(ty), *size));
        let id = InstanceId(self.prog.instances.len() as u32);
        self.prog.instances.push(Instance {
            name: instance.name.text.clone(),
            control_name: control_name(&decl.annotations, &instance.name.text),
            ty: ty.clone(),
            constructor,
            args,
            methods: Vec::new(),
            annotations: decl.annotations.clone(),
            span,
        });
        if let Some(problem) = text_annotation(&decl.annotations, "name").and_then(|r| r.err()) {
            self.report(problem);
        }
        let methods = self.abstract_methods(id, &ty, instance.init.as_deref(), span);
        self.prog.instances[id.index()].methods = methods;
        self.declare(&instance.name, Symbol::Instance(id));
        Some(id)
    }

    /// Reports types that could not be inferred. True if the instance is valid anyway.
    fn refuse_open(&mut self, ty: &Type, args: &[Option<Expr>], written: &ast::TypeRef, span: Span) -> bool {
        let (params, targs) = match ty {
            Type::Extern(id, a) => (self.prog.externs[id.index()].type_params.clone(), a),
            Type::Parser(id, a) => (self.prog.parsers[id.index()].type_params.clone(), a),
            Type::Control(id, a) => (self.prog.controls[id.index()].type_params.clone(), a),
            Type::Package(id, a) => (self.prog.packages[id.index()].type_params.clone(), a),
            _ => return true,
        };
        // A type parameter of a package that no argument mentions occurs in no signature; `_` means the same.
        let given = matches!(&written.kind, ast::TypeKind::Named(_, types) if !types.is_empty());
        if let Type::Package(id, _) = ty {
            let mentioned = self.prog.packages[id.index()].params.iter().zip(args).any(|(param, arg)| {
                let declared = &self.prog.vars[param.var.index()].ty;
                arg.is_some() && !given && self.is_open(&substitute(declared, &params, targs))
            });
            if !mentioned {
                self.close(ty);
                return true;
            }
        }
        let name = match &written.kind {
            ast::TypeKind::Named(path, _) => path.name.text.clone(),
            _ => self.show_bare(ty),
        };
        self.inferred(&params, targs, &name, span);
        false
    }

    fn check_instance_place(&mut self, ty: &Type, span: Span) {
        let problem = match (ty, self.place) {
            (Type::Parser(..) | Type::Control(..), Place::Top) => {
                "only inside parsers and controls, or as an argument"
            }
            (Type::Parser(..), Place::ControlLocals | Place::Apply) => "only inside parsers",
            (Type::Control(..), Place::ParserLocals | Place::State) => "only inside controls",
            (Type::Package(..), place) if place != Place::Top => "only at top level",
            (_, Place::Action | Place::Function) => "only outside actions and functions",
            (_, Place::Apply) => "only among the declarations of a control, before `apply`",
            (_, Place::State) => "only among the declarations of a parser, before its states",
            _ => return,
        };
        let shown = self.show(ty);
        let place = self.place.describe();
        self.report(
            Diagnostic::error("place", span, format!("an instance of {shown} {place}"))
                .note(format!("such instances are allowed {problem}")),
        );
    }

    /// The object initializer (P4_16, "Instantiating objects with abstract methods").
    fn abstract_methods(
        &mut self,
        id: InstanceId,
        ty: &Type,
        init: Option<&[ast::Decl]>,
        span: Span,
    ) -> Vec<FunctionId> {
        let Type::Extern(ext, targs) = ty else {
            if init.is_some() {
                let shown = self.show(ty);
                self.error("initializer", span, format!("{shown} has no abstract methods to define"));
            }
            return Vec::new();
        };
        let decl = self.prog.externs[ext.index()].clone();
        let outer_this = self.this.replace(id);
        let outer_open = std::mem::take(&mut self.open);
        self.scopes.push();
        let mut done = Vec::new();
        for item in init.unwrap_or_default() {
            match &item.kind {
                ast::DeclKind::Function(function) => {
                    let name = &function.proto.name;
                    let found = decl.methods.iter().find(|m| m.name == name.text && m.is_abstract);
                    let function_id = self.function(item, function, false);
                    match found {
                        None => {
                            let names: Vec<&str> = decl
                                .methods
                                .iter()
                                .filter(|m| m.is_abstract)
                                .map(|m| m.name.as_str())
                                .collect();
                            self.report(
                                Diagnostic::error(
                                    "initializer",
                                    name.span,
                                    format!("extern `{}` has no abstract method `{}`", decl.name, name.text),
                                )
                                .choices("its abstract methods", &names),
                            );
                        }
                        Some(method) => {
                            if let Some(function_id) = function_id {
                                self.check_method(&decl, method, targs, function_id, name.span);
                                done.push(function_id);
                            }
                        }
                    }
                }
                ast::DeclKind::Instance(inner) => {
                    self.instance(item, inner);
                }
                ast::DeclKind::Const(inner) => self.constant(inner),
                _ => self.error("initializer", item.span, "an initializer holds functions and instances"),
            }
        }
        self.scopes.pop();
        self.open = outer_open;
        self.this = outer_this;
        for method in decl.methods.iter().filter(|m| m.is_abstract && !m.is_optional) {
            if !done.iter().any(|f| self.prog.functions[f.index()].name == method.name)
                && self.no_errors_in(span)
            {
                self.report(
                    Diagnostic::error(
                        "initializer",
                        span,
                        format!("this instance does not define the abstract method `{}`", method.name),
                    )
                    .related(decl.span, format!("`{}` is declared here", decl.name)),
                );
            }
        }
        done
    }

    fn no_errors_in(&self, span: Span) -> bool {
        !self
            .diagnostics
            .iter()
            .any(|d| d.span.file == span.file && d.span.lo >= span.lo && d.span.hi <= span.hi)
    }

    /// An implementation must have the parameters and result of the abstract method.
    fn check_method(&mut self, decl: &Extern, method: &Method, targs: &[Type], id: FunctionId, span: Span) {
        let wanted = self.formals(&method.params, &decl.type_params, targs);
        let function = &self.prog.functions[id.index()];
        let (params, ret) = (function.params.clone(), function.ret.clone());
        let found = self.formals(&params, &[], &[]);
        let wanted_ret = substitute(&method.ret, &decl.type_params, targs);
        let missing = wanted.get(found.len()..);
        let mut fits = missing.is_some_and(|m| m.iter().all(|f| f.optional)) && self.unify(&wanted_ret, &ret);
        for (x, y) in wanted.iter().zip(&found) {
            fits &= x.dir == y.dir && self.unify(&x.ty, &y.ty);
        }
        if !fits {
            let list: Vec<String> = wanted
                .iter()
                .map(|f| format!("{}{} {}", direction(f.dir), self.show_bare(&f.ty), f.name))
                .collect();
            let signature = format!("{} {}({})", self.show_bare(&wanted_ret), method.name, list.join(", "));
            self.report(
                Diagnostic::error(
                    "initializer",
                    span,
                    format!("this is not the signature of abstract method `{}`", method.name),
                )
                .note(format!("expected: `{signature}`"))
                .related(decl.span, format!("`{}` is declared here", decl.name)),
            );
        }
    }
}

fn direction(dir: ast::Direction) -> &'static str {
    match dir {
        ast::Direction::None => "",
        ast::Direction::In => "in ",
        ast::Direction::Out => "out ",
        ast::Direction::InOut => "inout ",
    }
}
