// A data-centre gateway: between clients and tenants' networks that are carried in VXLAN (RFC 7348). README.md has its
// tables, what becomes of malformed packets, and how the two roles, edge and server side, are made by entries alone.
//
// A packet has up to three sets of headers: what came first (`ethernet` to `vxlan`), what a tunnel that ends here carried
// (`inner_*`), and what is put before it where a tunnel begins (`outer_*`). The tenant's frame is in the second set if the
// packet came through a tunnel (then the first is invalid), else in the first; so no header is ever copied.
#include <core.p4>
#include <v1model.p4>

#ifndef VXLAN_PORT
#define VXLAN_PORT 4789
#endif

const bit<16> TYPE_IPV4 = 0x0800;
const bit<16> TYPE_ARP = 0x0806;
const bit<16> TYPE_VLAN = 0x8100;
const bit<16> TYPE_IPV6 = 0x86dd;
// Local experimental type (IEEE 802): frames to and from the controller.
const bit<16> TYPE_CONTROL = 0x88b5;
const bit<8> PROTOCOL_TCP = 6;
const bit<8> PROTOCOL_UDP = 17;

const bit<9> CONTROLLER_PORT = 510;
// The controller needs what an ICMP error quotes (RFC 4443: of IPv6 up to 1280 bytes, RFC 1812: of IPv4 up to 576).
const bit<32> CONTROLLER_BYTES = 24 + 14 + 4 + 1232;
const bit<32> INSTANCE_REPLICA = 5;

const bit<16> ETHERNET_BYTES = 14;
const bit<16> VLAN_BYTES = 4;
const bit<16> IPV4_BYTES = 20;
const bit<16> IPV6_BYTES = 40;
const bit<16> UDP_VXLAN_BYTES = 8 + 8;
// The I flag: the VNI is valid. Others are to be ignored (RFC 7348, section 5).
const bit<8> VXLAN_FLAG_VNI = 0x08;

typedef bit<48> mac_t;
typedef bit<9>  port_t;
typedef bit<24> vni_t;
// A tenant's L2 network, inside of the gateway; 0 for none.
typedef bit<16> network_t;
typedef bit<16> vrf_t;
// The far end of a tunnel; 0 for none.
typedef bit<16> vtep_t;
typedef bit<32> next_hop_t;
typedef bit<32> pool_t;

// Why a packet was not forwarded: the index in `drops`, and what the controller is told.
enum bit<8> Reason {
    NONE = 0,
    TOO_SHORT = 1,
    UNKNOWN_ATTACHMENT = 2,
    NOT_FOR_US = 3,
    NOT_IP = 4,
    IP_HEADER = 5,
    IP_OPTIONS = 6,
    IP_LENGTH = 7,
    IP_CHECKSUM = 8,
    TTL = 9,
    MTU = 10,
    NO_ROUTE = 11,
    NO_SERVICE = 12,
    NO_BACK_END = 13,
    NO_NEXT_HOP = 14,
    TUNNEL_FRAGMENT = 15,
    TUNNEL_LENGTH = 16,
    VXLAN_FLAGS = 17,
    UNKNOWN_VTEP = 18,
    UNKNOWN_VNI = 19,
    INNER_TOO_SHORT = 20,
    INNER_TAG = 21,
    ECN = 22,
    SOURCE_MAC = 23,
    SAME_PORT = 24,
    SPLIT_HORIZON = 25,
    NO_FLOODING = 26,
    // Not dropped but handed to the controller.
    OWN_ADDRESS = 27,
    UNRESOLVED = 28
}

// How a client's address becomes a number.
enum bit<8> Algorithm {
    CRC32 = 0,
    // CRC-32C as entries.cmd sets it, or any other.
    CRC32_CUSTOM = 1,
    CRC16 = 2,
    CSUM16 = 3
}

header ethernet_t {
    mac_t   dstAddr;
    mac_t   srcAddr;
    bit<16> etherType;
}

header vlan_t {
    bit<3>  priority;
    bit<1>  dropEligible;
    bit<12> vid;
    bit<16> etherType;
}

header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<8>  diffserv;
    bit<16> totalLen;
    bit<16> identification;
    bit<1>  reserved;
    bit<1>  dontFragment;
    bit<1>  moreFragments;
    bit<13> fragOffset;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> hdrChecksum;
    bit<32> srcAddr;
    bit<32> dstAddr;
}

header ipv6_t {
    bit<4>   version;
    bit<8>   trafficClass;
    bit<20>  flowLabel;
    bit<16>  payloadLen;
    bit<8>   nextHdr;
    bit<8>   hopLimit;
    bit<128> srcAddr;
    bit<128> dstAddr;
}

header arp_t {
    bit<16> hardware;
    bit<16> protocol;
    bit<8>  hardwareLength;
    bit<8>  protocolLength;
    bit<16> operation;
    mac_t   senderMac;
    bit<32> senderIp;
    mac_t   targetMac;
    bit<32> targetIp;
}

header udp_t {
    bit<16> srcPort;
    bit<16> dstPort;
    bit<16> length;
    bit<16> checksum;
}

// What TCP and UDP begin with.
header ports_t {
    bit<16> srcPort;
    bit<16> dstPort;
}

header vxlan_t {
    bit<8>  flags;
    bit<24> reserved;
    vni_t   vni;
    bit<8>  reserved2;
}

// Before each frame to and from the controller. From it only `port` counts: where the frame leaves as it is.
header control_t {
    mac_t     dstAddr;
    mac_t     srcAddr;
    bit<16>   etherType;
    bit<16>   reason;
    bit<16>   port;
    network_t network;
    vtep_t    vtep;
    bit<16>   mtu;
}

struct headers_t {
    control_t  packet_io;
    ethernet_t outer_ethernet;
    vlan_t     outer_vlan;
    ipv4_t     outer_ipv4;
    ipv6_t     outer_ipv6;
    udp_t      outer_udp;
    vxlan_t    outer_vxlan;
    ethernet_t ethernet;
    vlan_t     vlan;
    ipv4_t     ipv4;
    ipv6_t     ipv6;
    arp_t      arp;
    udp_t      udp;
    ports_t    ports;
    vxlan_t    vxlan;
    ethernet_t inner_ethernet;
    vlan_t     inner_vlan;
    ipv4_t     inner_ipv4;
    ipv6_t     inner_ipv6;
    arp_t      inner_arp;
    ports_t    inner_ports;
}

struct metadata_t {
    Reason    reason;
    // Where the tenant's frame is: the network, its VRF, the gateway's address there.
    network_t network;
    vrf_t     vrf;
    mac_t     own_mac;
    vni_t     vni;
    bit<16>   flood_group;
    bit<1>    learns;
    // The tunnel that it came through, and what is left of it behind the tunnel's headers.
    vtep_t    vtep_in;
    bit<16>   length;
    bit<16>   entropy;
    // What the route is looked up by.
    bit<32>   src_v4;
    bit<32>   dst_v4;
    bit<128>  src_v6;
    bit<128>  dst_v6;
    bit<8>    ttl;
    bit<8>    protocol;
    bit<16>   dst_port;
    bit<16>   ip_length;
    bit<32>   service;
    pool_t    pool;
    Algorithm algorithm;
    bit<32>   client_hash;
    next_hop_t next_hop;
    // How it leaves.
    mac_t     smac;
    mac_t     dmac;
    bit<1>    keeps_smac;
    bit<1>    keeps_ttl;
    vtep_t    vtep_out;
    bit<12>   vid_out;
    bit<16>   mtu;
    bit<8>    diffserv;
    bit<17>   location;
}

// A station that is new or has moved: `location` is the port, or the VTEP with the highest bit set.
struct learned_t {
    network_t network;
    mac_t     mac;
    bit<17>   location;
    bit<12>   vid;
}

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        transition select(standard_metadata.ingress_port) {
            CONTROLLER_PORT: parse_control;
            default: parse_ethernet;
        }
    }
    state parse_control {
        packet.extract(hdr.packet_io);
        transition accept;
    }
    state parse_ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.etherType) {
            TYPE_IPV4: parse_ipv4;
            TYPE_IPV6: parse_ipv6;
            TYPE_VLAN: parse_vlan;
            TYPE_ARP: parse_arp;
            default: accept;
        }
    }
    state parse_vlan {
        packet.extract(hdr.vlan);
        transition select(hdr.vlan.etherType) {
            TYPE_IPV4: parse_ipv4;
            TYPE_IPV6: parse_ipv6;
            TYPE_ARP: parse_arp;
            default: accept;
        }
    }
    state parse_arp {
        packet.extract(hdr.arp);
        transition accept;
    }
    // Whether the header is right is asked where the packet is for the gateway: who bridges does not look inside.
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.fragOffset, hdr.ipv4.protocol) {
            (4, 5, 0, PROTOCOL_UDP): parse_udp;
            (4, 5, 0, PROTOCOL_TCP): parse_ports;
            default: accept;
        }
    }
    state parse_ipv6 {
        packet.extract(hdr.ipv6);
        transition select(hdr.ipv6.version, hdr.ipv6.nextHdr) {
            (6, PROTOCOL_UDP): parse_udp;
            (6, PROTOCOL_TCP): parse_ports;
            default: accept;
        }
    }
    state parse_ports {
        packet.extract(hdr.ports);
        transition accept;
    }
    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dstPort) {
            VXLAN_PORT: parse_vxlan;
            default: accept;
        }
    }
    state parse_vxlan {
        packet.extract(hdr.vxlan);
        packet.extract(hdr.inner_ethernet);
        transition select(hdr.inner_ethernet.etherType) {
            TYPE_IPV4: parse_inner_ipv4;
            TYPE_IPV6: parse_inner_ipv6;
            TYPE_ARP: parse_inner_arp;
            default: accept;
        }
    }
    state parse_inner_ipv4 {
        packet.extract(hdr.inner_ipv4);
        transition select(hdr.inner_ipv4.version, hdr.inner_ipv4.ihl, hdr.inner_ipv4.fragOffset,
                          hdr.inner_ipv4.protocol) {
            (4, 5, 0, PROTOCOL_UDP): parse_inner_ports;
            (4, 5, 0, PROTOCOL_TCP): parse_inner_ports;
            default: accept;
        }
    }
    state parse_inner_ipv6 {
        packet.extract(hdr.inner_ipv6);
        transition select(hdr.inner_ipv6.version, hdr.inner_ipv6.nextHdr) {
            (6, PROTOCOL_UDP): parse_inner_ports;
            (6, PROTOCOL_TCP): parse_inner_ports;
            default: accept;
        }
    }
    state parse_inner_arp {
        packet.extract(hdr.inner_arp);
        transition accept;
    }
    state parse_inner_ports {
        packet.extract(hdr.inner_ports);
        transition accept;
    }
}

// Checksums are verified in ingress, of those headers that the gateway reads.
control verifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

// The sum of a right header, with its checksum, is 0 (RFC 1071).
#define IPV4_SUM(h) { h.version, h.ihl, h.diffserv, h.totalLen, h.identification, h.reserved, h.dontFragment, \
                      h.moreFragments, h.fragOffset, h.ttl, h.protocol, h.hdrChecksum, h.srcAddr, h.dstAddr }

// The checksum of a header in which one word has changed: RFC 1624, equation 3.
bit<16> updated_checksum(in bit<16> checksum, in bit<16> before, in bit<16> after) {
    bit<32> sum = (bit<32>) ~checksum + (bit<32>) ~before + (bit<32>) after;
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return ~sum[15:0];
}

// The tunnel that a packet for the gateway came through, if it is one of ours: its headers go.
control Terminate(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    counter(65536, CounterType.packets_and_bytes) decapsulated;

    action from_vtep(vtep_t vtep) {
        meta.vtep_in = vtep;
    }
    // By both ends: packets from unknown places do not get into a tenant's network.
    table tunnels_v4 {
        key = {
            hdr.ipv4.dstAddr : exact;
            hdr.ipv4.srcAddr : exact;
        }
        actions = { from_vtep; NoAction; }
        default_action = NoAction();
        size = 65536;
    }
    table tunnels_v6 {
        key = {
            hdr.ipv6.dstAddr : exact;
            hdr.ipv6.srcAddr : exact;
        }
        actions = { from_vtep; NoAction; }
        default_action = NoAction();
        size = 65536;
    }

    action into(network_t network, vrf_t vrf, mac_t own_mac, bit<16> flood_group, bit<1> learns) {
        meta.network = network;
        meta.vrf = vrf;
        meta.own_mac = own_mac;
        meta.flood_group = flood_group;
        meta.learns = learns;
        meta.vni = hdr.vxlan.vni;
    }
    action unknown_vni() {
        meta.reason = Reason.UNKNOWN_VNI;
    }
    table vnis {
        key = { hdr.vxlan.vni : exact; }
        actions = { into; unknown_vni; }
        default_action = unknown_vni();
        size = 65536;
    }

    apply {
        bit<8> diffserv = 0;
        bit<16> udp_length = 0;
        bit<16> sum = 0;
        if (hdr.ipv4.isValid()) {
            tunnels_v4.apply();
            if (meta.vtep_in == 0) {
                return;
            }
            hash(sum, HashAlgorithm.csum16, 16w0, IPV4_SUM(hdr.ipv4), 32w0x10000);
            if (sum != 0) {
                meta.reason = Reason.IP_CHECKSUM;
                return;
            }
            // "VTEPs MUST NOT fragment VXLAN packets", and may discard those that others did (RFC 7348, section 4.3).
            if (hdr.ipv4.moreFragments == 1) {
                meta.reason = Reason.TUNNEL_FRAGMENT;
                return;
            }
            diffserv = hdr.ipv4.diffserv;
            udp_length = hdr.ipv4.totalLen - IPV4_BYTES;
            meta.length = meta.length - (ETHERNET_BYTES + IPV4_BYTES + UDP_VXLAN_BYTES);
        } else {
            tunnels_v6.apply();
            if (meta.vtep_in == 0) {
                return;
            }
            diffserv = hdr.ipv6.trafficClass;
            udp_length = hdr.ipv6.payloadLen;
            meta.length = meta.length - (ETHERNET_BYTES + IPV6_BYTES + UDP_VXLAN_BYTES);
        }
        if (hdr.vlan.isValid()) {
            meta.length = meta.length - VLAN_BYTES;
        }
        if (!hdr.inner_ethernet.isValid()) {
            meta.reason = Reason.INNER_TOO_SHORT;
            return;
        }
        // All three must agree: such a frame is too long for Ethernet to pad.
        if (hdr.udp.length != udp_length || udp_length != meta.length + UDP_VXLAN_BYTES) {
            meta.reason = Reason.TUNNEL_LENGTH;
            return;
        }
        if (hdr.vxlan.flags & VXLAN_FLAG_VNI == 0) {
            meta.reason = Reason.VXLAN_FLAGS;
            return;
        }
        vnis.apply();
        if (meta.reason != Reason.NONE) {
            return;
        }
        // RFC 7348, section 6.1.
        if (hdr.inner_ethernet.etherType == TYPE_VLAN) {
            meta.reason = Reason.INNER_TAG;
            return;
        }
        // Congestion on the way: RFC 6040, section 4.2.
        bit<2> ecn = diffserv[1:0];
        if (ecn != 0) {
            if (hdr.inner_ipv4.isValid()) {
                bit<2> inner_ecn = hdr.inner_ipv4.diffserv[1:0];
                if (ecn == 3 && inner_ecn == 0) {
                    meta.reason = Reason.ECN;
                    return;
                }
                if (ecn == 3 || (ecn == 1 && inner_ecn == 2)) {
                    bit<16> before = hdr.inner_ipv4.version ++ hdr.inner_ipv4.ihl ++ hdr.inner_ipv4.diffserv;
                    hdr.inner_ipv4.diffserv[1:0] = ecn;
                    hdr.inner_ipv4.hdrChecksum =
                        updated_checksum(hdr.inner_ipv4.hdrChecksum, before, before[15:2] ++ ecn);
                }
            } else if (hdr.inner_ipv6.isValid()) {
                bit<2> inner_ecn = hdr.inner_ipv6.trafficClass[1:0];
                if (ecn == 3 && inner_ecn == 0) {
                    meta.reason = Reason.ECN;
                    return;
                }
                if (ecn == 3 || (ecn == 1 && inner_ecn == 2)) {
                    hdr.inner_ipv6.trafficClass[1:0] = ecn;
                }
            }
        }
        decapsulated.count((bit<32>) meta.network);
        // If the frame goes into a tunnel again: a hash of the same flow.
        meta.entropy = hdr.udp.srcPort;
        hdr.ethernet.setInvalid();
        hdr.vlan.setInvalid();
        hdr.ipv4.setInvalid();
        hdr.ipv6.setInvalid();
        hdr.udp.setInvalid();
        hdr.vxlan.setInvalid();
    }
}

// Where an IP packet for the gateway goes: virtual addresses, hosts, then routes.
control Route(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    // By next hop, and so by back end.
    direct_counter(CounterType.packets_and_bytes) next_hop_counter;

    action to_next_hop(next_hop_t next_hop) {
        meta.next_hop = next_hop;
    }
    // A virtual address: one of the pool's back ends.
    action balance(pool_t pool, Algorithm algorithm) {
        meta.pool = pool;
        meta.algorithm = algorithm;
    }
    // A virtual address of which protocol and port decide.
    action by_service(bit<32> service) {
        meta.service = service;
    }
    // The gateway's own address.
    action own_address() {
        meta.reason = Reason.OWN_ADDRESS;
    }
    // The controller is to find out.
    action unresolved() {
        meta.reason = Reason.UNRESOLVED;
    }
    action no_route() {
        meta.reason = Reason.NO_ROUTE;
    }
    action no_service() {
        meta.reason = Reason.NO_SERVICE;
    }
    action no_back_end() {
        meta.reason = Reason.NO_BACK_END;
    }
    action no_next_hop() {
        meta.reason = Reason.NO_NEXT_HOP;
    }

    // Single addresses: found faster than by prefix.
    table hosts_v4 {
        key = {
            meta.vrf    : exact;
            meta.dst_v4 : exact;
        }
        actions = { to_next_hop; balance; by_service; own_address; unresolved; no_route; NoAction; }
        default_action = NoAction();
        size = 1048576;
    }
    table routes_v4 {
        key = {
            meta.vrf    : exact;
            meta.dst_v4 : lpm;
        }
        actions = { to_next_hop; unresolved; no_route; }
        default_action = no_route();
        size = 1048576;
    }
    table hosts_v6 {
        key = {
            meta.vrf    : exact;
            meta.dst_v6 : exact;
        }
        actions = { to_next_hop; balance; by_service; own_address; unresolved; no_route; NoAction; }
        default_action = NoAction();
        size = 1048576;
    }
    table routes_v6 {
        key = {
            meta.vrf    : exact;
            meta.dst_v6 : lpm;
        }
        actions = { to_next_hop; unresolved; no_route; }
        default_action = no_route();
        size = 1048576;
    }
    table services {
        key = {
            meta.service  : exact;
            meta.protocol : exact;
            meta.dst_port : exact;
        }
        actions = { balance; to_next_hop; no_service; }
        default_action = no_service();
        size = 65536;
    }

    // A pool is a group of so many members that it need not change: when a back end comes or goes, the members that are to
    // be another's are modified, and nobody else's clients move (README.md, "Back ends").
    action_selector(HashAlgorithm.identity, 1048576, 32) members;
    table pools {
        key = {
            meta.pool        : exact;
            meta.client_hash : selector;
        }
        actions = { to_next_hop; no_back_end; }
        implementation = members;
        size = 65536;
    }

    // Into a tunnel, from the gateway's address in that network.
    action tunnel(vtep_t vtep, vni_t vni, network_t network, mac_t smac, mac_t dmac) {
        meta.vtep_out = vtep;
        meta.vni = vni;
        meta.network = network;
        meta.smac = smac;
        meta.dmac = dmac;
    }
    // The same without a trace of the gateway: source address and TTL stay.
    action tunnel_as_is(vtep_t vtep, vni_t vni, network_t network, mac_t dmac) {
        meta.vtep_out = vtep;
        meta.vni = vni;
        meta.network = network;
        meta.dmac = dmac;
        meta.keeps_smac = 1;
        meta.keeps_ttl = 1;
    }
    action local(port_t port, bit<12> vid, mac_t smac, mac_t dmac, bit<16> mtu) {
        standard_metadata.egress_spec = port;
        meta.vid_out = vid;
        meta.smac = smac;
        meta.dmac = dmac;
        meta.mtu = mtu;
    }
    action local_as_is(port_t port, bit<12> vid, mac_t smac, mac_t dmac, bit<16> mtu) {
        standard_metadata.egress_spec = port;
        meta.vid_out = vid;
        meta.smac = smac;
        meta.dmac = dmac;
        meta.mtu = mtu;
        meta.keeps_ttl = 1;
    }
    table next_hops {
        key = { meta.next_hop : exact; }
        actions = { tunnel; tunnel_as_is; local; local_as_is; unresolved; no_next_hop; }
        default_action = no_next_hop();
        counters = next_hop_counter;
        size = 1048576;
    }

    // What RFC 1812, section 5.2.2, asks of an IPv4 header.
    action look_at_v4(in ipv4_t ip, in bit<16> sum) {
        meta.src_v4 = ip.srcAddr;
        meta.dst_v4 = ip.dstAddr;
        meta.ttl = ip.ttl;
        meta.protocol = ip.protocol;
        meta.ip_length = ip.totalLen;
        if (ip.version != 4 || ip.ihl < 5 || ip.totalLen < IPV4_BYTES) {
            meta.reason = Reason.IP_HEADER;
        } else if (ip.ihl != 5) {
            meta.reason = Reason.IP_OPTIONS;
        } else if (sum != 0) {
            meta.reason = Reason.IP_CHECKSUM;
        }
    }
    action look_at_v6(in ipv6_t ip) {
        meta.src_v6 = ip.srcAddr;
        meta.dst_v6 = ip.dstAddr;
        meta.ttl = ip.hopLimit;
        meta.protocol = ip.nextHdr;
        meta.ip_length = ip.payloadLen + IPV6_BYTES;
        // A length that wraps around, too.
        if (ip.version != 6 || ip.payloadLen > 0xffff - IPV6_BYTES) {
            meta.reason = Reason.IP_HEADER;
        }
    }

    apply {
        bit<16> sum = 0;
        bool is_v4 = true;
        // Of a tunnel that does not end here the inner headers are none of ours.
        if (meta.vtep_in == 0) {
            if (hdr.ipv4.isValid()) {
                hash(sum, HashAlgorithm.csum16, 16w0, IPV4_SUM(hdr.ipv4), 32w0x10000);
                look_at_v4(hdr.ipv4, sum);
            } else if (hdr.ipv6.isValid()) {
                look_at_v6(hdr.ipv6);
                is_v4 = false;
            } else {
                meta.reason = Reason.NOT_IP;
            }
        } else if (hdr.inner_ipv4.isValid()) {
            hash(sum, HashAlgorithm.csum16, 16w0, IPV4_SUM(hdr.inner_ipv4), 32w0x10000);
            look_at_v4(hdr.inner_ipv4, sum);
        } else if (hdr.inner_ipv6.isValid()) {
            look_at_v6(hdr.inner_ipv6);
            is_v4 = false;
        } else {
            meta.reason = Reason.NOT_IP;
        }
        if (meta.reason != Reason.NONE) {
            return;
        }
        // Longer is fine: Ethernet pads.
        if (meta.length < meta.ip_length + (hdr.vlan.isValid() ? ETHERNET_BYTES + VLAN_BYTES : ETHERNET_BYTES)) {
            meta.reason = Reason.IP_LENGTH;
            return;
        }

        if (is_v4) {
            if (!hosts_v4.apply().hit) {
                routes_v4.apply();
            }
        } else {
            if (!hosts_v6.apply().hit) {
                routes_v6.apply();
            }
        }
        if (meta.reason == Reason.OWN_ADDRESS && meta.vtep_in == 0) {
            if (hdr.vxlan.isValid()) {
                meta.reason = Reason.UNKNOWN_VTEP;
            } else if (hdr.ipv4.isValid() && hdr.ipv4.fragOffset != 0 && meta.protocol == PROTOCOL_UDP) {
                meta.reason = Reason.TUNNEL_FRAGMENT;
            }
        }
        if (meta.service != 0) {
            if (meta.vtep_in != 0) {
                meta.dst_port = hdr.inner_ports.dstPort;
            } else if (hdr.udp.isValid()) {
                meta.dst_port = hdr.udp.dstPort;
            } else {
                meta.dst_port = hdr.ports.dstPort;
            }
            services.apply();
        }
        if (meta.pool != 0) {
            if (is_v4) {
                if (meta.algorithm == Algorithm.CRC32) {
                    hash(meta.client_hash, HashAlgorithm.crc32, 32w0, { meta.src_v4 }, 64w0x100000000);
                } else if (meta.algorithm == Algorithm.CRC32_CUSTOM) {
                    hash(meta.client_hash, HashAlgorithm.crc32_custom, 32w0, { meta.src_v4 }, 64w0x100000000);
                } else if (meta.algorithm == Algorithm.CRC16) {
                    hash(meta.client_hash, HashAlgorithm.crc16, 32w0, { meta.src_v4 }, 64w0x100000000);
                } else {
                    hash(meta.client_hash, HashAlgorithm.csum16, 32w0, { meta.src_v4 }, 64w0x100000000);
                }
            } else {
                if (meta.algorithm == Algorithm.CRC32) {
                    hash(meta.client_hash, HashAlgorithm.crc32, 32w0, { meta.src_v6 }, 64w0x100000000);
                } else if (meta.algorithm == Algorithm.CRC32_CUSTOM) {
                    hash(meta.client_hash, HashAlgorithm.crc32_custom, 32w0, { meta.src_v6 }, 64w0x100000000);
                } else if (meta.algorithm == Algorithm.CRC16) {
                    hash(meta.client_hash, HashAlgorithm.crc16, 32w0, { meta.src_v6 }, 64w0x100000000);
                } else {
                    hash(meta.client_hash, HashAlgorithm.csum16, 32w0, { meta.src_v6 }, 64w0x100000000);
                }
            }
            pools.apply();
            if (meta.next_hop == 0) {
                meta.reason = Reason.NO_BACK_END;
            }
        }
        if (meta.reason != Reason.NONE) {
            return;
        }
        next_hops.apply();
    }
}

// The way of a frame whose destination is not the gateway.
control Bridge(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    action answer(mac_t mac) {
        meta.smac = mac;
    }
    // Addresses whose MAC address is known: the gateway's own, and others if floods are to be spared.
    table arp_answers {
        key = {
            meta.network : exact;
            meta.dst_v4  : exact;
        }
        actions = { answer; NoAction; }
        default_action = NoAction();
        size = 262144;
    }

    action local(port_t port, bit<12> vid) {
        standard_metadata.egress_spec = port;
        meta.vid_out = vid;
    }
    action remote(vtep_t vtep) {
        meta.vtep_out = vtep;
    }
    action flood() {
        standard_metadata.mcast_grp = meta.flood_group;
        if (meta.flood_group == 0) {
            meta.reason = Reason.NO_FLOODING;
        }
    }
    table macs {
        key = {
            meta.network : exact;
            meta.dmac    : exact;
        }
        actions = { local; remote; flood; }
        default_action = flood();
        size = 1048576;
    }

    action reply_to(inout ethernet_t ethernet, inout arp_t arp) {
        ethernet.dstAddr = ethernet.srcAddr;
        ethernet.srcAddr = meta.smac;
        arp.operation = 2;
        arp.targetMac = arp.senderMac;
        bit<32> asked = arp.targetIp;
        arp.targetIp = arp.senderIp;
        arp.senderMac = meta.smac;
        arp.senderIp = asked;
    }

    apply {
        mac_t source = hdr.ethernet.srcAddr;
        bit<12> vid = hdr.vlan.vid;
        bool is_request = hdr.arp.isValid() && hdr.arp.operation == 1;
        if (meta.vtep_in != 0) {
            meta.dmac = hdr.inner_ethernet.dstAddr;
            source = hdr.inner_ethernet.srcAddr;
            is_request = hdr.inner_arp.isValid() && hdr.inner_arp.operation == 1;
            meta.dst_v4 = hdr.inner_arp.targetIp;
        } else {
            meta.dmac = hdr.ethernet.dstAddr;
            meta.dst_v4 = hdr.arp.targetIp;
        }
        // The group bit of a source address: IEEE 802.3, clause 3.2.3.
        if (source[40:40] == 1) {
            meta.reason = Reason.SOURCE_MAC;
            return;
        }
        if (is_request) {
            if (arp_answers.apply().hit) {
                if (meta.vtep_in != 0) {
                    reply_to(hdr.inner_ethernet, hdr.inner_arp);
                    meta.vtep_out = meta.vtep_in;
                } else {
                    reply_to(hdr.ethernet, hdr.arp);
                    standard_metadata.egress_spec = standard_metadata.ingress_port;
                    meta.vid_out = vid;
                }
                return;
            }
        }
        if (meta.dmac[40:40] == 1) {
            flood();
        } else {
            macs.apply();
        }
        if (meta.reason != Reason.NONE) {
            return;
        }
        if (meta.vtep_in != 0) {
            if (meta.vtep_out != 0) {
                meta.reason = Reason.SPLIT_HORIZON;
            }
        } else if (standard_metadata.mcast_grp == 0 && meta.vtep_out == 0
                   && standard_metadata.egress_spec == standard_metadata.ingress_port && meta.vid_out == vid) {
            meta.reason = Reason.SAME_PORT;
        }
    }
}

control ingress(inout headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    counter(256, CounterType.packets_and_bytes) drops;
    Terminate() terminate;
    Route() route;
    Bridge() bridge;

    // A port and VLAN with IP only: clients, the Internet, the tunnels' underlay.
    action routed(vrf_t vrf, mac_t own_mac) {
        meta.vrf = vrf;
        meta.own_mac = own_mac;
    }
    // A port and VLAN of a tenant's network.
    action tenant(network_t network, vrf_t vrf, mac_t own_mac, vni_t vni, bit<16> flood_group, bit<1> learns) {
        meta.network = network;
        meta.vrf = vrf;
        meta.own_mac = own_mac;
        meta.vni = vni;
        meta.flood_group = flood_group;
        meta.learns = learns;
    }
    action unknown_attachment() {
        meta.reason = Reason.UNKNOWN_ATTACHMENT;
    }
    // VLAN 0 is no VLAN.
    table attachments {
        key = {
            standard_metadata.ingress_port : exact;
            hdr.vlan.vid                   : exact;
        }
        actions = { routed; tenant; unknown_attachment; }
        default_action = unknown_attachment();
        size = 65536;
    }

    action at(bit<17> location) {
        meta.location = meta.location ^ location;
    }
    // Where stations are: whoever is new or elsewhere is told to the controller.
    table stations {
        key = {
            meta.network : exact;
            meta.smac    : exact;
        }
        actions = { at; NoAction; }
        default_action = NoAction();
        size = 1048576;
    }

    action via(port_t port, bit<16> mtu) {
        standard_metadata.egress_spec = port;
        meta.mtu = mtu;
    }
    action no_next_hop() {
        meta.reason = Reason.NO_NEXT_HOP;
    }
    // The way to a VTEP, and how long an IP packet in its tunnel may be.
    table vteps {
        key = { meta.vtep_out : exact; }
        actions = { via; no_next_hop; }
        default_action = no_next_hop();
        size = 65536;
    }

    action rewrite_v4(inout ethernet_t ethernet, inout ipv4_t ip) {
        ethernet.dstAddr = meta.dmac;
        if (meta.keeps_smac == 0) {
            ethernet.srcAddr = meta.smac;
        }
        if (meta.keeps_ttl == 0) {
            bit<16> before = ip.ttl ++ ip.protocol;
            ip.ttl = ip.ttl - 1;
            ip.hdrChecksum = updated_checksum(ip.hdrChecksum, before, before - 0x0100);
        }
    }
    action rewrite_v6(inout ethernet_t ethernet, inout ipv6_t ip) {
        ethernet.dstAddr = meta.dmac;
        if (meta.keeps_smac == 0) {
            ethernet.srcAddr = meta.smac;
        }
        if (meta.keeps_ttl == 0) {
            ip.hopLimit = ip.hopLimit - 1;
        }
    }

    apply {
        if (hdr.packet_io.isValid()) {
            standard_metadata.egress_spec = (port_t) hdr.packet_io.port;
            hdr.packet_io.setInvalid();
            return;
        }
        bool is_routed = false;
        if (!hdr.ethernet.isValid() || (hdr.ethernet.etherType == TYPE_VLAN && !hdr.vlan.isValid())) {
            meta.reason = Reason.TOO_SHORT;
        } else {
            meta.length = (bit<16>) standard_metadata.packet_length;
            attachments.apply();
        }
        if (meta.reason == Reason.NONE) {
            is_routed = hdr.ethernet.dstAddr == meta.own_mac;
            if (is_routed && hdr.vxlan.isValid()) {
                terminate.apply(hdr, meta, standard_metadata);
                if (meta.vtep_in != 0) {
                    is_routed = hdr.inner_ethernet.dstAddr == meta.own_mac;
                }
            }
        }
        if (meta.reason == Reason.NONE) {
            if (meta.learns == 1) {
                if (meta.vtep_in != 0) {
                    meta.location = 1w1 ++ meta.vtep_in;
                    meta.smac = hdr.inner_ethernet.srcAddr;
                } else {
                    meta.location = (bit<17>) standard_metadata.ingress_port;
                    meta.smac = hdr.ethernet.srcAddr;
                }
                bit<17> location = meta.location;
                if (!stations.apply().hit || meta.location != 0) {
                    digest<learned_t>(1, { meta.network, meta.smac, location, hdr.vlan.vid });
                }
            }
            if (is_routed) {
                if (standard_metadata.parser_error != error.NoError
                    && (meta.vtep_in != 0 || !hdr.vxlan.isValid())) {
                    meta.reason = meta.vtep_in != 0 ? Reason.INNER_TOO_SHORT : Reason.TOO_SHORT;
                } else {
                    route.apply(hdr, meta, standard_metadata);
                }
            } else if (meta.network == 0) {
                meta.reason = Reason.NOT_FOR_US;
            } else {
                bridge.apply(hdr, meta, standard_metadata);
            }
        }
        if (meta.reason == Reason.NONE && meta.vtep_out != 0) {
            vteps.apply();
        }
        if (meta.reason == Reason.NONE) {
            if (is_routed) {
                // What would leave with 0 is discarded (RFC 1812, section 5.3.1; RFC 8200, section 3).
                if (meta.keeps_ttl == 0 && meta.ttl <= 1) {
                    meta.reason = Reason.TTL;
                } else if (meta.ip_length > meta.mtu) {
                    meta.reason = Reason.MTU;
                } else if (meta.vtep_in != 0) {
                    if (hdr.inner_ipv4.isValid()) {
                        rewrite_v4(hdr.inner_ethernet, hdr.inner_ipv4);
                    } else {
                        rewrite_v6(hdr.inner_ethernet, hdr.inner_ipv6);
                    }
                } else if (hdr.ipv4.isValid()) {
                    rewrite_v4(hdr.ethernet, hdr.ipv4);
                } else {
                    rewrite_v6(hdr.ethernet, hdr.ipv6);
                }
            } else if (meta.vtep_out != 0
                       && meta.length > meta.mtu + (hdr.vlan.isValid() ? ETHERNET_BYTES + VLAN_BYTES : ETHERNET_BYTES)) {
                meta.reason = Reason.MTU;
            }
        }
        if (meta.reason != Reason.NONE) {
            drops.count((bit<32>) (bit<8>) meta.reason);
            standard_metadata.mcast_grp = 0;
            // The controller answers by ICMP, ARP, or as a host does; nobody answers for a bridge.
            if (is_routed && (meta.reason == Reason.TTL || meta.reason == Reason.MTU
                              || meta.reason == Reason.OWN_ADDRESS || meta.reason == Reason.UNRESOLVED)) {
                standard_metadata.egress_spec = CONTROLLER_PORT;
            } else {
                mark_to_drop(standard_metadata);
            }
        }
    }
}

control egress(inout headers_t hdr, inout metadata_t meta,
               inout standard_metadata_t standard_metadata) {
    // By the network into whose tunnels they go.
    counter(65536, CounterType.packets_and_bytes) encapsulated;
    // Copies of a flood that are too long for their tunnel, or for which there is none, by reason.
    counter(256, CounterType.packets_and_bytes) replica_drops;

    action to_vlan(bit<12> vid) {
        meta.vid_out = vid;
    }
    action to_vtep(vtep_t vtep) {
        meta.vtep_out = vtep;
    }
    action no_replica() {
        meta.reason = Reason.NO_FLOODING;
    }
    // What the copies of a flood are: frames on a port's VLAN, or one for each remote VTEP (head-end replication).
    table replicas {
        key = { standard_metadata.egress_rid : exact; }
        actions = { to_vlan; to_vtep; no_replica; }
        default_action = no_replica();
        size = 65536;
    }

    action vxlan(mac_t smac, mac_t dmac, bit<12> vid, bit<16> port_base, bit<16> port_mask, bit<16> type) {
        hdr.outer_ethernet.setValid();
        hdr.outer_ethernet.dstAddr = dmac;
        hdr.outer_ethernet.srcAddr = smac;
        hdr.outer_ethernet.etherType = type;
        if (vid != 0) {
            hdr.outer_ethernet.etherType = TYPE_VLAN;
            hdr.outer_vlan.setValid();
            hdr.outer_vlan.vid = vid;
            hdr.outer_vlan.etherType = type;
        }
        hdr.outer_udp.setValid();
        hdr.outer_udp.srcPort = port_base | (meta.entropy & port_mask);
        hdr.outer_udp.dstPort = VXLAN_PORT;
        hdr.outer_udp.length = meta.length + UDP_VXLAN_BYTES;
        // Zero with IPv4 as RFC 7348 says, and with IPv6 (RFC 6935): only known VTEPs are sent to (RFC 6936).
        hdr.outer_udp.checksum = 0;
        hdr.outer_vxlan.setValid();
        hdr.outer_vxlan.flags = VXLAN_FLAG_VNI;
        hdr.outer_vxlan.vni = meta.vni;
    }
    action encapsulate_v4(mac_t smac, mac_t dmac, bit<12> vid, bit<32> source, bit<32> destination, bit<8> ttl,
                          bit<16> port_base, bit<16> port_mask) {
        vxlan(smac, dmac, vid, port_base, port_mask, TYPE_IPV4);
        hdr.outer_ipv4.setValid();
        hdr.outer_ipv4.version = 4;
        hdr.outer_ipv4.ihl = 5;
        hdr.outer_ipv4.diffserv = meta.diffserv;
        hdr.outer_ipv4.totalLen = meta.length + IPV4_BYTES + UDP_VXLAN_BYTES;
        // Not to be fragmented (RFC 7348, section 4.3); such packets need no identification (RFC 6864).
        hdr.outer_ipv4.dontFragment = 1;
        hdr.outer_ipv4.ttl = ttl;
        hdr.outer_ipv4.protocol = PROTOCOL_UDP;
        hdr.outer_ipv4.srcAddr = source;
        hdr.outer_ipv4.dstAddr = destination;
    }
    action encapsulate_v6(mac_t smac, mac_t dmac, bit<12> vid, bit<128> source, bit<128> destination, bit<8> ttl,
                          bit<16> port_base, bit<16> port_mask) {
        vxlan(smac, dmac, vid, port_base, port_mask, TYPE_IPV6);
        hdr.outer_ipv6.setValid();
        hdr.outer_ipv6.version = 6;
        hdr.outer_ipv6.trafficClass = meta.diffserv;
        // Routers may spread flows by it instead of by ports (RFC 6438).
        hdr.outer_ipv6.flowLabel = (bit<20>) meta.entropy;
        hdr.outer_ipv6.payloadLen = meta.length + UDP_VXLAN_BYTES;
        hdr.outer_ipv6.nextHdr = PROTOCOL_UDP;
        hdr.outer_ipv6.hopLimit = ttl;
        hdr.outer_ipv6.srcAddr = source;
        hdr.outer_ipv6.dstAddr = destination;
    }
    action no_next_hop() {
        meta.reason = Reason.NO_NEXT_HOP;
    }
    // The outer headers of the tunnel to a VTEP. The UDP source port is `port_base` with those bits of the flow's hash
    // that `port_mask` has: 49152 and 16383 make RFC 7348's range.
    table encapsulations {
        key = { meta.vtep_out : exact; }
        actions = { encapsulate_v4; encapsulate_v6; no_next_hop; }
        default_action = no_next_hop();
        size = 65536;
    }

    // Multiplying by an odd number (2^32 divided by the golden ratio) mixes towards the high bits.
    action mix(in bit<32> source, in bit<32> destination, in bit<32> ports) {
        bit<32> mixed = ((source ^ ports) * 0x9e3779b1 + destination) * 0x9e3779b1;
        meta.entropy = mixed[31:16];
    }

    apply {
        if (meta.reason != Reason.NONE) {
            hdr.packet_io.setValid();
            hdr.packet_io.etherType = TYPE_CONTROL;
            hdr.packet_io.reason = (bit<16>) (bit<8>) meta.reason;
            hdr.packet_io.port = (bit<16>) standard_metadata.ingress_port;
            hdr.packet_io.network = meta.network;
            hdr.packet_io.vtep = meta.vtep_in;
            hdr.packet_io.mtu = meta.mtu;
            truncate(CONTROLLER_BYTES);
            return;
        }
        if (standard_metadata.instance_type == INSTANCE_REPLICA) {
            replicas.apply();
            // Not back to where it came from, nor from tunnel to tunnel.
            if (meta.vtep_out != 0) {
                if (meta.vtep_in != 0) {
                    mark_to_drop(standard_metadata);
                    return;
                }
            } else if (meta.vtep_in == 0 && standard_metadata.egress_port == standard_metadata.ingress_port
                       && meta.vid_out == hdr.vlan.vid) {
                mark_to_drop(standard_metadata);
                return;
            }
        }
        if (meta.vtep_out != 0) {
            if (meta.vtep_in == 0) {
                // The tag says the network inside of the gateway; in the tunnel the VNI does.
                if (hdr.vlan.isValid()) {
                    hdr.ethernet.etherType = hdr.vlan.etherType;
                    hdr.vlan.setInvalid();
                    meta.length = meta.length - VLAN_BYTES;
                }
                bit<32> ports = 0;
                if (hdr.udp.isValid()) {
                    ports = hdr.udp.srcPort ++ hdr.udp.dstPort;
                } else if (hdr.ports.isValid()) {
                    ports = hdr.ports.srcPort ++ hdr.ports.dstPort;
                }
                if (hdr.ipv4.isValid()) {
                    meta.diffserv = hdr.ipv4.diffserv;
                    mix(hdr.ipv4.srcAddr, hdr.ipv4.dstAddr, ports);
                } else if (hdr.ipv6.isValid()) {
                    meta.diffserv = hdr.ipv6.trafficClass;
                    mix(hdr.ipv6.srcAddr[127:96] ^ hdr.ipv6.srcAddr[95:64] ^ hdr.ipv6.srcAddr[63:32]
                        ^ hdr.ipv6.srcAddr[31:0], hdr.ipv6.dstAddr[127:96] ^ hdr.ipv6.dstAddr[95:64]
                        ^ hdr.ipv6.dstAddr[63:32] ^ hdr.ipv6.dstAddr[31:0], ports);
                } else {
                    mix(hdr.ethernet.srcAddr[31:0], hdr.ethernet.dstAddr[31:0], ports);
                }
            } else if (hdr.inner_ipv4.isValid()) {
                meta.diffserv = hdr.inner_ipv4.diffserv;
            } else if (hdr.inner_ipv6.isValid()) {
                meta.diffserv = hdr.inner_ipv6.trafficClass;
            }
            encapsulations.apply();
            if (meta.reason == Reason.NONE) {
                encapsulated.count((bit<32>) meta.network);
            }
        } else if (meta.vtep_in != 0) {
            if (meta.vid_out != 0) {
                hdr.inner_vlan.setValid();
                hdr.inner_vlan.vid = meta.vid_out;
                hdr.inner_vlan.etherType = hdr.inner_ethernet.etherType;
                hdr.inner_ethernet.etherType = TYPE_VLAN;
            }
        } else if (hdr.vlan.isValid()) {
            if (meta.vid_out != 0) {
                hdr.vlan.vid = meta.vid_out;
            } else {
                hdr.ethernet.etherType = hdr.vlan.etherType;
                hdr.vlan.setInvalid();
            }
        } else if (meta.vid_out != 0) {
            hdr.vlan.setValid();
            hdr.vlan.vid = meta.vid_out;
            hdr.vlan.etherType = hdr.ethernet.etherType;
            hdr.ethernet.etherType = TYPE_VLAN;
        }
        if (meta.reason != Reason.NONE) {
            replica_drops.count((bit<32>) (bit<8>) meta.reason);
            mark_to_drop(standard_metadata);
        }
    }
}

// Where an old header changes, its checksum is changed with it, above: a wrong one stays wrong.
control computeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.outer_ipv4.isValid(),
            { hdr.outer_ipv4.version, hdr.outer_ipv4.ihl, hdr.outer_ipv4.diffserv, hdr.outer_ipv4.totalLen,
              hdr.outer_ipv4.identification, hdr.outer_ipv4.reserved, hdr.outer_ipv4.dontFragment,
              hdr.outer_ipv4.moreFragments, hdr.outer_ipv4.fragOffset, hdr.outer_ipv4.ttl, hdr.outer_ipv4.protocol,
              hdr.outer_ipv4.srcAddr, hdr.outer_ipv4.dstAddr },
            hdr.outer_ipv4.hdrChecksum, HashAlgorithm.csum16);
    }
}

// In the order of the wire. Headers added to a tenant's frame that came first, and to one that a tunnel brought, are
// never there together.
control DeparserImpl(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_io);
        packet.emit(hdr.outer_ethernet);
        packet.emit(hdr.outer_vlan);
        packet.emit(hdr.outer_ipv4);
        packet.emit(hdr.outer_ipv6);
        packet.emit(hdr.outer_udp);
        packet.emit(hdr.outer_vxlan);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.vlan);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.arp);
        packet.emit(hdr.udp);
        packet.emit(hdr.ports);
        packet.emit(hdr.vxlan);
        packet.emit(hdr.inner_ethernet);
        packet.emit(hdr.inner_vlan);
        packet.emit(hdr.inner_ipv4);
        packet.emit(hdr.inner_ipv6);
        packet.emit(hdr.inner_arp);
        packet.emit(hdr.inner_ports);
    }
}

V1Switch(ParserImpl(), verifyChecksum(), ingress(), egress(), computeChecksum(), DeparserImpl()) main;
