// A program without its `#include <v1model.p4>`: one error, whatever is missing.
header h_t { bit<8> a; }
struct H { h_t h; }
struct M { error e; }
parser P(packet_in p, out H hdr, inout M m, inout standard_metadata_t sm) {
    state start { p.extract(hdr.h); verify(hdr.h.a == 0, error.NoMatch); transition accept; }
}
control V(inout H hdr, inout M m) { apply { } }
control I(inout H hdr, inout M m, inout standard_metadata_t sm) {
    counter(16, CounterType.packets) c;
    action a() { mark_to_drop(sm); c.count(1); }
    table t {
        key = { hdr.h.a: lpm; hdr.h.a: selector; }
        actions = { a; NoAction; }
        default_action = NoAction();
    }
    table u { actions = { a; } }
    apply { t.apply(); u.apply(); }
}
control E(inout H hdr, inout M m, inout standard_metadata_t sm) { apply { } }
control C(inout H hdr, inout M m) { apply { } }
control D(packet_out p, in H hdr) { apply { p.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
