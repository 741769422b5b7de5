// Source routing: the sender lists the ports on the way in a stack of headers, and each switch takes the first one off.
#define HOPS_MAX 9

header source_route_t {
    bit<1>  bos;
    bit<15> port;
}

struct headers_t {
    ethernet_t                ethernet;
    source_route_t[HOPS_MAX]  routes;
    ipv4_t                    ipv4;
}

struct metadata_t {}

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.etherType) {
            0x1234: parse_route;
            default: accept;
        }
    }
    state parse_route {
        packet.extract(hdr.routes.next);
        transition select(hdr.routes.last.bos) {
            1: parse_ipv4;
            default: parse_route;
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
    apply {
        if (hdr.routes[0].isValid()) {
            if (hdr.routes[0].bos == 1) {
                hdr.ethernet.etherType = 0x0800;
            }
            std.egress_spec = (port_t) hdr.routes[0].port;
            hdr.routes.pop_front(1);
            if (hdr.ipv4.isValid()) {
                hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
            }
        } else {
            mark_to_drop(std);
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
        packet.emit(hdr.routes);
        packet.emit(hdr.ipv4);
    }
}

V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), MyDeparser()) main;
