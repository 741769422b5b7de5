//! Types and values as the control plane sees them (P4Runtime specification, "Representation of Arbitrary P4 Types" and
//! "User-defined types").

use bytes::Bytes;
use num_bigint::BigInt;
use num_traits::{One, Signed, ToPrimitive};
use p4jet_analysis::substitute;
use p4jet_analysis::typed::{NewTypeId, Program, Struct, StructId, Type};
use p4jet_syntax::ast::{Annotation, AnnotationBody, AnnotationToken, StructKind};
use p4jet_syntax::diagnostic::Diagnostic;
use p4jet_syntax::span::Span;

use crate::annotations::{self, shown};
use crate::proto::config::{
    BitstringType, DataType, EnumMember, HeaderMember, HeaderUnionMember, P4BitTypeSpec,
    P4BitstringLikeTypeSpec, P4BoolType, P4DataTypeSpec, P4EnumTypeSpec, P4ErrorType, P4ErrorTypeSpec,
    P4HeaderStackTypeSpec, P4HeaderTypeSpec, P4HeaderUnionStackTypeSpec, P4HeaderUnionTypeSpec,
    P4IntTypeSpec, P4NamedType, P4NewTypeSpec, P4NewTypeTranslation, P4SerializableEnumTypeSpec,
    P4StructTypeSpec, P4TupleTypeSpec, P4TypeInfo, P4VarbitTypeSpec, Representation, SdnString, SdnType,
    SerializableEnumMember, StructMember,
};

/// Returns a value as bytes, padded to a width in bits: negative values in two's complement.
pub fn padded(value: &BigInt, width: u32) -> Bytes {
    let value = match value.is_negative() {
        true => (BigInt::one() << width) + value,
        false => value.clone(),
    };
    let digits = value.to_biguint().unwrap_or_default().to_bytes_be();
    let length = (width as usize).div_ceil(8).max(1);
    let digits = &digits[digits.len().saturating_sub(length)..];
    let mut bytes = vec![0; length - digits.len()];
    bytes.extend_from_slice(digits);
    Bytes::from(bytes)
}

/// The contents of `@p4runtime_translation`.
pub struct Translation {
    uri: String,
    /// Bits; `None` for strings.
    width: Option<u32>,
}

/// Returns the translation of a `type`.
fn translation(annotations: &[Annotation]) -> Option<Translation> {
    let annotation = annotations::find(annotations, "p4runtime_translation")?;
    let AnnotationBody::Tokens(tokens) = &annotation.body else { return None };
    let uri = tokens.first()?.text.clone();
    let number = |token: &AnnotationToken| AnnotationBody::Tokens(vec![token.clone()]).integer();
    let width = tokens.iter().skip(1).find_map(number).and_then(|n| n.to_u32());
    Some(Translation { uri, width })
}

/// The types of a program.
pub struct Types<'a> {
    /// The program.
    pub program: &'a Program,
    /// The types that objects refer to; present once an object exists that could refer to one.
    pub info: Option<P4TypeInfo>,
    /// Errors for types that P4Info cannot express.
    pub errors: Vec<Diagnostic>,
}

impl Types<'_> {
    /// Returns the width in bits that the control plane sees: 0 for strings and errors. `None` if the type has none.
    pub fn width(&self, ty: &Type) -> Option<u32> {
        match ty {
            Type::Bit(0) => None,
            Type::Bit(w) | Type::Int(w) => Some(*w),
            Type::Bool => Some(1),
            Type::Error => Some(0),
            Type::Enum(id) => self.width(self.program.enums[id.index()].underlying.as_ref()?),
            Type::New(id) => match translation(&self.program.new_types[id.index()].annotations) {
                Some(translation) => Some(translation.width.unwrap_or(0)),
                None => self.bits(&self.program.new_types[id.index()].ty),
            },
            _ => None,
        }
    }

    /// Returns the width of the numbers that constraints compare: strings are compared as their numbers in the switch.
    pub fn compared_width(&self, ty: &Type) -> u32 {
        match (self.width(ty), ty) {
            (Some(0), Type::New(_)) => self.bits(ty).unwrap_or(0),
            (width, _) => width.unwrap_or(0),
        }
    }

    /// Returns the width in bits of the values in the switch.
    fn bits(&self, ty: &Type) -> Option<u32> {
        match ty {
            Type::New(id) => self.bits(&self.program.new_types[id.index()].ty),
            ty => self.width(ty),
        }
    }

    /// Returns the name of a `type`, and ensures that [`Self::info`] describes it.
    pub fn named(&mut self, ty: &Type, span: Span) -> Option<P4NamedType> {
        self.spec(ty, span);
        match ty {
            Type::New(id) => Some(named(self.new_type_name(*id))),
            _ => None,
        }
    }

    fn new_type_name(&self, id: NewTypeId) -> String {
        let new_type = &self.program.new_types[id.index()];
        annotations::name(&new_type.annotations, &new_type.name)
    }

    fn info(&mut self) -> &mut P4TypeInfo {
        self.info.get_or_insert_default()
    }

    /// Returns the description of a type, and ensures that [`Self::info`] has those it refers to.
    pub fn spec(&mut self, ty: &Type, span: Span) -> P4DataTypeSpec {
        let program = self.program;
        let spec = match ty {
            Type::Bit(_) | Type::Int(_) | Type::Varbit(_) => DataType::Bitstring(bitstring(ty)),
            Type::Bool => DataType::Bool(P4BoolType {}),
            Type::Error => {
                let members = program.errors.clone();
                self.info().error.get_or_insert(P4ErrorTypeSpec { members });
                DataType::Error(P4ErrorType {})
            }
            Type::Tuple(types) => {
                let members = types.iter().map(|t| self.spec(t, span)).collect();
                DataType::Tuple(P4TupleTypeSpec { members })
            }
            Type::Enum(id) => {
                let declared = &program.enums[id.index()];
                let name = annotations::name(&declared.annotations, &declared.name);
                match declared.underlying {
                    None => {
                        let member = |(name, _): &(String, BigInt)| EnumMember {
                            name: name.clone(),
                            ..EnumMember::default()
                        };
                        let members = declared.members.iter().map(member).collect();
                        let spec = P4EnumTypeSpec { members, ..P4EnumTypeSpec::default() };
                        self.info().enums.entry(name.clone()).or_insert(spec);
                        DataType::Enum(named(name))
                    }
                    Some(ref underlying) => {
                        let width = self.width(underlying).unwrap_or(0);
                        let member = |(name, value): &(String, BigInt)| SerializableEnumMember {
                            name: name.clone(),
                            value: padded(value, width),
                            ..SerializableEnumMember::default()
                        };
                        let spec = P4SerializableEnumTypeSpec {
                            underlying_type: Some(P4BitTypeSpec { bitwidth: width as i32 }),
                            members: declared.members.iter().map(member).collect(),
                            ..P4SerializableEnumTypeSpec::default()
                        };
                        self.info().serializable_enums.entry(name.clone()).or_insert(spec);
                        DataType::SerializableEnum(named(name))
                    }
                }
            }
            Type::New(id) => {
                let name = self.new_type_name(*id);
                self.new_type(*id, &name, span);
                DataType::NewType(named(name))
            }
            Type::Struct(id, args) => {
                let declared = &program.structs[id.index()];
                let name =
                    annotations::name(&declared.annotations, &specialised(program, &declared.name, args));
                self.aggregate(*id, args, &name, span);
                match declared.kind {
                    StructKind::Struct => DataType::Struct(named(name)),
                    StructKind::Header => DataType::Header(named(name)),
                    StructKind::HeaderUnion => DataType::HeaderUnion(named(name)),
                }
            }
            Type::Stack(element, size) => {
                let size = *size as i32;
                match self.spec(element, span).type_spec {
                    Some(DataType::Header(header)) => {
                        DataType::HeaderStack(P4HeaderStackTypeSpec { header: Some(header), size })
                    }
                    Some(DataType::HeaderUnion(union)) => {
                        DataType::HeaderUnionStack(P4HeaderUnionStackTypeSpec {
                            header_union: Some(union),
                            size,
                        })
                    }
                    _ => {
                        return self
                            .inexpressible(span, "an array of anything but headers and header unions");
                    }
                }
            }
            _ => return self.inexpressible(span, "a value of this type"),
        };
        P4DataTypeSpec { type_spec: Some(spec) }
    }

    fn inexpressible(&mut self, span: Span, what: &str) -> P4DataTypeSpec {
        self.errors.push(
            Diagnostic::unsupported(span, format_args!("{what} in P4Info")).note(
                "P4Runtime has `bit`, `int`, `varbit`, `bool`, `error`, enums, `type`s, structs, headers, header unions, tuples \
                 and stacks",
            ),
        );
        P4DataTypeSpec::default()
    }

    fn new_type(&mut self, id: NewTypeId, name: &str, span: Span) {
        if self.info().new_types.contains_key(name) {
            return;
        }
        let program = self.program;
        let declared = &program.new_types[id.index()];
        let mut underlying = &declared.ty;
        while let Type::New(inner) = underlying {
            underlying = &program.new_types[inner.index()].ty;
        }
        let spec = self.spec(underlying, span);
        let representation = match translation(&declared.annotations) {
            None => Representation::OriginalType(spec),
            Some(translation) => {
                if !matches!(underlying, Type::Bit(_)) {
                    let text =
                        format!("`@p4runtime_translation` of `{name}`, which does not consist of `bit<W>`");
                    let place = annotations::find(&declared.annotations, "p4runtime_translation")
                        .map_or(span, |a| a.span);
                    self.errors.push(
                        Diagnostic::error("annotation", place, text)
                            .note("P4Runtime translates only types that are `bit<W>` in the switch"),
                    );
                }
                let sdn_type = Some(match translation.width {
                    Some(width) => SdnType::SdnBitwidth(width as i32),
                    None => SdnType::SdnString(SdnString {}),
                });
                Representation::TranslatedType(P4NewTypeTranslation { uri: translation.uri, sdn_type })
            }
        };
        let shown = shown(program, &declared.annotations, &["p4runtime_translation"], &mut self.errors);
        let spec = P4NewTypeSpec {
            representation: Some(representation),
            annotations: shown.texts,
            structured_annotations: shown.structured,
            ..P4NewTypeSpec::default()
        };
        self.info().new_types.insert(name.to_string(), spec);
    }

    /// Describes a struct, header or header union.
    fn aggregate(&mut self, id: StructId, args: &[Type], name: &str, span: Span) {
        let program = self.program;
        let declared = &program.structs[id.index()];
        let field_type = |ty: &Type| substitute(ty, &declared.type_params, args);
        match declared.kind {
            StructKind::Struct => {
                if self.info().structs.contains_key(name) {
                    return;
                }
                let mut members = Vec::new();
                for field in &declared.fields {
                    let type_spec = Some(self.spec(&field_type(&field.ty), span));
                    members.push(StructMember {
                        name: annotations::name(&field.annotations, &field.name),
                        type_spec,
                    });
                }
                let spec = P4StructTypeSpec { members, ..P4StructTypeSpec::default() };
                self.info().structs.insert(name.to_string(), spec);
            }
            StructKind::Header => {
                if self.info().headers.contains_key(name) {
                    return;
                }
                let mut members = Vec::new();
                for field in flat_fields(program, declared, args) {
                    let type_spec = match self.spec(&field.ty, span).type_spec {
                        Some(DataType::Bitstring(bits)) => Some(bits),
                        _ => {
                            let what = format!(
                                "field `{}` of header `{name}`, which is not `bit`, `int` or `varbit`,",
                                field.name
                            );
                            self.errors.push(Diagnostic::unsupported(span, format_args!("{what} in P4Info")));
                            None
                        }
                    };
                    members.push(HeaderMember { name: field.name, type_spec });
                }
                let spec = P4HeaderTypeSpec { members, ..P4HeaderTypeSpec::default() };
                self.info().headers.insert(name.to_string(), spec);
            }
            StructKind::HeaderUnion => {
                if self.info().header_unions.contains_key(name) {
                    return;
                }
                let mut members = Vec::new();
                for field in &declared.fields {
                    let header = match self.spec(&field_type(&field.ty), span).type_spec {
                        Some(DataType::Header(header)) => Some(header),
                        _ => None,
                    };
                    members.push(HeaderUnionMember {
                        name: annotations::name(&field.annotations, &field.name),
                        header,
                    });
                }
                let spec = P4HeaderUnionTypeSpec { members, ..P4HeaderUnionTypeSpec::default() };
                self.info().header_unions.insert(name.to_string(), spec);
            }
        }
    }
}

/// A field of a header, or of a struct in it.
pub struct FlatField<'a> {
    /// Name: `f`, or `s.f` in a struct.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// Its annotations, then those of the enclosing structs that it lacks.
    pub annotations: Vec<&'a Annotation>,
}

/// Returns the fields of a header, with the fields of structs in it one by one.
pub fn flat_fields<'a>(program: &'a Program, header: &'a Struct, args: &[Type]) -> Vec<FlatField<'a>> {
    let mut out = Vec::new();
    flatten(program, header, args, "", &[], &mut out);
    out
}

fn flatten<'a>(
    program: &'a Program,
    of: &'a Struct,
    args: &[Type],
    path: &str,
    outer: &[&'a Annotation],
    out: &mut Vec<FlatField<'a>>,
) {
    for field in &of.fields {
        let ty = substitute(&field.ty, &of.type_params, args);
        let mut all: Vec<&Annotation> = field.annotations.iter().collect();
        let more = outer.iter().filter(|a| !field.annotations.iter().any(|own| own.name.text == a.name.text));
        all.extend(more);
        let own_name = annotations::name(&field.annotations, &field.name);
        match &ty {
            Type::Struct(id, args) if program.structs[id.index()].kind == StructKind::Struct => {
                let path = format!("{path}{}.", field.name);
                flatten(program, &program.structs[id.index()], args, &path, &all, out);
            }
            _ => {
                let name = if path.is_empty() { own_name } else { format!("{path}{}", field.name) };
                out.push(FlatField { name, ty, annotations: all });
            }
        }
    }
}

/// Returns the name of a generic type with its arguments, as p4c makes it: `s_bit32` for `s<bit<32>>`.
fn specialised(program: &Program, name: &str, args: &[Type]) -> String {
    let mut out = name.to_string();
    for arg in args {
        out.push('_');
        out.push_str(&match arg {
            Type::Bool => "bool".to_string(),
            Type::Error => "error".to_string(),
            Type::Bit(w) => format!("bit{w}"),
            Type::Int(w) => format!("int{w}"),
            Type::Varbit(w) => format!("varbit{w}"),
            Type::Struct(id, args) => specialised(program, &program.structs[id.index()].name, args),
            Type::Enum(id) => program.enums[id.index()].name.clone(),
            Type::New(id) => program.new_types[id.index()].name.clone(),
            Type::Stack(element, size) => {
                specialised(program, "", &[(**element).clone()]) + &size.to_string()
            }
            Type::Tuple(types) => specialised(program, "tuple", types),
            _ => "type".to_string(),
        });
    }
    out
}

fn named(name: String) -> P4NamedType {
    P4NamedType { name }
}

fn bitstring(ty: &Type) -> P4BitstringLikeTypeSpec {
    let type_spec = match ty {
        Type::Bit(w) => Some(BitstringType::Bit(P4BitTypeSpec { bitwidth: *w as i32 })),
        Type::Int(w) => Some(BitstringType::Int(P4IntTypeSpec { bitwidth: *w as i32 })),
        Type::Varbit(w) => Some(BitstringType::Varbit(P4VarbitTypeSpec { max_bitwidth: *w as i32 })),
        _ => None,
    };
    P4BitstringLikeTypeSpec { type_spec, ..P4BitstringLikeTypeSpec::default() }
}
