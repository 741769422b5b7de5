// What the programs of the user plane share: constants, headers, metadata. GTP-U is that of 3GPP TS 29.281, its PDU session
// container that of TS 38.415. README.md describes the tables and the reasons.
#include <core.p4>
#include <v1model.p4>

// How many there may be.
#ifndef SESSIONS_MAX
#define SESSIONS_MAX 262144
#endif
#ifndef RULES_MAX
#define RULES_MAX 1048576
#endif
#ifndef PEERS_MAX
#define PEERS_MAX 65536
#endif
#ifndef FILTERS_MAX
#define FILTERS_MAX 65536
#endif

const bit<16> TYPE_IPV4 = 0x0800;
const bit<16> TYPE_VLAN = 0x8100;
const bit<16> TYPE_IPV6 = 0x86dd;
// Local experimental type (IEEE 802): frames to and from the controller and the buffer.
const bit<16> TYPE_CONTROL = 0x88b5;
const bit<8> PROTOCOL_TCP = 6;
const bit<8> PROTOCOL_UDP = 17;
const bit<8> PROTOCOL_SCTP = 132;

const bit<9> CONTROLLER_PORT = 510;
const bit<9> BUFFER_PORT = 509;
// The controller needs what an ICMP error quotes (RFC 4443: of IPv6 up to 1280 bytes, RFC 1812: of IPv4 up to 576).
const bit<32> CONTROLLER_BYTES = 32 + 14 + 4 + 1232;
const bit<32> INSTANCE_INGRESS_CLONE = 1;

const bit<8> IPV4_NO_OPTIONS = 0x45;
const bit<16> IPV4_DONT_FRAGMENT = 0x4000;
const bit<16> IPV4_FRAGMENT_OFFSET = 0x1fff;

const bit<16> ETHERNET_BYTES = 14;
const bit<16> VLAN_BYTES = 4;
const bit<16> IPV4_BYTES = 20;
const bit<16> IPV6_BYTES = 40;
const bit<16> UDP_BYTES = 8;
// The mandatory part of the header, and the optional part (TS 29.281, clause 5.1).
const bit<16> GTPU_BYTES = 8;
const bit<16> GTPU_OPTIONS_BYTES = 4;
const bit<16> CONTAINER_BYTES = 4;

const bit<16> GTPU_PORT = 2152;
// Version 1, protocol type GTP; then the flags E, S and PN (clause 5.1).
const bit<8> GTPU_FLAGS = 0x30;
const bit<8> GTPU_FLAG_E = 0x04;
const bit<8> GTPU_FLAG_S = 0x02;
// Clause 5.2.1.
const bit<8> EXTENSION_NONE = 0;
const bit<8> EXTENSION_CONTAINER = 0x85;

typedef bit<48> mac_t;
typedef bit<9>  port_t;
// Where a packet comes from and where addresses of UEs are unique: PFCP's network instance, and its interface.
typedef bit<16> network_t;
// One of our own addresses as a tunnel's end.
typedef bit<16> endpoint_t;
typedef bit<32> teid_t;
// The far end of tunnels, such as a gNB; 0 for none.
typedef bit<16> peer_t;
typedef bit<16> next_hop_t;
typedef bit<32> session_t;
// What happens to a packet: a PDR with its FAR, QERs and URRs.
typedef bit<32> rule_t;
// A set of filters; 0 for none.
typedef bit<32> filters_t;
typedef bit<6>  qfi_t;

// Messages of GTP-U (TS 29.281, clause 6.1).
enum bit<8> Message {
    NONE = 0,
    ECHO_REQUEST = 1,
    ECHO_RESPONSE = 2,
    ERROR_INDICATION = 26,
    SUPPORTED_EXTENSIONS = 31,
    END_MARKER = 254,
    G_PDU = 255
}

// The reason why a packet was not forwarded: the index in `drops`, which is also sent to the controller.
enum bit<8> Reason {
    NONE = 0,
    TOO_SHORT = 1,
    UNKNOWN_ATTACHMENT = 2,
    NOT_FOR_US = 3,
    NOT_IP = 4,
    IP_HEADER = 5,
    IP_LENGTH = 6,
    IP_CHECKSUM = 7,
    TTL = 8,
    MTU = 9,
    TUNNEL_FRAGMENT = 10,
    TUNNEL_LENGTH = 11,
    TUNNEL_TOO_SHORT = 12,
    UDP_CHECKSUM = 13,
    GTPU_HEADER = 14,
    GTPU_MESSAGE = 15,
    EXTENSION = 16,
    UNKNOWN_TEID = 17,
    UNKNOWN_UE = 18,
    SOURCE = 19,
    NO_PDR = 20,
    NO_RULE = 21,
    FAR_DROP = 22,
    GATE = 23,
    MBR = 24,
    DUPLICATE = 25,
    LATE = 26,
    ECN = 27,
    NO_PEER = 28,
    LINK_LOCAL = 29,
    TOO_MANY_ANSWERS = 30,
    END_MARKER = 31,
    NO_REPLICA = 32,
    // Not dropped but handed to the controller.
    OWN_ADDRESS = 33,
    TO_CONTROLLER = 34,
    ECHO_RESPONSE = 35,
    ERROR_INDICATION = 36,
    SUPPORTED_EXTENSIONS = 37
}

// What a frame from the controller is.
enum bit<16> From {
    // Leaves by `port` as it is.
    AS_IT_IS = 0,
    // Comes from `network`, as if it had arrived there.
    NETWORK = 1,
    // Is handled by `rule`.
    RULE = 2,
    // Nothing follows; an end marker for `teid` goes to `peer`.
    END_MARKER = 3,
    // Nothing follows; an echo request with the sequence number `mtu` goes to `peer`.
    ECHO_REQUEST = 4
}

// How copies that both of two redundant paths carry are recognised.
enum bit<2> Duplicates {
    KEEP = 0,
    // Sequence numbers within a window, in any order.
    WINDOW = 1,
    // As published: a sequence number that is not larger than the last one is a duplicate.
    LARGER = 2
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

// What TCP, UDP and SCTP begin with.
header ports_t {
    bit<16> srcPort;
    bit<16> dstPort;
}

// A tunnel's headers, as one: they only come and go together.
header tunnel_v4_t {
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
    Message message;
    bit<16> length;
    teid_t  teid;
}

header tunnel_v6_t {
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
    Message   message;
    bit<16>  length;
    teid_t   teid;
}

// Present if any of the flags E, S and PN is set.
header gtpu_options_t {
    bit<16> sequence;
    bit<8>  npdu;
    bit<8>  next;
}

// The PDU session container in its shortest form, and the UDP port: TS 38.415, clause 5.5.2; TS 29.281, clause 5.2.2.1.
header container_t {
    bit<8> length;
    bit<4> pdu_type;
    bit<4> flags;
    bit<1> ppp;
    bit<1> rqi;
    qfi_t  qfi;
    bit<8> next;
}
header udp_port_t {
    bit<8>  length;
    bit<16> port;
    bit<8>  next;
}

// Any other extension header, in parts of four bytes; the last one ends with the type of the next header.
header extension_t {
    bit<24> contents;
    bit<8>  last;
}

// Information elements of the messages that we send: clauses 8.2 to 8.5.
header recovery_t {
    bit<8> type;
    bit<8> restarts;
}
header error_v4_t {
    bit<8>  type;
    teid_t  teid;
    bit<8>  type2;
    bit<16> length;
    bit<32> address;
}
header error_v6_t {
    bit<8>   type;
    teid_t   teid;
    bit<8>   type2;
    bit<16>  length;
    bit<128> address;
}
header extension_types_t {
    bit<8> type;
    bit<8> length;
    bit<8> first;
    bit<8> second;
}

// Before each frame to and from the controller and the buffer.
// To the controller: `reason` and `port` say why and whence, `network` where; `mtu` is the next hop's, `peer` the tunnel's
// end there. To the buffer: `rule` handles the packet when it comes back.
header packet_io_t {
    mac_t     dstAddr;
    mac_t     srcAddr;
    bit<16>   etherType;
    // Reason, or `From`.
    bit<16>   reason;
    bit<16>   port;
    network_t network;
    peer_t    peer;
    bit<16>   mtu;
    rule_t    rule;
    teid_t    teid;
}

struct headers_t {
    packet_io_t       packet_io;
    ethernet_t        ethernet;
    vlan_t            vlan;
    // Of a tunnel that begins here, or of a message of ours.
    tunnel_v4_t       outer_v4;
    tunnel_v6_t       outer_v6;
    gtpu_options_t    outer_options;
    container_t       outer_container;
    udp_port_t        udp_port;
    recovery_t        recovery;
    error_v4_t        error_v4;
    error_v6_t        error_v6;
    extension_types_t extension_types;
    // Of a tunnel that ends here: read, and not sent.
    tunnel_v4_t       under_v4;
    tunnel_v6_t       under_v6;
    gtpu_options_t    options;
    container_t       container;
    extension_t[8]    extensions;
    // The UE's packet.
    ipv4_t            ipv4;
    ipv6_t            ipv6;
}

struct look_udp_v4_t {
    ipv4_t  ip;
    ports_t ports;
}
struct look_udp_v6_t {
    ipv6_t  ip;
    ports_t ports;
}
struct look_extension_t {
    bit<8> length;
    bit<4> pdu_type;
    bit<4> flags;
    bit<1> ppp;
    bit<1> rqi;
    qfi_t  qfi;
}

struct metadata_t {
    Reason     reason;
    bit<12>    vid;
    // Where the packet came from.
    network_t  network;
    mac_t      own_mac;
    bit<1>     has_tunnels;
    bit<1>     has_packets;
    // Of a tunnel that ends here.
    endpoint_t endpoint;
    teid_t     teid;
    bit<8>     flags;
    Message     message;
    qfi_t      qfi_in;
    bit<1>     unknown_extension;
    // Words that an extension header still has, and the type of the next one.
    bit<8>     words;
    bit<8>     next;
    bit<16>    extension_bytes;
    // What is left of the frame behind the headers of Ethernet or of the tunnel.
    bit<16>    length;
    @field_list(1)
    bit<16>    src_port;
    @field_list(1)
    bit<16>    dst_port;
    bit<16>    ip_length;
    bit<16>    mtu;
    bit<8>     protocol;
    bit<8>     diffserv;
    @field_list(1)
    bit<16>    entropy;
    // The session's rules.
    session_t  session;
    filters_t  filters;
    rule_t     rule;
    Duplicates duplicates;
    @field_list(1)
    bit<1>     from_ue;
    // An answer of ours; the tunnel's headers go.
    bit<1>     is_ours;
    bit<1>     decapsulates;
    // What the rule says.
    bit<32>    meter_a;
    bit<32>    meter_b;
    bit<16>    slice;
    bit<32>    usage_a;
    bit<32>    usage_b;
    bit<32>    credit_a;
    bit<32>    credit_b;
    bit<16>    copies;
    @field_list(1)
    bit<32>    copy;
    next_hop_t next_hop;
    peer_t     peer;
    teid_t     teid_out;
    qfi_t      qfi;
    bit<1>     rqi;
    bit<1>     has_container;
    bit<8>     tos;
    bit<8>     tos_mask;
    rule_t     released;
    bit<32>    bar;
    bit<1>     is_buffered;
    Message     message_out;
    bit<16>    sequence_out;
    // How it leaves.
    bit<12>    vid_out;
    // The frame's length, if less of it is to be sent.
    bit<32>    cut;
    bit<1>     sums_udp;
    bit<1>     sums_answer;
}

// The first packet that waits for a UE: TS 29.244, clause 7.5.8.2.
struct downlink_data_t {
    bit<32> bar;
    rule_t  rule;
    bit<8>  diffserv;
    qfi_t   qfi;
}
// A volume threshold that is reached: clause 7.5.8.3.
struct usage_t {
    bit<32> credit;
    rule_t  rule;
}
