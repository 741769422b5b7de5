// A stateful firewall: packets from inside, 10.0.0.0/8, are remembered in two Bloom filters; packets to the inside pass only if
// their flow is in both.
#define CELLS 16384

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    tcp_t      tcp;
}

struct metadata_t {}

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
            6: parse_tcp;
            default: accept;
        }
    }
    state parse_tcp {
        packet.extract(hdr.tcp);
        transition accept;
    }
}

control MyVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<1>>(CELLS) filter_1;
    register<bit<1>>(CELLS) filter_2;
    bit<32> cell_1;
    bit<32> cell_2;

    action drop() {
        mark_to_drop(std);
    }
    action find(ip_t a, ip_t b, bit<16> port_a, bit<16> port_b) {
        hash(cell_1, HashAlgorithm.crc16, 32w0, { a, b, port_a, port_b, hdr.ipv4.protocol }, (bit<32>) CELLS);
        hash(cell_2, HashAlgorithm.crc32, 32w0, { a, b, port_a, port_b, hdr.ipv4.protocol }, (bit<32>) CELLS);
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
        size = 1024;
    }
    apply {
        if (!hdr.ipv4.isValid()) {
            drop();
            return;
        }
        ipv4_lpm.apply();
        if (hdr.tcp.isValid()) {
            if (hdr.ipv4.srcAddr[31:24] == 10) {
                find(hdr.ipv4.srcAddr, hdr.ipv4.dstAddr, hdr.tcp.srcPort, hdr.tcp.dstPort);
                filter_1.write(cell_1, 1);
                filter_2.write(cell_2, 1);
            } else {
                bit<1> in_1;
                bit<1> in_2;
                find(hdr.ipv4.dstAddr, hdr.ipv4.srcAddr, hdr.tcp.dstPort, hdr.tcp.srcPort);
                filter_1.read(in_1, cell_1);
                filter_2.read(in_2, cell_2);
                if (in_1 != 1 || in_2 != 1) {
                    drop();
                }
            }
        }
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {}
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
        packet.emit(hdr.tcp);
    }
}

V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), MyDeparser()) main;
