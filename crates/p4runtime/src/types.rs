//! Whether the types of a P4Info are those of the program.
//!
//! A cell of a register and a digest are numbers in the switch, and the P4Info says how clients see them: if it describes another
//! type with the same number of bits, clients get wrong values. So [`check`] compares a client's P4Info with the one that p4jet
//! generates: every use of a type, and then the definitions of the types that are used, each once.

use crate::refusal::{Reasons, cut};
use p4jet_p4info::proto::config::{
    BitstringType, DataType, P4BitstringLikeTypeSpec, P4DataTypeSpec, P4Info, P4NamedType, P4TypeInfo,
    Preamble, Representation, SdnType,
};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

/// Bytes of a name in a message.
const NAME_BYTES: usize = 64;
/// Number of names in a message.
const NAMES_MAX: usize = 8;

/// Where a P4Info uses a type: kind and name of the object, the field of the message, and the name of the P4 field or parameter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place<'a> {
    kind: &'static str,
    object: &'a str,
    message_field: &'static str,
    field: Option<&'a str>,
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { kind, object, message_field, field } = self;
        write!(f, "the {kind} `{}`: `{message_field}`", cut(object, NAME_BYTES))?;
        match field {
            Some("") => f.write_str(" of its field"),
            Some(field) => write!(f, " of `{}`", cut(field, NAME_BYTES)),
            None => Ok(()),
        }
    }
}

/// The type in a place.
enum Used<'a> {
    Spec(&'a P4DataTypeSpec),
    /// A `type`, or an enum without representation.
    Named(&'a P4NamedType),
    Nothing,
}

/// Everything in a P4Info that has a type.
fn uses(info: &P4Info) -> BTreeMap<Place<'_>, Used<'_>> {
    fn object(preamble: &Option<Preamble>) -> &str {
        preamble.as_ref().map_or("", |preamble| &preamble.name)
    }
    let mut uses = BTreeMap::new();
    let mut named = |kind, of, message_field, field, named| {
        let used = Option::as_ref(named).map_or(Used::Nothing, Used::Named);
        uses.insert(Place { kind, object: object(of), message_field, field }, used);
    };
    for table in &info.tables {
        for field in &table.match_fields {
            named("table", &table.preamble, "type_name", Some(&*field.name), &field.type_name);
        }
    }
    for action in &info.actions {
        for param in &action.params {
            named("action", &action.preamble, "type_name", Some(&*param.name), &param.type_name);
        }
    }
    for set in &info.value_sets {
        for field in &set.r#match {
            named("value set", &set.preamble, "type_name", Some(&*field.name), &field.type_name);
        }
    }
    for header in &info.controller_packet_metadata {
        for field in &header.metadata {
            named("controller header", &header.preamble, "type_name", Some(&*field.name), &field.type_name);
        }
    }
    for counter in &info.counters {
        named("counter", &counter.preamble, "index_type_name", None, &counter.index_type_name);
    }
    for meter in &info.meters {
        named("meter", &meter.preamble, "index_type_name", None, &meter.index_type_name);
    }
    for register in &info.registers {
        named("register", &register.preamble, "index_type_name", None, &register.index_type_name);
    }
    let registers = info.registers.iter().map(|of| ("register", &of.preamble, &of.type_spec));
    let digests = info.digests.iter().map(|of| ("digest", &of.preamble, &of.type_spec));
    for (kind, of, spec) in registers.chain(digests) {
        let place = Place { kind, object: object(of), message_field: "type_spec", field: None };
        uses.insert(place, spec.as_ref().map_or(Used::Nothing, Used::Spec));
    }
    uses
}

/// A named type: its kind, the field of `type_info` that defines it, and its name.
type Named<'a> = (&'static str, &'static str, &'a str);

/// The named type that a type is.
fn named_type(of: &DataType) -> Option<Named<'_>> {
    let (kind, definitions, named) = match of {
        DataType::Struct(named) => ("struct", "structs", named),
        DataType::Header(named) => ("header", "headers", named),
        DataType::HeaderUnion(named) => ("header union", "header_unions", named),
        DataType::HeaderStack(stack) => ("header", "headers", stack.header.as_ref()?),
        DataType::HeaderUnionStack(stack) => ("header union", "header_unions", stack.header_union.as_ref()?),
        DataType::Enum(named) => ("enum", "enums", named),
        DataType::SerializableEnum(named) => ("enum", "serializable_enums", named),
        DataType::NewType(named) => ("type", "new_types", named),
        DataType::Error(_) => return Some(("error", "error", "")),
        DataType::Bitstring(_) | DataType::Bool(_) | DataType::Tuple(_) => return None,
    };
    Some((kind, definitions, &named.name))
}

/// Compares the types of a P4Info with those of the program's own P4Info. Returns the differences.
///
/// Objects that the program lacks are left out, except digests.
pub fn check(given: &P4Info, own: &P4Info) -> Vec<String> {
    let (none, own_uses) = (P4TypeInfo::default(), uses(own));
    let (given_types, own_types) =
        (given.type_info.as_ref().unwrap_or(&none), own.type_info.as_ref().unwrap_or(&none));
    let mut types = Types { seen: HashSet::new(), wanted: Vec::new(), reasons: Reasons::default() };
    for (place, found) in &uses(given) {
        match (own_uses.get(place), found) {
            (Some(Used::Spec(own)), Used::Spec(found)) => types.spec(place, place, Some(found), Some(own)),
            (Some(Used::Named(own)), Used::Named(found)) if own.name == found.name => {
                let is_enum = own_types.enums.contains_key(&own.name);
                let (kind, definitions) = if is_enum { ("enum", "enums") } else { ("type", "new_types") };
                // P4Infos of older p4c lack the definition of a type: then values are not translated, and have the width in the
                // program.
                if is_enum || given_types.new_types.contains_key(&found.name) {
                    types.want(place, (kind, definitions, &found.name));
                }
            }
            // The name says nothing about the form of values then: their width is compared with the program.
            (Some(Used::Named(_)), Used::Nothing) => {}
            (Some(Used::Nothing), Used::Nothing) => {}
            (Some(own), found) => {
                types.refuse(format!("{place} is {found} in the P4Info and {own} in the program"));
            }
            (None, _) if place.kind == "digest" => {
                types.refuse(format!("the program has no digest `{}`", cut(place.object, NAME_BYTES)));
            }
            (None, _) => {}
        }
    }
    while let Some((place, named)) = types.wanted.pop() {
        types.definition(&place, named, given_types, own_types);
    }
    types.reasons.into_lines()
}

impl fmt::Display for Used<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Used::Spec(spec) => f.write_str(&shown_type(Some(spec))),
            Used::Named(named) => write!(f, "the type `{}`", cut(&named.name, NAME_BYTES)),
            Used::Nothing => f.write_str("unset"),
        }
    }
}

/// The comparison of types.
struct Types<'a> {
    /// The types that were found so far.
    seen: HashSet<Named<'a>>,
    /// Those whose definitions are to be compared, with a place that uses them.
    wanted: Vec<(Place<'a>, Named<'a>)>,
    reasons: Reasons,
}

impl<'a> Types<'a> {
    fn refuse(&mut self, why: String) {
        self.reasons.push(|| why);
    }

    fn want(&mut self, user: &Place<'a>, named: Named<'a>) {
        if self.seen.insert(named) {
            self.wanted.push((*user, named));
        }
    }

    /// Compares two types.
    fn spec(
        &mut self,
        user: &Place<'a>,
        place: impl fmt::Display,
        found: Option<&'a P4DataTypeSpec>,
        own: Option<&P4DataTypeSpec>,
    ) {
        if is_same(found, own) {
            self.want_all(user, found);
        } else {
            let (found, own) = (shown_type(found), shown_type(own));
            self.refuse(format!("{place} is {found} in the P4Info and {own} in the program"));
        }
    }

    /// Notes all types that a type uses.
    fn want_all(&mut self, user: &Place<'a>, spec: Option<&'a P4DataTypeSpec>) {
        match spec.and_then(|spec| spec.type_spec.as_ref()) {
            Some(DataType::Tuple(tuple)) => {
                tuple.members.iter().for_each(|member| self.want_all(user, Some(member)));
            }
            Some(other) => {
                if let Some(named) = named_type(other) {
                    self.want(user, named);
                }
            }
            None => {}
        }
    }

    /// Compares the definitions of a named type.
    fn definition(&mut self, user: &Place<'a>, named: Named<'a>, given: &'a P4TypeInfo, own: &P4TypeInfo) {
        let (kind, field, name) = named;
        let what = match name {
            "" => format!("{user}: `{kind}`"),
            name => format!("{user}: the {kind} `{}`", cut(name, NAME_BYTES)),
        };
        // What the program uses is in its own P4Info.
        let Some(expected) = definition(own, field, name) else { return };
        let Some(found) = definition(given, field, name) else {
            self.refuse(format!("{what} is not in `type_info.{field}`, expected {expected}"));
            return;
        };
        match (found, expected) {
            (Definition::Members(found, width), Definition::Members(expected, own_width)) => {
                if width != own_width {
                    let (found, own) = (width.unwrap_or(0), own_width.unwrap_or(0));
                    self.refuse(format!(
                        "{what} is bit<{found}> in the P4Info and bit<{own}> in the program"
                    ));
                    return;
                }
                // A P4Info of an older compiler may lack members. Errors travel by their names and members with a value by it; the
                // values of other members are their places, so only the last ones may be missing.
                if matches!(field, "error" | "serializable_enums") {
                    let own: HashMap<&str, Member<'_>> = expected.into_iter().collect();
                    for (name, found) in found {
                        match own.get(name) {
                            Some(own) => {
                                let place = format_args!("{what}: the member `{name}`");
                                self.member(user, place, found, *own);
                            }
                            None => {
                                let name = cut(name, NAME_BYTES);
                                self.refuse(format!("{what}: the program has no member `{name}`"));
                            }
                        }
                    }
                    return;
                }
                let mut expected = expected;
                if field == "enums" {
                    expected.truncate(found.len());
                }
                if found.len() != expected.len() {
                    let (found, expected) = (found.len(), Definition::Members(expected, None));
                    self.refuse(format!("{what} has {found} members in the P4Info, expected {expected}"));
                    return;
                }
                for (n, ((name, found), (own_name, own))) in found.into_iter().zip(expected).enumerate() {
                    if name != own_name {
                        let (name, own_name) = (cut(name, NAME_BYTES), cut(own_name, NAME_BYTES));
                        let number = n + 1;
                        self.refuse(format!(
                            "{what}: member {number} is `{name}` in the P4Info and `{own_name}` in the program"
                        ));
                        continue;
                    }
                    let place = format_args!("{what}: the member `{name}`");
                    self.member(user, place, found, own);
                }
            }
            (Definition::Original(found), Definition::Original(own)) => {
                self.spec(user, what, Some(found), Some(own));
            }
            (Definition::Translated(found), Definition::Translated(own)) if found == own => {}
            (found, expected) => {
                self.refuse(format!("{what} is {found} in the P4Info and {expected} in the program"));
            }
        }
    }

    /// Compares two members of the same name.
    fn member(&mut self, user: &Place<'a>, place: fmt::Arguments<'_>, found: Member<'a>, own: Member<'_>) {
        let (found, own) = match (found, own) {
            (Member::Spec(found), Member::Spec(own)) => return self.spec(user, place, found, own),
            (Member::Bits(found), Member::Bits(own)) if is_same_string(found, own) => return,
            (Member::Header(Some(found)), Member::Header(Some(own))) if found == own => {
                return self.want(user, ("header", "headers", &found.name));
            }
            (Member::Value(found), Member::Value(own)) if digits(found) == digits(own) => return,
            (Member::Name, Member::Name) => return,
            other => other,
        };
        self.refuse(format!("{place} is {found} in the P4Info and {own} in the program"));
    }
}

/// The definition of a named type.
enum Definition<'a> {
    /// The members of a struct, header, union or enum, with their names; the width of the values of an enum.
    Members(Vec<(&'a str, Member<'a>)>, Option<i32>),
    /// A `type` whose values are those of another type.
    Original(&'a P4DataTypeSpec),
    Translated(Option<&'a SdnType>),
}

#[derive(Clone, Copy)]
enum Member<'a> {
    Spec(Option<&'a P4DataTypeSpec>),
    Bits(Option<&'a P4BitstringLikeTypeSpec>),
    Header(Option<&'a P4NamedType>),
    /// The value of a member of an enum.
    Value(&'a [u8]),
    Name,
}

/// The definition of a type, if there is one in this field of `type_info`.
fn definition<'a>(types: &'a P4TypeInfo, field: &str, name: &str) -> Option<Definition<'a>> {
    let members = match field {
        "structs" => {
            let members = types.structs.get(name)?.members.iter();
            members.map(|member| (&*member.name, Member::Spec(member.type_spec.as_ref()))).collect()
        }
        "headers" => {
            let members = types.headers.get(name)?.members.iter();
            members.map(|member| (&*member.name, Member::Bits(member.type_spec.as_ref()))).collect()
        }
        "header_unions" => {
            let members = types.header_unions.get(name)?.members.iter();
            members.map(|member| (&*member.name, Member::Header(member.header.as_ref()))).collect()
        }
        "enums" => {
            types.enums.get(name)?.members.iter().map(|member| (&*member.name, Member::Name)).collect()
        }
        "serializable_enums" => {
            let members = types.serializable_enums.get(name)?.members.iter();
            members.map(|member| (&*member.name, Member::Value(&member.value))).collect()
        }
        "error" => types.error.as_ref()?.members.iter().map(|member| (&**member, Member::Name)).collect(),
        _ => {
            return Some(match types.new_types.get(name)?.representation.as_ref()? {
                Representation::OriginalType(original) => Definition::Original(original),
                Representation::TranslatedType(translated) => {
                    Definition::Translated(translated.sdn_type.as_ref())
                }
            });
        }
    };
    let width = match field {
        "serializable_enums" => types
            .serializable_enums
            .get(name)
            .and_then(|of| of.underlying_type.as_ref())
            .map(|of| of.bitwidth),
        _ => None,
    };
    Some(Definition::Members(members, width))
}

impl fmt::Display for Definition<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Definition::Members(members, _) => {
                let names =
                    members.iter().take(NAMES_MAX).map(|(name, _)| format!("`{}`", cut(name, NAME_BYTES)));
                let more = if members.len() > NAMES_MAX { ", …" } else { "" };
                write!(f, "{} members: {}{more}", members.len(), names.collect::<Vec<_>>().join(", "))
            }
            Definition::Original(original) => f.write_str(&shown_type(Some(original))),
            Definition::Translated(Some(SdnType::SdnBitwidth(bits))) => {
                write!(f, "translated to {bits} bits")
            }
            Definition::Translated(Some(SdnType::SdnString(_))) => f.write_str("translated to strings"),
            Definition::Translated(None) => f.write_str("translated to nothing"),
        }
    }
}

impl fmt::Display for Member<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Member::Spec(spec) => f.write_str(&shown_type(*spec)),
            Member::Bits(spec) => f.write_str(&shown_string(*spec)),
            Member::Header(named) => {
                write!(f, "the header `{}`", cut(named.map_or("", |named| &named.name), NAME_BYTES))
            }
            Member::Value(value) => {
                let shown: String = digits(value).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
                write!(f, "0x{shown}")
            }
            Member::Name => Ok(()),
        }
    }
}

/// A number without leading zeros.
fn digits(value: &[u8]) -> &[u8] {
    &value[value.iter().position(|byte| *byte != 0).unwrap_or(value.len())..]
}

/// True if two types are the same, except for annotations and for what named types are.
fn is_same(found: Option<&P4DataTypeSpec>, own: Option<&P4DataTypeSpec>) -> bool {
    match (found.and_then(|found| found.type_spec.as_ref()), own.and_then(|own| own.type_spec.as_ref())) {
        (Some(DataType::Bitstring(found)), Some(DataType::Bitstring(own))) => {
            is_same_string(Some(found), Some(own))
        }
        (Some(DataType::Tuple(found)), Some(DataType::Tuple(own))) => {
            let mut pairs = found.members.iter().zip(&own.members);
            found.members.len() == own.members.len()
                && pairs.all(|(found, own)| is_same(Some(found), Some(own)))
        }
        (found, own) => found == own,
    }
}

fn is_same_string(found: Option<&P4BitstringLikeTypeSpec>, own: Option<&P4BitstringLikeTypeSpec>) -> bool {
    found.and_then(|found| found.type_spec.as_ref()) == own.and_then(|own| own.type_spec.as_ref())
}

fn shown_string(string: Option<&P4BitstringLikeTypeSpec>) -> String {
    match string.and_then(|string| string.type_spec.as_ref()) {
        Some(BitstringType::Bit(bit)) => format!("bit<{}>", bit.bitwidth),
        Some(BitstringType::Int(int)) => format!("int<{}>", int.bitwidth),
        Some(BitstringType::Varbit(varbit)) => format!("varbit<{}>", varbit.max_bitwidth),
        None => "unset".to_string(),
    }
}

/// A type in a message.
pub(crate) fn shown_type(spec: Option<&P4DataTypeSpec>) -> String {
    let Some(of) = spec.and_then(|spec| spec.type_spec.as_ref()) else { return "unset".to_string() };
    let size = match of {
        DataType::HeaderStack(stack) => Some(stack.size),
        DataType::HeaderUnionStack(stack) => Some(stack.size),
        _ => None,
    };
    match (of, named_type(of), size) {
        (DataType::Bitstring(string), ..) => shown_string(Some(string)),
        (DataType::Tuple(tuple), ..) => format!("a tuple of {}", tuple.members.len()),
        (DataType::Bool(_), ..) => "bool".to_string(),
        (DataType::Error(_), ..) => "error".to_string(),
        (_, Some((kind, _, name)), None) => format!("the {kind} `{}`", cut(name, NAME_BYTES)),
        (_, Some((kind, _, name)), Some(size)) => {
            format!("a stack of {size} of the {kind} `{}`", cut(name, NAME_BYTES))
        }
        (_, None, _) => "a stack".to_string(),
    }
}
