// The end of ingress, of all services: what is not forwarded is counted, and dropped or handed to the controller.
control Finish(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    // By reason.
    counter(256, CounterType.packets_and_bytes) drops;

    apply {
        if (meta.reason == Reason.NONE) {
            return;
        }
        drops.count((bit<32>) (bit<8>) meta.reason);
        if (meta.is_ours == 1) {
            return;
        }
        // It answers by ICMP, reports, or does what the network does elsewhere.
        if (meta.reason == Reason.TTL || meta.reason == Reason.MTU
            || (bit<8>) meta.reason >= (bit<8>) Reason.OWN_ADDRESS) {
            if (!hdr.packet_io.isValid()) {
                standard_metadata.egress_spec = CONTROLLER_PORT;
                return;
            }
        }
        mark_to_drop(standard_metadata);
    }
}
