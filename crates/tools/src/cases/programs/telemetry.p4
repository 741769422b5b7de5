// In-band telemetry: a packet with a certain IPv4 option collects the number of each switch on its way, and a measurement, at
// the front of a stack of headers. Routing as usual.
#define HOPS_MAX 9

header option_t {
    bit<1> copyFlag;
    bit<2> optClass;
    bit<5> option;
    bit<8> optionLength;
}

header count_t {
    bit<16> count;
}

header hop_t {
    bit<32> swid;
    bit<32> bytes;
}

struct headers_t {
    ethernet_t       ethernet;
    ipv4_t           ipv4;
    option_t         option;
    count_t          trace;
    hop_t[HOPS_MAX]  hops;
}

struct metadata_t {
    bit<16> remaining;
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
        transition select(hdr.ipv4.ihl) {
            5: accept;
            default: parse_option;
        }
    }
    state parse_option {
        packet.extract(hdr.option);
        transition select(hdr.option.option) {
            31: parse_trace;
            default: accept;
        }
    }
    state parse_trace {
        packet.extract(hdr.trace);
        meta.remaining = hdr.trace.count;
        transition select(meta.remaining) {
            0: accept;
            default: parse_hop;
        }
    }
    state parse_hop {
        packet.extract(hdr.hops.next);
        meta.remaining = meta.remaining - 1;
        transition select(meta.remaining) {
            0: accept;
            default: parse_hop;
        }
    }
}

control MyVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action drop() {
        mark_to_drop(std);
    }
    action forward(mac_t dmac, port_t port) {
        std.egress_spec = port;
        hdr.ethernet.srcAddr = hdr.ethernet.dstAddr;
        hdr.ethernet.dstAddr = dmac;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }
    table ipv4_lpm {
        key = { hdr.ipv4.dstAddr : lpm; }
        actions = { forward; drop; }
        default_action = drop();
        size = 8192;
    }
    apply {
        if (hdr.ipv4.isValid()) {
            ipv4_lpm.apply();
        } else {
            drop();
        }
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action add_hop(bit<32> swid) {
        hdr.trace.count = hdr.trace.count + 1;
        hdr.hops.push_front(1);
        hdr.hops[0].setValid();
        hdr.hops[0].swid = swid;
        hdr.hops[0].bytes = std.packet_length;
        hdr.ipv4.ihl = hdr.ipv4.ihl + 2;
        hdr.option.optionLength = hdr.option.optionLength + 8;
        hdr.ipv4.totalLen = hdr.ipv4.totalLen + 8;
    }
    // By the port, as the number of its line card.
    table cards {
        key = { std.egress_port : exact; }
        actions = { add_hop; NoAction; }
        default_action = NoAction();
        size = 512;
    }
    apply {
        if (hdr.trace.isValid() && hdr.trace.count < 4) {
            cards.apply();
        }
    }
}

control MyCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(), IPV4_WORDS(hdr.ipv4), hdr.ipv4.hdrChecksum, HashAlgorithm.csum16);
    }
}

control MyDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.option);
        packet.emit(hdr.trace);
        packet.emit(hdr.hops);
    }
}

V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), MyDeparser()) main;
