// A mirror for a traffic generator, for PSA: a frame for a known MAC address goes back out of the port it came in by, with
// the two MAC addresses of a pair that the control plane gave.
//
// programs/mac_mirror_psa of the repository is the same program, with tests.
#include <core.p4>
#include <psa.p4>

header ethernet_h {
    bit<48> dstAddr;
    bit<48> srcAddr;
    bit<16> etherType;
}

struct headers_t {
    ethernet_h ethernet;
}

// Nothing goes along with a packet, and egress looks at no header.
struct empty_t {}

parser IngressParserImpl(packet_in buffer, out headers_t hdr, inout empty_t user_meta,
                         in psa_ingress_parser_input_metadata_t istd, in empty_t resubmit_meta,
                         in empty_t recirculate_meta) {
    state start {
        transition parse_ethernet;
    }
    // Nothing is checked: a frame cut short has an invalid header, reads as destination 0 and misses in `mirror`.
    state parse_ethernet {
        buffer.extract(hdr.ethernet);
        transition accept;
    }
}

control ingress(inout headers_t hdr, inout empty_t user_meta, in psa_ingress_input_metadata_t istd,
                inout psa_ingress_output_metadata_t ostd) {
    action my_drop() {
        ostd.drop = true;
    }
    // The parameters are named as the frame arrives: dst_addr is the mirror's address, src_addr the generator's.
    // They leave the other way round. The swap is made of these two constants and copies no field of the packet, so
    // the answer goes to the generator of the entry, whoever sent the frame.
    action set_mac(bit<48> dst_addr, bit<48> src_addr) {
        hdr.ethernet.dstAddr = src_addr;
        hdr.ethernet.srcAddr = dst_addr;
        // PSA drops what ingress does not ask to send.
        send_to_port(ostd, istd.ingress_port);
    }
    table mirror {
        key = { hdr.ethernet.dstAddr : exact; }
        actions = { set_mac; my_drop; }
        default_action = my_drop();
    }
    apply {
        mirror.apply();
    }
}

control IngressDeparserImpl(packet_out buffer, out empty_t clone_i2e_meta, out empty_t resubmit_meta,
                            out empty_t normal_meta, inout headers_t hdr, in empty_t user_meta,
                            in psa_ingress_output_metadata_t istd) {
    apply {
        buffer.emit(hdr);
    }
}

parser EgressParserImpl(packet_in buffer, out empty_t hdr, inout empty_t user_meta,
                        in psa_egress_parser_input_metadata_t istd, in empty_t normal_meta,
                        in empty_t clone_i2e_meta, in empty_t clone_e2e_meta) {
    state start {
        transition accept;
    }
}

control egress(inout empty_t hdr, inout empty_t user_meta, in psa_egress_input_metadata_t istd,
               inout psa_egress_output_metadata_t ostd) {
    apply {}
}

control EgressDeparserImpl(packet_out buffer, out empty_t clone_e2e_meta, out empty_t recirculate_meta,
                           inout empty_t hdr, in empty_t user_meta, in psa_egress_output_metadata_t istd,
                           in psa_egress_deparser_input_metadata_t edstd) {
    apply {
        buffer.emit(hdr);
    }
}

IngressPipeline(IngressParserImpl(), ingress(), IngressDeparserImpl()) ip;
EgressPipeline(EgressParserImpl(), egress(), EgressDeparserImpl()) ep;
PSA_Switch(ip, PacketReplicationEngine(), ep, BufferingQueueingEngine()) main;
