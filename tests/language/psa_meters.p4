// PSA: meters and counters by index, colour-aware too, and random numbers.
#include <core.p4>
#include <psa.p4>

header data_t {
    bit<8> which;
    bit<8> index;
    bit<8> result;
}

#include "include/psa_data.p4"

control I(inout headers_t h, inout empty_t user, in psa_ingress_input_metadata_t istd,
          inout psa_ingress_output_metadata_t ostd) {
    Meter<bit<8>>(4, PSA_MeterType_t.PACKETS) packets;
    Meter<bit<8>>(4, PSA_MeterType_t.BYTES) bytes;
    Counter<bit<32>, bit<8>>(4, PSA_CounterType_t.BYTES) volume;
    Counter<bit<32>, bit<8>>(4, PSA_CounterType_t.PACKETS_AND_BYTES) both;
    Random<bit<8>>(8w0x40, 8w0x43) some;
    Random<bit<8>>(8w0x50, 8w0x50) one;
    action tell(PSA_MeterColor_t colour) {
        h.d.result = colour == PSA_MeterColor_t.GREEN ? 8w1
            : colour == PSA_MeterColor_t.YELLOW ? 8w2
            : 8w3;
    }
    apply {
        send_to_port(ostd, (PortId_t) 1);
        volume.count(h.d.index);
        both.count(h.d.index);
        switch (h.d.which) {
            1: { tell(packets.execute(h.d.index)); }
            2: { tell(bytes.execute(h.d.index)); }
            3: { tell(packets.execute(h.d.index, PSA_MeterColor_t.YELLOW)); }
            4: { tell(packets.execute(h.d.index, PSA_MeterColor_t.RED)); }
            5: { h.d.result = some.read() >> 2; }
            6: { h.d.result = one.read(); }
        }
    }
}

control ID(packet_out buffer, out empty_t clone_meta, out empty_t resubmit_meta, out empty_t normal_meta,
           inout headers_t h, in empty_t user, in psa_ingress_output_metadata_t istd) {
    apply {
        buffer.emit(h);
    }
}

parser EP(packet_in buffer, out empty_t h, inout empty_t user, in psa_egress_parser_input_metadata_t istd,
          in empty_t normal_meta, in empty_t i2e_meta, in empty_t e2e_meta) {
    state start {
        transition accept;
    }
}

control E(inout empty_t h, inout empty_t user, in psa_egress_input_metadata_t istd,
          inout psa_egress_output_metadata_t ostd) {
    apply {}
}

control ED(packet_out buffer, out empty_t clone_meta, out empty_t recirculate_meta, inout empty_t h,
           in empty_t user, in psa_egress_output_metadata_t istd, in psa_egress_deparser_input_metadata_t edstd) {
    apply {}
}

IngressPipeline(IP(), I(), ID()) ip;
EgressPipeline(EP(), E(), ED()) ep;
PSA_Switch(ip, PacketReplicationEngine(), ep, BufferingQueueingEngine()) main;
