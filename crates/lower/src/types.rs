//! Types: substitution, widths, storage and zero values.

use num_bigint::BigInt;
use p4jet_analysis::typed::{self, Type};
use p4jet_analysis::{replace_params, substitute};
use p4jet_ir as ir;
use p4jet_ir::{Expr, FieldId, FieldKind, HeaderId};
use p4jet_syntax::ast::{Annotation, AnnotationBody, StructKind};
use p4jet_syntax::span::Span;

use crate::build;
use crate::context::{Kind, Lowered, Lowerer};
use crate::scope::ScopeId;
use crate::value::{Storage, Value};

/// The purpose of new storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Parameters of the architecture's blocks: named in the program, shown in traces.
    Metadata,
    /// Everything else.
    Local,
}

impl Role {
    fn kind(self) -> FieldKind {
        match self {
            Role::Metadata => FieldKind::Metadata,
            Role::Local => FieldKind::Temporary,
        }
    }
}

impl Lowerer<'_> {
    /// Sets the type parameters of a scope. Generic functions that call each other can enlarge a type with each call.
    pub(crate) fn bind_types(
        &mut self,
        scope: ScopeId,
        params: &[typed::TypeParamId],
        types: &[Type],
        span: Span,
    ) -> Lowered<()> {
        for (param, ty) in params.iter().zip(types) {
            if let Some(problem) = self.program.too_large(ty) {
                let name = &self.program.type_params[param.index()];
                let text = format!("type parameter `{name}` stands for a type {problem}");
                return Err(self.refuse_size(span, text));
            }
            self.scope_mut(scope).types.insert(*param, ty.clone());
        }
        Ok(())
    }

    /// Returns the type with type parameters replaced by their values in the current scope.
    pub fn ty(&self, ty: &Type) -> Type {
        replace_params(ty, &|p| self.lookup(|s| s.types.get(&p).cloned()))
    }

    /// Returns names and types of the fields of a (substituted) struct, header or union type, or of the elements of a
    /// tuple.
    pub fn fields_of(&self, ty: &Type) -> Vec<(String, Type)> {
        match ty {
            Type::Struct(id, args) => {
                let declaration = &self.program.structs[id.index()];
                let field_type = |ty| substitute(ty, &declaration.type_params, args);
                declaration.fields.iter().map(|f| (f.name.clone(), field_type(&f.ty))).collect()
            }
            Type::Tuple(parts) => {
                parts.iter().enumerate().map(|(i, t)| (format!("f{i}"), t.clone())).collect()
            }
            Type::New(id) => self.fields_of(&self.program.new_types[id.index()].ty),
            _ => Vec::new(),
        }
    }

    /// Returns the place of a field; that of the value for parts of tuples.
    fn field_span(&self, ty: &Type, field: usize, value: Span) -> Span {
        match ty {
            Type::Struct(id, _) => {
                self.program.structs[id.index()].fields.get(field).map_or(value, |f| f.span)
            }
            _ => value,
        }
    }

    /// True if a stack of this (substituted) type has a `nextIndex`, unlike other arrays.
    pub(crate) fn is_header(&self, element: &Type) -> bool {
        matches!(self.struct_kind(element), Some(StructKind::Header | StructKind::HeaderUnion))
    }

    /// Returns the kind of struct that a (substituted) type is; tuples count as structs.
    pub(crate) fn struct_kind(&self, ty: &Type) -> Option<StructKind> {
        match ty {
            Type::Struct(id, _) => Some(self.program.structs[id.index()].kind),
            Type::Tuple(_) => Some(StructKind::Struct),
            Type::New(id) => self.struct_kind(&self.program.new_types[id.index()].ty),
            _ => None,
        }
    }

    /// Returns the representation of a type: without `type` and enum.
    pub fn underlying(&self, ty: &Type) -> Type {
        match ty {
            Type::New(id) => self.underlying(&self.program.new_types[id.index()].ty),
            Type::Enum(id) => match &self.program.enums[id.index()].underlying {
                Some(underlying) => self.underlying(underlying),
                // An enum without an underlying type is represented by its member's index.
                None => Type::Bit(32),
            },
            Type::Error | Type::ActionEnum(_) => Type::Bit(32),
            Type::Bool => Type::Bit(1),
            _ => ty.clone(),
        }
    }

    /// Returns the width of a (substituted) scalar type.
    pub fn scalar_width(&self, ty: &Type) -> Option<u32> {
        match self.underlying(ty) {
            Type::Bit(w) | Type::Int(w) if w > 0 => Some(w),
            _ => None,
        }
    }

    /// True for `bit<0>`. Its only value is 0, so it is a struct without parts here and does not exist in the IR.
    pub fn is_zero_width(&self, ty: &Type) -> bool {
        self.underlying(ty) == Type::Bit(0)
    }

    /// True if a (substituted) type is or contains `bit<0>`.
    pub fn has_zero_width(&self, ty: &Type) -> bool {
        match self.underlying(ty) {
            Type::Bit(0) => true,
            Type::Stack(element, _) => self.has_zero_width(&element),
            t => self.fields_of(&t).iter().any(|(_, t)| self.has_zero_width(t)),
        }
    }

    /// True if operators on it are signed.
    pub fn is_signed(&self, ty: &Type) -> bool {
        matches!(self.underlying(ty), Type::Int(_))
    }

    /// Returns the number of bits of a (substituted) type on the wire, if it is fixed.
    pub fn wire_width(&self, ty: &Type) -> Option<u32> {
        if let Some(w) = self.scalar_width(ty) {
            return Some(w);
        }
        match self.underlying(ty) {
            Type::Bit(0) => Some(0),
            Type::Stack(element, n) => self.wire_width(&element)?.checked_mul(n),
            t @ (Type::Struct(..) | Type::Tuple(_))
                if self.struct_kind(&t) != Some(StructKind::HeaderUnion) =>
            {
                self.fields_of(&t).iter().try_fold(0u32, |sum, (_, t)| sum.checked_add(self.wire_width(t)?))
            }
            _ => None,
        }
    }

    /// Returns the name of a member of an enum without an underlying type.
    pub fn enum_member(&self, ty: &Type, index: &num_bigint::BigUint) -> Option<&str> {
        match ty {
            Type::Enum(id) => {
                let members = &self.program.enums[id.index()].members;
                members.get(usize::try_from(index).ok()?).map(|(name, _)| name.as_str())
            }
            Type::New(id) => self.enum_member(&self.program.new_types[id.index()].ty, index),
            _ => None,
        }
    }

    /// Returns the numbers in an annotation's parentheses: literals, constants, and members of enums with an underlying
    /// type. `None` if there is anything else.
    pub fn annotation_numbers(&self, annotation: &Annotation) -> Option<Vec<BigInt>> {
        let AnnotationBody::Tokens(tokens) = &annotation.body else {
            return annotation.body.integer().map(|n| vec![n]);
        };
        let words = tokens.split(|t| t.text == "," && !t.is_string);
        let numbers = words.filter(|words| !words.is_empty()).map(|words| {
            let texts: Vec<&str> = words.iter().map(|t| t.text.as_str()).collect();
            match texts[..] {
                [constant] if self.program.constants.contains_key(constant) => {
                    Some(self.program.constants[constant].clone())
                }
                [_] => AnnotationBody::Tokens(words.to_vec()).integer(),
                [enumeration, ".", member] => {
                    let members = &self.program.enums.iter().find(|e| e.name == enumeration)?.members;
                    members.iter().find(|(name, _)| name == member).map(|(_, number)| number.clone())
                }
                _ => None,
            }
        });
        numbers.collect()
    }

    /// Creates storage for a value of a (substituted) type, called `name`.
    pub fn storage(&mut self, ty: &Type, name: &str, role: Role, span: Span) -> Lowered<Storage> {
        self.go_on()?;
        if let Some(width) = self.scalar_width(ty) {
            return Ok(Storage::Scalar(self.field(name, width, role.kind())));
        }
        match self.underlying(ty) {
            Type::Bit(0) => {
                self.grow();
                Ok(Storage::Struct([].into()))
            }
            Type::Varbit(width) if width > 0 => Ok(Storage::Varbit {
                value: self.field(name, width, role.kind()),
                length: self.field(&format!("{name}.$length$"), 32, role.kind()),
            }),
            Type::Stack(element, n) => {
                let mut elements = Vec::new();
                for i in 0..n {
                    elements.push(self.storage(&element, &format!("{name}[{i}]"), role, span)?);
                }
                self.note_array(&elements);
                if !self.is_header(&element) {
                    return Ok(Storage::Struct(elements.into()));
                }
                let next = self.field(&format!("{name}.$next$"), 32, role.kind());
                Ok(Storage::Stack { elements: elements.into(), next })
            }
            t @ (Type::Struct(..) | Type::Tuple(_)) => {
                let kind = self.struct_kind(&t).unwrap_or(StructKind::Struct);
                if kind == StructKind::Header {
                    return self.header_storage(&t, name, role, span);
                }
                self.grow();
                let mut parts = Vec::new();
                for (i, (field, ty)) in self.fields_of(&t).into_iter().enumerate() {
                    let span = self.field_span(&t, i, span);
                    parts.push(self.storage(&ty, &format!("{name}.{field}"), role, span)?);
                }
                if kind == StructKind::Struct {
                    return Ok(Storage::Struct(parts.into()));
                }
                let ids: Vec<HeaderId> = parts
                    .iter()
                    .filter_map(|p| match p {
                        Storage::Header { id, .. } => Some(*id),
                        _ => None,
                    })
                    .collect();
                for id in &ids {
                    self.siblings.insert(*id, ids.iter().copied().filter(|other| other != id).collect());
                }
                Ok(Storage::Union(parts.into()))
            }
            other => {
                let what = format!("a variable of type {}", self.program.type_text(&other));
                self.unsupported(span, what)
            }
        }
    }

    fn header_storage(&mut self, ty: &Type, name: &str, role: Role, span: Span) -> Lowered<Storage> {
        let id = HeaderId(self.ir.headers.len() as u32);
        let name = self.unique_name(Kind::Header, name);
        let valid = self.field(&format!("{name}.$valid$"), 1, FieldKind::Valid(id));
        self.ir.headers.push(ir::Header { name: name.clone(), valid, fields: Vec::new() });
        let mut fields = Vec::new();
        let mut wire = Vec::new();
        for (i, (field, declared)) in self.fields_of(ty).into_iter().enumerate() {
            let span = self.field_span(ty, i, span);
            fields.push(self.header_field(
                id,
                &declared,
                &format!("{name}.{field}"),
                role,
                &mut wire,
                span,
            )?);
        }
        self.ir.headers[id.index()].fields = wire;
        Ok(Storage::Header { id, valid, fields: fields.into() })
    }

    /// P4_16 "header types": fields are scalars, varbits, or structs and arrays of such.
    fn header_field(
        &mut self,
        id: HeaderId,
        ty: &Type,
        name: &str,
        role: Role,
        wire: &mut Vec<ir::HeaderField>,
        span: Span,
    ) -> Lowered<Storage> {
        self.go_on()?;
        if let Some(width) = self.scalar_width(ty) {
            let field = self.field(name, width, FieldKind::Header(id));
            wire.push(ir::HeaderField { field, varbit_length: None });
            return Ok(Storage::Scalar(field));
        }
        match self.underlying(ty) {
            Type::Bit(0) => {
                self.grow();
                Ok(Storage::Struct([].into()))
            }
            Type::Varbit(width) if width > 0 => {
                let value = self.field(name, width, FieldKind::Header(id));
                let length = self.field(&format!("{name}.$length$"), 32, role.kind());
                wire.push(ir::HeaderField { field: value, varbit_length: Some(length) });
                Ok(Storage::Varbit { value, length })
            }
            t if self.struct_kind(&t) == Some(StructKind::Struct) => {
                self.grow();
                let mut parts = Vec::new();
                for (i, (field, ty)) in self.fields_of(&t).into_iter().enumerate() {
                    let span = self.field_span(&t, i, span);
                    parts.push(self.header_field(id, &ty, &format!("{name}.{field}"), role, wire, span)?);
                }
                Ok(Storage::Struct(parts.into()))
            }
            Type::Stack(element, n) => {
                let mut parts = Vec::new();
                for i in 0..n {
                    parts.push(self.header_field(id, &element, &format!("{name}[{i}]"), role, wire, span)?);
                }
                self.note_array(&parts);
                Ok(Storage::Struct(parts.into()))
            }
            other => {
                let what = format!("a header field of type {}", self.program.type_text(&other));
                self.unsupported(span, what)
            }
        }
    }

    /// Returns the value of an uninitialised variable of a (substituted) type.
    pub fn zero(&mut self, ty: &Type, span: Span) -> Lowered<Value> {
        self.go_on()?;
        let zero = self.zero_value(ty, span)?;
        self.grow_expressions(zero.empty_parts());
        Ok(zero)
    }

    fn zero_value(&mut self, ty: &Type, span: Span) -> Lowered<Value> {
        if let Some(width) = self.scalar_width(ty) {
            return Ok(Value::Scalar(build::zero(width)));
        }
        match self.underlying(ty) {
            Type::Bit(0) => Ok(Value::Struct(Vec::new())),
            Type::Varbit(width) if width > 0 => {
                Ok(Value::Varbit { value: build::zero(width), length: build::zero(32) })
            }
            Type::Integer => Ok(Value::Integer(BigInt::ZERO)),
            Type::String => Ok(Value::Text(String::new())),
            Type::Void => Ok(Value::Void),
            Type::Stack(element, n) => {
                let is_header = self.is_header(&element);
                let element = self.zero_value(&element, span)?;
                if !is_header {
                    return Ok(Value::Struct(vec![element; n as usize]));
                }
                Ok(Value::Stack { elements: vec![element; n as usize], next: build::zero(32) })
            }
            t @ (Type::Struct(..) | Type::Tuple(_)) => {
                let kind = self.struct_kind(&t).unwrap_or(StructKind::Struct);
                let mut parts = Vec::new();
                for (_, ty) in self.fields_of(&t) {
                    parts.push(self.zero_value(&ty, span)?);
                }
                Ok(match kind {
                    StructKind::Struct => Value::Struct(parts),
                    StructKind::Header => Value::Header { valid: build::truth(false), fields: parts },
                    StructKind::HeaderUnion => Value::Union(parts),
                })
            }
            other => {
                let what = format!("a value of type {}", self.program.type_text(&other));
                self.unsupported(span, what)
            }
        }
    }

    /// Sets storage to 0 and its headers to invalid.
    pub(crate) fn reset(&mut self, storage: &Storage) {
        for field in storage.leaves() {
            self.set(field, build::zero(self.ir.width(field)));
        }
    }

    /// Returns the member of struct storage with this name.
    pub fn member<'s>(&self, ty: &Type, storage: &'s Storage, name: &str) -> Option<&'s Storage> {
        let index = self.fields_of(ty).iter().position(|(n, _)| n == name)?;
        storage.parts().get(index)
    }

    /// Returns the member of struct storage with this name, if it is a scalar.
    pub fn scalar_member(&self, ty: &Type, storage: &Storage, name: &str) -> Option<FieldId> {
        match self.member(ty, storage, name)? {
            Storage::Scalar(field) => Some(*field),
            _ => None,
        }
    }

    /// Returns the value as one expression of a (substituted) type; that of `bit<0>` is a 0 of width 1.
    pub(crate) fn scalar_of(&mut self, value: Value, ty: &Type, span: Span) -> Lowered<Expr> {
        match value {
            Value::Scalar(e) => Ok(e),
            _ if self.is_zero_width(ty) => Ok(build::zero(1)),
            Value::Integer(n) => {
                let width = self.scalar_width(ty).unwrap_or_else(|| (n.bits() as u32).max(1));
                Ok(Expr::constant(build::pattern(&n, width), width))
            }
            _ => {
                // Extern functions accept generic types of which they support only some.
                let what =
                    format!("a value of type `{}` where a number is needed", self.program.type_text(ty));
                self.unsupported(span, what)
            }
        }
    }
}
