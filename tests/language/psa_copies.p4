// PSA: clones of ingress and of egress with what their deparser gives them, and multicast.
#include <core.p4>
#include <psa.p4>

header h_t {
    bit<8> kind;
    bit<8> path;    // packet_path
    bit<8> instance;
    bit<8> given;   // by the deparser
    bit<8> port;
}

struct headers_t {
    h_t h;
}

struct given_t {
    bit<8> value;
}

struct user_t {
    bit<8> value;
}

struct empty_t {}

parser IP(packet_in buffer, out headers_t h, inout user_t user, in psa_ingress_parser_input_metadata_t istd,
          in empty_t resubmitted, in empty_t recirculated) {
    state start {
        buffer.extract(h.h);
        transition accept;
    }
}

control I(inout headers_t h, inout user_t user, in psa_ingress_input_metadata_t istd,
          inout psa_ingress_output_metadata_t ostd) {
    apply {
        send_to_port(ostd, (PortId_t) 1);
        user.value = 0x10;
        if (h.h.kind == 1) {
            ostd.clone = true;
            ostd.clone_session_id = (CloneSessionId_t) 5;
            h.h.port = 0xee;
        } else if (h.h.kind == 2) {
            multicast(ostd, (MulticastGroup_t) 3);
        } else if (h.h.kind == 4) {
            // A clone is made of what is dropped too.
            ostd.clone = true;
            ostd.clone_session_id = (CloneSessionId_t) 6;
            ingress_drop(ostd);
        }
    }
}

control ID(packet_out buffer, out given_t clone_meta, out empty_t resubmit_meta, out given_t normal_meta,
           inout headers_t h, in user_t user, in psa_ingress_output_metadata_t istd) {
    apply {
        if (psa_clone_i2e(istd)) {
            clone_meta.value = user.value + 1;
        }
        if (psa_normal(istd)) {
            normal_meta.value = user.value + 2;
        }
        buffer.emit(h);
    }
}

parser EP(packet_in buffer, out headers_t h, inout user_t user, in psa_egress_parser_input_metadata_t istd,
          in given_t normal_meta, in given_t i2e_meta, in given_t e2e_meta) {
    state start {
        buffer.extract(h.h);
        transition select(istd.packet_path) {
            PSA_PacketPath_t.CLONE_I2E: of_ingress;
            PSA_PacketPath_t.CLONE_E2E: of_egress;
            default: normal;
        }
    }
    state of_ingress {
        user.value = i2e_meta.value;
        transition accept;
    }
    state of_egress {
        user.value = e2e_meta.value;
        transition accept;
    }
    state normal {
        user.value = normal_meta.value;
        transition accept;
    }
}

control E(inout headers_t h, inout user_t user, in psa_egress_input_metadata_t istd,
          inout psa_egress_output_metadata_t ostd) {
    apply {
        h.h.given = user.value;
        h.h.instance = (bit<8>) (EgressInstanceUint_t) istd.instance;
        h.h.port = h.h.port + (bit<8>) (PortIdUint_t) istd.egress_port;
        if (istd.packet_path == PSA_PacketPath_t.NORMAL_UNICAST) {
            h.h.path = 1;
        } else if (istd.packet_path == PSA_PacketPath_t.NORMAL_MULTICAST) {
            h.h.path = 2;
        } else if (istd.packet_path == PSA_PacketPath_t.CLONE_I2E) {
            h.h.path = 3;
        } else if (istd.packet_path == PSA_PacketPath_t.CLONE_E2E) {
            h.h.path = 4;
        }
        if (h.h.kind == 3 && istd.packet_path == PSA_PacketPath_t.NORMAL_UNICAST) {
            ostd.clone = true;
            ostd.clone_session_id = (CloneSessionId_t) 5;
            egress_drop(ostd);
        }
    }
}

control ED(packet_out buffer, out given_t clone_meta, out empty_t recirculate_meta, inout headers_t h,
           in user_t user, in psa_egress_output_metadata_t istd, in psa_egress_deparser_input_metadata_t edstd) {
    apply {
        if (psa_clone_e2e(istd)) {
            clone_meta.value = 0x40;
        }
        buffer.emit(h);
    }
}

IngressPipeline(IP(), I(), ID()) ip;
EgressPipeline(EP(), E(), ED()) ep;
PSA_Switch(ip, PacketReplicationEngine(), ep, BufferingQueueingEngine()) main;
