// Parser, checksums and deparser. The parser decides by our own addresses which packets are tunnels of ours.

error {
    ExtensionLength
}

parser UpfParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) {
    value_set<bit<32>>(64) own_endpoints_v4;
    value_set<bit<128>>(64) own_endpoints_v6;

    state start {
        transition select(standard_metadata.ingress_port) {
            CONTROLLER_PORT: parse_packet_io;
            BUFFER_PORT: parse_packet_io;
            default: parse_ethernet;
        }
    }
    state parse_packet_io {
        packet.extract(hdr.packet_io);
        transition select(hdr.packet_io.etherType, (From) hdr.packet_io.reason) {
            (TYPE_CONTROL, From.NETWORK): parse_ethernet;
            (TYPE_CONTROL, From.RULE): parse_ethernet;
            default: accept;
        }
    }
    state parse_ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.etherType) {
            TYPE_IPV4: look_at_v4;
            TYPE_IPV6: look_at_v6;
            TYPE_VLAN: parse_vlan;
            default: accept;
        }
    }
    state parse_vlan {
        packet.extract(hdr.vlan);
        meta.vid = hdr.vlan.vid;
        transition select(hdr.vlan.etherType) {
            TYPE_IPV4: look_at_v4;
            TYPE_IPV6: look_at_v6;
            default: accept;
        }
    }

    // ---- one of our tunnels, or not? ----

    // A first fragment, too: ingress drops it.
    state look_at_v4 {
        ipv4_t ip = packet.lookahead<ipv4_t>();
        transition select(ip.version_ihl, ip.fragment & IPV4_FRAGMENT_OFFSET, ip.protocol) {
            (IPV4_NO_OPTIONS, 0, PROTOCOL_UDP): look_at_udp_v4;
            default: parse_ipv4;
        }
    }
    state look_at_udp_v4 {
        look_udp_v4_t look = packet.lookahead<look_udp_v4_t>();
        transition select(look.ports.dstPort, look.ip.dstAddr) {
            (GTPU_PORT, own_endpoints_v4): parse_under_v4;
            default: parse_ipv4;
        }
    }
    state look_at_v6 {
        ipv6_t ip = packet.lookahead<ipv6_t>();
        transition select(ip.version, ip.nextHdr) {
            (6, PROTOCOL_UDP): look_at_udp_v6;
            default: parse_ipv6;
        }
    }
    state look_at_udp_v6 {
        look_udp_v6_t look = packet.lookahead<look_udp_v6_t>();
        transition select(look.ports.dstPort, look.ip.dstAddr) {
            (GTPU_PORT, own_endpoints_v6): parse_under_v6;
            default: parse_ipv6;
        }
    }

    // ---- the tunnel ----

    state parse_under_v4 {
        packet.extract(hdr.under_v4);
        meta.teid = hdr.under_v4.teid;
        meta.message = hdr.under_v4.message;
        meta.flags = hdr.under_v4.flags;
        transition select(meta.flags) {
            GTPU_FLAGS &&& 0xf7: parse_message;
            GTPU_FLAGS &&& 0xf0: parse_options;
            // Another version: ingress drops it.
            default: accept;
        }
    }
    state parse_under_v6 {
        packet.extract(hdr.under_v6);
        meta.teid = hdr.under_v6.teid;
        meta.message = hdr.under_v6.message;
        meta.flags = hdr.under_v6.flags;
        transition select(meta.flags) {
            GTPU_FLAGS &&& 0xf7: parse_message;
            GTPU_FLAGS &&& 0xf0: parse_options;
            default: accept;
        }
    }
    state parse_options {
        packet.extract(hdr.options);
        meta.next = hdr.options.next;
        // Without E the type of the next extension header has no meaning (clause 5.1).
        transition select(meta.flags & GTPU_FLAG_E, hdr.options.next) {
            (0, _): parse_message;
            (_, EXTENSION_CONTAINER): look_at_container;
            default: parse_extensions;
        }
    }
    state look_at_container {
        look_extension_t look = packet.lookahead<look_extension_t>();
        meta.qfi_in = look.qfi;
        transition select(look.length) {
            1: parse_container;
            default: parse_extension;
        }
    }
    state parse_container {
        packet.extract(hdr.container);
        meta.next = hdr.container.next;
        transition select(meta.next) {
            EXTENSION_NONE: parse_message;
            default: parse_extensions;
        }
    }
    state parse_extensions {
        transition select(meta.next) {
            EXTENSION_NONE: parse_message;
            EXTENSION_CONTAINER: parse_late_container;
            // 0x8… and 0xc…: the receiver must understand it (clause 5.2.1).
            0x80 &&& 0x80: parse_unknown_extension;
            default: parse_extension;
        }
    }
    state parse_late_container {
        look_extension_t look = packet.lookahead<look_extension_t>();
        meta.qfi_in = look.qfi;
        transition parse_extension;
    }
    state parse_unknown_extension {
        meta.unknown_extension = 1;
        transition parse_extension;
    }
    state parse_extension {
        meta.words = packet.lookahead<bit<8>>();
        verify(meta.words != 0, error.ExtensionLength);
        transition parse_word;
    }
    state parse_word {
        packet.extract(hdr.extensions.next);
        meta.words = meta.words - 1;
        meta.extension_bytes = meta.extension_bytes + 4;
        meta.next = hdr.extensions.last.last;
        transition select(meta.words) {
            0: parse_extensions;
            default: parse_word;
        }
    }
    state parse_message {
        transition select(meta.message) {
            Message.G_PDU: parse_user;
            default: accept;
        }
    }
    state parse_user {
        transition select(packet.lookahead<bit<4>>()) {
            4: parse_ipv4;
            6: parse_ipv6;
            default: accept;
        }
    }

    // ---- the UE's packet ----

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.version_ihl, hdr.ipv4.fragment & IPV4_FRAGMENT_OFFSET, hdr.ipv4.protocol) {
            (IPV4_NO_OPTIONS, 0, PROTOCOL_UDP): look_at_ports;
            (IPV4_NO_OPTIONS, 0, PROTOCOL_TCP): look_at_ports;
            (IPV4_NO_OPTIONS, 0, PROTOCOL_SCTP): look_at_ports;
            default: accept;
        }
    }
    state parse_ipv6 {
        packet.extract(hdr.ipv6);
        transition select(hdr.ipv6.version, hdr.ipv6.nextHdr) {
            (6, PROTOCOL_UDP): look_at_ports;
            (6, PROTOCOL_TCP): look_at_ports;
            (6, PROTOCOL_SCTP): look_at_ports;
            default: accept;
        }
    }
    // They stay with the payload.
    state look_at_ports {
        ports_t ports = packet.lookahead<ports_t>();
        meta.src_port = ports.srcPort;
        meta.dst_port = ports.dstPort;
        transition accept;
    }
}

// What a UDP checksum covers of a packet in a tunnel, besides the payload.
#define USER_V4 hdr.ipv4.version_ihl, hdr.ipv4.diffserv, hdr.ipv4.totalLen, hdr.ipv4.identification, \
    hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.hdrChecksum, hdr.ipv4.srcAddr, hdr.ipv4.dstAddr
#define USER_V6 hdr.ipv6.version, hdr.ipv6.trafficClass, hdr.ipv6.flowLabel, hdr.ipv6.payloadLen, \
    hdr.ipv6.nextHdr, hdr.ipv6.hopLimit, hdr.ipv6.srcAddr, hdr.ipv6.dstAddr
#define OPTIONS(o) o.sequence, o.npdu, o.next
#define CONTAINER(c) c.length, c.pdu_type, c.flags, c.ppp, c.rqi, c.qfi, c.next
#define ANSWERS hdr.udp_port.length, hdr.udp_port.port, hdr.udp_port.next, hdr.recovery.type, hdr.recovery.restarts, \
    hdr.error_v4.type, hdr.error_v4.teid, hdr.error_v4.type2, hdr.error_v4.length, hdr.error_v4.address, \
    hdr.error_v6.type, hdr.error_v6.teid, hdr.error_v6.type2, hdr.error_v6.length, hdr.error_v6.address, \
    hdr.extension_types.type, hdr.extension_types.length, hdr.extension_types.first, hdr.extension_types.second
#define WORD(i) hdr.extensions[i].contents, hdr.extensions[i].last
#define WORDS WORD(0), WORD(1), WORD(2), WORD(3), WORD(4), WORD(5), WORD(6), WORD(7)

// Fields of invalid headers are 0 in p4jet (docs/differences.md) and change no sum; each header has an even number of bytes.
// A checksum of 0 means that there is none: over IPv4 anybody may leave it out (RFC 768), over IPv6 ingress asks from whom.
control UpfVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum_with_payload(hdr.under_v4.isValid() && hdr.under_v4.udp_checksum != 0,
            { hdr.under_v4.srcAddr, hdr.under_v4.dstAddr, 8w0, hdr.under_v4.protocol, hdr.under_v4.udp_length,
              hdr.under_v4.srcPort, hdr.under_v4.dstPort, hdr.under_v4.udp_length, hdr.under_v4.flags,
              hdr.under_v4.message, hdr.under_v4.length, hdr.under_v4.teid, OPTIONS(hdr.options),
              CONTAINER(hdr.container), WORDS, USER_V4, USER_V6 },
            hdr.under_v4.udp_checksum, HashAlgorithm.csum16);
        verify_checksum_with_payload(hdr.under_v6.isValid() && hdr.under_v6.udp_checksum != 0,
            { hdr.under_v6.srcAddr, hdr.under_v6.dstAddr, 16w0, hdr.under_v6.udp_length, 24w0, hdr.under_v6.nextHdr,
              hdr.under_v6.srcPort, hdr.under_v6.dstPort, hdr.under_v6.udp_length, hdr.under_v6.flags,
              hdr.under_v6.message, hdr.under_v6.length, hdr.under_v6.teid, OPTIONS(hdr.options),
              CONTAINER(hdr.container), WORDS, USER_V4, USER_V6 },
            hdr.under_v6.udp_checksum, HashAlgorithm.csum16);
    }
}

// Where an old header changes, its checksum is changed with it, elsewhere: a wrong one stays wrong.
control UpfCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.outer_v4.isValid(),
            { hdr.outer_v4.version_ihl, hdr.outer_v4.diffserv, hdr.outer_v4.totalLen, hdr.outer_v4.identification,
              hdr.outer_v4.fragment, hdr.outer_v4.ttl, hdr.outer_v4.protocol, hdr.outer_v4.srcAddr,
              hdr.outer_v4.dstAddr },
            hdr.outer_v4.hdrChecksum, HashAlgorithm.csum16);
        // Of packets for peers that want one, and over IPv6.
        update_checksum_with_payload(meta.sums_udp == 1 && hdr.outer_v4.isValid(),
            { hdr.outer_v4.srcAddr, hdr.outer_v4.dstAddr, 8w0, hdr.outer_v4.protocol, hdr.outer_v4.udp_length,
              hdr.outer_v4.srcPort, hdr.outer_v4.dstPort, hdr.outer_v4.udp_length, hdr.outer_v4.flags,
              hdr.outer_v4.message, hdr.outer_v4.length, hdr.outer_v4.teid, OPTIONS(hdr.outer_options),
              CONTAINER(hdr.outer_container), USER_V4, USER_V6 },
            hdr.outer_v4.udp_checksum, HashAlgorithm.csum16);
        update_checksum_with_payload(meta.sums_udp == 1 && hdr.outer_v6.isValid(),
            { hdr.outer_v6.srcAddr, hdr.outer_v6.dstAddr, 16w0, hdr.outer_v6.udp_length, 24w0, hdr.outer_v6.nextHdr,
              hdr.outer_v6.srcPort, hdr.outer_v6.dstPort, hdr.outer_v6.udp_length, hdr.outer_v6.flags,
              hdr.outer_v6.message, hdr.outer_v6.length, hdr.outer_v6.teid, OPTIONS(hdr.outer_options),
              CONTAINER(hdr.outer_container), USER_V4, USER_V6 },
            hdr.outer_v6.udp_checksum, HashAlgorithm.csum16);
        // Of messages of ours, whose payload is cut off.
        update_checksum(meta.sums_answer == 1 && hdr.outer_v4.isValid(),
            { hdr.outer_v4.srcAddr, hdr.outer_v4.dstAddr, 8w0, hdr.outer_v4.protocol, hdr.outer_v4.udp_length,
              hdr.outer_v4.srcPort, hdr.outer_v4.dstPort, hdr.outer_v4.udp_length, hdr.outer_v4.flags,
              hdr.outer_v4.message, hdr.outer_v4.length, hdr.outer_v4.teid, OPTIONS(hdr.outer_options), ANSWERS },
            hdr.outer_v4.udp_checksum, HashAlgorithm.csum16);
        update_checksum(meta.sums_answer == 1 && hdr.outer_v6.isValid(),
            { hdr.outer_v6.srcAddr, hdr.outer_v6.dstAddr, 16w0, hdr.outer_v6.udp_length, 24w0, hdr.outer_v6.nextHdr,
              hdr.outer_v6.srcPort, hdr.outer_v6.dstPort, hdr.outer_v6.udp_length, hdr.outer_v6.flags,
              hdr.outer_v6.message, hdr.outer_v6.length, hdr.outer_v6.teid, OPTIONS(hdr.outer_options), ANSWERS },
            hdr.outer_v6.udp_checksum, HashAlgorithm.csum16);
    }
}

// In the order of the wire.
control UpfDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_io);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.vlan);
        packet.emit(hdr.outer_v4);
        packet.emit(hdr.outer_v6);
        packet.emit(hdr.outer_options);
        packet.emit(hdr.outer_container);
        packet.emit(hdr.udp_port);
        packet.emit(hdr.recovery);
        packet.emit(hdr.error_v4);
        packet.emit(hdr.error_v6);
        packet.emit(hdr.extension_types);
        packet.emit(hdr.under_v4);
        packet.emit(hdr.under_v6);
        packet.emit(hdr.options);
        packet.emit(hdr.container);
        packet.emit(hdr.extensions);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv6);
    }
}
