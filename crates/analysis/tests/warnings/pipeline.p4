// Headers that are made for nothing, a port that is chosen for nothing.
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; }
header_union u_t { h_t x; h_t y; }
struct inner_t { h_t deep; h_t lost_deep; }
struct headers {
    h_t sent;
    h_t forgotten;
    h_t parsed;
    h_t variable;
    h_t given;
    h_t copied;
    h_t[2] stack;
    h_t[2] lost_stack;
    u_t u;
    inner_t inner;
}
struct meta { h_t scratch; bit<9> port; }
parser P(packet_in p, out headers hdr, inout meta m, inout standard_metadata_t s) {
    state start {
        p.extract(hdr.sent);
        p.extract(hdr.parsed);
        transition accept;
    }
}
control V(inout headers hdr, inout meta m) { apply {} }
control Both(inout standard_metadata_t s) {
    // Egress may use it, too.
    apply { s.egress_port = 1; }
}
control Sub(inout standard_metadata_t s, in bit<9> port) {
    action out_by(bit<9> p) { s.egress_port = p; }
    table t { key = { port : exact; } actions = { out_by; NoAction; } default_action = NoAction; }
    apply { t.apply(); }
}
void choose(inout standard_metadata_t s) { s.egress_port[3:0] = 4; }
control I(inout headers hdr, inout meta m, inout standard_metadata_t s) {
    action all() {
        hdr.sent.setValid();
        hdr.forgotten.setValid();
        hdr.forgotten.a = 1;
        hdr.forgotten.setValid();
    }
    apply {
        all();
        hdr.parsed = { 3 };
        if (hdr.parsed.a == 4) {
            s.egress_port = 5;
        }
        // A header that is read and never on the wire serves as a variable.
        hdr.variable.setValid();
        hdr.variable.a = 6;
        m.port = (bit<9>) hdr.variable.a;
        hdr.given.setValid();
        digest<h_t>(1, hdr.given);
        m.scratch.setValid();
        hdr.copied.setValid();
        hdr.stack[0].setValid();
        hdr.lost_stack[1].setValid();
        hdr.u.x.setValid();
        hdr.inner.deep.setValid();
        hdr.inner.lost_deep.setValid();
        // Who sets both knows which counts.
        s.egress_spec = 2;
        s.egress_port = 2;
        Sub.apply(s, m.port);
        Both.apply(s);
        choose(s);
    }
}
control E(inout headers hdr, inout meta m, inout standard_metadata_t s) {
    apply { Both.apply(s); s.egress_port = 7; }
}
control C(inout headers hdr, inout meta m) { apply {} }
control Last(packet_out p, in inner_t inner) { apply { p.emit(inner.deep); } }
control D(packet_out p, in headers hdr) {
    apply {
        p.emit(hdr.sent);
        p.emit(hdr.copied);
        p.emit(hdr.stack[0]);
        p.emit(hdr.u);
        Last.apply(p, hdr.inner);
    }
}
V1Switch(P(), V(), I(), E(), C(), D()) main;
