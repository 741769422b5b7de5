// v1model: output queues. The priority says in which queue of its port a packet waits (bmv2: the higher number first),
// and deq_qdepth how many packets it left behind: where these are too many it is marked (RFC 3168).
#include <core.p4>
#include <v1model.p4>

const bit<16> TYPE_IPV4 = 0x800;
/// Packets in the queue when a packet leaves it, from which on that one is marked.
const bit<19> CONGESTED = 2;

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<6> dscp;
    bit<2> ecn;
    bit<16> length;
    bit<16> id;
    bit<3> flags;
    bit<13> fragment;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

struct headers {
    ethernet_t ethernet;
    ipv4_t ipv4;
}

struct metadata {}

parser ParsePackets(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            TYPE_IPV4: ipv4;
            default: accept;
        }
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

control VerifyNothing(inout headers hdr, inout metadata meta) {
    apply {}
}

control MyIngress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = hdr.ethernet.dst[8:0];
        if (hdr.ipv4.isValid()) {
            // The class selectors of RFC 2474: the three upper bits.
            standard.priority = hdr.ipv4.dscp[5:3];
        }
    }
}

control MyEgress(inout headers hdr, inout metadata meta, inout standard_metadata_t standard) {
    apply {
        if (hdr.ipv4.isValid() && hdr.ipv4.ecn != 0 && standard.deq_qdepth >= CONGESTED) {
            hdr.ipv4.ecn = 3;
        }
    }
}

control UpdateChecksum(inout headers hdr, inout metadata meta) {
    apply {
        update_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.length, hdr.ipv4.id, hdr.ipv4.flags,
              hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control DeparsePackets(packet_out packet, in headers hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(ParsePackets(), VerifyNothing(), MyIngress(), MyEgress(), UpdateChecksum(), DeparsePackets()) main;
