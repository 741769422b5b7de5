// Direct counters and meters that are used where there is no entry of theirs.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8> a;
    bit<8> b;
}

struct headers_t {
    h_t h;
}

struct metadata_t {
    bit<2> colour;
}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control V(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    direct_meter<bit<2>>(MeterType.packets) rates;
    direct_counter(CounterType.packets) hits;
    direct_counter(CounterType.packets) more;
    direct_counter(CounterType.packets) nowhere;
    action inner() {
        hits.count();
    }
    action own() {
        rates.read(meta.colour);
        inner();
        nowhere.count();
    }
    action foreign() {
        inner();
        rates.read(meta.colour);
    }
    action alone() {
        more.count();
    }
    table t {
        key = { hdr.h.a : exact; }
        actions = { own; }
        counters = hits;
        meters = rates;
    }
    table u {
        key = { hdr.h.b : exact; }
        actions = { foreign; own; }
        counters = more;
    }
    table v {
        key = { hdr.h.b : exact; }
        actions = { NoAction; }
        counters = hits;
        meters = rates;
    }
    apply {
        t.apply();
        u.apply();
        v.apply();
        alone();
        hits.count();
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
