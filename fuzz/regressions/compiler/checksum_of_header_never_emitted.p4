// A checksum over fields of a header whose validity nothing else reads: code generation panicked.
#include <core.p4>
#include <v1model.p4>

header pair_t {
    bit<16> value;
    bit<16> sum;
}

struct headers_t {
    pair_t pair;
}

struct meta_t {}

parser P(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.pair);
        transition accept;
    }
}

control V(inout headers_t hdr, inout meta_t meta) {
    apply {
        verify_checksum(true, { hdr.pair.value }, hdr.pair.sum, HashAlgorithm.csum16);
    }
}

control I(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        hdr.pair.value = hdr.pair.value + 1;
    }
}

control E(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {}
}

control U(inout headers_t hdr, inout meta_t meta) {
    apply {}
}

control D(packet_out packet, in headers_t hdr) {
    apply {}
}

V1Switch(P(), V(), I(), E(), U(), D()) main;
