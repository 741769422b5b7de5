//! The values that fields can have, by their Rust types.

use bytes::Bytes;

use crate::reflect::{Reflect, Slot, Value};

/// A type of fields. Enumerations are `i32` for prost, so the macros treat them apart.
pub(crate) trait Kind {
    fn is_default(&self) -> bool;
    fn value(&self) -> Value<'_>;
    fn slot(&mut self) -> Slot<'_>;
}

macro_rules! scalars {
    ($($ty:ty, $kind:ident, $this:ident => $value:expr, $default:expr;)*) => {$(
        impl Kind for $ty {
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

impl<M: Reflect> Kind for M {
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

/// [`crate::reflect::plain`] at compile time.
pub(crate) const fn plain(name: &'static str) -> &'static str {
    match name.as_bytes() {
        [b'r', b'#', ..] => name.split_at(2).1,
        _ => name,
    }
}
