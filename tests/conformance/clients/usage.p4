// For usage.py: what the documents of p4runtime-shell need. Packets of the controller leave by the port that they name; others are
// spread by `hashed`, matched by `acl`, and go to the controller if nothing else is said.
#include <core.p4>
#include <v1model.p4>

@controller_header("packet_out")
header packet_out_header_t {
    bit<16> egress_port;
}

@controller_header("packet_in")
header packet_in_header_t {
    bit<16> ingress_port;
}

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> kind;
}

struct headers_t {
    packet_out_header_t packet_out;
    packet_in_header_t packet_in;
    ethernet_t ethernet;
}

struct metadata_t {
    bit<9> port;
    bit<32> next_id;
}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        transition select(standard.ingress_port) {
            510: controller;
            default: ethernet;
        }
    }
    state controller {
        packet.extract(hdr.packet_out);
        transition ethernet;
    }
    state ethernet {
        transition accept;
    }
}

control V(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    action_selector(HashAlgorithm.crc16, 64, 16) profile;
    direct_counter(CounterType.packets_and_bytes) hits;

    action nop() {}
    action forward(bit<9> port) {
        standard.egress_spec = port;
    }
    table hashed {
        key = {
            meta.next_id: exact @name("next_id");
            meta.port: selector;
        }
        actions = { nop; forward; }
        implementation = profile;
    }
    table acl {
        key = { meta.port: ternary; }
        actions = { forward; nop; }
        default_action = nop();
        counters = hits;
    }
    apply {
        meta.port = standard.ingress_port;
        if (hdr.packet_out.isValid()) {
            standard.egress_spec = hdr.packet_out.egress_port[8:0];
            hdr.packet_out.setInvalid();
        } else {
            standard.egress_spec = 510;
            hashed.apply();
            acl.apply();
        }
        if (standard.egress_spec == 510) {
            hdr.packet_in.setValid();
            hdr.packet_in.ingress_port = (bit<16>)standard.ingress_port;
        }
    }
}

control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {}
}

control C(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control D(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
