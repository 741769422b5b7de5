//! Package `p4.v1`: the requests and answers of P4Runtime, and the values in them ("P4Data in p4runtime.proto").
//!
//! Byte strings are unsigned numbers, most significant byte first; servers send the shortest form ("Bytestrings").

use super::config::P4Info;
use super::google::{Any, Status};

// ---------------------------------------------------------------------------------------------------------------------
// Write and Read

enumeration! {
    /// How a batch is handled in which an update fails ("Batch Atomicity").
    "p4.v1.WriteRequest.Atomicity" Atomicity {
        /// The other updates take effect.
        CONTINUE_ON_ERROR as ContinueOnError = 0,
        /// No update takes effect; packets may see some for a while.
        ROLLBACK_ON_ERROR as RollbackOnError = 1,
        /// No update takes effect, and each packet sees all or none.
        DATAPLANE_ATOMIC as DataplaneAtomic = 2,
    }
}

message! {
    /// A batch of updates ("Write RPC").
    "p4.v1.WriteRequest" WriteRequest {
        /// The device; never 0.
        device_id: uint64 = 1,
        /// Until 1.3: the role as a number.
        role_id: uint64 = 2,
        /// The role; empty is the default role.
        role: string = 6,
        /// The sender's election id, which must be the primary's.
        election_id: message Uint128 = 3,
        /// The updates.
        updates: repeated message Update = 4,
        /// The handling of a failed update.
        atomicity: enumeration Atomicity = 5,
    }
}

message! {
    /// All updates took effect.
    "p4.v1.WriteResponse" WriteResponse {}
}

message! {
    /// Asks for entities ("Read RPC").
    "p4.v1.ReadRequest" ReadRequest {
        /// The device.
        device_id: uint64 = 1,
        /// Only entities of this role.
        role: string = 3,
        /// Patterns: what is not set matches everything.
        entities: repeated message Entity = 2,
    }
}

message! {
    /// Some of the requested entities.
    "p4.v1.ReadResponse" ReadResponse {
        /// The entities.
        entities: repeated message Entity = 1,
    }
}

enumeration! {
    /// The kind of an update.
    "p4.v1.Update.Type" UpdateType {
        /// Not set, which is an error.
        UNSPECIFIED as Unspecified = 0,
        /// Adds an entity that does not exist.
        INSERT as Insert = 1,
        /// Changes an entity that exists.
        MODIFY as Modify = 2,
        /// Removes an entity that exists.
        DELETE as Delete = 3,
    }
}

message! {
    /// A change of one entity.
    "p4.v1.Update" Update {
        /// Its kind.
        r#type: enumeration UpdateType = 1,
        /// The entity.
        entity: message Entity = 2,
    }
}

oneof! {
    /// Something that can be written or read.
    EntityKind {
        /// An entry of an extern that only some architectures have.
        extern_entry as ExternEntry: message ExternEntry = 1,
        /// An entry of a table.
        table_entry as TableEntry: message TableEntry = 2,
        /// A member of an action profile.
        action_profile_member as ActionProfileMember: message ActionProfileMember = 3,
        /// A group of an action selector.
        action_profile_group as ActionProfileGroup: message ActionProfileGroup = 4,
        /// A cell of a meter.
        meter_entry as MeterEntry: message MeterEntry = 5,
        /// The meter of a table entry.
        direct_meter_entry as DirectMeterEntry: message DirectMeterEntry = 6,
        /// A cell of a counter.
        counter_entry as CounterEntry: message CounterEntry = 7,
        /// The counter of a table entry.
        direct_counter_entry as DirectCounterEntry: message DirectCounterEntry = 8,
        /// A multicast group or clone session.
        packet_replication_engine_entry as PacketReplicationEngineEntry: message PacketReplicationEngineEntry = 9,
        /// The members of a value set.
        value_set_entry as ValueSetEntry: message ValueSetEntry = 10,
        /// A cell of a register.
        register_entry as RegisterEntry: message RegisterEntry = 11,
        /// The sending of a digest.
        digest_entry as DigestEntry: message DigestEntry = 12,
    }
}

message! {
    /// Something that can be written or read ("P4 Entity Messages").
    "p4.v1.Entity" Entity {
        /// The entity.
        entity: oneof EntityKind(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12),
    }
}

message! {
    /// An entry of an extern ("ExternEntry").
    "p4.v1.ExternEntry" ExternEntry {
        /// Id of the type, from 0x81 to 0xfe.
        extern_type_id: uint32 = 1,
        /// Id of the instance.
        extern_id: uint32 = 2,
        /// An entry that the architecture defines.
        entry: message Any = 3,
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Tables

message! {
    /// The time since an entry matched a packet.
    "p4.v1.TableEntry.IdleTimeout" IdleTimeout {
        /// Nanoseconds since then.
        elapsed_ns: int64 = 1,
    }
}

message! {
    /// An entry of a table ("TableEntry").
    "p4.v1.TableEntry" TableEntry {
        /// Id of the table.
        table_id: uint32 = 1,
        /// The key; fields that match everything are left out.
        r#match: repeated message FieldMatch = 2,
        /// Its action.
        action: message TableAction = 3,
        /// Higher wins; positive in tables with a ternary, range or optional field, 0 in others.
        priority: int32 = 4,
        /// Deprecated: a number for the client's own use.
        controller_metadata: uint64 = 5,
        /// Configuration of its direct meter.
        meter_config: message MeterConfig = 6,
        /// Values of its direct counter.
        counter_data: message CounterData = 7,
        /// Values of its direct meter's counters.
        meter_counter_data: message MeterCounterData = 12,
        /// True if this is the default entry, which has no key.
        is_default_action: bool = 8,
        /// Nanoseconds without a match until the switch notifies the client; 0 is never.
        idle_timeout_ns: int64 = 9,
        /// In answers, how long ago it matched a packet.
        time_since_last_hit: message IdleTimeout = 10,
        /// For the client's own use.
        metadata: bytes = 11,
        /// True if the entry cannot be changed.
        is_const: bool = 13,
    }
}

message! {
    /// One value.
    "p4.v1.FieldMatch.Exact" Exact {
        /// The value.
        value: bytes = 1,
    }
}

message! {
    /// The values that agree with one where the mask has ones.
    "p4.v1.FieldMatch.Ternary" Ternary {
        /// The value, 0 where the mask is.
        value: bytes = 1,
        /// The mask, not 0.
        mask: bytes = 2,
    }
}

message! {
    /// The values that start with a prefix.
    "p4.v1.FieldMatch.LPM" Lpm {
        /// The prefix, followed by zeros.
        value: bytes = 1,
        /// Its length in bits, not 0.
        prefix_len: int32 = 2,
    }
}

message! {
    /// All values from one to another.
    "p4.v1.FieldMatch.Range" Range {
        /// The lowest.
        low: bytes = 1,
        /// The highest.
        high: bytes = 2,
    }
}

message! {
    /// One value, of a field that can also match everything.
    "p4.v1.FieldMatch.Optional" Optional {
        /// The value.
        value: bytes = 1,
    }
}

oneof! {
    /// The match of a key field.
    FieldMatchType {
        /// One.
        exact as Exact: message Exact = 2,
        /// Those that agree under a mask.
        ternary as Ternary: message Ternary = 3,
        /// Those with a prefix.
        lpm as Lpm: message Lpm = 4,
        /// Those in a range.
        range as Range: message Range = 6,
        /// One.
        optional as Optional: message Optional = 7,
        /// A match kind that the architecture defines.
        other as Other: message Any = 100,
    }
}

message! {
    /// The match of one key field of an entry.
    "p4.v1.FieldMatch" FieldMatch {
        /// Id of the field.
        field_id: uint32 = 1,
        /// Its values.
        field_match_type: oneof FieldMatchType(2, 3, 4, 6, 7, 100),
    }
}

oneof! {
    /// The action of an entry: direct, or by an action profile.
    TableActionType {
        /// Runs an action.
        action as Action: message Action = 1,
        /// Runs the action of a member.
        action_profile_member_id as ActionProfileMemberId: uint32 = 2,
        /// Runs the action of a member of a group.
        action_profile_group_id as ActionProfileGroupId: uint32 = 3,
        /// Runs one of several actions.
        action_profile_action_set as ActionProfileActionSet: message ActionProfileActionSet = 4,
    }
}

message! {
    /// The action of an entry.
    "p4.v1.TableAction" TableAction {
    /// The kind of action.
        r#type: oneof TableActionType(1, 2, 3, 4),
    }
}

message! {
    /// A value for a parameter of an action.
    "p4.v1.Action.Param" ActionParam {
        /// Id of the parameter.
        param_id: uint32 = 2,
        /// The value.
        value: bytes = 3,
    }
}

message! {
    /// An action with arguments ("Action Specification").
    "p4.v1.Action" Action {
        /// Id of the action.
        action_id: uint32 = 1,
        /// One for each parameter.
        params: repeated message ActionParam = 4,
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Action profiles

enumeration! {
    /// How a group chooses a member.
    "p4.v1.ActionProfileActionSet.ActionSelectionMode" ActionSelectionMode {
        /// The mode of the selector.
        DEFAULT_MODE_DETERMINED_BY_ACTION_SELECTOR as DefaultModeDeterminedByActionSelector = 0,
        /// By a hash.
        HASH as Hash = 1,
        /// At random.
        RANDOM as Random = 2,
    }
}

enumeration! {
    /// The unit of a group's size.
    "p4.v1.ActionProfileActionSet.SizeSemantics" SizeSemantics {
        /// The unit of the selector.
        DEFAULT_SIZE_DETERMINED_BY_ACTION_SELECTOR as DefaultSizeDeterminedByActionSelector = 0,
        /// Weights.
        SUM_OF_WEIGHTS as SumOfWeights = 1,
        /// Members.
        SUM_OF_MEMBERS as SumOfMembers = 2,
    }
}

message! {
    /// Several actions, of which one runs: a group that belongs to one entry ("One Shot Action Selector
    /// Programming").
    "p4.v1.ActionProfileActionSet" ActionProfileActionSet {
        /// An action that runs before the chosen one.
        group_action: message Action = 5,
        /// The actions.
        action_profile_actions: repeated message ActionProfileAction = 1,
        /// How a member is chosen.
        action_selection_mode: enumeration ActionSelectionMode = 2,
        /// The unit of the size.
        size_semantics: enumeration SizeSemantics = 3,
    }
}

oneof! {
    /// The port that must be up for a member to be chosen.
    WatchKind {
        /// Deprecated: as a number.
        watch as Watch: int32 = 3,
        /// The port as a byte string.
        watch_port as WatchPort: bytes = 4,
    }
}

message! {
    /// An action of an [`ActionProfileActionSet`].
    "p4.v1.ActionProfileAction" ActionProfileAction {
        /// The action.
        action: message Action = 1,
        /// Its weight.
        weight: int32 = 2,
        /// Its port.
        watch_kind: oneof WatchKind(3, 4),
    }
}

message! {
    /// A member of an action profile ("ActionProfileMember & ActionProfileGroup").
    "p4.v1.ActionProfileMember" ActionProfileMember {
        /// Id of the profile.
        action_profile_id: uint32 = 1,
        /// Id that the client gives it.
        member_id: uint32 = 2,
        /// Its action.
        action: message Action = 3,
    }
}

message! {
    /// A member of a group.
    "p4.v1.ActionProfileGroup.Member" GroupMember {
        /// Id of the member.
        member_id: uint32 = 1,
        /// Its weight.
        weight: int32 = 2,
        /// Its port.
        watch_kind: oneof WatchKind(3, 4),
    }
}

message! {
    /// A group of an action selector ("ActionProfileMember & ActionProfileGroup").
    "p4.v1.ActionProfileGroup" ActionProfileGroup {
        /// Id of the selector.
        action_profile_id: uint32 = 1,
        /// Id that the client gives it.
        group_id: uint32 = 2,
        /// The members.
        members: repeated message GroupMember = 3,
        /// Maximum size, fixed when the group is created; 0 is the selector's.
        max_size: int32 = 4,
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Counters, meters, registers, value sets

message! {
    /// An index, which can be 0.
    "p4.v1.Index" Index {
        /// The index.
        index: int64 = 1,
    }
}

message! {
    /// A cell of a meter ("MeterEntry").
    "p4.v1.MeterEntry" MeterEntry {
        /// Id of the meter.
        meter_id: uint32 = 1,
        /// The cell.
        index: message Index = 2,
        /// Its configuration; none: all packets are green.
        config: message MeterConfig = 3,
        /// Values of its counters.
        counter_data: message MeterCounterData = 4,
    }
}

message! {
    /// The meter of a table entry ("DirectMeterEntry").
    "p4.v1.DirectMeterEntry" DirectMeterEntry {
        /// The entry; its action does not matter.
        table_entry: message TableEntry = 1,
        /// Its configuration; none: all packets are green.
        config: message MeterConfig = 2,
        /// Values of its counters.
        counter_data: message MeterCounterData = 3,
    }
}

message! {
    /// Rates and bursts of a meter, in its unit: bytes or packets.
    "p4.v1.MeterConfig" MeterConfig {
        /// Committed rate per second.
        cir: int64 = 1,
        /// Committed burst.
        cburst: int64 = 2,
        /// Peak rate per second.
        pir: int64 = 3,
        /// Peak burst.
        pburst: int64 = 4,
        /// Excess burst, of meters with a single rate.
        eburst: int64 = 5,
    }
}

message! {
    /// A cell of a counter ("CounterEntry").
    "p4.v1.CounterEntry" CounterEntry {
        /// Id of the counter.
        counter_id: uint32 = 1,
        /// The cell.
        index: message Index = 2,
        /// Its values.
        data: message CounterData = 3,
    }
}

message! {
    /// The counter of a table entry ("DirectCounterEntry").
    "p4.v1.DirectCounterEntry" DirectCounterEntry {
        /// The entry; its action does not matter.
        table_entry: message TableEntry = 1,
        /// Its values.
        data: message CounterData = 2,
    }
}

message! {
    /// Values of a counter.
    "p4.v1.CounterData" CounterData {
        /// Bytes.
        byte_count: int64 = 1,
        /// Packets.
        packet_count: int64 = 2,
    }
}

message! {
    /// Values of a meter's counters.
    "p4.v1.MeterCounterData" MeterCounterData {
        /// The count of green packets.
        green: message CounterData = 1,
        /// The count of yellow packets.
        yellow: message CounterData = 2,
        /// The count of red packets.
        red: message CounterData = 3,
    }
}

oneof! {
    /// A list of copies.
    ReplicationType {
        /// A multicast group.
        multicast_group_entry as MulticastGroupEntry: message MulticastGroupEntry = 1,
        /// A clone session.
        clone_session_entry as CloneSessionEntry: message CloneSessionEntry = 2,
    }
}

message! {
    /// A multicast group or clone session ("PacketReplicationEngineEntry").
    "p4.v1.PacketReplicationEngineEntry" PacketReplicationEngineEntry {
        /// The kind of entry.
        r#type: oneof ReplicationType(1, 2),
    }
}

message! {
    /// A copy that is sent if those before it cannot be sent.
    "p4.v1.BackupReplica" BackupReplica {
        /// Port.
        port: bytes = 1,
        /// Instance number.
        instance: uint32 = 2,
    }
}

oneof! {
    /// The port of a copy.
    PortKind {
        /// Deprecated: as a number.
        egress_port as EgressPort: uint32 = 1,
        /// The port as a byte string.
        port as Port: bytes = 3,
    }
}

message! {
    /// A copy.
    "p4.v1.Replica" Replica {
        /// Port.
        port_kind: oneof PortKind(1, 3),
        /// Instance number, which the egress pipeline sees.
        instance: uint32 = 2,
        /// The replicas that replace it, in this order of preference, while its port is down.
        backup_replicas: repeated message BackupReplica = 4,
    }
}

message! {
    /// A multicast group ("MulticastGroupEntry").
    "p4.v1.MulticastGroupEntry" MulticastGroupEntry {
        /// Number of the group, not 0.
        multicast_group_id: uint32 = 1,
        /// The copies; port and instance together are unique.
        replicas: repeated message Replica = 2,
        /// For the client's own use.
        metadata: bytes = 3,
    }
}

message! {
    /// A clone session ("CloneSessionEntry").
    "p4.v1.CloneSessionEntry" CloneSessionEntry {
        /// Number of the session, not 0.
        session_id: uint32 = 1,
        /// The copies.
        replicas: repeated message Replica = 2,
        /// Class of service of all copies.
        class_of_service: uint32 = 3,
        /// Maximum length of the copies in bytes; 0 is no maximum.
        packet_length_bytes: int32 = 4,
    }
}

message! {
    /// A member of a value set.
    "p4.v1.ValueSetMember" ValueSetMember {
        /// One for each field.
        r#match: repeated message FieldMatch = 1,
    }
}

message! {
    /// The members of a value set ("ValueSetEntry").
    "p4.v1.ValueSetEntry" ValueSetEntry {
        /// Id of the value set.
        value_set_id: uint32 = 1,
        /// All members.
        members: repeated message ValueSetMember = 2,
    }
}

message! {
    /// A cell of a register ("RegisterEntry").
    "p4.v1.RegisterEntry" RegisterEntry {
        /// Id of the register.
        register_id: uint32 = 1,
        /// The cell.
        index: message Index = 2,
        /// Its value.
        data: message P4Data = 3,
    }
}

message! {
    /// The configuration of a digest's sending.
    "p4.v1.DigestEntry.Config" DigestConfig {
        /// Nanoseconds that data waits at most; 0 is not at all.
        max_timeout_ns: int64 = 1,
        /// Length at which a list is sent; 0 is no limit but the device's.
        max_list_size: int32 = 2,
        /// Nanoseconds for which data is not repeated while the list is not acknowledged.
        ack_timeout_ns: int64 = 3,
    }
}

message! {
    /// The sending of a digest ("DigestEntry").
    "p4.v1.DigestEntry" DigestEntry {
        /// Id of the digest.
        digest_id: uint32 = 1,
        /// The configuration.
        config: message DigestConfig = 2,
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// The stream

oneof! {
    /// A client's message on the stream.
    StreamRequest {
        /// Asks to be primary.
        arbitration as Arbitration: message MasterArbitrationUpdate = 1,
        /// A packet for the switch.
        packet as Packet: message PacketOut = 2,
        /// Acknowledges a list of digests.
        digest_ack as DigestAck: message DigestListAck = 3,
        /// A message that the architecture defines.
        other as Other: message Any = 4,
    }
}

message! {
    /// A message from a client ("P4Runtime Stream Messages").
    "p4.v1.StreamMessageRequest" StreamMessageRequest {
        /// The message.
        update: oneof StreamRequest(1, 2, 3, 4),
    }
}

message! {
    /// A packet for the switch ("Packet I/O").
    "p4.v1.PacketOut" PacketOut {
        /// The frame, without the `packet_out` header.
        payload: bytes = 1,
        /// The fields of that header.
        metadata: repeated message PacketMetadata = 2,
    }
}

message! {
    /// Acknowledges a list of digests ("Digest Messages").
    "p4.v1.DigestListAck" DigestListAck {
        /// Id of the digest.
        digest_id: uint32 = 1,
        /// The list.
        list_id: uint64 = 2,
    }
}

oneof! {
    /// A switch's message on the stream.
    StreamResponse {
        /// The primary client.
        arbitration as Arbitration: message MasterArbitrationUpdate = 1,
        /// A packet for the client.
        packet as Packet: message PacketIn = 2,
        /// A list of digests.
        digest as Digest: message DigestList = 3,
        /// Entries that matched no packet for long.
        idle_timeout_notification as IdleTimeoutNotification: message IdleTimeoutNotification = 4,
        /// A message that the architecture defines.
        other as Other: message Any = 5,
        /// An error in a message on the stream.
        error as Error: message StreamError = 6,
    }
}

message! {
    /// A message to a client.
    "p4.v1.StreamMessageResponse" StreamMessageResponse {
        /// The message.
        update: oneof StreamResponse(1, 2, 3, 4, 5, 6),
    }
}

message! {
    /// A packet for the client.
    "p4.v1.PacketIn" PacketIn {
        /// The frame, without the `packet_in` header.
        payload: bytes = 1,
        /// The fields of that header.
        metadata: repeated message PacketMetadata = 2,
    }
}

message! {
    /// A list of digests.
    "p4.v1.DigestList" DigestList {
        /// Id of the digest.
        digest_id: uint32 = 1,
        /// Number of the list, for the acknowledgement.
        list_id: uint64 = 2,
        /// The data.
        data: repeated message P4Data = 3,
        /// The time at which the list was created, in nanoseconds since 1970.
        timestamp: int64 = 4,
    }
}

message! {
    /// A field of the header that packets to or from the control plane carry.
    "p4.v1.PacketMetadata" PacketMetadata {
        /// Id of the field.
        metadata_id: uint32 = 1,
        /// Its value.
        value: bytes = 2,
    }
}

message! {
    /// A client's request to be primary, or the switch's report of the primary client ("Client Arbitration and
    /// Controller Replication").
    "p4.v1.MasterArbitrationUpdate" MasterArbitrationUpdate {
        /// The device.
        device_id: uint64 = 1,
        /// The role; none is the default role.
        role: message Role = 2,
        /// The client's election id; in answers the highest one ever accepted.
        election_id: message Uint128 = 3,
        /// In answers: OK for the primary.
        status: message Status = 4,
    }
}

message! {
    /// A role ("Role Config").
    "p4.v1.Role" Role {
        /// Until 1.3: the role as a number.
        id: uint64 = 1,
        /// Name.
        name: string = 3,
        /// Its permissions; all if absent.
        config: message Any = 2,
    }
}

message! {
    /// Entries that matched no packet for as long as they say ("Table Idle Timeout Notification").
    "p4.v1.IdleTimeoutNotification" IdleTimeoutNotification {
        /// The entries, by their keys.
        table_entry: repeated message TableEntry = 1,
        /// The time at which the message was created, in nanoseconds since 1970.
        timestamp: int64 = 2,
    }
}

oneof! {
    /// The rejected message.
    StreamErrorDetails {
        /// A packet.
        packet_out as PacketOut: message PacketOutError = 5,
        /// An acknowledgement.
        digest_list_ack as DigestListAck: message DigestListAckError = 6,
        /// Something else.
        other as Other: message StreamOtherError = 7,
    }
}

message! {
    /// An error in a message on the stream ("Stream Error Reporting").
    "p4.v1.StreamError" StreamError {
        /// gRPC's canonical code.
        canonical_code: int32 = 1,
        /// An explanation for people.
        message: string = 2,
        /// Namespace of `code`.
        space: string = 3,
        /// Code of the target.
        code: int32 = 4,
        /// The message.
        details: oneof StreamErrorDetails(5, 6, 7),
    }
}

message! {
    /// A rejected packet.
    "p4.v1.PacketOutError" PacketOutError {
        /// The packet.
        packet_out: message PacketOut = 1,
    }
}

message! {
    /// A rejected acknowledgement.
    "p4.v1.DigestListAckError" DigestListAckError {
        /// The acknowledgement.
        digest_list_ack: message DigestListAck = 1,
    }
}

message! {
    /// Another rejected message.
    "p4.v1.StreamOtherError" StreamOtherError {
        /// The message.
        other: message Any = 1,
    }
}

message! {
    /// A number of 128 bits.
    "p4.v1.Uint128" Uint128 {
        /// The upper half.
        high: uint64 = 1,
        /// The lower half.
        low: uint64 = 2,
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// The pipeline configuration

enumeration! {
    /// The use of a pipeline configuration ("P4 Forwarding-Pipeline Configuration").
    "p4.v1.SetForwardingPipelineConfigRequest.Action" ConfigAction {
        /// Not set, which is an error.
        UNSPECIFIED as Unspecified = 0,
        /// Checks the configuration.
        VERIFY as Verify = 1,
        /// Checks the configuration and keeps it for COMMIT.
        VERIFY_AND_SAVE as VerifyAndSave = 2,
        /// Runs the configuration without the previous state.
        VERIFY_AND_COMMIT as VerifyAndCommit = 3,
        /// Runs the kept configuration.
        COMMIT as Commit = 4,
        /// Runs the configuration with the previous state.
        RECONCILE_AND_COMMIT as ReconcileAndCommit = 5,
    }
}

message! {
    /// Sets the program of a device.
    "p4.v1.SetForwardingPipelineConfigRequest" SetForwardingPipelineConfigRequest {
        /// The device.
        device_id: uint64 = 1,
        /// Until 1.3: the role as a number.
        role_id: uint64 = 2,
        /// The role.
        role: string = 6,
        /// The sender's election id.
        election_id: message Uint128 = 3,
        /// The use of the configuration.
        action: enumeration ConfigAction = 4,
        /// The configuration.
        config: message ForwardingPipelineConfig = 5,
    }
}

message! {
    /// The answer if it succeeded.
    "p4.v1.SetForwardingPipelineConfigResponse" SetForwardingPipelineConfigResponse {}
}

message! {
    /// A number for the client's own use, which can be 0.
    "p4.v1.ForwardingPipelineConfig.Cookie" Cookie {
        /// The number.
        cookie: uint64 = 1,
    }
}

message! {
    /// A program.
    "p4.v1.ForwardingPipelineConfig" ForwardingPipelineConfig {
        /// The control plane's view of it.
        p4info: message P4Info = 1,
        /// The program for the device.
        p4_device_config: bytes = 2,
        /// For the client's own use.
        cookie: message Cookie = 3,
    }
}

enumeration! {
    /// The fields of the configuration that the client wants, in addition to the cookie.
    "p4.v1.GetForwardingPipelineConfigRequest.ResponseType" ResponseType {
        /// All.
        ALL as All = 0,
        /// None.
        COOKIE_ONLY as CookieOnly = 1,
        /// The P4Info.
        P4INFO_AND_COOKIE as P4infoAndCookie = 2,
        /// The program for the device, and the cookie.
        DEVICE_CONFIG_AND_COOKIE as DeviceConfigAndCookie = 3,
    }
}

message! {
    /// Asks for the program of a device.
    "p4.v1.GetForwardingPipelineConfigRequest" GetForwardingPipelineConfigRequest {
        /// The device.
        device_id: uint64 = 1,
        /// The requested fields.
        response_type: enumeration ResponseType = 2,
    }
}

message! {
    /// The program of a device.
    "p4.v1.GetForwardingPipelineConfigResponse" GetForwardingPipelineConfigResponse {
        /// The requested fields.
        config: message ForwardingPipelineConfig = 1,
    }
}

message! {
    /// The error of an update of a batch ("Error Reporting Messages").
    "p4.v1.Error" Error {
        /// gRPC's canonical code.
        canonical_code: int32 = 1,
        /// An explanation for people.
        message: string = 2,
        /// Namespace of `code`.
        space: string = 3,
        /// Code of the target.
        code: int32 = 4,
        /// Details of the target.
        details: message Any = 5,
    }
}

enumeration! {
    /// Port numbers with a meaning for controllers ("Translation of Port Numbers").
    "p4.v1.SdnPort" SdnPort {
        /// No port.
        SDN_PORT_UNKNOWN as Unknown = 0,
        /// The lowest.
        SDN_PORT_MIN as Min = 1,
        /// The highest: 0xfffffeff.
        SDN_PORT_MAX as Max = -257,
        /// Back to ingress: 0xfffffffa.
        SDN_PORT_RECIRCULATE as Recirculate = -6,
        /// To the control plane: 0xfffffffd.
        SDN_PORT_CPU as Cpu = -3,
    }
}

message! {
    /// Asks what a server can do ("Capabilities RPC").
    "p4.v1.CapabilitiesRequest" CapabilitiesRequest {
        /// The device; 0 is none.
        device_id: uint64 = 1,
    }
}

message! {
    /// The capabilities of a server.
    "p4.v1.CapabilitiesResponse" CapabilitiesResponse {
        /// The version of P4Runtime: `1.5.0`.
        p4runtime_api_version: string = 1,
        /// Capabilities that are not standardised yet.
        experimental: message Any = 999,
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Values

oneof! {
    /// A value.
    DataValue {
        /// A `bit<W>` or `int<W>`.
        bitstring as Bitstring: bytes = 1,
        /// A `varbit<W>`.
        varbit as Varbit: message P4Varbit = 2,
        /// A `bool`.
        bool as Bool: bool = 3,
        /// A tuple.
        tuple as Tuple: message P4StructLike = 4,
        /// A struct.
        r#struct as Struct: message P4StructLike = 5,
        /// A header.
        header as Header: message P4Header = 6,
        /// A header union.
        header_union as HeaderUnion: message P4HeaderUnion = 7,
        /// A stack of headers.
        header_stack as HeaderStack: message P4HeaderStack = 8,
        /// A stack of header unions.
        header_union_stack as HeaderUnionStack: message P4HeaderUnionStack = 9,
        /// A member of an enum without representation, by name.
        r#enum as Enum: string = 10,
        /// An `error`, by name.
        error as Error: string = 11,
        /// A value of an enum with a representation.
        enum_value as EnumValue: bytes = 12,
    }
}

message! {
    /// A value ("P4Data in p4runtime.proto").
    "p4.v1.P4Data" P4Data {
        /// The value, by type.
        data: oneof DataValue(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12),
    }
}

message! {
    /// A value of `varbit<W>`.
    "p4.v1.P4Varbit" P4Varbit {
        /// The bits.
        bitstring: bytes = 1,
        /// Their number.
        bitwidth: int32 = 2,
    }
}

message! {
    /// A struct or tuple.
    "p4.v1.P4StructLike" P4StructLike {
        /// The values of all fields in order.
        members: repeated message P4Data = 1,
    }
}

message! {
    /// A header.
    "p4.v1.P4Header" P4Header {
        /// True if it is valid.
        is_valid: bool = 1,
        /// The values of all fields in order, if it is.
        bitstrings: repeated bytes = 2,
    }
}

message! {
    /// A header union.
    "p4.v1.P4HeaderUnion" P4HeaderUnion {
        /// Name of the valid header; empty if none is.
        valid_header_name: string = 1,
        /// That header.
        valid_header: message P4Header = 2,
    }
}

message! {
    /// A stack of headers.
    "p4.v1.P4HeaderStack" P4HeaderStack {
        /// All elements.
        entries: repeated message P4Header = 1,
    }
}

message! {
    /// A stack of header unions.
    "p4.v1.P4HeaderUnionStack" P4HeaderUnionStack {
        /// All elements.
        entries: repeated message P4HeaderUnion = 1,
    }
}

service! {
    /// The service.
    "p4.v1.P4Runtime" P4_RUNTIME {
        Write(WriteRequest) -> WriteResponse;
        Read(ReadRequest) -> stream ReadResponse;
        SetForwardingPipelineConfig(SetForwardingPipelineConfigRequest) -> SetForwardingPipelineConfigResponse;
        GetForwardingPipelineConfig(GetForwardingPipelineConfigRequest) -> GetForwardingPipelineConfigResponse;
        StreamChannel(stream StreamMessageRequest) -> stream StreamMessageResponse;
        Capabilities(CapabilitiesRequest) -> CapabilitiesResponse;
    }
}

super::define_files! {
    "p4/v1/p4runtime.proto" in "p4.v1" {
        messages {
            WriteRequest WriteResponse ReadRequest ReadResponse Update Entity ExternEntry IdleTimeout TableEntry Exact
            Ternary Lpm Range Optional FieldMatch TableAction ActionParam Action ActionProfileActionSet ActionProfileAction
            ActionProfileMember GroupMember ActionProfileGroup Index MeterEntry DirectMeterEntry MeterConfig CounterEntry
            DirectCounterEntry CounterData MeterCounterData PacketReplicationEngineEntry BackupReplica Replica
            MulticastGroupEntry CloneSessionEntry ValueSetMember ValueSetEntry RegisterEntry DigestConfig DigestEntry
            StreamMessageRequest PacketOut DigestListAck StreamMessageResponse PacketIn DigestList PacketMetadata
            MasterArbitrationUpdate Role IdleTimeoutNotification StreamError PacketOutError DigestListAckError
            StreamOtherError Uint128 SetForwardingPipelineConfigRequest SetForwardingPipelineConfigResponse Cookie
            ForwardingPipelineConfig GetForwardingPipelineConfigRequest GetForwardingPipelineConfigResponse Error
            CapabilitiesRequest CapabilitiesResponse
        }
        enumerations {
            Atomicity UpdateType ActionSelectionMode SizeSemantics ConfigAction ResponseType SdnPort
        }
        services { P4_RUNTIME }
    }
    "p4/v1/p4data.proto" in "p4.v1" {
        messages {
            P4Data P4Varbit P4StructLike P4Header P4HeaderUnion P4HeaderStack P4HeaderUnionStack
        }
        enumerations {}
        services {}
    }
}
