//! Server reflection over the loopback: what grpcurl asks for, and clients that try to exhaust the server.

use bytes::Bytes;
use p4jet_p4info::proto::grpc::{
    ExtensionRequest, ReflectionAnswer, ReflectionQuestion as Question, ServerReflectionRequest,
    ServerReflectionResponse,
};
use p4jet_p4runtime::client::{Client, Stream};
use p4jet_p4runtime::server::{Options, Server, Who};
use p4jet_p4runtime::session::Rules;
use prost::Message;
use prost_types::FileDescriptorProto;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tonic::{Code, Status};

use crate::common::Fixture;

const V1: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
const V1_ALPHA: &str = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
/// Time to wait for a message.
const LONG: Duration = Duration::from_secs(30);

fn start() -> Server {
    let options = Options {
        address: ([127, 0, 0, 1], 0).into(),
        rules: Rules { device: Some(1), streams_max: 16, as_bmv2: false },
        has_program: true,
        admit: Arc::new(|peer, _| Ok(Who::at(peer.ip()))),
        tls: None,
        cpu: None,
        log: Arc::new(|_| ()),
    };
    Server::start(Fixture::new().switch, options).unwrap()
}

fn question(question: Question) -> Bytes {
    let host = "localhost".to_string();
    ServerReflectionRequest { host, message_request: Some(question) }.encode_to_vec().into()
}

/// Asks a question on a stream; an error is its code and text.
fn ask(stream: &mut Stream, asked: Question) -> Result<ReflectionAnswer, (i32, String)> {
    stream.send_raw(question(asked.clone())).unwrap();
    let answer = stream.next_raw(LONG).unwrap().expect("an answer");
    let answer = ServerReflectionResponse::decode(answer).unwrap();
    assert_eq!(answer.valid_host, "localhost");
    assert_eq!(answer.original_request.and_then(|request| request.message_request), Some(asked));
    match answer.message_response.expect("an answer") {
        ReflectionAnswer::Error(error) => Err((error.error_code, error.error_message)),
        answer => Ok(answer),
    }
}

/// Asks for a file.
fn file(stream: &mut Stream, asked: Question) -> FileDescriptorProto {
    match ask(stream, asked).unwrap() {
        ReflectionAnswer::FileDescriptor(files) => {
            assert_eq!(files.file_descriptor_proto.len(), 1);
            FileDescriptorProto::decode(&files.file_descriptor_proto[0][..]).unwrap()
        }
        _ => panic!("no file"),
    }
}

fn symbol(stream: &mut Stream, name: &str) -> FileDescriptorProto {
    file(stream, Question::FileContainingSymbol(name.to_string()))
}

fn services(stream: &mut Stream) -> Vec<String> {
    match ask(stream, Question::ListServices("*".to_string())).unwrap() {
        ReflectionAnswer::ListServices(list) => {
            list.service.into_iter().map(|service| service.name).collect()
        }
        _ => panic!("no services"),
    }
}

#[test]
fn t_10_the_server_describes_its_services() {
    let server = start();
    let client = Client::connect(server.address()).unwrap();
    for path in [V1, V1_ALPHA] {
        let mut stream = client.stream_of(path).unwrap();
        assert_eq!(
            services(&mut stream),
            [
                "p4.v1.P4Runtime",
                "grpc.health.v1.Health",
                "grpc.reflection.v1.ServerReflection",
                "grpc.reflection.v1alpha.ServerReflection"
            ]
        );
        let runtime = symbol(&mut stream, "p4.v1.P4Runtime");
        assert_eq!((runtime.name(), runtime.package()), ("p4/v1/p4runtime.proto", "p4.v1"));
        let methods: Vec<_> = runtime.service[0].method.iter().map(|method| method.name()).collect();
        let all = [
            "Write",
            "Read",
            "SetForwardingPipelineConfig",
            "GetForwardingPipelineConfig",
            "StreamChannel",
            "Capabilities",
        ];
        assert_eq!(methods, all);
        for name in [
            "p4.v1.P4Runtime.Write",
            "p4.v1.TableEntry",
            "p4.v1.TableEntry.IdleTimeout",
            "p4.v1.FieldMatch.LPM.prefix_len",
            "p4.v1.Update.Type",
            "p4.v1.Update.INSERT",
            "p4.v1.Entity.entity",
            "p4.v1.SDN_PORT_CPU",
        ] {
            assert_eq!(symbol(&mut stream, name), runtime, "{name}");
        }
        assert_eq!(symbol(&mut stream, "stratum.P4RoleConfig").package(), "stratum");

        // With what they import, the files of the services are complete.
        let mut files = BTreeMap::new();
        let mut missing: BTreeSet<String> = services(&mut stream)
            .iter()
            .map(|service| symbol(&mut stream, service).name().to_string())
            .collect();
        while let Some(name) = missing.pop_first() {
            let found = file(&mut stream, Question::FileByFilename(name.clone()));
            missing.extend(found.dependency.iter().filter(|name| !files.contains_key(*name)).cloned());
            files.insert(name, found);
        }
        assert!(
            files.contains_key("p4/config/v1/p4types.proto") && files.contains_key("google/rpc/status.proto")
        );
        let mut pool = prost_reflect::DescriptorPool::new();
        pool.add_file_descriptor_protos(files.into_values()).unwrap();
        assert_eq!(pool.services().count(), 4);
    }
}

#[test]
fn every_described_method_exists() {
    let server = start();
    let client = Client::connect(server.address()).unwrap();
    let files = p4jet_p4info::proto::files();
    for service in files.iter().flat_map(|file| &file.services) {
        for method in service.methods {
            let path = format!("/{}/{}", service.name, method.name);
            let code = client.first(&path, Bytes::new()).map_or_else(|status| status.code(), |_| Code::Ok);
            assert_ne!(code, Code::Unimplemented, "{path}");
        }
    }
}

#[test]
fn questions_without_an_answer_leave_the_stream_open() {
    let server = start();
    let client = Client::connect(server.address()).unwrap();
    let mut stream = client.stream_of(V1).unwrap();
    let not_found = Code::NotFound as i32;
    for (asked, text) in [
        (Question::FileContainingSymbol("p4.v1.Nothing".into()), "the server has no symbol `p4.v1.Nothing`"),
        (Question::FileContainingSymbol("".into()), "the server has no symbol ``"),
        (Question::FileByFilename("p4runtime.proto".into()), "the server has no file `p4runtime.proto`"),
        (Question::AllExtensionNumbersOfType("x".into()), "the server has no message `x`"),
        (
            Question::FileContainingExtension(ExtensionRequest {
                containing_type: "p4.v1.TableEntry".into(),
                extension_number: 5,
            }),
            "the messages have no extensions",
        ),
    ] {
        assert_eq!(ask(&mut stream, asked).unwrap_err(), (not_found, text.to_string()));
    }
    match ask(&mut stream, Question::AllExtensionNumbersOfType("p4.v1.TableEntry".into())).unwrap() {
        ReflectionAnswer::AllExtensionNumbers(none) => {
            assert_eq!((none.base_type_name.as_str(), none.extension_number.len()), ("p4.v1.TableEntry", 0));
        }
        _ => panic!("no numbers"),
    }
    stream.send_raw(Bytes::new()).unwrap();
    let answer = ServerReflectionResponse::decode(stream.next_raw(LONG).unwrap().unwrap()).unwrap();
    match answer.message_response.unwrap() {
        ReflectionAnswer::Error(error) => assert_eq!(error.error_code, Code::InvalidArgument as i32),
        _ => panic!("no error"),
    }
    assert_eq!(services(&mut stream).len(), 4);
}

/// The status with which a stream ends.
fn end(mut stream: Stream) -> Status {
    loop {
        match stream.next_raw(LONG) {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it ends without an error"),
            Err(status) => return status,
        }
    }
}

#[test]
fn wrong_and_long_questions_end_their_stream() {
    let server = start();
    let client = Client::connect(server.address()).unwrap();
    let long = client.stream_of(V1).unwrap();
    long.send_raw(question(Question::FileContainingSymbol("x".repeat(5000)))).unwrap();
    let status = end(long);
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    assert!(status.message().contains("the limit is 4096"), "{status}");
    let wrong = client.stream_of(V1).unwrap();
    wrong.send_raw(Bytes::from_static(b"\x22\x7f")).unwrap();
    let status = end(wrong);
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    assert_eq!(services(&mut client.stream_of(V1).unwrap()).len(), 4);
}

#[test]
fn a_client_has_four_reflection_streams() {
    let server = start();
    let client = Client::connect(server.address()).unwrap();
    let mut streams: Vec<_> = [V1, V1_ALPHA, V1, V1].map(|path| client.stream_of(path).unwrap()).into();
    let fifth = client.stream_of(V1).err().expect("it is refused");
    assert_eq!(fifth.code(), Code::ResourceExhausted, "{fifth}");
    assert!(fifth.message().contains("4 reflection streams"), "{fifth}");
    // Those that are open, and other clients, are not affected.
    assert_eq!(services(&mut streams[3]).len(), 4);
    let other = Client::connect(server.address()).unwrap();
    assert_eq!(services(&mut other.stream_of(V1).unwrap()).len(), 4);
    // A stream that has ended makes room.
    let mut first = streams.remove(0);
    first.half_close();
    assert!(first.next_raw(LONG).unwrap().is_none());
    drop(first);
    let end = std::time::Instant::now() + LONG;
    while client.stream_of(V1).is_err() {
        assert!(std::time::Instant::now() < end, "there is no room");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_client_that_never_reads_is_not_asked_to_send_more() {
    let server = start();
    let client = Client::connect(server.address()).unwrap();
    let stream = client.stream_of(V1).unwrap();
    let sent = Arc::new(AtomicUsize::new(0));
    let sender = {
        let sent = Arc::clone(&sent);
        // Nearly 4 KiB each, so that few fit in the server's window of 1 MiB.
        let host = "x".repeat(4000);
        let message_request = Some(Question::FileContainingSymbol("p4.v1.P4Runtime".to_string()));
        let message: Bytes = ServerReflectionRequest { host, message_request }.encode_to_vec().into();
        std::thread::spawn(move || {
            while stream.send_raw(message.clone()).is_ok() {
                sent.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    // It stops when the windows of both sides are full.
    let end = std::time::Instant::now() + Duration::from_secs(60);
    let mut before = usize::MAX;
    while before != sent.load(Ordering::Relaxed) || before == 0 {
        before = sent.load(Ordering::Relaxed);
        assert!(before < 5_000 && std::time::Instant::now() < end, "{before} questions were taken");
        std::thread::sleep(Duration::from_secs(1));
    }
    // The others are served.
    let other = Client::connect(server.address()).unwrap();
    assert_eq!(other.capabilities(1).unwrap().p4runtime_api_version, p4jet_p4runtime::server::API_VERSION);
    assert_eq!(services(&mut other.stream_of(V1).unwrap()).len(), 4);
    drop(server);
    sender.join().unwrap();
}
