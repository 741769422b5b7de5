//! Package `p4.config.v1`: the control plane's view of a program ("The P4Info Message"), and the types of its values.
//!
//! Annotations appear in several messages with the same three fields: `annotations` has `@name(body)` as text,
//! `structured_annotations` those in brackets, and `annotation_locations` optionally a place for each element of
//! `annotations`.

use super::google::Any;

message! {
    /// Everything that the control plane can see of a program ("The P4Info Message").
    "p4.config.v1.P4Info" P4Info {
        /// About the program as a whole.
        pkg_info: message PkgInfo = 1,
        /// Tables.
        tables: repeated message Table = 2,
        /// The actions of the tables.
        actions: repeated message Action = 3,
        /// Action profiles and selectors.
        action_profiles: repeated message ActionProfile = 4,
        /// Indexed counters.
        counters: repeated message Counter = 5,
        /// Counters of table entries.
        direct_counters: repeated message DirectCounter = 6,
        /// Indexed meters.
        meters: repeated message Meter = 7,
        /// Meters of table entries.
        direct_meters: repeated message DirectMeter = 8,
        /// The headers of packets to and from the control plane.
        controller_packet_metadata: repeated message ControllerPacketMetadata = 9,
        /// Parser value sets.
        value_sets: repeated message ValueSet = 10,
        /// Registers.
        registers: repeated message Register = 11,
        /// Digests.
        digests: repeated message Digest = 12,
        /// Instances of externs that only some architectures have.
        externs: repeated message Extern = 100,
        /// The named types to which the objects refer.
        type_info: message P4TypeInfo = 200,
    }
}

message! {
    /// The documentation of an object, from `@brief` and `@description`.
    "p4.config.v1.Documentation" Documentation {
        /// One sentence.
        brief: string = 1,
        /// More, over any number of lines.
        description: string = 2,
    }
}

message! {
    /// The program's demands on the platform (`@platform_property` of `main`); 0 is no demand.
    "p4.config.v1.PlatformProperties" PlatformProperties {
        /// Number of multicast groups.
        multicast_group_table_size: int32 = 1,
        /// Number of replicas of all multicast groups together.
        multicast_group_table_total_replicas: int32 = 2,
        /// Number of replicas of one multicast group; at most the number for all.
        multicast_group_table_max_replicas_per_entry: int32 = 3,
    }
}

message! {
    /// About the program as a whole ("PkgInfo Message").
    "p4.config.v1.PkgInfo" PkgInfo {
        /// Name, from `@pkginfo`.
        name: string = 1,
        /// Version, from `@pkginfo`, in any form.
        version: string = 2,
        /// Documentation.
        doc: message Documentation = 3,
        /// Other annotations of `main`.
        annotations: repeated string = 4,
        /// Their places.
        annotation_locations: repeated message SourceLocation = 10,
        /// Architecture: `v1model`, `psa`.
        arch: string = 5,
        /// The author of the program, from `@pkginfo`.
        organization: string = 6,
        /// The contact for questions, from `@pkginfo`.
        contact: string = 7,
        /// An address with more information, from `@pkginfo`.
        url: string = 8,
        /// Other structured annotations of `main`.
        structured_annotations: repeated message StructuredAnnotation = 9,
        /// Demands on the platform.
        platform_properties: message PlatformProperties = 11,
    }
}

message! {
    /// A scope for [`Prefix`].
    "p4.config.v1.P4Ids" P4Ids {}
}

enumeration! {
    /// The highest byte of an id: the kind of object ("ID Allocation for P4Info Objects").
    "p4.config.v1.P4Ids.Prefix" Prefix {
        /// No kind: the id is invalid.
        UNSPECIFIED as Unspecified = 0,
        /// An action.
        ACTION as Action = 0x01,
        /// A table.
        TABLE as Table = 0x02,
        /// A parser value set.
        VALUE_SET as ValueSet = 0x03,
        /// The header of packets to or from the control plane.
        CONTROLLER_HEADER as ControllerHeader = 0x04,
        /// The externs of PSA, which v1model shares, start after this.
        PSA_EXTERNS_START as PsaExternsStart = 0x10,
        /// An action profile or selector.
        ACTION_PROFILE as ActionProfile = 0x11,
        /// An indexed counter.
        COUNTER as Counter = 0x12,
        /// A direct counter.
        DIRECT_COUNTER as DirectCounter = 0x13,
        /// An indexed meter.
        METER as Meter = 0x14,
        /// A direct meter.
        DIRECT_METER as DirectMeter = 0x15,
        /// A register.
        REGISTER as Register = 0x16,
        /// A digest.
        DIGEST as Digest = 0x17,
        /// The externs of other architectures start after this.
        OTHER_EXTERNS_START as OtherExternsStart = 0x80,
        /// The largest byte.
        MAX as Max = 0xff,
    }
}

message! {
    /// The fields that all objects have ("Preamble Message").
    "p4.config.v1.Preamble" Preamble {
        /// The id, which requests use. Its highest byte is a [`Prefix`]; 0 is invalid.
        id: uint32 = 1,
        /// Full control-plane name: `MyIngress.ipv4_lpm`.
        name: string = 2,
        /// A shorter name, unique among objects of the kind.
        alias: string = 3,
        /// Annotations.
        annotations: repeated string = 4,
        /// Their places.
        annotation_locations: repeated message SourceLocation = 7,
        /// Documentation.
        doc: message Documentation = 5,
        /// Structured annotations.
        structured_annotations: repeated message StructuredAnnotation = 6,
    }
}

message! {
    /// All instances of one type of extern ("Extern").
    "p4.config.v1.Extern" Extern {
        /// Id of the type: the highest byte of the ids of instances, from 0x81 to 0xfe.
        extern_type_id: uint32 = 1,
        /// Name of the type.
        extern_type_name: string = 2,
        /// The instances.
        instances: repeated message ExternInstance = 3,
    }
}

message! {
    /// An instance of an extern.
    "p4.config.v1.ExternInstance" ExternInstance {
        /// Id and name.
        preamble: message Preamble = 1,
        /// Information that the architecture defines for this type.
        info: message Any = 2,
    }
}

enumeration! {
    /// The match kind of a key field.
    "p4.config.v1.MatchField.MatchType" MatchType {
        /// Another way, which `other_match_type` names.
        UNSPECIFIED as Unspecified = 0,
        /// One value.
        EXACT as Exact = 2,
        /// A prefix; the longest wins.
        LPM as Lpm = 3,
        /// A value and a mask; the highest priority wins.
        TERNARY as Ternary = 4,
        /// All values from one to another; the highest priority wins.
        RANGE as Range = 5,
        /// One value, or any; the highest priority wins.
        OPTIONAL as Optional = 6,
    }
}

oneof! {
    /// The match kind of a key field.
    Match {
        /// A way that P4Runtime knows.
        match_type as MatchType: enumeration MatchType = 5,
        /// The name of another match kind.
        other_match_type as OtherMatchType: string = 7,
    }
}

message! {
    /// A field of a table's key, or of a value set ("Table").
    "p4.config.v1.MatchField" MatchField {
        /// Id, unique in the table.
        id: uint32 = 1,
        /// Control-plane name: `hdr.ipv4.dstAddr`.
        name: string = 2,
        /// Annotations.
        annotations: repeated string = 3,
        /// Their places.
        annotation_locations: repeated message SourceLocation = 10,
        /// Width in bits as the control plane sees it; 0 for translation to a string.
        bitwidth: int32 = 4,
        /// Its match kind.
        r#match: oneof Match(5, 7),
        /// Documentation.
        doc: message Documentation = 6,
        /// Its type, if that is a `type`.
        type_name: message P4NamedType = 8,
        /// Structured annotations.
        structured_annotations: repeated message StructuredAnnotation = 9,
    }
}

message! {
    /// A value for a parameter of a [`TableActionCall`].
    "p4.config.v1.TableActionCall.Argument" TableActionCallArgument {
        /// Id of the parameter.
        param_id: uint32 = 2,
        /// The value.
        value: bytes = 3,
    }
}

message! {
    /// An action with arguments.
    "p4.config.v1.TableActionCall" TableActionCall {
        /// Id of the action.
        action_id: uint32 = 1,
        /// The arguments.
        arguments: repeated message TableActionCallArgument = 4,
    }
}

enumeration! {
    /// The handling of entries that no packet matches.
    "p4.config.v1.Table.IdleTimeoutBehavior" IdleTimeoutBehavior {
        /// Nothing.
        NO_TIMEOUT as NoTimeout = 0,
        /// The switch notifies the control plane.
        NOTIFY_CONTROL as NotifyControl = 1,
    }
}

message! {
    /// A table ("Table").
    "p4.config.v1.Table" Table {
        /// Id and name.
        preamble: message Preamble = 1,
        /// The fields of the key.
        match_fields: repeated message MatchField = 2,
        /// The actions that entries can have.
        action_refs: repeated message ActionRef = 3,
        /// Id of the default action if that is `const`, or else 0.
        const_default_action_id: uint32 = 4,
        /// The default action until the control plane sets another.
        initial_default_action: message TableActionCall = 5,
        /// Id of the action profile that holds the actions of entries; 0 if entries hold them.
        implementation_id: uint32 = 6,
        /// Ids of the direct counters and meters.
        direct_resource_ids: repeated uint32 = 7,
        /// Maximum number of entries.
        size: int64 = 8,
        /// The handling of idle entries.
        idle_timeout_behavior: enumeration IdleTimeoutBehavior = 9,
        /// True if the control plane cannot change entries.
        is_const_table: bool = 10,
        /// True if the program declares at least one entry.
        has_initial_entries: bool = 11,
        /// Properties that the architecture defines.
        other_properties: message Any = 100,
    }
}

enumeration! {
    /// The roles in which an action of a table's list can be used.
    "p4.config.v1.ActionRef.Scope" Scope {
        /// In entries and as the default action.
        TABLE_AND_DEFAULT as TableAndDefault = 0,
        /// In entries.
        TABLE_ONLY as TableOnly = 1,
        /// Only as the default action.
        DEFAULT_ONLY as DefaultOnly = 2,
        /// The action that runs before the selected member's.
        GROUP_ACTION as GroupAction = 3,
    }
}

message! {
    /// An action in a table's list.
    "p4.config.v1.ActionRef" ActionRef {
        /// Id of the action.
        id: uint32 = 1,
        /// The roles in which it can be used.
        scope: enumeration Scope = 3,
        /// Annotations in the list (those of the action are in [`Action`]).
        annotations: repeated string = 2,
        /// Their places.
        annotation_locations: repeated message SourceLocation = 5,
        /// Structured annotations.
        structured_annotations: repeated message StructuredAnnotation = 4,
    }
}

message! {
    /// A parameter of an action that the control plane gives.
    "p4.config.v1.Action.Param" ActionParam {
        /// Id, unique in the action.
        id: uint32 = 1,
        /// Name.
        name: string = 2,
        /// Annotations.
        annotations: repeated string = 3,
        /// Their places.
        annotation_locations: repeated message SourceLocation = 8,
        /// Width in bits as the control plane sees it; 0 for translation to a string.
        bitwidth: int32 = 4,
        /// Documentation.
        doc: message Documentation = 5,
        /// Its type, if that is a `type` or an enum without representation.
        type_name: message P4NamedType = 6,
        /// Structured annotations.
        structured_annotations: repeated message StructuredAnnotation = 7,
    }
}

message! {
    /// An action ("Action").
    "p4.config.v1.Action" Action {
        /// Id and name.
        preamble: message Preamble = 1,
        /// The parameters that the control plane gives.
        params: repeated message ActionParam = 2,
    }
}

message! {
    /// Sizes of groups are sums of their members' weights.
    "p4.config.v1.ActionProfile.SumOfWeights" SumOfWeights {}
}

message! {
    /// Sizes of groups are numbers of members.
    "p4.config.v1.ActionProfile.SumOfMembers" SumOfMembers {
        /// Maximum weight of a member.
        max_member_weight: int32 = 1,
    }
}

oneof! {
    /// The unit of `size` and `max_group_size` of a selector.
    SelectorSizeSemantics {
        /// Weights.
        sum_of_weights as SumOfWeights: message SumOfWeights = 6,
        /// Members.
        sum_of_members as SumOfMembers: message SumOfMembers = 7,
    }
}

message! {
    /// An action profile or selector ("ActionProfile").
    "p4.config.v1.ActionProfile" ActionProfile {
        /// Id and name.
        preamble: message Preamble = 1,
        /// The tables that share it.
        table_ids: repeated uint32 = 2,
        /// True for a selector, which has groups.
        with_selector: bool = 3,
        /// Maximum number of members, or of what `selector_size_semantics` says, over all groups.
        size: int64 = 4,
        /// The limit of one group; 0 without groups.
        max_group_size: int32 = 5,
        /// The unit of the sizes.
        selector_size_semantics: oneof SelectorSizeSemantics(6, 7),
        /// True if members have no weights.
        weights_disallowed: bool = 8,
    }
}

enumeration! {
    /// The unit of a counter.
    "p4.config.v1.CounterSpec.Unit" CounterUnit {
        /// Nothing that P4Runtime knows.
        UNSPECIFIED as Unspecified = 0,
        /// Bytes.
        BYTES as Bytes = 1,
        /// Packets.
        PACKETS as Packets = 2,
        /// Both.
        BOTH as Both = 3,
    }
}

message! {
    /// The unit of a counter.
    "p4.config.v1.CounterSpec" CounterSpec {
        /// The unit.
        unit: enumeration CounterUnit = 1,
    }
}

message! {
    /// An indexed counter ("Counter & DirectCounter").
    "p4.config.v1.Counter" Counter {
        /// Id and name.
        preamble: message Preamble = 1,
        /// Its unit.
        spec: message CounterSpec = 2,
        /// Number of cells.
        size: int64 = 3,
        /// Type of the index, if that is a `type`.
        index_type_name: message P4NamedType = 4,
    }
}

message! {
    /// A counter with a cell for each entry of a table.
    "p4.config.v1.DirectCounter" DirectCounter {
        /// Id and name.
        preamble: message Preamble = 1,
        /// Its unit.
        spec: message CounterSpec = 2,
        /// Id of the table.
        direct_table_id: uint32 = 3,
    }
}

enumeration! {
    /// The unit of a meter.
    "p4.config.v1.MeterSpec.Unit" MeterUnit {
        /// Nothing that P4Runtime knows.
        UNSPECIFIED as Unspecified = 0,
        /// Bytes.
        BYTES as Bytes = 1,
        /// Packets.
        PACKETS as Packets = 2,
    }
}

enumeration! {
    /// The configurations that a meter accepts.
    "p4.config.v1.MeterSpec.Type" MeterType {
        /// RFC 2698: two rates.
        TWO_RATE_THREE_COLOR as TwoRateThreeColor = 0,
        /// RFC 2697: one rate and an excess burst.
        SINGLE_RATE_THREE_COLOR as SingleRateThreeColor = 1,
        /// RFC 2697 without excess burst: green or red.
        SINGLE_RATE_TWO_COLOR as SingleRateTwoColor = 2,
    }
}

message! {
    /// The unit of a meter.
    "p4.config.v1.MeterSpec" MeterSpec {
        /// The unit.
        unit: enumeration MeterUnit = 1,
        /// The configurations that it takes.
        r#type: enumeration MeterType = 2,
    }
}

message! {
    /// An indexed meter ("Meter & DirectMeter").
    "p4.config.v1.Meter" Meter {
        /// Id and name.
        preamble: message Preamble = 1,
        /// Its unit.
        spec: message MeterSpec = 2,
        /// Number of cells.
        size: int64 = 3,
        /// Type of the index, if that is a `type`.
        index_type_name: message P4NamedType = 4,
    }
}

message! {
    /// A meter with a cell for each entry of a table.
    "p4.config.v1.DirectMeter" DirectMeter {
        /// Id and name.
        preamble: message Preamble = 1,
        /// Its unit.
        spec: message MeterSpec = 2,
        /// Id of the table.
        direct_table_id: uint32 = 3,
    }
}

message! {
    /// A field of a [`ControllerPacketMetadata`].
    "p4.config.v1.ControllerPacketMetadata.Metadata" Metadata {
        /// Id, unique in the header.
        id: uint32 = 1,
        /// Name of the field.
        name: string = 2,
        /// Annotations.
        annotations: repeated string = 3,
        /// Their places.
        annotation_locations: repeated message SourceLocation = 7,
        /// Width in bits as the control plane sees it; 0 for translation to a string.
        bitwidth: int32 = 4,
        /// Its type, if that is a `type`.
        type_name: message P4NamedType = 5,
        /// Structured annotations.
        structured_annotations: repeated message StructuredAnnotation = 6,
    }
}

message! {
    /// A header with `@controller_header`, which packets to (`packet_in`) or from (`packet_out`) the control plane carry
    /// ("ControllerPacketMetadata").
    "p4.config.v1.ControllerPacketMetadata" ControllerPacketMetadata {
        /// Id; name and alias are the text of the annotation.
        preamble: message Preamble = 1,
        /// The fields in the order of the header.
        metadata: repeated message Metadata = 2,
    }
}

message! {
    /// A parser value set ("ValueSet").
    "p4.config.v1.ValueSet" ValueSet {
        /// Id and name.
        preamble: message Preamble = 1,
        /// The fields of its elements.
        r#match: repeated message MatchField = 2,
        /// Maximum number of members.
        size: int32 = 3,
    }
}

message! {
    /// A register ("Register").
    "p4.config.v1.Register" Register {
        /// Id and name.
        preamble: message Preamble = 1,
        /// Type of the cells.
        type_spec: message P4DataTypeSpec = 2,
        /// Number of cells.
        size: int32 = 3,
        /// Type of the index, if that is a `type`.
        index_type_name: message P4NamedType = 4,
    }
}

message! {
    /// A digest ("Digest").
    "p4.config.v1.Digest" Digest {
        /// Id and name.
        preamble: message Preamble = 1,
        /// Type of the data.
        type_spec: message P4DataTypeSpec = 2,
    }
}

message! {
    /// The named types to which objects refer, by name.
    "p4.config.v1.P4TypeInfo" P4TypeInfo {
        /// Structs.
        structs: map P4StructTypeSpec = 1,
        /// Headers.
        headers: map P4HeaderTypeSpec = 2,
        /// Header unions.
        header_unions: map P4HeaderUnionTypeSpec = 3,
        /// Enums without representation.
        enums: map P4EnumTypeSpec = 4,
        /// `error`.
        error: message P4ErrorTypeSpec = 5,
        /// Enums with a representation.
        serializable_enums: map P4SerializableEnumTypeSpec = 6,
        /// `type` declarations.
        new_types: map P4NewTypeSpec = 7,
    }
}

oneof! {
    /// A type.
    DataType {
        /// `bit<W>`, `int<W>`, `varbit<W>`.
        bitstring as Bitstring: message P4BitstringLikeTypeSpec = 1,
        /// `bool`.
        bool as Bool: message P4BoolType = 2,
        /// A tuple.
        tuple as Tuple: message P4TupleTypeSpec = 3,
        /// A struct.
        r#struct as Struct: message P4NamedType = 4,
        /// A header.
        header as Header: message P4NamedType = 5,
        /// A header union.
        header_union as HeaderUnion: message P4NamedType = 6,
        /// A stack of headers.
        header_stack as HeaderStack: message P4HeaderStackTypeSpec = 7,
        /// A stack of header unions.
        header_union_stack as HeaderUnionStack: message P4HeaderUnionStackTypeSpec = 8,
        /// An enum without representation.
        r#enum as Enum: message P4NamedType = 9,
        /// `error`.
        error as Error: message P4ErrorType = 10,
        /// An enum with a representation.
        serializable_enum as SerializableEnum: message P4NamedType = 11,
        /// A `type`.
        new_type as NewType: message P4NamedType = 12,
    }
}

message! {
    /// A type ("Representation of Arbitrary P4 Types").
    "p4.config.v1.P4DataTypeSpec" P4DataTypeSpec {
        /// The kind of type.
        type_spec: oneof DataType(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12),
    }
}

message! {
    /// A type by its name, which is a key in [`P4TypeInfo`].
    "p4.config.v1.P4NamedType" P4NamedType {
        /// The name.
        name: string = 1,
    }
}

message! {
    /// `bool`.
    "p4.config.v1.P4BoolType" P4BoolType {}
}

message! {
    /// `error`.
    "p4.config.v1.P4ErrorType" P4ErrorType {}
}

oneof! {
    /// A type whose values are bits.
    BitstringType {
        /// `bit<W>`.
        bit as Bit: message P4BitTypeSpec = 1,
        /// `int<W>`.
        int as Int: message P4IntTypeSpec = 2,
        /// `varbit<W>`.
        varbit as Varbit: message P4VarbitTypeSpec = 3,
    }
}

message! {
    /// A type whose values are bits.
    "p4.config.v1.P4BitstringLikeTypeSpec" P4BitstringLikeTypeSpec {
        /// The kind of type.
        type_spec: oneof BitstringType(1, 2, 3),
        /// Annotations, such as those of a field.
        annotations: repeated string = 4,
        /// Their places.
        annotation_locations: repeated message SourceLocation = 5,
        /// Structured annotations.
        structured_annotations: repeated message StructuredAnnotation = 6,
    }
}

message! {
    /// `bit<W>`.
    "p4.config.v1.P4BitTypeSpec" P4BitTypeSpec {
        /// W.
        bitwidth: int32 = 1,
    }
}

message! {
    /// `int<W>`.
    "p4.config.v1.P4IntTypeSpec" P4IntTypeSpec {
        /// W.
        bitwidth: int32 = 1,
    }
}

message! {
    /// `varbit<W>`.
    "p4.config.v1.P4VarbitTypeSpec" P4VarbitTypeSpec {
        /// W, the largest width.
        max_bitwidth: int32 = 1,
    }
}

message! {
    /// A tuple.
    "p4.config.v1.P4TupleTypeSpec" P4TupleTypeSpec {
        /// The types of its elements.
        members: repeated message P4DataTypeSpec = 1,
    }
}

message! {
    /// A field of a struct.
    "p4.config.v1.P4StructTypeSpec.Member" StructMember {
        /// Name.
        name: string = 1,
        /// Type.
        type_spec: message P4DataTypeSpec = 2,
    }
}

message! {
    /// A struct.
    "p4.config.v1.P4StructTypeSpec" P4StructTypeSpec {
        /// The fields.
        members: repeated message StructMember = 1,
        /// Annotations.
        annotations: repeated string = 2,
        /// Their places.
        annotation_locations: repeated message SourceLocation = 3,
        /// Structured annotations.
        structured_annotations: repeated message StructuredAnnotation = 4,
    }
}

message! {
    /// A field of a header.
    "p4.config.v1.P4HeaderTypeSpec.Member" HeaderMember {
        /// Name.
        name: string = 1,
        /// Type.
        type_spec: message P4BitstringLikeTypeSpec = 2,
    }
}

message! {
    /// A header.
    "p4.config.v1.P4HeaderTypeSpec" P4HeaderTypeSpec {
        /// The fields.
        members: repeated message HeaderMember = 1,
        /// Annotations.
        annotations: repeated string = 2,
        /// Their places.
        annotation_locations: repeated message SourceLocation = 3,
        /// Structured annotations.
        structured_annotations: repeated message StructuredAnnotation = 4,
    }
}

message! {
    /// A header in a union.
    "p4.config.v1.P4HeaderUnionTypeSpec.Member" HeaderUnionMember {
        /// Name.
        name: string = 1,
        /// Type.
        header: message P4NamedType = 2,
    }
}

message! {
    /// A header union.
    "p4.config.v1.P4HeaderUnionTypeSpec" P4HeaderUnionTypeSpec {
        /// The headers.
        members: repeated message HeaderUnionMember = 1,
        /// Annotations.
        annotations: repeated string = 2,
        /// Their places.
        annotation_locations: repeated message SourceLocation = 3,
        /// Structured annotations.
        structured_annotations: repeated message StructuredAnnotation = 4,
    }
}

message! {
    /// A stack of headers.
    "p4.config.v1.P4HeaderStackTypeSpec" P4HeaderStackTypeSpec {
        /// The type of an element.
        header: message P4NamedType = 1,
        /// Number of elements.
        size: int32 = 2,
    }
}

message! {
    /// A stack of header unions.
    "p4.config.v1.P4HeaderUnionStackTypeSpec" P4HeaderUnionStackTypeSpec {
        /// The type of an element.
        header_union: message P4NamedType = 1,
        /// Number of elements.
        size: int32 = 2,
    }
}

message! {
    /// A key with its value in a structured annotation.
    "p4.config.v1.KeyValuePair" KeyValuePair {
        /// The key.
        key: string = 1,
        /// The value.
        value: message Expression = 2,
    }
}

message! {
    /// `[k = v, …]`
    "p4.config.v1.KeyValuePairList" KeyValuePairList {
        /// The pairs in order.
        kv_pairs: repeated message KeyValuePair = 1,
    }
}

oneof! {
    /// A value in a structured annotation.
    ExpressionValue {
        /// A text.
        string_value as StringValue: string = 1,
        /// A number.
        int64_value as Int64Value: int64 = 2,
        /// A Boolean.
        bool_value as BoolValue: bool = 3,
    }
}

message! {
    /// A value in a structured annotation.
    "p4.config.v1.Expression" Expression {
        /// Of one of three types.
        value: oneof ExpressionValue(1, 2, 3),
    }
}

message! {
    /// `[v, …]`
    "p4.config.v1.ExpressionList" ExpressionList {
        /// The values in order.
        expressions: repeated message Expression = 1,
    }
}

oneof! {
    /// The body of a structured annotation.
    AnnotationBody {
        /// Values.
        expression_list as ExpressionList: message ExpressionList = 2,
        /// Values with keys.
        kv_pair_list as KvPairList: message KeyValuePairList = 3,
    }
}

message! {
    /// `@name[…]` ("Structured Annotations").
    "p4.config.v1.StructuredAnnotation" StructuredAnnotation {
        /// The name without `@`.
        name: string = 1,
        /// Its body; none for `[]`.
        body: oneof AnnotationBody(2, 3),
        /// The place of `@`.
        source_location: message SourceLocation = 4,
    }
}

message! {
    /// A place in the program's text.
    "p4.config.v1.SourceLocation" SourceLocation {
        /// Path of the file.
        file: string = 1,
        /// Line, from 1.
        line: int32 = 2,
        /// Column, from 1.
        column: int32 = 3,
    }
}

message! {
    /// A member of an enum without representation.
    "p4.config.v1.P4EnumTypeSpec.Member" EnumMember {
        /// Name.
        name: string = 1,
        /// Annotations.
        annotations: repeated string = 2,
        /// Their places.
        annotation_locations: repeated message SourceLocation = 4,
        /// Structured annotations.
        structured_annotations: repeated message StructuredAnnotation = 3,
    }
}

message! {
    /// An enum without representation.
    "p4.config.v1.P4EnumTypeSpec" P4EnumTypeSpec {
        /// The members.
        members: repeated message EnumMember = 1,
        /// Annotations.
        annotations: repeated string = 2,
        /// Their places.
        annotation_locations: repeated message SourceLocation = 4,
        /// Structured annotations.
        structured_annotations: repeated message StructuredAnnotation = 3,
    }
}

message! {
    /// A member of an enum with a representation.
    "p4.config.v1.P4SerializableEnumTypeSpec.Member" SerializableEnumMember {
        /// Name.
        name: string = 1,
        /// Value.
        value: bytes = 2,
        /// Annotations.
        annotations: repeated string = 3,
        /// Their places.
        annotation_locations: repeated message SourceLocation = 5,
        /// Structured annotations.
        structured_annotations: repeated message StructuredAnnotation = 4,
    }
}

message! {
    /// An enum with a representation.
    "p4.config.v1.P4SerializableEnumTypeSpec" P4SerializableEnumTypeSpec {
        /// Type of the values.
        underlying_type: message P4BitTypeSpec = 1,
        /// The members.
        members: repeated message SerializableEnumMember = 2,
        /// Annotations.
        annotations: repeated string = 3,
        /// Their places.
        annotation_locations: repeated message SourceLocation = 5,
        /// Structured annotations.
        structured_annotations: repeated message StructuredAnnotation = 4,
    }
}

message! {
    /// `error`.
    "p4.config.v1.P4ErrorTypeSpec" P4ErrorTypeSpec {
        /// Names of the members.
        members: repeated string = 1,
    }
}

message! {
    /// Translation to strings.
    "p4.config.v1.P4NewTypeTranslation.SdnString" SdnString {}
}

oneof! {
    /// The control plane's representation of a translated type.
    SdnType {
        /// Numbers of this width in bits.
        sdn_bitwidth as SdnBitwidth: int32 = 2,
        /// Strings.
        sdn_string as SdnString: message SdnString = 3,
    }
}

message! {
    /// The contents of `@p4runtime_translation` ("User-defined types").
    "p4.config.v1.P4NewTypeTranslation" P4NewTypeTranslation {
        /// Name of the translation.
        uri: string = 1,
        /// The control plane's representation.
        sdn_type: oneof SdnType(2, 3),
    }
}

oneof! {
    /// The representation of a `type`.
    Representation {
        /// Values of another type.
        original_type as OriginalType: message P4DataTypeSpec = 1,
        /// Values that the server translates.
        translated_type as TranslatedType: message P4NewTypeTranslation = 2,
    }
}

message! {
    /// A `type` declaration.
    "p4.config.v1.P4NewTypeSpec" P4NewTypeSpec {
        /// Its representation.
        representation: oneof Representation(1, 2),
        /// Annotations other than `@p4runtime_translation`.
        annotations: repeated string = 3,
        /// Their places.
        annotation_locations: repeated message SourceLocation = 5,
        /// Structured annotations.
        structured_annotations: repeated message StructuredAnnotation = 4,
    }
}

super::define_files! {
    "p4/config/v1/p4info.proto" in "p4.config.v1" {
        messages {
            P4Info Documentation PlatformProperties PkgInfo P4Ids Preamble Extern ExternInstance MatchField
            TableActionCallArgument TableActionCall Table ActionRef ActionParam Action SumOfWeights SumOfMembers
            ActionProfile CounterSpec Counter DirectCounter MeterSpec Meter DirectMeter Metadata ControllerPacketMetadata
            ValueSet Register Digest
        }
        enumerations {
            Prefix MatchType IdleTimeoutBehavior Scope CounterUnit MeterUnit MeterType
        }
        services {}
    }
    "p4/config/v1/p4types.proto" in "p4.config.v1" {
        messages {
            P4TypeInfo P4DataTypeSpec P4NamedType P4BoolType P4ErrorType P4BitstringLikeTypeSpec P4BitTypeSpec P4IntTypeSpec
            P4VarbitTypeSpec P4TupleTypeSpec StructMember P4StructTypeSpec HeaderMember P4HeaderTypeSpec HeaderUnionMember
            P4HeaderUnionTypeSpec P4HeaderStackTypeSpec P4HeaderUnionStackTypeSpec KeyValuePair KeyValuePairList Expression
            ExpressionList StructuredAnnotation SourceLocation EnumMember P4EnumTypeSpec SerializableEnumMember
            P4SerializableEnumTypeSpec P4ErrorTypeSpec SdnString P4NewTypeTranslation P4NewTypeSpec
        }
        enumerations {}
        services {}
    }
}
