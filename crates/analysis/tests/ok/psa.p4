// A whole PSA program; the nine type parameters of PSA_Switch are inferred through two inner packages.
#include <core.p4>
#include <bmv2/psa.p4>
#include <psa.p4>
header Eth { bit<48> dst; bit<48> src; bit<16> kind; }
struct Headers { Eth eth; }
struct Meta { bit<8> color; PortIdInHeader_t port; }
struct Empty {}
struct Copied { bit<16> kind; }
struct Learn { bit<48> src; PortId_t port; }

parser IngPrs(packet_in p, out Headers hdr, inout Meta m, in psa_ingress_parser_input_metadata_t i,
              in Empty resubmitted, in Copied recirculated) {
    state start {
        transition select(i.packet_path) {
            PSA_PacketPath_t.RECIRCULATE: again;
            default: first;
        }
    }
    state again { hdr.eth.kind = recirculated.kind; transition first; }
    state first { p.extract(hdr.eth); transition accept; }
}
control Ing(inout Headers hdr, inout Meta m, in psa_ingress_input_metadata_t i,
            inout psa_ingress_output_metadata_t o) {
    Counter<bit<32>, PortId_t>(64, PSA_CounterType_t.BYTES) seen;
    DirectCounter<bit<32>>(PSA_CounterType_t.PACKETS) hits;
    Meter<bit<12>>(16, PSA_MeterType_t.PACKETS) rate;
    DirectMeter(PSA_MeterType_t.BYTES) each;
    Register<bit<32>, bit<4>>(16) cells;
    Register<bit<32>, bit<4>>(16, 7) sevens;
    Hash<bit<16>>(PSA_HashAlgorithm_t.CRC16) crc;
    Random<bit<8>>(1, 6) die;
    ActionSelector(PSA_HashAlgorithm_t.CRC32, 128, 16) members;
    action send(PortId_t port) {
        hits.count();
        if (each.execute() == PSA_MeterColor_t.RED) ingress_drop(o); else send_to_port(o, port);
    }
    action copy() { o.clone = true; o.clone_session_id = PSA_CLONE_SESSION_TO_CPU; }
    table forward {
        key = { hdr.eth.dst: exact; hdr.eth.src: selector; i.ingress_port: optional; }
        actions = { send; copy; NoAction; }
        psa_direct_counter = hits;
        psa_direct_meter = each;
        psa_implementation = members;
        psa_idle_timeout = PSA_IdleTimeout_t.NOTIFY_CONTROL;
    }
    apply {
        seen.count(i.ingress_port);
        PSA_MeterColor_t color = rate.execute(5, PSA_MeterColor_t.YELLOW);
        if (color == PSA_MeterColor_t.GREEN && i.parser_error == error.NoError) m.color = die.read();
        sevens.write(2, cells.read(1) + sevens.read(0));
        m.color = m.color + crc.get_hash({ hdr.eth.src })[7:0];
        hdr.eth.kind = crc.get_hash(16w4, { hdr.eth.dst, m.color }, 16w8);
        m.port = psa_PortId_int_to_header(i.ingress_port);
        if (!forward.apply().hit) multicast(o, (MulticastGroup_t) 32w9);
    }
}
control IngDep(packet_out p, out Copied cloned, out Empty resubmitted, out Empty normal, inout Headers hdr,
               in Meta m, in psa_ingress_output_metadata_t o) {
    Digest<Learn>() learn;
    Checksum<bit<32>>(PSA_HashAlgorithm_t.CRC32) check;
    apply {
        if (psa_clone_i2e(o)) cloned.kind = hdr.eth.kind;
        learn.pack({ hdr.eth.src, psa_PortId_header_to_int(m.port) });
        check.clear();
        check.update(hdr.eth);
        if (check.get() == 0) p.emit(hdr);
    }
}
parser EgrPrs(packet_in p, out Headers hdr, inout Meta m, in psa_egress_parser_input_metadata_t i,
              in Empty normal, in Copied from_ingress, in Empty from_egress) {
    InternetChecksum() sum;
    state start {
        sum.add({ hdr.eth.kind });
        sum.set_state(sum.get_state());
        verify(sum.get() == 0, error.NoMatch);
        transition accept;
    }
}
control Egr(inout Headers hdr, inout Meta m, in psa_egress_input_metadata_t i,
            inout psa_egress_output_metadata_t o) {
    apply { if (i.instance == (EgressInstance_t) 16w1) egress_drop(o); }
}
control EgrDep(packet_out p, out Empty cloned, out Copied recirculated, inout Headers hdr, in Meta m,
               in psa_egress_output_metadata_t o, in psa_egress_deparser_input_metadata_t d) {
    apply {
        if (psa_recirculate(o, d)) recirculated = { hdr.eth.kind };
        p.emit(hdr);
    }
}
IngressPipeline(IngPrs(), Ing(), IngDep()) ingress;
EgressPipeline(EgrPrs(), Egr(), EgrDep()) egress;
PSA_Switch(ingress, PacketReplicationEngine(), egress, BufferingQueueingEngine()) main;
