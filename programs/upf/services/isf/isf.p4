// Ingress steering function: the first service of each chain. It drops what is not right, answers and hands on the
// messages of GTP-U that are not user data, and sends the rest to the replicas of the downlink and uplink functions.
#include "../../include/headers.p4"
#include "../../include/parser.p4"
#include "../../include/common.p4"
#include "../../include/admission.p4"
#include "../../include/answer.p4"
#include "../../include/steer.p4"
#include "../../include/egress.p4"

control IsfIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Admit() admit;
    Answer() answer;
    Return() returned;
    Steer() steer;
    Finish() finish;

    apply {
        bool is_tunnelled = hdr.under_v4.isValid() || hdr.under_v6.isValid();
        if (hdr.packet_io.isValid()) {
            // Frames from the controller leave as they are; rules are for the other services.
            if (hdr.packet_io.etherType == TYPE_CONTROL && hdr.packet_io.reason == (bit<16>) From.AS_IT_IS) {
                standard_metadata.egress_spec = (port_t) hdr.packet_io.port;
            } else {
                meta.reason = Reason.NOT_FOR_US;
            }
        } else {
            returned.apply(hdr, meta, standard_metadata);
        }
        if (!hdr.packet_io.isValid() && standard_metadata.egress_spec == 0) {
            admit.apply(hdr, meta, standard_metadata);
            if (is_tunnelled && ((meta.reason == Reason.NONE && meta.message == Message.ECHO_REQUEST)
                                 || meta.reason == Reason.EXTENSION)) {
                answer.apply(hdr, meta, standard_metadata);
            } else if (meta.reason == Reason.NONE) {
                steer.apply(hdr, meta, standard_metadata);
            }
        }
        finish.apply(hdr, meta, standard_metadata);
    }
}

V1Switch(UpfParser(), UpfVerify(), IsfIngress(), UpfEgress(), UpfCompute(), UpfDeparser()) main;
