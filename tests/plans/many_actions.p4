// A table with more than eight actions: a jump table chooses the action.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
struct headers { ethernet_t eth; }
struct metadata {}

parser P(packet_in p, out headers h, inout metadata m, inout standard_metadata_t sm) {
    state start { p.extract(h.eth); transition accept; }
}
control V(inout headers h, inout metadata m) { apply {} }
control E(inout headers h, inout metadata m, inout standard_metadata_t sm) { apply {} }
control C(inout headers h, inout metadata m) { apply {} }
control D(packet_out p, in headers h) { apply { p.emit(h); } }

control I(inout headers h, inout metadata m, inout standard_metadata_t sm) {
    action a0() { h.eth.type = 0; }
    action a1() { h.eth.type = 1; }
    action a2() { h.eth.type = 2; }
    action a3() { h.eth.type = 3; }
    action a4() { h.eth.type = 4; }
    action a5() { h.eth.type = 5; }
    action a6() { h.eth.type = 6; }
    action a7() { h.eth.type = 7; }
    action a8() { h.eth.type = 8; }
    action send(bit<9> port) { sm.egress_spec = port; }
    table many {
        key = { h.eth.dst: exact; }
        actions = { a0; a1; a2; a3; a4; a5; a6; a7; a8; send; }
        default_action = a0();
    }
    apply { many.apply(); }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
