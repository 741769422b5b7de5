// v1model: checksums are verified before ingress and computed after egress, over fields and over the payload.
#include "include/v1.p4"

header data_t {
    bit<8> when;
    bit<8> found;   // checksum_error
    bit<16> first;
    bit<16> second;
    bit<16> sum;
    bit<16> all;    // with the payload
    bit<16> crc;
}

#include "include/data.p4"

control V(inout headers_t h, inout meta_t m) {
    apply {
        verify_checksum(h.d.when == 1, { h.d.first, h.d.second }, h.d.sum, HashAlgorithm.csum16);
        verify_checksum_with_payload(h.d.when == 2, { h.d.first }, h.d.all, HashAlgorithm.csum16);
    }
}

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        h.d.found = 7w0 ++ s.checksum_error;
        h.d.first = h.d.first + 1;
    }
}

control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        h.d.second = h.d.second + 1;
    }
}

control C(inout headers_t h, inout meta_t m) {
    apply {
        update_checksum(h.d.when != 9, { h.d.first, h.d.second }, h.d.sum, HashAlgorithm.csum16);
        // Sees what the one before has written.
        update_checksum_with_payload(h.d.when != 9, { h.d.sum }, h.d.all, HashAlgorithm.csum16);
        update_checksum(h.d.isValid(), { h.d.first, h.d.second }, h.d.crc, HashAlgorithm.crc16);
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
