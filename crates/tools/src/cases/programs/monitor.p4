// A switch that shows some flows to a monitor: copies of them leave by the monitor's port, shortened, behind a header with the
// rule's number and the port of the original.
header report_t {
    bit<16> rule;
    bit<16> port;
    bit<32> bytes;
}

struct headers_t {
    report_t   report;
    ethernet_t ethernet;
    ipv4_t     ipv4;
    udp_t      udp;
}

struct metadata_t {
    @field_list(1) bit<16> rule;
    @field_list(1) bit<9>  port;
}

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.etherType) {
            0x0800: parse_ipv4;
            default: accept;
        }
    }
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.protocol) {
            17: parse_udp;
            default: accept;
        }
    }
    state parse_udp {
        packet.extract(hdr.udp);
        transition accept;
    }
}

control MyVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action drop() {
        mark_to_drop(std);
    }
    action forward(port_t port) {
        std.egress_spec = port;
        meta.port = port;
    }
    table stations {
        key = { hdr.ethernet.dstAddr : exact; }
        actions = { forward; drop; }
        default_action = drop();
        size = 4096;
    }
    action show(bit<16> rule) {
        meta.rule = rule;
        clone_preserving_field_list(CloneType.I2E, 5, 1);
    }
    table shown {
        key = {
            hdr.ipv4.srcAddr : ternary;
            hdr.ipv4.dstAddr : ternary;
            hdr.udp.dstPort  : ternary;
        }
        actions = { show; NoAction; }
        default_action = NoAction();
        size = 256;
    }
    apply {
        stations.apply();
        if (hdr.udp.isValid()) {
            shown.apply();
        }
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (std.instance_type == 1) {
            hdr.report.setValid();
            hdr.report.rule = meta.rule;
            hdr.report.port = (bit<16>) meta.port;
            hdr.report.bytes = std.packet_length;
        }
    }
}

control MyCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control MyDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.report);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
    }
}

V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), MyDeparser()) main;
