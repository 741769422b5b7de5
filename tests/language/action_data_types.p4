// P4_16 "actions": action data of any type; structs and headers field by field, named by their paths.
#include "include/v1.p4"

enum bit<4> kind_t { low = 1, high = 2 }

struct inner_t {
    bit<8> b;
    bit<16> c;
}

struct data_in_t {
    bit<8> first;
    inner_t inner;
}

header byte_t {
    bit<8> v;
}

header data_t {
    bit<8> a;
    bit<8> b;
    bit<16> c;
    bit<8> kind;
    bit<8> flag;
    bit<8> sum;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    action set(data_in_t p, kind_t kind, bool flag, byte_t hdr, bit<8>[2] values) {
        h.d.a = p.first;
        h.d.b = p.inner.b;
        h.d.c = p.inner.c;
        h.d.kind = (bit<8>)(bit<4>)kind;
        h.d.flag = flag ? 8w1 : 0;
        h.d.sum = (hdr.isValid() ? 1 + hdr.v : 0) + values[0] + values[1];
    }
    table t {
        key = {
            h.d.a : exact;
        }
        actions = {
            set;
        }
        default_action = set({ 7, { 8, 9 } }, kind_t.low, false, { 3 }, { 1, 1 });
    }

    apply {
        t.apply();
    }
}

#include "include/main.p4"
