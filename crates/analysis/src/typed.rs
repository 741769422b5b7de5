//! The typed program: what analysis hands to lowering.
//!
//! Every name is resolved to an id, every expression has its type, implicit casts are explicit, arguments are in parameter
//! order, and compile-time values are folded where the specification requires it. Generic objects stay generic: their bodies
//! mention [`Type::Param`], and each use carries the type arguments. Lowering substitutes them. A `Program` exists only if
//! there was no error, so lowering may rely on all of this.

use indexmap::IndexSet;
use num_bigint::BigInt;
use p4jet_syntax::ast::{Annotation, BinaryOp, Direction, StructKind, UnaryOp};
use p4jet_syntax::span::{SourceMap, Span};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Maximum width of `bit` and `int`.
pub(crate) const BITS_MAX: u32 = 2_048;

macro_rules! index {
    ($(#[$doc:meta] $name:ident;)*) => {$(
        #[$doc]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);
        impl $name {
            /// Returns the id as an index.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

index! {
    /// Index in [`Program::type_params`].
    TypeParamId;
    /// Index in [`Program::structs`].
    StructId;
    /// Index in [`Program::enums`].
    EnumId;
    /// Index in [`Program::new_types`].
    NewTypeId;
    /// Index in [`Program::externs`].
    ExternId;
    /// Index in [`Program::functions`].
    FunctionId;
    /// Index in [`Program::parsers`].
    ParserId;
    /// Index in [`Program::controls`].
    ControlId;
    /// Index in [`Program::packages`].
    PackageId;
    /// Index in [`Program::actions`].
    ActionId;
    /// Index in [`Program::tables`].
    TableId;
    /// Index in [`Program::instances`].
    InstanceId;
    /// Index in [`Program::value_sets`].
    ValueSetId;
    /// Index in [`Program::vars`].
    VarId;
}

/// A checked program.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The source files.
    pub sources: SourceMap,
    /// Names of type parameters, for messages.
    pub type_params: Vec<String>,
    /// Structs, headers, header unions.
    pub structs: Vec<Struct>,
    /// Enums with and without an underlying type.
    pub enums: Vec<Enum>,
    /// `type` declarations.
    pub new_types: Vec<NewType>,
    /// All members of `error` in order of declaration; the code is the index (`NoError` is 0).
    pub errors: Vec<String>,
    /// All members of `match_kind`.
    pub match_kinds: IndexSet<String>,
    /// Types of extern objects.
    pub externs: Vec<Extern>,
    /// Functions of the program and extern functions.
    pub functions: Vec<Function>,
    /// Parsers, and parser types (without body).
    pub parsers: Vec<Parser>,
    /// Controls, and control types (without body).
    pub controls: Vec<Control>,
    /// Package types.
    pub packages: Vec<Package>,
    /// Actions, global and local.
    pub actions: Vec<Action>,
    /// Tables.
    pub tables: Vec<Table>,
    /// Declared instances, global and local, of externs, parsers, controls and packages.
    pub instances: Vec<Instance>,
    /// Parser value sets.
    pub value_sets: Vec<ValueSet>,
    /// Variables and parameters.
    pub vars: Vec<Var>,
    /// Integer constants by name, the first of each name, because annotations mention them.
    pub constants: HashMap<String, BigInt>,
    /// Global instances in order.
    pub globals: Vec<InstanceId>,
    /// The instance called `main`.
    pub main: Option<InstanceId>,
}

impl Program {
    /// Returns the name of a declared type, without type arguments; `None` for other types.
    pub fn declared_name(&self, ty: &Type) -> Option<&str> {
        Some(match ty {
            Type::Struct(id, _) => &self.structs[id.index()].name,
            Type::Enum(id) => &self.enums[id.index()].name,
            Type::New(id) => &self.new_types[id.index()].name,
            Type::Extern(id, _) => &self.externs[id.index()].name,
            Type::Parser(id, _) => &self.parsers[id.index()].name,
            Type::Control(id, _) => &self.controls[id.index()].name,
            Type::Package(id, _) => &self.packages[id.index()].name,
            _ => return None,
        })
    }

    /// Returns the control-plane name of a struct, header, enum or `type`: that of `@name`, or else the source name.
    pub fn control_name(&self, ty: &Type) -> Option<String> {
        let (annotations, name) = match ty {
            Type::Struct(id, _) => {
                let declared = &self.structs[id.index()];
                (&declared.annotations, &declared.name)
            }
            Type::Enum(id) => {
                let declared = &self.enums[id.index()];
                (&declared.annotations, &declared.name)
            }
            Type::New(id) => {
                let declared = &self.new_types[id.index()];
                (&declared.annotations, &declared.name)
            }
            _ => return None,
        };
        let name = crate::decls::control_name(annotations, name);
        // A leading dot makes a name global.
        Some(name.strip_prefix('.').map_or(name.clone(), str::to_string))
    }

    /// Returns a type for messages, as P4 writes it.
    pub fn type_text(&self, ty: &Type) -> String {
        let all = |types: &[Type]| types.iter().map(|t| self.type_text(t)).collect::<Vec<_>>().join(", ");
        match ty {
            Type::Void => "void".into(),
            Type::Bool => "bool".into(),
            Type::String => "string".into(),
            Type::Integer => "int".into(),
            Type::Bit(w) => format!("bit<{w}>"),
            Type::Int(w) => format!("int<{w}>"),
            Type::Varbit(w) => format!("varbit<{w}>"),
            Type::Error => "error".into(),
            Type::MatchKind => "match_kind".into(),
            Type::Stack(element, n) => format!("{}[{n}]", self.type_text(element)),
            Type::Tuple(types) => format!("tuple<{}>", all(types)),
            Type::List(element) => format!("list<{}>", self.type_text(element)),
            Type::Set(element) => format!("set<{}>", self.type_text(element)),
            Type::ApplyResult(id) => format!("apply_result({})", self.tables[id.index()].name),
            Type::ActionEnum(id) => format!("action_list({})", self.tables[id.index()].name),
            Type::Param(id) => self.type_params.get(id.index()).map_or("_", String::as_str).into(),
            Type::Struct(_, args)
            | Type::Extern(_, args)
            | Type::Parser(_, args)
            | Type::Control(_, args)
            | Type::Package(_, args)
                if !args.is_empty() =>
            {
                format!("{}<{}>", self.declared_name(ty).unwrap_or_default(), all(args))
            }
            declared => self.declared_name(declared).unwrap_or_default().into(),
        }
    }
}

/// A type. Typedefs are resolved.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// `void`
    Void,
    /// `bool`
    Bool,
    /// `string`
    String,
    /// `int`: compile-time only
    Integer,
    /// `bit<W>`
    Bit(u32),
    /// `int<W>`
    Int(u32),
    /// `varbit<W>`
    Varbit(u32),
    /// `error`
    Error,
    /// `match_kind`
    MatchKind,
    /// A struct, header or header union with its type arguments.
    Struct(StructId, Vec<Type>),
    /// An enum, serializable or not.
    Enum(EnumId),
    /// A `type`.
    New(NewTypeId),
    /// A header or header-union stack.
    Stack(Box<Type>, u32),
    /// `tuple<…>`
    Tuple(Vec<Type>),
    /// `list<T>`
    List(Box<Type>),
    /// A set of values of a type: key sets only.
    Set(Box<Type>),
    /// An extern object.
    Extern(ExternId, Vec<Type>),
    /// A parser object.
    Parser(ParserId, Vec<Type>),
    /// A control object.
    Control(ControlId, Vec<Type>),
    /// A package object.
    Package(PackageId, Vec<Type>),
    /// The result of `t.apply()`.
    ApplyResult(TableId),
    /// `t.apply().action_run`
    ActionEnum(TableId),
    /// A type parameter of the enclosing generic declaration.
    Param(TypeParamId),
}

/// What `bit<0>` and an empty struct count among these values. They become no fields, so no other limit covers the work for them.
pub const EMPTY_LEAVES: u64 = 64;

/// The size of a type. Each struct stores its own, so that no type is walked twice.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    /// Number of base-type values, without those of type parameters.
    pub leaves: u64,
    /// Nesting depth: 0 for a base type.
    pub levels: u32,
    /// The number of occurrences and the depth of each type parameter.
    pub(crate) params: BTreeMap<TypeParamId, (u64, u32)>,
}

impl Shape {
    /// Returns the shape of a struct with fields of these shapes; the struct counts as a value itself.
    pub(crate) fn of_struct(fields: impl Iterator<Item = Shape>) -> Shape {
        let mut all = Shape::of_parts(fields);
        let is_empty = all.leaves == 0 && all.params.is_empty();
        all.leaves = all.leaves.saturating_add(if is_empty { EMPTY_LEAVES } else { 1 });
        all
    }

    pub(crate) fn of_parts(parts: impl Iterator<Item = Shape>) -> Shape {
        let mut all = Shape { levels: 1, ..Shape::default() };
        for part in parts {
            all.add(&part, 1, 1);
        }
        all
    }

    /// Adds a shape that occurs `count` times, `depth` levels inside.
    pub(crate) fn add(&mut self, part: &Shape, count: u64, depth: u32) {
        self.leaves = self.leaves.saturating_add(part.leaves.saturating_mul(count));
        self.levels = self.levels.max(part.levels.saturating_add(depth));
        for (param, (occurrences, level)) in &part.params {
            let entry = self.params.entry(*param).or_default();
            entry.0 = entry.0.saturating_add(occurrences.saturating_mul(count));
            entry.1 = entry.1.max(level.saturating_add(depth));
        }
    }

    /// Returns the number of base-type values, each type parameter counted as one.
    pub fn values(&self) -> u64 {
        self.params.values().fold(self.leaves, |sum, (count, _)| sum.saturating_add(*count))
    }
}

/// A struct, header or header union.
#[derive(Clone, Debug)]
pub struct Struct {
    /// Name.
    pub name: String,
    /// Struct, header or header union.
    pub kind: StructKind,
    /// Its type parameters.
    pub type_params: Vec<TypeParamId>,
    /// Fields in order; may mention the type parameters.
    pub fields: Vec<Field>,
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// Source place.
    pub span: Span,
    /// Its size, without that of type parameters.
    pub shape: Shape,
}

/// A field.
#[derive(Clone, Debug)]
pub struct Field {
    /// Name.
    pub name: String,
    /// Type.
    pub ty: Type,
    /// Annotations (`@field_list(…)` among them).
    pub annotations: Vec<Annotation>,
    /// The place of its name.
    pub span: Span,
}

/// An enum.
#[derive(Clone, Debug)]
pub struct Enum {
    /// Name.
    pub name: String,
    /// `bit<W>` or `int<W>` of a serializable enum.
    pub underlying: Option<Type>,
    /// Members with their values (position, if not serializable).
    pub members: Vec<(String, BigInt)>,
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// Source place.
    pub span: Span,
}

/// `type T N;`
#[derive(Clone, Debug)]
pub struct NewType {
    /// Name.
    pub name: String,
    /// The control-plane name.
    pub control_name: String,
    /// The underlying type.
    pub ty: Type,
    /// Annotations (`@p4runtime_translation` among them).
    pub annotations: Vec<Annotation>,
}

/// A variable or parameter.
#[derive(Clone, Debug)]
pub struct Var {
    /// Name.
    pub name: String,
    /// Type.
    pub ty: Type,
    /// The place of its declaration.
    pub span: Span,
}

/// A parameter.
#[derive(Clone, Debug)]
pub struct Param {
    /// The variable that it is inside the body.
    pub var: VarId,
    /// Control-plane name (needed for action data): that of `@name`, or else the source name.
    pub control_name: String,
    /// Direction. Directionless parameters of actions are action data when a table runs them.
    pub dir: Direction,
    /// `@optional`
    pub optional: bool,
    /// Default value.
    pub default: Option<Arc<Expr>>,
    /// Annotations.
    pub annotations: Vec<Annotation>,
}

/// An extern object's type.
#[derive(Clone, Debug)]
pub struct Extern {
    /// Name: `counter`, `packet_in`.
    pub name: String,
    /// Type parameters.
    pub type_params: Vec<TypeParamId>,
    /// Constructors.
    pub constructors: Vec<Method>,
    /// Methods.
    pub methods: Vec<Method>,
    /// Source place.
    pub span: Span,
}

/// A method of an extern.
#[derive(Clone, Debug)]
pub struct Method {
    /// Name.
    pub name: String,
    /// `abstract`
    pub is_abstract: bool,
    /// `@optional`: an abstract method that an instance need not define.
    pub is_optional: bool,
    /// Its own type parameters.
    pub type_params: Vec<TypeParamId>,
    /// Parameters.
    pub params: Vec<Param>,
    /// Return type.
    pub ret: Type,
}

/// A function; `body` is `None` for an extern function.
#[derive(Clone, Debug)]
pub struct Function {
    /// Name.
    pub name: String,
    /// Type parameters.
    pub type_params: Vec<TypeParamId>,
    /// Parameters.
    pub params: Vec<Param>,
    /// Return type.
    pub ret: Type,
    /// Body.
    pub body: Option<Vec<Stmt>>,
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// Source place.
    pub span: Span,
}

/// A parser or parser type.
#[derive(Clone, Debug)]
pub struct Parser {
    /// Name.
    pub name: String,
    /// Type parameters.
    pub type_params: Vec<TypeParamId>,
    /// Apply parameters.
    pub params: Vec<Param>,
    /// Constructor parameters.
    pub ctor_params: Vec<Param>,
    /// `None` for a type.
    pub body: Option<ParserBody>,
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// Source place.
    pub span: Span,
}

/// The inside of a parser.
#[derive(Clone, Debug, Default)]
pub struct ParserBody {
    /// Local declarations in order.
    pub locals: Vec<Local>,
    /// States. The one named `start` runs first.
    pub states: Vec<State>,
    /// Index of `start`.
    pub start: u32,
}

/// A parser state.
#[derive(Clone, Debug)]
pub struct State {
    /// Name.
    pub name: String,
    /// Statements.
    pub stmts: Vec<Stmt>,
    /// The transition; a state without one rejects.
    pub transition: Transition,
    /// Source place.
    pub span: Span,
}

/// The target of a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// `accept`
    Accept,
    /// `reject`
    Reject,
    /// Index in [`ParserBody::states`].
    State(u32),
}

/// A transition.
#[derive(Clone, Debug)]
pub enum Transition {
    /// Unconditional.
    Direct(Target, Span),
    /// `select`. If no case matches, the parser error is `NoMatch`.
    Select {
        /// The keys, each of a type with equality (bit, int, bool, enum, error), never `int`.
        keys: Vec<Expr>,
        /// The cases in order.
        cases: Vec<SelectCase>,
        /// Source place.
        span: Span,
    },
}

/// A case of a select.
#[derive(Clone, Debug)]
pub struct SelectCase {
    /// One per key, or a single [`KeySet::Any`] / [`KeySet::ValueSet`] for all keys.
    pub keysets: Vec<KeySet>,
    /// The next state.
    pub target: Target,
    /// Source place.
    pub span: Span,
}

/// A set of values, of the key's type.
#[derive(Clone, Debug)]
pub enum KeySet {
    /// `_` or `default`
    Any,
    /// One value.
    Value(Expr),
    /// `value &&& mask`
    Mask(Expr, Expr),
    /// `lo .. hi`
    Range(Expr, Expr),
    /// A value set.
    ValueSet(ValueSetId),
}

impl KeySet {
    /// Returns its expressions.
    pub fn exprs(&self) -> impl Iterator<Item = &Expr> {
        let (first, second) = match self {
            KeySet::Any | KeySet::ValueSet(_) => (None, None),
            KeySet::Value(value) => (Some(value), None),
            KeySet::Mask(a, b) | KeySet::Range(a, b) => (Some(a), Some(b)),
        };
        first.into_iter().chain(second)
    }
}

/// A parser value set.
#[derive(Clone, Debug)]
pub struct ValueSet {
    /// Name, which `@name` can change.
    pub name: String,
    /// Element type.
    pub ty: Type,
    /// Maximum number of members.
    pub size: u32,
    /// Annotations (of the value set; `@match` of struct fields is found in the struct).
    pub annotations: Vec<Annotation>,
    /// Source place.
    pub span: Span,
}

/// A control or control type.
#[derive(Clone, Debug)]
pub struct Control {
    /// Name.
    pub name: String,
    /// Type parameters.
    pub type_params: Vec<TypeParamId>,
    /// Apply parameters.
    pub params: Vec<Param>,
    /// Constructor parameters.
    pub ctor_params: Vec<Param>,
    /// `None` for a type.
    pub body: Option<ControlBody>,
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// Source place.
    pub span: Span,
}

/// The inside of a control.
#[derive(Clone, Debug, Default)]
pub struct ControlBody {
    /// Local declarations in order.
    pub locals: Vec<Local>,
    /// The apply block.
    pub apply: Vec<Stmt>,
}

/// A local declaration of a parser or control. Constants are folded away.
#[derive(Clone, Debug)]
pub enum Local {
    /// A variable; it is initialised every time the object is applied.
    Var(VarId, Option<Expr>),
    /// An instance.
    Instance(InstanceId),
    /// An action.
    Action(ActionId),
    /// A table.
    Table(TableId),
    /// A value set.
    ValueSet(ValueSetId),
}

/// A package type.
#[derive(Clone, Debug)]
pub struct Package {
    /// Name: `V1Switch`.
    pub name: String,
    /// Type parameters.
    pub type_params: Vec<TypeParamId>,
    /// Constructor parameters.
    pub params: Vec<Param>,
}

/// An instance: `T(args) name;`
#[derive(Clone, Debug)]
pub struct Instance {
    /// Name in the source.
    pub name: String,
    /// Control-plane name: the source name, or that of `@name` (a leading dot means that the names of enclosing objects are not
    /// prefixed).
    pub control_name: String,
    /// Its type, with type arguments inferred.
    pub ty: Type,
    /// The number of the constructor, for externs with several.
    pub constructor: u32,
    /// Constructor arguments in parameter order (`None`: omitted optional); compile-time values: constants,
    /// [`ExprKind::Instance`], [`ExprKind::Construct`], or constructor parameters of the enclosing object.
    pub args: Vec<Option<Expr>>,
    /// Implementations of abstract methods.
    pub methods: Vec<FunctionId>,
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// Source place.
    pub span: Span,
}

/// An action.
#[derive(Clone, Debug)]
pub struct Action {
    /// Name in the source.
    pub name: String,
    /// Control-plane name, as in [`Instance::control_name`].
    pub control_name: String,
    /// Parameters; those with a direction come first.
    pub params: Vec<Param>,
    /// Body.
    pub body: Vec<Stmt>,
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// Source place.
    pub span: Span,
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    /// Name in the source.
    pub name: String,
    /// Control-plane name, as in [`Instance::control_name`].
    pub control_name: String,
    /// Keys.
    pub keys: Vec<Key>,
    /// Actions.
    pub actions: Vec<TableAction>,
    /// Default action; `NoAction` if the program declares none.
    pub default: ActionRef,
    /// True if the default action is `const`.
    pub const_default: bool,
    /// PSA's `psa_empty_group_action`: the action for packets whose entry names a group without members.
    pub empty_group_action: Option<ActionRef>,
    /// `size`; `None` if the program declares none.
    pub size: Option<u32>,
    /// Entries in order.
    pub entries: Vec<Entry>,
    /// True if the entries are `const`.
    pub const_entries: bool,
    /// `largest_priority_wins`, default true.
    pub largest_priority_wins: bool,
    /// All other properties: `counters`, `meters`, `implementation`, `support_timeout`, `psa_direct_counter`, … Values are
    /// [`ExprKind::Instance`], [`ExprKind::Construct`] or constants.
    pub properties: Vec<(String, Expr)>,
    /// The annotations of those properties that have any (`@name` of an object that a property constructs).
    pub property_annotations: Vec<(String, Vec<Annotation>)>,
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// Source place.
    pub span: Span,
}

impl Table {
    /// The priority that P4Info gives an entry, as in p4c: that in the source, or else its place from the last entry. If
    /// [`Self::largest_priority_wins`] is false, the smallest wins.
    pub fn shown_priority(&self, entry: usize) -> u32 {
        let given = self.entries[entry].priority.as_ref().filter(|_| !self.const_entries);
        let place = match self.const_entries || self.largest_priority_wins {
            true => self.entries.len() - entry,
            false => entry + 1,
        };
        given.and_then(|given| u32::try_from(given).ok()).unwrap_or(place as u32)
    }
}

/// A key element.
#[derive(Clone, Debug)]
pub struct Key {
    /// The expression.
    pub expr: Expr,
    /// Control-plane name: that of `@name`, or else the source path (`hdr.ip4.dst`, `stack[0].f`, `f[7:0]`, `hdr.x.$valid$` for
    /// `hdr.x.isValid()`).
    pub name: String,
    /// Name of the match kind.
    pub match_kind: String,
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// Source place.
    pub span: Span,
}

/// An action in a table's list.
#[derive(Clone, Debug)]
pub struct TableAction {
    /// The action, with arguments for its directional parameters.
    pub action: ActionRef,
    /// Annotations (`@defaultonly`, `@tableonly`).
    pub annotations: Vec<Annotation>,
}

/// An action with arguments.
#[derive(Clone, Debug)]
pub struct ActionRef {
    /// The action.
    pub action: ActionId,
    /// One per parameter, in order; `None` for action data from the control plane.
    pub args: Vec<Option<Expr>>,
    /// Source place.
    pub span: Span,
}

/// A table entry.
#[derive(Clone, Debug)]
pub struct Entry {
    /// One per key.
    pub keysets: Vec<KeySet>,
    /// Source place of each key set; all equal if one `_` or `default` stands for all keys.
    pub keyset_spans: Vec<Span>,
    /// `priority = n`
    pub priority: Option<BigInt>,
    /// `const`
    pub is_const: bool,
    /// The action with all arguments.
    pub action: ActionRef,
    /// Annotations (`@priority` of bmv2).
    pub annotations: Vec<Annotation>,
    /// Source place.
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
    /// The declaration of a variable.
    Var(VarId, Option<Expr>),
    /// The declaration of an instance (it has no run-time effect).
    Instance(InstanceId),
    /// `l = e;`
    Assign(Expr, Expr),
    /// `l op= e;`: the l-value is evaluated once.
    AssignOp(Expr, BinaryOp, Expr),
    /// A call for its effects.
    Call(Call),
    /// `if`
    If(Expr, Vec<Stmt>, Vec<Stmt>),
    /// `{ … }`; `atomic` for `@atomic`.
    Block {
        /// Statements.
        stmts: Vec<Stmt>,
        /// `@atomic`
        atomic: bool,
    },
    /// `return e;`
    Return(Option<Expr>),
    /// `break;`
    Break,
    /// `continue;`
    Continue,
    /// `exit;`
    Exit,
    /// `switch (t.apply().action_run) { … }`
    SwitchAction {
        /// The table.
        table: TableId,
        /// Labels are indices in [`Table::actions`]; an empty list is `default`. Fall-through is already expanded: each body
        /// has all its labels, possibly including `default` (`has_default`).
        cases: Vec<SwitchActionCase>,
    },
    /// `switch (e) { … }` on values.
    Switch {
        /// The value that selects the case.
        value: Expr,
        /// Cases in order.
        cases: Vec<SwitchCase>,
    },
    /// `for (init; cond; update) body`
    For {
        /// Statements before the loop.
        init: Vec<Stmt>,
        /// Condition.
        cond: Expr,
        /// Statements after each turn.
        update: Vec<Stmt>,
        /// Body.
        body: Vec<Stmt>,
    },
    /// `for (T x in collection) body`
    ForIn {
        /// The variable.
        var: VarId,
        /// The collection.
        collection: Collection,
        /// Body.
        body: Vec<Stmt>,
    },
}

/// The collection of `for … in`.
#[derive(Clone, Debug)]
pub enum Collection {
    /// `lo .. hi`, inclusive.
    Range(Expr, Expr),
    /// A list or a header stack.
    Elements(Expr),
}

/// A case of a switch on an action.
#[derive(Clone, Debug)]
pub struct SwitchActionCase {
    /// Indices in [`Table::actions`].
    pub actions: Vec<u32>,
    /// `default` is among the labels.
    pub has_default: bool,
    /// The statements; empty for a last label without a body.
    pub body: Vec<Stmt>,
}

/// A case of a switch on values.
#[derive(Clone, Debug)]
pub struct SwitchCase {
    /// Values (constants of the switch's type).
    pub values: Vec<Expr>,
    /// `default` is among the labels.
    pub has_default: bool,
    /// The statements.
    pub body: Vec<Stmt>,
}

/// An expression.
#[derive(Clone, Debug)]
pub struct Expr {
    /// Its type.
    pub ty: Type,
    /// The kind.
    pub kind: ExprKind,
    /// Source place.
    pub span: Span,
}

impl Expr {
    /// Returns the operands of this expression in their order of evaluation. The parts of a call are not included: see
    /// [`Call`].
    pub fn operands(&self) -> impl Iterator<Item = &Expr> {
        let (few, many): ([Option<&Expr>; 3], &[Expr]) = match &self.kind {
            ExprKind::Field(a, _)
            | ExprKind::StackNext(a)
            | ExprKind::StackLast(a)
            | ExprKind::StackLastIndex(a)
            | ExprKind::Slice(a, ..)
            | ExprKind::Unary(_, a)
            | ExprKind::Cast(a) => ([Some(a), None, None], &[]),
            ExprKind::Index(a, b) | ExprKind::SliceAt { value: a, lo: b, .. } | ExprKind::Binary(_, a, b) => {
                ([Some(a), Some(b), None], &[])
            }
            ExprKind::Conditional(a, b, c) => ([Some(a), Some(b), Some(c)], &[]),
            ExprKind::Aggregate(items) => ([None; 3], items),
            ExprKind::Int(_)
            | ExprKind::Bool(_)
            | ExprKind::String(_)
            | ExprKind::EnumMember(_)
            | ExprKind::Error(_)
            | ExprKind::Var(_)
            | ExprKind::Instance(_)
            | ExprKind::Construct { .. }
            | ExprKind::Invalid
            | ExprKind::Call(_)
            | ExprKind::ApplyHit { .. } => ([None; 3], &[]),
        };
        few.into_iter().flatten().chain(many)
    }
}

/// The kinds of expression.
#[derive(Clone, Debug)]
pub enum ExprKind {
    /// A number of type `bit`, `int<W>`, `int`, serializable enum, or a `type` over these; in range for its type
    /// (negative for negative signed values).
    Int(BigInt),
    /// A Boolean.
    Bool(bool),
    /// A string.
    String(String),
    /// A member of an enum without underlying type: its index.
    EnumMember(u32),
    /// An error: its code.
    Error(u32),
    /// A variable or parameter, including constructor parameters.
    Var(VarId),
    /// A declared instance.
    Instance(InstanceId),
    /// An anonymous instance, as in `V1Switch(P(), …)`: its type and constructor arguments.
    Construct {
        /// The number of an extern's constructor.
        constructor: u32,
        /// The arguments, as in [`Instance::args`].
        args: Vec<Option<Expr>>,
    },
    /// A field of a struct, header or union, by index.
    Field(Box<Expr>, u32),
    /// An element of a stack (any `bit` or `int` index) or of a tuple (constant index).
    Index(Box<Expr>, Box<Expr>),
    /// `s.next`: parser only.
    StackNext(Box<Expr>),
    /// `s.last`: parser only.
    StackLast(Box<Expr>),
    /// `s.lastIndex`, of type `bit<32>`: parser only.
    StackLastIndex(Box<Expr>),
    /// Bits `hi` to `lo`.
    Slice(Box<Expr>, u32, u32),
    /// `width` bits from bit `lo` on, where `lo` is known only at run time.
    SliceAt {
        /// The sliced value.
        value: Box<Expr>,
        /// Lowest bit.
        lo: Box<Expr>,
        /// Number of bits.
        width: u32,
    },
    /// A unary operator.
    Unary(UnaryOp, Box<Expr>),
    /// A binary operator; both operands have the types that the specification requires after implicit casts. Structs, headers,
    /// stacks and tuples can be compared. `&&` and `||` short-circuit.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `c ? a : b`
    Conditional(Box<Expr>, Box<Expr>, Box<Expr>),
    /// A cast to the expression's type, explicit or implicit.
    Cast(Box<Expr>),
    /// All fields or elements of a struct, header (which is then valid), tuple or list, in order. Elements omitted by `...`
    /// have their default values.
    Aggregate(Vec<Expr>),
    /// `{#}`: an invalid header or union.
    Invalid,
    /// A call with a result. For tables: [`Type::ApplyResult`].
    Call(Box<Call>),
    /// `t.apply().hit`, or `.miss` if `miss` is true.
    ApplyHit {
        /// The table.
        table: TableId,
        /// `.miss`
        miss: bool,
    },
}

/// A call.
#[derive(Clone, Debug)]
pub struct Call {
    /// The callee.
    pub callee: Callee,
    /// Type arguments, given or inferred, one per type parameter of the callee (method's own).
    pub type_args: Vec<Type>,
    /// One per parameter; defaults filled in. `None`: `_`, or an omitted optional parameter.
    pub args: Vec<Option<Expr>>,
    /// Source place.
    pub span: Span,
}

/// The callee of a call.
#[derive(Clone, Debug)]
pub enum Callee {
    /// A function, of the program or extern.
    Function(FunctionId),
    /// An action, directly.
    Action(ActionId),
    /// A method of an extern object.
    Method {
        /// The object: an instance, a (constructor) parameter, or `packet_in`/`packet_out`.
        object: Box<Expr>,
        /// Its type's declaration.
        ext: ExternId,
        /// Index in [`Extern::methods`].
        method: u32,
    },
    /// `x.apply(…)` of a parser or control instance (or constructor parameter).
    Apply(Box<Expr>),
    /// `C.apply(…)` without an instance.
    DirectApply(Type),
    /// `t.apply()`
    TableApply(TableId),
    /// `h.setValid()`
    SetValid(Box<Expr>),
    /// `h.setInvalid()`
    SetInvalid(Box<Expr>),
    /// `h.isValid()`, of headers and unions
    IsValid(Box<Expr>),
    /// `s.push_front(n)`
    PushFront(Box<Expr>, u32),
    /// `s.pop_front(n)`
    PopFront(Box<Expr>, u32),
}
