//! Types that contain types: type parameters and their substitution.

use crate::typed::*;

/// The type of erroneous expressions. It agrees with every type and is never reported.
pub(crate) const POISON: Type = Type::Param(TypeParamId(u32::MAX));

/// True if a type is [`POISON`].
pub(crate) fn is_poison(ty: &Type) -> bool {
    *ty == POISON
}

/// Applies `f` to the types directly inside a type.
pub(crate) fn map_children(ty: &Type, f: &mut impl FnMut(&Type) -> Type) -> Type {
    let mut all = |types: &[Type]| types.iter().map(&mut *f).collect::<Vec<_>>();
    match ty {
        Type::Struct(id, args) => Type::Struct(*id, all(args)),
        Type::Extern(id, args) => Type::Extern(*id, all(args)),
        Type::Parser(id, args) => Type::Parser(*id, all(args)),
        Type::Control(id, args) => Type::Control(*id, all(args)),
        Type::Package(id, args) => Type::Package(*id, all(args)),
        Type::Tuple(types) => Type::Tuple(all(types)),
        Type::Stack(element, size) => Type::Stack(Box::new(f(element)), *size),
        Type::List(element) => Type::List(Box::new(f(element))),
        Type::Set(element) => Type::Set(Box::new(f(element))),
        other => other.clone(),
    }
}

pub(crate) fn any_child(ty: &Type, f: &mut impl FnMut(&Type) -> bool) -> bool {
    match ty {
        Type::Struct(_, types)
        | Type::Extern(_, types)
        | Type::Parser(_, types)
        | Type::Control(_, types)
        | Type::Package(_, types)
        | Type::Tuple(types) => types.iter().any(f),
        Type::Stack(element, _) | Type::List(element) | Type::Set(element) => f(element),
        _ => false,
    }
}

/// True if a type contains type parameters.
pub(crate) fn is_generic(ty: &Type) -> bool {
    match ty {
        Type::Param(_) => !is_poison(ty),
        _ => any_child(ty, &mut is_generic),
    }
}

/// Returns the number of types in a type, including itself.
pub(crate) fn nodes(ty: &Type) -> usize {
    let mut count = 1;
    any_child(ty, &mut |t| {
        count += nodes(t);
        false
    });
    count
}

/// Replaces the type parameters that `find` knows.
pub fn replace_params(ty: &Type, find: &impl Fn(TypeParamId) -> Option<Type>) -> Type {
    match ty {
        Type::Param(id) => find(*id).unwrap_or_else(|| ty.clone()),
        _ => map_children(ty, &mut |t| replace_params(t, find)),
    }
}

/// Replaces the type parameters `params` of a generic declaration by its type arguments.
pub fn substitute(ty: &Type, params: &[TypeParamId], args: &[Type]) -> Type {
    if params.is_empty() {
        return ty.clone();
    }
    replace_params(ty, &|id| {
        params.iter().position(|p| *p == id).map(|i| args.get(i).cloned().unwrap_or(POISON))
    })
}

/// Like [`substitute`], in the types of a default value.
pub(crate) fn substitute_expr(expr: &Expr, params: &[TypeParamId], args: &[Type]) -> Expr {
    if params.is_empty() {
        return expr.clone();
    }
    let mut expr = expr.clone();
    map_types(&mut expr, &mut |ty| substitute(ty, params, args));
    expr
}

/// Applies `f` to the types of an expression and of its subexpressions.
pub(crate) fn map_types(expr: &mut Expr, f: &mut impl FnMut(&Type) -> Type) {
    expr.ty = f(&expr.ty);
    match &mut expr.kind {
        ExprKind::Aggregate(items) => items.iter_mut().for_each(|e| map_types(e, f)),
        ExprKind::Construct { args, .. } => args.iter_mut().flatten().for_each(|e| map_types(e, f)),
        ExprKind::Conditional(c, a, b) => {
            map_types(c, f);
            map_types(a, f);
            map_types(b, f);
        }
        ExprKind::Cast(e) => map_types(e, f),
        _ => {}
    }
}
