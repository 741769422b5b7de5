// Reflects the controller's packets to the port that they name, and sends those of other ports to the controller.
#include <core.p4>
#include <v1model.p4>
@controller_header("packet_out")
header packet_out_t { bit<9> egress_port; bit<7> padding; }
@controller_header("packet_in")
header packet_in_t { bit<9> ingress_port; bit<3> kind; bit<4> padding; }
header ethernet_t { bit<48> dst; bit<48> src; bit<16> kind; }
struct headers { packet_in_t packet_in; packet_out_t packet_out; ethernet_t ethernet; }
struct metadata {}
parser P(packet_in p, out headers h, inout metadata m, inout standard_metadata_t s) {
    state start {
        transition select(s.ingress_port) { 510: controller; default: ethernet; }
    }
    state controller { p.extract(h.packet_out); transition ethernet; }
    state ethernet { p.extract(h.ethernet); transition accept; }
}
control V(inout headers h, inout metadata m) { apply {} }
control I(inout headers h, inout metadata m, inout standard_metadata_t s) {
    action drop() { mark_to_drop(s); }
    action forward(bit<9> port) { s.egress_spec = port; }
    table ports {
        key = { h.ethernet.dst: exact; }
        actions = { drop; forward; NoAction; }
        default_action = NoAction();
        size = 1024;
    }
    apply {
        s.egress_spec = 510;
        if (h.packet_out.isValid()) { s.egress_spec = h.packet_out.egress_port; }
        ports.apply();
        h.packet_out.setInvalid();
    }
}
control E(inout headers h, inout metadata m, inout standard_metadata_t s) {
    apply {
        if (s.egress_port == 510) {
            h.packet_in.setValid();
            h.packet_in.ingress_port = s.ingress_port;
            h.packet_in.kind = 5;
        }
    }
}
control D(packet_out p, in headers h) { apply { p.emit(h.packet_in); p.emit(h.ethernet); } }
control C(inout headers h, inout metadata m) { apply {} }
V1Switch(P(), V(), I(), E(), C(), D()) main;
