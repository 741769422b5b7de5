// Direct objects and action profiles used where they cannot mean anything.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8> a;
    bit<8> b;
}

struct headers_t {
    h_t h;
}

struct metadata_t {}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control V(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    direct_meter<bit<8>>(MeterType.bytes) lonely;
    direct_meter<bit<8>>(MeterType.bytes) shared_meter;
    action_profile(16) members;
    action_selector(HashAlgorithm.crc16, 16, 16) groups;
    action one() {
        hdr.h.b = 1;
    }
    table first {
        key = { hdr.h.a : exact; }
        actions = { one; }
        implementation = members;
        meters = shared_meter;
    }
    table meter_again {
        key = { hdr.h.a : exact; }
        actions = { one; }
        meters = shared_meter;
    }
    table no_profile {
        key = { hdr.h.a : exact; }
        actions = { one; }
        implementation = lonely;
    }
    table with_entries {
        key = { hdr.h.a : exact; hdr.h.b : selector; }
        actions = { one; }
        implementation = groups;
        const entries = {
            (1, _): one();
        }
    }
    apply {
        lonely.read(hdr.h.b);
        first.apply();
        meter_again.apply();
        no_profile.apply();
        with_entries.apply();
    }
}

control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {}
}

control C(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control D(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
