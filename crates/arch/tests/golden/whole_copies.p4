// Everything that makes copies: clones with and without field lists, resubmit, recirculate, multicast, truncate.
#include <core.p4>
#include <v1model.p4>

const bit<8> CLONED = 3;
enum bit<8> Lists { AGAIN = 1, ROUND = 2 }

header h_t {
    bit<8> a;
}

struct headers_t {
    h_t h;
}

struct inner_t {
    @field_list(CLONED, Lists.AGAIN) bit<8> parsed;
    bit<8> lost;
}

struct metadata_t {
    inner_t inner;
    @field_list(Lists.ROUND, 3) bit<8> kept;
}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.h);
        meta.inner.parsed = hdr.h.a;
        transition accept;
    }
}

control V(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        if (standard_metadata.instance_type == 6) {
            standard_metadata.mcast_grp = 7;
        } else if (hdr.h.a == 1) {
            clone(CloneType.I2E, 5);
        } else if (hdr.h.a == 2) {
            clone_preserving_field_list(CloneType.I2E, 6, CLONED);
        } else {
            resubmit_preserving_field_list(Lists.AGAIN);
        }
    }
}

control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        clone3(CloneType.E2E, 8, { meta.inner.lost, standard_metadata.ingress_port });
        recirculate_preserving_field_list(2);
        truncate(64);
    }
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
