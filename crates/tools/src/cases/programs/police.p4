// Customers with a rate each: a meter colours their packets, what is red is dropped, what is yellow is marked. Direct counters
// count customers, others the packets and bytes of each port and colour.
struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
}

struct metadata_t {
    bit<32> customer;
    bit<2>  colour;
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
        transition accept;
    }
}

control MyVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    direct_counter(CounterType.packets_and_bytes) customer_counter;
    counter(2048, CounterType.packets_and_bytes) sent;
    meter(4096, MeterType.bytes) rates;

    action drop() {
        mark_to_drop(std);
    }
    action is_customer(bit<32> customer, port_t port) {
        meta.customer = customer;
        std.egress_spec = port;
    }
    table customers {
        key = { hdr.ipv4.srcAddr : exact; }
        actions = { is_customer; drop; }
        default_action = drop();
        counters = customer_counter;
        size = 4096;
    }
    apply {
        if (hdr.ipv4.isValid() && customers.apply().hit) {
            rates.execute_meter(meta.customer, meta.colour);
            if (meta.colour == 2) {
                drop();
            } else {
                if (meta.colour == 1) {
                    hdr.ipv4.diffserv = 0x28;
                }
                sent.count((bit<32>) (std.egress_spec ++ meta.colour));
            }
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
        update_checksum(hdr.ipv4.isValid(), IPV4_WORDS(hdr.ipv4), hdr.ipv4.hdrChecksum, HashAlgorithm.csum16);
    }
}

control MyDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
    }
}

V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), MyDeparser()) main;
