// One control-plane name for objects of different kinds.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8> a;
}

struct headers_t {
    h_t h;
}

struct metadata_t {}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    @name(".shared") value_set<bit<8>>(4) set;
    state start {
        packet.extract(hdr.h);
        transition select(hdr.h.a) {
            set: more;
            default: accept;
        }
    }
    state more {
        transition accept;
    }
}

control V(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    @name("x") counter(8, CounterType.packets) a;
    @name("x") register<bit<8>>(8) b;
    direct_meter<bit<2>>(MeterType.packets) y;
    @name("y") action_profile(8) profile;
    // Tables and actions may have names of other objects.
    @name("x") action act() {
        a.count(1);
        b.write(0, 1);
    }
    @name("x") table t {
        key = { hdr.h.a : exact; }
        actions = { act; }
        meters = y;
        implementation = profile;
    }
    // But a value set is a table, too.
    @name(".shared") table u {
        key = { hdr.h.a : exact; }
        actions = { NoAction; }
    }
    apply {
        t.apply();
        u.apply();
    }
}

control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {}
}

control C(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control D(packet_out packet, in headers_t hdr) {
    apply {}
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
