// Direct counters that are called where they have no entry.
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; }
struct headers { h_t h; }
struct meta { }
parser P(packet_in p, out headers hdr, inout meta m, inout standard_metadata_t s) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout meta m) { apply {} }
control I(inout headers hdr, inout meta m, inout standard_metadata_t s) {
    direct_counter(CounterType.packets) hits;
    direct_counter(CounterType.packets) more;
    direct_counter(CounterType.packets) nowhere;
    direct_counter(CounterType.packets) quiet;
    action inner() { hits.count(); }
    action own() { inner(); nowhere.count(); }
    // Table t runs it, too.
    action both() { hits.count(); }
    action foreign() { hits.count(); more.count(); }
    @noWarn("direct-counter") action silenced() { hits.count(); quiet.count(); }
    action alone() { more.count(); }
    table t { key = { hdr.h.a : exact; } actions = { own; both; } counters = hits; default_action = both; }
    table u {
        key = { hdr.h.a : exact; }
        actions = { foreign; both; silenced; }
        counters = more;
        default_action = both;
    }
    apply {
        t.apply();
        u.apply();
        alone();
        hits.count();
    }
}
control E(inout headers hdr, inout meta m, inout standard_metadata_t s) { apply {} }
control C(inout headers hdr, inout meta m) { apply {} }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
