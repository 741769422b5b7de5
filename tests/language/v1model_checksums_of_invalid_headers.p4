// v1model: checksums leave out the fields of invalid headers, as bmv2 does.
#include "include/v1.p4"

header data_t {
    bit<8> present;
    bit<8> found;   // checksum_error
    bit<8> first;
    bit<24> last;
    bit<16> sum;
    bit<16> all;    // with the payload
    bit<32> crc;
    bit<16> folded;
}

header option_t {
    bit<8> x;
}

header wide_t {
    bit<16> y;
}

struct headers_t {
    data_t d;
    option_t o;
    wide_t w;
}

struct meta_t {}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.d);
        transition select(h.d.present) {
            1: byte;
            2: word;
            3: both;
            _: accept;
        }
    }
    state byte {
        p.extract(h.o);
        transition accept;
    }
    state word {
        p.extract(h.w);
        transition accept;
    }
    state both {
        p.extract(h.o);
        p.extract(h.w);
        transition accept;
    }
}

control V(inout headers_t h, inout meta_t m) {
    apply {
        verify_checksum(true, { h.d.first, h.o.x, h.w.y, h.d.last }, h.d.sum, HashAlgorithm.csum16);
        // The condition says that one of the headers is valid.
        verify_checksum_with_payload(h.d.isValid() && h.o.isValid(), { h.d.first, h.o.x, h.w.y, h.d.last },
                                     h.d.all, HashAlgorithm.csum16);
    }
}

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        h.d.found = 7w0 ++ s.checksum_error;
        // Whole words: zeros would do no harm, but these do not count either.
        if (!h.w.isValid()) {
            h.w.y = 0xbeef;
        }
    }
}

control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {}
}

control C(inout headers_t h, inout meta_t m) {
    apply {
        update_checksum(true, { h.d.first, h.o.x, h.w.y, h.d.last }, h.d.sum, HashAlgorithm.csum16);
        update_checksum_with_payload(true, { h.d.first, h.o.x, h.w.y, h.d.last },
                                     h.d.all, HashAlgorithm.csum16);
        update_checksum_with_payload(true, { h.d.first, h.o.x, h.w.y, h.d.last },
                                     h.d.crc, HashAlgorithm.crc32);
        update_checksum(true, { h.w.y, h.d.first, h.d.last }, h.d.folded, HashAlgorithm.xor16);
    }
}

control D(packet_out p, in headers_t h) {
    apply {
        p.emit(h);
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
