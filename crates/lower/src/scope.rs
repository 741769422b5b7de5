//! Scopes, which give declarations a meaning in each instance, and the objects in them.

use std::collections::HashMap;

use p4jet_analysis::typed::{self, Type};
use p4jet_ir as ir;
use p4jet_syntax::span::Span;

use crate::value::{ObjectId, Storage, Value};

/// Index of a [`Scope`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ScopeId(pub(crate) u32);

/// The scope of globals.
pub(crate) const GLOBAL: ScopeId = ScopeId(0);

/// The storage of a variable or parameter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Binding {
    /// Its own storage, or that of the argument.
    Storage(Storage),
    /// A value that does not change while the variable lives: `in` and constructor parameters, objects.
    Value(Value),
}

/// The meaning of one instance of a declaration: the substitution environment of monomorphisation.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    /// The enclosing scope.
    pub(crate) parent: Option<ScopeId>,
    /// Control-plane path of the object, the prefix of the names inside.
    pub(crate) path: String,
    /// Type arguments.
    pub(crate) types: HashMap<typed::TypeParamId, Type>,
    /// Variables and parameters.
    pub(crate) vars: HashMap<typed::VarId, Binding>,
    /// Instances declared here.
    pub(crate) instances: HashMap<typed::InstanceId, ObjectId>,
    /// Objects created by `C.apply()` without an instance, by the place of the call.
    pub(crate) direct: HashMap<Span, ObjectId>,
    /// Tables applied so far.
    pub(crate) tables: HashMap<typed::TableId, ir::TableId>,
    /// Actions that tables run, without bound arguments.
    pub(crate) actions: HashMap<typed::ActionId, ir::ActionId>,
    /// Value sets used so far.
    pub(crate) value_sets: HashMap<typed::ValueSetId, ir::TableId>,
    /// True if this is the scope of a parser or control instance.
    pub(crate) is_block: bool,
}

/// An instance.
#[derive(Clone, Debug)]
pub enum Object {
    /// A parser or control.
    Block(BlockObject),
    /// An extern object.
    Extern(ExternObject),
    /// A package.
    Package(PackageObject),
    /// The `packet_in` of core.p4.
    PacketIn,
    /// The `packet_out` of core.p4.
    PacketOut,
}

/// The identity of a parser or control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockDecl {
    /// A parser.
    Parser(typed::ParserId),
    /// A control.
    Control(typed::ControlId),
}

/// An instance of a parser or control.
#[derive(Clone, Debug)]
pub struct BlockObject {
    /// Its declaration.
    pub decl: BlockDecl,
    pub(crate) scope: ScopeId,
    /// True if a single call site applies it, so that parameters may stand for the arguments themselves.
    pub(crate) single_site: bool,
    /// True if it was applied before.
    pub(crate) applied: bool,
}

/// An instance of an extern.
#[derive(Clone, Debug)]
pub struct ExternObject {
    /// Its declaration.
    pub ext: typed::ExternId,
    /// Type arguments.
    pub type_args: Vec<Type>,
    /// Index of the constructor.
    pub constructor: u32,
    /// Constructor arguments.
    pub args: Vec<Option<Value>>,
    /// Full control-plane name.
    pub name: String,
    /// The place of its declaration.
    pub span: Span,
    /// The state that the architecture gave it.
    pub state: Option<ir::InstanceId>,
    /// State with the lifetime of a packet.
    pub packet_state: Option<ir::FieldId>,
    /// Implementations of its abstract methods.
    pub(crate) methods: Vec<typed::FunctionId>,
    /// The scope of its declaration, which the implementations see.
    pub(crate) scope: ScopeId,
}

/// An instance of a package.
#[derive(Clone, Debug)]
pub struct PackageObject {
    /// Its declaration.
    pub package: typed::PackageId,
    /// Constructor arguments.
    pub args: Vec<Option<Value>>,
}
