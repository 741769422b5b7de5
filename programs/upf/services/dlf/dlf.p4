// Downlink function: from the data network into tunnels. Packets for UEs come from the ingress steering function or the
// network; what comes through tunnels is not for this service.
#include "../../include/headers.p4"
#include "../../include/parser.p4"
#include "../../include/common.p4"
#include "../../include/admission.p4"
#include "../../include/downlink.p4"
#include "../../include/filter.p4"
#include "../../include/rules.p4"
#include "../../include/egress.p4"

control DlfIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Admit() admit;
    DetectDownlink() downlink;
    Filter() filter;
    Act() act;
    Finish() finish;

    apply {
        bool needs_rule = true;
        if (hdr.under_v4.isValid() || hdr.under_v6.isValid()) {
            meta.reason = Reason.NOT_FOR_US;
        } else if (!hdr.packet_io.isValid()) {
            admit.apply(hdr, meta, standard_metadata);
            if (meta.reason == Reason.NONE) {
                downlink.apply(hdr, meta, standard_metadata);
            }
        } else if (hdr.packet_io.etherType != TYPE_CONTROL || hdr.packet_io.reason > (bit<16>) From.ECHO_REQUEST) {
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
        }
        if (meta.reason == Reason.NONE && meta.filters != 0) {
            filter.apply(hdr, meta, standard_metadata);
        }
        if (meta.reason == Reason.NONE && needs_rule) {
            act.apply(hdr, meta, standard_metadata);
        }
        finish.apply(hdr, meta, standard_metadata);
    }
}

V1Switch(UpfParser(), UpfVerify(), DlfIngress(), UpfEgress(), UpfCompute(), UpfDeparser()) main;
