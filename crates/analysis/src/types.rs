//! Type references, nesting rules, and sizes of types (P4_16, "P4 data types").

use crate::check::Checker;
use crate::generic::{POISON, is_poison, substitute};
use crate::members::Owner;
use crate::scopes::Symbol;
use crate::typed::*;
use num_bigint::BigInt;
use num_traits::{Signed, ToPrimitive};
use p4jet_syntax::ast::{self, StructKind, TypeKind};
use p4jet_syntax::diagnostic::Diagnostic;
use p4jet_syntax::span::Span;

/// Maximum width of `varbit`.
pub(crate) const VARBITS_MAX: u32 = 32_768;
/// Maximum length of an array or header stack.
const STACK_MAX: u32 = 4_096;

/// The treatment of a generic type without type arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// They are required.
    Refuse,
    /// They will be inferred: constructor calls, direct application.
    Infer,
}

impl Checker {
    /// Resolves a type reference.
    pub(crate) fn resolve_type(&mut self, ty: &ast::TypeRef) -> Type {
        self.type_ref(ty, Missing::Refuse)
    }

    /// Like [`Self::resolve_type`], but `missing` decides on missing type arguments.
    pub(crate) fn type_ref(&mut self, ty: &ast::TypeRef, missing: Missing) -> Type {
        let resolved = self.deeper(ty.span, |c| c.type_kind(ty, missing)).unwrap_or(POISON);
        if let Some(what) = self.prog.too_large(&resolved) {
            self.error("limit-exceeded", ty.span, format!("a type {what}"));
            return POISON;
        }
        resolved
    }

    fn type_kind(&mut self, ty: &ast::TypeRef, missing: Missing) -> Type {
        match &ty.kind {
            TypeKind::Bool => Type::Bool,
            TypeKind::Error => {
                if self.prog.errors.is_empty() && !self.error_type_reported {
                    self.error_type_reported = true;
                    if !self.missing_file("core.p4", ty.span, "the members of `error` are") {
                        self.report(
                            Diagnostic::error(
                                "unknown-name",
                                ty.span,
                                "`error` has no members: the program declares none",
                            )
                            .note("`#include <core.p4>` declares `error.NoError` and others"),
                        );
                    }
                }
                Type::Error
            }
            TypeKind::MatchKind => Type::MatchKind,
            TypeKind::String => Type::String,
            TypeKind::Void => Type::Void,
            TypeKind::Integer => Type::Integer,
            TypeKind::DontCare => {
                if missing == Missing::Infer {
                    return self.fresh();
                }
                if self.dont_care_params.is_some() {
                    let id = self.new_type_param("_");
                    if let Some(params) = &mut self.dont_care_params {
                        params.push(id);
                    }
                    return Type::Param(id);
                }
                self.error(
                    "type-mismatch",
                    ty.span,
                    "`_` is not a type here: nothing determines what it stands for",
                );
                POISON
            }
            TypeKind::Bit(width) => self.width(width, "bit", 0, BITS_MAX).map_or(POISON, Type::Bit),
            TypeKind::Int(width) => self.width(width, "int", 1, BITS_MAX).map_or(POISON, Type::Int),
            TypeKind::Varbit(width) => {
                self.width(width, "varbit", 0, VARBITS_MAX).map_or(POISON, Type::Varbit)
            }
            TypeKind::Tuple(types) => {
                let types = types
                    .iter()
                    .map(|t| {
                        let inner = self.type_ref(t, missing);
                        self.check_nesting(&inner, "tuple", t.span);
                        inner
                    })
                    .collect();
                Type::Tuple(types)
            }
            TypeKind::List(element) => {
                let inner = self.type_ref(element, missing);
                self.check_nesting(&inner, "list", element.span);
                Type::List(Box::new(inner))
            }
            TypeKind::Stack(element, size) => {
                let inner = self.type_ref(element, missing);
                let Some(count) = self.count(size, "the size of an array", 0, STACK_MAX) else {
                    return POISON;
                };
                if count == 0 {
                    // P4_16, "Header stacks", requires a positive number; p4c accepts 0, and programs use it.
                    self.report(
                        Diagnostic::warning("invalid", size.span, "an array of size 0")
                            .note("it has no element; the size must be positive"),
                    );
                }
                let inner = self.known(&inner);
                let allowed = match &inner {
                    Type::Bit(_) | Type::Int(_) | Type::Varbit(_) | Type::Bool | Type::Error => true,
                    Type::Enum(_) | Type::New(_) | Type::Struct(..) | Type::Extern(..) | Type::Param(_) => {
                        true
                    }
                    Type::Stack(..) => !self.is_header_stack(&inner),
                    _ => false,
                };
                if !allowed {
                    let message = format!("an array cannot consist of {}", self.show(&inner));
                    self.error("type-nesting", element.span, message);
                    return POISON;
                }
                Type::Stack(Box::new(inner), count)
            }
            TypeKind::Named(path, args) => self.named_type(path, args, ty.span, missing),
        }
    }

    fn named_type(&mut self, path: &ast::Path, args: &[ast::TypeRef], span: Span, missing: Missing) -> Type {
        let Some(symbol) = self.resolve(path, "type", Symbol::is_type) else {
            for arg in args {
                self.type_ref(arg, missing);
            }
            return POISON;
        };
        let params = match &symbol {
            Symbol::Type(_) => Vec::new(),
            Symbol::Struct(id) => self.prog.structs[id.index()].type_params.clone(),
            Symbol::Extern(id) => self.prog.externs[id.index()].type_params.clone(),
            Symbol::Parser(id) => self.prog.parsers[id.index()].type_params.clone(),
            Symbol::Control(id) => self.prog.controls[id.index()].type_params.clone(),
            Symbol::Package(id) => self.prog.packages[id.index()].type_params.clone(),
            Symbol::Poison => return POISON,
            other => {
                let diagnostic = Diagnostic::error(
                    "not-a-type",
                    span,
                    format!("`{}` is {}, but a type is expected", path.name.text, other.describe()),
                );
                let diagnostic = self.declared_here(diagnostic, &path.name.text);
                self.report(diagnostic);
                return POISON;
            }
        };
        // Parameters created by `_` in the declaration come last and are always inferred.
        let named = params.iter().filter(|p| self.prog.type_params[p.index()] != "_").count();
        let mut types: Vec<Type> = args.iter().map(|a| self.type_ref(a, missing)).collect();
        if types.len() != named && !(types.is_empty() && missing == Missing::Infer) {
            let diagnostic = Diagnostic::error(
                "type-arguments",
                span,
                format!(
                    "type `{}` takes {}, but {} given",
                    path.name.text,
                    arguments(named),
                    were(types.len())
                ),
            );
            let diagnostic = self.declared_here(diagnostic, &path.name.text);
            self.report(diagnostic);
            return POISON;
        }
        while types.len() < params.len() {
            let ty = if missing == Missing::Infer {
                self.fresh()
            } else {
                let id = self.new_type_param("_");
                match &mut self.dont_care_params {
                    Some(collected) => {
                        collected.push(id);
                        Type::Param(id)
                    }
                    None => self.fresh(),
                }
            };
            types.push(ty);
        }
        match symbol {
            Symbol::Type(ty) => ty,
            Symbol::Struct(id) => {
                let ty = Type::Struct(id, types);
                if !args.is_empty() {
                    self.check_specialised(&ty, span);
                }
                ty
            }
            Symbol::Extern(id) => Type::Extern(id, types),
            Symbol::Parser(id) => Type::Parser(id, types),
            Symbol::Control(id) => Type::Control(id, types),
            Symbol::Package(id) => Type::Package(id, types),
            _ => POISON,
        }
    }

    /// Applies the nesting rules to a generic struct or header with its type arguments.
    fn check_specialised(&mut self, ty: &Type, span: Span) {
        let Type::Struct(id, _) = ty else { return };
        let kind = self.prog.structs[id.index()].kind;
        for (_, field) in self.fields(ty) {
            self.check_nesting(&field, struct_kind_name(kind), span);
        }
    }

    /// Evaluates an expression to a width within bounds.
    fn width(&mut self, expr: &ast::Expr, name: &str, min: u32, max: u32) -> Option<u32> {
        let value = self.integer_constant(expr, "a width")?;
        if value < BigInt::from(min) {
            self.error(
                "width",
                expr.span,
                format!("`{name}` types have a width of at least {min}, not {value}"),
            );
            return None;
        }
        match value.to_u32().filter(|w| *w <= max) {
            Some(width) => Some(width),
            None => {
                let shown = short(&value);
                self.unsupported(
                    expr.span,
                    format_args!("`{name}<{shown}>`: p4jet has `{name}` types up to {max} bits"),
                );
                None
            }
        }
    }

    /// Evaluates an expression to a number within bounds.
    pub(crate) fn count(&mut self, expr: &ast::Expr, what: &str, min: u32, max: u32) -> Option<u32> {
        let value = self.integer_constant(expr, what)?;
        match value.to_u32().filter(|n| (min..=max).contains(n)) {
            Some(n) => Some(n),
            None => {
                let shown = short(&value);
                self.error(
                    "out-of-range",
                    expr.span,
                    format!("{what} must be from {min} to {max}, but it is {shown}"),
                );
                None
            }
        }
    }

    /// Evaluates an expression to a compile-time number.
    pub(crate) fn integer_constant(&mut self, expr: &ast::Expr, what: &str) -> Option<BigInt> {
        let typed = self.expr(expr, None);
        if is_poison(&typed.ty) {
            return None;
        }
        match (&typed.kind, self.numeric(&typed.ty)) {
            (ExprKind::Int(value), Some(_)) => Some(value.clone()),
            (_, Some(_)) => {
                self.error("not-constant", expr.span, format!("{what} must be known at compile time"));
                None
            }
            (_, None) => {
                let shown = self.show(&typed.ty);
                self.error("type-mismatch", expr.span, format!("{what} must be a number, not {shown}"));
                None
            }
        }
    }

    /// Returns `bit`, `int<W>` or `int` unchanged, the underlying type of a serializable enum, or else `None`.
    pub(crate) fn numeric(&self, ty: &Type) -> Option<Type> {
        match ty {
            Type::Bit(_) | Type::Int(_) | Type::Integer => Some(ty.clone()),
            Type::Enum(id) => self.prog.enums[id.index()].underlying.clone(),
            _ => None,
        }
    }

    /// Returns the index of a field of a struct, header or union, and its type with type arguments substituted.
    pub(crate) fn field(&mut self, ty: &Type, name: &str) -> Option<(usize, Type)> {
        let Type::Struct(id, args) = ty else { return None };
        let i = self.member_place(Owner::Struct(*id), name)?;
        let decl = &self.prog.structs[id.index()];
        Some((i, substitute(&decl.fields[i].ty, &decl.type_params, args)))
    }

    /// Returns the fields of a struct, header or union with their types, type arguments substituted.
    pub(crate) fn fields(&self, ty: &Type) -> Vec<(String, Type)> {
        let Type::Struct(id, args) = ty else { return Vec::new() };
        let decl = &self.prog.structs[id.index()];
        decl.fields.iter().map(|f| (f.name.clone(), substitute(&f.ty, &decl.type_params, args))).collect()
    }

    /// True if a type is an array of headers or header unions, which supports more operations than other arrays.
    pub(crate) fn is_header_stack(&self, ty: &Type) -> bool {
        match ty {
            Type::Stack(element, _) => match &**element {
                Type::Struct(..) => self.struct_kind(element) != Some(StructKind::Struct),
                element => matches!(element, Type::Param(_)),
            },
            _ => false,
        }
    }

    /// True if values of a type are objects, alone or in arrays.
    pub(crate) fn is_object(ty: &Type) -> bool {
        match ty {
            Type::Extern(..) | Type::Parser(..) | Type::Control(..) | Type::Package(..) => true,
            Type::Stack(element, _) => Self::is_object(element),
            _ => false,
        }
    }

    /// Returns whether a type is a struct, header or union.
    pub(crate) fn struct_kind(&self, ty: &Type) -> Option<StructKind> {
        match ty {
            Type::Struct(id, _) => Some(self.prog.structs[id.index()].kind),
            _ => None,
        }
    }

    /// Reports a type that is not allowed inside a container (P4_16, "Type nesting rules").
    pub(crate) fn check_nesting(&mut self, ty: &Type, container: &'static str, span: Span) {
        let allowed = match (ty, container) {
            (Type::Param(_), _) => true,
            (Type::Void | Type::Set(_) | Type::Parser(..) | Type::Control(..) | Type::Package(..), _) => {
                false
            }
            (Type::ApplyResult(_) | Type::ActionEnum(_), _) => false,
            _ if Self::is_object(ty) => false,
            (_, "list") => true,
            // The specification's table forbids these in tuples; programs rely on lists of such tuples.
            (Type::Integer | Type::String | Type::MatchKind, "tuple") => true,
            (Type::Integer | Type::String | Type::MatchKind | Type::List(_), _) => false,
            (_, "struct" | "tuple") => true,
            (Type::Struct(..), "header_union") => self.struct_kind(ty) == Some(StructKind::Header),
            (_, "header_union") => false,
            (Type::Bit(_) | Type::Int(_) | Type::Varbit(_) | Type::Bool, _) => true,
            (Type::Stack(element, _), _) if !self.is_header_stack(ty) => {
                return self.check_nesting(element, container, span);
            }
            (Type::Enum(id), _) => self.prog.enums[id.index()].underlying.is_some(),
            (Type::New(id), _) => {
                let inner = self.prog.new_types[id.index()].ty.clone();
                return self.check_nesting(&inner, container, span);
            }
            (Type::Struct(..), _) => {
                if self.struct_kind(ty) != Some(StructKind::Struct) {
                    false
                } else {
                    for (_, field) in self.fields(ty) {
                        if matches!(field, Type::Varbit(_)) {
                            self.unsupported(span, "a `varbit` field in a struct inside a header");
                        }
                        self.check_nesting(&field, container, span);
                    }
                    true
                }
            }
            _ => false,
        };
        if !allowed {
            let shown = self.show(ty);
            let choices = match container {
                "header" => {
                    "`bit<W>`, `int<W>`, `varbit<W>`, `bool`, enums with an underlying type, structs and arrays of these"
                }
                "header_union" => "headers",
                _ => "all types except `int`, `string`, `void`, `match_kind`, lists and objects",
            };
            let article = if container == "tuple" || container == "list" { "elements" } else { "fields" };
            self.report(
                Diagnostic::error("type-nesting", span, format!("{shown} cannot be part of a {container}"))
                    .note(format!("{article} of a {container} may be: {choices}")),
            );
        }
    }

    /// Returns the minimum and maximum size of a value in bits (P4_16, "Compile-time size determination").
    pub(crate) fn size_in_bits(&self, ty: &Type) -> Option<(u64, u64)> {
        let sum = |types: Vec<Type>| {
            types.iter().try_fold((0u64, 0u64), |(lo, hi), t| {
                let (a, b) = self.size_in_bits(t)?;
                Some((lo.checked_add(a)?, hi.checked_add(b)?))
            })
        };
        match ty {
            Type::Bit(w) | Type::Int(w) => Some((u64::from(*w), u64::from(*w))),
            Type::Bool => Some((1, 1)),
            Type::Varbit(w) => Some((0, u64::from(*w))),
            Type::Enum(id) => self.size_in_bits(self.prog.enums[id.index()].underlying.as_ref()?),
            Type::New(id) => self.size_in_bits(&self.prog.new_types[id.index()].ty),
            Type::Tuple(types) => sum(types.clone()),
            Type::Stack(element, n) => {
                let (lo, hi) = self.size_in_bits(element)?;
                Some((lo.checked_mul(u64::from(*n))?, hi.checked_mul(u64::from(*n))?))
            }
            Type::Struct(id, _) => {
                let fields: Vec<Type> = self.fields(ty).into_iter().map(|(_, t)| t).collect();
                if self.prog.structs[id.index()].kind == StructKind::HeaderUnion {
                    return fields.iter().try_fold((0, 0), |(lo, hi): (u64, u64), t| {
                        let (a, b) = self.size_in_bits(t)?;
                        Some((lo.max(a), hi.max(b)))
                    });
                }
                sum(fields)
            }
            _ => None,
        }
    }

    /// True if `==` is defined.
    pub(crate) fn comparable(&self, ty: &Type) -> bool {
        match ty {
            Type::Bool
            | Type::Integer
            | Type::Bit(_)
            | Type::Int(_)
            | Type::Varbit(_)
            | Type::Error
            | Type::MatchKind
            | Type::String
            | Type::Enum(_) => true,
            Type::New(id) => self.comparable(&self.prog.new_types[id.index()].ty),
            Type::Struct(..) => self.fields(ty).iter().all(|(_, t)| self.comparable(t)),
            Type::Stack(element, _) | Type::List(element) => self.comparable(element),
            Type::Tuple(types) => types.iter().all(|t| self.comparable(t)),
            Type::Param(_) => is_poison(ty),
            _ => false,
        }
    }
}

/// Returns the keyword.
pub(crate) fn struct_kind_name(kind: StructKind) -> &'static str {
    match kind {
        StructKind::Struct => "struct",
        StructKind::Header => "header",
        StructKind::HeaderUnion => "header_union",
    }
}

/// Returns a number for a message, shortened if it is long.
pub(crate) fn short(value: &BigInt) -> String {
    if value.bits() <= 128 {
        return value.to_string();
    }
    let sign = if value.is_negative() { "-" } else { "" };
    format!("{sign}(a number of {} bits)", value.bits())
}

/// "2 arguments"
pub(crate) fn arguments(n: usize) -> String {
    match n {
        0 => "no type arguments".into(),
        1 => "1 type argument".into(),
        n => format!("{n} type arguments"),
    }
}

/// "2 are", "1 is"
pub(crate) fn were(n: usize) -> String {
    match n {
        0 => "none is".into(),
        1 => "1 is".into(),
        n => format!("{n} are"),
    }
}
