// Service data flow filters and QFIs, in the order of their precedence. What matches names a position in the set; the rule's
// number is that of position 0 plus the position.
control Filter(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    bit<16> remote_port = 0;
    bit<16> ue_port = 0;
    bit<32> remote_v4 = 0;
    bit<128> remote_v6 = 0;

    action position(bit<16> at) {
        meta.rule = meta.rule + (rule_t) at;
    }
    action no_pdr() {
        meta.reason = Reason.NO_PDR;
    }
    // Of a fragment other than the first, and of protocols without them, ports are 0.
    table filters_v4 {
        key = {
            meta.filters  : exact;
            remote_v4     : ternary;
            meta.protocol : ternary;
            remote_port   : range;
            ue_port       : range;
            meta.diffserv : ternary;
            meta.qfi_in   : ternary;
        }
        actions = { position; no_pdr; }
        default_action = no_pdr();
        size = FILTERS_MAX;
    }
    table filters_v6 {
        key = {
            meta.filters  : exact;
            remote_v6     : ternary;
            meta.protocol : ternary;
            remote_port   : range;
            ue_port       : range;
            meta.diffserv : ternary;
            meta.qfi_in   : ternary;
        }
        actions = { position; no_pdr; }
        default_action = no_pdr();
        size = FILTERS_MAX;
    }

    apply {
        remote_port = meta.from_ue == 1 ? meta.dst_port : meta.src_port;
        ue_port = meta.from_ue == 1 ? meta.src_port : meta.dst_port;
        if (hdr.ipv6.isValid()) {
            remote_v6 = meta.from_ue == 1 ? hdr.ipv6.dstAddr : hdr.ipv6.srcAddr;
            filters_v6.apply();
        } else {
            remote_v4 = meta.from_ue == 1 ? hdr.ipv4.dstAddr : hdr.ipv4.srcAddr;
            filters_v4.apply();
        }
    }
}
