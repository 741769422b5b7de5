// Packet detection rules of UEs' addresses: from a packet to the number of its rule. A session without filters takes
// one lookup.

// By the UE's address.
control DetectDownlink(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    action ue(session_t session, rule_t rule, filters_t filters) {
        meta.session = session;
        meta.rule = rule;
        meta.filters = filters;
    }
    action own_address() {
        meta.reason = Reason.OWN_ADDRESS;
    }
    action unknown_ue() {
        meta.reason = Reason.UNKNOWN_UE;
    }
    table ues_v4 {
        key = {
            meta.network     : exact;
            hdr.ipv4.dstAddr : exact;
        }
        actions = { ue; own_address; unknown_ue; }
        default_action = unknown_ue();
        size = RULES_MAX;
    }
    // A UE has a prefix of 64 bits (TS 23.501, clause 5.8.2.2).
    table ues_v6 {
        key = {
            meta.network             : exact;
            hdr.ipv6.dstAddr[127:64] : exact @name("prefix");
        }
        actions = { ue; own_address; unknown_ue; }
        default_action = unknown_ue();
        size = RULES_MAX;
    }

    apply {
        if (hdr.ipv4.isValid()) {
            ues_v4.apply();
        } else {
            ues_v6.apply();
        }
    }
}
