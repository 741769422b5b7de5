// The border router of a small site, IPv4 and IPv6: drop what is malformed, ask the access list, then route.
//
//     parser ─▶ sane? ─▶ acl_v4 ─▶ TTL ─▶ ipv4_lpm ─┐
//                     └▶ acl_v6 ─▶ hop ─▶ ipv6_lpm ─┴▶ next_hops ─▶ send_frame (egress) ─▶ checksum
//
// It takes simple_router where a real router has to go: TTL 1 dies, options are part of the header, and nothing is
// forwarded whose header lies about its size (RFC 1812, section 5.2.2). It answers nothing: no ICMP, no ARP, no
// neighbour discovery.
#include <core.p4>
#include <v1model.p4>

typedef bit<48>  mac_addr_t;
typedef bit<32>  ipv4_addr_t;
typedef bit<128> ipv6_addr_t;
typedef bit<9>   port_t;
typedef bit<16>  next_hop_t;  // a number the control plane chooses; IPv4 and IPv6 routes may share one

const bit<16> TYPE_IPV4 = 0x0800;
const bit<16> TYPE_IPV6 = 0x86dd;

const bit<8> PROTOCOL_TCP           = 6;
const bit<8> PROTOCOL_UDP           = 17;
const bit<8> PROTOCOL_IPV6_FRAGMENT = 44;  // RFC 8200, section 4.5

const bit<32> ETHERNET_BYTES  = 14;
const bit<32> IPV6_BYTES      = 40;
const bit<4>  IHL_NO_OPTIONS  = 5;         // header length in 32-bit words (RFC 791, section 3.1)

// What the parser can find wrong beyond the end of the packet.
error {
    IpVersion,        // the version disagrees with the Ethernet type
    IpHeaderLength,   // IHL below 5
    IpTotalLength     // the total length does not even hold the header
}

header ethernet_t {
    mac_addr_t dstAddr;
    mac_addr_t srcAddr;
    bit<16>    etherType;
}

// RFC 791, section 3.1, up to the options.
header ipv4_t {
    bit<4>      version;
    bit<4>      ihl;
    bit<8>      diffserv;
    bit<16>     totalLen;
    bit<16>     identification;
    bit<3>      flags;
    bit<13>     fragOffset;
    bit<8>      ttl;
    bit<8>      protocol;
    bit<16>     hdrChecksum;
    ipv4_addr_t srcAddr;
    ipv4_addr_t dstAddr;
}

// Valid only when there are options, so that the usual packet has headers of fixed size only.
header ipv4_options_t {
    varbit<320> options;  // IHL has 4 bits: (15 - 5) words of 32 bits
}

// RFC 8200, section 3.
header ipv6_t {
    bit<4>      version;
    bit<8>      trafficClass;
    bit<20>     flowLabel;
    bit<16>     payloadLen;
    bit<8>      nextHdr;
    bit<8>      hopLimit;
    ipv6_addr_t srcAddr;
    ipv6_addr_t dstAddr;
}

// RFC 8200, section 4.5.
header ipv6_fragment_t {
    bit<8>  nextHdr;
    bit<8>  reserved;
    bit<13> fragOffset;
    bit<2>  reserved2;
    bit<1>  more;
    bit<32> identification;
}

// The first four bytes of TCP (RFC 9293) and UDP (RFC 768) alike. The rest is payload to us.
header l4_ports_t {
    bit<16> srcPort;
    bit<16> dstPort;
}

struct headers_t {
    ethernet_t      ethernet;
    ipv4_t          ipv4;
    ipv4_options_t  ipv4_options;
    ipv6_t          ipv6;
    ipv6_fragment_t ipv6_fragment;
    l4_ports_t      l4_ports;
}

struct metadata_t {
    // The part of the five-tuple that stands in different places, for the access lists.
    bit<8>     protocol;
    bit<16>    srcPort;
    bit<16>    dstPort;
    // From the routing tables to next_hops.
    next_hop_t next_hop;
}

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        meta.protocol = 0;
        // No ports, which is what ICMP and later fragments have, reads as port 0. No one listens there: 0 is reserved
        // (RFC 6335, section 6). A rule that names ports should leave 0 out, see the README.
        meta.srcPort = 0;
        meta.dstPort = 0;
        meta.next_hop = 0;
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.etherType) {
            TYPE_IPV4: parse_ipv4;
            TYPE_IPV6: parse_ipv6;
            default: accept;
        }
    }

    // The tests of RFC 1812, section 5.2.2, that need no checksum. A failed one ends parsing with its error.
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        verify(hdr.ipv4.version == 4, error.IpVersion);
        // Before the options: their size is IHL - 5, which must not wrap around.
        verify(hdr.ipv4.ihl >= IHL_NO_OPTIONS, error.IpHeaderLength);
        verify(hdr.ipv4.totalLen >= ((bit<16>) hdr.ipv4.ihl) << 2, error.IpTotalLength);
        meta.protocol = hdr.ipv4.protocol;
        transition select(hdr.ipv4.ihl) {
            IHL_NO_OPTIONS: parse_ipv4_payload;
            default: parse_ipv4_options;
        }
    }

    state parse_ipv4_options {
        // 32 bits a word.
        packet.extract(hdr.ipv4_options, ((bit<32>) (hdr.ipv4.ihl - IHL_NO_OPTIONS)) << 5);
        transition parse_ipv4_payload;
    }

    // Only the first fragment starts with the TCP or UDP header; what a later one has in its place is data.
    state parse_ipv4_payload {
        transition select(hdr.ipv4.fragOffset, hdr.ipv4.protocol) {
            (0, PROTOCOL_TCP): parse_l4_ports;
            (0, PROTOCOL_UDP): parse_l4_ports;
            default: accept;
        }
    }

    // Of the extension headers only the fragment header is looked through, where it comes first. A packet with another
    // one has that one's number as its protocol and no ports: the access list decides (RFC 9098 explains the risks).
    state parse_ipv6 {
        packet.extract(hdr.ipv6);
        verify(hdr.ipv6.version == 6, error.IpVersion);
        meta.protocol = hdr.ipv6.nextHdr;
        transition select(hdr.ipv6.nextHdr) {
            PROTOCOL_TCP: parse_l4_ports;
            PROTOCOL_UDP: parse_l4_ports;
            PROTOCOL_IPV6_FRAGMENT: parse_ipv6_fragment;
            default: accept;
        }
    }

    state parse_ipv6_fragment {
        packet.extract(hdr.ipv6_fragment);
        meta.protocol = hdr.ipv6_fragment.nextHdr;
        transition select(hdr.ipv6_fragment.fragOffset, hdr.ipv6_fragment.nextHdr) {
            (0, PROTOCOL_TCP): parse_l4_ports;
            (0, PROTOCOL_UDP): parse_l4_ports;
            default: accept;
        }
    }

    // Fragments are cut at multiples of 8 bytes, so an honest first fragment holds the ports, and no later one can
    // write over them when the receiver puts the pieces together (the attack of RFC 1858). A dishonest one, too short
    // for its ports, raises PacketTooShort here.
    state parse_l4_ports {
        packet.extract(hdr.l4_ports);
        meta.srcPort = hdr.l4_ports.srcPort;
        meta.dstPort = hdr.l4_ports.dstPort;
        transition accept;
    }
}

// Two calls of which at most one computes, as in computeChecksum: the options are part of the sum where there are any.
control verifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid() && !hdr.ipv4_options.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.totalLen,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragOffset, hdr.ipv4.ttl,
              hdr.ipv4.protocol, hdr.ipv4.srcAddr, hdr.ipv4.dstAddr },
            hdr.ipv4.hdrChecksum, HashAlgorithm.csum16);
        verify_checksum(hdr.ipv4_options.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.totalLen,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragOffset, hdr.ipv4.ttl,
              hdr.ipv4.protocol, hdr.ipv4.srcAddr, hdr.ipv4.dstAddr,
              hdr.ipv4_options.options },
            hdr.ipv4.hdrChecksum, HashAlgorithm.csum16);
    }
}

control ingress(inout headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    // One pair of numbers for each rule. v1model counts every hit by itself, denied or not; misses are not counted.
    direct_counter(CounterType.packets_and_bytes) acl_v4_counter;
    direct_counter(CounterType.packets_and_bytes) acl_v6_counter;

    action drop() {
        mark_to_drop(standard_metadata);
    }

    // ---- access lists ----

    action permit() {}

    action deny() {
        mark_to_drop(standard_metadata);
    }

    // What no rule matches is permitted; `table_set_default acl_v4 deny` turns the list around.
    table acl_v4 {
        key = {
            hdr.ipv4.srcAddr : ternary;
            hdr.ipv4.dstAddr : ternary;
            meta.protocol    : ternary;
            meta.srcPort     : range;
            meta.dstPort     : range;
        }
        actions = { permit; deny; }
        default_action = permit();
        counters = acl_v4_counter;
        size = 131072;
    }

    table acl_v6 {
        key = {
            hdr.ipv6.srcAddr : ternary;
            hdr.ipv6.dstAddr : ternary;
            meta.protocol    : ternary;
            meta.srcPort     : range;
            meta.dstPort     : range;
        }
        actions = { permit; deny; }
        default_action = permit();
        counters = acl_v6_counter;
        size = 131072;
    }

    // ---- routing ----

    action set_next_hop(next_hop_t next_hop) {
        meta.next_hop = next_hop;
    }

    table ipv4_lpm {
        key = { hdr.ipv4.dstAddr : lpm; }
        actions = { set_next_hop; drop; }
        default_action = drop();
        size = 1048576;
    }

    table ipv6_lpm {
        key = { hdr.ipv6.dstAddr : lpm; }
        actions = { set_next_hop; drop; }
        default_action = drop();
        size = 262144;
    }

    action send_to(mac_addr_t dmac, port_t port) {
        hdr.ethernet.dstAddr = dmac;
        standard_metadata.egress_spec = port;
    }

    table next_hops {
        key = { meta.next_hop : exact; }
        actions = { send_to; drop; }
        default_action = drop();
        size = 65536;
    }

    apply {
        // v1model never drops on these two by itself.
        if (standard_metadata.parser_error != error.NoError || standard_metadata.checksum_error == 1) {
            drop();
            return;
        }

        if (hdr.ipv4.isValid()) {
            // Cut short on the way: "MUST be discarded" (RFC 1812, section 5.2.2). Longer is fine: Ethernet pads.
            if (standard_metadata.packet_length < ETHERNET_BYTES + (bit<32>) hdr.ipv4.totalLen) {
                drop();
                return;
            }
            switch (acl_v4.apply().action_run) {
                deny: { return; }
            }
            // A TTL that would reach 0 is discarded, not forwarded (RFC 1812, section 5.3.1).
            if (hdr.ipv4.ttl <= 1) {
                drop();
                return;
            }
            switch (ipv4_lpm.apply().action_run) {
                drop: { return; }
            }
            hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        } else if (hdr.ipv6.isValid()) {
            if (standard_metadata.packet_length < ETHERNET_BYTES + IPV6_BYTES + (bit<32>) hdr.ipv6.payloadLen) {
                drop();
                return;
            }
            switch (acl_v6.apply().action_run) {
                deny: { return; }
            }
            // The same for the hop limit: RFC 8200, section 3.
            if (hdr.ipv6.hopLimit <= 1) {
                drop();
                return;
            }
            switch (ipv6_lpm.apply().action_run) {
                drop: { return; }
            }
            hdr.ipv6.hopLimit = hdr.ipv6.hopLimit - 1;
        } else {
            drop();
            return;
        }

        next_hops.apply();
    }
}

// Runs only for packets that ingress has not dropped.
control egress(inout headers_t hdr, inout metadata_t meta,
               inout standard_metadata_t standard_metadata) {
    action rewrite_mac(mac_addr_t smac) {
        hdr.ethernet.srcAddr = smac;
    }
    action drop() {
        mark_to_drop(standard_metadata);
    }
    // The router's own address on each port. A port without one is not in service.
    table send_frame {
        key = { standard_metadata.egress_port : exact; }
        actions = { rewrite_mac; drop; }
        default_action = drop();
        size = 512;
    }
    apply {
        send_frame.apply();
    }
}

// IPv6 has no header checksum, and TCP and UDP sums do not cover the TTL or the hop limit.
control computeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid() && !hdr.ipv4_options.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.totalLen,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragOffset, hdr.ipv4.ttl,
              hdr.ipv4.protocol, hdr.ipv4.srcAddr, hdr.ipv4.dstAddr },
            hdr.ipv4.hdrChecksum, HashAlgorithm.csum16);
        update_checksum(hdr.ipv4_options.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.totalLen,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragOffset, hdr.ipv4.ttl,
              hdr.ipv4.protocol, hdr.ipv4.srcAddr, hdr.ipv4.dstAddr,
              hdr.ipv4_options.options },
            hdr.ipv4.hdrChecksum, HashAlgorithm.csum16);
    }
}

// In the order of the wire; of the IPv4 and the IPv6 headers only one kind is ever valid.
control DeparserImpl(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv4_options);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.ipv6_fragment);
        packet.emit(hdr.l4_ports);
    }
}

V1Switch(ParserImpl(), verifyChecksum(), ingress(), egress(), computeChecksum(), DeparserImpl()) main;
