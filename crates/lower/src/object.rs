//! Instances: monomorphisation by substitution environments.
//!
//! Instantiating a parser or control creates a [`Scope`](crate::scope::Scope) that binds its type and constructor
//! parameters and contains its own instances; P4_16 "compile-time evaluation" defines the order.

use p4jet_analysis::control_names::ObjectKind;
use p4jet_analysis::typed::{self, Local, Type};
use p4jet_ir as ir;
use p4jet_syntax::span::Span;

use crate::context::{Lowered, Lowerer, full_name};
use crate::scope::{Binding, BlockDecl, BlockObject, ExternObject, GLOBAL, Object, PackageObject};
use crate::value::{ObjectId, Value};

impl<'a> Lowerer<'a> {
    /// Returns an instance by id.
    pub fn object(&self, id: ObjectId) -> &Object {
        &self.objects[id.0 as usize]
    }

    pub(crate) fn add_object(&mut self, object: Object) -> ObjectId {
        self.objects.push(object);
        ObjectId(self.objects.len() as u32 - 1)
    }

    /// Returns the extern instance, if `id` is one.
    pub fn extern_object(&self, id: ObjectId) -> Option<&ExternObject> {
        match self.object(id) {
            Object::Extern(object) => Some(object),
            _ => None,
        }
    }

    /// Sets the state of an extern instance.
    pub fn set_state(&mut self, id: ObjectId, state: ir::InstanceId) {
        if let Object::Extern(object) = &mut self.objects[id.0 as usize] {
            object.state = Some(state);
        }
    }

    /// Gives an extern instance state with the lifetime of a packet: 0 when the packet arrives.
    pub fn set_packet_state(&mut self, id: ObjectId, width: u32) {
        let Some(name) = self.extern_object(id).map(|o| o.name.clone()) else { return };
        let field = self.field(&name, width, ir::FieldKind::Metadata);
        if let Object::Extern(object) = &mut self.objects[id.0 as usize] {
            object.packet_state = Some(field);
        }
    }

    /// Adds extern state to the program, under a name unique among all state. It is an error if two
    /// instances of one kind have one name.
    pub fn add_instance(&mut self, name: &str, kind: ir::InstanceKind, span: Span) -> ir::InstanceId {
        let control_kind = match kind {
            ir::InstanceKind::Counter { .. } => ObjectKind::Counter,
            ir::InstanceKind::DirectCounter { .. } => ObjectKind::DirectCounter,
            ir::InstanceKind::Register { .. } => ObjectKind::Register,
            ir::InstanceKind::Meter { .. } => ObjectKind::Meter,
            ir::InstanceKind::DirectMeter { .. } => ObjectKind::DirectMeter,
            ir::InstanceKind::ActionProfile { .. } => ObjectKind::ActionProfile,
            ir::InstanceKind::Digest { .. } => ObjectKind::Digest,
        };
        self.claim(control_kind, name, span, self.scope);
        let name = self.unique_name(crate::context::Kind::Instance, name);
        let loc = self.loc(span);
        self.ir.instances.push(ir::Instance { name, kind, loc });
        ir::InstanceId(self.ir.instances.len() as u32 - 1)
    }

    /// Returns the object of a declared instance in the current scope.
    pub(crate) fn instance(&mut self, id: typed::InstanceId) -> Lowered<ObjectId> {
        if let Some(object) = self.lookup(|s| s.instances.get(&id).copied()) {
            return Ok(object);
        }
        // Not created by an enclosing object, so it is global.
        self.in_scope(GLOBAL, |cx| cx.declare(id))
    }

    /// Creates the object of an instance declared in the current scope.
    pub(crate) fn declare(&mut self, id: typed::InstanceId) -> Lowered<ObjectId> {
        let instance = &self.program.instances[id.index()];
        if let Type::Stack(..) = instance.ty {
            return self.unsupported(instance.span, "arrays of objects");
        }
        let ty = self.ty(&instance.ty);
        // As in bmv2, the control plane knows the architecture's blocks by the names of their types, wherever they are
        // instantiated.
        let top_level = self.scope == GLOBAL && matches!(ty, Type::Parser(..) | Type::Control(..));
        let name = match self.program.declared_name(&ty) {
            Some(name) if top_level => name.to_string(),
            _ => full_name(self.path(), &instance.control_name),
        };
        let sites = self.apply_sites.get(&id).copied().unwrap_or(0);
        let object = self.make(&ty, instance.constructor, &instance.args, name, sites <= 1, instance.span)?;
        let scope = self.scope;
        if let Object::Extern(object) = &mut self.objects[object.0 as usize] {
            object.methods = instance.methods.clone();
            object.scope = scope;
        }
        self.scope_mut(scope).instances.insert(id, object);
        Ok(object)
    }

    /// Creates an anonymous object.
    pub(crate) fn construct(
        &mut self,
        ty: &Type,
        constructor: u32,
        args: &[Option<typed::Expr>],
        span: Span,
    ) -> Lowered<ObjectId> {
        let name = full_name(self.path(), self.program.declared_name(ty).unwrap_or_default());
        self.make(ty, constructor, args, name, true, span)
    }

    pub(crate) fn make(
        &mut self,
        ty: &Type,
        constructor: u32,
        args: &[Option<typed::Expr>],
        name: String,
        single_site: bool,
        span: Span,
    ) -> Lowered<ObjectId> {
        let mut values = Vec::new();
        for arg in args {
            values.push(match arg {
                Some(e) => Some(self.expr(e)?),
                None => None,
            });
        }
        self.nested(span, |cx| cx.make_of(ty, constructor, values, name, single_site, span))
    }

    fn make_of(
        &mut self,
        ty: &Type,
        constructor: u32,
        values: Vec<Option<Value>>,
        name: String,
        single_site: bool,
        span: Span,
    ) -> Lowered<ObjectId> {
        let p = self.program;
        match ty {
            Type::Package(package, _) => {
                Ok(self.add_object(Object::Package(PackageObject { package: *package, args: values })))
            }
            Type::Extern(ext, type_args) => {
                let object = ExternObject {
                    ext: *ext,
                    type_args: type_args.clone(),
                    constructor,
                    args: values,
                    name,
                    span,
                    state: None,
                    packet_state: None,
                    methods: Vec::new(),
                    scope: self.scope,
                };
                let id = self.add_object(Object::Extern(object));
                // An extern whose methods are all implemented by the program does not belong to an architecture.
                let methods = &p.externs[ext.index()].methods;
                if !methods.is_empty() && methods.iter().all(|m| m.is_abstract) {
                    return Ok(id);
                }
                let arch = self.arch;
                let outer = std::mem::replace(&mut self.span, span);
                let result = arch.construct(self, id);
                self.span = outer;
                result.map(|()| id)
            }
            Type::Parser(id, type_args) => {
                let parser = &p.parsers[id.index()];
                let locals = parser.body.as_ref().map_or(&[][..], |b| &b.locals);
                let object = BlockDecl::Parser(*id);
                let params = (&parser.type_params[..], &parser.ctor_params[..]);
                self.make_block(object, params, type_args, values, locals, name, single_site)
            }
            Type::Control(id, type_args) => {
                let control = &p.controls[id.index()];
                let locals = control.body.as_ref().map_or(&[][..], |b| &b.locals);
                let object = BlockDecl::Control(*id);
                let params = (&control.type_params[..], &control.ctor_params[..]);
                self.make_block(object, params, type_args, values, locals, name, single_site)
            }
            other => {
                let what = format!("an instance of {}", self.program.type_text(other));
                self.bug(span, what)
            }
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn make_block(
        &mut self,
        decl: BlockDecl,
        (type_params, ctor_params): (&[typed::TypeParamId], &[typed::Param]),
        type_args: &[Type],
        args: Vec<Option<Value>>,
        locals: &[Local],
        path: String,
        single_site: bool,
    ) -> Lowered<ObjectId> {
        let scope = self.new_scope(GLOBAL, path, true);
        self.bind_types(scope, type_params, type_args, self.span)?;
        let mut result = Ok(());
        self.in_scope(scope, |cx| {
            for (param, arg) in ctor_params.iter().zip(args) {
                let var = &cx.program.vars[param.var.index()];
                let ty = cx.ty(&var.ty);
                let value = match arg {
                    Some(value @ Value::Integer(_)) => cx.cast(value, &Type::Integer, &ty, var.span),
                    Some(value) => Ok(value),
                    None => continue,
                };
                match value {
                    Ok(value) => cx.bind(param.var, Binding::Value(value)),
                    Err(reported) => result = Err(reported),
                }
            }
            for local in locals {
                if let Local::Instance(id) = local {
                    result = result.and(cx.declare(*id).map(|_| ()));
                }
            }
        });
        result?;
        Ok(self.add_object(Object::Block(BlockObject { decl, scope, single_site, applied: false })))
    }

    /// Returns the parameters of a parser or control, with their (substituted) types.
    pub fn block_params(&self, id: ObjectId) -> Vec<(String, Type)> {
        let Object::Block(block) = self.object(id) else { return Vec::new() };
        let types = &self.scopes[block.scope.0 as usize].types;
        self.params_of(block.decl)
            .iter()
            .map(|p| {
                let var = &self.program.vars[p.var.index()];
                let ty = match &var.ty {
                    Type::Param(t) => types.get(t).cloned().unwrap_or_else(|| var.ty.clone()),
                    ty => ty.clone(),
                };
                (var.name.clone(), ty)
            })
            .collect()
    }

    /// Returns its name in the source.
    pub fn block_name(&self, id: ObjectId) -> String {
        match self.object(id) {
            Object::Block(BlockObject { decl: BlockDecl::Parser(p), .. }) => {
                self.program.parsers[p.index()].name.clone()
            }
            Object::Block(BlockObject { decl: BlockDecl::Control(c), .. }) => {
                self.program.controls[c.index()].name.clone()
            }
            _ => String::new(),
        }
    }

    pub(crate) fn params_of(&self, decl: BlockDecl) -> &'a [typed::Param] {
        match decl {
            BlockDecl::Parser(p) => &self.program.parsers[p.index()].params,
            BlockDecl::Control(c) => &self.program.controls[c.index()].params,
        }
    }
}
