// Copies, the headers of tunnels that begin here, frames for the controller and the buffer.
control UpfEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    // What egress drops, by reason.
    counter(256, CounterType.packets_and_bytes) egress_drops;

    action copy_to_tunnel(peer_t peer, teid_t teid, bit<1> has_container, qfi_t qfi, bit<8> tos, bit<8> tos_mask) {
        meta.peer = peer;
        meta.teid_out = teid;
        meta.has_container = has_container;
        meta.qfi = qfi;
        meta.tos = tos;
        meta.tos_mask = tos_mask;
    }
    action copy_to_port(mac_t smac, mac_t dmac, bit<12> vid) {
        hdr.ethernet.srcAddr = smac;
        hdr.ethernet.dstAddr = dmac;
        meta.vid_out = vid;
    }
    action no_replica() {
        meta.reason = Reason.NO_REPLICA;
    }
    // What copies are: to the other gNB during a handover, or to who intercepts. A group's copies differ by `egress_rid`.
    table copies {
        key = {
            meta.copy                    : exact;
            standard_metadata.egress_rid : exact;
        }
        actions = { copy_to_tunnel; copy_to_port; no_replica; }
        default_action = no_replica();
        size = SESSIONS_MAX;
    }

    action encapsulate(mac_t smac, mac_t dmac, bit<12> vid) {
        hdr.ethernet.srcAddr = smac;
        hdr.ethernet.dstAddr = dmac;
        meta.vid_out = vid;
    }
    action encapsulate_v4(mac_t smac, mac_t dmac, bit<12> vid, bit<32> source, bit<32> destination, bit<8> ttl,
                          bit<16> port_base, bit<16> port_mask, bit<1> sums) {
        encapsulate(smac, dmac, vid);
        hdr.outer_v4.setValid();
        hdr.ethernet.etherType = TYPE_IPV4;
        hdr.outer_v4.version_ihl = IPV4_NO_OPTIONS;
        hdr.outer_v4.diffserv = meta.diffserv & ~meta.tos_mask | meta.tos & meta.tos_mask;
        hdr.outer_v4.totalLen = meta.length + IPV4_BYTES + UDP_BYTES + GTPU_BYTES;
        // Not to be fragmented; such packets need no identification (RFC 6864).
        hdr.outer_v4.identification = 0;
        hdr.outer_v4.fragment = IPV4_DONT_FRAGMENT;
        hdr.outer_v4.ttl = ttl;
        hdr.outer_v4.protocol = PROTOCOL_UDP;
        hdr.outer_v4.srcAddr = source;
        hdr.outer_v4.dstAddr = destination;
        hdr.outer_v4.srcPort = port_base | (meta.entropy & port_mask);
        hdr.outer_v4.dstPort = GTPU_PORT;
        hdr.outer_v4.udp_length = meta.length + UDP_BYTES + GTPU_BYTES;
        hdr.outer_v4.udp_checksum = 0;
        hdr.outer_v4.flags = GTPU_FLAGS;
        hdr.outer_v4.message = meta.message_out;
        hdr.outer_v4.length = meta.length;
        hdr.outer_v4.teid = meta.teid_out;
        meta.sums_udp = sums;
    }
    action encapsulate_v6(mac_t smac, mac_t dmac, bit<12> vid, bit<128> source, bit<128> destination, bit<8> ttl,
                          bit<16> port_base, bit<16> port_mask, bit<1> sums) {
        encapsulate(smac, dmac, vid);
        hdr.outer_v6.setValid();
        hdr.ethernet.etherType = TYPE_IPV6;
        hdr.outer_v6.version = 6;
        hdr.outer_v6.trafficClass = meta.diffserv & ~meta.tos_mask | meta.tos & meta.tos_mask;
        // Routers may spread flows by it instead of by ports (RFC 6438).
        hdr.outer_v6.flowLabel = (bit<20>) meta.entropy;
        hdr.outer_v6.payloadLen = meta.length + UDP_BYTES + GTPU_BYTES;
        hdr.outer_v6.nextHdr = PROTOCOL_UDP;
        hdr.outer_v6.hopLimit = ttl;
        hdr.outer_v6.srcAddr = source;
        hdr.outer_v6.dstAddr = destination;
        hdr.outer_v6.srcPort = port_base | (meta.entropy & port_mask);
        hdr.outer_v6.dstPort = GTPU_PORT;
        hdr.outer_v6.udp_length = meta.length + UDP_BYTES + GTPU_BYTES;
        hdr.outer_v6.udp_checksum = 0;
        hdr.outer_v6.flags = GTPU_FLAGS;
        hdr.outer_v6.message = meta.message_out;
        hdr.outer_v6.length = meta.length;
        hdr.outer_v6.teid = meta.teid_out;
        meta.sums_udp = sums;
    }
    action no_peer() {
        meta.reason = Reason.NO_PEER;
    }
    // The headers of the tunnels to a peer. The UDP source port is `port_base` with those bits of the flow's hash that
    // `port_mask` has (TS 29.281, clause 4.4.2.0). `sums`: with a UDP checksum, which over IPv6 only peers that take
    // packets without one may miss (RFC 6936).
    table encapsulations {
        key = { meta.peer : exact; }
        actions = { encapsulate_v4; encapsulate_v6; no_peer; }
        default_action = no_peer();
        size = PEERS_MAX;
    }

    action remove_tunnel() {
        hdr.under_v4.setInvalid();
        hdr.under_v6.setInvalid();
        hdr.options.setInvalid();
        hdr.container.setInvalid();
        hdr.extensions[0].setInvalid();
        hdr.extensions[1].setInvalid();
        hdr.extensions[2].setInvalid();
        hdr.extensions[3].setInvalid();
        hdr.extensions[4].setInvalid();
        hdr.extensions[5].setInvalid();
        hdr.extensions[6].setInvalid();
        hdr.extensions[7].setInvalid();
    }

    apply {
        bool is_copy = standard_metadata.instance_type == INSTANCE_INGRESS_CLONE;
        if (is_copy) {
            copies.apply();
            if (meta.reason != Reason.NONE) {
                egress_drops.count((bit<32>) (bit<8>) meta.reason);
                mark_to_drop(standard_metadata);
                return;
            }
            // The packet as it arrived. What it was before decides what it is now.
            meta.decapsulates = 1;
            meta.message_out = Message.G_PDU;
            meta.ip_length = hdr.ipv4.isValid() ? hdr.ipv4.totalLen : hdr.ipv6.payloadLen + IPV6_BYTES;
            meta.diffserv = hdr.ipv4.isValid() ? hdr.ipv4.diffserv : hdr.ipv6.trafficClass;
        } else if (meta.is_ours == 1) {
            remove_tunnel();
            truncate(meta.cut);
            return;
        } else if (meta.reason != Reason.NONE) {
            hdr.packet_io.setValid();
            hdr.packet_io.etherType = TYPE_CONTROL;
            hdr.packet_io.reason = (bit<16>) (bit<8>) meta.reason;
            hdr.packet_io.port = (bit<16>) standard_metadata.ingress_port;
            hdr.packet_io.network = meta.network;
            hdr.packet_io.peer = meta.peer;
            hdr.packet_io.mtu = meta.mtu;
            hdr.packet_io.rule = meta.rule;
            hdr.packet_io.teid = meta.teid;
            truncate(CONTROLLER_BYTES);
            return;
        } else if (hdr.packet_io.isValid()) {
            hdr.packet_io.setInvalid();
        }
        if (meta.decapsulates == 1) {
            remove_tunnel();
            bit<16> type = hdr.ipv4.isValid() ? TYPE_IPV4 : TYPE_IPV6;
            if (hdr.vlan.isValid()) {
                hdr.vlan.etherType = type;
            } else {
                hdr.ethernet.etherType = type;
            }
        }
        if (meta.is_buffered == 1) {
            hdr.packet_io.setValid();
            hdr.packet_io.dstAddr = 0;
            hdr.packet_io.srcAddr = 0;
            hdr.packet_io.etherType = TYPE_CONTROL;
            hdr.packet_io.reason = (bit<16>) From.RULE;
            hdr.packet_io.port = (bit<16>) standard_metadata.ingress_port;
            hdr.packet_io.network = meta.network;
            hdr.packet_io.peer = 0;
            hdr.packet_io.mtu = 0;
            hdr.packet_io.rule = meta.released;
            hdr.packet_io.teid = 0;
            return;
        }
        if (meta.peer != 0) {
            // A tag belongs to one link.
            if (hdr.vlan.isValid()) {
                hdr.ethernet.etherType = hdr.vlan.etherType;
                hdr.vlan.setInvalid();
            }
            if (!hdr.ethernet.isValid()) {
                // A message that the controller asked for.
                hdr.ethernet.setValid();
            }
            if (meta.entropy == 0) {
                bit<32> source = hdr.ipv4.srcAddr;
                bit<32> destination = hdr.ipv4.dstAddr;
                if (hdr.ipv6.isValid()) {
                    source = hdr.ipv6.srcAddr[127:96] ^ hdr.ipv6.srcAddr[95:64] ^ hdr.ipv6.srcAddr[63:32]
                             ^ hdr.ipv6.srcAddr[31:0];
                    destination = hdr.ipv6.dstAddr[127:96] ^ hdr.ipv6.dstAddr[95:64] ^ hdr.ipv6.dstAddr[63:32]
                                  ^ hdr.ipv6.dstAddr[31:0];
                }
                // Multiplying by an odd number (2^32 divided by the golden ratio) mixes towards the high bits.
                bit<32> mixed = (source ^ (meta.src_port ++ meta.dst_port)) * 0x9e3779b1;
                mixed = (mixed + destination) * 0x9e3779b1;
                meta.entropy = mixed[31:16];
            }
            meta.length = meta.ip_length;
            bit<8> flags = GTPU_FLAGS;
            if (meta.has_container == 1) {
                meta.length = meta.length + GTPU_OPTIONS_BYTES + CONTAINER_BYTES;
                flags = GTPU_FLAGS | GTPU_FLAG_E;
                hdr.outer_options.setValid();
                hdr.outer_options.sequence = 0;
                hdr.outer_options.npdu = 0;
                hdr.outer_options.next = EXTENSION_CONTAINER;
                // PDU type 0: for the UE (TS 38.415, clause 5.5.2.1); 1: from it.
                hdr.outer_container.setValid();
                hdr.outer_container.length = 1;
                hdr.outer_container.pdu_type = (bit<4>) meta.from_ue;
                hdr.outer_container.flags = 0;
                hdr.outer_container.ppp = 0;
                hdr.outer_container.rqi = meta.rqi;
                hdr.outer_container.qfi = meta.qfi;
                hdr.outer_container.next = EXTENSION_NONE;
            } else if (meta.message_out == Message.ECHO_REQUEST) {
                meta.length = GTPU_OPTIONS_BYTES;
                flags = GTPU_FLAGS | GTPU_FLAG_S;
                hdr.outer_options.setValid();
                hdr.outer_options.sequence = meta.sequence_out;
                hdr.outer_options.npdu = 0;
                hdr.outer_options.next = EXTENSION_NONE;
            }
            encapsulations.apply();
            if (meta.reason != Reason.NONE) {
                egress_drops.count((bit<32>) (bit<8>) meta.reason);
                mark_to_drop(standard_metadata);
                return;
            }
            bit<32> bytes = 0;
            if (hdr.outer_v4.isValid()) {
                hdr.outer_v4.flags = flags;
                bytes = (bit<32>) (hdr.outer_v4.totalLen + ETHERNET_BYTES);
            } else {
                hdr.outer_v6.flags = flags;
                bytes = (bit<32>) (hdr.outer_v6.payloadLen + IPV6_BYTES + ETHERNET_BYTES);
            }
            if (meta.vid_out != 0) {
                bytes = bytes + (bit<32>) VLAN_BYTES;
            }
            if (meta.message_out != Message.G_PDU) {
                // A user's packet behind an end marker or a frame behind the controller's header goes.
                meta.sums_answer = meta.sums_udp;
                meta.sums_udp = 0;
                hdr.ipv4.setInvalid();
                hdr.ipv6.setInvalid();
                truncate(bytes);
            } else if (standard_metadata.packet_length < 64) {
                // Ethernet's padding stays outside of the tunnel.
                truncate(bytes);
            }
        }
        if (hdr.vlan.isValid()) {
            if (meta.vid_out != 0) {
                hdr.vlan.vid = meta.vid_out;
            } else if (hdr.ethernet.isValid()) {
                hdr.ethernet.etherType = hdr.vlan.etherType;
                hdr.vlan.setInvalid();
            }
        } else if (meta.vid_out != 0) {
            hdr.vlan.setValid();
            hdr.vlan.priority = 0;
            hdr.vlan.vid = meta.vid_out;
            hdr.vlan.etherType = hdr.ethernet.etherType;
            hdr.ethernet.etherType = TYPE_VLAN;
        }
    }
}
