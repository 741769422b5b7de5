// PSA: action profiles and selectors, counters and meters of entries, tables whose entries age, digests.
#include <core.p4>
#include <psa.p4>

header data_t {
    bit<8> which;
    bit<8> key;
    bit<8> flow;
    bit<8> result;
}

struct learned_t {
    bit<8> key;
    PortId_t port;
}

#include "include/psa_data.p4"

control I(inout headers_t h, inout empty_t user, in psa_ingress_input_metadata_t istd,
          inout psa_ingress_output_metadata_t ostd) {
    ActionProfile(16) members;
    ActionSelector(PSA_HashAlgorithm_t.CRC16, 16, 32w8) balance;
    DirectCounter<bit<32>>(PSA_CounterType_t.PACKETS_AND_BYTES) hits;
    DirectMeter(PSA_MeterType_t.PACKETS) rates;
    action set(bit<8> value) {
        h.d.result = value;
    }
    action add(bit<8> value) {
        h.d.result = h.d.flow + value;
    }
    action count(bit<8> value) {
        hits.count();
        h.d.result = value;
    }
    action meter() {
        PSA_MeterColor_t colour = rates.execute();
        h.d.result = colour == PSA_MeterColor_t.GREEN ? 8w1
            : colour == PSA_MeterColor_t.YELLOW ? 8w2
            : 8w3;
    }
    table profiled {
        key = { h.d.key: exact; }
        actions = { set; add; NoAction; }
        psa_implementation = members;
    }
    table balanced {
        key = { h.d.key: exact; h.d.flow: selector; }
        actions = { set; NoAction; }
        psa_implementation = balance;
    }
    table counted {
        key = { h.d.key: exact; }
        actions = { count; NoAction; }
        psa_direct_counter = hits;
    }
    table metered {
        key = { h.d.key: exact; }
        actions = { meter; NoAction; }
        psa_direct_meter = rates;
    }
    table ageing {
        key = { h.d.key: ternary; }
        actions = { set; NoAction; }
        psa_idle_timeout = PSA_IdleTimeout_t.NOTIFY_CONTROL;
    }
    apply {
        send_to_port(ostd, (PortId_t) 1);
        switch (h.d.which) {
            1: { profiled.apply(); }
            2: { balanced.apply(); }
            3: { counted.apply(); }
            4: { metered.apply(); }
            5: {
                if (ageing.apply().miss) {
                    h.d.result = 0xee;
                }
            }
        }
    }
}

control ID(packet_out buffer, out empty_t clone_meta, out empty_t resubmit_meta, out empty_t normal_meta,
           inout headers_t h, in empty_t user, in psa_ingress_output_metadata_t istd) {
    Digest<learned_t>() learn;
    apply {
        if (h.d.which == 6) {
            learn.pack({ h.d.key, (PortId_t) 1 });
        }
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
