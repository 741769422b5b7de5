// A data-centre gateway: between clients and tenants' networks that are carried in VXLAN (RFC 7348). README.md has its
// tables, what becomes of malformed packets, and how the two roles, edge and server side, are made by entries alone.
//
// What comes through a tunnel to one of the gateway's own addresses (`own_vteps_v4`, `own_vteps_v6`) is parsed as the
// underlay's headers, `under_*`, and the tenant's frame; everything else, other people's tunnels too, is a tenant's or
// client's frame. The underlay's headers are never sent; where a tunnel begins, `outer_*` are.
#include <core.p4>
#include <v1model.p4>

#ifndef VXLAN_PORT
#define VXLAN_PORT 4789
#endif
// How many there may be of what gateways have few of. From 2048 entries on a table is looked up for many packets at once,
// which costs a little with few entries, and pays with many.
#ifndef VTEPS_MAX
#define VTEPS_MAX 2000
#endif
#ifndef NETWORKS_MAX
#define NETWORKS_MAX 2000
#endif
#ifndef SERVICES_MAX
#define SERVICES_MAX 2000
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
const bit<32> CONTROLLER_BYTES = 28 + 14 + 4 + 1232;
const bit<32> INSTANCE_REPLICA = 5;

const bit<8> IPV4_NO_OPTIONS = 0x45;
const bit<16> IPV4_DONT_FRAGMENT = 0x4000;
const bit<16> IPV4_FRAGMENT_OFFSET = 0x1fff;

const bit<16> PACKET_IO_BYTES = 28;
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
typedef bit<16> next_hop_t;
typedef bit<16> pool_t;

// The reason why a packet was not forwarded: the index in `drops`, which is also sent to the controller.
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
    TUNNEL_TOO_SHORT = 20,
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

header macs_t {
    mac_t dstAddr;
    mac_t srcAddr;
}

header tag_t {
    bit<16> type;
    bit<4>  priority;
    bit<12> vid;
}

// An underlay's headers behind the addresses, and the tag if there is one, as one: they only come and go together.
header under_v4_t {
    bit<16> etherType;
    bit<8>  version_ihl;
    bit<8>  diffserv;
    bit<16> totalLen;
    bit<16> identification;
    bit<16> fragment;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> hdrChecksum;
    bit<32> srcAddr;
    bit<32> dstAddr;
    bit<16> srcPort;
    bit<16> dstPort;
    bit<16> udp_length;
    bit<16> udp_checksum;
    bit<8>  flags;
    bit<24> reserved;
    vni_t   vni;
    bit<8>  reserved2;
}

header under_v6_t {
    bit<16>  etherType;
    bit<4>   version;
    bit<8>   trafficClass;
    bit<20>  flowLabel;
    bit<16>  payloadLen;
    bit<8>   nextHdr;
    bit<8>   hopLimit;
    bit<128> srcAddr;
    bit<128> dstAddr;
    bit<16>  srcPort;
    bit<16>  dstPort;
    bit<16>  udp_length;
    bit<16>  udp_checksum;
    bit<8>   flags;
    bit<24>  reserved;
    vni_t    vni;
    bit<8>   reserved2;
}

header ethernet_t {
    mac_t   dstAddr;
    mac_t   srcAddr;
    bit<16> etherType;
}

header vlan_t {
    bit<4>  priority;
    bit<12> vid;
    bit<16> etherType;
}

header ipv4_t {
    bit<8>  version_ihl;
    bit<8>  diffserv;
    bit<16> totalLen;
    bit<16> identification;
    bit<16> fragment;
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

// What TCP and UDP begin with.
header ports_t {
    bit<16> srcPort;
    bit<16> dstPort;
}

// Before each frame to and from the controller.
// To it: `vtep` and `vni` say through which tunnel the frame came, 0 if through none; `network` is the one into which it
// was to be routed, if that is known, or in which it is.
// From it: without `vtep` the frame leaves by `port` as it is; with it the frame goes into that tunnel, with that VNI,
// and counts as one of `network`.
header packet_io_t {
    mac_t     dstAddr;
    mac_t     srcAddr;
    bit<16>   etherType;
    bit<16>   reason;
    bit<16>   port;
    network_t network;
    vtep_t    vtep;
    bit<16>   mtu;
    bit<8>    reserved;
    vni_t     vni;
}

struct headers_t {
    packet_io_t packet_io;
    // Of a tunnel that begins here.
    macs_t      outer_macs;
    tag_t       outer_tag;
    under_v4_t  outer_v4;
    under_v6_t  outer_v6;
    // Of a tunnel that ends here: read, and never sent.
    macs_t      under_macs;
    tag_t       under_tag;
    under_v4_t  under_v4;
    under_v6_t  under_v6;
    // The tenant's or client's frame.
    ethernet_t  ethernet;
    vlan_t      vlan;
    ipv4_t      ipv4;
    ipv6_t      ipv6;
    arp_t       arp;
}

// What the parser looks at before it knows whose headers they are.
struct look_v4_t {
    ethernet_t ethernet;
    ipv4_t     ip;
}
struct look_udp_v4_t {
    ethernet_t ethernet;
    ipv4_t     ip;
    ports_t    ports;
}
struct look_v6_t {
    ethernet_t ethernet;
    ipv6_t     ip;
}
struct look_udp_v6_t {
    ethernet_t ethernet;
    ipv6_t     ip;
    ports_t    ports;
}
struct look_tag_t {
    ethernet_t ethernet;
    vlan_t     vlan;
}
struct look_tag_v4_t {
    ethernet_t ethernet;
    vlan_t     vlan;
    ipv4_t     ip;
}
struct look_tag_udp_v4_t {
    ethernet_t ethernet;
    vlan_t     vlan;
    ipv4_t     ip;
    ports_t    ports;
}
struct look_tag_v6_t {
    ethernet_t ethernet;
    vlan_t     vlan;
    ipv6_t     ip;
}
struct look_tag_udp_v6_t {
    ethernet_t ethernet;
    vlan_t     vlan;
    ipv6_t     ip;
    ports_t    ports;
}

struct metadata_t {
    Reason    reason;
    // The VLAN that the packet came in by, of the underlay's or the frame's tag.
    bit<12>   vid;
    // Where the tenant's frame is: the network, its VRF, the gateway's address there.
    network_t network;
    vrf_t     vrf;
    mac_t     own_mac;
    vni_t     vni;
    bit<16>   flood_group;
    bit<1>    is_underlay;
    bit<1>    learns;
    // The tunnel that it came through, and what is left of it behind the underlay's headers.
    vtep_t    vtep_in;
    bit<16>   length;
    bit<16>   entropy;
    // Of TCP and UDP, else 0.
    bit<16>   src_port;
    bit<16>   dst_port;
    // How long the IP packet is, and how long it may be.
    bit<16>   ip_length;
    bit<16>   mtu;
    bit<32>   service;
    bit<8>    protocol;
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
    // The gateway's own addresses as a tunnel's end.
    value_set<bit<32>>(64) own_vteps_v4;
    value_set<bit<128>>(64) own_vteps_v6;

    state start {
        transition select(standard_metadata.ingress_port) {
            CONTROLLER_PORT: parse_packet_io;
            default: look_at_ethernet;
        }
    }
    state parse_packet_io {
        packet.extract(hdr.packet_io);
        transition select(hdr.packet_io.vtep) {
            0: accept;
            default: parse_tenant;
        }
    }

    // ---- one of our tunnels, or not? ----

    state look_at_ethernet {
        transition select(packet.lookahead<ethernet_t>().etherType) {
            TYPE_IPV4: look_at_v4;
            TYPE_IPV6: look_at_v6;
            TYPE_VLAN: look_at_tag;
            default: parse_ethernet;
        }
    }
    // A first fragment, too: ingress drops it.
    state look_at_v4 {
        look_v4_t look = packet.lookahead<look_v4_t>();
        transition select(look.ip.version_ihl, look.ip.fragment & IPV4_FRAGMENT_OFFSET, look.ip.protocol) {
            (IPV4_NO_OPTIONS, 0, PROTOCOL_UDP): look_at_udp_v4;
            default: parse_ethernet;
        }
    }
    state look_at_udp_v4 {
        look_udp_v4_t look = packet.lookahead<look_udp_v4_t>();
        transition select(look.ports.dstPort, look.ip.dstAddr) {
            (VXLAN_PORT, own_vteps_v4): parse_under_v4;
            default: parse_ethernet;
        }
    }
    state look_at_v6 {
        look_v6_t look = packet.lookahead<look_v6_t>();
        transition select(look.ip.version, look.ip.nextHdr) {
            (6, PROTOCOL_UDP): look_at_udp_v6;
            default: parse_ethernet;
        }
    }
    state look_at_udp_v6 {
        look_udp_v6_t look = packet.lookahead<look_udp_v6_t>();
        transition select(look.ports.dstPort, look.ip.dstAddr) {
            (VXLAN_PORT, own_vteps_v6): parse_under_v6;
            default: parse_ethernet;
        }
    }
    state look_at_tag {
        transition select(packet.lookahead<look_tag_t>().vlan.etherType) {
            TYPE_IPV4: look_at_tag_v4;
            TYPE_IPV6: look_at_tag_v6;
            default: parse_ethernet;
        }
    }
    state look_at_tag_v4 {
        look_tag_v4_t look = packet.lookahead<look_tag_v4_t>();
        transition select(look.ip.version_ihl, look.ip.fragment & IPV4_FRAGMENT_OFFSET, look.ip.protocol) {
            (IPV4_NO_OPTIONS, 0, PROTOCOL_UDP): look_at_tag_udp_v4;
            default: parse_ethernet;
        }
    }
    state look_at_tag_udp_v4 {
        look_tag_udp_v4_t look = packet.lookahead<look_tag_udp_v4_t>();
        transition select(look.ports.dstPort, look.ip.dstAddr) {
            (VXLAN_PORT, own_vteps_v4): parse_under_tag_v4;
            default: parse_ethernet;
        }
    }
    state look_at_tag_v6 {
        look_tag_v6_t look = packet.lookahead<look_tag_v6_t>();
        transition select(look.ip.version, look.ip.nextHdr) {
            (6, PROTOCOL_UDP): look_at_tag_udp_v6;
            default: parse_ethernet;
        }
    }
    state look_at_tag_udp_v6 {
        look_tag_udp_v6_t look = packet.lookahead<look_tag_udp_v6_t>();
        transition select(look.ports.dstPort, look.ip.dstAddr) {
            (VXLAN_PORT, own_vteps_v6): parse_under_tag_v6;
            default: parse_ethernet;
        }
    }

    // ---- the underlay's headers ----

    state parse_under_tag_v4 {
        packet.extract(hdr.under_macs);
        packet.extract(hdr.under_tag);
        packet.extract(hdr.under_v4);
        meta.vid = hdr.under_tag.vid;
        transition parse_tenant;
    }
    state parse_under_v4 {
        packet.extract(hdr.under_macs);
        packet.extract(hdr.under_v4);
        transition parse_tenant;
    }
    state parse_under_tag_v6 {
        packet.extract(hdr.under_macs);
        packet.extract(hdr.under_tag);
        packet.extract(hdr.under_v6);
        meta.vid = hdr.under_tag.vid;
        transition parse_tenant;
    }
    state parse_under_v6 {
        packet.extract(hdr.under_macs);
        packet.extract(hdr.under_v6);
        transition parse_tenant;
    }

    // ---- the tenant's or client's frame ----

    // A tag inside of a tunnel is no VLAN of ours: ingress drops it.
    state parse_tenant {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.etherType) {
            TYPE_IPV4: parse_ipv4;
            TYPE_IPV6: parse_ipv6;
            TYPE_ARP: parse_arp;
            default: accept;
        }
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
        meta.vid = hdr.vlan.vid;
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
    // Whether the header is right is asked where the packet is routed: who bridges does not care.
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.version_ihl, hdr.ipv4.fragment & IPV4_FRAGMENT_OFFSET, hdr.ipv4.protocol) {
            (IPV4_NO_OPTIONS, 0, PROTOCOL_UDP): look_at_ports;
            (IPV4_NO_OPTIONS, 0, PROTOCOL_TCP): look_at_ports;
            default: accept;
        }
    }
    state parse_ipv6 {
        packet.extract(hdr.ipv6);
        transition select(hdr.ipv6.version, hdr.ipv6.nextHdr) {
            (6, PROTOCOL_UDP): look_at_ports;
            (6, PROTOCOL_TCP): look_at_ports;
            default: accept;
        }
    }
    // They stay with the payload.
    state look_at_ports {
        ports_t ports = packet.lookahead<ports_t>();
        meta.src_port = ports.srcPort;
        meta.dst_port = ports.dstPort;
        transition accept;
    }
}

// Checksums are verified in ingress, of those headers that the gateway reads.
control verifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

// The sum of a right header, with its checksum, is 0 (RFC 1071).
#define IPV4_SUM(h) { h.version_ihl, h.diffserv, h.totalLen, h.identification, h.fragment, h.ttl, h.protocol, \
                      h.hdrChecksum, h.srcAddr, h.dstAddr }

// The checksum of a header in which one word has changed: RFC 1624, equation 3.
bit<16> updated_checksum(in bit<16> checksum, in bit<16> before, in bit<16> after) {
    bit<32> sum = (bit<32>) ~checksum + (bit<32>) ~before + (bit<32>) after;
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return ~sum[15:0];
}

// The end of a tunnel: its headers go.
control Terminate(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    counter(NETWORKS_MAX, CounterType.packets_and_bytes) decapsulated;

    action from_vtep(vtep_t vtep) {
        meta.vtep_in = vtep;
    }
    action unknown_vtep() {
        meta.reason = Reason.UNKNOWN_VTEP;
    }
    // By both ends: packets from unknown places do not get into a tenant's network.
    table tunnels_v4 {
        key = {
            hdr.under_v4.dstAddr : exact;
            hdr.under_v4.srcAddr : exact;
        }
        actions = { from_vtep; unknown_vtep; }
        default_action = unknown_vtep();
        size = VTEPS_MAX;
    }
    table tunnels_v6 {
        key = {
            hdr.under_v6.dstAddr : exact;
            hdr.under_v6.srcAddr : exact;
        }
        actions = { from_vtep; unknown_vtep; }
        default_action = unknown_vtep();
        size = VTEPS_MAX;
    }

    action into(network_t network, vrf_t vrf, mac_t own_mac, bit<16> flood_group, bit<1> learns) {
        meta.network = network;
        meta.vrf = vrf;
        meta.own_mac = own_mac;
        meta.flood_group = flood_group;
        meta.learns = learns;
    }
    action unknown_vni() {
        meta.reason = Reason.UNKNOWN_VNI;
    }
    table vnis {
        key = { meta.vni : exact; }
        actions = { into; unknown_vni; }
        default_action = unknown_vni();
        size = NETWORKS_MAX;
    }

    // Congestion on the way: RFC 6040, section 4.2.
    action mark_v4(bit<2> ecn) {
        bit<16> before = hdr.ipv4.version_ihl ++ hdr.ipv4.diffserv;
        bit<16> after = before[15:2] ++ ecn;
        hdr.ipv4.diffserv = after[7:0];
        hdr.ipv4.hdrChecksum = updated_checksum(hdr.ipv4.hdrChecksum, before, after);
    }
    action mark_v6(bit<2> ecn) {
        hdr.ipv6.trafficClass = hdr.ipv6.trafficClass[7:2] ++ ecn;
    }

    apply {
        bit<8> flags = 0;
        bit<2> ecn = 0;
        bit<16> udp_length = 0;
        // What IP says of the UDP datagram's length.
        bit<16> ip_says = 0;
        if (hdr.under_v4.isValid()) {
            tunnels_v4.apply();
            bit<16> sum = 0;
            hash(sum, HashAlgorithm.csum16, 16w0, IPV4_SUM(hdr.under_v4), 32w0x10000);
            if (sum != 0) {
                meta.reason = Reason.IP_CHECKSUM;
            } else if (hdr.under_v4.fragment & ~IPV4_DONT_FRAGMENT != 0) {
                // "VTEPs MUST NOT fragment VXLAN packets", and may discard others' fragments (RFC 7348, 4.3).
                meta.reason = Reason.TUNNEL_FRAGMENT;
            }
            ecn = hdr.under_v4.diffserv[1:0];
            flags = hdr.under_v4.flags;
            meta.vni = hdr.under_v4.vni;
            udp_length = hdr.under_v4.udp_length;
            ip_says = hdr.under_v4.totalLen - IPV4_BYTES;
            meta.length = meta.length - (ETHERNET_BYTES + IPV4_BYTES + UDP_VXLAN_BYTES);
            // If the frame goes into a tunnel again: a hash of the same flow.
            meta.entropy = hdr.under_v4.srcPort;
        } else {
            tunnels_v6.apply();
            ecn = hdr.under_v6.trafficClass[1:0];
            flags = hdr.under_v6.flags;
            meta.vni = hdr.under_v6.vni;
            udp_length = hdr.under_v6.udp_length;
            ip_says = hdr.under_v6.payloadLen;
            meta.length = meta.length - (ETHERNET_BYTES + IPV6_BYTES + UDP_VXLAN_BYTES);
            meta.entropy = hdr.under_v6.srcPort;
        }
        if (hdr.under_tag.isValid()) {
            meta.length = meta.length - VLAN_BYTES;
        }
        if (meta.is_underlay == 0 || hdr.under_macs.dstAddr != meta.own_mac) {
            meta.reason = Reason.NOT_FOR_US;
        }
        if (meta.reason != Reason.NONE) {
            return;
        }
        // All three must agree: such a frame is too long for Ethernet to pad.
        if (udp_length != ip_says || ip_says != meta.length + UDP_VXLAN_BYTES) {
            meta.reason = Reason.TUNNEL_LENGTH;
            return;
        }
        if (flags & VXLAN_FLAG_VNI == 0) {
            meta.reason = Reason.VXLAN_FLAGS;
            return;
        }
        vnis.apply();
        if (meta.reason != Reason.NONE) {
            return;
        }
        // RFC 7348, section 6.1.
        if (hdr.ethernet.etherType == TYPE_VLAN) {
            meta.reason = Reason.INNER_TAG;
            return;
        }
        if (ecn != 0) {
            if (hdr.ipv4.isValid()) {
                bit<2> inner_ecn = hdr.ipv4.diffserv[1:0];
                if (ecn == 3 && inner_ecn == 0) {
                    meta.reason = Reason.ECN;
                    return;
                }
                if ((ecn == 3 && inner_ecn != 3) || (ecn == 1 && inner_ecn == 2)) {
                    mark_v4(ecn);
                }
            } else if (hdr.ipv6.isValid()) {
                bit<2> inner_ecn = hdr.ipv6.trafficClass[1:0];
                if (ecn == 3 && inner_ecn == 0) {
                    meta.reason = Reason.ECN;
                    return;
                }
                if (ecn == 3 || (ecn == 1 && inner_ecn == 2)) {
                    mark_v6(ecn);
                }
            }
        }
        decapsulated.count((bit<32>) meta.network);
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
            meta.vrf         : exact;
            hdr.ipv4.dstAddr : exact;
        }
        actions = { to_next_hop; balance; by_service; own_address; unresolved; no_route; NoAction; }
        default_action = NoAction();
        size = 1048576;
    }
    table routes_v4 {
        key = {
            meta.vrf         : exact;
            hdr.ipv4.dstAddr : lpm;
        }
        actions = { to_next_hop; unresolved; no_route; }
        default_action = no_route();
        size = 1048576;
    }
    table hosts_v6 {
        key = {
            meta.vrf         : exact;
            hdr.ipv6.dstAddr : exact;
        }
        actions = { to_next_hop; balance; by_service; own_address; unresolved; no_route; NoAction; }
        default_action = NoAction();
        size = 1048576;
    }
    table routes_v6 {
        key = {
            meta.vrf         : exact;
            hdr.ipv6.dstAddr : lpm;
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
        size = SERVICES_MAX;
    }

    // A pool is a group whose size never changes: when a back end comes or goes, only the members that another back end
    // takes over are modified, and no other clients move (README.md, "Back ends").
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
        size = 65536;
    }

    apply {
        bool is_v4 = hdr.ipv4.isValid();
        if (is_v4) {
            // What RFC 1812, section 5.2.2, asks.
            if (hdr.ipv4.version_ihl < IPV4_NO_OPTIONS || hdr.ipv4.version_ihl > 0x4f || hdr.ipv4.totalLen < IPV4_BYTES) {
                meta.reason = Reason.IP_HEADER;
                return;
            }
            if (hdr.ipv4.version_ihl != IPV4_NO_OPTIONS) {
                meta.reason = Reason.IP_OPTIONS;
                return;
            }
            bit<16> sum = 0;
            hash(sum, HashAlgorithm.csum16, 16w0, IPV4_SUM(hdr.ipv4), 32w0x10000);
            if (sum != 0) {
                meta.reason = Reason.IP_CHECKSUM;
                return;
            }
            meta.ip_length = hdr.ipv4.totalLen;
        } else if (hdr.ipv6.isValid()) {
            // A length that would wrap around, too.
            if (hdr.ipv6.version != 6 || hdr.ipv6.payloadLen > 0xffff - IPV6_BYTES) {
                meta.reason = Reason.IP_HEADER;
                return;
            }
            meta.ip_length = hdr.ipv6.payloadLen + IPV6_BYTES;
        } else {
            meta.reason = Reason.NOT_IP;
            return;
        }
        // Longer is fine: Ethernet pads.
        if (meta.length - (hdr.vlan.isValid() ? ETHERNET_BYTES + VLAN_BYTES : ETHERNET_BYTES) < meta.ip_length) {
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
        if (meta.reason != Reason.NONE) {
            // Behind a first fragment that was dropped.
            if (meta.reason == Reason.OWN_ADDRESS && is_v4 && hdr.ipv4.protocol == PROTOCOL_UDP
                && hdr.ipv4.fragment & IPV4_FRAGMENT_OFFSET != 0) {
                meta.reason = Reason.TUNNEL_FRAGMENT;
            }
            return;
        }
        if (meta.service != 0) {
            meta.protocol = is_v4 ? hdr.ipv4.protocol : hdr.ipv6.nextHdr;
            services.apply();
        }
        if (meta.pool != 0) {
            if (is_v4) {
                bit<32> client = hdr.ipv4.srcAddr;
                if (meta.algorithm == Algorithm.CRC32) {
                    hash(meta.client_hash, HashAlgorithm.crc32, 32w0, { client }, 64w0x100000000);
                } else if (meta.algorithm == Algorithm.CRC32_CUSTOM) {
                    hash(meta.client_hash, HashAlgorithm.crc32_custom, 32w0, { client }, 64w0x100000000);
                } else if (meta.algorithm == Algorithm.CRC16) {
                    hash(meta.client_hash, HashAlgorithm.crc16, 32w0, { client }, 64w0x100000000);
                } else {
                    hash(meta.client_hash, HashAlgorithm.csum16, 32w0, { client }, 64w0x100000000);
                }
            } else {
                bit<128> client = hdr.ipv6.srcAddr;
                if (meta.algorithm == Algorithm.CRC32) {
                    hash(meta.client_hash, HashAlgorithm.crc32, 32w0, { client }, 64w0x100000000);
                } else if (meta.algorithm == Algorithm.CRC32_CUSTOM) {
                    hash(meta.client_hash, HashAlgorithm.crc32_custom, 32w0, { client }, 64w0x100000000);
                } else if (meta.algorithm == Algorithm.CRC16) {
                    hash(meta.client_hash, HashAlgorithm.crc16, 32w0, { client }, 64w0x100000000);
                } else {
                    hash(meta.client_hash, HashAlgorithm.csum16, 32w0, { client }, 64w0x100000000);
                }
            }
            pools.apply();
        }
        // A pool's group may be empty.
        if (meta.pool != 0 && meta.next_hop == 0) {
            meta.reason = Reason.NO_BACK_END;
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
            meta.network     : exact;
            hdr.arp.targetIp : exact;
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
            meta.network         : exact;
            hdr.ethernet.dstAddr : exact;
        }
        actions = { local; remote; flood; }
        default_action = flood();
        size = 1048576;
    }

    apply {
        // The group bit of a source address: IEEE 802.3, clause 3.2.3.
        if (hdr.ethernet.srcAddr[40:40] == 1) {
            meta.reason = Reason.SOURCE_MAC;
            return;
        }
        if (hdr.arp.isValid() && hdr.arp.operation == 1) {
            if (arp_answers.apply().hit) {
                bit<32> asked = hdr.arp.targetIp;
                hdr.ethernet.dstAddr = hdr.ethernet.srcAddr;
                hdr.ethernet.srcAddr = meta.smac;
                hdr.arp.operation = 2;
                hdr.arp.targetMac = hdr.arp.senderMac;
                hdr.arp.targetIp = hdr.arp.senderIp;
                hdr.arp.senderMac = meta.smac;
                hdr.arp.senderIp = asked;
                if (meta.vtep_in != 0) {
                    meta.vtep_out = meta.vtep_in;
                } else {
                    standard_metadata.egress_spec = standard_metadata.ingress_port;
                    meta.vid_out = meta.vid;
                }
                return;
            }
        }
        if (hdr.ethernet.dstAddr[40:40] == 1) {
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
                   && standard_metadata.egress_spec == standard_metadata.ingress_port && meta.vid_out == meta.vid) {
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
    bit<17> known_at = 0;

    // A port and VLAN with IP only: clients, the Internet.
    action external(vrf_t vrf, mac_t own_mac) {
        meta.vrf = vrf;
        meta.own_mac = own_mac;
    }
    // The same where tunnels come from.
    action underlay(vrf_t vrf, mac_t own_mac) {
        meta.vrf = vrf;
        meta.own_mac = own_mac;
        meta.is_underlay = 1;
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
            meta.vid                       : exact;
        }
        actions = { external; underlay; tenant; unknown_attachment; }
        default_action = unknown_attachment();
        size = NETWORKS_MAX;
    }

    action at(bit<17> location) {
        known_at = location;
    }
    // The locations of stations: a new or moved station is reported to the controller.
    table stations {
        key = {
            meta.network         : exact;
            hdr.ethernet.srcAddr : exact;
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
        size = VTEPS_MAX;
    }

    apply {
        bool is_from_controller = hdr.packet_io.isValid();
        bool is_tunnelled = hdr.under_macs.isValid();
        bool is_routed = false;
        meta.length = (bit<16>) standard_metadata.packet_length;
        if (is_from_controller) {
            if (hdr.packet_io.etherType != TYPE_CONTROL) {
                // What else a kernel says on the interface behind this port.
                meta.reason = Reason.NOT_FOR_US;
            } else if (standard_metadata.parser_error != error.NoError) {
                meta.reason = Reason.TOO_SHORT;
            } else {
                standard_metadata.egress_spec = (port_t) hdr.packet_io.port;
                meta.length = meta.length - PACKET_IO_BYTES;
                meta.network = hdr.packet_io.network;
                meta.vtep_out = hdr.packet_io.vtep;
                meta.vni = hdr.packet_io.vni;
            }
            hdr.packet_io.setInvalid();
        } else if (standard_metadata.parser_error != error.NoError) {
            meta.reason = is_tunnelled ? Reason.TUNNEL_TOO_SHORT : Reason.TOO_SHORT;
        } else {
            attachments.apply();
            if (meta.reason == Reason.NONE && is_tunnelled) {
                terminate.apply(hdr, meta, standard_metadata);
            }
        }
        if (meta.reason == Reason.NONE && !is_from_controller) {
            is_routed = hdr.ethernet.dstAddr == meta.own_mac;
            if (meta.learns == 1) {
                bit<17> location = (bit<17>) standard_metadata.ingress_port;
                if (is_tunnelled) {
                    location = 1w1 ++ meta.vtep_in;
                }
                if (!stations.apply().hit || known_at != location) {
                    digest<learned_t>(1, { meta.network, hdr.ethernet.srcAddr, location, meta.vid });
                }
            }
            if (is_routed) {
                route.apply(hdr, meta, standard_metadata);
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
            if (!is_routed) {
                if (meta.vtep_out != 0
                    && meta.length - (hdr.vlan.isValid() ? ETHERNET_BYTES + VLAN_BYTES : ETHERNET_BYTES) > meta.mtu) {
                    meta.reason = Reason.MTU;
                }
            } else if (meta.ip_length > meta.mtu) {
                meta.reason = Reason.MTU;
            } else if (meta.keeps_ttl == 0) {
                // What would leave with 0 is discarded (RFC 1812, section 5.3.1; RFC 8200, section 3).
                if (hdr.ipv4.isValid()) {
                    if (hdr.ipv4.ttl <= 1) {
                        meta.reason = Reason.TTL;
                    } else {
                        bit<16> before = hdr.ipv4.ttl ++ hdr.ipv4.protocol;
                        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
                        hdr.ipv4.hdrChecksum = updated_checksum(hdr.ipv4.hdrChecksum, before, before - 0x0100);
                    }
                } else if (hdr.ipv6.hopLimit <= 1) {
                    meta.reason = Reason.TTL;
                } else {
                    hdr.ipv6.hopLimit = hdr.ipv6.hopLimit - 1;
                }
            }
        }
        if (meta.reason == Reason.NONE) {
            if (is_routed) {
                hdr.ethernet.dstAddr = meta.dmac;
                if (meta.keeps_smac == 0) {
                    hdr.ethernet.srcAddr = meta.smac;
                }
            }
        } else {
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
    bit<8> diffserv = 0;
    // By the network into whose tunnels they go.
    counter(NETWORKS_MAX, CounterType.packets_and_bytes) encapsulated;
    // What egress drops, by reason: copies of a flood that are too long for their tunnel, tunnels without headers.
    counter(256, CounterType.packets_and_bytes) egress_drops;

    action to_vlan(bit<12> vid) {
        meta.vid_out = vid;
    }
    action to_vtep(vtep_t vtep, bit<16> mtu) {
        meta.vtep_out = vtep;
        if (meta.length - (hdr.vlan.isValid() ? ETHERNET_BYTES + VLAN_BYTES : ETHERNET_BYTES) > mtu) {
            meta.reason = Reason.MTU;
        }
    }
    action no_replica() {
        meta.reason = Reason.NO_FLOODING;
    }
    // What the copies of a flood are: frames on a port's VLAN, or one for each remote VTEP (head-end replication).
    table replicas {
        key = { standard_metadata.egress_rid : exact; }
        actions = { to_vlan; to_vtep; no_replica; }
        default_action = no_replica();
        size = VTEPS_MAX;
    }

    action encapsulate(mac_t smac, mac_t dmac, bit<12> vid) {
        hdr.outer_macs.setValid();
        hdr.outer_macs.dstAddr = dmac;
        hdr.outer_macs.srcAddr = smac;
        if (vid != 0) {
            hdr.outer_tag.setValid();
            hdr.outer_tag.type = TYPE_VLAN;
            hdr.outer_tag.vid = vid;
        }
    }
    action encapsulate_v4(mac_t smac, mac_t dmac, bit<12> vid, bit<32> source, bit<32> destination, bit<8> ttl,
                          bit<16> port_base, bit<16> port_mask) {
        encapsulate(smac, dmac, vid);
        hdr.outer_v4.setValid();
        hdr.outer_v4.etherType = TYPE_IPV4;
        hdr.outer_v4.version_ihl = IPV4_NO_OPTIONS;
        hdr.outer_v4.diffserv = diffserv;
        hdr.outer_v4.totalLen = meta.length + IPV4_BYTES + UDP_VXLAN_BYTES;
        // Not to be fragmented (RFC 7348, section 4.3); such packets need no identification (RFC 6864).
        hdr.outer_v4.identification = 0;
        hdr.outer_v4.fragment = IPV4_DONT_FRAGMENT;
        hdr.outer_v4.ttl = ttl;
        hdr.outer_v4.protocol = PROTOCOL_UDP;
        hdr.outer_v4.srcAddr = source;
        hdr.outer_v4.dstAddr = destination;
        hdr.outer_v4.srcPort = port_base | (meta.entropy & port_mask);
        hdr.outer_v4.dstPort = VXLAN_PORT;
        hdr.outer_v4.udp_length = meta.length + UDP_VXLAN_BYTES;
        // None, as RFC 7348, section 5, says.
        hdr.outer_v4.udp_checksum = 0;
        hdr.outer_v4.flags = VXLAN_FLAG_VNI;
        hdr.outer_v4.reserved = 0;
        hdr.outer_v4.vni = meta.vni;
        hdr.outer_v4.reserved2 = 0;
    }
    action encapsulate_v6(mac_t smac, mac_t dmac, bit<12> vid, bit<128> source, bit<128> destination, bit<8> ttl,
                          bit<16> port_base, bit<16> port_mask) {
        encapsulate(smac, dmac, vid);
        hdr.outer_v6.setValid();
        hdr.outer_v6.etherType = TYPE_IPV6;
        hdr.outer_v6.version = 6;
        hdr.outer_v6.trafficClass = diffserv;
        // Routers may spread flows by it instead of by ports (RFC 6438).
        hdr.outer_v6.flowLabel = (bit<20>) meta.entropy;
        hdr.outer_v6.payloadLen = meta.length + UDP_VXLAN_BYTES;
        hdr.outer_v6.nextHdr = PROTOCOL_UDP;
        hdr.outer_v6.hopLimit = ttl;
        hdr.outer_v6.srcAddr = source;
        hdr.outer_v6.dstAddr = destination;
        hdr.outer_v6.srcPort = port_base | (meta.entropy & port_mask);
        hdr.outer_v6.dstPort = VXLAN_PORT;
        hdr.outer_v6.udp_length = meta.length + UDP_VXLAN_BYTES;
        // None, as RFC 6935 allows; VTEPs that check the source of packets meet the demands of RFC 6936.
        hdr.outer_v6.udp_checksum = 0;
        hdr.outer_v6.flags = VXLAN_FLAG_VNI;
        hdr.outer_v6.reserved = 0;
        hdr.outer_v6.vni = meta.vni;
        hdr.outer_v6.reserved2 = 0;
    }
    action no_next_hop() {
        meta.reason = Reason.NO_NEXT_HOP;
    }
    // The headers of the tunnel to a VTEP. The UDP source port is `port_base` with those bits of the flow's hash
    // that `port_mask` has: 49152 and 16383 make RFC 7348's range.
    table encapsulations {
        key = { meta.vtep_out : exact; }
        actions = { encapsulate_v4; encapsulate_v6; no_next_hop; }
        default_action = no_next_hop();
        size = VTEPS_MAX;
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
            hdr.packet_io.vni = hdr.under_v4.isValid() ? hdr.under_v4.vni : hdr.under_v6.vni;
            truncate(CONTROLLER_BYTES);
            return;
        }
        if (standard_metadata.instance_type == INSTANCE_REPLICA) {
            replicas.apply();
            // Not back to where it came from, nor from tunnel to tunnel.
            if (meta.vtep_out != 0 ? meta.vtep_in != 0
                : meta.vtep_in == 0 && standard_metadata.egress_port == standard_metadata.ingress_port
                  && meta.vid_out == meta.vid) {
                mark_to_drop(standard_metadata);
                return;
            }
            if (meta.reason != Reason.NONE) {
                egress_drops.count((bit<32>) (bit<8>) meta.reason);
                mark_to_drop(standard_metadata);
                return;
            }
        }
        if (meta.vtep_out != 0) {
            // The tag says the network inside of the gateway; in the tunnel the VNI does.
            if (hdr.vlan.isValid()) {
                hdr.ethernet.etherType = hdr.vlan.etherType;
                hdr.vlan.setInvalid();
                meta.length = meta.length - VLAN_BYTES;
            }
            bit<32> source = hdr.ethernet.srcAddr[31:0];
            bit<32> destination = hdr.ethernet.dstAddr[31:0];
            if (hdr.ipv4.isValid()) {
                diffserv = hdr.ipv4.diffserv;
                source = hdr.ipv4.srcAddr;
                destination = hdr.ipv4.dstAddr;
            } else if (hdr.ipv6.isValid()) {
                diffserv = hdr.ipv6.trafficClass;
                source = hdr.ipv6.srcAddr[127:96] ^ hdr.ipv6.srcAddr[95:64] ^ hdr.ipv6.srcAddr[63:32]
                         ^ hdr.ipv6.srcAddr[31:0];
                destination = hdr.ipv6.dstAddr[127:96] ^ hdr.ipv6.dstAddr[95:64] ^ hdr.ipv6.dstAddr[63:32]
                              ^ hdr.ipv6.dstAddr[31:0];
            }
            if (meta.vtep_in == 0) {
                // Multiplying by an odd number (2^32 divided by the golden ratio) mixes towards the high bits.
                bit<32> mixed = (source ^ (meta.src_port ++ meta.dst_port)) * 0x9e3779b1;
                mixed = (mixed + destination) * 0x9e3779b1;
                meta.entropy = mixed[31:16];
            }
            encapsulations.apply();
            if (meta.reason != Reason.NONE) {
                egress_drops.count((bit<32>) (bit<8>) meta.reason);
                mark_to_drop(standard_metadata);
                return;
            }
            encapsulated.count((bit<32>) meta.network);
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
    }
}

// Where an old header changes, its checksum is changed with it, above: a wrong one stays wrong.
control computeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.outer_v4.isValid(),
            { hdr.outer_v4.version_ihl, hdr.outer_v4.diffserv, hdr.outer_v4.totalLen, hdr.outer_v4.identification,
              hdr.outer_v4.fragment, hdr.outer_v4.ttl, hdr.outer_v4.protocol, hdr.outer_v4.srcAddr,
              hdr.outer_v4.dstAddr },
            hdr.outer_v4.hdrChecksum, HashAlgorithm.csum16);
    }
}

// In the order of the wire.
control DeparserImpl(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_io);
        packet.emit(hdr.outer_macs);
        packet.emit(hdr.outer_tag);
        packet.emit(hdr.outer_v4);
        packet.emit(hdr.outer_v6);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.vlan);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.arp);
    }
}

V1Switch(ParserImpl(), verifyChecksum(), ingress(), egress(), computeChecksum(), DeparserImpl()) main;
