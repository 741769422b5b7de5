//! Descriptors of all messages and services, which `protoc` would make of `.proto` files: for clients that ask the server for them.
//!
//! They have what is needed to read and write messages. Comments, options, and reserved names and numbers are missing.

use crate::proto::{self, File, Method};
use crate::reflect::{Cardinality, Declared, Reflect, Type};
use prost_types::field_descriptor_proto::{Label, Type as Code};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, EnumValueDescriptorProto, FieldDescriptorProto,
    FileDescriptorProto, MessageOptions, MethodDescriptorProto, OneofDescriptorProto, ServiceDescriptorProto,
};

/// The package of the reflection service, and the name that it had first. Older clients use that one.
const REFLECTION: [&str; 2] = ["grpc.reflection.v1", "grpc.reflection.v1alpha"];

/// Returns the descriptors of all files.
pub fn files() -> Vec<FileDescriptorProto> {
    let files = proto::files();
    let mut described: Vec<_> = files.iter().map(|file| described(file, &files)).collect();
    let reflection = described.iter().find(|file| file.package() == REFLECTION[0]).map(renamed);
    described.extend(reflection);
    described
}

fn described(file: &File, files: &[File]) -> FileDescriptorProto {
    let is_used = |other: &&File| {
        let defines = |name: &str| {
            other.messages.iter().any(|message| message.full_name() == name)
                || other.enumerations.iter().any(|(enumeration, _)| *enumeration == name)
        };
        let fields = file.messages.iter().flat_map(|message| message.fields());
        let methods = file.services.iter().flat_map(|service| service.methods);
        other.name != file.name
            && (fields.filter_map(|field| named(field.kind)).any(defines)
                || methods.flat_map(|method| [method.request, method.answer]).any(defines))
    };
    let service = |service: &proto::Service| ServiceDescriptorProto {
        name: last(service.name),
        method: service.methods.iter().map(method).collect(),
        options: None,
    };
    FileDescriptorProto {
        name: Some(file.name.to_string()),
        package: Some(file.package.to_string()),
        dependency: files.iter().filter(is_used).map(|other| other.name.to_string()).collect(),
        message_type: messages_in(file, file.package),
        enum_type: enumerations_in(file, file.package),
        service: file.services.iter().map(service).collect(),
        syntax: Some("proto3".to_string()),
        ..FileDescriptorProto::default()
    }
}

/// The messages whose names are in a scope: a package or a message.
fn messages_in(file: &File, scope: &str) -> Vec<DescriptorProto> {
    let messages = file.messages.iter().filter(|message| is_in(message.full_name(), scope));
    messages.map(|message| message_type(file, &**message)).collect()
}

fn message_type(file: &File, message: &dyn Reflect) -> DescriptorProto {
    let name = message.full_name();
    let mut described = DescriptorProto {
        name: last(name),
        nested_type: messages_in(file, name),
        enum_type: enumerations_in(file, name),
        ..DescriptorProto::default()
    };
    for declared in message.fields() {
        let mut field = field(&declared);
        if declared.cardinality == Cardinality::Map {
            let entry = entry(&declared);
            field.type_name = Some(format!(".{name}.{}", entry.name()));
            described.nested_type.push(entry);
        }
        if let Some(oneof) = declared.oneof {
            let known = described.oneof_decl.iter().position(|known| known.name() == oneof);
            let index = known.unwrap_or(described.oneof_decl.len());
            if known.is_none() {
                let name = Some(oneof.to_string());
                described.oneof_decl.push(OneofDescriptorProto { name, options: None });
            }
            field.oneof_index = i32::try_from(index).ok();
        }
        described.field.push(field);
    }
    described
}

/// The message that is an entry of a map in binary.
fn entry(map: &Declared) -> DescriptorProto {
    let capitalised = |word: &str| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_uppercase() + rest
    };
    let words: String = map.name.split('_').map(capitalised).collect();
    let single =
        Declared { number: 0, name: "", cardinality: Cardinality::Single, kind: Type::String, oneof: None };
    DescriptorProto {
        name: Some(words + "Entry"),
        field: vec![
            field(&Declared { number: 1, name: "key", ..single }),
            field(&Declared { number: 2, name: "value", kind: map.kind, ..single }),
        ],
        options: Some(MessageOptions { map_entry: Some(true), ..MessageOptions::default() }),
        ..DescriptorProto::default()
    }
}

fn field(field: &Declared) -> FieldDescriptorProto {
    let label = match field.cardinality {
        Cardinality::Single => Label::Optional,
        Cardinality::Repeated | Cardinality::Map => Label::Repeated,
    };
    let code = match field.kind {
        Type::Bool => Code::Bool,
        Type::Int32 => Code::Int32,
        Type::Int64 => Code::Int64,
        Type::Uint32 => Code::Uint32,
        Type::Uint64 => Code::Uint64,
        Type::String => Code::String,
        Type::Bytes => Code::Bytes,
        Type::Enum(_) => Code::Enum,
        Type::Message(_) => Code::Message,
    };
    FieldDescriptorProto {
        name: Some(field.name.to_string()),
        number: i32::try_from(field.number).ok(),
        label: Some(label.into()),
        r#type: Some(code.into()),
        type_name: named(field.kind).map(|name| format!(".{name}")),
        ..FieldDescriptorProto::default()
    }
}

/// The full name of a type that has one.
fn named(kind: Type) -> Option<&'static str> {
    match kind {
        Type::Enum(name) | Type::Message(name) => Some(name),
        _ => None,
    }
}

fn enumerations_in(file: &File, scope: &str) -> Vec<EnumDescriptorProto> {
    let enumerations = file.enumerations.iter().filter(|(name, _)| is_in(name, scope));
    let described = enumerations.map(|(name, members)| EnumDescriptorProto {
        name: last(name),
        value: members
            .iter()
            .map(|(name, number)| EnumValueDescriptorProto {
                name: Some((*name).to_string()),
                number: Some(*number),
                options: None,
            })
            .collect(),
        ..EnumDescriptorProto::default()
    });
    described.collect()
}

fn method(method: &Method) -> MethodDescriptorProto {
    MethodDescriptorProto {
        name: Some(method.name.to_string()),
        input_type: Some(format!(".{}", method.request)),
        output_type: Some(format!(".{}", method.answer)),
        client_streaming: method.requests.then_some(true),
        server_streaming: method.answers.then_some(true),
        options: None,
    }
}

/// The file of the reflection service under its first name.
fn renamed(file: &FileDescriptorProto) -> FileDescriptorProto {
    let [new, old] = REFLECTION;
    let mut file = file.clone();
    let mut names = vec![&mut file.package];
    names.extend(file.message_type.iter_mut().flat_map(|m| &mut m.field).map(|field| &mut field.type_name));
    let methods = file.service.iter_mut().flat_map(|service| &mut service.method);
    names.extend(methods.flat_map(|method| [&mut method.input_type, &mut method.output_type]));
    for name in names.into_iter().flatten() {
        *name = name.replace(new, old);
    }
    file.name = file.name.map(|name| name.replace(&new.replace('.', "/"), &old.replace('.', "/")));
    file
}

/// True if a full name is directly in a scope.
fn is_in(name: &str, scope: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(outer, _)| outer == scope)
}

/// The last word of a full name.
fn last(name: &str) -> Option<String> {
    name.rsplit('.').next().map(str::to_string)
}
