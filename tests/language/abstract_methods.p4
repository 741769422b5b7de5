// P4_16 "instantiating objects with abstract methods": implementations in the instance are called like methods; `this` is
// the instance.
#include "include/v1.p4"

extern Chooser {
    Chooser();
    abstract bit<8> pick(in bit<8> v);
    abstract void twice(inout bit<8> v);
}

header data_t {
    bit<8> a;
    bit<8> b;
}

#include "include/data.p4"

const bit<8> OFFSET = 3;

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    Chooser() plus = {
        bit<8> pick(in bit<8> v) {
            return v + OFFSET;
        }
        void twice(inout bit<8> v) {
            v = this.pick(this.pick(v));
        }
    };
    apply {
        h.d.a = plus.pick(h.d.a);
        plus.twice(h.d.b);
    }
}

#include "include/main.p4"
