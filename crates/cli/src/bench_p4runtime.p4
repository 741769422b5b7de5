// What `p4jet bench-p4runtime` runs: a bridge with routes and an access list, and a CPU port.
#include <core.p4>
#include <v1model.p4>

const bit<9> CPU_PORT = 510;

@controller_header("packet_out")
header packet_out_t { bit<9> egress_port; bit<7> padding; }
@controller_header("packet_in")
header packet_in_t { bit<9> ingress_port; bit<7> padding; }
header ethernet_t { bit<48> dst; bit<48> src; bit<16> kind; }
header ipv4_t {
    bit<8> version_ihl; bit<8> tos; bit<16> len; bit<16> id; bit<16> frag; bit<8> ttl; bit<8> protocol; bit<16> checksum;
    bit<32> src; bit<32> dst;
}
struct headers { packet_in_t packet_in; packet_out_t packet_out; ethernet_t ethernet; ipv4_t ipv4; }
struct metadata {}

parser P(packet_in p, out headers h, inout metadata m, inout standard_metadata_t s) {
    state start {
        transition select(s.ingress_port) { CPU_PORT: controller; default: ethernet; }
    }
    state controller { p.extract(h.packet_out); transition ethernet; }
    state ethernet {
        p.extract(h.ethernet);
        transition select(h.ethernet.kind) { 0x800: ipv4; default: accept; }
    }
    state ipv4 { p.extract(h.ipv4); transition accept; }
}
control V(inout headers h, inout metadata m) { apply {} }
control I(inout headers h, inout metadata m, inout standard_metadata_t s) {
    action drop() { mark_to_drop(s); }
    action forward(bit<9> port) { s.egress_spec = port; }
    table bridge {
        key = { h.ethernet.dst: exact; }
        actions = { drop; forward; }
        default_action = drop();
        size = 2097152;
    }
    table routes {
        key = { h.ipv4.dst: lpm; }
        actions = { forward; NoAction; }
        default_action = NoAction();
        size = 1048576;
    }
    table filter {
        key = { h.ipv4.src: ternary; h.ipv4.dst: ternary; h.ipv4.protocol: ternary; }
        actions = { drop; NoAction; }
        default_action = NoAction();
        size = 65536;
    }
    apply {
        if (h.packet_out.isValid()) {
            s.egress_spec = h.packet_out.egress_port;
            h.packet_out.setInvalid();
        } else {
            bridge.apply();
            if (h.ipv4.isValid()) {
                routes.apply();
                filter.apply();
            }
        }
    }
}
control E(inout headers h, inout metadata m, inout standard_metadata_t s) {
    apply {
        if (s.egress_port == CPU_PORT) {
            h.packet_in.setValid();
            h.packet_in.ingress_port = s.ingress_port;
        }
    }
}
control D(packet_out p, in headers h) { apply { p.emit(h.packet_in); p.emit(h.ethernet); p.emit(h.ipv4); } }
control C(inout headers h, inout metadata m) { apply {} }
V1Switch(P(), V(), I(), E(), C(), D()) main;
