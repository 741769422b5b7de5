// P4_16 "parser value sets": sets that the control plane fills stand in select cases; `@match` says how members match.
#include "include/v1.p4"

header data_t {
    bit<16> a;
    bit<8> b;
    bit<8> which;
}

struct headers_t {
    data_t d;
}

struct pair_t {
    @match(lpm)
    bit<16> first;
    @match(range)
    bit<8> second;
}

struct meta_t {}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    value_set<bit<16>>(4) plain;
    @match(ternary)
    value_set<bit<8>>(4) masked;
    value_set<pair_t>(4) pairs;
    value_set<tuple<bit<16>, bit<8>>>(4) tuples;
    state start {
        p.extract(h.d);
        transition select(h.d.a, h.d.b) {
            (plain, 1): one;
            (_, masked): two;
            pairs: three;
            tuples: four;
            default: accept;
        }
    }
    state one { h.d.which = 1; transition accept; }
    state two { h.d.which = 2; transition accept; }
    state three { h.d.which = 3; transition accept; }
    state four { h.d.which = 4; transition accept; }
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {}
}

control D(packet_out p, in headers_t h) {
    apply {
        p.emit(h);
    }
}

#include "include/main.p4"
