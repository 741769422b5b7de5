// A cache in the network for a key-value store: the switch answers a request for a key that it holds from its registers, and
// sends it back; others go on to the server. Keys have 128 bits, values too. Writes go to the server and invalidate.
header query_t {
    bit<8>   op;      // 0: read, 1: write, 2: answer
    bit<8>   flags;
    bit<16>  sequence;
    bit<128> key;
    bit<64>  value_1;
    bit<64>  value_2;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    udp_t      udp;
    query_t    query;
}

struct metadata_t {
    bit<32> cell;
    bit<1>  held;
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
        transition select(hdr.udp.dstPort) {
            8888: parse_query;
            default: accept;
        }
    }
    state parse_query {
        packet.extract(hdr.query);
        transition accept;
    }
}

control MyVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<1>>(65536) valid;
    register<bit<64>>(65536) values_1;
    register<bit<64>>(65536) values_2;
    counter(65536, CounterType.packets) hits;

    action holds(bit<32> cell) {
        meta.cell = cell;
        meta.held = 1;
    }
    table keys {
        key = { hdr.query.key : exact; }
        actions = { holds; NoAction; }
        default_action = NoAction();
        size = 65536;
    }
    apply {
        // The server.
        std.egress_spec = 1;
        if (!hdr.query.isValid()) {
            return;
        }
        keys.apply();
        if (meta.held == 0) {
            return;
        }
        if (hdr.query.op == 0) {
            bit<1> is_valid;
            valid.read(is_valid, meta.cell);
            if (is_valid == 1) {
                values_1.read(hdr.query.value_1, meta.cell);
                values_2.read(hdr.query.value_2, meta.cell);
                hits.count(meta.cell);
                hdr.query.op = 2;
                mac_t station = hdr.ethernet.dstAddr;
                hdr.ethernet.dstAddr = hdr.ethernet.srcAddr;
                hdr.ethernet.srcAddr = station;
                ip_t host = hdr.ipv4.dstAddr;
                hdr.ipv4.dstAddr = hdr.ipv4.srcAddr;
                hdr.ipv4.srcAddr = host;
                bit<16> own = hdr.udp.dstPort;
                hdr.udp.dstPort = hdr.udp.srcPort;
                hdr.udp.srcPort = own;
                hdr.udp.checksum = 0;
                std.egress_spec = std.ingress_port;
            }
        } else if (hdr.query.op == 1) {
            valid.write(meta.cell, 0);
        } else {
            valid.write(meta.cell, 1);
            values_1.write(meta.cell, hdr.query.value_1);
            values_2.write(meta.cell, hdr.query.value_2);
        }
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {}
}

control MyCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control MyDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.query);
    }
}

V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), MyDeparser()) main;
