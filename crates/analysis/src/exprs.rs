//! Expressions: names, members, operators, l-values (P4_16, "Expressions").

use crate::check::{Checker, Place, VarKind};
use crate::consts::{self, FoldError, is_value};
use crate::generic::is_poison;
use crate::members::Owner;
use crate::scopes::Symbol;
use crate::typed::*;
use num_bigint::BigInt;
use num_traits::{Signed, ToPrimitive, Zero};
use p4jet_syntax::ast::{self, BinaryOp, Direction, UnaryOp};
use p4jet_syntax::diagnostic::Diagnostic;
use p4jet_syntax::span::Span;
use std::rc::Rc;

/// Maximum length of a string produced by `++`.
const TEXT_BYTES_MAX: usize = 1 << 16;

impl Checker {
    /// Checks an expression. `expected` is the type that the context prefers; it determines the type of `{ … }`, `...`
    /// and `{#}`, but the caller still has to [`Checker::coerce`] the result.
    pub(crate) fn expr(&mut self, expr: &ast::Expr, expected: Option<&Type>) -> Expr {
        let typed =
            self.deeper(expr.span, |c| c.expr_kind(expr, expected)).unwrap_or_else(|| self.poison(expr.span));
        if typed.ty == Type::Void {
            self.error("type-mismatch", expr.span, "this call returns no value, but a value is expected");
            return self.poison(expr.span);
        }
        if !self.spend(consts::own_units(&typed), expr.span) {
            return self.poison(expr.span);
        }
        typed
    }

    /// Checks an expression and converts it to `target`.
    pub(crate) fn expr_of(&mut self, expr: &ast::Expr, target: &Type, what: &str) -> Expr {
        let typed = self.expr(expr, Some(target));
        self.coerce(typed, target, what)
    }

    /// Like [`Self::expr_of`], but requires a compile-time value.
    pub(crate) fn constant_of(&mut self, expr: &ast::Expr, target: &Type, what: &str) -> Expr {
        let typed = self.expr_of(expr, target, what);
        if !is_poison(&typed.ty) && (!self.compile_time(&typed) || self.mentions_data(&typed)) {
            self.error("not-constant", expr.span, format!("{what} must be known at compile time"));
            return self.poison(expr.span);
        }
        typed
    }

    /// True if the value is known at compile time, perhaps only once the enclosing object is instantiated. Directionless
    /// parameters and action data count, because another directionless parameter may take them.
    pub(crate) fn compile_time(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Instance(_) | ExprKind::Construct { .. } => true,
            ExprKind::Var(id) => matches!(
                self.var_kinds[id.index()],
                VarKind::Constructor | VarKind::ActionData | VarKind::Param(Direction::None)
            ),
            ExprKind::Field(e, _) | ExprKind::Slice(e, ..) | ExprKind::Unary(_, e) | ExprKind::Cast(e) => {
                self.compile_time(e)
            }
            ExprKind::Index(a, b) | ExprKind::Binary(_, a, b) => self.compile_time(a) && self.compile_time(b),
            ExprKind::Conditional(a, b, c) => {
                self.compile_time(a) && self.compile_time(b) && self.compile_time(c)
            }
            ExprKind::Aggregate(items) => items.iter().all(|e| self.compile_time(e)),
            ExprKind::Call(call) => self.known_call(call),
            _ => is_value(expr),
        }
    }

    /// True if a call has a compile-time value: a call of an extern function that creates an object, or of a `@pure` one
    /// with compile-time arguments.
    fn known_call(&self, call: &Call) -> bool {
        let Callee::Function(id) = call.callee else { return false };
        let function = &self.prog.functions[id.index()];
        let known = matches!(function.ret, Type::Extern(..))
            || function.annotations.iter().any(|a| a.name.text == "pure")
                && function.params.iter().all(|p| p.dir == Direction::None);
        function.body.is_none() && known && call.args.iter().flatten().all(|e| self.compile_time(e))
    }

    /// True if the value depends on a parameter that is known only when a call or an entry supplies it.
    fn mentions_data(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Var(id) => self.var_kinds[id.index()] != VarKind::Constructor,
            ExprKind::Field(e, _) | ExprKind::Slice(e, ..) | ExprKind::Unary(_, e) | ExprKind::Cast(e) => {
                self.mentions_data(e)
            }
            ExprKind::Index(a, b) | ExprKind::Binary(_, a, b) => {
                self.mentions_data(a) || self.mentions_data(b)
            }
            ExprKind::Conditional(a, b, c) => {
                self.mentions_data(a) || self.mentions_data(b) || self.mentions_data(c)
            }
            ExprKind::Aggregate(items) => items.iter().any(|e| self.mentions_data(e)),
            _ => false,
        }
    }

    fn expr_kind(&mut self, expr: &ast::Expr, expected: Option<&Type>) -> Expr {
        let span = expr.span;
        match &expr.kind {
            ast::ExprKind::Int(literal) => self.int_literal(literal, span),
            ast::ExprKind::Bool(b) => Expr { ty: Type::Bool, kind: ExprKind::Bool(*b), span },
            ast::ExprKind::String(s) => Expr { ty: Type::String, kind: ExprKind::String(s.clone()), span },
            ast::ExprKind::This => match self.this {
                Some(id) => self.instance_expr(id, span),
                None => {
                    self.error(
                        "this",
                        span,
                        "`this` has a meaning only in the implementation of an abstract method",
                    );
                    self.poison(span)
                }
            },
            ast::ExprKind::Path(path) => self.path(path, span),
            ast::ExprKind::Type(ty) => match &ty.kind {
                ast::TypeKind::Named(path, args) if args.is_empty() => self.path(path, span),
                _ => {
                    self.error("not-a-value", span, "this is a type, but a value is expected");
                    self.poison(span)
                }
            },
            ast::ExprKind::Member(base, name) => self.member(base, name, span),
            ast::ExprKind::Index(base, index) => self.index(base, index, span),
            ast::ExprKind::Slice(base, hi, lo) => self.slice(base, hi, lo, span),
            ast::ExprKind::PlusSlice(base, lo, width) => self.plus_slice(base, lo, width, span),
            ast::ExprKind::Unary(op, operand) => self.unary(*op, operand, span),
            ast::ExprKind::Binary(op, left, right) => self.binary_expr(*op, left, right, span),
            ast::ExprKind::Conditional(c, a, b) => self.conditional(c, a, b, expected, span),
            ast::ExprKind::Cast(ty, operand) => {
                let target = self.resolve_type(ty);
                if is_poison(&target) {
                    self.expr(operand, None);
                    return self.poison(span);
                }
                let hint = if soft(operand) { Some(&target) } else { None };
                let operand = self.expr(operand, hint);
                self.explicit_cast(operand, &target, span)
            }
            ast::ExprKind::Call(callee, type_args, args) => {
                self.call(callee, type_args, args, expected, span)
            }
            ast::ExprKind::List(items, dots) => self.list(items, *dots, expected, span),
            ast::ExprKind::Record(fields, dots) => self.record(fields, *dots, expected, span),
            ast::ExprKind::Invalid => self.invalid(expected, span),
            ast::ExprKind::Dots => match expected.map(|t| self.known(t)) {
                Some(ty) => self.default_value(&ty, span),
                None => {
                    self.error(
                        "cannot-infer",
                        span,
                        "cannot determine which type's default value `...` stands for",
                    );
                    self.poison(span)
                }
            },
            ast::ExprKind::Tuple(_) => {
                self.error("not-a-value", span, "`( …, … )` is a key set; a tuple is written `{ …, … }`");
                self.poison(span)
            }
            ast::ExprKind::Default => {
                self.error("not-a-value", span, "`default` is allowed only in key sets and switch labels");
                self.poison(span)
            }
            ast::ExprKind::DontCare => {
                self.error(
                    "not-a-value",
                    span,
                    "`_` is not a value; it stands for `out` arguments and in key sets",
                );
                self.poison(span)
            }
        }
    }

    fn int_literal(&mut self, literal: &ast::IntLit, span: Span) -> Expr {
        let ty = match literal.width {
            None => {
                if literal.value.bits() > consts::INT_BITS_MAX {
                    self.unsupported(
                        span,
                        format_args!("numbers of more than {} bits", consts::INT_BITS_MAX),
                    );
                    return self.poison(span);
                }
                Type::Integer
            }
            Some((width, _)) if width > BITS_MAX => {
                self.unsupported(
                    span,
                    format_args!("a literal of {width} bits: p4jet has types up to {BITS_MAX} bits"),
                );
                return self.poison(span);
            }
            Some((0, true)) => {
                self.error("width", span, "`int` types have a width of at least 1, not 0");
                return self.poison(span);
            }
            Some((width, false)) => Type::Bit(width),
            Some((width, true)) => Type::Int(width),
        };
        let value = consts::wrap(&literal.value, &ty);
        if value != literal.value {
            let shown = self.show(&ty);
            self.report(Diagnostic::warning(
                "overflow",
                span,
                format!(
                    "{} does not fit into {shown} and becomes {}",
                    crate::types::short(&literal.value),
                    crate::types::short(&value)
                ),
            ));
        }
        Expr { ty, kind: ExprKind::Int(value), span }
    }

    /// An instance as a value.
    pub(crate) fn instance_expr(&self, id: InstanceId, span: Span) -> Expr {
        Expr { ty: self.prog.instances[id.index()].ty.clone(), kind: ExprKind::Instance(id), span }
    }

    fn path(&mut self, path: &ast::Path, span: Span) -> Expr {
        // Members of match_kind are values (P4_16, "The match kind type").
        if self.scopes.lookup(&path.name.text, path.global).is_none()
            && let Some(i) = self.prog.match_kinds.get_index_of(&path.name.text)
        {
            return Expr { ty: Type::MatchKind, kind: ExprKind::EnumMember(i as u32), span };
        }
        // Enums have members, and value sets may occur where values do.
        let values = |s: &Symbol| {
            matches!(
                s,
                Symbol::Const(_)
                    | Symbol::Var(_)
                    | Symbol::Instance(_)
                    | Symbol::Table(_)
                    | Symbol::ValueSet(_)
                    | Symbol::Type(Type::Enum(_))
            )
        };
        let Some(symbol) = self.resolve(path, "name", values) else { return self.poison(span) };
        let name = &path.name.text;
        match symbol {
            Symbol::Const(value) => self.copy_of(&value, span),
            Symbol::Var(id) => {
                Expr { ty: self.prog.vars[id.index()].ty.clone(), kind: ExprKind::Var(id), span }
            }
            Symbol::Instance(id) => self.instance_expr(id, span),
            Symbol::Poison => self.poison(span),
            other => {
                let mut diagnostic = Diagnostic::error(
                    "not-a-value",
                    span,
                    format!("`{name}` is {}, but a value is expected", other.describe()),
                );
                match other {
                    Symbol::Functions(_) | Symbol::Action(_) => {
                        diagnostic = diagnostic.note(format!("to call it, write `{name}(…)`"));
                    }
                    Symbol::Table(_) => {
                        diagnostic = diagnostic.note(format!("to apply it, write `{name}.apply()`"))
                    }
                    Symbol::ValueSet(_) => {
                        diagnostic = diagnostic.note("a value set is allowed only as a label of `select`");
                    }
                    _ => {}
                }
                let diagnostic = self.declared_here(diagnostic, name);
                self.report(diagnostic);
                self.poison(span)
            }
        }
    }

    /// Returns the type that an expression names, if any: `E` in `E.member`, `C` in `C.apply()`.
    pub(crate) fn as_type<'a>(&self, expr: &'a ast::Expr) -> Option<std::borrow::Cow<'a, ast::TypeRef>> {
        use std::borrow::Cow;
        match &expr.kind {
            ast::ExprKind::Type(ty) => match &ty.kind {
                ast::TypeKind::Named(path, args) if args.is_empty() => {
                    match self.scopes.lookup(&path.name.text, path.global) {
                        Some(b) if !b.symbol.is_type() && !matches!(b.symbol, Symbol::Poison) => None,
                        _ => Some(Cow::Borrowed(ty)),
                    }
                }
                _ => Some(Cow::Borrowed(ty)),
            },
            ast::ExprKind::Path(path) => {
                let binding = self.scopes.lookup(&path.name.text, path.global)?;
                binding.symbol.is_type().then(|| {
                    let kind = ast::TypeKind::Named(path.clone(), Vec::new());
                    Cow::Owned(ast::TypeRef { kind, span: expr.span })
                })
            }
            _ => None,
        }
    }

    fn member(&mut self, base: &ast::Expr, name: &ast::Ident, span: Span) -> Expr {
        if let Some(ty) = self.as_type(base) {
            let ty = self.resolve_type(&ty);
            return self.type_member(&ty, name, span);
        }
        if let ast::ExprKind::Path(path) = &base.kind
            && let Some(Symbol::Table(id)) =
                self.scopes.lookup(&path.name.text, path.global).map(|b| &b.symbol)
        {
            let table = self.prog.tables[id.index()].name.clone();
            self.report(
                Diagnostic::error(
                    "unknown-member",
                    name.span,
                    format!("a table has no member `{}`", name.text),
                )
                .note(format!("tables have one method: `{table}.apply()`")),
            );
            return self.poison(span);
        }
        if let Some(part) = self.part_of_constant(base, name, span) {
            return part;
        }
        let base = self.expr(base, None);
        self.member_of(base, name, span)
    }

    /// Returns a copy of a field in a constant, without a copy of the whole.
    fn part_of_constant(&mut self, base: &ast::Expr, name: &ast::Ident, span: Span) -> Option<Expr> {
        let (mut base, mut names) = (base, vec![name]);
        while let ast::ExprKind::Member(inner, name) = &base.kind {
            base = &**inner;
            names.push(name);
        }
        let ast::ExprKind::Path(path) = &base.kind else { return None };
        let binding = self.scopes.lookup(&path.name.text, path.global)?;
        let Symbol::Const(value) = &binding.symbol else { return None };
        let (value, declared) = (Rc::clone(value), binding.span);
        let mut part = &*value;
        for name in names.iter().rev() {
            let (i, _) = self.field(&self.known(&part.ty), &name.text)?;
            let ExprKind::Aggregate(items) = &part.kind else { return None };
            part = items.get(i)?;
        }
        if !is_value(part) {
            return None;
        }
        self.warn_if_deprecated(&path.name, declared);
        Some(self.copy_of(part, span))
    }

    /// A member of an enum or of `error`.
    fn type_member(&mut self, ty: &Type, name: &ast::Ident, span: Span) -> Expr {
        let missing = |c: &mut Self, of: String, names: &[String]| {
            let mut diagnostic =
                Diagnostic::error("unknown-member", name.span, format!("{of} has no member `{}`", name.text));
            diagnostic = diagnostic.suggest(&name.text, names.iter().map(String::as_str));
            diagnostic = diagnostic.choices(format!("members of {of}"), names);
            c.report(diagnostic);
            c.poison(span)
        };
        match ty {
            Type::Enum(id) => {
                let place = self.member_place(Owner::Enum(*id), &name.text);
                let decl = &self.prog.enums[id.index()];
                match place {
                    Some(i) if decl.underlying.is_some() => {
                        Expr { ty: ty.clone(), kind: ExprKind::Int(decl.members[i].1.clone()), span }
                    }
                    Some(i) => Expr { ty: ty.clone(), kind: ExprKind::EnumMember(i as u32), span },
                    None => {
                        let of = self.show(ty);
                        let names: Vec<String> = decl.members.iter().map(|(n, _)| n.clone()).collect();
                        missing(self, of, &names)
                    }
                }
            }
            Type::Error => match self.member_place(Owner::Errors, &name.text) {
                Some(i) => Expr { ty: Type::Error, kind: ExprKind::Error(i as u32), span },
                None if self.prog.errors.is_empty()
                    && self.missing_file("core.p4", span, "the members of `error` are") =>
                {
                    self.poison(span)
                }
                None => {
                    let names = self.prog.errors.clone();
                    missing(self, "`error`".into(), &names)
                }
            },
            _ if is_poison(ty) => self.poison(span),
            _ => {
                let shown = self.show(ty);
                self.error("unknown-member", span, format!("{shown} is a type without members to name"));
                self.poison(span)
            }
        }
    }

    fn member_of(&mut self, base: Expr, name: &ast::Ident, span: Span) -> Expr {
        let ty = self.known(&base.ty);
        match &ty {
            Type::Struct(..) => {
                if let Some((i, field)) = self.field(&ty, &name.text) {
                    return field_of(base, i as u32, field, span);
                }
                let fields = self.fields(&ty);
                let shown = self.show(&ty);
                let names: Vec<String> = fields.into_iter().map(|(n, _)| n).collect();
                let mut diagnostic = Diagnostic::error(
                    "unknown-field",
                    name.span,
                    format!("{shown} has no field `{}`", name.text),
                );
                diagnostic = diagnostic.suggest(&name.text, names.iter().map(String::as_str));
                diagnostic = with_fields(diagnostic, &names);
                if ["isValid", "setValid", "setInvalid"].contains(&name.text.as_str()) {
                    diagnostic =
                        diagnostic.note(format!("a method is called with parentheses: `{}()`", name.text));
                }
                self.report(diagnostic);
                self.poison(span)
            }
            Type::Stack(element, size) => match name.text.as_str() {
                "size" => Expr { ty: Type::Bit(32), kind: ExprKind::Int((*size).into()), span },
                _ if !self.is_header_stack(&ty) => {
                    let shown = self.show(&ty);
                    self.report(
                        Diagnostic::error(
                            "unknown-member",
                            name.span,
                            format!("{shown} has no member `{}`", name.text),
                        )
                        .note("the member of an array: `size`; elements: `[i]`"),
                    );
                    self.poison(span)
                }
                "next" | "last" | "lastIndex" if !self.place.in_parser() && self.place != Place::Function => {
                    let place = self.place.describe();
                    self.report(
                        Diagnostic::error(
                            "place",
                            span,
                            format!("`.{}` of a header stack {place}", name.text),
                        )
                        .note("it belongs to parsers; elsewhere use an index"),
                    );
                    self.poison(span)
                }
                "next" => Expr { ty: (**element).clone(), kind: ExprKind::StackNext(Box::new(base)), span },
                "last" => Expr { ty: (**element).clone(), kind: ExprKind::StackLast(Box::new(base)), span },
                "lastIndex" => {
                    Expr { ty: Type::Bit(32), kind: ExprKind::StackLastIndex(Box::new(base)), span }
                }
                _ => {
                    self.report(
                        Diagnostic::error(
                            "unknown-member",
                            name.span,
                            format!("a header stack has no member `{}`", name.text),
                        )
                        .suggest(&name.text, ["size", "next", "last", "lastIndex"])
                        .note("members: `size`, and in parsers `next`, `last`, `lastIndex`")
                        .note("methods: `push_front(n)`, `pop_front(n)`; elements: `[i]`"),
                    );
                    self.poison(span)
                }
            },
            Type::ApplyResult(id) => {
                let table = *id;
                match name.text.as_str() {
                    "hit" => Expr { ty: Type::Bool, kind: ExprKind::ApplyHit { table, miss: false }, span },
                    "miss" => Expr { ty: Type::Bool, kind: ExprKind::ApplyHit { table, miss: true }, span },
                    "action_run" => Expr { ty: Type::ActionEnum(table), kind: base.kind, span },
                    _ => {
                        self.report(
                            Diagnostic::error(
                                "unknown-member",
                                name.span,
                                format!("the result of applying a table has no member `{}`", name.text),
                            )
                            .suggest(&name.text, ["hit", "miss", "action_run"])
                            .note("members: `hit`, `miss`, `action_run`"),
                        );
                        self.poison(span)
                    }
                }
            }
            _ if is_poison(&ty) => self.poison(span),
            _ => {
                let shown = self.show(&ty);
                self.error("unknown-member", name.span, format!("{shown} has no member `{}`", name.text));
                self.poison(span)
            }
        }
    }

    fn index(&mut self, base: &ast::Expr, index: &ast::Expr, span: Span) -> Expr {
        let base = self.expr(base, None);
        let index = self.expr(index, None);
        let ty = self.known(&base.ty);
        if is_poison(&ty) || is_poison(&index.ty) {
            return self.poison(span);
        }
        let Some(numeric) = self.numeric(&index.ty) else {
            let shown = self.show(&index.ty);
            self.error("type-mismatch", index.span, format!("an index must be a number, not {shown}"));
            return self.poison(span);
        };
        let index = if numeric == index.ty { index } else { self.cast_value(index, numeric) };
        let known = match &index.kind {
            ExprKind::Int(value) => Some(value.clone()),
            _ => None,
        };
        match &ty {
            Type::Stack(element, size) => {
                let index = match known {
                    Some(value) => {
                        // An array of size 0 has no elements, but its size can be read.
                        let beyond = value >= BigInt::from(*size) && *size > 0;
                        if value.is_negative() || beyond {
                            let what = if self.is_header_stack(&ty) { "a header stack" } else { "an array" };
                            self.error(
                                "out-of-range",
                                index.span,
                                format!(
                                    "index {} of {what} with {size} elements",
                                    crate::types::short(&value)
                                ),
                            );
                            return self.poison(span);
                        }
                        Expr { ty: Type::Bit(32), kind: ExprKind::Int(value), span: index.span }
                    }
                    None => index,
                };
                let kind = ExprKind::Index(Box::new(base), Box::new(index));
                Expr { ty: (**element).clone(), kind, span }
            }
            Type::Tuple(types) => {
                let Some(value) = known else {
                    self.error(
                        "not-constant",
                        index.span,
                        "the index of a tuple must be known at compile time",
                    );
                    return self.poison(span);
                };
                let Some(i) = value.to_usize().filter(|i| *i < types.len()) else {
                    self.error(
                        "out-of-range",
                        index.span,
                        format!(
                            "index {} of a tuple with {} elements",
                            crate::types::short(&value),
                            types.len()
                        ),
                    );
                    return self.poison(span);
                };
                if let ExprKind::Aggregate(items) = &base.kind
                    && is_value(&base)
                {
                    return Expr { span, ..items[i].clone() };
                }
                let index = Expr { ty: Type::Integer, ..index };
                Expr { ty: types[i].clone(), kind: ExprKind::Index(Box::new(base), Box::new(index)), span }
            }
            _ => {
                let shown = self.show(&ty);
                let mut diagnostic =
                    Diagnostic::error("type-mismatch", span, format!("{shown} has no elements"));
                if matches!(ty, Type::Bit(_) | Type::Int(_)) {
                    diagnostic = diagnostic.note("one bit is a slice: `x[i:i]`");
                }
                self.report(diagnostic);
                self.poison(span)
            }
        }
    }

    /// Returns the operand of a slice with its width (`None` for `int`).
    fn sliced(&mut self, base: &ast::Expr) -> Option<(Expr, Option<u32>)> {
        let base = self.expr(base, None);
        if is_poison(&base.ty) {
            return None;
        }
        match self.numeric(&base.ty) {
            Some(ty) => {
                let base = if ty == base.ty { base } else { self.cast_value(base, ty.clone()) };
                match ty {
                    Type::Bit(w) | Type::Int(w) => Some((base, Some(w))),
                    _ if is_value(&base) => Some((base, None)),
                    _ => {
                        self.error(
                            "not-constant",
                            base.span,
                            "a slice of an `int` that is not known at compile time",
                        );
                        None
                    }
                }
            }
            None => {
                let shown = self.show(&base.ty);
                self.error("type-mismatch", base.span, format!("a slice needs `bit` or `int`, not {shown}"));
                None
            }
        }
    }

    fn slice(&mut self, base: &ast::Expr, hi: &ast::Expr, lo: &ast::Expr, span: Span) -> Expr {
        let base = self.sliced(base);
        let hi_value = self.integer_constant(hi, "the upper bound of a slice");
        let lo_value = self.integer_constant(lo, "the lower bound of a slice");
        let (Some((base, width)), Some(hi_value), Some(lo_value)) = (base, hi_value, lo_value) else {
            return self.poison(span);
        };
        if hi_value < lo_value {
            self.error(
                "slice",
                span,
                format!("the bounds of a slice are `[high:low]`, but {hi_value} is less than {lo_value}"),
            );
            return self.poison(span);
        }
        let limit = width.unwrap_or(BITS_MAX);
        let (Some(h), Some(l)) = (hi_value.to_u32().filter(|h| *h < limit), lo_value.to_u32()) else {
            let what = match width {
                Some(w) => format!("a value of {w} bits: its bits are {} to 0", w.saturating_sub(1)),
                None => format!("an `int`: p4jet has slices up to bit {}", BITS_MAX - 1),
            };
            let (h, l) = (crate::types::short(&hi_value), crate::types::short(&lo_value));
            self.error("slice", span, format!("slice [{h}:{l}] of {what}"));
            return self.poison(span);
        };
        slice_of(base, h, l, span)
    }

    fn plus_slice(&mut self, base: &ast::Expr, lo: &ast::Expr, width: &ast::Expr, span: Span) -> Expr {
        let base = self.sliced(base);
        let count = self.count(width, "the width of a slice", 1, BITS_MAX);
        let lo = self.expr(lo, None);
        let (Some((base, limit)), Some(count)) = (base, count) else { return self.poison(span) };
        if is_poison(&lo.ty) {
            return self.poison(span);
        }
        let Some(numeric) = self.numeric(&lo.ty) else {
            let shown = self.show(&lo.ty);
            self.error(
                "type-mismatch",
                lo.span,
                format!("the lowest bit of a slice must be a number, not {shown}"),
            );
            return self.poison(span);
        };
        let lo = if numeric == lo.ty { lo } else { self.cast_value(lo, numeric) };
        if let ExprKind::Int(value) = &lo.kind {
            let limit = limit.unwrap_or(BITS_MAX);
            return match value.to_u32().filter(|l| l.checked_add(count).is_some_and(|end| end <= limit)) {
                Some(l) => slice_of(base, l + count - 1, l, span),
                None => {
                    let shown = crate::types::short(value);
                    self.error("slice", span, format!("slice [{shown}+:{count}] of a value of {limit} bits"));
                    self.poison(span)
                }
            };
        }
        if !matches!(lo.ty, Type::Bit(_)) {
            let shown = self.show(&lo.ty);
            self.error(
                "type-mismatch",
                lo.span,
                format!("the lowest bit of a slice must be `bit<W>` or known at compile time, not {shown}"),
            );
            return self.poison(span);
        }
        if limit.is_none() {
            self.error("cannot-infer", base.span, "a slice of an `int` needs bounds known at compile time");
            return self.poison(span);
        }
        let kind = ExprKind::SliceAt { value: Box::new(base), lo: Box::new(lo), width: count };
        Expr { ty: Type::Bit(count), kind, span }
    }

    fn unary(&mut self, op: UnaryOp, operand: &ast::Expr, span: Span) -> Expr {
        let operand = self.expr(operand, None);
        if is_poison(&operand.ty) {
            return self.poison(span);
        }
        if op == UnaryOp::Not {
            let operand = self.coerce(operand, &Type::Bool, "the operand of `!`");
            if is_poison(&operand.ty) {
                return self.poison(span);
            }
            let kind = consts::unary(op, &operand.kind, &Type::Bool)
                .unwrap_or_else(|| ExprKind::Unary(op, Box::new(operand)));
            return Expr { ty: Type::Bool, kind, span };
        }
        let sign = match op {
            UnaryOp::Neg => "-",
            UnaryOp::Plus => "+",
            _ => "~",
        };
        let Some(ty) = self.numeric(&operand.ty) else {
            let shown = self.show(&operand.ty);
            let mut diagnostic =
                Diagnostic::error("operator", span, format!("`{sign}` needs a number, not {shown}"));
            if op == UnaryOp::Complement && operand.ty == Type::Bool {
                diagnostic = diagnostic.note("the negation of a `bool` is `!`");
            }
            self.report(diagnostic);
            return self.poison(span);
        };
        if op == UnaryOp::Complement && ty == Type::Integer {
            self.report(
                Diagnostic::error("operator", span, "`~` of an `int`, which has no width")
                    .note("give the number a width, as in `8w1`"),
            );
            return self.poison(span);
        }
        let operand = if operand.ty == ty { operand } else { self.cast_value(operand, ty.clone()) };
        let kind =
            consts::unary(op, &operand.kind, &ty).unwrap_or_else(|| ExprKind::Unary(op, Box::new(operand)));
        Expr { ty, kind, span }
    }

    fn conditional(
        &mut self,
        condition: &ast::Expr,
        a: &ast::Expr,
        b: &ast::Expr,
        expected: Option<&Type>,
        span: Span,
    ) -> Expr {
        let condition = self.expr_of(condition, &Type::Bool, "the condition of `? :`");
        let left = self.expr(a, expected);
        let hint = if soft(b) && expected.is_none() { Some(left.ty.clone()) } else { expected.cloned() };
        let right = self.expr(b, hint.as_ref());
        if is_poison(&condition.ty) || is_poison(&left.ty) || is_poison(&right.ty) {
            return self.poison(span);
        }
        let (left, right) = match expected.map(|t| self.known(t)) {
            Some(ty @ (Type::Bit(_) | Type::Int(_)))
                if left.ty == Type::Integer && right.ty == Type::Integer =>
            {
                (self.coerce(left, &ty, "the value of `? :`"), self.coerce(right, &ty, "the value of `? :`"))
            }
            _ => match self.balance(left, right, "? :", span) {
                Some(pair) => pair,
                None => return self.poison(span),
            },
        };
        let ty = left.ty.clone();
        match condition.kind {
            ExprKind::Bool(true) => Expr { span, ..left },
            ExprKind::Bool(false) => Expr { span, ..right },
            _ => Expr {
                ty,
                kind: ExprKind::Conditional(Box::new(condition), Box::new(left), Box::new(right)),
                span,
            },
        }
    }

    fn binary_expr(&mut self, op: BinaryOp, left: &ast::Expr, right: &ast::Expr, span: Span) -> Expr {
        let (left, right) = if soft(left) && !soft(right) {
            let right = self.expr(right, None);
            let hint = right.ty.clone();
            let hint = if is_poison(&hint) { None } else { Some(&hint) };
            (self.expr(left, hint), right)
        } else {
            let left = self.expr(left, None);
            let hint = left.ty.clone();
            let hint = if soft(right) && !is_poison(&hint) { Some(&hint) } else { None };
            let right = self.expr(right, hint);
            (left, right)
        };
        self.binary(op, left, right, span)
    }

    /// Applies an operator to two checked operands.
    pub(crate) fn binary(&mut self, op: BinaryOp, left: Expr, right: Expr, span: Span) -> Expr {
        if is_poison(&left.ty) || is_poison(&right.ty) {
            return self.poison(span);
        }
        let sign = operator(op);
        let checked = match op {
            BinaryOp::And | BinaryOp::Or => {
                let what = format!("an operand of `{sign}`");
                let left = self.coerce(left, &Type::Bool, &what);
                let right = self.coerce(right, &Type::Bool, &what);
                (!is_poison(&left.ty) && !is_poison(&right.ty)).then_some((left, right, Type::Bool))
            }
            BinaryOp::Eq | BinaryOp::Ne => self.balance(left, right, sign, span).and_then(|(left, right)| {
                if !self.comparable(&left.ty) {
                    let shown = self.show(&left.ty);
                    self.error("operator", span, format!("`{sign}` is not defined for {shown}"));
                    return None;
                }
                Some((left, right, Type::Bool))
            }),
            BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge => {
                self.balance_numbers(left, right, sign, span).map(|(left, right)| (left, right, Type::Bool))
            }
            BinaryOp::Shl | BinaryOp::Shr => {
                self.shift_operands(left, right, sign, span).map(|(left, right)| {
                    let ty = left.ty.clone();
                    (left, right, ty)
                })
            }
            BinaryOp::Concat if left.ty == Type::String && right.ty == Type::String => {
                let (ExprKind::String(a), ExprKind::String(b)) = (left.kind, right.kind) else {
                    self.error("not-constant", span, "`++` of strings that are not known here");
                    return self.poison(span);
                };
                if a.len() + b.len() > TEXT_BYTES_MAX {
                    self.unsupported(span, format_args!("a string of more than {TEXT_BYTES_MAX} bytes"));
                    return self.poison(span);
                }
                return Expr { ty: Type::String, kind: ExprKind::String(a + &b), span };
            }
            BinaryOp::Concat => self.concat_operands(left, right, span),
            BinaryOp::Mask | BinaryOp::Range => {
                self.error(
                    "operator",
                    span,
                    format!("`{sign}` forms a key set, which is allowed in `select` and `entries`"),
                );
                None
            }
            BinaryOp::Div | BinaryOp::Mod
                if [&left, &right].iter().any(|e| matches!(&e.kind, ExprKind::Int(n) if n.is_negative())) =>
            {
                self.error("operator", span, format!("`{sign}` is not defined for negative numbers"));
                None
            }
            _ => self.balance_numbers(left, right, sign, span).and_then(|(left, right)| {
                let ty = left.ty.clone();
                let saturating = matches!(op, BinaryOp::SatAdd | BinaryOp::SatSub);
                if ty == Type::Integer && saturating {
                    self.report(
                        Diagnostic::error(
                            "operator",
                            span,
                            format!("`{sign}` of `int`s, which have no width"),
                        )
                        .note("give a number a width, as in `8w5`"),
                    );
                    return None;
                }
                // The specification defines division of `int` only. Programs rely on p4c, which also divides `bit<W>`.
                let known = is_value(&left) && is_value(&right);
                if matches!(op, BinaryOp::Div | BinaryOp::Mod) && !known {
                    let late = ty != Type::Integer || !self.compile_time(&left) || !self.compile_time(&right);
                    if late && !matches!(ty, Type::Bit(_)) {
                        let shown = self.show(&ty);
                        self.report(
                            Diagnostic::error("operator", span, format!("`{sign}` of {shown} values")).note(
                                "division is defined for `bit<W>` and for values known at compile time",
                            ),
                        );
                        return None;
                    }
                    if matches!(&right.kind, ExprKind::Int(n) if n.is_zero()) {
                        self.error("operator", span, "division by zero");
                        return None;
                    }
                }
                Some((left, right, ty))
            }),
        };
        let Some((left, right, ty)) = checked else { return self.poison(span) };
        if !self.spend(consts::work_units(op, &left, &right), span) {
            return self.poison(span);
        }
        match consts::binary(op, &left, &right, &ty) {
            Ok(kind) => Expr { ty, kind, span },
            Err(FoldError::Unknown) => {
                let (left, right) = crate::integers::compared(left, right, &ty);
                Expr { ty, kind: ExprKind::Binary(op, Box::new(left), Box::new(right)), span }
            }
            Err(FoldError::Wrong(why)) => {
                self.error("operator", span, why);
                self.poison(span)
            }
        }
    }

    fn shift_operands(&mut self, left: Expr, right: Expr, sign: &str, span: Span) -> Option<(Expr, Expr)> {
        let (Some(left_ty), Some(right_ty)) = (self.numeric(&left.ty), self.numeric(&right.ty)) else {
            let (a, b) = (self.show(&left.ty), self.show(&right.ty));
            self.error("operator", span, format!("`{sign}` needs numbers, not {a} and {b}"));
            return None;
        };
        let left = if left.ty == left_ty { left } else { self.cast_value(left, left_ty) };
        let right = if right.ty == right_ty { right } else { self.cast_value(right, right_ty) };
        match &right.kind {
            ExprKind::Int(count) if count.is_negative() => {
                self.error("operator", right.span, format!("a shift by the negative number {count}"));
                return None;
            }
            ExprKind::Int(count) => {
                if let Type::Bit(w) | Type::Int(w) = left.ty
                    && *count >= BigInt::from(w)
                    && !count.is_zero()
                {
                    self.report(Diagnostic::warning(
                        "overflow",
                        span,
                        format!("a shift by {} of a value of {w} bits", crate::types::short(count)),
                    ));
                }
            }
            _ if matches!(right.ty, Type::Int(_)) => {
                let shown = self.show(&right.ty);
                self.report(
                    Diagnostic::error("operator", right.span, format!("a shift by a signed number: {shown}"))
                        .note("the right operand of a shift is `bit<W>` or known at compile time; a cast converts"),
                );
                return None;
            }
            _ => {}
        }
        if left.ty == Type::Integer && !self.compile_time(&right) {
            self.report(
                Diagnostic::error(
                    "operator",
                    span,
                    "a shift of an `int` by a value not known at compile time",
                )
                .note("give the left operand a width, as in `32w1 << x`"),
            );
            return None;
        }
        Some((left, right))
    }

    fn concat_operands(&mut self, left: Expr, right: Expr, span: Span) -> Option<(Expr, Expr, Type)> {
        let (Some(left_ty), Some(right_ty)) = (self.numeric(&left.ty), self.numeric(&right.ty)) else {
            let (a, b) = (self.show(&left.ty), self.show(&right.ty));
            self.error("operator", span, format!("`++` needs `bit` or `int<W>` operands, not {a} and {b}"));
            return None;
        };
        let (Type::Bit(a) | Type::Int(a), Type::Bit(b) | Type::Int(b)) = (&left_ty, &right_ty) else {
            self.report(
                Diagnostic::error("operator", span, "`++` of an `int`, which has no width")
                    .note("give the number a width, as in `8w5`"),
            );
            return None;
        };
        let width = a + b;
        if width > BITS_MAX {
            self.unsupported(
                span,
                format_args!("a value of {width} bits: p4jet has types up to {BITS_MAX} bits"),
            );
            return None;
        }
        let ty = if matches!(left_ty, Type::Bit(_)) { Type::Bit(width) } else { Type::Int(width) };
        let left = if left.ty == left_ty { left } else { self.cast_value(left, left_ty) };
        let right = if right.ty == right_ty { right } else { self.cast_value(right, right_ty) };
        Some((left, right, ty))
    }

    /// Converts both operands to numbers of one type.
    fn balance_numbers(&mut self, left: Expr, right: Expr, sign: &str, span: Span) -> Option<(Expr, Expr)> {
        let (Some(a), Some(b)) = (self.numeric(&left.ty), self.numeric(&right.ty)) else {
            let (a, b) = (self.show(&left.ty), self.show(&right.ty));
            let mut diagnostic =
                Diagnostic::error("operator", span, format!("`{sign}` needs numbers, not {a} and {b}"))
                    .label(format!("{a} `{sign}` {b}"));
            if left.ty == Type::Bool && right.ty == Type::Bool && (sign == "&" || sign == "|") {
                diagnostic = diagnostic.note(format!("the operator on `bool`s is `{sign}{sign}`"));
            }
            if matches!(left.ty, Type::New(_)) || matches!(right.ty, Type::New(_)) {
                diagnostic =
                    diagnostic.note("a `type` has only `==` and `!=`; cast to its underlying type first");
            }
            self.report(diagnostic);
            return None;
        };
        let left = if left.ty == a { left } else { self.cast_value(left, a) };
        let right = if right.ty == b { right } else { self.cast_value(right, b) };
        self.balance(left, right, sign, span)
    }

    /// Converts both operands to one type by implicit casts.
    pub(crate) fn balance(
        &mut self,
        left: Expr,
        right: Expr,
        sign: &str,
        span: Span,
    ) -> Option<(Expr, Expr)> {
        if is_poison(&left.ty) || is_poison(&right.ty) {
            return None;
        }
        let (a, b) = (self.known(&left.ty), self.known(&right.ty));
        if a == b {
            return Some((left, right));
        }
        let fixed = |t: &Type| matches!(t, Type::Bit(_) | Type::Int(_));
        // Serializable enums become numbers.
        if let (Some(underlying), true) = (self.numeric(&a), matches!(a, Type::Enum(_)))
            && self.numeric(&b).is_some()
        {
            let left = self.cast_value(left, underlying);
            return self.balance(left, right, sign, span);
        }
        if let (Some(underlying), true) = (self.numeric(&b), matches!(b, Type::Enum(_)))
            && self.numeric(&a).is_some()
        {
            let right = self.cast_value(right, underlying);
            return self.balance(left, right, sign, span);
        }
        let result = if a == Type::Integer && fixed(&b) {
            self.try_coerce(left, &b).map(|left| (left, right))
        } else if b == Type::Integer && fixed(&a) {
            self.try_coerce(right, &a).map(|right| (left, right))
        } else if matches!(a, Type::Tuple(_)) && matches!(left.kind, ExprKind::Aggregate(_)) {
            self.try_coerce(left, &b).map(|left| (left, right))
        } else if matches!(b, Type::Tuple(_)) && matches!(right.kind, ExprKind::Aggregate(_)) {
            self.try_coerce(right, &a).map(|right| (left, right))
        } else if self.unify(&a, &b) {
            Ok((left, right))
        } else {
            Err(false)
        };
        match result {
            Ok((left, right)) if is_poison(&left.ty) || is_poison(&right.ty) => None,
            Ok(pair) => Some(pair),
            Err(_) => {
                let (x, y) = (self.show(&a), self.show(&b));
                let mut diagnostic = Diagnostic::error(
                    "type-mismatch",
                    span,
                    format!("the operands of `{sign}` must have the same type, but they are {x} and {y}"),
                )
                .label(format!("{x} `{sign}` {y}"));
                if fixed(&a) && fixed(&b) {
                    diagnostic = diagnostic.note("a cast changes width or sign: `(T) …`");
                }
                if matches!(a, Type::New(_)) || matches!(b, Type::New(_)) {
                    diagnostic = diagnostic.note("a `type` is a distinct type; a cast converts: `(T) …`");
                }
                self.report(diagnostic);
                None
            }
        }
    }

    /// Checks an expression that is assigned to.
    pub(crate) fn lvalue(&mut self, expr: &ast::Expr, what: &str) -> Expr {
        let typed = self.expr(expr, None);
        self.require_lvalue(&typed, what);
        typed
    }

    /// Reports an expression that cannot be written to. True if it can.
    pub(crate) fn require_lvalue(&mut self, expr: &Expr, what: &str) -> bool {
        if is_poison(&expr.ty) {
            return false;
        }
        match self.read_only(expr) {
            None => true,
            Some((why, declared)) => {
                let mut diagnostic = Diagnostic::error("not-an-l-value", expr.span, format!("{what}: {why}"));
                if let Some(span) = declared {
                    diagnostic = diagnostic.related(span, "declared here");
                }
                self.report(diagnostic);
                false
            }
        }
    }

    /// Returns why an expression cannot be written to (P4_16, "L-values").
    fn read_only(&self, expr: &Expr) -> Option<(String, Option<Span>)> {
        match &expr.kind {
            ExprKind::Var(id) => {
                let var = &self.prog.vars[id.index()];
                let name = &var.name;
                let why = match self.var_kinds[id.index()] {
                    VarKind::Local | VarKind::Param(Direction::Out | Direction::InOut) => return None,
                    VarKind::Param(Direction::In) => format!("parameter `{name}` has direction `in`"),
                    VarKind::Param(Direction::None) => format!("parameter `{name}` has no direction"),
                    VarKind::ActionData => {
                        format!("`{name}` is action data, which comes from the control plane")
                    }
                    VarKind::Constructor => format!("`{name}` is a constructor parameter"),
                };
                Some((format!("{why}, so it cannot be changed"), Some(var.span)))
            }
            ExprKind::Field(base, _) | ExprKind::StackNext(base) => self.read_only(base),
            ExprKind::Index(base, _) => self.read_only(base),
            ExprKind::Slice(base, ..) => self.read_only(base),
            ExprKind::SliceAt { value, .. } => self.read_only(value),
            ExprKind::StackLast(_) => Some(("`.last` of a header stack cannot be changed".into(), None)),
            ExprKind::StackLastIndex(_) => Some(("`.lastIndex` cannot be changed".into(), None)),
            ExprKind::Instance(_) => Some(("an instance is not a variable".into(), None)),
            _ if is_value(expr) => Some(("a constant is not a variable".into(), None)),
            _ => Some(("this is not a variable, field, element or slice".into(), None)),
        }
    }
}

/// Adds the list of existing fields.
pub(crate) fn with_fields(diagnostic: Diagnostic, names: &[String]) -> Diagnostic {
    match names.is_empty() {
        true => diagnostic.note("it has no fields"),
        false => diagnostic.choices("its fields", names),
    }
}

/// True if only the context determines the type of an expression.
pub(crate) fn soft(expr: &ast::Expr) -> bool {
    match &expr.kind {
        ast::ExprKind::List(..)
        | ast::ExprKind::Record(..)
        | ast::ExprKind::Invalid
        | ast::ExprKind::Dots => true,
        ast::ExprKind::Conditional(_, a, b) => soft(a) && soft(b),
        _ => false,
    }
}

fn field_of(base: Expr, index: u32, ty: Type, span: Span) -> Expr {
    if let ExprKind::Aggregate(items) = &base.kind
        && is_value(&base)
        && let Some(item) = items.get(index as usize)
    {
        return Expr { span, ..item.clone() };
    }
    Expr { ty, kind: ExprKind::Field(Box::new(base), index), span }
}

fn slice_of(base: Expr, hi: u32, lo: u32, span: Span) -> Expr {
    let ty = Type::Bit(hi - lo + 1);
    let kind = match &base.kind {
        ExprKind::Int(value) => ExprKind::Int(consts::slice(value, hi, lo)),
        _ => ExprKind::Slice(Box::new(base), hi, lo),
    };
    Expr { ty, kind, span }
}

/// Returns an operator's symbol.
pub(crate) fn operator(op: BinaryOp) -> &'static str {
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
