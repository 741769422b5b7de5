// Packet detection rules of tunnels: from a packet to the number of its rule.

// By the tunnel that it came through (F-TEID).
control DetectUplink(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    // Of each session: a number for "there was one" (1 bit), the highest sequence number (16 bits), and which of the 64
    // up to it have arrived, the highest in bit 0.
    register<bit<128>>(SESSIONS_MAX) arrived;

    bit<1> checks_source = 0;
    bit<32> ue_v4 = 0;
    bit<64> ue_v6 = 0;

    // `rule` is the rule, or with filters that of position 0. With `checks`, the source must be the UE's address; 0 is none.
    action tunnel(session_t session, rule_t rule, filters_t filters, Duplicates duplicates, bit<1> checks,
                  bit<32> v4, bit<64> v6) {
        meta.session = session;
        meta.rule = rule;
        meta.filters = filters;
        meta.duplicates = duplicates;
        checks_source = checks;
        ue_v4 = v4;
        ue_v6 = v6;
    }
    // Packets for the UE, such as on N9 or when a gNB forwards: no check of the source.
    action tunnel_to_ue(session_t session, rule_t rule, filters_t filters, Duplicates duplicates) {
        meta.session = session;
        meta.rule = rule;
        meta.filters = filters;
        meta.duplicates = duplicates;
        meta.from_ue = 0;
    }
    action unknown_teid() {
        meta.reason = Reason.UNKNOWN_TEID;
    }
    table teids {
        key = {
            meta.endpoint : exact;
            meta.teid     : exact;
        }
        actions = { tunnel; tunnel_to_ue; unknown_teid; }
        default_action = unknown_teid();
        size = RULES_MAX;
    }

    apply {
        meta.from_ue = 1;
        meta.decapsulates = 1;
        teids.apply();
        if (meta.reason != Reason.NONE) {
            return;
        }
        if (meta.duplicates != Duplicates.KEEP && meta.flags & GTPU_FLAG_S != 0 && meta.message == Message.G_PDU) {
            @atomic {
                bit<128> state = 0;
                arrived.read(state, meta.session);
                bit<16> highest = state[79:64];
                bit<64> window = state[63:0];
                bit<16> ahead = hdr.options.sequence - highest;
                bit<16> behind = highest - hdr.options.sequence;
                if (state[127:127] == 0) {
                    highest = hdr.options.sequence;
                    window = 1;
                } else if (meta.duplicates == Duplicates.LARGER) {
                    if (hdr.options.sequence <= highest) {
                        meta.reason = Reason.DUPLICATE;
                    } else {
                        highest = hdr.options.sequence;
                    }
                } else if (ahead != 0 && ahead < 0x8000) {
                    window = ahead < 64 ? (window << ahead) | 1 : 1;
                    highest = hdr.options.sequence;
                } else if (behind < 64) {
                    bit<64> bit_of = 64w1 << behind;
                    if (window & bit_of != 0) {
                        meta.reason = Reason.DUPLICATE;
                    }
                    window = window | bit_of;
                } else if (behind < 4096) {
                    meta.reason = Reason.LATE;
                } else {
                    // So far back that the sender has begun again.
                    highest = hdr.options.sequence;
                    window = 1;
                }
                arrived.write(meta.session, 1w1 ++ 47w0 ++ highest ++ window);
            }
            if (meta.reason != Reason.NONE) {
                return;
            }
        }
        if (checks_source == 1 && meta.message == Message.G_PDU) {
            if (hdr.ipv4.isValid()) {
                if (hdr.ipv4.srcAddr != ue_v4) {
                    meta.reason = Reason.SOURCE;
                }
            } else if (hdr.ipv6.srcAddr[127:64] != ue_v6 && hdr.ipv6.srcAddr[127:118] != 0x3fa) {
                // A link-local address (fe80::/10) is right for router solicitations; `to_network` does not take it.
                meta.reason = Reason.SOURCE;
            }
        }
    }
}
