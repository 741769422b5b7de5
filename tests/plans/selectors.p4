// An action selector chooses a member by hash: the row of the entry leads to a group, and the member's row to the action.
#include <core.p4>
#include <v1model.p4>

header ipv4_t { bit<8> ttl; bit<8> protocol; bit<16> id; bit<32> src; bit<32> dst; }
struct headers { ipv4_t ip; }
struct metadata {}

parser P(packet_in p, out headers h, inout metadata m, inout standard_metadata_t sm) {
    state start { p.extract(h.ip); transition accept; }
}
control V(inout headers h, inout metadata m) { apply {} }
control E(inout headers h, inout metadata m, inout standard_metadata_t sm) { apply {} }
control C(inout headers h, inout metadata m) { apply {} }
control D(packet_out p, in headers h) { apply { p.emit(h); } }

control I(inout headers h, inout metadata m, inout standard_metadata_t sm) {
    action_selector(HashAlgorithm.crc32, 100000, 32) servers;
    action send(bit<9> port) { sm.egress_spec = port; }
    action discard() { mark_to_drop(sm); }
    table balance {
        key = { h.ip.dst: lpm; h.ip.src: selector; h.ip.protocol: selector; }
        actions = { send; discard; }
        implementation = servers;
        size = 100000;
    }
    apply {
        balance.apply();
        h.ip.ttl = h.ip.ttl - 1;
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
