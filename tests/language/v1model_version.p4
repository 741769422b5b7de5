// v1model: a later version, which the program asks for: `PortId_t`, and indices that have a type of their own.
#define V1MODEL_VERSION 20200408
#include <core.p4>
#include <v1model.p4>

header data_t {
    bit<4> index;
    bit<4> spare;
    bit<32> version;
}

struct headers_t {
    data_t d;
}

struct meta_t {}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.d);
        transition accept;
    }
}

control V(inout headers_t h, inout meta_t m) {
    apply {}
}

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    counter<bit<4>>(16, CounterType.packets) packets;
    register<bit<32>, bit<4>>(16) versions;

    apply {
        PortId_t port = 3;
        s.egress_spec = port;
        packets.count(h.d.index);
        versions.write(h.d.index, __v1model_version);
        versions.read(h.d.version, h.d.index);
    }
}

control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {}
}

control C(inout headers_t h, inout meta_t m) {
    apply {}
}

control D(packet_out p, in headers_t h) {
    apply {
        p.emit(h.d);
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
