// P4_16 "operations on headers": equality, assignment with validity, `{#}`, initialisers, `setValid` and `setInvalid`.
#include "include/v1.p4"

header byte_t {
    bit<8> v;
}

struct headers_t {
    byte_t first;
    byte_t second;
    byte_t third;
    byte_t flags;
}

struct meta_t {}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.first);
        p.extract(h.second);
        transition accept;
    }
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        byte_t none;
        byte_t some = { 7 };
        h.flags.setValid();
        h.flags.v = 0;
        h.flags.v[0:0] = (bit<1>)(h.first == h.second);
        h.flags.v[1:1] = (bit<1>)(none == h.third);
        h.flags.v[2:2] = (bit<1>)(none != some);
        // an invalid header makes the other one invalid
        if (h.first.v == 1) {
            h.first = none;
        }
        if (h.second.v == 2) {
            h.second = (byte_t){#};
        }
        if (h.second.v == 3) {
            h.third = some;
        }
        h.flags.v[3:3] = (bit<1>)h.first.isValid();
        h.flags.v[4:4] = (bit<1>)(h.third == { 7 });
    }
}

control D(packet_out p, in headers_t h) {
    apply {
        p.emit(h);
    }
}

#include "include/main.p4"
