//! The interface between lowering and architectures.
//!
//! Lowering knows P4_16 and core.p4. Everything that a `v1model.p4` or `psa.p4` declares belongs to an
//! [`Architecture`], which builds the pipeline and lowers calls through [`Lowerer`]'s public methods.

use p4jet_analysis::typed::{self, Type};
use p4jet_ir as ir;
use p4jet_syntax::ast::Direction;
use p4jet_syntax::span::Span;

use crate::context::{Lowered, Lowerer};
use crate::place::Place;
use crate::value::{ObjectId, Value};

/// An architecture.
pub trait Architecture: Sync {
    /// Its name: `v1model`.
    fn name(&self) -> &'static str;

    /// True if a program is written for it, judged by the package that `main` instantiates.
    fn recognises(&self, program: &typed::Program) -> bool;

    /// Builds the pipeline of `main`: storage, blocks, glue, intrinsics, `ingress` and `egress`.
    fn pipeline(&self, cx: &mut Lowerer<'_>, main: ObjectId) -> Lowered<()>;

    /// Called for each new extern object; gives it its state, if it has any.
    fn construct(&self, cx: &mut Lowerer<'_>, object: ObjectId) -> Lowered<()>;

    /// Lowers a call of an extern function or method that core.p4 does not declare.
    fn call(&self, cx: &mut Lowerer<'_>, call: &ExternCall) -> Lowered<Value>;

    /// Handles a table property that P4_16 does not define. The [`ir::Table`] already exists, without actions.
    fn table_property(&self, cx: &mut Lowerer<'_>, table: ir::TableId, property: &Property) -> Lowered<()>;

    /// Returns the number that selects a member if an entry names a group of `profile`, from the table's keys of match
    /// kind `selector`. Called at each application of a table whose profile has groups.
    fn select_member(&self, cx: &mut Lowerer<'_>, profile: ObjectId, keys: Vec<Value>) -> Lowered<ir::Expr>;

    /// True if [`typed::Table::empty_group_action`] has an effect.
    fn has_empty_group_actions(&self) -> bool;
}

/// A call with evaluated arguments.
#[derive(Debug)]
pub struct ExternCall {
    /// Name of the function or method.
    pub name: String,
    /// For methods, the object and the name of its type.
    pub object: Option<(ObjectId, String)>,
    /// The callee's own type arguments.
    pub type_args: Vec<Type>,
    /// The arguments.
    pub args: Vec<Arg>,
    /// Return type.
    pub ret: Type,
    /// Source place.
    pub span: Span,
}

/// An evaluated argument.
#[derive(Clone, Debug)]
pub struct Arg {
    /// The parameter's direction.
    pub dir: Direction,
    /// The parameter's type.
    pub ty: Type,
    /// The value of an `in`, `inout` or directionless argument; `None` if it was omitted.
    pub value: Option<Value>,
    /// The place of an `out` or `inout` argument; `None` for `_`.
    pub place: Option<Place>,
    /// Source place.
    pub span: Span,
}

/// A table property with its value.
#[derive(Debug)]
pub struct Property {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Value,
    /// Source place of the value.
    pub span: Span,
}

impl ExternCall {
    /// Returns argument `i` as one expression.
    pub fn scalar(&self, cx: &mut Lowerer<'_>, i: usize) -> Lowered<ir::Expr> {
        match self.args.get(i) {
            Some(Arg { value: Some(value), ty, span, .. }) => cx.scalar_of(value.clone(), ty, *span),
            _ => cx.bug(self.span, format!("`{}` lacks argument {i}", self.name)),
        }
    }

    /// Returns argument `i`.
    pub fn value(&self, cx: &mut Lowerer<'_>, i: usize) -> Lowered<Value> {
        match self.args.get(i).and_then(|a| a.value.clone()) {
            Some(value) => Ok(value),
            None => cx.bug(self.span, format!("`{}` lacks argument {i}", self.name)),
        }
    }

    /// Returns the number of an argument that is an enum member, an error or another constant.
    pub fn constant(&self, cx: &mut Lowerer<'_>, i: usize) -> Lowered<num_bigint::BigUint> {
        match self.scalar(cx, i)? {
            ir::Expr::Const { value, .. } => Ok(value),
            _ => cx.unsupported(
                self.args[i].span,
                format!("a run-time value as this argument of `{}`", self.name),
            ),
        }
    }

    /// Returns the name of the enum member that argument `i` is.
    pub fn enum_member(&self, cx: &mut Lowerer<'_>, i: usize) -> Lowered<String> {
        let index = self.constant(cx, i)?;
        match cx.enum_member(&self.args[i].ty, &index) {
            Some(name) => Ok(name.to_string()),
            None => cx.bug(self.args[i].span, "an enum member that does not exist"),
        }
    }

    /// Calls `f` with a field for the result of scalar `out` argument `i`, then stores the result in the argument.
    pub fn out(
        &self,
        cx: &mut Lowerer<'_>,
        i: usize,
        f: impl FnOnce(&mut Lowerer<'_>, ir::FieldId),
    ) -> Lowered<()> {
        let Some(arg) = self.args.get(i) else {
            return cx.bug(self.span, format!("`{}` lacks argument {i}", self.name));
        };
        if let Some(Place::Storage(crate::value::Storage::Scalar(field))) = arg.place {
            f(cx, field);
            return Ok(());
        }
        let Some(width) = cx.scalar_width(&arg.ty) else {
            let what = format!("`{}` with a result of type {}", self.name, cx.program.type_text(&arg.ty));
            return cx.unsupported(arg.span, what);
        };
        let field = cx.temporary(width);
        f(cx, field);
        match &arg.place {
            Some(place) => cx.assign(place, Value::Scalar(ir::Expr::Field(field))),
            None => Ok(()),
        }
    }
}
