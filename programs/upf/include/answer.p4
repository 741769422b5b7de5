const bit<8> EXTENSION_UDP_PORT = 0x40;
// Clause 8.1.
const bit<8> IE_RECOVERY = 14;
const bit<8> IE_TEID_DATA_I = 16;
const bit<8> IE_PEER_ADDRESS = 133;
const bit<8> IE_EXTENSION_TYPES = 141;

// Sends a message of ours back to where a packet in a tunnel came from: an echo response, an error indication, or the list of
// the extension headers that we understand (TS 29.281, clauses 7.2.2, 7.3.1 and 7.2.3).
control Answer(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    // Cell 0: echo responses, cell 1: the others. Without rates all are sent.
    meter(2, MeterType.packets) answers;

    apply {
        bit<2> color = 0;
        bit<16> length = GTPU_OPTIONS_BYTES;
        bit<16> sequence = 0;
        bit<16> port = GTPU_PORT;
        Message message = Message.ECHO_RESPONSE;
        bit<8> flags = GTPU_FLAGS | GTPU_FLAG_S;
        bit<8> next = EXTENSION_NONE;
        if (meta.message == Message.ECHO_REQUEST) {
            answers.execute_meter((bit<32>) 0, color);
            sequence = hdr.options.isValid() ? hdr.options.sequence : 0;
            port = hdr.under_v4.isValid() ? hdr.under_v4.srcPort : hdr.under_v6.srcPort;
            hdr.recovery = { IE_RECOVERY, 0 };
            length = length + 2;
        } else {
            answers.execute_meter((bit<32>) 1, color);
            if (meta.reason == Reason.EXTENSION) {
                message = Message.SUPPORTED_EXTENSIONS;
                hdr.extension_types = { IE_EXTENSION_TYPES, 2, EXTENSION_CONTAINER, EXTENSION_UDP_PORT };
                length = length + 4;
            } else {
                message = Message.ERROR_INDICATION;
                flags = flags | GTPU_FLAG_E;
                next = EXTENSION_UDP_PORT;
                if (hdr.under_v4.isValid()) {
                    hdr.udp_port = { 1, hdr.under_v4.srcPort, EXTENSION_NONE };
                    hdr.error_v4 = { IE_TEID_DATA_I, meta.teid, IE_PEER_ADDRESS, 4, hdr.under_v4.dstAddr };
                    length = length + 4 + 12;
                } else {
                    hdr.udp_port = { 1, hdr.under_v6.srcPort, EXTENSION_NONE };
                    hdr.error_v6 = { IE_TEID_DATA_I, meta.teid, IE_PEER_ADDRESS, 16, hdr.under_v6.dstAddr };
                    length = length + 4 + 24;
                }
            }
        }
        if (color != 0) {
            meta.reason = Reason.TOO_MANY_ANSWERS;
            return;
        }
        meta.is_ours = 1;
        meta.sums_answer = 1;
        meta.cut = (bit<32>) (ETHERNET_BYTES + UDP_BYTES + GTPU_BYTES + length);
        if (hdr.vlan.isValid()) {
            meta.cut = meta.cut + (bit<32>) VLAN_BYTES;
        }
        if (hdr.under_v4.isValid()) {
            meta.cut = meta.cut + (bit<32>) IPV4_BYTES;
            hdr.outer_v4 = { IPV4_NO_OPTIONS, 0, length + IPV4_BYTES + UDP_BYTES + GTPU_BYTES, 0, IPV4_DONT_FRAGMENT, 64,
                             PROTOCOL_UDP, 0, hdr.under_v4.dstAddr, hdr.under_v4.srcAddr, GTPU_PORT, port,
                             length + UDP_BYTES + GTPU_BYTES, 0, flags, message, length, 0 };
        } else {
            meta.cut = meta.cut + (bit<32>) IPV6_BYTES;
            hdr.outer_v6 = { 6, 0, 0, length + UDP_BYTES + GTPU_BYTES, PROTOCOL_UDP, 64, hdr.under_v6.dstAddr,
                             hdr.under_v6.srcAddr, GTPU_PORT, port, length + UDP_BYTES + GTPU_BYTES, 0, flags, message,
                             length, 0 };
        }
        hdr.outer_options = { sequence, 0, next };
        mac_t asker = hdr.ethernet.srcAddr;
        hdr.ethernet.srcAddr = hdr.ethernet.dstAddr;
        hdr.ethernet.dstAddr = asker;
        hdr.ipv4.setInvalid();
        hdr.ipv6.setInvalid();
        meta.decapsulates = 1;
        standard_metadata.egress_spec = standard_metadata.ingress_port;
    }
}
