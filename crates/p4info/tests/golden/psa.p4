// What P4Info shows of PSA beyond what v1model has.
#include <core.p4>
#include <bmv2/psa.p4>

struct empty_t {}
header ethernet_t { bit<48> dst; bit<48> src; bit<16> kind; }
struct headers_t { ethernet_t ethernet; }
type bit<12> index_t;
struct pair_t<T> { T first; bit<8> second; }

parser IP(packet_in p, out headers_t h, inout empty_t m, in psa_ingress_parser_input_metadata_t i, in empty_t a, in empty_t b) {
    state start { p.extract(h.ethernet); transition accept; }
}
parser EP(packet_in p, out headers_t h, inout empty_t m, in psa_egress_parser_input_metadata_t i, in empty_t a, in empty_t b, in empty_t c) {
    state start { transition accept; }
}
control I(inout headers_t h, inout empty_t m, in psa_ingress_input_metadata_t i, inout psa_ingress_output_metadata_t o) {
    Counter<bit<32>, index_t>(4096, PSA_CounterType_t.PACKETS_AND_BYTES) packets;
    DirectCounter<bit<32>>(PSA_CounterType_t.PACKETS) hits;
    Meter<index_t>(8, PSA_MeterType_t.BYTES) rates;
    DirectMeter(PSA_MeterType_t.PACKETS) speed;
    Register<pair_t<bit<16>>, index_t>(64) pairs;
    ActionProfile(77) profile;
    action go(bit<32> port) { hits.count(); send_to_port(o, (PortId_t) (PortIdUint_t) port); }
    table switching {
        key = { h.ethernet.dst: exact; }
        actions = { go; NoAction; }
        psa_implementation = profile;
        psa_direct_counter = hits;
        psa_direct_meter = speed;
        psa_idle_timeout = PSA_IdleTimeout_t.NOTIFY_CONTROL;
    }
    apply { switching.apply(); }
}
control E(inout headers_t h, inout empty_t m, in psa_egress_input_metadata_t i, inout psa_egress_output_metadata_t o) { apply {} }
control ID(packet_out p, out empty_t a, out empty_t b, out empty_t c, inout headers_t h, in empty_t m, in psa_ingress_output_metadata_t o) {
    Digest<tuple<bit<48>, bool>>() learned;
    apply { learned.pack({ h.ethernet.src, true }); p.emit(h.ethernet); }
}
control ED(packet_out p, out empty_t a, out empty_t b, inout headers_t h, in empty_t m, in psa_egress_output_metadata_t o, in psa_egress_deparser_input_metadata_t i) {
    apply {}
}
IngressPipeline(IP(), I(), ID()) ingress;
EgressPipeline(EP(), E(), ED()) egress;
PSA_Switch(ingress, PacketReplicationEngine(), egress, BufferingQueueingEngine()) main;
