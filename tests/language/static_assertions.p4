// P4_16 "static assertions": `static_assert` is decided by the compiler and takes no time.
#include "include/v1.p4"

const int WIDTH = 8;
const bool CHECKED = static_assert(WIDTH < 9);

header data_t {
    bit<8> a;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        const bool ok = static_assert(WIDTH * 2 == 16, "no byte");
        if (ok) {
            h.d.a = WIDTH;
        }
    }
}

#include "include/main.p4"
