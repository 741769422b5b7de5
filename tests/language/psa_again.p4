// PSA: resubmitted and recirculated packets, with the metadata that the deparsers give them.
#include <core.p4>
#include <psa.p4>

header h_t {
    bit<8> kind;
    bit<8> turns;
    bit<8> path;
    bit<8> port;
}

struct headers_t {
    h_t h;
}

struct carried_t {
    bit<8> turns;
}

struct user_t {
    bit<8> turns;
}

struct empty_t {}

parser IP(packet_in buffer, out headers_t hdr, inout user_t user, in psa_ingress_parser_input_metadata_t istd,
          in carried_t resubmitted, in carried_t recirculated) {
    state start {
        buffer.extract(hdr.h);
        transition select(istd.packet_path) {
            PSA_PacketPath_t.RESUBMIT: again;
            PSA_PacketPath_t.RECIRCULATE: around;
            default: accept;
        }
    }
    state again {
        user.turns = resubmitted.turns;
        transition accept;
    }
    state around {
        user.turns = recirculated.turns;
        transition accept;
    }
}

control I(inout headers_t hdr, inout user_t user, in psa_ingress_input_metadata_t istd,
          inout psa_ingress_output_metadata_t ostd) {
    apply {
        if (hdr.h.kind == 0) {
            // Nobody asks for this one to be sent.
            return;
        }
        send_to_port(ostd, (PortId_t) 1);
        if (hdr.h.kind == 1 && user.turns < 3) {
            hdr.h.port = 0xff;
            ostd.resubmit = true;
        } else if (hdr.h.kind == 2 && user.turns < 3) {
            send_to_port(ostd, PSA_PORT_RECIRCULATE);
        } else if (hdr.h.kind == 3) {
            // A drop goes before a resubmission.
            ostd.resubmit = true;
            ingress_drop(ostd);
        }
        hdr.h.turns = user.turns;
        hdr.h.port = (bit<8>) (PortIdUint_t) istd.ingress_port;
        if (istd.packet_path == PSA_PacketPath_t.RESUBMIT) {
            hdr.h.path = 1;
        } else if (istd.packet_path == PSA_PacketPath_t.RECIRCULATE) {
            hdr.h.path = 2;
        }
    }
}

control ID(packet_out buffer, out empty_t clone_meta, out carried_t resubmit_meta, out carried_t normal_meta,
           inout headers_t hdr, in user_t user, in psa_ingress_output_metadata_t istd) {
    apply {
        if (psa_resubmit(istd)) {
            resubmit_meta.turns = user.turns + 1;
        }
        if (psa_normal(istd)) {
            normal_meta.turns = user.turns + 1;
        }
        buffer.emit(hdr);
    }
}

parser EP(packet_in buffer, out headers_t hdr, inout user_t user, in psa_egress_parser_input_metadata_t istd,
          in carried_t normal_meta, in empty_t i2e_meta, in empty_t e2e_meta) {
    state start {
        buffer.extract(hdr.h);
        user.turns = normal_meta.turns;
        transition accept;
    }
}

control E(inout headers_t hdr, inout user_t user, in psa_egress_input_metadata_t istd,
          inout psa_egress_output_metadata_t ostd) {
    apply {
        if (hdr.h.kind == 4) {
            egress_drop(ostd);
        }
    }
}

control ED(packet_out buffer, out empty_t clone_meta, out carried_t recirculate_meta, inout headers_t hdr,
           in user_t user, in psa_egress_output_metadata_t istd, in psa_egress_deparser_input_metadata_t edstd) {
    apply {
        if (psa_recirculate(istd, edstd)) {
            recirculate_meta.turns = user.turns;
        }
        buffer.emit(hdr);
    }
}

IngressPipeline(IP(), I(), ID()) ip;
EgressPipeline(EP(), E(), ED()) ep;
PSA_Switch(ip, PacketReplicationEngine(), ep, BufferingQueueingEngine()) main;
