//! `declaration`, and the declarations inside parsers, controls, externs and instances.

use super::{Name, Parse, Parser, join};
use crate::ast::{
    ActionDecl, Annotation, ConstDecl, ControlBody, ControlDecl, Decl, DeclKind, Direction, EnumDecl, Expr,
    ExternDecl, FieldDecl, FunctionDecl, FunctionProto, Ident, Instance, MethodDecl, PackageDecl, Param,
    ParserBody, ParserDecl, SelectCase, State, Stmt, StructDecl, StructKind, Transition, TypeKind, TypeRef,
    TypedefDecl, ValueSetDecl, VarDecl,
};
use crate::diagnostic::Diagnostic;
use crate::lexer::{Keyword, Kind, Token};
use crate::span::Span;

const EXPECTED_DECLARATION: &str = "a declaration";
const DECLARATIONS: &str = "declarations begin with `const`, `typedef`, `type`, `struct`, `header`, `header_union`, \
                            `enum`, `error`, `match_kind`, `extern`, `parser`, `control`, `package`, `action` or a type";

/// The head of a parser or control: name, type parameters, parameters, constructor parameters.
type Head = (Ident, Vec<Ident>, Vec<Param>, Vec<Param>);

impl Parser<'_> {
    /// `p4program`
    pub(super) fn program(&mut self) -> Vec<Decl> {
        let mut decls = Vec::new();
        while !self.at(Kind::Eof) {
            let start = self.pos;
            self.open_braces = 0;
            if self.declaration(&mut decls).is_err() {
                self.recover(self.open_braces);
            }
            if self.pos == start {
                if self.at(Kind::RBrace) {
                    let _ =
                        self.fail::<()>(Diagnostic::error("syntax", self.span(), "this `}` closes nothing"));
                }
                self.bump();
                // A superfluous brace is one error, regardless of the text after its block.
                if self.at(Kind::RBrace) {
                    self.error_at = Some(self.pos);
                }
            }
        }
        decls
    }

    /// `declaration`, or `;`
    fn declaration(&mut self, decls: &mut Vec<Decl>) -> Parse<()> {
        use Keyword::*;
        let start = self.span();
        let annotations = self.annotations()?;
        self.fix_declaration_keyword();
        let kind = match self.kind() {
            Kind::Semicolon if annotations.is_empty() => {
                self.bump();
                return Ok(());
            }
            Kind::Keyword(Const) => self.constant()?,
            Kind::Keyword(Extern) => match self.extern_declaration()? {
                Some(kind) => kind,
                None => return Ok(()),
            },
            Kind::Keyword(Action) => self.action()?,
            Kind::Keyword(Parser) => self.parser_declaration()?,
            Kind::Keyword(Control) => self.control_declaration()?,
            Kind::Keyword(Package) => self.package()?,
            Kind::Keyword(Struct | Header | HeaderUnion | Enum) => self.derived_type()?,
            Kind::Keyword(Typedef)
                if matches!(self.kind_at(1), Kind::Keyword(Struct | Header | HeaderUnion | Enum)) =>
            {
                return self.typedef_of_new_type(annotations, decls);
            }
            Kind::Keyword(Typedef | Type) => self.typedef()?,
            Kind::Keyword(Error | MatchKind) if self.kind_at(1) == Kind::LBrace => {
                self.error_or_match_kind()?
            }
            Kind::Keyword(keyword @ (Table | State | ValueSet | Apply | Transition)) => {
                let within = match keyword {
                    Table | Apply => "a control",
                    Transition => "a parser state",
                    _ => "a parser",
                };
                let message = format!("expected {EXPECTED_DECLARATION}, found keyword `{}`", keyword.text());
                let note =
                    format!("`{}` belongs in {within}; is there an extra `}}` before it?", keyword.text());
                let failed = self.fail(Diagnostic::error("syntax", self.span(), message).note(note));
                if matches!(keyword, Table | Apply)
                    && decls.iter().any(|d| matches!(d.kind, DeclKind::Control(_)))
                {
                    return self.scope(|p| {
                        p.rest_of_control(&mut Vec::new(), &mut None);
                        Ok(())
                    });
                }
                return failed;
            }
            Kind::Keyword(If | For | Switch | Return | Exit) => {
                let message =
                    format!("expected {EXPECTED_DECLARATION}, found keyword `{}`", self.kind().text());
                let note = "statements belong in blocks; is there an extra `}` before it?";
                return self.fail(Diagnostic::error("syntax", self.span(), message).note(note));
            }
            Kind::Ident if self.text(self.token()) == "header_type" && Self::is_name(self.kind_at(1)) => {
                let error = Diagnostic::error("syntax", self.span(), "this is P4_14; p4jet reads P4_16");
                let failed = self.fail(error);
                // All following text would be wrong too.
                self.pos = self.tokens.len() - 1;
                return failed;
            }
            Kind::Ident if self.lookup_at(0).is_none() && !self.type_may_end_at(1) => {
                let diagnostic = self.expected_error(EXPECTED_DECLARATION).note(DECLARATIONS);
                return self.fail(diagnostic);
            }
            kind if kind == Kind::Dot || Self::is_name(kind) || self.at_type() => {
                self.instance_or_function(true)?
            }
            _ => {
                let diagnostic = self.expected_error(EXPECTED_DECLARATION).note(DECLARATIONS);
                return self.fail(diagnostic);
            }
        };
        decls.push(Decl { annotations, kind, span: self.since(start) });
        Ok(())
    }

    /// True if the token `ahead` can follow the name of a type in a declaration.
    fn type_may_end_at(&self, ahead: usize) -> bool {
        let next = self.kind_at(ahead);
        matches!(next, Kind::LParen | Kind::Less | Kind::LBracket | Kind::Keyword(_)) || Self::is_name(next)
    }

    /// Treats a misspelt word as the keyword of a declaration if a name follows.
    fn fix_declaration_keyword(&mut self) {
        use Keyword::*;
        if self.kind() != Kind::Ident {
            return;
        }
        if Self::is_name(self.kind_at(1)) {
            self.fix_keyword(&[
                Const,
                Extern,
                Action,
                Parser,
                Control,
                Package,
                Struct,
                Header,
                HeaderUnion,
                Enum,
                Typedef,
                Type,
            ]);
        } else if self.is_type_at(1) {
            self.fix_keyword(&[Const, Typedef, Type, Extern]);
        } else if self.kind_at(1) == Kind::LBrace {
            self.fix_keyword(&[Error, MatchKind]);
        }
    }

    /// `const T x = e;`
    pub(super) fn constant(&mut self) -> Parse<DeclKind> {
        self.bump();
        let ty = self.type_ref()?;
        let symbol = self.token().symbol;
        let name = self.name("the constant's name")?;
        let ty = self.array_suffix(ty)?;
        self.expect_after(Kind::Assign, "the constant's name")?;
        let value = self.expr()?;
        self.declare(symbol, Name::Other);
        self.semicolon("the constant")?;
        Ok(DeclKind::Const(ConstDecl { ty, name, value }))
    }

    /// `name[n]` as in C, which p4c treats as `T[n] name`.
    pub(super) fn array_suffix(&mut self, mut ty: TypeRef) -> Parse<TypeRef> {
        let mut height = 0;
        while self.at(Kind::LBracket) {
            let open = self.bump().span;
            let size = self.expr()?;
            self.expect_close(Kind::RBracket, open)?;
            self.raise(height, self.height)?;
            height = self.height;
            let span = ty.span;
            ty = TypeRef { kind: TypeKind::Stack(Box::new(ty), Box::new(size)), span };
        }
        Ok(ty)
    }

    /// `action a(…) { … }`
    fn action(&mut self) -> Parse<DeclKind> {
        self.bump();
        let name = self.declared_name("the action's name", Name::Other)?;
        let (params, body) = self.scope(|p| {
            let params = p.params()?;
            let annotations = p.annotations()?;
            Ok((params, p.with_state_rules(false, |p| p.block(annotations, "the action"))?))
        })?;
        Ok(DeclKind::Action(ActionDecl { name, params, body }))
    }

    /// `( parameterList )`, declared in the current scope
    fn params(&mut self) -> Parse<Vec<Param>> {
        let open = self.expect(Kind::LParen)?.span;
        let mut params = Vec::new();
        if !self.at(Kind::RParen) {
            loop {
                params.push(self.param()?);
                if !self.eat(Kind::Comma) {
                    break;
                }
            }
        }
        self.expect_separated(Kind::RParen, open)?;
        Ok(params)
    }

    fn param(&mut self) -> Parse<Param> {
        let start = self.span();
        let annotations = self.annotations()?;
        let dir = match self.kind() {
            Kind::Keyword(Keyword::In) => Direction::In,
            Kind::Keyword(Keyword::Out) => Direction::Out,
            Kind::Keyword(Keyword::Inout) => Direction::InOut,
            _ => Direction::None,
        };
        if dir != Direction::None {
            self.bump();
        }
        let ty = self.type_ref()?;
        let name = self.declared_name("the parameter's name", Name::Other)?;
        let ty = self.array_suffix(ty)?;
        let default = if self.eat(Kind::Assign) { Some(self.expr()?) } else { None };
        Ok(Param { annotations, dir, ty, name, default, span: self.since(start) })
    }

    // Types.

    /// `derivedTypeDeclaration`, after its annotations
    fn derived_type(&mut self) -> Parse<DeclKind> {
        let kind = match self.kind() {
            Kind::Keyword(Keyword::Struct) => StructKind::Struct,
            Kind::Keyword(Keyword::Header) => StructKind::Header,
            Kind::Keyword(Keyword::HeaderUnion) => StructKind::HeaderUnion,
            _ => return self.enum_declaration(),
        };
        let what = self.bump().kind.text();
        let name = self.declared_name(&format!("the name of the `{what}`"), Name::Type)?;
        let mut fields = Vec::new();
        let type_params = self.scope(|p| {
            let type_params = p.type_params()?;
            p.braced(&format!("the {what}"), |p| {
                let annotations = p.annotations()?;
                let ty = p.type_ref()?;
                let name = p.name("the field's name")?;
                let ty = p.array_suffix(ty)?;
                p.semicolon("the field")?;
                fields.push(FieldDecl { annotations, ty, name });
                Ok(())
            })?;
            Ok(type_params)
        })?;
        Ok(DeclKind::Struct(StructDecl { kind, name, type_params, fields }))
    }

    fn enum_declaration(&mut self) -> Parse<DeclKind> {
        self.bump();
        // `enum E {`, or `enum T E {`
        let plain = Self::is_name(self.kind()) && self.kind_at(1) == Kind::LBrace;
        let underlying = if plain { None } else { Some(self.type_ref()?) };
        let name = self.declared_name("the name of the `enum`", Name::Type)?;
        let mut members = Vec::new();
        self.comma_list("the enum", true, |p| {
            let member = p.name("the name of an enum member")?;
            let value = if p.eat(Kind::Assign) { Some(p.expr()?) } else { None };
            // P4_16 "Enumeration types": all members of a serializable enum have values, and no other members do.
            if underlying.is_some() != value.is_some() {
                let message = match value {
                    None => format!("member `{}` of a serializable enum has no value", member.text),
                    Some(_) => {
                        format!("member `{}` of an enum without an underlying type has a value", member.text)
                    }
                };
                let note = match value {
                    None => format!("write `{} = value`", member.text),
                    Some(_) => "name the type: `enum bit<8> E { … }`".to_string(),
                };
                p.report(Diagnostic::error("syntax", member.span, message).note(note));
            }
            members.push((member, value));
            Ok(())
        })?;
        Ok(DeclKind::Enum(EnumDecl { underlying, name, members }))
    }

    /// `{ element, … }` with at least one element and, if `trailing` allows it, a final comma
    fn comma_list(
        &mut self,
        what: &str,
        trailing: bool,
        mut element: impl FnMut(&mut Self) -> Parse<()>,
    ) -> Parse<()> {
        let open = self.span();
        if !self.eat(Kind::LBrace) {
            return self.expected(&format!("`{{` to begin {what}"));
        }
        self.open_braces += 1;
        loop {
            element(self)?;
            if !self.eat(Kind::Comma) {
                break;
            }
            if self.at(Kind::RBrace) {
                if !trailing {
                    let message = format!("a comma at the end of {what}");
                    self.report(Diagnostic::error("syntax", self.last_span(), message).note("remove it"));
                }
                break;
            }
        }
        self.expect_separated(Kind::RBrace, open)?;
        self.open_braces -= 1;
        Ok(())
    }

    /// `error { … }`, `match_kind { … }`
    fn error_or_match_kind(&mut self) -> Parse<DeclKind> {
        let is_error = self.bump().kind == Kind::Keyword(Keyword::Error);
        let mut names = Vec::new();
        let what = if is_error { "the errors" } else { "the match kinds" };
        self.comma_list(what, !is_error, |p| {
            names.push(p.name(if is_error { "the name of an error" } else { "the name of a match kind" })?);
            Ok(())
        })?;
        Ok(if is_error { DeclKind::Error(names) } else { DeclKind::MatchKind(names) })
    }

    /// `typedef T x;`, `type T x;`
    fn typedef(&mut self) -> Parse<DeclKind> {
        let is_new_type = self.bump().kind == Kind::Keyword(Keyword::Type);
        let ty = self.type_ref()?;
        let symbol = self.token().symbol;
        let name = self.name("the new type's name")?;
        let ty = self.array_suffix(ty)?;
        self.declare(symbol, Name::Type);
        self.semicolon("the type")?;
        Ok(DeclKind::Typedef(TypedefDecl { is_new_type, ty, name }))
    }

    /// `typedef struct S { … } N;`: the struct, and the name for it
    fn typedef_of_new_type(&mut self, annotations: Vec<Annotation>, decls: &mut Vec<Decl>) -> Parse<()> {
        let start = self.bump().span;
        let type_start = self.span();
        let kind = self.derived_type()?;
        let declared = match &kind {
            DeclKind::Struct(decl) => decl.name.clone(),
            DeclKind::Enum(decl) => decl.name.clone(),
            _ => unreachable!("derived types are structs and enums"),
        };
        decls.push(Decl { annotations: Vec::new(), kind, span: self.since(type_start) });
        let name = self.declared_name("the new type's name", Name::Type)?;
        self.semicolon("the type")?;
        let span = declared.span;
        let ty = TypeRef {
            kind: TypeKind::Named(crate::ast::Path { global: false, name: declared }, Vec::new()),
            span,
        };
        let kind = DeclKind::Typedef(TypedefDecl { is_new_type: false, ty, name });
        decls.push(Decl { annotations, kind, span: self.since(start) });
        Ok(())
    }

    // Externs, functions, instances.

    /// `extern f(…);`, `extern E { … }`; `None` for `extern E;`, which only declares the name of a type.
    fn extern_declaration(&mut self) -> Parse<Option<DeclKind>> {
        self.bump();
        if Self::is_name(self.kind()) && matches!(self.kind_at(1), Kind::LBrace | Kind::Semicolon) {
            let name = self.declared_name("the extern's name", Name::Type)?;
            if self.eat(Kind::Semicolon) {
                return Ok(None);
            }
            return Ok(Some(self.extern_object(name, |_| Ok(Vec::new()))?));
        }
        // `extern E<T> {` or `extern R<T> f(…)`: only the end of the list distinguishes them.
        let start = self.pos;
        let symbol = self.token().symbol;
        let ret = self.type_or_void()?;
        if self.at(Kind::LBrace)
            && let TypeKind::Named(path, _) = &ret.kind
        {
            let name = path.name.clone();
            self.pos = start + 1;
            self.declare(symbol, Name::Type);
            return Ok(Some(self.extern_object(name, Self::type_params)?));
        }
        let (proto, ()) = self.prototype(ret, "extern function", |_| Ok(()))?;
        self.semicolon("the extern function")?;
        Ok(Some(DeclKind::ExternFunction(proto)))
    }

    /// The rest of an extern's declaration after its name.
    fn extern_object(
        &mut self,
        name: Ident,
        type_params: impl FnOnce(&mut Self) -> Parse<Vec<Ident>>,
    ) -> Parse<DeclKind> {
        let mut methods = Vec::new();
        let type_params = self.scope(|p| {
            let type_params = type_params(p)?;
            p.braced("the extern", |p| {
                methods.push(p.method(&name)?);
                Ok(())
            })?;
            Ok(type_params)
        })?;
        Ok(DeclKind::Extern(ExternDecl { name, type_params, methods }))
    }

    /// `methodPrototype` of the extern `of`
    fn method(&mut self, of: &Ident) -> Parse<MethodDecl> {
        let start = self.span();
        let annotations = self.annotations()?;
        let is_abstract = self.eat_keyword(Keyword::Abstract);
        let is_constructor = Self::is_name(self.kind()) && self.kind_at(1) == Kind::LParen;
        let proto = if is_constructor {
            let name = self.name("the constructor's name")?;
            if name.text != of.text {
                let message = format!("method `{}` has no return type", name.text);
                let note = format!("only the constructor has none, and its name is `{}`", of.text);
                self.report(Diagnostic::error("syntax", name.span, message).note(note));
            }
            let params = self.scope(Self::params)?;
            let path = crate::ast::Path { global: false, name: name.clone() };
            let ret = TypeRef { kind: TypeKind::Named(path, Vec::new()), span: name.span };
            FunctionProto { ret, name, type_params: Vec::new(), params }
        } else {
            let ret = self.type_or_void()?;
            self.scope(|p| p.prototype(ret, "method", |_| Ok(())))?.0
        };
        self.semicolon("the method")?;
        Ok(MethodDecl { annotations, is_abstract, is_constructor, proto, span: self.since(start) })
    }

    /// `functionPrototype` after its return type, and the rest of the function's scope
    fn prototype<T>(
        &mut self,
        ret: TypeRef,
        what: &str,
        rest: impl FnOnce(&mut Self) -> Parse<T>,
    ) -> Parse<(FunctionProto, T)> {
        let name = self.declared_name(&format!("the name of the {what}"), Name::Other)?;
        self.scope(|p| {
            let type_params = p.type_params()?;
            let params = p.params()?;
            let rest = rest(p)?;
            Ok((FunctionProto { ret, name, type_params, params }, rest))
        })
    }

    /// `T(args) x;`, or `T f(…) { … }`, or with `top_level` unset also a variable `T x = e;`
    fn instance_or_function(&mut self, top_level: bool) -> Parse<DeclKind> {
        let ty = self.type_or_void()?;
        if self.at(Kind::LParen) {
            return self.instance(ty);
        }
        if Self::is_name(self.kind()) && matches!(self.kind_at(1), Kind::LParen | Kind::Less) {
            let (proto, body) = self.prototype(ty, "function", |p| {
                let annotations = p.annotations()?;
                p.with_state_rules(false, |p| p.block(annotations, "the function"))
            })?;
            return Ok(DeclKind::Function(FunctionDecl { proto, body }));
        }
        if top_level
            && Self::is_name(self.kind())
            && matches!(self.kind_at(1), Kind::Assign | Kind::Semicolon)
        {
            // P4_16 has no global variables.
            let span = join(ty.span, self.span());
            return self.fail(
                Diagnostic::error("syntax", span, "a variable cannot be declared at top level")
                    .note("put it into a parser, control, action or function, or make it a `const`"),
            );
        }
        self.expected("`(` and constructor arguments, or a function's name after the type")
    }

    /// `(args) name;`, `(args) name = { … };` after the type
    fn instance(&mut self, ty: TypeRef) -> Parse<DeclKind> {
        let args = self.args()?;
        let name = self.declared_name("the instance's name", Name::Other)?;
        let ty = self.array_suffix(ty)?;
        let init = if self.eat(Kind::Assign) { Some(self.object_initializer()?) } else { None };
        self.semicolon("the instance")?;
        Ok(DeclKind::Instance(Instance { ty, args, name, init }))
    }

    /// `objInitializer`
    pub(super) fn object_initializer(&mut self) -> Parse<Vec<Decl>> {
        let mut decls = Vec::new();
        self.nested(|p| {
            p.scope(|p| {
                p.braced("the object initializer", |p| {
                    let start = p.span();
                    let annotations = p.annotations()?;
                    let kind = p.instance_or_function(false)?;
                    decls.push(Decl { annotations, kind, span: p.since(start) });
                    Ok(())
                })
            })
        })?;
        Ok(decls)
    }

    /// `package P<T>(…);`
    fn package(&mut self) -> Parse<DeclKind> {
        self.bump();
        let name = self.declared_name("the package's name", Name::Type)?;
        let (type_params, params) = self.scope(|p| Ok((p.type_params()?, p.params()?)))?;
        self.semicolon("the package")?;
        Ok(DeclKind::Package(PackageDecl { name, type_params, params }))
    }

    // Parsers and controls.

    /// A parser or control: its head and, unless `;` makes it a type, its body, all in one scope.
    fn block_declaration<T>(
        &mut self,
        what: &str,
        body: impl FnOnce(&mut Self) -> Parse<T>,
    ) -> Parse<(Head, Option<T>)> {
        self.bump();
        let name = self.declared_name(&format!("the {what}'s name"), Name::Type)?;
        self.scope(|p| {
            let type_params = p.type_params()?;
            let params = p.params()?;
            if p.eat(Kind::Semicolon) {
                return Ok(((name, type_params, params, Vec::new()), None));
            }
            let ctor_params = if p.at(Kind::LParen) { p.params()? } else { Vec::new() };
            if !p.at(Kind::LBrace) {
                return p.expected(&format!("`{{` to begin the {what}, or `;` after its type"));
            }
            let body = body(p)?;
            Ok(((name, type_params, params, ctor_params), Some(body)))
        })
    }

    fn parser_declaration(&mut self) -> Parse<DeclKind> {
        let ((name, type_params, params, ctor_params), body) =
            self.block_declaration("parser", Self::parser_body)?;
        Ok(DeclKind::Parser(ParserDecl { name, type_params, params, ctor_params, body }))
    }

    fn parser_body(&mut self) -> Parse<ParserBody> {
        let mut locals = Vec::new();
        let mut states: Vec<State> = Vec::new();
        self.scope(|p| {
            p.braced("the parser", |p| {
                if p.stray_semicolon() {
                    return Ok(());
                }
                let start = p.span();
                let annotations = p.annotations()?;
                if Self::is_name(p.kind_at(1)) {
                    p.fix_keyword(&[Keyword::State, Keyword::Const]);
                }
                if p.at_keyword(Keyword::State) && Self::is_name(p.kind_at(1)) {
                    states.push(p.state(start, annotations)?);
                    return Ok(());
                }
                let decl = p.local_declaration(start, annotations, "parser")?;
                if let Some(state) = states.last() {
                    p.report(
                        Diagnostic::error(
                            "syntax",
                            decl.span,
                            "a parser's declarations must come before its states",
                        )
                        .related(state.name.span, "after this state"),
                    );
                }
                locals.push(decl);
                Ok(())
            })
        })?;
        Ok(ParserBody { locals, states })
    }

    /// `parserState`, after its annotations
    fn state(&mut self, start: Span, annotations: Vec<Annotation>) -> Parse<State> {
        self.bump();
        let name = self.name("the state's name")?;
        let mut stmts: Vec<Stmt> = Vec::new();
        let mut transition: Option<(Transition, Span)> = None;
        self.with_state_rules(true, |p| {
            p.scope(|p| {
                p.braced_until("the state", Self::at_member_keyword, |p| {
                    let first = p.span();
                    p.fix_transition();
                    if p.at_keyword(Keyword::Transition) {
                        let next = p.transition()?;
                        if let Some((_, before)) = &transition {
                            let before = *before;
                            p.report(
                                Diagnostic::error("syntax", first, "a second `transition` in this state")
                                    .related(before, "the first is here"),
                            );
                        }
                        transition = Some((next, p.since(first)));
                        return Ok(());
                    }
                    if let Some((_, before)) = &transition {
                        let diagnostic = Diagnostic::error(
                            "syntax",
                            first,
                            format!("expected `}}` to end the state, found {}", p.found()),
                        )
                        .related(*before, "`transition` is a state's last statement");
                        p.report(diagnostic);
                    }
                    stmts.push(p.nested(Self::statement)?);
                    Ok(())
                })
            })
        })?;
        let transition = transition.map(|t| t.0);
        Ok(State { annotations, name, stmts, transition, span: self.since(start) })
    }

    fn fix_transition(&mut self) {
        let next = self.kind_at(1);
        if Self::is_name(next) || next == Kind::Keyword(Keyword::Select) {
            self.fix_keyword(&[Keyword::Transition]);
        }
    }

    /// `transitionStatement`
    fn transition(&mut self) -> Parse<Transition> {
        self.bump();
        if self.kind_at(1) == Kind::LParen {
            self.fix_keyword(&[Keyword::Select]);
        }
        let start = self.span();
        if !self.at_keyword(Keyword::Select) {
            let state = self.name("a state's name or `select` after `transition`")?;
            self.semicolon("the transition")?;
            return Ok(Transition::Direct(state));
        }
        self.bump();
        let open = self.span();
        if !self.eat(Kind::LParen) {
            return self.expected("`(` after `select`");
        }
        let mut keys: Vec<Expr> = Vec::new();
        if !self.at(Kind::RParen) {
            loop {
                keys.push(self.expr()?);
                if !self.eat(Kind::Comma) {
                    break;
                }
            }
        }
        self.expect_separated(Kind::RParen, open)?;
        let mut cases = Vec::new();
        self.braced("the select", |p| {
            let start = p.span();
            let keyset = p.keyset()?;
            p.expect_after(Kind::Colon, "the key set")?;
            let state = p.name("a state's name")?;
            p.semicolon("the select case")?;
            cases.push(SelectCase { keyset, state, span: p.since(start) });
            Ok(())
        })?;
        Ok(Transition::Select { keys, cases, span: self.since(start) })
    }

    fn control_declaration(&mut self) -> Parse<DeclKind> {
        let ((name, type_params, params, ctor_params), body) =
            self.block_declaration("control", Self::control_body)?;
        Ok(DeclKind::Control(ControlDecl { name, type_params, params, ctor_params, body }))
    }

    fn control_body(&mut self) -> Parse<ControlBody> {
        let open = self.span();
        let mut locals = Vec::new();
        let mut apply = None;
        let mut closed_early = false;
        self.scope(|p| {
            p.braced("the control", |p| p.control_element(&mut locals, &mut apply))?;
            if apply.is_none() && p.at_member_keyword() {
                let closed = p.last_span();
                p.report(
                    Diagnostic::error("syntax", closed, "this `}` ends the control before its `apply` block")
                        .related(open, "the control begins here")
                        .note("is it an extra `}`?"),
                );
                p.rest_of_control(&mut locals, &mut apply);
                closed_early = true;
            }
            Ok(())
        })?;
        let span = self.last_span();
        let apply = match apply {
            Some(apply) => apply,
            None => {
                let empty = crate::ast::Block { annotations: Vec::new(), stmts: Vec::new(), span };
                // After other errors the block may have been there.
                if !closed_early && self.error_at.is_none_or(|at| self.tokens[at].span.lo < open.lo) {
                    self.report(
                        Diagnostic::error("syntax", span, "this control has no `apply` block")
                            .related(open, "the control begins here")
                            .note("write `apply { }` if it does nothing"),
                    );
                }
                empty
            }
        };
        Ok(ControlBody { locals, apply })
    }

    /// Parses the rest of a control that was closed too early, up to its own `}` or to something that cannot be part of
    /// it.
    fn rest_of_control(&mut self, locals: &mut Vec<Decl>, apply: &mut Option<crate::ast::Block>) {
        while !self.eat(Kind::RBrace) && !self.at(Kind::Eof) && !self.at_top_level_keyword() {
            let start = self.pos;
            if self.control_element(locals, apply).is_err() {
                self.recover(self.open_braces);
            }
            if self.pos == start {
                self.bump();
            }
        }
    }

    /// A local declaration of a control, or its `apply`.
    fn control_element(
        &mut self,
        locals: &mut Vec<Decl>,
        apply: &mut Option<crate::ast::Block>,
    ) -> Parse<()> {
        if self.stray_semicolon() {
            return Ok(());
        }
        if let Some(Decl { kind: DeclKind::Table(table), .. }) = locals.last_mut()
            && self.table_goes_on(table)
        {
            return Ok(());
        }
        let start = self.span();
        let annotations = self.annotations()?;
        if self.kind_at(1) == Kind::LBrace {
            self.fix_keyword(&[Keyword::Apply]);
        } else if Self::is_name(self.kind_at(1)) {
            self.fix_keyword(&[Keyword::Action, Keyword::Table, Keyword::Const]);
        }
        // A type of this name is followed by the variable's name on the same line.
        let begins_block = |next: &Token| !Self::is_name(next.kind) || next.line_start;
        if self.at_keyword(Keyword::Apply) && self.tokens.get(self.pos + 1).is_some_and(begins_block) {
            self.bump();
            self.no_annotations(&annotations, "`apply`");
            let annotations = self.annotations()?;
            let block = self.block(annotations, "the `apply` block")?;
            if apply.is_some() {
                self.report(Diagnostic::error("syntax", start, "a second `apply` in this control"));
            }
            *apply = Some(block);
            return Ok(());
        }
        let decl = self.local_declaration(start, annotations, "control")?;
        if apply.is_some() {
            self.report(
                Diagnostic::error(
                    "syntax",
                    decl.span,
                    "a control's declarations must come before its `apply` block",
                )
                .note("`apply { … }` comes last in a control"),
            );
        }
        locals.push(decl);
        Ok(())
    }

    /// Reports and skips a `;` between the members of a parser or control.
    fn stray_semicolon(&mut self) -> bool {
        if !self.at(Kind::Semicolon) {
            return false;
        }
        self.report(
            Diagnostic::error("syntax", self.span(), "this `;` ends nothing")
                .note("no `;` follows the `}` of a table, an action, a state or an `apply` block"),
        );
        self.bump();
        true
    }

    /// A declaration in a parser or control.
    fn local_declaration(&mut self, start: Span, annotations: Vec<Annotation>, within: &str) -> Parse<Decl> {
        use Keyword::*;
        let in_parser = within == "parser";
        let kind = match self.kind() {
            Kind::Keyword(Const) => self.constant()?,
            Kind::Keyword(Action) if !in_parser => self.action()?,
            Kind::Keyword(Table) if !in_parser => self.table()?,
            Kind::Keyword(ValueSet) if in_parser => self.value_set()?,
            _ if self.at_declaration() || self.at_unknown_type() => {
                let ty = self.type_ref()?;
                if self.at(Kind::LParen) {
                    self.instance(ty)?
                } else {
                    let symbol = self.token().symbol;
                    let name = self.name("a variable's name")?;
                    let (ty, init) = self.variable_rest(ty)?;
                    self.declare(symbol, Name::Other);
                    self.semicolon("the variable")?;
                    DeclKind::Variable(VarDecl { ty, name, init })
                }
            }
            _ => {
                let (what, note) = if in_parser {
                    (
                        "a declaration or a state",
                        "a parser contains constants, variables, instances, value sets and states",
                    )
                } else {
                    (
                        "a declaration or `apply`",
                        "a control contains constants, variables, instances, actions, tables and the `apply` block",
                    )
                };
                let diagnostic = self.expected_error(what).note(note);
                return self.fail(diagnostic);
            }
        };
        Ok(Decl { annotations, kind, span: self.since(start) })
    }

    /// An undeclared name that is used as a type: `N(args) x;`, `N<T> x;`, `N[3] x;`
    fn at_unknown_type(&self) -> bool {
        Self::is_name(self.kind())
            && !self.at_other_name()
            && matches!(self.kind_at(1), Kind::LParen | Kind::Less | Kind::LBracket)
    }

    /// `value_set<T>(size) name;`
    fn value_set(&mut self) -> Parse<DeclKind> {
        self.bump();
        let open = self.expect(Kind::Less)?.span;
        let ty = self.type_ref()?;
        self.expect_close(Kind::Greater, open)?;
        let open = self.expect(Kind::LParen)?.span;
        let size = self.expr()?;
        self.expect_close(Kind::RParen, open)?;
        let name = self.declared_name("the value set's name", Name::Other)?;
        self.semicolon("the value set")?;
        Ok(DeclKind::ValueSet(ValueSetDecl { ty, size, name }))
    }
}
