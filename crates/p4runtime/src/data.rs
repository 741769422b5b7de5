//! Converts values of any type (`P4Data`) to the bits of registers and digests, and back.
//!
//! The bits are those of the members in order of declaration, the first one highest.

use crate::refusal::{Reason, Refusal, Result, cut};
use crate::value::{By, Field, Outside, Strings, bad_value, number, ones, shortest};
use num_bigint::BigUint;
use num_traits::Zero;
use p4jet_ir::Program;
use p4jet_p4info::proto::config::{
    BitstringType, DataType, EnumMember, HeaderMember, P4DataTypeSpec, P4TypeInfo, Representation, SdnType,
};
use p4jet_p4info::proto::v1::{DataValue, P4Data, P4Header, P4StructLike};
use std::collections::HashMap;

/// Maximum nesting of types.
pub(crate) const DEPTH_MAX: u32 = 64;
/// Maximum number of values in a cell of a register or in a digest: members that have no members of their own.
pub(crate) const VALUES_MAX: u64 = 65_536;
/// Bytes of a type's name in a message.
const NAME_BYTES: usize = 64;
/// Maximum width of a value, in bits.
const WIDTH_MAX: u32 = 1 << 20;

/// The types of a pipeline.
#[derive(Clone, Copy)]
pub(crate) struct Types<'a> {
    pub info: &'a P4TypeInfo,
    /// The program's widths of translated types, and its error codes.
    pub program: &'a Program,
    /// The URIs of types that are translated to strings; the index is the number of the space.
    pub uris: &'a [String],
    pub strings: &'a Strings,
    /// True if headers have a validity bit. Without it, they are valid.
    pub has_validity: bool,
}

/// The layout of a type.
enum Bits<'a> {
    Unsigned(u32),
    Signed(u32),
    Bool,
    /// An enum with a representation.
    Enum(u32),
    /// The members of a struct, with their names.
    Struct(Vec<(&'a str, &'a P4DataTypeSpec)>),
    Tuple(Vec<&'a P4DataTypeSpec>),
    /// The widths of a header's fields, and whether a field is signed.
    Header(Vec<(u32, bool)>),
    /// An enum without representation: the names of its members, numbered in this order.
    Named(&'a [EnumMember]),
    Error,
    Translated(Field),
}

/// The width of an enum without representation, and of an error.
pub(crate) const ENUM_BITS: u32 = 32;

fn bits_of<'a>(spec: &'a P4DataTypeSpec, types: &Types<'a>, depth: u32) -> Option<Bits<'a>> {
    if depth == 0 {
        return None;
    }
    let info = types.info;
    let width = |bits: i32| u32::try_from(bits).ok().filter(|bits| *bits <= WIDTH_MAX);
    match spec.type_spec.as_ref()? {
        DataType::Bitstring(string) => match string.type_spec.as_ref()? {
            BitstringType::Bit(bit) => width(bit.bitwidth).map(Bits::Unsigned),
            BitstringType::Int(int) => width(int.bitwidth).map(Bits::Signed),
            BitstringType::Varbit(_) => None,
        },
        DataType::Bool(_) => Some(Bits::Bool),
        DataType::Tuple(tuple) => Some(Bits::Tuple(tuple.members.iter().collect())),
        DataType::Struct(named) => {
            let members = info.structs.get(&named.name)?.members.iter();
            let members = members.map(|member| Some((member.name.as_str(), member.type_spec.as_ref()?)));
            Some(Bits::Struct(members.collect::<Option<_>>()?))
        }
        DataType::SerializableEnum(named) => {
            let declared = info.serializable_enums.get(&named.name)?;
            width(declared.underlying_type.as_ref()?.bitwidth).map(Bits::Enum)
        }
        DataType::NewType(named) => match info.new_types.get(&named.name)?.representation.as_ref()? {
            Representation::OriginalType(original) => bits_of(original, types, depth - 1),
            Representation::TranslatedType(translated) => {
                let known = &types.program.translated;
                let width = known.iter().find(|(name, _)| *name == named.name).map(|(_, width)| *width)?;
                let outside = match translated.sdn_type.as_ref()? {
                    SdnType::SdnBitwidth(bits) => Outside::Bits((*bits).max(0) as u32),
                    SdnType::SdnString(_) => {
                        Outside::String(types.uris.iter().position(|uri| *uri == translated.uri)?)
                    }
                };
                Some(Bits::Translated(Field { id: 0, name: named.name.clone(), width, outside }))
            }
        },
        DataType::Header(named) => {
            let field = |member: &HeaderMember| match member.type_spec.as_ref()?.type_spec.as_ref()? {
                BitstringType::Bit(bit) => Some((width(bit.bitwidth)?, false)),
                BitstringType::Int(int) => Some((width(int.bitwidth)?, true)),
                BitstringType::Varbit(_) => None,
            };
            let fields = info.headers.get(&named.name)?.members.iter().map(field);
            Some(Bits::Header(fields.collect::<Option<_>>()?))
        }
        DataType::Enum(named) => Some(Bits::Named(&info.enums.get(&named.name)?.members)),
        DataType::Error(_) => Some(Bits::Error),
        DataType::HeaderUnion(_) | DataType::HeaderStack(_) | DataType::HeaderUnionStack(_) => None,
    }
}

/// The size of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    /// The number of bits; `None` if values of this type cannot be read and written.
    pub bits: Option<u64>,
    /// The number of values that have no members.
    pub values: u64,
    /// The number of types that contain each other, with this one.
    depth: u32,
}

/// The size of a type that is not described.
const UNKNOWN: Size = Size { bits: None, values: 1, depth: 1 };

/// Measures types. It measures each named type once, so that a type with many values takes no longer than its description.
pub(crate) struct Sizes<'a> {
    types: Types<'a>,
    /// The sizes of structs, headers and `type`s, by kind and name.
    known: HashMap<(&'static str, &'a str), std::result::Result<Size, String>>,
}

impl<'a> Sizes<'a> {
    pub fn new(types: Types<'a>) -> Sizes<'a> {
        Sizes { types, known: HashMap::new() }
    }

    /// The size of a type.
    ///
    /// # Errors
    /// A type contains itself, or the types are nested too deeply.
    pub fn of(&mut self, spec: &'a P4DataTypeSpec) -> std::result::Result<Size, String> {
        self.within(spec, DEPTH_MAX)
    }

    fn within(&mut self, spec: &'a P4DataTypeSpec, depth: u32) -> std::result::Result<Size, String> {
        let too_deep = || Err(format!("its types are nested more than {DEPTH_MAX} deep, which is the limit"));
        if depth == 0 {
            return too_deep();
        }
        let (info, inner) = (self.types.info, depth - 1);
        let size = match spec.type_spec.as_ref() {
            Some(DataType::Tuple(tuple)) => self.sum(tuple.members.iter().map(Some), inner)?,
            Some(DataType::Struct(named)) => {
                self.once("struct", &named.name, |sizes| match info.structs.get(&named.name) {
                    Some(declared) => {
                        sizes.sum(declared.members.iter().map(|member| member.type_spec.as_ref()), inner)
                    }
                    None => Ok(UNKNOWN),
                })?
            }
            Some(DataType::NewType(named)) => self.once("type", &named.name, |sizes| {
                match info.new_types.get(&named.name).and_then(|declared| declared.representation.as_ref()) {
                    Some(Representation::OriginalType(original)) => sizes.sum([Some(original)], inner),
                    _ => Ok(sizes.plain(spec)),
                }
            })?,
            Some(DataType::Header(named)) => {
                self.once("header", &named.name, |sizes| Ok(sizes.plain(spec)))?
            }
            _ => self.plain(spec),
        };
        if size.depth > depth { too_deep() } else { Ok(size) }
    }

    /// The size of a named type, which `measure` determines when it is first needed.
    fn once(
        &mut self,
        kind: &'static str,
        name: &'a str,
        measure: impl FnOnce(&mut Self) -> std::result::Result<Size, String>,
    ) -> std::result::Result<Size, String> {
        if let Some(known) = self.known.get(&(kind, name)) {
            return known.clone();
        }
        // This is what its own members find.
        let cycle = Err(format!("the {kind} `{}` contains itself", cut(name, NAME_BYTES)));
        self.known.insert((kind, name), cycle);
        let size = measure(self);
        self.known.insert((kind, name), size.clone());
        size
    }

    /// The size of a type with these members.
    fn sum(
        &mut self,
        members: impl IntoIterator<Item = Option<&'a P4DataTypeSpec>>,
        depth: u32,
    ) -> std::result::Result<Size, String> {
        let mut sum = Size { bits: Some(0), values: 0, depth: 0 };
        for member in members {
            let size = match member {
                Some(member) => self.within(member, depth)?,
                None => UNKNOWN,
            };
            sum.bits = sum.bits.zip(size.bits).map(|(sum, bits)| sum.saturating_add(bits));
            sum.values = sum.values.saturating_add(size.values);
            sum.depth = sum.depth.max(size.depth);
        }
        Ok(Size { depth: sum.depth + 1, ..sum })
    }

    /// The size of a type without other types as members.
    fn plain(&self, spec: &P4DataTypeSpec) -> Size {
        let (bits, values) = match bits_of(spec, &self.types, 1) {
            None => (None, 1),
            Some(Bits::Header(fields)) => {
                let bits = fields.iter().map(|(width, _)| u64::from(*width)).sum::<u64>();
                (Some(bits + u64::from(self.types.has_validity)), fields.len() as u64)
            }
            Some(_) => (width_within(spec, &self.types, 1).map(u64::from), 1),
        };
        Size { bits, values, depth: 1 }
    }
}

fn width_within(spec: &P4DataTypeSpec, types: &Types<'_>, depth: u32) -> Option<u32> {
    let sum = |parts: Vec<&P4DataTypeSpec>| {
        parts.into_iter().try_fold(0u32, |sum, part| {
            sum.checked_add(width_within(part, types, depth - 1)?).filter(|sum| *sum <= WIDTH_MAX)
        })
    };
    match bits_of(spec, types, depth)? {
        Bits::Unsigned(width) | Bits::Signed(width) | Bits::Enum(width) => Some(width),
        Bits::Bool => Some(1),
        Bits::Named(_) | Bits::Error => Some(ENUM_BITS),
        Bits::Translated(field) => Some(field.width),
        Bits::Header(fields) => {
            let valid = u32::from(types.has_validity);
            fields.iter().try_fold(valid, |sum, (width, _)| sum.checked_add(*width))
        }
        Bits::Struct(parts) => sum(parts.into_iter().map(|(_, part)| part).collect()),
        Bits::Tuple(parts) => sum(parts),
    }
}

fn unsupported() -> Refusal {
    Refusal::unsupported("values of this type are not supported: varbits, header unions and stacks")
}

/// The bits of a value of this type.
pub(crate) fn read(spec: &P4DataTypeSpec, types: &Types<'_>, data: &P4Data) -> Result<BigUint> {
    read_within(spec, types, data, DEPTH_MAX)
}

fn read_within(spec: &P4DataTypeSpec, types: &Types<'_>, data: &P4Data, depth: u32) -> Result<BigUint> {
    let bits = bits_of(spec, types, depth).ok_or_else(unsupported)?;
    let parts = |parts: &[&P4DataTypeSpec], found: &P4StructLike| {
        if found.members.len() != parts.len() {
            let (found, expected) = (found.members.len(), parts.len());
            let why = format!("the value has {found} members, expected {expected}");
            return Err(Refusal::invalid(Reason::Value, why));
        }
        parts.iter().zip(&found.members).try_fold(BigUint::zero(), |high, (part, member)| {
            let width = width_within(part, types, depth - 1).ok_or_else(unsupported)?;
            Ok((high << width) | read_within(part, types, member, depth - 1)?)
        })
    };
    match (bits, &data.data) {
        (Bits::Unsigned(width), Some(DataValue::Bitstring(bytes)))
        | (Bits::Enum(width), Some(DataValue::EnumValue(bytes))) => {
            number(bytes, width).map_err(|why| bad_value(bytes, width, why))
        }
        (Bits::Signed(width), Some(DataValue::Bitstring(bytes))) => signed(bytes, width),
        (Bits::Translated(field), Some(DataValue::Bitstring(bytes))) => {
            types.strings.read(&field, bytes, By::Update)
        }
        (Bits::Named(members), Some(DataValue::Enum(found))) => {
            code_of(found, members.iter().map(|member| &member.name))
        }
        (Bits::Error, Some(DataValue::Error(found))) => code_of(found, types.program.errors.iter()),
        (Bits::Header(fields), Some(DataValue::Header(found))) => header(&fields, found, types.has_validity),
        (Bits::Bool, Some(DataValue::Bool(value))) => Ok(BigUint::from(*value)),
        (Bits::Struct(expected), Some(DataValue::Struct(found))) => {
            parts(&expected.into_iter().map(|(_, part)| part).collect::<Vec<_>>(), found)
        }
        (Bits::Tuple(expected), Some(DataValue::Tuple(found))) => parts(&expected, found),
        (bits, found) => {
            let expected = match bits {
                Bits::Unsigned(_) | Bits::Signed(_) | Bits::Translated(_) => "`bitstring`",
                Bits::Named(_) => "`enum`",
                Bits::Error => "`error`",
                Bits::Header(_) => "`header`",
                Bits::Bool => "`bool`",
                Bits::Enum(_) => "`enum_value`",
                Bits::Struct(_) => "`struct`",
                Bits::Tuple(_) => "`tuple`",
            };
            let found = if found.is_some() { "a value of another kind" } else { "no value" };
            Err(Refusal::invalid(Reason::Value, format!("found {found}, expected {expected}")))
        }
    }
}

/// The code of a name: its index among all names.
fn code_of<'a>(found: &str, mut names: impl Iterator<Item = &'a String>) -> Result<BigUint> {
    match names.position(|name| name == found) {
        Some(code) => Ok(BigUint::from(code)),
        None => Err(Refusal::invalid(Reason::Value, format!("there is no member `{found}`"))),
    }
}

/// The name of a code; empty if the program has set another number.
fn name_of<'a>(code: &BigUint, mut names: impl Iterator<Item = &'a String>) -> String {
    let code = usize::try_from(code).ok();
    code.and_then(|code| names.nth(code)).map_or_else(String::new, String::clone)
}

/// Parses a header to its bits. G-21: an invalid one has no fields.
fn header(fields: &[(u32, bool)], found: &P4Header, has_validity: bool) -> Result<BigUint> {
    let wanted = if found.is_valid { fields.len() } else { 0 };
    if found.bitstrings.len() != wanted {
        let found = found.bitstrings.len();
        let why = format!("the header has {found} fields, expected {wanted}");
        return Err(Refusal::invalid(Reason::Value, why));
    }
    let first = BigUint::from(has_validity && found.is_valid);
    fields.iter().enumerate().try_fold(first, |high, (n, (width, is_signed))| {
        let value = match found.bitstrings.get(n) {
            None => BigUint::ZERO,
            Some(bytes) if *is_signed => signed(bytes, *width)?,
            Some(bytes) => number(bytes, *width).map_err(|why| bad_value(bytes, *width, why))?,
        };
        Ok((high << *width) | value)
    })
}

/// Parses a number in two's complement to its bits.
fn signed(bytes: &[u8], width: u32) -> Result<BigUint> {
    let (Some(first), false) = (bytes.first(), width == 0) else {
        return Err(bad_value(bytes, width, "does not fit"));
    };
    let is_negative = first & 0x80 != 0;
    let value = num_bigint::BigInt::from_signed_bytes_be(bytes);
    // The largest magnitude has one bit less than the type.
    let fits = match is_negative {
        true => (-(value.clone() + 1u32)).bits() < u64::from(width),
        false => value.bits() < u64::from(width),
    };
    if !fits {
        return Err(bad_value(bytes, width, "does not fit in two's complement"));
    }
    let modulus = num_bigint::BigInt::from(1u32) << width;
    let bits = if is_negative { value + modulus } else { value };
    bits.to_biguint().ok_or_else(|| bad_value(bytes, width, "does not fit"))
}

/// Converts bits to a value of this type.
pub(crate) fn show(spec: &P4DataTypeSpec, types: &Types<'_>, bits: &BigUint) -> Result<P4Data> {
    show_within(spec, types, bits, DEPTH_MAX)
}

fn show_within(spec: &P4DataTypeSpec, types: &Types<'_>, value: &BigUint, depth: u32) -> Result<P4Data> {
    let parts = |parts: &[&P4DataTypeSpec]| -> Result<P4StructLike> {
        let widths = parts.iter().map(|part| width_within(part, types, depth - 1).ok_or_else(unsupported));
        let widths = widths.collect::<Result<Vec<u32>>>()?;
        let mut below: u32 = widths.iter().sum();
        let members = parts.iter().zip(widths).map(|(part, width)| {
            below -= width;
            show_within(part, types, &((value >> below) & ones(width)), depth - 1)
        });
        Ok(P4StructLike { members: members.collect::<Result<_>>()? })
    };
    let data = match bits_of(spec, types, depth).ok_or_else(unsupported)? {
        Bits::Unsigned(_) => DataValue::Bitstring(shortest(value)),
        Bits::Enum(_) => DataValue::EnumValue(shortest(value)),
        Bits::Signed(width) => DataValue::Bitstring(show_signed(value, width)),
        Bits::Translated(field) => DataValue::Bitstring(types.strings.show(&field, value)),
        Bits::Named(members) => DataValue::Enum(name_of(value, members.iter().map(|member| &member.name))),
        Bits::Error => DataValue::Error(name_of(value, types.program.errors.iter())),
        Bits::Header(fields) => {
            let mut below: u32 = fields.iter().map(|(width, _)| width).sum();
            let is_valid = !types.has_validity || value.bit(below.into());
            let mut bitstrings = Vec::new();
            for (width, is_signed) in fields.iter().filter(|_| is_valid) {
                below -= width;
                let value = (value >> below) & ones(*width);
                bitstrings.push(if *is_signed { show_signed(&value, *width) } else { shortest(&value) });
            }
            DataValue::Header(P4Header { is_valid, bitstrings })
        }
        Bits::Bool => DataValue::Bool(!value.is_zero()),
        Bits::Struct(members) => {
            DataValue::Struct(parts(&members.into_iter().map(|(_, part)| part).collect::<Vec<_>>())?)
        }
        Bits::Tuple(members) => DataValue::Tuple(parts(&members)?),
    };
    Ok(P4Data { data: Some(data) })
}

/// A number in two's complement, in its shortest form.
fn show_signed(value: &BigUint, width: u32) -> bytes::Bytes {
    let is_negative = width > 0 && value.bit(u64::from(width) - 1);
    let value = num_bigint::BigInt::from(value.clone());
    let modulus = num_bigint::BigInt::from(1u32) << width;
    let value = if is_negative { value - modulus } else { value };
    value.to_signed_bytes_be().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use p4jet_p4info::proto::config::{
        P4BitTypeSpec, P4BitstringLikeTypeSpec, P4BoolType, P4HeaderTypeSpec, P4IntTypeSpec, P4NamedType,
        P4StructTypeSpec, StructMember,
    };

    fn string(of: BitstringType) -> P4DataTypeSpec {
        let like = P4BitstringLikeTypeSpec { type_spec: Some(of), ..P4BitstringLikeTypeSpec::default() };
        P4DataTypeSpec { type_spec: Some(DataType::Bitstring(like)) }
    }

    fn int(bitwidth: i32) -> P4DataTypeSpec {
        string(BitstringType::Int(P4IntTypeSpec { bitwidth }))
    }

    fn bytes(bytes: &[u8]) -> P4Data {
        P4Data { data: Some(DataValue::Bitstring(bytes.to_vec().into())) }
    }

    /// Calls `then` with types, without a program.
    fn with<T>(info: &P4TypeInfo, then: impl FnOnce(&Types<'_>) -> T) -> T {
        let (program, strings) = (Program::default(), Strings::default());
        then(&Types { info, program: &program, uris: &[], strings: &strings, has_validity: true })
    }

    fn width(spec: &P4DataTypeSpec, types: &Types<'_>) -> Option<u64> {
        Sizes::new(*types).of(spec).unwrap().bits
    }

    #[test]
    fn g_14_signed_numbers_are_sign_extended() {
        let types = P4TypeInfo::default();
        let read = |width, data: &[u8]| {
            with(&types, |types| read(&int(width), types, &bytes(data)).ok())
                .map(|v| u64::try_from(&v).unwrap())
        };
        assert_eq!(read(8, &[0x9d]), Some(0x9d));
        assert_eq!(read(8, &[0xff, 0x9d]), Some(0x9d));
        assert_eq!(read(8, &[0x00, 0x9d]), None);
        assert_eq!(read(12, &[0xfd, 0x1d]), Some(0xd1d));
        assert_eq!(read(12, &[0x8d, 0x1d]), None);
        assert_eq!(read(8, &[0x80]), Some(0x80));
        assert_eq!(read(8, &[0x7f]), Some(0x7f));
        assert_eq!(read(8, &[]), None);
        for (value, shown) in [(0x80u32, &[0x80u8][..]), (0x7f, &[0x7f]), (0xff, &[0xff]), (0, &[0])] {
            assert_eq!(with(&types, |types| show(&int(8), types, &value.into()).unwrap()), bytes(shown));
        }
    }

    #[test]
    fn g_20_structs_have_all_members_in_order() {
        let bit = |bitwidth| string(BitstringType::Bit(P4BitTypeSpec { bitwidth }));
        let member = |name: &str, spec| StructMember { name: name.to_string(), type_spec: Some(spec) };
        let flag = P4DataTypeSpec { type_spec: Some(DataType::Bool(P4BoolType {})) };
        let members = vec![member("a", bit(4)), member("b", flag), member("c", bit(48))];
        let declared = P4StructTypeSpec { members, ..P4StructTypeSpec::default() };
        let types = P4TypeInfo { structs: [("s".to_string(), declared)].into(), ..P4TypeInfo::default() };
        let spec =
            P4DataTypeSpec { type_spec: Some(DataType::Struct(P4NamedType { name: "s".to_string() })) };
        let width = with(&types, |types| width(&spec, types));
        let read = |data: &P4Data| with(&types, |types| read(&spec, types, data));
        assert_eq!(width, Some(53));
        let value = |members: Vec<P4Data>| P4Data { data: Some(DataValue::Struct(P4StructLike { members })) };
        let flag = P4Data { data: Some(DataValue::Bool(true)) };
        let given = value(vec![bytes(&[0x9]), flag.clone(), bytes(&[1, 2])]);
        let bits = read(&given).unwrap();
        assert_eq!(bits, (BigUint::from(0x9u32 << 1 | 1) << 48) | BigUint::from(0x102u32));
        assert_eq!(with(&types, |types| show(&spec, types, &bits).unwrap()), given);
        assert!(read(&value(vec![bytes(&[0x9]), flag.clone()])).is_err());
        assert!(read(&value(vec![flag, bytes(&[1]), bytes(&[1])])).is_err());
        assert!(read(&bytes(&[1])).is_err());
    }

    #[test]
    fn g_21_headers_have_a_validity() {
        let field = |bitwidth| HeaderMember {
            name: "f".to_string(),
            type_spec: Some(P4BitstringLikeTypeSpec {
                type_spec: Some(BitstringType::Bit(P4BitTypeSpec { bitwidth })),
                ..Default::default()
            }),
        };
        let declared = P4HeaderTypeSpec { members: vec![field(4), field(12)], ..Default::default() };
        let info = P4TypeInfo { headers: [("h".to_string(), declared)].into(), ..Default::default() };
        let spec =
            P4DataTypeSpec { type_spec: Some(DataType::Header(P4NamedType { name: "h".to_string() })) };
        let header = |is_valid, fields: &[&[u8]]| P4Data {
            data: Some(DataValue::Header(P4Header {
                is_valid,
                bitstrings: fields.iter().map(|field| field.to_vec().into()).collect(),
            })),
        };
        with(&info, |types| {
            assert_eq!(width(&spec, types), Some(17));
            for (data, bits) in [(header(true, &[&[3], &[1, 2]]), 0x1_3102u32), (header(false, &[]), 0)] {
                assert_eq!(read(&spec, types, &data).unwrap(), bits.into());
                assert_eq!(show(&spec, types, &bits.into()).unwrap(), data);
            }
            for wrong in [header(true, &[&[3]]), header(false, &[&[3], &[1]]), header(true, &[&[16], &[1]])] {
                assert!(read(&spec, types, &wrong).is_err());
            }
            // Headers in a digest are valid.
            let types = Types { has_validity: false, ..*types };
            assert_eq!(width(&spec, &types), Some(16));
            assert_eq!(show(&spec, &types, &0x3102u32.into()).unwrap(), header(true, &[&[3], &[1, 2]]));
        });
    }
}
