// A user plane function of 5G (3GPP TS 23.501) in one switch: between gNBs, whose packets are carried in GTP-U, and
// data networks. The folder services has its parts as switches of their own. README.md has the tables, and what becomes
// of malformed packets.
#include "include/headers.p4"
#include "include/parser.p4"
#include "include/common.p4"
#include "include/admission.p4"
#include "include/answer.p4"
#include "include/uplink.p4"
#include "include/downlink.p4"
#include "include/filter.p4"
#include "include/rules.p4"
#include "include/egress.p4"

control UpfIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Admit() admit;
    Answer() answer;
    DetectUplink() uplink;
    DetectDownlink() downlink;
    Filter() filter;
    Act() act;
    Finish() finish;

    apply {
        bool is_tunnelled = hdr.under_v4.isValid() || hdr.under_v6.isValid();
        bool needs_rule = true;
        if (hdr.packet_io.isValid()) {
            if (hdr.packet_io.etherType != TYPE_CONTROL) {
                // What else a kernel says on the interface behind this port.
                meta.reason = Reason.NOT_FOR_US;
            } else if (is_tunnelled) {
                meta.reason = Reason.NOT_FOR_US;
            } else if (hdr.packet_io.reason == (bit<16>) From.AS_IT_IS) {
                standard_metadata.egress_spec = (port_t) hdr.packet_io.port;
                needs_rule = false;
            } else if (hdr.packet_io.reason <= (bit<16>) From.RULE) {
                admit.apply(hdr, meta, standard_metadata);
                meta.rule = hdr.packet_io.rule;
                if (meta.reason == Reason.NONE && hdr.packet_io.reason == (bit<16>) From.NETWORK) {
                    downlink.apply(hdr, meta, standard_metadata);
                }
            } else if (hdr.packet_io.reason > (bit<16>) From.ECHO_REQUEST) {
                meta.reason = Reason.NOT_FOR_US;
            }
        } else {
            admit.apply(hdr, meta, standard_metadata);
            if (meta.reason == Reason.NONE) {
                if (!is_tunnelled) {
                    downlink.apply(hdr, meta, standard_metadata);
                } else if (meta.message == Message.ECHO_REQUEST) {
                    needs_rule = false;
                } else {
                    uplink.apply(hdr, meta, standard_metadata);
                }
            }
            // An error indication is an answer to user data only (TS 29.281, clause 7.3.1).
            if (is_tunnelled && ((meta.reason == Reason.NONE && meta.message == Message.ECHO_REQUEST)
                                 || meta.reason == Reason.EXTENSION
                                 || (meta.reason == Reason.UNKNOWN_TEID && meta.message == Message.G_PDU))) {
                answer.apply(hdr, meta, standard_metadata);
            }
        }
        if (meta.reason == Reason.NONE && meta.filters != 0 && meta.message != Message.END_MARKER) {
            filter.apply(hdr, meta, standard_metadata);
        }
        if (meta.reason == Reason.NONE && needs_rule) {
            act.apply(hdr, meta, standard_metadata);
        }
        finish.apply(hdr, meta, standard_metadata);
    }
}

V1Switch(UpfParser(), UpfVerify(), UpfIngress(), UpfEgress(), UpfCompute(), UpfDeparser()) main;
