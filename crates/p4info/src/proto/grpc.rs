//! The services that many gRPC servers have besides their own: health and reflection.

message! {
    /// Asks for the health of a service.
    "grpc.health.v1.HealthCheckRequest" HealthCheckRequest {
        /// Full name of the service; empty is the whole server.
        service: string = 1,
    }
}

enumeration! {
    /// The health of a service.
    "grpc.health.v1.HealthCheckResponse.ServingStatus" ServingStatus {
        /// Not set.
        UNKNOWN as Unknown = 0,
        /// It answers.
        SERVING as Serving = 1,
        /// It does not answer.
        NOT_SERVING as NotServing = 2,
        /// The server has no such service; only `Watch` says so.
        SERVICE_UNKNOWN as ServiceUnknown = 3,
    }
}

message! {
    /// The health of a service.
    "grpc.health.v1.HealthCheckResponse" HealthCheckResponse {
        /// The health.
        status: enumeration ServingStatus = 1,
    }
}

service! {
    /// The health service.
    "grpc.health.v1.Health" HEALTH {
        Check(HealthCheckRequest) -> HealthCheckResponse;
        Watch(HealthCheckRequest) -> stream HealthCheckResponse;
    }
}

oneof! {
    /// A question about the server's services and their messages.
    ReflectionQuestion {
        /// Asks for the file with this name.
        file_by_filename as FileByFilename: string = 3,
        /// Asks for the file that defines this name.
        file_containing_symbol as FileContainingSymbol: string = 4,
        /// Asks for the file that defines an extension.
        file_containing_extension as FileContainingExtension: message ExtensionRequest = 5,
        /// Asks for the numbers of all extensions of this message.
        all_extension_numbers_of_type as AllExtensionNumbersOfType: string = 6,
        /// Asks for the services; the text does not matter.
        list_services as ListServices: string = 7,
    }
}

message! {
    /// A question about the server's services and their messages.
    "grpc.reflection.v1.ServerReflectionRequest" ServerReflectionRequest {
        /// The server to which it is addressed.
        host: string = 1,
        /// The question.
        message_request: oneof ReflectionQuestion(3, 4, 5, 6, 7),
    }
}

message! {
    /// An extension.
    "grpc.reflection.v1.ExtensionRequest" ExtensionRequest {
        /// Full name of the message that it extends.
        containing_type: string = 1,
        /// Its number.
        extension_number: int32 = 2,
    }
}

oneof! {
    /// The answer to a question.
    ReflectionAnswer {
        /// Files.
        file_descriptor_response as FileDescriptor: message FileDescriptorResponse = 4,
        /// Numbers of extensions.
        all_extension_numbers_response as AllExtensionNumbers: message ExtensionNumberResponse = 5,
        /// Services.
        list_services_response as ListServices: message ListServiceResponse = 6,
        /// There is no answer.
        error_response as Error: message ErrorResponse = 7,
    }
}

message! {
    /// The answer to a question.
    "grpc.reflection.v1.ServerReflectionResponse" ServerReflectionResponse {
        /// The server that the question named.
        valid_host: string = 1,
        /// The question.
        original_request: message ServerReflectionRequest = 2,
        /// The answer.
        message_response: oneof ReflectionAnswer(4, 5, 6, 7),
    }
}

message! {
    /// Files.
    "grpc.reflection.v1.FileDescriptorResponse" FileDescriptorResponse {
        /// Each a `google.protobuf.FileDescriptorProto` in binary.
        file_descriptor_proto: repeated bytes = 1,
    }
}

message! {
    /// The extensions of a message.
    "grpc.reflection.v1.ExtensionNumberResponse" ExtensionNumberResponse {
        /// Full name of the message.
        base_type_name: string = 1,
        /// Their numbers.
        extension_number: repeated int32 = 2,
    }
}

message! {
    /// Services.
    "grpc.reflection.v1.ListServiceResponse" ListServiceResponse {
        /// The services.
        service: repeated message ServiceResponse = 1,
    }
}

message! {
    /// A service.
    "grpc.reflection.v1.ServiceResponse" ServiceResponse {
        /// Full name.
        name: string = 1,
    }
}

message! {
    /// The reason why there is no answer.
    "grpc.reflection.v1.ErrorResponse" ErrorResponse {
        /// gRPC's canonical code.
        error_code: int32 = 1,
        /// An explanation for people.
        error_message: string = 2,
    }
}

service! {
    /// The reflection service.
    "grpc.reflection.v1.ServerReflection" SERVER_REFLECTION {
        ServerReflectionInfo(stream ServerReflectionRequest) -> stream ServerReflectionResponse;
    }
}

super::define_files! {
    "grpc/health/v1/health.proto" in "grpc.health.v1" {
        messages { HealthCheckRequest HealthCheckResponse }
        enumerations { ServingStatus }
        services { HEALTH }
    }
    "grpc/reflection/v1/reflection.proto" in "grpc.reflection.v1" {
        messages {
            ServerReflectionRequest ExtensionRequest ServerReflectionResponse FileDescriptorResponse ExtensionNumberResponse
            ListServiceResponse ServiceResponse ErrorResponse
        }
        enumerations {}
        services { SERVER_REFLECTION }
    }
}
