// The head of tunnels of three kinds, chosen by route: IPv4 in IPv4, GRE, and GTP-U over UDP. The rest is routed without one.
header gre_t {
    bit<16> flags;
    bit<16> protocol;
}

header gtp_t {
    bit<8>  flags;
    bit<8>  type;
    bit<16> length;
    bit<32> teid;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     outer_ipv4;
    gre_t      gre;
    udp_t      udp;
    gtp_t      gtp;
    ipv4_t     ipv4;
}

struct metadata_t {
    bit<16> tunnel;
}

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.etherType) {
            0x0800: parse_ipv4;
            default: accept;
        }
    }
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

control MyVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid(), IPV4_WORDS(hdr.ipv4), hdr.ipv4.hdrChecksum, HashAlgorithm.csum16);
    }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action drop() {
        mark_to_drop(std);
    }
    action direct(mac_t dmac, port_t port) {
        hdr.ethernet.dstAddr = dmac;
        std.egress_spec = port;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }
    action through(bit<16> tunnel) {
        meta.tunnel = tunnel;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }
    table routes {
        key = { hdr.ipv4.dstAddr : lpm; }
        actions = { direct; through; drop; }
        default_action = drop();
        size = 65536;
    }

    action outer(bit<8> protocol, bit<16> more, ip_t source, ip_t destination, mac_t dmac, port_t port) {
        hdr.outer_ipv4.setValid();
        hdr.outer_ipv4 = hdr.ipv4;
        hdr.outer_ipv4.totalLen = hdr.ipv4.totalLen + more;
        hdr.outer_ipv4.ttl = 64;
        hdr.outer_ipv4.protocol = protocol;
        hdr.outer_ipv4.srcAddr = source;
        hdr.outer_ipv4.dstAddr = destination;
        hdr.ethernet.dstAddr = dmac;
        std.egress_spec = port;
    }
    action ip_in_ip(ip_t source, ip_t destination, mac_t dmac, port_t port) {
        outer(4, 20, source, destination, dmac, port);
    }
    action gre(ip_t source, ip_t destination, mac_t dmac, port_t port) {
        outer(47, 24, source, destination, dmac, port);
        hdr.gre.setValid();
        hdr.gre.flags = 0;
        hdr.gre.protocol = 0x0800;
    }
    action gtp(ip_t source, ip_t destination, mac_t dmac, port_t port, bit<32> teid) {
        outer(17, 36, source, destination, dmac, port);
        hdr.udp.setValid();
        hdr.udp.srcPort = 2152;
        hdr.udp.dstPort = 2152;
        hdr.udp.length = hdr.ipv4.totalLen + 16;
        hdr.udp.checksum = 0;
        hdr.gtp.setValid();
        hdr.gtp.flags = 0x30;
        hdr.gtp.type = 255;
        hdr.gtp.length = hdr.ipv4.totalLen;
        hdr.gtp.teid = teid;
    }
    table tunnels {
        key = { meta.tunnel : exact; }
        actions = { ip_in_ip; gre; gtp; drop; }
        default_action = drop();
        size = 4096;
    }
    apply {
        if (!hdr.ipv4.isValid() || hdr.ipv4.ttl < 2 || std.checksum_error == 1) {
            drop();
        } else {
            switch (routes.apply().action_run) {
                through: { tunnels.apply(); }
            }
        }
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action from(mac_t smac) {
        hdr.ethernet.srcAddr = smac;
    }
    table ports {
        key = { std.egress_port : exact; }
        actions = { from; NoAction; }
        default_action = NoAction();
        size = 64;
    }
    apply {
        ports.apply();
    }
}

control MyCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(), IPV4_WORDS(hdr.ipv4), hdr.ipv4.hdrChecksum, HashAlgorithm.csum16);
        update_checksum(hdr.outer_ipv4.isValid(), IPV4_WORDS(hdr.outer_ipv4), hdr.outer_ipv4.hdrChecksum,
                        HashAlgorithm.csum16);
    }
}

control MyDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.outer_ipv4);
        packet.emit(hdr.gre);
        packet.emit(hdr.udp);
        packet.emit(hdr.gtp);
        packet.emit(hdr.ipv4);
    }
}

V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), MyDeparser()) main;
