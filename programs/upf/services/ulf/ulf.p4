// Uplink function: out of tunnels to the data network. What comes without a tunnel is not for this service.
#include "../../include/headers.p4"
#include "../../include/parser.p4"
#include "../../include/common.p4"
#include "../../include/admission.p4"
#include "../../include/answer.p4"
#include "../../include/uplink.p4"
#include "../../include/filter.p4"
#include "../../include/rules.p4"
#include "../../include/egress.p4"

control UlfIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Admit() admit;
    Answer() answer;
    DetectUplink() uplink;
    Filter() filter;
    Act() act;
    Finish() finish;

    apply {
        if (!hdr.under_v4.isValid() && !hdr.under_v6.isValid()) {
            meta.reason = Reason.NOT_FOR_US;
        } else {
            admit.apply(hdr, meta, standard_metadata);
            if (meta.reason == Reason.NONE && meta.message != Message.ECHO_REQUEST) {
                uplink.apply(hdr, meta, standard_metadata);
            }
            // An error indication is an answer to user data only (TS 29.281, clause 7.3.1).
            if ((meta.reason == Reason.NONE && meta.message == Message.ECHO_REQUEST) || meta.reason == Reason.EXTENSION
                || (meta.reason == Reason.UNKNOWN_TEID && meta.message == Message.G_PDU)) {
                answer.apply(hdr, meta, standard_metadata);
            }
        }
        if (meta.is_ours == 0) {
            if (meta.reason == Reason.NONE && meta.filters != 0 && meta.message != Message.END_MARKER) {
                filter.apply(hdr, meta, standard_metadata);
            }
            if (meta.reason == Reason.NONE) {
                act.apply(hdr, meta, standard_metadata);
            }
        }
        finish.apply(hdr, meta, standard_metadata);
    }
}

V1Switch(UpfParser(), UpfVerify(), UlfIngress(), UpfEgress(), UpfCompute(), UpfDeparser()) main;
