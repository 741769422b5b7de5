// Lawful intercept function: a wire that copies the packets of some UEs. It sits where packets have no tunnel, behind
// the uplink or before the downlink function, and changes nothing of what passes.
#include "../../include/headers.p4"
#include "../../include/parser.p4"
#include "../../include/common.p4"
#include "../../include/egress.p4"

control LifIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    // By session and so by warrant: the first 65536.
    counter(65536, CounterType.packets_and_bytes) intercepted;

    // Each wire has two ends. `from_ue`: the source of its packets is the UE.
    action to(port_t port, network_t network, bit<1> from_ue) {
        standard_metadata.egress_spec = port;
        meta.network = network;
        meta.from_ue = from_ue;
    }
    action no_wire() {
        meta.reason = Reason.UNKNOWN_ATTACHMENT;
    }
    table wires {
        key = {
            standard_metadata.ingress_port : exact;
            meta.vid                       : exact;
        }
        actions = { to; no_wire; }
        default_action = no_wire();
        size = 2000;
    }

    bit<32> user_v4 = 0;
    bit<64> user_v6 = 0;
    // Copies go to a clone session; table `copies` has their headers.
    action intercept(bit<16> copies, bit<32> copy) {
        meta.copies = copies;
        meta.copy = copy;
    }
    table targets_v4 {
        key = {
            meta.network : exact;
            user_v4      : exact;
        }
        actions = { intercept; NoAction; }
        default_action = NoAction();
        size = 65536;
    }
    table targets_v6 {
        key = {
            meta.network : exact;
            user_v6      : exact;
        }
        actions = { intercept; NoAction; }
        default_action = NoAction();
        size = 65536;
    }

    Finish() finish;

    apply {
        wires.apply();
        if (meta.reason == Reason.NONE) {
            if (hdr.ipv4.isValid()) {
                user_v4 = meta.from_ue == 1 ? hdr.ipv4.srcAddr : hdr.ipv4.dstAddr;
                targets_v4.apply();
            } else if (hdr.ipv6.isValid()) {
                user_v6 = meta.from_ue == 1 ? hdr.ipv6.srcAddr[127:64] : hdr.ipv6.dstAddr[127:64];
                targets_v6.apply();
            }
            if (meta.copies != 0) {
                intercepted.count(meta.copy);
                clone_preserving_field_list(CloneType.I2E, (bit<32>) meta.copies, 1);
            }
            // The tag of the wire stays.
            meta.vid_out = meta.vid;
        }
        finish.apply(hdr, meta, standard_metadata);
    }
}

V1Switch(UpfParser(), UpfVerify(), LifIngress(), UpfEgress(), UpfCompute(), UpfDeparser()) main;
