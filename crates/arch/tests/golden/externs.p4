// v1model's externs: hash, checksums, registers, counters, random, log_msg, assert.
#include <core.p4>
#include <v1model.p4>

register<bit<32>>(16) global;

header h_t {
    bit<8> a;
    bit<8> b;
    bit<16> c;
}

header o_t {
    varbit<32> o;
}

struct headers_t {
    h_t h;
    o_t o;
}

struct metadata_t {
    bit<10> x;
    bit<32> r;
}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.h);
        packet.extract(hdr.o, (bit<32>) hdr.h.b * 8);
        meta.r = packet.length();
        transition accept;
    }
}

control V(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.h.isValid(), { hdr.h.a, hdr.h.b }, hdr.h.c, HashAlgorithm.csum16);
    }
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    counter(8, CounterType.bytes) seen;
    apply {
        hash(meta.x, HashAlgorithm.crc16, 10w3, { hdr.h.a, hdr.h.b }, 32w5);
        random(meta.r, 1, 6);
        global.read(meta.r, (bit<32>) hdr.h.a);
        global.write(0, meta.r + 1);
        seen.count((bit<32>) hdr.h.b);
        log_msg("x = {}, r = {}", { meta.x, meta.r });
        assert(meta.r != 3);
        mark_to_drop(standard_metadata);
    }
}

control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        standard_metadata.egress_port = 1;
    }
}

control C(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(true, { hdr.h.a, hdr.h.b }, hdr.h.c, HashAlgorithm.csum16);
        update_checksum_with_payload(hdr.o.isValid(), { hdr.h.a, hdr.h.b, hdr.o.o }, hdr.h.c, HashAlgorithm.csum16);
    }
}

control D(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
