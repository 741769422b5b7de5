//! Calls: arguments, inlining of functions, actions and controls, dispatch to core.p4 and the architecture.
//!
//! P4_16 "calling convention": arguments are evaluated from left to right, `in` and `inout` are copied in, the body runs,
//! and `out` and `inout` are copied out from left to right, after `exit` too. Where the callee cannot see a
//! difference, the parameter is the argument itself and nothing is copied.

use std::collections::HashSet;

use p4jet_analysis::typed::{self, Call, Callee, Local, Param, Type};
use p4jet_ir::{FieldId, FieldKind, Function, Terminator, atomic};
use p4jet_syntax::ast::Direction;
use p4jet_syntax::span::Span;

use crate::arch::{Arg, ExternCall};
use crate::build;
use crate::cfg::Jump;
use crate::context::{Flow, Kind, Lowered, Lowerer, full_name};
use crate::place::Place;
use crate::scope::{Binding, BlockDecl, GLOBAL, Object, ScopeId};
use crate::survey::has_effects;
use crate::types::Role;
use crate::value::{ObjectId, Storage, Value};

/// The way in which parameters are bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passing {
    /// A function: it sees nothing of the caller except its parameters, which may be the arguments.
    Function,
    /// An action: it may see the arguments under other names, those of its control.
    Action,
    /// A parser or control applied at one place: like a function, but the parameters remain bound, because its tables'
    /// actions exist only once.
    BlockOnce,
    /// A parser or control applied at several places: parameters have separate storage.
    BlockMany,
}

/// The assignments after the callee: `place = storage`, in this order.
type CopyOut = Vec<(Place, Storage)>;

impl Lowerer<'_> {
    /// Lowers a call; its result is [`Value::Void`] if it has none.
    pub(crate) fn call(&mut self, call: &Call, ret: &Type) -> Lowered<Value> {
        let outer = std::mem::replace(&mut self.span, call.span);
        let result = self.call_inner(call, ret);
        self.span = outer;
        result
    }

    fn call_inner(&mut self, call: &Call, ret: &Type) -> Lowered<Value> {
        let p = self.program;
        match &call.callee {
            Callee::Function(id) => {
                let function = &p.functions[id.index()];
                if function.body.is_some() {
                    return self.call_function(function, GLOBAL, call);
                }
                let type_args: Vec<Type> = call.type_args.iter().map(|t| self.ty(t)).collect();
                let own = (&function.type_params[..], &type_args[..]);
                let args = self.extern_args(&function.params, &call.args, &[own], call.span)?;
                let call = ExternCall {
                    name: function.name.clone(),
                    object: None,
                    type_args,
                    args,
                    ret: ret.clone(),
                    span: call.span,
                };
                self.call_core_function(&call)
            }
            Callee::Action(id) => {
                self.call_action(*id, call)?;
                Ok(Value::Void)
            }
            Callee::Method { object, ext, method } => {
                let Value::Object(id) = self.expr(object)? else {
                    return self.bug(object.span, "a method of something that is not an object");
                };
                self.call_method(id, *ext, *method, call, ret)
            }
            Callee::Apply(object) => {
                let Value::Object(id) = self.expr(object)? else {
                    return self.bug(object.span, "apply of something that is not an object");
                };
                let direct = matches!(object.kind, typed::ExprKind::Instance(_));
                self.apply_block(id, call, direct)?;
                Ok(Value::Void)
            }
            Callee::DirectApply(ty) => {
                // P4_16 "direct invocation": a local instance of the type's name.
                let scope = self.block_scope();
                let known = self.scope_mut(scope).direct.get(&call.span).copied();
                let id = match known {
                    Some(id) => id,
                    None => {
                        let ty = self.ty(ty);
                        let id = self.construct(&ty, 0, &[], call.span)?;
                        self.scope_mut(scope).direct.insert(call.span, id);
                        id
                    }
                };
                self.apply_block(id, call, true)?;
                Ok(Value::Void)
            }
            Callee::TableApply(id) => {
                self.apply_table(*id, None, None, call.span)?;
                Ok(Value::Void)
            }
            Callee::SetValid(h) => {
                let place = self.place(h)?;
                self.set_valid(&place)?;
                Ok(Value::Void)
            }
            Callee::SetInvalid(h) => {
                let place = self.place(h)?;
                self.set_invalid(&place)?;
                Ok(Value::Void)
            }
            Callee::IsValid(h) => Ok(Value::Scalar(self.expr(h)?.is_valid())),
            Callee::PushFront(s, n) => self.shift_stack(s, *n, true),
            Callee::PopFront(s, n) => self.shift_stack(s, *n, false),
        }
    }

    fn shift_stack(&mut self, stack: &typed::Expr, n: u32, push: bool) -> Lowered<Value> {
        let place = self.place(stack)?;
        self.shift(&place, n, push, stack.span)?;
        Ok(Value::Void)
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Arguments

    /// Evaluates arguments from left to right.
    fn args(&mut self, params: &[Param], args: &[Option<typed::Expr>]) -> Lowered<Vec<Arg>> {
        let mut out = Vec::new();
        for param in params {
            let ty = self.program.vars[param.var.index()].ty.clone();
            out.push(Arg { dir: param.dir, ty, value: None, place: None, span: self.span });
        }
        let given: Vec<Option<&typed::Expr>> =
            (0..params.len()).map(|i| args.get(i).and_then(Option::as_ref)).collect();
        let order =
            self.text_order(&given.iter().map(|e| e.map_or(self.span, |e| e.span)).collect::<Vec<_>>());
        for (at, &i) in order.iter().enumerate() {
            let Some(e) = given[i] else { continue };
            let evaluated = &mut out[i];
            evaluated.span = e.span;
            let later = order[at + 1..].iter().any(|j| given[*j].is_some_and(has_effects));
            match evaluated.dir {
                Direction::Out => evaluated.place = Some(self.place(e)?),
                Direction::InOut => {
                    let place = self.place(e)?;
                    let value = self.read(&place)?;
                    evaluated.value = Some(if later { self.snapshot(value) } else { value });
                    evaluated.place = Some(place);
                }
                Direction::In | Direction::None => {
                    // A place stays a place (a header can be emitted), unless it may change before the call.
                    let place = if self.is_place(e) && !later { Some(self.place(e)?) } else { None };
                    let value = match &place {
                        Some(place) => self.read(place)?,
                        None => self.expr(e)?,
                    };
                    evaluated.value = Some(if later { self.snapshot(value) } else { value });
                    evaluated.place = place;
                }
            }
        }
        Ok(out)
    }

    /// Returns the order of the current call's arguments in the text: that of the parameters, except for named ones.
    /// Defaults, which are elsewhere, keep their positions.
    fn text_order(&self, spans: &[Span]) -> Vec<usize> {
        let call = self.span;
        let inside = |s: &Span| s.file == call.file && call.lo <= s.lo && s.hi <= call.hi && *s != call;
        let mut order: Vec<usize> = (0..spans.len()).collect();
        let places: Vec<usize> = order.iter().copied().filter(|i| inside(&spans[*i])).collect();
        let mut sorted = places.clone();
        sorted.sort_by_key(|i| spans[*i].lo);
        for (place, i) in places.into_iter().zip(sorted) {
            order[place] = i;
        }
        order
    }

    /// Evaluates the arguments of an extern function or method, whose types mention these type parameters.
    fn extern_args(
        &mut self,
        params: &[Param],
        args: &[Option<typed::Expr>],
        types: &[(&[typed::TypeParamId], &[Type])],
        _span: Span,
    ) -> Lowered<Vec<Arg>> {
        let mut evaluated = self.args(params, args)?;
        let scope = self.new_scope(self.scope, String::new(), false);
        for (params, args) in types {
            let pairs: Vec<_> = params.iter().copied().zip(args.iter().cloned()).collect();
            self.scope_mut(scope).types.extend(pairs);
        }
        for arg in &mut evaluated {
            arg.ty = self.in_scope(scope, |cx| cx.ty(&arg.ty));
            if let Some(value @ Value::Integer(_)) = &arg.value {
                arg.value = Some(self.cast(value.clone(), &Type::Integer, &arg.ty, arg.span)?);
            }
        }
        Ok(evaluated)
    }

    /// Creates storage for a variable of the current scope, named after the path; not initialised.
    pub(crate) fn local(&mut self, ty: &Type, name: &str, span: Span) -> Lowered<Storage> {
        let name = full_name(self.path(), name);
        let name = self.unique_name(Kind::Variable, &name);
        self.storage(ty, &name, Role::Local, span)
    }

    /// Binds parameters in the current scope and copies in.
    fn bind_params(&mut self, params: &[Param], args: Vec<Arg>, passing: Passing) -> Lowered<CopyOut> {
        let by_reference = self.references(&args, passing);
        let order = self.text_order(&args.iter().map(|a| a.span).collect::<Vec<_>>());
        let mut copy_out = Vec::new();
        for (i, ((param, arg), reference)) in params.iter().zip(args).zip(by_reference).enumerate() {
            let var = &self.program.vars[param.var.index()];
            let ty = self.ty(&var.ty);
            let known = self.scopes[self.scope.0 as usize].vars.get(&param.var).cloned();
            // Instances, strings and directionless `int`s have no storage.
            let stored = !matches!(arg.value, Some(Value::Object(_) | Value::Text(_)));
            if let (true, Some(value)) = (!stored || ty == Type::Integer, &arg.value) {
                self.bind(param.var, Binding::Value(value.clone()));
                continue;
            }
            if let (true, Some(Place::Storage(storage))) = (reference, &arg.place) {
                // Applied again: the tables' actions use the storage of the first time.
                if known.is_none() || known == Some(Binding::Storage(storage.clone())) {
                    self.bind(param.var, Binding::Storage(storage.clone()));
                    if param.dir == Direction::Out {
                        self.reset(storage);
                    }
                    continue;
                }
            }
            let value = match arg.value {
                Some(value @ (Value::Integer(_) | Value::Struct(_))) => {
                    let from = if let Value::Struct(_) = value { ty.clone() } else { Type::Integer };
                    Some(self.cast(value, &from, &ty, arg.span)?)
                }
                value => value,
            };
            if let Some(Value::Scalar(p4jet_ir::Expr::Field(field))) = &value
                && param.dir == Direction::None
                && matches!(self.ir.fields[field.index()].kind, FieldKind::ActionData(_))
            {
                // Action data belongs only to this run of the action.
                self.bind(param.var, Binding::Storage(Storage::Scalar(*field)));
                continue;
            }
            if let (Some(value), Direction::In | Direction::None) = (&value, param.dir) {
                let fixed = match passing {
                    Passing::Function => value.is_const() || reference && value.is_atomic(),
                    Passing::Action | Passing::BlockOnce => value.is_const(),
                    Passing::BlockMany => false,
                };
                if fixed && (known.is_none() || known == Some(Binding::Value(value.clone()))) {
                    self.bind(param.var, Binding::Value(value.clone()));
                    continue;
                }
            }
            let storage = match known {
                Some(Binding::Storage(storage)) => storage,
                Some(Binding::Value(_)) => {
                    return self.unsupported(arg.span, "applying an object again with other arguments");
                }
                None => self.local(&ty, &var.name, arg.span)?,
            };
            match value {
                Some(value) if param.dir != Direction::Out => self.assign_storage(&storage, value),
                // P4_16 "calling convention": `out` headers start invalid; other values are undefined, here 0.
                _ => self.reset(&storage),
            }
            if let (Some(place), Direction::Out | Direction::InOut) = (arg.place, param.dir) {
                copy_out.push((i, (place, storage.clone())));
            }
            self.bind(param.var, Binding::Storage(storage));
        }
        copy_out.sort_by_key(|(i, _)| order.iter().position(|j| j == i));
        Ok(copy_out.into_iter().map(|(_, copy)| copy).collect())
    }

    /// Returns for each argument whether its parameter may be the argument itself: no other argument may write to it, nor
    /// read what it writes.
    fn references(&self, args: &[Arg], passing: Passing) -> Vec<bool> {
        if let Passing::Action | Passing::BlockMany = passing {
            return vec![false; args.len()];
        }
        let touched: Vec<(HashSet<FieldId>, bool)> = args
            .iter()
            .map(|arg| {
                let mut fields = HashSet::new();
                if let Some(place) = &arg.place {
                    self.place_fields(place, &mut fields);
                }
                for e in arg.value.iter().flat_map(Value::leaves) {
                    e.for_each_field(&mut |f| {
                        fields.insert(f);
                    });
                }
                (fields, matches!(arg.dir, Direction::Out | Direction::InOut))
            })
            .collect();
        (0..args.len())
            .map(|i| {
                (0..args.len()).all(|j| {
                    i == j || !(touched[i].1 || touched[j].1) || touched[i].0.is_disjoint(&touched[j].0)
                })
            })
            .collect()
    }

    /// Runs a callee's body between copy-in and copy-out; `return` and `exit` lead to the copy-out.
    fn run_callee(
        &mut self,
        copy_out: CopyOut,
        result: Option<Storage>,
        body: impl FnOnce(&mut Self) -> Lowered<()>,
    ) -> Lowered<()> {
        let done = self.node();
        let outer_exit = self.flow.exit;
        let exit = if copy_out.is_empty() { outer_exit } else { Jump::Node(self.node()) };
        let flow = Flow { ret: Jump::Node(done), result, exit, loops: Vec::new() };
        let outer = std::mem::replace(&mut self.flow, flow);
        let span = self.span;
        let outcome = body(self);
        self.flow = outer;
        self.span = span;
        self.goto(done);
        if let (false, Jump::Node(landing)) = (copy_out.is_empty(), exit) {
            // P4_16 "exit": copy-out happens even then.
            self.enter(landing);
            self.copy_out(&copy_out)?;
            self.jump(outer_exit);
        }
        self.enter(done);
        outcome?;
        self.copy_out(&copy_out)
    }

    /// Lowers code that is atomic with respect to other packets, and marks it as such if it touches registers.
    pub(crate) fn atomic(&mut self, body: impl FnOnce(&mut Self) -> Lowered<()>) -> Lowered<()> {
        if self.in_table_action {
            // The whole action is atomic.
            return body(self);
        }
        let start = self.cfg.position();
        let outer = self.flow.clone();
        let mut ways = Vec::new();
        let mut land = |cx: &mut Self, way: Jump| {
            let landing = cx.node();
            ways.push((landing, way));
            landing
        };
        self.flow.ret = Jump::Node(land(self, outer.ret));
        self.flow.exit = Jump::Node(land(self, outer.exit));
        if let Some((next, after)) = outer.loops.last() {
            let inner = (land(self, Jump::Node(*next)), land(self, Jump::Node(*after)));
            self.flow.loops = vec![inner];
        }
        let done = self.node();
        let result = body(self);
        self.flow = outer;
        self.goto(done);
        let mut touches = false;
        let mut applied = Vec::new();
        for part in self.cfg.since(start) {
            match part {
                Ok(op) => touches |= op.register().is_some(),
                Err(Terminator::Apply { table, .. }) => applied.push(*table),
                Err(_) => {}
            }
        }
        touches |= applied.into_iter().any(|table| self.table_effects(table).touches_registers);
        let end = atomic::call(Function::AtomicEnd, None);
        if touches {
            let loc = self.loc(self.span);
            self.cfg.insert(start, atomic::call(Function::AtomicBegin, None), loc);
        }
        for (landing, way) in ways {
            self.enter(landing);
            if touches {
                self.emit(end.clone());
            }
            self.jump(way);
        }
        self.enter(done);
        if touches {
            self.emit(end);
        }
        result
    }

    fn copy_out(&mut self, copies: &CopyOut) -> Lowered<()> {
        for (place, storage) in copies {
            let value = self.read_storage(storage)?;
            self.assign(place, value)?;
        }
        Ok(())
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Functions and actions

    fn call_function(&mut self, function: &typed::Function, parent: ScopeId, call: &Call) -> Lowered<Value> {
        let args = self.args(&function.params, &call.args)?;
        let scope = self.new_scope(parent, function.name.clone(), false);
        let types: Vec<Type> = call.type_args.iter().map(|t| self.ty(t)).collect();
        self.bind_types(scope, &function.type_params, &types, call.span)?;
        let Some(body) = &function.body else { return self.bug(call.span, "an extern function inlined") };
        self.nested(call.span, |cx| {
            cx.in_scope(scope, |cx| {
                let copy_out = cx.bind_params(&function.params, args, Passing::Function)?;
                let ret = cx.ty(&function.ret);
                let result =
                    if ret == Type::Void { None } else { Some(cx.local(&ret, "$result", call.span)?) };
                cx.run_callee(copy_out, result.clone(), |cx| cx.stmts(body))?;
                result.map_or(Ok(Value::Void), |s| cx.read_storage(&s))
            })
        })
    }

    fn call_action(&mut self, id: typed::ActionId, call: &Call) -> Lowered<()> {
        let action = &self.program.actions[id.index()];
        let args = self.args(&action.params, &call.args)?;
        self.inline_action(id, args)
    }

    /// Inlines an action with evaluated arguments.
    pub(crate) fn inline_action(&mut self, id: typed::ActionId, args: Vec<Arg>) -> Lowered<()> {
        let action = &self.program.actions[id.index()];
        let parent = if self.local_actions.contains(&id) { self.block_scope() } else { GLOBAL };
        let path = full_name(&self.scopes[parent.0 as usize].path, &action.control_name);
        let scope = self.new_scope(parent, path, false);
        self.nested(self.span, |cx| {
            cx.in_scope(scope, |cx| {
                let copy_out = cx.bind_params(&action.params, args, Passing::Action)?;
                cx.run_callee(copy_out, None, |cx| cx.atomic(|cx| cx.stmts(&action.body)))
            })
        })
    }

    /// Evaluates the arguments bound to an action's directional parameters.
    pub(crate) fn action_args(
        &mut self,
        id: typed::ActionId,
        args: &[Option<typed::Expr>],
    ) -> Lowered<Vec<Arg>> {
        let action = &self.program.actions[id.index()];
        self.args(&action.params, args)
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Parsers and controls

    fn apply_block(&mut self, id: ObjectId, call: &Call, direct: bool) -> Lowered<()> {
        let Object::Block(block) = self.object(id).clone() else {
            return self.bug(call.span, "apply of something that is neither parser nor control");
        };
        let args = self.args(self.params_of(block.decl), &call.args)?;
        let passing = if block.single_site && direct { Passing::BlockOnce } else { Passing::BlockMany };
        let runs_once = self.runs_once;
        self.runs_once &= !block.applied;
        if let Object::Block(block) = &mut self.objects[id.0 as usize] {
            block.applied = true;
        }
        let result = self.nested(call.span, |cx| {
            cx.in_scope(block.scope, |cx| {
                let copy_out = cx.bind_params(cx.params_of(block.decl), args, passing)?;
                cx.run_callee(copy_out, None, |cx| match block.decl {
                    BlockDecl::Control(control) => cx.control_body(control),
                    BlockDecl::Parser(parser) => {
                        let Jump::Node(accept) = cx.flow.ret else {
                            return cx.bug(call.span, "a sub-parser without continuation");
                        };
                        let prefix = format!("{}.", cx.path());
                        cx.parser_body(parser, Jump::Node(accept), &prefix)
                    }
                })
            })
        });
        self.runs_once = runs_once;
        result
    }

    /// Lowers the apply block of a control, after the initialisation of its variables.
    pub(crate) fn control_body(&mut self, id: typed::ControlId) -> Lowered<()> {
        let control = &self.program.controls[id.index()];
        let Some(body) = &control.body else {
            return self.bug(control.span, format!("`{}` has no body", control.name));
        };
        self.init_locals(&body.locals)?;
        self.stmts(&body.apply)
    }

    /// P4_16: variables of a parser or control are initialised each time it is applied.
    pub(crate) fn init_locals(&mut self, locals: &[Local]) -> Lowered<()> {
        for local in locals {
            if let Local::Var(var, init) = local {
                self.declare_var(*var, init.as_ref())?;
            }
        }
        Ok(())
    }

    /// Declares a variable, which is 0 unless it is initialised.
    pub(crate) fn declare_var(&mut self, id: typed::VarId, init: Option<&typed::Expr>) -> Lowered<()> {
        let var = &self.program.vars[id.index()];
        let outer = std::mem::replace(&mut self.span, var.span);
        let result = self.declare_var_inner(id, init);
        self.span = outer;
        result
    }

    fn declare_var_inner(&mut self, id: typed::VarId, init: Option<&typed::Expr>) -> Lowered<()> {
        let var = &self.program.vars[id.index()];
        let ty = self.ty(&var.ty);
        let value = match init {
            Some(e) => {
                let value = self.expr(e)?;
                Some(self.cast(value, &self.ty(&e.ty), &ty, e.span)?)
            }
            None => None,
        };
        // Storage belongs to the instance: actions that tables run refer to it.
        let known = self.scopes[self.scope.0 as usize].vars.get(&id).cloned();
        let (storage, fresh) = match known {
            Some(Binding::Storage(storage)) => (storage, false),
            _ => (self.local(&ty, &var.name, var.span)?, true),
        };
        match value {
            Some(value) => self.assign_storage(&storage, value),
            None if fresh && self.runs_once => {}
            None => self.reset(&storage),
        }
        self.bind(id, Binding::Storage(storage));
        Ok(())
    }

    // -----------------------------------------------------------------------------------------------------------------
    // Externs

    fn call_method(
        &mut self,
        object: ObjectId,
        ext: typed::ExternId,
        method: u32,
        call: &Call,
        ret: &Type,
    ) -> Lowered<Value> {
        let declaration = &self.program.externs[ext.index()];
        let method = &declaration.methods[method as usize];
        match self.object(object) {
            Object::PacketIn => return self.packet_in(&method.name, call, ret),
            Object::PacketOut => return self.packet_out(&method.name, call),
            _ => {}
        }
        let Some(instance) = self.extern_object(object) else {
            return self.bug(call.span, "a method of something that is not an extern");
        };
        let (object_args, scope) = (instance.type_args.clone(), instance.scope);
        if method.is_abstract {
            let named = |f: &&typed::FunctionId| self.program.functions[f.index()].name == method.name;
            let Some(id) = instance.methods.iter().find(named) else {
                return self.bug(call.span, "an abstract method without implementation");
            };
            return self.call_function(&self.program.functions[id.index()], scope, call);
        }
        let type_args: Vec<Type> = call.type_args.iter().map(|t| self.ty(t)).collect();
        let types =
            [(&declaration.type_params[..], &object_args[..]), (&method.type_params[..], &type_args[..])];
        let args = self.extern_args(&method.params, &call.args, &types, call.span)?;
        let call = ExternCall {
            name: method.name.clone(),
            object: Some((object, declaration.name.clone())),
            type_args,
            args,
            ret: ret.clone(),
            span: call.span,
        };
        let arch = self.arch;
        arch.call(self, &call)
    }

    /// Lowers functions of core.p4; the others belong to the architecture.
    fn call_core_function(&mut self, call: &ExternCall) -> Lowered<Value> {
        match call.name.as_str() {
            // P4_16 "verify".
            "verify" => {
                let check = call.scalar(self, 0)?;
                let error = call.scalar(self, 1)?;
                self.when(build::not(check), |cx| {
                    cx.terminate(p4jet_ir::Terminator::Reject(error));
                    Ok(())
                })?;
                Ok(Value::Void)
            }
            "static_assert" => {
                let check = call.constant(self, 0)?;
                if check == 0u32.into() {
                    let text = match call.args.get(1).and_then(|a| a.value.clone()) {
                        Some(Value::Text(text)) => format!("static_assert failed: {text}"),
                        _ => "static_assert failed".to_string(),
                    };
                    let diagnostic =
                        p4jet_syntax::diagnostic::Diagnostic::error("static-assert", call.span, text);
                    return Err(self.report(diagnostic));
                }
                Ok(Value::Scalar(build::truth(true)))
            }
            _ => {
                let arch = self.arch;
                arch.call(self, call)
            }
        }
    }
}
