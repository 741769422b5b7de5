//! Server reflection: clients without `.proto` files ask for the services and for the descriptors of their messages.

use super::Connection;
use bytes::Bytes;
use p4jet_p4info::descriptors;
use p4jet_p4info::proto::grpc::{
    ErrorResponse, ExtensionNumberResponse, FileDescriptorResponse, ListServiceResponse, ReflectionAnswer,
    ReflectionQuestion, ServerReflectionRequest, ServerReflectionResponse, ServiceResponse,
};
use prost::Message;
use prost_types::{DescriptorProto, EnumDescriptorProto};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use tokio_stream::{Stream, StreamExt};
use tonic::{Code, Status, Streaming};

/// Maximum number of reflection streams of a client.
pub const REFLECTIONS_OF_CLIENT_MAX: usize = 4;
/// Maximum size of a question in bytes. The answer contains it.
pub const QUESTION_BYTES_MAX: usize = 4 << 10;

/// Answers a client's questions, each when the client has room for the answer.
///
/// # Errors
/// The client has too many streams.
pub fn open(
    connection: &Connection,
    questions: Streaming<Bytes>,
) -> Result<impl Stream<Item = Result<Bytes, Status>> + use<>, Status> {
    let permit = Arc::clone(&connection.reflections).try_acquire_owned().map_err(|_| {
        Status::resource_exhausted(format!(
            "the client has {REFLECTIONS_OF_CLIENT_MAX} reflection streams, which is the limit"
        ))
    })?;
    Ok(questions.map(move |question| {
        let _held = &permit;
        answer(question?)
    }))
}

fn answer(question: Bytes) -> Result<Bytes, Status> {
    let question = ServerReflectionRequest::decode(question)
        .map_err(|error| Status::invalid_argument(format!("the message cannot be decoded: {error}")))?;
    let answer = match &question.message_request {
        Some(asked) => DESCRIBED.answer(asked),
        None => Err((Code::InvalidArgument, "the message has no question".to_string())),
    };
    let answer = answer.unwrap_or_else(|(code, error_message)| {
        ReflectionAnswer::Error(ErrorResponse { error_code: code as i32, error_message })
    });
    let answer = ServerReflectionResponse {
        valid_host: question.host.clone(),
        original_request: Some(question),
        message_response: Some(answer),
    };
    Ok(answer.encode_to_vec().into())
}

static DESCRIBED: LazyLock<Described> = LazyLock::new(Described::new);

/// The descriptors of all services and messages.
struct Described {
    services: Vec<String>,
    /// Descriptors in binary by the names of files.
    files: HashMap<String, Bytes>,
    /// Descriptors in binary by the full names of what the files define.
    symbols: HashMap<String, Bytes>,
}

impl Described {
    fn new() -> Described {
        let mut described =
            Described { services: Vec::new(), files: HashMap::new(), symbols: HashMap::new() };
        for file in descriptors::files() {
            let binary = Bytes::from(file.encode_to_vec());
            let mut names = Vec::new();
            for service in &file.service {
                let name = format!("{}.{}", file.package(), service.name());
                names.extend(service.method.iter().map(|method| format!("{name}.{}", method.name())));
                described.services.push(name.clone());
                names.push(name);
            }
            add_messages(file.package(), &file.message_type, &mut names);
            add_enumerations(file.package(), &file.enum_type, &mut names);
            described.symbols.extend(names.into_iter().map(|name| (name, binary.clone())));
            described.files.insert(file.name().to_string(), binary);
        }
        described
    }

    fn answer(&self, question: &ReflectionQuestion) -> Result<ReflectionAnswer, (Code, String)> {
        let one = |found: Option<&Bytes>, what: &str, name: &str| {
            let file = found.ok_or_else(|| (Code::NotFound, format!("the server has no {what} `{name}`")))?;
            let files = FileDescriptorResponse { file_descriptor_proto: vec![file.clone()] };
            Ok(ReflectionAnswer::FileDescriptor(files))
        };
        match question {
            ReflectionQuestion::FileByFilename(name) => one(self.files.get(name), "file", name),
            ReflectionQuestion::FileContainingSymbol(name) => one(self.symbols.get(name), "symbol", name),
            ReflectionQuestion::FileContainingExtension(_) => {
                Err((Code::NotFound, "the messages have no extensions".to_string()))
            }
            ReflectionQuestion::AllExtensionNumbersOfType(name) => {
                one(self.symbols.get(name), "message", name)?;
                let base_type_name = name.clone();
                let none = ExtensionNumberResponse { base_type_name, extension_number: Vec::new() };
                Ok(ReflectionAnswer::AllExtensionNumbers(none))
            }
            ReflectionQuestion::ListServices(_) => {
                let services = self.services.iter().map(|name| ServiceResponse { name: name.clone() });
                Ok(ReflectionAnswer::ListServices(ListServiceResponse { service: services.collect() }))
            }
        }
    }
}

/// Adds the full names of messages in a scope, and of what they define.
fn add_messages(scope: &str, messages: &[DescriptorProto], names: &mut Vec<String>) {
    for message in messages {
        let name = format!("{scope}.{}", message.name());
        names.extend(message.field.iter().map(|field| format!("{name}.{}", field.name())));
        names.extend(message.oneof_decl.iter().map(|oneof| format!("{name}.{}", oneof.name())));
        add_messages(&name, &message.nested_type, names);
        add_enumerations(&name, &message.enum_type, names);
        names.push(name);
    }
}

/// Adds the full names of enumerations in a scope, and of their members, which are in the same scope.
fn add_enumerations(scope: &str, enumerations: &[EnumDescriptorProto], names: &mut Vec<String>) {
    for enumeration in enumerations {
        names.push(format!("{scope}.{}", enumeration.name()));
        names.extend(enumeration.value.iter().map(|member| format!("{scope}.{}", member.name())));
    }
}
