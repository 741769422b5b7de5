// Tables that the control plane could not tell about, or that bmv2 would not take.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8> a;
    bit<8> b;
}

struct headers_t {
    h_t h;
}

struct metadata_t {}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    @name("set") value_set<bit<8>>(4) some;
    @name("set") value_set<bit<8>>(4) others;
    state start {
        packet.extract(hdr.h);
        transition select(hdr.h.a) {
            some: accept;
            others: reject;
            default: accept;
        }
    }
}

control V(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control Twice(inout headers_t hdr) {
    action set(bit<8> v) {
        hdr.h.a = v;
    }
    @name(".global") table t {
        key = { hdr.h.a : exact; }
        actions = { set; }
    }
    apply {
        t.apply();
    }
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    @name("go") action one() {
        hdr.h.a = 1;
    }
    action two() {
        hdr.h.a = 2;
    }
    action three() {
        hdr.h.a = 3;
    }
    @name(".NoAction") action nothing() {}
    table names {
        key = { hdr.h.a : exact; }
        actions = { one; two; }
    }
    table default_name {
        key = { hdr.h.a : exact; }
        actions = { nothing; }
    }
    table priorities {
        key = { hdr.h.a : ternary; }
        actions = { three; }
        const entries = {
            1: three() @priority("first");
        }
    }
    table large {
        key = { hdr.h.a : ternary; }
        actions = { three; }
        const entries = {
            1: three() @priority(0x80000000);
        }
    }
    table dont_care {
        key = { hdr.h.a : ternary; hdr.h.b : exact; }
        actions = { three; }
        const entries = {
            (1, _): three();
        }
    }
    counter(4, CounterType.packets) hits;
    @name("hits") counter(4, CounterType.packets) more_hits;
    register<bit<8>>(4) cells;
    @name("cells") register<bit<8>>(4) more_cells;
    Twice() first;
    Twice() second;
    apply {
        dont_care.apply();
        first.apply(hdr);
        second.apply(hdr);
        names.apply();
        default_name.apply();
        priorities.apply();
        large.apply();
    }
}

control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {}
}

control C(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control D(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
