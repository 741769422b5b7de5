//! The names, numbers and values of a message's fields, for the text and JSON forms.
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

    /// Returns the names of all fields.
    fn field_names(&self) -> Vec<&'static str>;

    /// Returns the binary form.
    fn encode(&self) -> Vec<u8>;

    /// Adds the contents of a binary form.
    fn merge(&mut self, bytes: Bytes) -> Result<(), prost::DecodeError>;
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
    Enum(&'a mut i32, &'static [(&'static str, i32)]),
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

/// An enumeration: its members have names.
pub trait Enumeration {
    /// Names and numbers, in order of declaration.
    const MEMBERS: &'static [(&'static str, i32)];
}

/// A group of fields of which at most one is set.
pub trait Oneof: Sized {
    /// The names of the fields.
    const NAMES: &'static [&'static str];
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
pub(crate) fn plain(name: &'static str) -> &'static str {
    name.strip_prefix("r#").unwrap_or(name)
}
