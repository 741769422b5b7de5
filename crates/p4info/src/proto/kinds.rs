//! The values that fields can have, by their Rust types.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::reflect::{Named, Reflect, Slot, Type, Value};

/// A type of fields. Enumerations are `i32` for prost, so the macros treat them apart.
pub(crate) trait Kind {
    const TYPE: Type;
    fn is_default(&self) -> bool;
    fn value(&self) -> Value<'_>;
    fn slot(&mut self) -> Slot<'_>;
}

macro_rules! scalars {
    ($($ty:ty, $kind:ident, $this:ident => $value:expr, $default:expr;)*) => {$(
        impl Kind for $ty {
            const TYPE: Type = Type::$kind;
            fn is_default(&self) -> bool {
                let $this = self;
                $default
            }
            fn value(&self) -> Value<'_> {
                let $this = self;
                Value::$kind($value)
            }
            fn slot(&mut self) -> Slot<'_> {
                Slot::$kind(self)
            }
        }
    )*};
}

scalars! {
    bool, Bool, v => *v, !*v;
    i32, Int32, v => *v, *v == 0;
    i64, Int64, v => *v, *v == 0;
    u32, Uint32, v => *v, *v == 0;
    u64, Uint64, v => *v, *v == 0;
    String, String, v => v, v.is_empty();
    Bytes, Bytes, v => v, v.is_empty();
}

impl<M: Reflect + Named> Kind for M {
    const TYPE: Type = Type::Message(M::NAME);
    fn is_default(&self) -> bool {
        false
    }
    fn value(&self) -> Value<'_> {
        Value::Message(self)
    }
    fn slot(&mut self) -> Slot<'_> {
        Slot::Message(self)
    }
}

/// Adds an element and returns it.
pub(crate) fn push<T: Default>(list: &mut Vec<T>) -> &mut T {
    list.push(T::default());
    let last = list.len() - 1;
    &mut list[last]
}

/// The type of a field that holds one value.
pub(crate) fn of_value<T: Kind>(_: &T) -> Type {
    T::TYPE
}

/// The type of a field that holds a message or none.
pub(crate) fn of_message<T: Kind>(_: &Option<T>) -> Type {
    T::TYPE
}

/// The type of a repeated field's elements.
pub(crate) fn of_elements<T: Kind>(_: &[T]) -> Type {
    T::TYPE
}

/// The type of a map's values.
pub(crate) fn of_entries<T: Kind>(_: &BTreeMap<String, T>) -> Type {
    T::TYPE
}

/// The type of a oneof's field.
pub(crate) const fn of_variant<T: Kind, O>(_: fn(T) -> O) -> Type {
    T::TYPE
}
