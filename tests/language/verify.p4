// P4_16 "verify": a false condition rejects with the given error; what was extracted before stays.
#include "include/v1.p4"

error { BadVersion, BadLength }

header data_t {
    bit<4> version;
    bit<4> length;
}

struct headers_t {
    data_t d;
    data_t next;
    data_t code;
}

struct meta_t {}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.d);
        verify(h.d.version == 4, error.BadVersion);
        error e = h.d.length == 15 ? error.BadLength : error.NoError;
        verify(e == error.NoError, e);
        p.extract(h.next);
        transition accept;
    }
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        if (s.parser_error == error.BadVersion) {
            h.code = { 1, 0 };
        } else if (s.parser_error == error.BadLength) {
            h.code = { 2, 0 };
        }
    }
}

control D(packet_out p, in headers_t h) {
    apply {
        p.emit(h);
    }
}

#include "include/main.p4"
