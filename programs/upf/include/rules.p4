// What a rule does: gates and rates (QER), usage (URR), then the forwarding action (FAR).

// Gates are rules of their own (`gate_closed`); rates are meters. A scheduler or traffic manager by slice, such as
// vQueue, belongs here: `meta.slice` is the packet's.
control Enforce(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    // Maximum bit rates, of flows and sessions, in bytes: what exceeds the committed rate is marked, what exceeds the peak rate
    // is dropped. Cell 0 is for none.
    meter(2 * SESSIONS_MAX, MeterType.bytes) rates;

    apply {
        bit<2> color = 0;
        if (meta.meter_a != 0) {
            rates.execute_meter(meta.meter_a, color);
            if (color == 2) {
                meta.reason = Reason.MBR;
            }
        }
        if (meta.meter_b != 0 && meta.reason == Reason.NONE) {
            rates.execute_meter(meta.meter_b, color);
            if (color == 2) {
                meta.reason = Reason.MBR;
            }
        }
    }
}

// Usage reporting rules: packets and bytes of IP, and what is left to the next report.
control Account(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    // 64 bits of packets, 64 bits of bytes. A URR has one cell for each direction.
    register<bit<128>>(4 * SESSIONS_MAX) usage;
    // Bytes until a report. The digest is sent when it becomes 0, once.
    register<bit<64>>(2 * SESSIONS_MAX) credit;

    action add(bit<32> cell) {
        bit<128> used = 0;
        @atomic {
            usage.read(used, cell);
            usage.write(cell, (used[127:64] + 1) ++ (used[63:0] + (bit<64>) meta.ip_length));
        }
    }
    action spend(bit<32> cell) {
        bit<64> before = 0;
        bit<64> left = 0;
        @atomic {
            credit.read(before, cell);
            left = before |-| (bit<64>) meta.ip_length;
            credit.write(cell, left);
        }
        if (before != 0 && left == 0) {
            digest<usage_t>(2, { cell, meta.rule });
        }
    }

    apply {
        if (meta.usage_a != 0) {
            add(meta.usage_a);
            if (meta.credit_a != 0) {
                spend(meta.credit_a);
            }
        }
        if (meta.usage_b != 0) {
            add(meta.usage_b);
            if (meta.credit_b != 0) {
                spend(meta.credit_b);
            }
        }
    }
}

control Act(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Enforce() enforce;
    Account() account;
    // Whether the controller knows that packets wait for a UE: 1 from the first one on; the controller sets 0.
    register<bit<1>>(SESSIONS_MAX) notified;

    // The parts that all rules have: meters, slice, cells of usage and credit; clone session and what its copies become.
    action common(bit<32> meter_a, bit<32> meter_b, bit<16> slice, bit<32> usage_a, bit<32> credit_a, bit<32> usage_b,
                  bit<32> credit_b, bit<16> copies, bit<32> copy) {
        meta.meter_a = meter_a;
        meta.meter_b = meter_b;
        meta.slice = slice;
        meta.usage_a = usage_a;
        meta.credit_a = credit_a;
        meta.usage_b = usage_b;
        meta.credit_b = credit_b;
        meta.copies = copies;
        meta.copy = copy;
    }
    // Out of the tunnel, to a data network.
    action to_network(next_hop_t next_hop, bit<32> meter_a, bit<32> meter_b, bit<16> slice, bit<32> usage_a,
                      bit<32> credit_a, bit<32> usage_b, bit<32> credit_b, bit<16> copies, bit<32> copy) {
        common(meter_a, meter_b, slice, usage_a, credit_a, usage_b, credit_b, copies, copy);
        meta.next_hop = next_hop;
    }
    // Into a tunnel. `tos` replaces the bits of the outer DSCP that `tos_mask` has (transport level marking).
    action to_tunnel(peer_t peer, teid_t teid, bit<1> has_container, qfi_t qfi, bit<1> rqi, bit<8> tos, bit<8> tos_mask,
                     bit<32> meter_a, bit<32> meter_b, bit<16> slice, bit<32> usage_a, bit<32> credit_a, bit<32> usage_b,
                     bit<32> credit_b, bit<16> copies, bit<32> copy) {
        common(meter_a, meter_b, slice, usage_a, credit_a, usage_b, credit_b, copies, copy);
        meta.peer = peer;
        meta.teid_out = teid;
        meta.has_container = has_container;
        meta.qfi = qfi;
        meta.rqi = rqi;
        meta.tos = tos;
        meta.tos_mask = tos_mask;
    }
    // To the buffer. It comes back for the rule `released`. `bar` is the cell of `notified`; 0: nobody is told.
    action buffer(rule_t released, bit<32> bar, qfi_t qfi) {
        meta.released = released;
        meta.bar = bar;
        meta.qfi = qfi;
        meta.is_buffered = 1;
    }
    action to_controller() {
        meta.reason = Reason.TO_CONTROLLER;
    }
    action drop_packet() {
        meta.reason = Reason.FAR_DROP;
    }
    // Dropped, and the controller is told once.
    action drop_and_notify(bit<32> bar, qfi_t qfi) {
        meta.bar = bar;
        meta.qfi = qfi;
        meta.reason = Reason.FAR_DROP;
    }
    action gate_closed() {
        meta.reason = Reason.GATE;
    }
    action no_rule() {
        meta.reason = Reason.NO_RULE;
    }
    table rules {
        key = { meta.rule : exact; }
        actions = { to_network; to_tunnel; buffer; to_controller; drop_packet; drop_and_notify; gate_closed; no_rule; }
        default_action = no_rule();
        size = RULES_MAX;
    }

    mac_t next_smac = 0;
    mac_t next_dmac = 0;
    action local(port_t port, bit<12> vid, mac_t smac, mac_t dmac, bit<16> mtu) {
        standard_metadata.egress_spec = port;
        meta.vid_out = vid;
        next_smac = smac;
        next_dmac = dmac;
        meta.mtu = mtu;
    }
    action no_next_hop() {
        meta.reason = Reason.NO_PEER;
    }
    table next_hops {
        key = { meta.next_hop : exact; }
        actions = { local; no_next_hop; }
        default_action = no_next_hop();
        size = 2000;
    }
    action via(port_t port, bit<16> mtu) {
        standard_metadata.egress_spec = port;
        meta.mtu = mtu;
    }
    action no_peer() {
        meta.reason = Reason.NO_PEER;
    }
    // The way to a peer, and how long an IP packet in its tunnels may be.
    table peers {
        key = { meta.peer : exact; }
        actions = { via; no_peer; }
        default_action = no_peer();
        size = PEERS_MAX;
    }

    apply {
        meta.message_out = Message.G_PDU;
        if (hdr.packet_io.isValid() && hdr.packet_io.reason == (bit<16>) From.END_MARKER) {
            meta.peer = hdr.packet_io.peer;
            meta.teid_out = hdr.packet_io.teid;
            meta.message_out = Message.END_MARKER;
        } else if (hdr.packet_io.isValid() && hdr.packet_io.reason == (bit<16>) From.ECHO_REQUEST) {
            meta.peer = hdr.packet_io.peer;
            meta.sequence_out = hdr.packet_io.mtu;
            meta.message_out = Message.ECHO_REQUEST;
        } else {
            rules.apply();
            if (meta.bar != 0) {
                bit<1> is_known = 0;
                @atomic {
                    notified.read(is_known, meta.bar);
                    notified.write(meta.bar, 1);
                }
                if (is_known == 0) {
                    digest<downlink_data_t>(1, { meta.bar, meta.rule, meta.diffserv, meta.qfi });
                }
            }
            if (meta.reason != Reason.NONE) {
                return;
            }
            if (meta.message == Message.END_MARKER) {
                // It ends where its tunnel ends, and goes on where the data does.
                if (meta.peer == 0) {
                    meta.reason = Reason.END_MARKER;
                    return;
                }
                meta.message_out = Message.END_MARKER;
                meta.has_container = 0;
                meta.ip_length = 0;
            } else {
                if (meta.is_buffered == 1) {
                    standard_metadata.egress_spec = BUFFER_PORT;
                    return;
                }
                enforce.apply(hdr, meta, standard_metadata);
                if (meta.reason != Reason.NONE) {
                    return;
                }
            }
        }
        if (meta.peer != 0) {
            peers.apply();
        } else {
            next_hops.apply();
            if (hdr.ipv6.isValid() && (hdr.ipv6.srcAddr[127:118] == 0x3fa || hdr.ipv6.dstAddr[127:118] == 0x3fa)) {
                meta.reason = Reason.LINK_LOCAL;
            }
        }
        if (meta.reason != Reason.NONE || meta.message_out != Message.G_PDU) {
            return;
        }
        if (meta.ip_length > meta.mtu) {
            meta.reason = Reason.MTU;
            return;
        }
        // What would leave with 0 is discarded (RFC 1812, section 5.3.1; RFC 8200, section 3).
        if (hdr.ipv4.isValid()) {
            if (hdr.ipv4.ttl <= 1) {
                meta.reason = Reason.TTL;
                return;
            }
            bit<16> before = hdr.ipv4.ttl ++ hdr.ipv4.protocol;
            hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
            hdr.ipv4.hdrChecksum = updated_checksum(hdr.ipv4.hdrChecksum, before, before - 0x0100);
        } else {
            if (hdr.ipv6.hopLimit <= 1) {
                meta.reason = Reason.TTL;
                return;
            }
            hdr.ipv6.hopLimit = hdr.ipv6.hopLimit - 1;
        }
        if (meta.peer == 0) {
            hdr.ethernet.srcAddr = next_smac;
            hdr.ethernet.dstAddr = next_dmac;
        }
        account.apply(hdr, meta, standard_metadata);
        if (meta.copies != 0) {
            clone_preserving_field_list(CloneType.I2E, (bit<32>) meta.copies, 1);
        }
    }
}
