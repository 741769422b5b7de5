// Ingress steering (ISF): which service, and which of its replicas, a packet goes to. It leaves as it arrived.
control Steer(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    bit<8> path = 0;
    bit<128> user = 0;

    action to_path(bit<8> number) {
        path = number;
    }
    // Ports whose packets all take one path, whatever they are.
    table fixed_paths {
        key = {
            standard_metadata.ingress_port : exact;
            meta.vid                       : exact;
        }
        actions = { to_path; NoAction; }
        default_action = NoAction();
        size = 2000;
    }

    action to_service(port_t port, mac_t service) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.dstAddr = service;
    }
    action no_service() {
        meta.reason = Reason.NO_PEER;
    }
    // Path 1 is uplink, path 2 is downlink. A UE's packets of one direction take one replica: by TEID, by the UE's address.
    action_selector(HashAlgorithm.crc32, 1024, 32) replicas;
    table paths {
        key = {
            path : exact;
            user : selector;
        }
        actions = { to_service; no_service; }
        implementation = replicas;
        size = 256;
    }

    apply {
        bool is_tunnelled = hdr.under_v4.isValid() || hdr.under_v6.isValid();
        path = is_tunnelled ? 8w1 : 8w2;
        fixed_paths.apply();
        if (is_tunnelled) {
            user = (bit<128>) meta.teid;
        } else if (hdr.ipv4.isValid()) {
            user = (bit<128>) hdr.ipv4.dstAddr;
        } else {
            user = (bit<128>) hdr.ipv6.dstAddr[127:64];
        }
        if (!paths.apply().hit) {
            meta.reason = Reason.NO_PEER;
        }
    }
}

control Return(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    // Ports behind which a service is: its answers leave as they are.
    action back(port_t port) {
        standard_metadata.egress_spec = port;
        meta.vid_out = meta.vid;
    }
    table returns {
        key = { standard_metadata.ingress_port : exact; }
        actions = { back; NoAction; }
        default_action = NoAction();
        size = 512;
    }

    apply {
        returns.apply();
    }
}
