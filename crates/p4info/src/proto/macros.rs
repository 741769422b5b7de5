//! The macros that make a message, a oneof or an enumeration of a description that reads like a `.proto` file.

/// A message: the type with prost's derive, and [`crate::reflect::Reflect`].
///
/// A field is `name: KIND = NUMBER`, where KIND is `bool`, `int32`, `int64`, `uint32`, `uint64`, `string`, `bytes`,
/// `enumeration E`, `message M`, `repeated` of any of these but `enumeration E`, or `map M` (from strings). A oneof is
/// `name: oneof O(NUMBER, …)`.
macro_rules! message {
    ($(#[$doc:meta])* $full:literal $name:ident { $($body:tt)* }) => {
        message! { @fields [$(#[$doc])* $full $name] [] [] $($body)* }
    };

    (@fields $head:tt [$($f:tt)*] [$($r:tt)*] $(#[$d:meta])* $n:ident: repeated message $m:ident = $t:tt, $($rest:tt)*) => {
        message! { @fields $head
            [$($f)* $(#[$d])* #[prost(message, repeated, tag = $t)] pub $n: Vec<$m>,]
            [$($r)* ($n repeated $t)] $($rest)* }
    };
    (@fields $head:tt [$($f:tt)*] [$($r:tt)*] $(#[$d:meta])* $n:ident: repeated bytes = $t:tt, $($rest:tt)*) => {
        message! { @fields $head
            [$($f)* $(#[$d])* #[prost(bytes = "bytes", repeated, tag = $t)] pub $n: Vec<::bytes::Bytes>,]
            [$($r)* ($n repeated $t)] $($rest)* }
    };
    (@fields $head:tt [$($f:tt)*] [$($r:tt)*] $(#[$d:meta])* $n:ident: repeated $kind:ident = $t:tt, $($rest:tt)*) => {
        message! { @fields $head
            [$($f)* $(#[$d])* #[prost($kind, repeated, tag = $t)] pub $n: Vec<scalar!($kind)>,]
            [$($r)* ($n repeated $t)] $($rest)* }
    };
    (@fields $head:tt [$($f:tt)*] [$($r:tt)*] $(#[$d:meta])* $n:ident: map $m:ident = $t:tt, $($rest:tt)*) => {
        message! { @fields $head
            [$($f)* $(#[$d])* #[prost(btree_map = "string, message", tag = $t)]
                pub $n: ::std::collections::BTreeMap<String, $m>,]
            [$($r)* ($n map $t)] $($rest)* }
    };
    (@fields $head:tt [$($f:tt)*] [$($r:tt)*] $(#[$d:meta])* $n:ident: message $m:ident = $t:tt, $($rest:tt)*) => {
        message! { @fields $head
            [$($f)* $(#[$d])* #[prost(message, optional, tag = $t)] pub $n: Option<$m>,]
            [$($r)* ($n message $t)] $($rest)* }
    };
    (@fields $head:tt [$($f:tt)*] [$($r:tt)*] $(#[$d:meta])* $n:ident: enumeration $e:ident = $t:tt, $($rest:tt)*) => {
        message! { @fields $head
            [$($f)* $(#[$d])* #[prost(enumeration($e), tag = $t)] pub $n: i32,]
            [$($r)* ($n ($e) $t)] $($rest)* }
    };
    (@fields $head:tt [$($f:tt)*] [$($r:tt)*] $(#[$d:meta])* $n:ident: oneof $o:ident($($t:tt),*), $($rest:tt)*) => {
        message! { @fields $head
            [$($f)* $(#[$d])* #[prost(oneof($o), tags($($t),*))] pub $n: Option<$o>,]
            [$($r)* ($n oneof $o)] $($rest)* }
    };
    (@fields $head:tt [$($f:tt)*] [$($r:tt)*] $(#[$d:meta])* $n:ident: bytes = $t:tt, $($rest:tt)*) => {
        message! { @fields $head
            [$($f)* $(#[$d])* #[prost(bytes = "bytes", tag = $t)] pub $n: ::bytes::Bytes,]
            [$($r)* ($n single $t)] $($rest)* }
    };
    (@fields $head:tt [$($f:tt)*] [$($r:tt)*] $(#[$d:meta])* $n:ident: $kind:ident = $t:tt, $($rest:tt)*) => {
        message! { @fields $head
            [$($f)* $(#[$d])* #[prost($kind, tag = $t)] pub $n: scalar!($kind),]
            [$($r)* ($n single $t)] $($rest)* }
    };

    (@fields [$(#[$doc:meta])* $full:literal $name:ident] [$($f:tt)*] [$(($n:ident $($kind:tt)*))*]) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, ::prost::Message)]
        pub struct $name { $($f)* }

        impl $crate::reflect::Named for $name {
            const NAME: &'static str = $full;
        }

        impl $crate::reflect::Reflect for $name {
            fn full_name(&self) -> &'static str {
                $full
            }
            #[allow(unused_variables)]
            fn visit<'a>(&'a self, visit: &mut dyn FnMut($crate::reflect::Field<'a>)) {
                $(show!(self, visit, $n $($kind)*);)*
            }
            #[allow(unused_variables)]
            fn slot(&mut self, name: &str) -> Option<$crate::reflect::Slot<'_>> {
                $(place!(self, name, $n $($kind)*);)*
                None
            }
            #[allow(clippy::vec_init_then_push)]
            fn fields(&self) -> Vec<$crate::reflect::Declared> {
                #[allow(unused_mut)]
                let mut fields = Vec::new();
                $(declare!(self, fields, $n $($kind)*);)*
                fields
            }
            fn encode(&self) -> Vec<u8> {
                ::prost::Message::encode_to_vec(self)
            }
            fn merge(&mut self, bytes: ::bytes::Bytes) -> Result<(), ::prost::DecodeError> {
                ::prost::Message::merge(self, bytes)
            }
        }
    };
}

/// The Rust type of a scalar.
macro_rules! scalar {
    (bool) => {
        bool
    };
    (int32) => {
        i32
    };
    (int64) => {
        i64
    };
    (uint32) => {
        u32
    };
    (uint64) => {
        u64
    };
    (string) => {
        String
    };
}

/// Shows a field of a message.
macro_rules! show {
    ($this:expr, $visit:expr, $n:ident oneof $o:ident) => {
        if let Some(set) = &$this.$n {
            $crate::reflect::Oneof::visit(set, $visit);
        }
    };
    ($this:expr, $visit:expr, $n:ident repeated $t:tt) => {
        for element in &$this.$n {
            let (name, label) = ($crate::reflect::plain(stringify!($n)), $crate::reflect::Label::Repeated);
            let value = $crate::proto::kinds::Kind::value(element);
            $visit($crate::reflect::Field { number: $t, name, label, value });
        }
    };
    ($this:expr, $visit:expr, $n:ident map $t:tt) => {
        for (key, element) in &$this.$n {
            let (name, label) = ($crate::reflect::plain(stringify!($n)), $crate::reflect::Label::Map(key));
            let value = $crate::reflect::Value::Message(element);
            $visit($crate::reflect::Field { number: $t, name, label, value });
        }
    };
    ($this:expr, $visit:expr, $n:ident message $t:tt) => {
        if let Some(message) = &$this.$n {
            let (name, label) = ($crate::reflect::plain(stringify!($n)), $crate::reflect::Label::Single);
            let value = $crate::reflect::Value::Message(message);
            $visit($crate::reflect::Field { number: $t, name, label, value });
        }
    };
    ($this:expr, $visit:expr, $n:ident ($e:ident) $t:tt) => {
        if $this.$n != 0 {
            let (name, label) = ($crate::reflect::plain(stringify!($n)), $crate::reflect::Label::Single);
            let value = $crate::reflect::Value::Enum($this.$n, $crate::reflect::member_name::<$e>($this.$n));
            $visit($crate::reflect::Field { number: $t, name, label, value });
        }
    };
    ($this:expr, $visit:expr, $n:ident single $t:tt) => {
        if !$crate::proto::kinds::Kind::is_default(&$this.$n) {
            let (name, label) = ($crate::reflect::plain(stringify!($n)), $crate::reflect::Label::Single);
            let value = $crate::proto::kinds::Kind::value(&$this.$n);
            $visit($crate::reflect::Field { number: $t, name, label, value });
        }
    };
}

/// Returns from the function with the place of a field of a message, if it has the name.
macro_rules! place {
    ($this:expr, $name:expr, $n:ident oneof $o:ident) => {
        if <$o as $crate::reflect::Oneof>::FIELDS.iter().any(|field| field.name == $name) {
            return $crate::reflect::Oneof::slot(&mut $this.$n, $name);
        }
    };
    ($this:expr, $name:expr, $n:ident $kind:tt $t:tt) => {
        if $name == $crate::reflect::plain(stringify!($n)) {
            return Some(place!(@slot $this.$n, $kind));
        }
    };
    (@slot $place:expr, repeated) => {
        $crate::proto::kinds::Kind::slot($crate::proto::kinds::push(&mut $place))
    };
    (@slot $place:expr, map) => { $crate::reflect::Slot::Map(&mut $place) };
    (@slot $place:expr, message) => { $crate::reflect::Slot::Message($place.get_or_insert_default()) };
    (@slot $place:expr, single) => { $crate::proto::kinds::Kind::slot(&mut $place) };
    (@slot $place:expr, ($e:ident)) => {
        $crate::reflect::Slot::Enum(&mut $place, <$e as $crate::reflect::Enumeration>::MEMBERS)
    };
}

/// Adds a field of a message, or the fields of a oneof.
macro_rules! declare {
    ($this:expr, $fields:ident, $n:ident oneof $o:ident) => {
        let oneof = Some($crate::reflect::plain(stringify!($n)));
        let fields = <$o as $crate::reflect::Oneof>::FIELDS.iter();
        $fields.extend(fields.map(|field| $crate::reflect::Declared { oneof, ..*field }));
    };
    ($this:expr, $fields:ident, $n:ident $kind:tt $t:tt) => {
        let (cardinality, kind) = declare!(@kind $this.$n, $kind);
        let name = $crate::reflect::plain(stringify!($n));
        $fields.push($crate::reflect::Declared { number: $t, name, cardinality, kind, oneof: None });
    };
    (@kind $place:expr, repeated) => {
        ($crate::reflect::Cardinality::Repeated, $crate::proto::kinds::of_elements(&$place))
    };
    (@kind $place:expr, map) => {
        ($crate::reflect::Cardinality::Map, $crate::proto::kinds::of_entries(&$place))
    };
    (@kind $place:expr, message) => {
        ($crate::reflect::Cardinality::Single, $crate::proto::kinds::of_message(&$place))
    };
    (@kind $place:expr, single) => {
        ($crate::reflect::Cardinality::Single, $crate::proto::kinds::of_value(&$place))
    };
    (@kind $place:expr, ($e:ident)) => {{
        let kind = $crate::reflect::Type::Enum(<$e as $crate::reflect::Named>::NAME);
        ($crate::reflect::Cardinality::Single, kind)
    }};
}

/// A oneof: fields are `name as Variant: KIND = NUMBER`.
macro_rules! oneof {
    ($(#[$doc:meta])* $name:ident { $($body:tt)* }) => {
        oneof! { @fields [$(#[$doc])* $name] [] [] $($body)* }
    };
    (@fields $head:tt [$($f:tt)*] [$($r:tt)*] $(#[$d:meta])* $n:ident as $v:ident: message $m:ident = $t:tt, $($rest:tt)*) => {
        oneof! { @fields $head [$($f)* $(#[$d])* #[prost(message, tag = $t)] $v($m),] [$($r)* ($n $v plain $t)] $($rest)* }
    };
    (@fields $head:tt [$($f:tt)*] [$($r:tt)*] $(#[$d:meta])* $n:ident as $v:ident: enumeration $e:ident = $t:tt, $($rest:tt)*) => {
        oneof! { @fields $head [$($f)* $(#[$d])* #[prost(enumeration($e), tag = $t)] $v(i32),] [$($r)* ($n $v ($e) $t)] $($rest)* }
    };
    (@fields $head:tt [$($f:tt)*] [$($r:tt)*] $(#[$d:meta])* $n:ident as $v:ident: bytes = $t:tt, $($rest:tt)*) => {
        oneof! { @fields $head
            [$($f)* $(#[$d])* #[prost(bytes = "bytes", tag = $t)] $v(::bytes::Bytes),] [$($r)* ($n $v plain $t)] $($rest)* }
    };
    (@fields $head:tt [$($f:tt)*] [$($r:tt)*] $(#[$d:meta])* $n:ident as $v:ident: $kind:ident = $t:tt, $($rest:tt)*) => {
        oneof! { @fields $head [$($f)* $(#[$d])* #[prost($kind, tag = $t)] $v(scalar!($kind)),] [$($r)* ($n $v plain $t)] $($rest)* }
    };
    (@fields [$(#[$doc:meta])* $name:ident] [$($f:tt)*] [$(($n:ident $v:ident $kind:tt $t:tt))*]) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, ::prost::Oneof)]
        #[allow(clippy::large_enum_variant)]
        pub enum $name { $($f)* }

        impl $crate::reflect::Oneof for $name {
            const FIELDS: &'static [$crate::reflect::Declared] = &[$($crate::reflect::Declared {
                number: $t,
                name: $crate::reflect::plain(stringify!($n)),
                cardinality: $crate::reflect::Cardinality::Single,
                kind: oneof!(@kind $name::$v, $kind),
                oneof: None,
            }),*];
            fn visit<'a>(&'a self, visit: &mut dyn FnMut($crate::reflect::Field<'a>)) {
                let label = $crate::reflect::Label::Single;
                let (number, name, value) = match self {
                    $($name::$v(set) => ($t, $crate::reflect::plain(stringify!($n)), oneof!(@value set, $kind)),)*
                };
                visit($crate::reflect::Field { number, name, label, value });
            }
            fn slot<'a>(this: &'a mut Option<Self>, name: &str) -> Option<$crate::reflect::Slot<'a>> {
                $(if name == $crate::reflect::plain(stringify!($n)) {
                    if !matches!(this, Some($name::$v(_))) {
                        *this = Some($name::$v(Default::default()));
                    }
                    return match this {
                        Some($name::$v(set)) => Some(oneof!(@slot set, $kind)),
                        _ => None,
                    };
                })*
                None
            }
        }
    };
    (@kind $variant:expr, plain) => { $crate::proto::kinds::of_variant($variant) };
    (@kind $variant:expr, ($e:ident)) => { $crate::reflect::Type::Enum(<$e as $crate::reflect::Named>::NAME) };
    (@value $set:expr, plain) => { $crate::proto::kinds::Kind::value($set) };
    (@value $set:expr, ($e:ident)) => {
        $crate::reflect::Value::Enum(*$set, $crate::reflect::member_name::<$e>(*$set))
    };
    (@slot $set:expr, plain) => { $crate::proto::kinds::Kind::slot($set) };
    (@slot $set:expr, ($e:ident)) => {
        $crate::reflect::Slot::Enum($set, <$e as $crate::reflect::Enumeration>::MEMBERS)
    };
}

/// An enumeration: members are `NAME as Variant = NUMBER`.
macro_rules! enumeration {
    ($(#[$doc:meta])* $full:literal $name:ident { $($(#[$d:meta])* $n:ident as $v:ident = $t:expr,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ::prost::Enumeration)]
        #[repr(i32)]
        pub enum $name { $($(#[$d])* $v = $t,)* }

        impl $crate::reflect::Named for $name {
            const NAME: &'static str = $full;
        }

        impl $crate::reflect::Enumeration for $name {
            const MEMBERS: $crate::reflect::Members = &[$((stringify!($n), $t)),*];
        }
    };
}

/// A service: methods are `Name(REQUEST) -> ANSWER;`, where each is a message `M` or `stream M`.
macro_rules! service {
    ($(#[$doc:meta])* $full:literal $name:ident { $($method:ident($($request:ident)+) -> $($answer:ident)+;)* }) => {
        $(#[$doc])*
        pub const $name: $crate::proto::Service = $crate::proto::Service {
            name: $full,
            methods: &[$($crate::proto::Method {
                name: stringify!($method),
                request: service!(@message $($request)+),
                requests: service!(@is_stream $($request)+),
                answer: service!(@message $($answer)+),
                answers: service!(@is_stream $($answer)+),
            }),*],
        };
    };
    (@message stream $message:ident) => { <$message as $crate::reflect::Named>::NAME };
    (@message $message:ident) => { <$message as $crate::reflect::Named>::NAME };
    (@is_stream stream $message:ident) => { true };
    (@is_stream $message:ident) => { false };
}
