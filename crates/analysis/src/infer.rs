//! Type variables and unification (P4_16, "Type specialization"; inference as in calls of generic functions).
//!
//! A type variable of inference is a [`Type::Param`] whose id is above every declared parameter; `Checker::bindings` has
//! its inferred type. None is left in a finished program.

use crate::check::Checker;
use crate::generic::{any_child, is_poison, map_children, map_types, substitute};
use crate::shapes::NODES_MAX;
use crate::typed::*;
use p4jet_syntax::ast::{Direction, StructKind};
use p4jet_syntax::diagnostic::Diagnostic;
use p4jet_syntax::span::Span;

/// Ids from here on are variables of inference.
const INFERENCE_BASE: u32 = 1 << 31;

fn inference_index(id: TypeParamId) -> Option<usize> {
    (id.0 >= INFERENCE_BASE && id.0 != u32::MAX).then(|| (id.0 - INFERENCE_BASE) as usize)
}

impl Checker {
    /// Returns a default value for another use: type variables that are still open may be inferred differently each time.
    pub(crate) fn refreshed(&mut self, mut expr: Expr) -> Expr {
        let mut fresh: Vec<(TypeParamId, Type)> = Vec::new();
        map_types(&mut expr, &mut |ty| {
            let ty = self.known(ty);
            self.refresh(&ty, &mut fresh)
        });
        expr
    }

    fn refresh(&mut self, ty: &Type, fresh: &mut Vec<(TypeParamId, Type)>) -> Type {
        match ty {
            Type::Param(id) if inference_index(*id).is_some() => {
                match fresh.iter().find(|(old, _)| old == id) {
                    Some((_, new)) => new.clone(),
                    None => {
                        let new = self.fresh();
                        fresh.push((*id, new.clone()));
                        new
                    }
                }
            }
            _ => map_children(ty, &mut |t| self.refresh(t, fresh)),
        }
    }

    /// Creates a type variable.
    pub(crate) fn fresh(&mut self) -> Type {
        let id = TypeParamId(INFERENCE_BASE + self.bindings.len() as u32);
        self.bindings.push(None);
        Type::Param(id)
    }

    /// Creates a declared type parameter.
    pub(crate) fn new_type_param(&mut self, name: &str) -> TypeParamId {
        let id = TypeParamId(self.prog.type_params.len() as u32);
        self.prog.type_params.push(name.to_owned());
        id
    }

    /// Replaces type variables by what has been inferred for them.
    pub(crate) fn known(&self, ty: &Type) -> Type {
        match ty {
            Type::Param(id) => match inference_index(*id).and_then(|i| self.bindings[i].as_ref()) {
                Some(bound) => self.known(bound),
                None => ty.clone(),
            },
            _ => map_children(ty, &mut |t| self.known(t)),
        }
    }

    /// True if a type still contains type variables.
    pub(crate) fn is_open(&self, ty: &Type) -> bool {
        match ty {
            Type::Param(id) => match inference_index(*id) {
                Some(i) => self.bindings[i].as_ref().is_none_or(|bound| self.is_open(bound)),
                None => false,
            },
            _ => any_child(ty, &mut |t| self.is_open(t)),
        }
    }

    /// True if a type is just an unbound type variable.
    pub(crate) fn is_unknown(&self, ty: &Type) -> bool {
        matches!(self.known(ty), Type::Param(id) if inference_index(id).is_some())
    }

    fn occurs(&self, var: usize, ty: &Type) -> bool {
        match ty {
            Type::Param(id) => match inference_index(*id) {
                Some(i) if i == var => true,
                Some(i) => self.bindings[i].as_ref().is_some_and(|bound| self.occurs(var, bound)),
                None => false,
            },
            _ => any_child(ty, &mut |t| self.occurs(var, t)),
        }
    }

    /// Binds the variables left in a type to `void`.
    pub(crate) fn close(&mut self, ty: &Type) {
        match ty {
            Type::Param(id) => {
                if let Some(i) = inference_index(*id) {
                    match self.bindings[i].clone() {
                        Some(bound) => self.close(&bound),
                        None => self.bindings[i] = Some(Type::Void),
                    }
                }
            }
            Type::Struct(_, types)
            | Type::Extern(_, types)
            | Type::Parser(_, types)
            | Type::Control(_, types)
            | Type::Package(_, types)
            | Type::Tuple(types) => types.iter().for_each(|t| self.close(t)),
            Type::Stack(element, _) | Type::List(element) | Type::Set(element) => self.close(element),
            _ => {}
        }
    }

    /// Makes two types equal by binding variables; false if that is impossible.
    pub(crate) fn unify(&mut self, a: &Type, b: &Type) -> bool {
        let a = self.known(a);
        let b = self.known(b);
        if a == b || is_poison(&a) || is_poison(&b) {
            return true;
        }
        match (&a, &b) {
            (Type::Param(id), other) | (other, Type::Param(id)) if inference_index(*id).is_some() => {
                let Some(index) = inference_index(*id) else { return false };
                // If the other side is a variable too, either direction works.
                if self.occurs(index, other) {
                    return false;
                }
                self.bindings[index] = Some(other.clone());
                true
            }
            (Type::Struct(x, xs), Type::Struct(y, ys)) => x == y && self.unify_all(xs, ys),
            (Type::Extern(x, xs), Type::Extern(y, ys)) => x == y && self.unify_all(xs, ys),
            (Type::Package(x, xs), Type::Package(y, ys)) => x == y && self.unify_all(xs, ys),
            (Type::Tuple(xs), Type::Tuple(ys)) => self.unify_all(xs, ys),
            (Type::Stack(x, n), Type::Stack(y, m)) => n == m && self.unify(x, y),
            (Type::List(x), Type::List(y)) | (Type::Set(x), Type::Set(y)) => self.unify(x, y),
            (Type::Parser(x, xs), Type::Parser(y, ys)) => {
                if x == y {
                    return self.unify_all(xs, ys);
                }
                let wanted = self.block_params(&a);
                let found = self.block_params(&b);
                self.unify_params(&wanted, &found)
            }
            (Type::Control(x, xs), Type::Control(y, ys)) => {
                if x == y {
                    return self.unify_all(xs, ys);
                }
                let wanted = self.block_params(&a);
                let found = self.block_params(&b);
                self.unify_params(&wanted, &found)
            }
            _ => false,
        }
    }

    fn unify_all(&mut self, xs: &[Type], ys: &[Type]) -> bool {
        xs.len() == ys.len() && xs.iter().zip(ys).all(|(x, y)| self.unify(x, y))
    }

    /// A parser fits a parser type, and a control a control type, if all their parameters agree in direction and type.
    fn unify_params(&mut self, xs: &[BlockParam], ys: &[BlockParam]) -> bool {
        // The program may omit parameters marked @optional (P4_16, "Optional parameters").
        let (wanted, found) = if xs.len() >= ys.len() { (xs, ys) } else { (ys, xs) };
        if wanted[found.len()..].iter().any(|p| !p.optional) {
            return false;
        }
        wanted.iter().zip(found).all(|(x, y)| x.dir == y.dir && self.unify(&x.ty, &y.ty))
    }

    /// Returns the apply parameters of a parser or control type, with its type arguments substituted.
    pub(crate) fn block_params(&self, ty: &Type) -> Vec<BlockParam> {
        let (type_params, params, args) = match ty {
            Type::Parser(id, args) => {
                let block = &self.prog.parsers[id.index()];
                (&block.type_params, &block.params, args)
            }
            Type::Control(id, args) => {
                let block = &self.prog.controls[id.index()];
                (&block.type_params, &block.params, args)
            }
            _ => return Vec::new(),
        };
        params
            .iter()
            .map(|p| BlockParam {
                name: self.prog.vars[p.var.index()].name.clone(),
                dir: p.dir,
                optional: p.optional || p.default.is_some(),
                ty: substitute(&self.prog.vars[p.var.index()].ty, type_params, args),
            })
            .collect()
    }

    /// Returns why a parser or control does not fit a parser or control type, for a note.
    pub(crate) fn block_mismatch(&mut self, wanted: &Type, found: &Type) -> Option<String> {
        let xs = self.block_params(wanted);
        let ys = self.block_params(found);
        if xs.len() != ys.len() {
            let plural = if xs.len() == 1 { "" } else { "s" };
            return Some(format!("{} parameter{plural} expected, but it has {}", xs.len(), ys.len()));
        }
        for (x, y) in xs.iter().zip(&ys) {
            let (a, b) = (self.show(&x.ty), self.show(&y.ty));
            if x.dir != y.dir {
                return Some(format!(
                    "parameter `{}` must have {}, but `{}` has {}",
                    x.name,
                    direction_name(x.dir),
                    y.name,
                    direction_name(y.dir)
                ));
            }
            if !self.unify(&x.ty, &y.ty) {
                return Some(format!(
                    "parameter `{}` must have type {a}, but `{}` has type {b}",
                    x.name, y.name
                ));
            }
        }
        None
    }

    /// Substitutes inferred types in an expression and everything inside it.
    pub(crate) fn settle(&self, expr: &mut Expr) {
        map_types(expr, &mut |ty| self.known(ty));
    }

    /// Returns a type as a programmer would write it.
    pub(crate) fn show(&self, ty: &Type) -> String {
        let args = |types: &[Type]| {
            if types.is_empty() {
                String::new()
            } else {
                format!("<{}>", types.iter().map(|t| self.show_bare(t)).collect::<Vec<_>>().join(", "))
            }
        };
        let text = match self.known(ty) {
            Type::Parser(id, a) => {
                return format!("parser `{}{}`", self.prog.parsers[id.index()].name, args(&a));
            }
            Type::Control(id, a) => {
                return format!("control `{}{}`", self.prog.controls[id.index()].name, args(&a));
            }
            Type::Package(id, a) => {
                return format!("package `{}{}`", self.prog.packages[id.index()].name, args(&a));
            }
            Type::Extern(id, a) => {
                return format!("extern `{}{}`", self.prog.externs[id.index()].name, args(&a));
            }
            Type::ApplyResult(id) => {
                return format!("the result of applying table `{}`", self.prog.tables[id.index()].name);
            }
            Type::ActionEnum(id) => {
                return format!("the `action_run` of table `{}`", self.prog.tables[id.index()].name);
            }
            Type::Struct(id, _) => {
                let kind = match self.prog.structs[id.index()].kind {
                    StructKind::Struct => "struct",
                    StructKind::Header => "header",
                    StructKind::HeaderUnion => "header_union",
                };
                return format!("{kind} `{}`", self.show_bare(ty));
            }
            stack @ Type::Stack(..) => {
                let kind = if self.is_header_stack(&stack) { "header stack" } else { "array" };
                return format!("{kind} `{}`", self.show_bare(ty));
            }
            Type::Enum(id) => return format!("enum `{}`", self.prog.enums[id.index()].name),
            _ => self.show_bare(ty),
        };
        format!("`{text}`")
    }

    /// Like [`Self::show`], without quotation marks and kind.
    pub(crate) fn show_bare(&self, ty: &Type) -> String {
        self.prog.type_text(&self.known(ty))
    }

    /// Returns the inferred type arguments; `None` if one is wrong, or if nothing determines one, which is reported.
    pub(crate) fn inferred(
        &mut self,
        params: &[TypeParamId],
        args: &[Type],
        callee: &str,
        span: Span,
    ) -> Option<Vec<Type>> {
        let mut result = Some(Vec::with_capacity(args.len()));
        for (i, arg) in args.iter().enumerate() {
            if self.is_open(arg) {
                let name = params.get(i).map_or("_", |p| &self.prog.type_params[p.index()]);
                let diagnostic = Diagnostic::error(
                    "cannot-infer",
                    span,
                    format!("cannot infer type parameter `{name}` of `{callee}`"),
                )
                .note(format!("write the type arguments: `{callee}<…>(…)`"));
                self.report(diagnostic);
                result = None;
            } else {
                let arg = self.known(arg);
                if is_poison(&arg) {
                    result = None;
                } else if let Some(result) = &mut result {
                    result.push(arg);
                }
            }
        }
        result
    }

    /// Returns the result type of a call with inferred types substituted; `None` if it is too large, which is reported.
    pub(crate) fn result_type(&mut self, ret: &Type, callee: &str, span: Span) -> Option<Type> {
        // Counted before it is built: nested calls in arguments could square the size at each level.
        let mut left = NODES_MAX;
        let problem = if self.fits(ret, &mut left) {
            let ty = self.known(ret);
            match self.prog.too_large(&ty) {
                None => return Some(ty),
                Some(problem) => problem,
            }
        } else {
            format!("that names more than {NODES_MAX} types")
        };
        self.error("limit-exceeded", span, format!("`{callee}` returns a type {problem}"));
        None
    }

    /// True if a type, with inferred types substituted, contains at most `left` types.
    fn fits(&self, ty: &Type, left: &mut usize) -> bool {
        if let Type::Param(id) = ty
            && let Some(bound) = inference_index(*id).and_then(|i| self.bindings[i].as_ref())
        {
            return self.fits(bound, left);
        }
        if *left == 0 {
            return false;
        }
        *left -= 1;
        !any_child(ty, &mut |t| !self.fits(t, left))
    }
}

/// A parameter of a parser or control with its type.
#[derive(Clone, Debug)]
pub(crate) struct BlockParam {
    pub(crate) name: String,
    pub(crate) dir: Direction,
    pub(crate) optional: bool,
    pub(crate) ty: Type,
}

/// Returns the name of a direction, for messages.
pub(crate) fn direction_name(dir: Direction) -> &'static str {
    match dir {
        Direction::None => "no direction",
        Direction::In => "direction `in`",
        Direction::Out => "direction `out`",
        Direction::InOut => "direction `inout`",
    }
}
