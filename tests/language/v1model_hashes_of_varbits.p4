// v1model: hashes and checksums over as many bits of a varbit as there are.
#include "include/v1.p4"

header data_t {
    bit<8> which;
    bit<8> length;
    varbit<72> digits;
}

header result_t {
    bit<64> hash;
    bit<32> sum;
}

struct headers_t {
    result_t r;
    data_t d;
}

struct meta_t {}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.d, (bit<32>) p.lookahead<bit<16>>()[7:0] * 8);
        transition accept;
    }
}

control NoVerify(inout headers_t h, inout meta_t m) {
    apply {}
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        bit<128> all = 0x10000000000000000;
        h.r = { 0, 0 };
        switch (h.d.which) {
            1: { hash(h.r.hash, HashAlgorithm.crc32, 64w0, { h.d.digits }, all); }
            2: { hash(h.r.hash, HashAlgorithm.crc16, 64w0, { h.d.digits }, all); }
            3: { hash(h.r.hash, HashAlgorithm.csum16, 64w0, { h.d.digits }, all); }
            4: { hash(h.r.hash, HashAlgorithm.xor16, 64w0, { h.d.digits }, all); }
            5: { hash(h.r.hash, HashAlgorithm.identity, 64w0, { h.d.digits }, all); }
            6: { hash(h.r.hash, HashAlgorithm.crc32_custom, 64w0, { h.d.digits }, all); }
            7: { hash(h.r.hash, HashAlgorithm.crc16_custom, 64w0, { h.d.digits }, all); }
            // The whole header, all of it between other fields, none of it.
            8: { hash(h.r.hash, HashAlgorithm.identity, 64w0, h.d, all); }
            9: { hash(h.r.hash, HashAlgorithm.identity, 64w0, { 4w0xf, h.d.digits, 4w0xe }, all); }
            10: {
                h.d.setInvalid();
                hash(h.r.hash, HashAlgorithm.identity, 64w0, { 4w0xf, h.d.digits, 4w0xe }, all);
            }
        }
    }
}

control NoEgress(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {}
}

// With the payload the data are always the nine digits.
control Compute(inout headers_t h, inout meta_t m) {
    apply {
        update_checksum_with_payload(h.d.which == 1, { h.d.digits }, h.r.sum, HashAlgorithm.crc32);
        update_checksum_with_payload(h.d.which == 2, { h.d.digits }, h.r.sum, HashAlgorithm.crc16);
        update_checksum_with_payload(h.d.which == 3, { h.d.digits }, h.r.sum, HashAlgorithm.csum16);
        update_checksum_with_payload(h.d.which == 4, { h.d.digits }, h.r.sum, HashAlgorithm.xor16);
        update_checksum_with_payload(h.d.which == 5, { h.d.digits }, h.r.sum, HashAlgorithm.identity);
        update_checksum_with_payload(h.d.which == 6, { h.d.digits }, h.r.sum, HashAlgorithm.crc32_custom);
        update_checksum_with_payload(h.d.which == 7, { h.d.digits }, h.r.sum, HashAlgorithm.crc16_custom);
    }
}

control D(packet_out p, in headers_t h) {
    apply {
        p.emit(h.r);
    }
}

V1Switch(P(), NoVerify(), C(), NoEgress(), Compute(), D()) main;
