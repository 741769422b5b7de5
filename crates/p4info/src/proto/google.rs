//! The messages of `google.protobuf` and `google.rpc` that P4Runtime uses.

message! {
    /// A message of any type.
    "google.protobuf.Any" Any {
        /// The type: `type.googleapis.com/` and the full name of the message.
        type_url: string = 1,
        /// The message in binary.
        value: bytes = 2,
    }
}

message! {
    /// The outcome of an RPC, or of a request on a stream.
    "google.rpc.Status" Status {
        /// gRPC's canonical code; 0 is OK.
        code: int32 = 1,
        /// An explanation for people.
        message: string = 2,
        /// Details: P4Runtime puts one `p4.v1.Error` per update here ("Batching and Ordering of Updates").
        details: repeated message Any = 3,
    }
}

super::define_files! {
    "google/protobuf/any.proto" in "google.protobuf" {
        messages { Any }
        enumerations {}
        services {}
    }
    "google/rpc/status.proto" in "google.rpc" {
        messages { Status }
        enumerations {}
        services {}
    }
}
