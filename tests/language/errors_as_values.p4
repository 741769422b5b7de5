// P4_16 "operations on error types": errors are compared and assigned, in metadata and in switch.
#include "include/v1.p4"

error { Mine }

header data_t {
    bit<8> a;
    bit<8> r;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        error e = error.NoError;
        if (h.d.a == 1) {
            e = error.Mine;
        } else if (h.d.a == 2) {
            e = error.PacketTooShort;
        }
        error f = e;
        if (f != error.NoError) {
            h.d.r = f == error.Mine ? 8w1 : 2;
        }
    }
}

#include "include/main.p4"
