// The validity of what arrives, and what kind of GTP-U message it is.

const bit<16> PACKET_IO_BYTES = 32;

// The sum of a right header, with its checksum, is 0 (RFC 1071).
#define IPV4_SUM(h) { h.version_ihl, h.diffserv, h.totalLen, h.identification, h.fragment, h.ttl, h.protocol, \
                      h.hdrChecksum, h.srcAddr, h.dstAddr }

// The checksum of a header in which one word has changed: RFC 1624, equation 3.
bit<16> updated_checksum(in bit<16> checksum, in bit<16> before, in bit<16> after) {
    bit<32> sum = (bit<32>) ~checksum + (bit<32>) ~before + (bit<32>) after;
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return ~sum[15:0];
}

// Sets the reason for every packet that is not right, and `message`: what it is, 0 for a packet without a tunnel.
control Admit(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    // Where a packet is, by port and VLAN: `has_tunnels` for N3 and N9, `has_packets` for N6; both may be on one.
    action attach(network_t network, mac_t own_mac, bit<1> has_tunnels, bit<1> has_packets) {
        meta.network = network;
        meta.own_mac = own_mac;
        meta.has_tunnels = has_tunnels;
        meta.has_packets = has_packets;
    }
    action unknown_attachment() {
        meta.reason = Reason.UNKNOWN_ATTACHMENT;
    }
    // VLAN 0 is no VLAN.
    table attachments {
        key = {
            standard_metadata.ingress_port : exact;
            meta.vid                       : exact;
        }
        actions = { attach; unknown_attachment; }
        default_action = unknown_attachment();
        size = 2000;
    }

    bit<1> takes_no_sum = 0;
    // Over IPv6, `no_sum` allows packets without a UDP checksum (RFC 6936).
    action endpoint(endpoint_t number, bit<1> no_sum) {
        meta.endpoint = number;
        takes_no_sum = no_sum;
    }
    action no_endpoint() {
        meta.reason = Reason.NOT_FOR_US;
    }
    table endpoints_v4 {
        key = { hdr.under_v4.dstAddr : exact; }
        actions = { endpoint; no_endpoint; }
        default_action = no_endpoint();
        size = 64;
    }
    table endpoints_v6 {
        key = { hdr.under_v6.dstAddr : exact; }
        actions = { endpoint; no_endpoint; }
        default_action = no_endpoint();
        size = 64;
    }

    // Congestion on the way: RFC 6040, section 4.2, for GTP-U RFC 9601.
    action mark_v4(bit<2> ecn) {
        bit<16> before = hdr.ipv4.version_ihl ++ hdr.ipv4.diffserv;
        bit<16> after = before[15:2] ++ ecn;
        hdr.ipv4.diffserv = after[7:0];
        hdr.ipv4.hdrChecksum = updated_checksum(hdr.ipv4.hdrChecksum, before, after);
    }
    action mark_v6(bit<2> ecn) {
        hdr.ipv6.trafficClass = hdr.ipv6.trafficClass[7:2] ++ ecn;
    }

    apply {
        bool is_tunnelled = hdr.under_v4.isValid() || hdr.under_v6.isValid();
        bit<2> ecn = 0;
        meta.length = (bit<16>) standard_metadata.packet_length - ETHERNET_BYTES;
        if (hdr.vlan.isValid()) {
            meta.length = meta.length - VLAN_BYTES;
        }
        if (hdr.packet_io.isValid()) {
            // The controller and the buffer need no checks but that of lengths.
            meta.length = meta.length - PACKET_IO_BYTES;
            meta.network = hdr.packet_io.network;
        } else {
            attachments.apply();
            if (meta.reason != Reason.NONE) {
                return;
            }
            if (hdr.ethernet.dstAddr != meta.own_mac) {
                meta.reason = Reason.NOT_FOR_US;
                return;
            }
        }
        if (standard_metadata.parser_error != error.NoError) {
            meta.reason = is_tunnelled ? Reason.TUNNEL_TOO_SHORT : Reason.TOO_SHORT;
            return;
        }
        if (is_tunnelled) {
            bit<16> udp_length = 0;
            bit<16> gtpu_length = 0;
            // What IP says of the UDP datagram's length, and what there is.
            bit<16> ip_says = 0;
            bit<16> available = 0;
            if (hdr.under_v4.isValid()) {
                endpoints_v4.apply();
                bit<16> sum = 0;
                hash(sum, HashAlgorithm.csum16, 16w0, IPV4_SUM(hdr.under_v4), 32w0x10000);
                if (sum != 0) {
                    meta.reason = Reason.IP_CHECKSUM;
                } else if (hdr.under_v4.fragment & ~IPV4_DONT_FRAGMENT != 0) {
                    meta.reason = Reason.TUNNEL_FRAGMENT;
                }
                ecn = hdr.under_v4.diffserv[1:0];
                udp_length = hdr.under_v4.udp_length;
                gtpu_length = hdr.under_v4.length;
                ip_says = hdr.under_v4.totalLen - IPV4_BYTES;
                available = meta.length - IPV4_BYTES;
                meta.entropy = hdr.under_v4.srcPort;
            } else {
                endpoints_v6.apply();
                if (hdr.under_v6.udp_checksum == 0 && takes_no_sum == 0) {
                    meta.reason = Reason.UDP_CHECKSUM;
                }
                ecn = hdr.under_v6.trafficClass[1:0];
                udp_length = hdr.under_v6.udp_length;
                gtpu_length = hdr.under_v6.length;
                ip_says = hdr.under_v6.payloadLen;
                available = meta.length - IPV6_BYTES;
                meta.entropy = hdr.under_v6.srcPort;
            }
            if (meta.has_tunnels == 0) {
                meta.reason = Reason.NOT_FOR_US;
            }
            if (meta.reason != Reason.NONE) {
                return;
            }
            // Longer is fine: Ethernet pads.
            if (udp_length != ip_says || ip_says > available || gtpu_length > 0xffef
                || gtpu_length + UDP_BYTES + GTPU_BYTES != udp_length) {
                meta.reason = Reason.TUNNEL_LENGTH;
                return;
            }
            if (standard_metadata.checksum_error == 1) {
                meta.reason = Reason.UDP_CHECKSUM;
                return;
            }
            // The spare bit does not matter (clause 5.1).
            if (meta.flags & 0xf0 != GTPU_FLAGS) {
                meta.reason = Reason.GTPU_HEADER;
                return;
            }
            bit<16> used = meta.extension_bytes;
            if (hdr.options.isValid()) {
                used = used + GTPU_OPTIONS_BYTES;
            }
            if (hdr.container.isValid()) {
                used = used + CONTAINER_BYTES;
            }
            if (used > gtpu_length) {
                meta.reason = Reason.TUNNEL_LENGTH;
                return;
            }
            meta.length = gtpu_length - used;
            if (meta.unknown_extension == 1) {
                meta.reason = Reason.EXTENSION;
                return;
            }
            if (meta.message != Message.G_PDU) {
                if (meta.message == Message.ECHO_RESPONSE) {
                    meta.reason = Reason.ECHO_RESPONSE;
                } else if (meta.message == Message.ERROR_INDICATION) {
                    meta.reason = Reason.ERROR_INDICATION;
                } else if (meta.message == Message.SUPPORTED_EXTENSIONS) {
                    meta.reason = Reason.SUPPORTED_EXTENSIONS;
                } else if (meta.message != Message.ECHO_REQUEST && meta.message != Message.END_MARKER) {
                    meta.reason = Reason.GTPU_MESSAGE;
                }
                return;
            }
        }

        if (hdr.ipv4.isValid()) {
            // What RFC 1812, section 5.2.2, asks. A header with options is not summed.
            if (hdr.ipv4.version_ihl < IPV4_NO_OPTIONS || hdr.ipv4.version_ihl > 0x4f || hdr.ipv4.totalLen < IPV4_BYTES) {
                meta.reason = Reason.IP_HEADER;
                return;
            }
            bit<16> sum = 0;
            hash(sum, HashAlgorithm.csum16, 16w0, IPV4_SUM(hdr.ipv4), 32w0x10000);
            if (sum != 0 && hdr.ipv4.version_ihl == IPV4_NO_OPTIONS) {
                meta.reason = Reason.IP_CHECKSUM;
                return;
            }
            meta.ip_length = hdr.ipv4.totalLen;
            meta.protocol = hdr.ipv4.protocol;
            meta.diffserv = hdr.ipv4.diffserv;
        } else if (hdr.ipv6.isValid()) {
            // A length that would wrap around, too.
            if (hdr.ipv6.version != 6 || hdr.ipv6.payloadLen > 0xffff - IPV6_BYTES) {
                meta.reason = Reason.IP_HEADER;
                return;
            }
            meta.ip_length = hdr.ipv6.payloadLen + IPV6_BYTES;
            meta.protocol = hdr.ipv6.nextHdr;
            meta.diffserv = hdr.ipv6.trafficClass;
        } else {
            meta.reason = Reason.NOT_IP;
            return;
        }
        if (meta.length < meta.ip_length) {
            meta.reason = Reason.IP_LENGTH;
            return;
        }
        if (!is_tunnelled) {
            if (meta.has_packets == 0 && !hdr.packet_io.isValid()) {
                // Behind a first fragment that was dropped, too.
                meta.reason = Reason.NOT_FOR_US;
            }
        } else if (ecn != 0) {
            bit<2> inner_ecn = meta.diffserv[1:0];
            if (ecn == 3 && inner_ecn == 0) {
                meta.reason = Reason.ECN;
            } else if ((ecn == 3 && inner_ecn != 3) || (ecn == 1 && inner_ecn == 2)) {
                meta.diffserv = meta.diffserv[7:2] ++ ecn;
                if (hdr.ipv4.isValid()) {
                    mark_v4(ecn);
                } else {
                    mark_v6(ecn);
                }
            }
        }
    }
}
