// P4_16 "for statement": the elements of a header stack in order, as they are when the loop starts.
#include "include/v1.p4"

header byte_t {
    bit<8> value;
}

header data_t {
    bit<8> a;
    bit<8> b;
    bit<8> c;
    bit<8> valid;
    bit<8> sum;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t std) {
    apply {
        byte_t[3] s = { { h.d.a }, { h.d.b }, { h.d.c } };
        s[1].setInvalid();
        for (byte_t e in s) {
            if (e.isValid()) {
                h.d.valid = h.d.valid + 1;
                h.d.sum = h.d.sum + e.value;
            }
            s[2].value = 100;
        }
        h.d.a = s[2].value;
    }
}

#include "include/main.p4"
