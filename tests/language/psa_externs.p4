// PSA: registers with an initial value, hashes, checksums in steps, counters.
#include <core.p4>
#include <psa.p4>

header h_t {
    bit<32> data;
    bit<32> result;
}

struct headers_t {
    h_t h;
}

struct pair_t {
    bit<8> first;
    bool second;
}

struct empty_t {}

parser IP(packet_in buffer, out headers_t hdr, inout empty_t user, in psa_ingress_parser_input_metadata_t istd,
          in empty_t resubmitted, in empty_t recirculated) {
    InternetChecksum() sum;
    state start {
        buffer.extract(hdr.h);
        sum.add(hdr.h.data);
        sum.add({ 16w0x1234, 16w0x5678 });
        sum.subtract(32w0x12345678);
        hdr.h.result[15:0] = sum.get();
        transition accept;
    }
}

control I(inout headers_t hdr, inout empty_t user, in psa_ingress_input_metadata_t istd,
          inout psa_ingress_output_metadata_t ostd) {
    Hash<bit<32>>(PSA_HashAlgorithm_t.CRC32) crc32;
    Checksum<bit<32>>(PSA_HashAlgorithm_t.CRC32) in_steps;
    Register<bit<32>, bit<1>>(2, 0xc0ffee) cells;
    Register<pair_t, bit<1>>(2, { 7, true }) pairs;
    Counter<bit<32>, PortId_t>(4, PSA_CounterType_t.PACKETS) seen;
    apply {
        send_to_port(ostd, istd.ingress_port);
        seen.count(istd.ingress_port);
        if ((PortIdUint_t) istd.ingress_port == 1) {
            hdr.h.result = crc32.get_hash(hdr.h.data);
        } else if ((PortIdUint_t) istd.ingress_port == 2) {
            in_steps.update(hdr.h.data[31:16]);
            in_steps.update({ hdr.h.data[15:8], hdr.h.data[7:0] });
            hdr.h.result = in_steps.get();
        } else if ((PortIdUint_t) istd.ingress_port == 3) {
            hdr.h.result = cells.read(1);
            cells.write(1, hdr.h.result + 1);
        } else if ((PortIdUint_t) istd.ingress_port == 4) {
            pair_t pair = pairs.read(0);
            hdr.h.result = 16w0 ++ pair.first ++ (pair.second ? 8w1 : 0);
            pairs.write(0, { pair.first + 1, !pair.second });
        } else if ((PortIdUint_t) istd.ingress_port == 5) {
            hdr.h.result = crc32.get_hash(32w10, hdr.h.data, 32w7);
        }
    }
}

control ID(packet_out buffer, out empty_t clone_meta, out empty_t resubmit_meta, out empty_t normal_meta,
           inout headers_t hdr, in empty_t user, in psa_ingress_output_metadata_t istd) {
    apply {
        buffer.emit(hdr);
    }
}

parser EP(packet_in buffer, out empty_t hdr, inout empty_t user, in psa_egress_parser_input_metadata_t istd,
          in empty_t normal_meta, in empty_t i2e_meta, in empty_t e2e_meta) {
    state start {
        transition accept;
    }
}

control E(inout empty_t hdr, inout empty_t user, in psa_egress_input_metadata_t istd,
          inout psa_egress_output_metadata_t ostd) {
    apply {}
}

control ED(packet_out buffer, out empty_t clone_meta, out empty_t recirculate_meta, inout empty_t hdr,
           in empty_t user, in psa_egress_output_metadata_t istd, in psa_egress_deparser_input_metadata_t edstd) {
    apply {}
}

IngressPipeline(IP(), I(), ID()) ip;
EgressPipeline(EP(), E(), ED()) ep;
PSA_Switch(ip, PacketReplicationEngine(), ep, BufferingQueueingEngine()) main;
