//! The configuration of roles that Stratum has defined, and clients send.

message! {
    /// What a role may do.
    "stratum.P4RoleConfig" P4RoleConfig {
        /// Ids of the objects that only this role writes.
        exclusive_p4_ids: repeated uint32 = 1,
        /// Ids of the objects that this role writes besides others.
        shared_p4_ids: repeated uint32 = 2,
        /// Which packets it receives.
        packet_in_filter: message PacketFilter = 3,
        /// True if it receives packets.
        receives_packet_ins: bool = 4,
        /// True if it sets the pipeline.
        can_push_pipeline: bool = 5,
    }
}

message! {
    /// Packets whose metadata has a value.
    "stratum.P4RoleConfig.PacketFilter" PacketFilter {
        /// The field.
        metadata_id: uint32 = 1,
        /// Its value.
        value: bytes = 2,
    }
}

super::define_files! {
    "stratum/public/proto/p4_role_config.proto" in "stratum" {
        messages { P4RoleConfig PacketFilter }
        enumerations {}
        services {}
    }
}
