//! The descriptors describe every message as it is written: an independent reader of descriptors understands random messages.

use p4jet_p4info::{descriptors, proto};
use prost_reflect::prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, Kind, MessageDescriptor, Value};

use crate::random::{DEPTH, Random, fill};

/// Checks names, numbers, types, oneofs, enumerations and imports.
fn pool() -> DescriptorPool {
    let mut pool = DescriptorPool::new();
    pool.add_file_descriptor_protos(descriptors::files()).expect("every type is in an imported file");
    pool
}

/// The names of the fields that no descriptor explains, in a message and those in it.
fn unknown(message: &DynamicMessage) -> usize {
    let inner = message.fields().map(|(_, value)| match value {
        Value::Message(inner) => unknown(inner),
        Value::List(list) => list.iter().filter_map(Value::as_message).map(unknown).sum(),
        Value::Map(map) => map.values().filter_map(Value::as_message).map(unknown).sum(),
        _ => 0,
    });
    message.unknown_fields().count() + inner.sum::<usize>()
}

#[test]
fn random_messages_are_read_by_their_descriptors() {
    let (pool, mut random) = (pool(), Random(11));
    for file in proto::files() {
        for mut message in file.messages {
            let name = message.full_name();
            let descriptor = pool.get_message_by_name(name).expect(name);
            assert_eq!(descriptor.parent_file().name(), file.name, "{name}");
            assert_eq!(descriptor.parent_file().package_name(), file.package, "{name}");
            let fields = message.fields();
            assert_eq!(descriptor.fields().count(), fields.len(), "{name}");
            for _ in 0..20 {
                fill(&mut *message, &mut random, DEPTH);
                let binary = message.encode();
                let read = DynamicMessage::decode(descriptor.clone(), &binary[..]).expect(name);
                assert_eq!(unknown(&read), 0, "{name}: {read}");
                // The order of fields can differ.
                let (mut ours, mut theirs) = (binary, read.encode_to_vec());
                ours.sort_unstable();
                theirs.sort_unstable();
                assert_eq!(ours, theirs, "{name}: {read}");
                // Names of fields, and values of enumerations by their names.
                let text = String::from_utf8(p4jet_p4info::Format::Text.write(&*message)).expect("text");
                let named = DynamicMessage::parse_text_format(descriptor.clone(), &text);
                let named = named.unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
                assert_eq!(named, read, "{name}:\n{text}");
            }
        }
    }
}

#[test]
fn all_names_are_those_of_the_files() {
    let pool = pool();
    let mut names: Vec<_> = pool.all_messages().filter(|m| !m.is_map_entry()).collect();
    // Under its first name, the reflection service has the same messages again.
    names.retain(|message| message.package_name() != "grpc.reflection.v1alpha");
    assert_eq!(names.len(), proto::files().iter().map(|file| file.messages.len()).sum::<usize>());
    // Each enumeration is a type of a field, but for two that explain numbers.
    let is_of = |message: &MessageDescriptor, name: &str| {
        message.fields().any(|field| matches!(field.kind(), Kind::Enum(kind) if kind.full_name() == name))
    };
    let unused = pool.all_enums().filter(|e| !pool.all_messages().any(|m| is_of(&m, e.full_name())));
    let unused: Vec<_> = unused.map(|unused| unused.full_name().to_string()).collect();
    assert_eq!(unused, ["p4.config.v1.P4Ids.Prefix", "p4.v1.SdnPort"]);
    let oneof = pool.get_message_by_name("p4.config.v1.MatchField").expect("it exists").oneofs().next();
    assert_eq!(oneof.expect("a oneof").full_name(), "p4.config.v1.MatchField.match");
}

#[test]
fn services_have_their_methods() {
    let mut found = Vec::new();
    for service in pool().services() {
        for method in service.methods() {
            let stream = |is_stream| if is_stream { "stream " } else { "" };
            found.push(format!(
                "{}({}{}) {}{}",
                method.full_name(),
                stream(method.is_client_streaming()),
                method.input().name(),
                stream(method.is_server_streaming()),
                method.output().full_name()
            ));
        }
    }
    assert_eq!(
        found,
        [
            "p4.v1.P4Runtime.Write(WriteRequest) p4.v1.WriteResponse",
            "p4.v1.P4Runtime.Read(ReadRequest) stream p4.v1.ReadResponse",
            "p4.v1.P4Runtime.SetForwardingPipelineConfig(SetForwardingPipelineConfigRequest) \
             p4.v1.SetForwardingPipelineConfigResponse",
            "p4.v1.P4Runtime.GetForwardingPipelineConfig(GetForwardingPipelineConfigRequest) \
             p4.v1.GetForwardingPipelineConfigResponse",
            "p4.v1.P4Runtime.StreamChannel(stream StreamMessageRequest) stream p4.v1.StreamMessageResponse",
            "p4.v1.P4Runtime.Capabilities(CapabilitiesRequest) p4.v1.CapabilitiesResponse",
            "grpc.health.v1.Health.Check(HealthCheckRequest) grpc.health.v1.HealthCheckResponse",
            "grpc.health.v1.Health.Watch(HealthCheckRequest) stream grpc.health.v1.HealthCheckResponse",
            "grpc.reflection.v1.ServerReflection.ServerReflectionInfo(stream ServerReflectionRequest) \
             stream grpc.reflection.v1.ServerReflectionResponse",
            "grpc.reflection.v1alpha.ServerReflection.ServerReflectionInfo(stream ServerReflectionRequest) \
             stream grpc.reflection.v1alpha.ServerReflectionResponse",
        ]
    );
}
