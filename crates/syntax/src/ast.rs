//! The syntax tree of a P4_16 program, after preprocessing.
//!
//! It follows the grammar of the P4_16 specification (appendix "P4 grammar"), with names unresolved and
//! types unchecked. Every node that a diagnostic can point at has a [`Span`].

pub use crate::literal::IntLit;
use crate::span::Span;
use num_bigint::BigInt;

/// An identifier as written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ident {
    /// Its text.
    pub text: String,
    /// Source place.
    pub span: Span,
}

/// A name, perhaps with the leading dot that makes it global.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Path {
    /// True for `.name`.
    pub global: bool,
    /// The name.
    pub name: Ident,
}

/// A whole program: the user's file with everything it includes.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The declarations in order.
    pub decls: Vec<Decl>,
}

/// `@name`, `@name(tokens)` or `@name[...]`; also `#pragma name tokens`.
#[derive(Clone, Debug, PartialEq)]
pub struct Annotation {
    /// The annotation's name without `@`.
    pub name: Ident,
    /// The body after the name.
    pub body: AnnotationBody,
    /// From `@` to the end.
    pub span: Span,
}

/// The body after an annotation's name.
#[derive(Clone, Debug, PartialEq)]
pub enum AnnotationBody {
    /// Nothing.
    Empty,
    /// `( … )`: its tokens, uninterpreted.
    Tokens(Vec<AnnotationToken>),
    /// `[ e, … ]`.
    Exprs(Vec<Expr>),
    /// `[ k = e, … ]`.
    KeyValues(Vec<(Ident, Expr)>),
}

impl AnnotationBody {
    /// The number, if it is just an integer literal: `(3)`, `[3]`.
    pub fn integer(&self) -> Option<BigInt> {
        match self {
            AnnotationBody::Tokens(tokens) => match tokens.as_slice() {
                [token] if !token.is_string => Some(crate::literal::parse(&token.text).ok()?.value),
                _ => None,
            },
            AnnotationBody::Exprs(exprs) => match exprs.as_slice() {
                [Expr { kind: ExprKind::Int(literal), .. }] => Some(literal.value.clone()),
                _ => None,
            },
            AnnotationBody::Empty | AnnotationBody::KeyValues(_) => None,
        }
    }
}

/// A token inside `@name( … )`.
#[derive(Clone, Debug, PartialEq)]
pub struct AnnotationToken {
    /// Its text; for a string literal the text between the quotes, unescaped.
    pub text: String,
    /// True if it is a string literal.
    pub is_string: bool,
    /// Source place.
    pub span: Span,
}

/// A declaration, at top level or nested, with its annotations.
#[derive(Clone, Debug)]
pub struct Decl {
    /// The annotations before it.
    pub annotations: Vec<Annotation>,
    /// The declared object.
    pub kind: DeclKind,
    /// The whole declaration.
    pub span: Span,
}

/// The kinds of declaration.
#[derive(Clone, Debug)]
pub enum DeclKind {
    /// `const T x = e;`
    Const(ConstDecl),
    /// `T x;` or `T x = e;` (locals of blocks, parsers and controls)
    Variable(VarDecl),
    /// `T(args) x;` or `T(args) x = { … };`
    Instance(Instance),
    /// `extern T f<X>(…);`
    ExternFunction(FunctionProto),
    /// `extern E<X> { … }`
    Extern(ExternDecl),
    /// `T f(…) { … }`
    Function(FunctionDecl),
    /// `action a(…) { … }`
    Action(ActionDecl),
    /// `parser P(…)(…) { … }` or the type `parser P(…);`
    Parser(ParserDecl),
    /// `control C(…)(…) { … }` or the type `control C(…);`
    Control(ControlDecl),
    /// `package P(…);`
    Package(PackageDecl),
    /// `header`, `struct`, `header_union`
    Struct(StructDecl),
    /// `enum E { … }` or `enum bit<8> E { … = … }`
    Enum(EnumDecl),
    /// `typedef T x;` or `type T x;`
    Typedef(TypedefDecl),
    /// `error { … }`
    Error(Vec<Ident>),
    /// `match_kind { … }`
    MatchKind(Vec<Ident>),
    /// `value_set<T>(size) name;`
    ValueSet(ValueSetDecl),
    /// `table t { … }`
    Table(TableDecl),
}

impl DeclKind {
    /// The name that it declares, if it declares one.
    pub fn name(&self) -> Option<&Ident> {
        Some(match self {
            DeclKind::Const(c) => &c.name,
            DeclKind::Instance(i) => &i.name,
            DeclKind::ExternFunction(proto) => &proto.name,
            DeclKind::Extern(e) => &e.name,
            DeclKind::Function(f) => &f.proto.name,
            DeclKind::Action(a) => &a.name,
            DeclKind::Parser(p) => &p.name,
            DeclKind::Control(c) => &c.name,
            DeclKind::Package(p) => &p.name,
            DeclKind::Struct(s) => &s.name,
            DeclKind::Enum(e) => &e.name,
            DeclKind::Typedef(t) => &t.name,
            DeclKind::ValueSet(v) => &v.name,
            DeclKind::Variable(v) => &v.name,
            DeclKind::Table(t) => &t.name,
            DeclKind::Error(_) | DeclKind::MatchKind(_) => return None,
        })
    }
}

/// `const T x = e;`
#[derive(Clone, Debug)]
pub struct ConstDecl {
    /// Its type.
    pub ty: TypeRef,
    /// Its name.
    pub name: Ident,
    /// Its value.
    pub value: Expr,
}

/// `T x = e;`
#[derive(Clone, Debug)]
pub struct VarDecl {
    /// Its type.
    pub ty: TypeRef,
    /// Its name.
    pub name: Ident,
    /// Its initial value.
    pub init: Option<Expr>,
}

/// `T(args) x = { decls };`
#[derive(Clone, Debug)]
pub struct Instance {
    /// The type that is instantiated.
    pub ty: TypeRef,
    /// Constructor arguments.
    pub args: Vec<Arg>,
    /// The instance's name.
    pub name: Ident,
    /// The object initializer: definitions of abstract methods and instances.
    pub init: Option<Vec<Decl>>,
}

/// A function's signature.
#[derive(Clone, Debug)]
pub struct FunctionProto {
    /// Return type; [`TypeKind::Void`] for `void`; for a constructor, the extern's own name.
    pub ret: TypeRef,
    /// Its name.
    pub name: Ident,
    /// Type parameters.
    pub type_params: Vec<Ident>,
    /// Parameters.
    pub params: Vec<Param>,
}

/// `extern E<X> { … }`
#[derive(Clone, Debug)]
pub struct ExternDecl {
    /// Its name.
    pub name: Ident,
    /// Type parameters.
    pub type_params: Vec<Ident>,
    /// Constructors and methods.
    pub methods: Vec<MethodDecl>,
}

/// A method (or constructor) of an extern.
#[derive(Clone, Debug)]
pub struct MethodDecl {
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// `abstract`.
    pub is_abstract: bool,
    /// True for `E(…);`, a constructor.
    pub is_constructor: bool,
    /// The signature.
    pub proto: FunctionProto,
    /// The whole method.
    pub span: Span,
}

/// `T f(…) { … }`
#[derive(Clone, Debug)]
pub struct FunctionDecl {
    /// Signature.
    pub proto: FunctionProto,
    /// Body.
    pub body: Block,
}

/// `action a(…) { … }`
#[derive(Clone, Debug)]
pub struct ActionDecl {
    /// Its name.
    pub name: Ident,
    /// Parameters; those without a direction are action data.
    pub params: Vec<Param>,
    /// Body.
    pub body: Block,
}

/// A parser or a parser type.
#[derive(Clone, Debug)]
pub struct ParserDecl {
    /// Its name.
    pub name: Ident,
    /// Type parameters.
    pub type_params: Vec<Ident>,
    /// Apply parameters.
    pub params: Vec<Param>,
    /// Constructor parameters (empty for a type).
    pub ctor_params: Vec<Param>,
    /// `None` for a parser type declaration.
    pub body: Option<ParserBody>,
}

/// The inside of a parser.
#[derive(Clone, Debug)]
pub struct ParserBody {
    /// Constants, variables, instances, value sets.
    pub locals: Vec<Decl>,
    /// States in order.
    pub states: Vec<State>,
}

/// A parser state.
#[derive(Clone, Debug)]
pub struct State {
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// Its name.
    pub name: Ident,
    /// Statements (declarations come as [`StmtKind::Decl`]).
    pub stmts: Vec<Stmt>,
    /// `None` when the state has no transition, which means `reject`.
    pub transition: Option<Transition>,
    /// The whole state.
    pub span: Span,
}

/// The part after `transition`.
#[derive(Clone, Debug)]
pub enum Transition {
    /// A state's name.
    Direct(Ident),
    /// `select (…) { … }`
    Select {
        /// The expressions selected on.
        keys: Vec<Expr>,
        /// The cases in order.
        cases: Vec<SelectCase>,
        /// The whole select.
        span: Span,
    },
}

/// `keyset: state;`
#[derive(Clone, Debug)]
pub struct SelectCase {
    /// The key set: one expression, which is a [`ExprKind::Tuple`] of sets for several keys; `default` and `_` are
    /// [`ExprKind::Default`] and [`ExprKind::DontCare`].
    pub keyset: Expr,
    /// The next state.
    pub state: Ident,
    /// The whole case.
    pub span: Span,
}

/// A control or a control type.
#[derive(Clone, Debug)]
pub struct ControlDecl {
    /// Its name.
    pub name: Ident,
    /// Type parameters.
    pub type_params: Vec<Ident>,
    /// Apply parameters.
    pub params: Vec<Param>,
    /// Constructor parameters.
    pub ctor_params: Vec<Param>,
    /// `None` for a control type declaration.
    pub body: Option<ControlBody>,
}

/// The inside of a control.
#[derive(Clone, Debug)]
pub struct ControlBody {
    /// Constants, actions, tables, instances, variables in order.
    pub locals: Vec<Decl>,
    /// `apply { … }`
    pub apply: Block,
}

/// `package P<T>(…);`
#[derive(Clone, Debug)]
pub struct PackageDecl {
    /// Its name.
    pub name: Ident,
    /// Type parameters.
    pub type_params: Vec<Ident>,
    /// Constructor parameters.
    pub params: Vec<Param>,
}

/// The kind of a derived type with fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StructKind {
    /// `struct`
    Struct,
    /// `header`
    Header,
    /// `header_union`
    HeaderUnion,
}

/// A `struct`, `header` or `header_union`.
#[derive(Clone, Debug)]
pub struct StructDecl {
    /// The kind.
    pub kind: StructKind,
    /// Its name.
    pub name: Ident,
    /// Type parameters.
    pub type_params: Vec<Ident>,
    /// Its fields.
    pub fields: Vec<FieldDecl>,
}

/// A field.
#[derive(Clone, Debug)]
pub struct FieldDecl {
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// Type.
    pub ty: TypeRef,
    /// Name.
    pub name: Ident,
}

/// An `enum`.
#[derive(Clone, Debug)]
pub struct EnumDecl {
    /// Underlying type of a serializable enum.
    pub underlying: Option<TypeRef>,
    /// Its name.
    pub name: Ident,
    /// Members, with their values in a serializable enum.
    pub members: Vec<(Ident, Option<Expr>)>,
}

/// `typedef` or `type`.
#[derive(Clone, Debug)]
pub struct TypedefDecl {
    /// True for `type`, which creates a new type.
    pub is_new_type: bool,
    /// The type it means. `typedef struct S {…} N;` is two declarations.
    pub ty: TypeRef,
    /// Its name.
    pub name: Ident,
}

/// `value_set<T>(size) name;`
#[derive(Clone, Debug)]
pub struct ValueSetDecl {
    /// Element type.
    pub ty: TypeRef,
    /// Size.
    pub size: Expr,
    /// Name.
    pub name: Ident,
}

/// A table.
#[derive(Clone, Debug)]
pub struct TableDecl {
    /// Name.
    pub name: Ident,
    /// Properties in order; analysis reports duplicates.
    pub properties: Vec<TableProperty>,
}

/// A table property.
#[derive(Clone, Debug)]
pub struct TableProperty {
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// `const`.
    pub is_const: bool,
    /// The kind.
    pub kind: TablePropertyKind,
    /// The whole property.
    pub span: Span,
}

/// The kinds of table property.
#[derive(Clone, Debug)]
pub enum TablePropertyKind {
    /// `key = { e : kind; … }`
    Key(Vec<KeyElement>),
    /// `actions = { … }`
    Actions(Vec<ActionRef>),
    /// `entries = { … }`
    Entries(Vec<Entry>),
    /// `name = e;`, including `default_action` and `size`.
    Custom(Ident, Expr),
}

/// `e : kind @annotations;`
#[derive(Clone, Debug)]
pub struct KeyElement {
    /// The key expression.
    pub expr: Expr,
    /// The match kind.
    pub match_kind: Ident,
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// The whole element.
    pub span: Span,
}

/// An action with its bound arguments, in a table's `actions` or an entry.
#[derive(Clone, Debug)]
pub struct ActionRef {
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// The action.
    pub name: Path,
    /// Arguments; `None` when no parentheses were written.
    pub args: Option<Vec<Arg>>,
    /// The whole reference.
    pub span: Span,
}

/// An element of `entries`.
#[derive(Clone, Debug)]
pub struct Entry {
    /// `const` before the entry.
    pub is_const: bool,
    /// `priority = e :`
    pub priority: Option<Expr>,
    /// The key set, as in [`SelectCase::keyset`].
    pub keyset: Expr,
    /// The action.
    pub action: ActionRef,
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// The whole entry.
    pub span: Span,
}

/// Direction of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// None written.
    None,
    /// `in`
    In,
    /// `out`
    Out,
    /// `inout`
    InOut,
}

/// A parameter.
#[derive(Clone, Debug)]
pub struct Param {
    /// Annotations (`@optional` among them).
    pub annotations: Vec<Annotation>,
    /// Direction.
    pub dir: Direction,
    /// Type.
    pub ty: TypeRef,
    /// Name.
    pub name: Ident,
    /// Default value.
    pub default: Option<Expr>,
    /// The whole parameter.
    pub span: Span,
}

/// A reference to a type.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeRef {
    /// The kind.
    pub kind: TypeKind,
    /// Source place.
    pub span: Span,
}

/// The kinds of type reference.
#[derive(Clone, Debug, PartialEq)]
pub enum TypeKind {
    /// `bool`
    Bool,
    /// `error`
    Error,
    /// `match_kind`
    MatchKind,
    /// `string`
    String,
    /// `void`
    Void,
    /// `_` as a type argument
    DontCare,
    /// `int` of any precision
    Integer,
    /// `bit<W>`; `bit` alone is `bit<1>`
    Bit(Box<Expr>),
    /// `int<W>`
    Int(Box<Expr>),
    /// `varbit<W>`
    Varbit(Box<Expr>),
    /// A named type, perhaps specialised: `N`, `.N`, `N<T, …>`
    Named(Path, Vec<TypeRef>),
    /// `T[n]`
    Stack(Box<TypeRef>, Box<Expr>),
    /// `tuple<T, …>`
    Tuple(Vec<TypeRef>),
    /// `list<T>`
    List(Box<TypeRef>),
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Arg {
    /// `name =` before it.
    pub name: Option<Ident>,
    /// The value; [`ExprKind::DontCare`] for `_`.
    pub value: Expr,
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// The kind.
    pub kind: ExprKind,
    /// Source place.
    pub span: Span,
}

/// The kinds of expression.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// An integer literal.
    Int(IntLit),
    /// `true`, `false`
    Bool(bool),
    /// A string literal, unescaped.
    String(String),
    /// `this`
    This,
    /// A name that is not known to be a type's.
    Path(Path),
    /// A type in an expression: the callee of a constructor call, or before `.member`.
    Type(Box<TypeRef>),
    /// `e.member`; `E.member` and `error.member` have a [`ExprKind::Type`] inside.
    Member(Box<Expr>, Ident),
    /// `a[i]`
    Index(Box<Expr>, Box<Expr>),
    /// `a[hi:lo]`
    Slice(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `a[lo+:width]`
    PlusSlice(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `-e`, `!e`, `~e`, `+e`
    Unary(UnaryOp, Box<Expr>),
    /// `a op b`, including `&&&` and `..`.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `c ? a : b`
    Conditional(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `(T) e`
    Cast(Box<TypeRef>, Box<Expr>),
    /// `f<T, …>(args)`; a constructor call has a [`ExprKind::Type`] callee.
    Call(Box<Expr>, Vec<TypeRef>, Vec<Arg>),
    /// `{ e, … }`; true if it ends with `, ...`
    List(Vec<Expr>, bool),
    /// `{ k = e, … }`; true if it ends with `, ...`
    Record(Vec<(Ident, Expr)>, bool),
    /// `(e, …)` with at least two elements: key sets only.
    Tuple(Vec<Expr>),
    /// `{#}`
    Invalid,
    /// `...` as a whole initialiser
    Dots,
    /// `default` in a key set or switch label
    Default,
    /// `_`
    DontCare,
}

/// Unary operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOp {
    /// `-`
    Neg,
    /// `+`
    Plus,
    /// `!`
    Not,
    /// `~`
    Complement,
}

/// Binary operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum BinaryOp {
    Add,
    Sub,
    /// `|+|`
    SatAdd,
    /// `|-|`
    SatSub,
    Mul,
    Div,
    Mod,
    Shl,
    Shr,
    /// `++`
    Concat,
    BitAnd,
    BitOr,
    BitXor,
    /// `&&`
    And,
    /// `||`
    Or,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    /// `&&&`
    Mask,
    /// `..`
    Range,
}

/// `{ … }`
#[derive(Clone, Debug)]
pub struct Block {
    /// Annotations before it (`@atomic`).
    pub annotations: Vec<Annotation>,
    /// Statements and declarations.
    pub stmts: Vec<Stmt>,
    /// From brace to brace.
    pub span: Span,
}

/// A statement.
#[derive(Clone, Debug)]
pub struct Stmt {
    /// The kind.
    pub kind: StmtKind,
    /// Source place.
    pub span: Span,
}

/// The kinds of statement.
#[derive(Clone, Debug)]
pub enum StmtKind {
    /// `;`
    Empty,
    /// A constant, variable or instance declaration.
    Decl(Box<Decl>),
    /// `l = e;` or, with an operator, `l op= e;`
    Assign(Expr, Option<BinaryOp>, Expr),
    /// A call; always [`ExprKind::Call`]. Direct application `C.apply(…)` has a [`ExprKind::Type`] inside.
    Call(Expr),
    /// `if`
    If(Expr, Box<Stmt>, Option<Box<Stmt>>),
    /// `{ … }`
    Block(Block),
    /// `return e;`
    Return(Option<Expr>),
    /// `break;`
    Break,
    /// `continue;`
    Continue,
    /// `exit;`
    Exit,
    /// `switch (e) { … }`
    Switch(Expr, Vec<SwitchCase>),
    /// `for (init; cond; update) body`
    For {
        /// Annotations.
        annotations: Vec<Annotation>,
        /// Statements before the loop.
        init: Vec<Stmt>,
        /// Condition.
        cond: Expr,
        /// Statements after each turn.
        update: Vec<Stmt>,
        /// Body.
        body: Box<Stmt>,
    },
    /// `for (T x in e) body`; a range `a .. b` is a [`BinaryOp::Range`].
    ForIn {
        /// Annotations.
        annotations: Vec<Annotation>,
        /// Type of the variable.
        ty: TypeRef,
        /// The variable.
        name: Ident,
        /// Stack, list or range.
        collection: Expr,
        /// Body.
        body: Box<Stmt>,
    },
}

/// `label: { … }`
#[derive(Clone, Debug)]
pub struct SwitchCase {
    /// The label; [`ExprKind::Default`] for `default`.
    pub label: Expr,
    /// `None` falls through to the next case.
    pub body: Option<Block>,
    /// The whole case.
    pub span: Span,
}
