// A label switch router: it gives IPv4 packets one or two labels, swaps labels, and takes them off.
header label_t {
    bit<20> label;
    bit<3>  tc;
    bit<1>  bos;
    bit<8>  ttl;
}

struct headers_t {
    ethernet_t ethernet;
    label_t[4] labels;
    ipv4_t     ipv4;
}

struct metadata_t {}

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.etherType) {
            0x0800: parse_ipv4;
            0x8847: parse_label;
            default: accept;
        }
    }
    state parse_label {
        packet.extract(hdr.labels.next);
        transition select(hdr.labels.last.bos) {
            1: parse_ipv4;
            default: parse_label;
        }
    }
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
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
    action push_one(bit<20> label, mac_t dmac, port_t port) {
        hdr.labels.push_front(1);
        hdr.labels[0].setValid();
        hdr.labels[0].label = label;
        hdr.labels[0].tc = hdr.ipv4.diffserv[7:5];
        hdr.labels[0].bos = 1;
        hdr.labels[0].ttl = hdr.ipv4.ttl - 1;
        hdr.ethernet.etherType = 0x8847;
        hdr.ethernet.dstAddr = dmac;
        std.egress_spec = port;
    }
    action push_two(bit<20> outer, bit<20> label, mac_t dmac, port_t port) {
        push_one(label, dmac, port);
        hdr.labels.push_front(1);
        hdr.labels[0] = hdr.labels[1];
        hdr.labels[0].label = outer;
        hdr.labels[0].bos = 0;
    }
    table classes {
        key = { hdr.ipv4.dstAddr : lpm; }
        actions = { push_one; push_two; drop; }
        default_action = drop();
        size = 8192;
    }
    action swap(bit<20> label, mac_t dmac, port_t port) {
        hdr.labels[0].label = label;
        hdr.labels[0].ttl = hdr.labels[0].ttl - 1;
        hdr.ethernet.dstAddr = dmac;
        std.egress_spec = port;
    }
    action pop(mac_t dmac, port_t port) {
        if (hdr.labels[0].bos == 1) {
            hdr.ethernet.etherType = 0x0800;
            hdr.ipv4.ttl = hdr.labels[0].ttl - 1;
        } else {
            hdr.labels[1].ttl = hdr.labels[0].ttl - 1;
        }
        hdr.labels.pop_front(1);
        hdr.ethernet.dstAddr = dmac;
        std.egress_spec = port;
    }
    table labels {
        key = { hdr.labels[0].label : exact; }
        actions = { swap; pop; drop; }
        default_action = drop();
        size = 65536;
    }
    apply {
        if (hdr.labels[0].isValid()) {
            if (hdr.labels[0].ttl > 1) {
                labels.apply();
            } else {
                drop();
            }
        } else if (hdr.ipv4.isValid() && hdr.ipv4.ttl > 1) {
            classes.apply();
        } else {
            drop();
        }
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {}
}

control MyCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(!hdr.labels[0].isValid() && hdr.ipv4.isValid(), IPV4_WORDS(hdr.ipv4), hdr.ipv4.hdrChecksum,
                        HashAlgorithm.csum16);
    }
}

control MyDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.labels);
        packet.emit(hdr.ipv4);
    }
}

V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), MyDeparser()) main;
