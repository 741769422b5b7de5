// v1model: keys of an action selector in invalid headers are no part of what is hashed, as in bmv2.
#include "include/v1.p4"

header data_t {
    bit<8> present;
    bit<8> flow;
    bit<8> result;
}

header option_t {
    bit<8> x;
}

struct headers_t {
    data_t d;
    option_t o;
    option_t p;
}

struct meta_t {}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.d);
        transition select(h.d.present) {
            1: first;
            2: second;
            3: both;
            _: accept;
        }
    }
    state first {
        p.extract(h.o);
        transition accept;
    }
    state second {
        p.extract(h.p);
        transition accept;
    }
    state both {
        p.extract(h.o);
        p.extract(h.p);
        transition accept;
    }
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    action set(bit<8> value) {
        h.d.result = value;
    }
    action_selector(HashAlgorithm.identity, 16, 8) by_identity;
    table t {
        key = { h.d.isValid(): exact; h.d.flow: selector; h.o.x: selector; h.p.x: selector; }
        actions = { set; }
        implementation = by_identity;
    }
    apply {
        t.apply();
    }
}

control D(packet_out p, in headers_t h) {
    apply {
        p.emit(h.d);
    }
}

#include "include/main.p4"
