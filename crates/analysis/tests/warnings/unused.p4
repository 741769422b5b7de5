// Everything that nothing uses; names that hide others; what @noWarn keeps quiet.
#include <core.p4>

const bit<8> SPARE = 1;
const bit<8> LIMIT = 2;
const bool CHECKED = static_assert(LIMIT == 2, "two");
const bit<8> __internal = 3;
typedef bit<12> Vlan;
type bit<9> Port;

header H { bit<8> a; bit<8> b; }
struct Headers { H h; }

bit<8> twice(in bit<8> x) { return x + x; }
bit<8> same<T>(in bit<8> x) { return x; }

parser Lonely(packet_in p) { state start { transition accept; } }
control Idle() { apply { } }

parser P(packet_in p, out Headers hdr) {
    value_set<bit<8>>(4) kinds;
    state start {
        p.extract(hdr.h);
        transition accept;
    }
}

control C(inout Headers hdr, inout bit<8> meta) {
    bit<8> kept = 0;
    bit<8> dropped = 0;
    action set(bit<8> v, bit<8> w) { hdr.h.a = v; }
    action never() { hdr.h.b = 1; }
    table t {
        actions = { set; NoAction; }
        default_action = NoAction();
    }
    table orphan {
        actions = { NoAction; }
        default_action = NoAction();
    }
    @noWarn("unused") table quiet {
        actions = { NoAction; }
        default_action = NoAction();
    }
    apply {
        bit<8> LIMIT = 3;
        t.apply();
        hdr.h.b = same<bit<8>>(kept) + LIMIT;
        if (hdr.h.a == 1) {
            bit<8> kept = 7;
            hdr.h.a = kept;
        }
    }
}

@noWarn("shadow")
control D(inout Headers hdr) {
    bit<8> lookahead = 1;
    @noWarn("unsued") @noWarn("uninitialized_use")
    action a(bit<8> hdr) { }
    apply {
        a(lookahead);
    }
}

parser Parse(packet_in p, out Headers hdr);
control Work(inout Headers hdr, inout bit<8> meta);
control Finish(inout Headers hdr);
package Top(Parse p, Work w, Finish f);
Top(P(), C(), D()) main;
