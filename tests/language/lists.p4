// P4_16 "operations on lists": compile-time lists, indexed and iterated over.
#include "include/v1.p4"

struct entry_t {
    bit<8> key;
    bit<8> value;
}

const list<entry_t> ENTRIES = { { 1, 0x11 }, { 2, 0x22 }, { 3, 0x33 } };

header data_t {
    bit<8> a;
    bit<8> b;
    bit<8> n;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        for (entry_t e in ENTRIES) {
            if (e.key == h.d.a) {
                h.d.b = e.value;
            }
            h.d.n = h.d.n + 1;
        }
    }
}

#include "include/main.p4"
