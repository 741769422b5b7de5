// Classes of service, by ranges of ports, DSCP and an optional customer; and a count-min sketch of three rows that finds heavy
// flows, whose packets are marked for a lower class.
#define CELLS 32768

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    udp_t      udp;
}

struct metadata_t {
    bit<6>  dscp;
    bit<16> customer;
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
    register<bit<32>>(CELLS) row_1;
    register<bit<32>>(CELLS) row_2;
    register<bit<32>>(CELLS) row_3;

    action drop() {
        mark_to_drop(std);
    }
    action is_customer(bit<16> customer, port_t port) {
        meta.customer = customer;
        std.egress_spec = port;
    }
    table customers {
        key = { hdr.ipv4.dstAddr[31:8] : exact @name("network"); }
        actions = { is_customer; drop; }
        default_action = drop();
        size = 2048;
    }
    action set_class(bit<6> dscp) {
        meta.dscp = dscp;
    }
    table classes {
        key = {
            hdr.udp.srcPort       : range;
            hdr.udp.dstPort       : range;
            hdr.ipv4.diffserv[7:2] : ternary @name("dscp");
            meta.customer         : optional;
        }
        actions = { set_class; NoAction; }
        default_action = set_class(0);
        size = 512;
    }
    apply {
        if (!hdr.ipv4.isValid()) {
            drop();
            return;
        }
        if (!customers.apply().hit) {
            return;
        }
        classes.apply();
        if (hdr.udp.isValid()) {
            bit<32> cell_1;
            bit<32> cell_2;
            bit<32> cell_3;
            bit<32> count_1;
            bit<32> count_2;
            bit<32> count_3;
            hash(cell_1, HashAlgorithm.crc32, 32w0, { hdr.ipv4.srcAddr, hdr.ipv4.dstAddr }, (bit<32>) CELLS);
            hash(cell_2, HashAlgorithm.crc16, 32w0, { hdr.ipv4.srcAddr, hdr.ipv4.dstAddr }, (bit<32>) CELLS);
            hash(cell_3, HashAlgorithm.csum16, 32w0, { hdr.ipv4.srcAddr, hdr.ipv4.dstAddr }, (bit<32>) CELLS);
            row_1.read(count_1, cell_1);
            row_2.read(count_2, cell_2);
            row_3.read(count_3, cell_3);
            row_1.write(cell_1, count_1 + 1);
            row_2.write(cell_2, count_2 + 1);
            row_3.write(cell_3, count_3 + 1);
            bit<32> least = count_1 < count_2 ? count_1 : count_2;
            least = least < count_3 ? least : count_3;
            if (least > 1000) {
                meta.dscp = 8;
            }
        }
        hdr.ipv4.diffserv = meta.dscp ++ hdr.ipv4.diffserv[1:0];
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
        packet.emit(hdr.udp);
    }
}

V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), MyDeparser()) main;
