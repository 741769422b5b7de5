//! The names, numbers, types and values of a message's fields, for the text and JSON forms and for descriptors.
//!
//! The macros in [`crate::proto`] implement [`Reflect`] next to each message, so the formats have no code for single messages.

use std::collections::BTreeMap;

use bytes::Bytes;

/// A message whose fields have names.
pub trait Reflect {
    /// Returns the full name in protobuf: `p4.config.v1.Table`.
    fn full_name(&self) -> &'static str;

    /// Visits each value that is present, in order of declaration; the elements of a repeated field one by one.
    fn visit<'a>(&'a self, visit: &mut dyn FnMut(Field<'a>));

    /// Returns the place of a new value of a field: of a new element if it is repeated. `None` if there is no such field.
    fn slot(&mut self, name: &str) -> Option<Slot<'_>>;

    /// Returns all fields, in order of declaration.
    fn fields(&self) -> Vec<Declared>;

    /// Returns the binary form.
    fn encode(&self) -> Vec<u8>;

    /// Adds the contents of a binary form.
    fn merge(&mut self, bytes: Bytes) -> Result<(), prost::DecodeError>;
}

/// A message or enumeration whose name is known without a value.
pub trait Named {
    /// The full name in protobuf.
    const NAME: &'static str;
}

/// A field of a kind of message, without a value.
#[derive(Clone, Copy)]
pub struct Declared {
    /// Number in the binary form.
    pub number: u32,
    /// Name: `match_fields`.
    pub name: &'static str,
    /// The number of values that the field can have.
    pub cardinality: Cardinality,
    /// The type of a value.
    pub kind: Type,
    /// Name of the oneof to which the field belongs.
    pub oneof: Option<&'static str>,
}

/// The number of values that a kind of field can have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Cardinality {
    /// One.
    Single,
    /// Any number.
    Repeated,
    /// One for each text.
    Map,
}

/// The type of a value; enumerations and messages by their full names.
#[allow(missing_docs)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Type {
    Bool,
    Int32,
    Int64,
    Uint32,
    Uint64,
    String,
    Bytes,
    Enum(&'static str),
    Message(&'static str),
}

/// A value of a field.
pub struct Field<'a> {
    /// Number in the binary form. Text and JSON are in this order.
    pub number: u32,
    /// Name: `match_fields`.
    pub name: &'static str,
    /// The number of values that the field can have.
    pub label: Label<'a>,
    /// The value.
    pub value: Value<'a>,
}

/// The number of values that a field can have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Label<'a> {
    /// One.
    Single,
    /// Any number.
    Repeated,
    /// One for each key; the variant holds the key.
    Map(&'a str),
}

/// A value.
#[allow(missing_docs)]
pub enum Value<'a> {
    Bool(bool),
    Int32(i32),
    Int64(i64),
    Uint32(u32),
    Uint64(u64),
    String(&'a str),
    Bytes(&'a [u8]),
    /// The number, and the name if the number has one.
    Enum(i32, Option<&'static str>),
    Message(&'a dyn Reflect),
}

/// A place for a value.
#[allow(missing_docs)]
pub enum Slot<'a> {
    Bool(&'a mut bool),
    Int32(&'a mut i32),
    Int64(&'a mut i64),
    Uint32(&'a mut u32),
    Uint64(&'a mut u64),
    String(&'a mut String),
    Bytes(&'a mut Bytes),
    /// The number, and the names of all members with their numbers.
    Enum(&'a mut i32, Members),
    Message(&'a mut dyn Reflect),
    Map(&'a mut dyn Entries),
}

/// A map from strings to messages.
pub trait Entries {
    /// Returns the message of a key; creates it if there is none.
    fn entry(&mut self, key: String) -> &mut dyn Reflect;
}

impl<M: Reflect + Default> Entries for BTreeMap<String, M> {
    fn entry(&mut self, key: String) -> &mut dyn Reflect {
        self.entry(key).or_default()
    }
}

/// Names and numbers of an enumeration's members, in order of declaration.
pub type Members = &'static [(&'static str, i32)];

/// An enumeration: its members have names.
pub trait Enumeration {
    /// Its members.
    const MEMBERS: Members;
}

/// A group of fields of which at most one is set.
pub trait Oneof: Sized {
    /// The fields; the name of the oneof is missing, because only the message that has it knows it.
    const FIELDS: &'static [Declared];
    /// Shows the field that is set.
    fn visit<'a>(&'a self, visit: &mut dyn FnMut(Field<'a>));
    /// Sets a field to its default, unless it is set already, and returns its place.
    fn slot<'a>(this: &'a mut Option<Self>, name: &str) -> Option<Slot<'a>>;
}

/// Returns the name of an enumeration's member.
pub fn member_name<E: Enumeration>(number: i32) -> Option<&'static str> {
    E::MEMBERS.iter().find(|(_, n)| *n == number).map(|(name, _)| *name)
}

/// Returns a field's name without the prefix of Rust's keywords.
pub(crate) const fn plain(name: &'static str) -> &'static str {
    match name.as_bytes() {
        [b'r', b'#', ..] => name.split_at(2).1,
        _ => name,
    }
}
