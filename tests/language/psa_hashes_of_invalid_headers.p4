// PSA: hashes and checksums take the fields of invalid headers as any others, as psa_switch does; varbits count as
// long as they are.
#include <core.p4>
#include <psa.p4>

header data_t {
    bit<8> length;
    varbit<72> digits;
}

header byte_t {
    bit<8> x;
}

header result_t {
    bit<64> value;
}

struct headers_t {
    result_t r;
    data_t d;
}

struct empty_t {}

parser IP(packet_in buffer, out headers_t h, inout empty_t user, in psa_ingress_parser_input_metadata_t istd,
          in empty_t resubmitted, in empty_t recirculated) {
    state start {
        buffer.extract(h.d, (bit<32>) buffer.lookahead<bit<8>>() * 8);
        transition accept;
    }
}

control I(inout headers_t h, inout empty_t user, in psa_ingress_input_metadata_t istd,
          inout psa_ingress_output_metadata_t ostd) {
    Hash<bit<64>>(PSA_HashAlgorithm_t.CRC32) crc32;
    Hash<bit<64>>(PSA_HashAlgorithm_t.CRC16) crc16;
    Hash<bit<64>>(PSA_HashAlgorithm_t.CRC32_CUSTOM) crc32_custom;
    Hash<bit<64>>(PSA_HashAlgorithm_t.CRC16_CUSTOM) crc16_custom;
    Hash<bit<64>>(PSA_HashAlgorithm_t.IDENTITY) identity;
    Hash<bit<64>>(PSA_HashAlgorithm_t.ONES_COMPLEMENT16) sum16;
    Checksum<bit<64>>(PSA_HashAlgorithm_t.CRC32) in_steps;
    InternetChecksum() internet;
    apply {
        byte_t o;
        send_to_port(ostd, istd.ingress_port);
        h.r = { 0 };
        PortIdUint_t port = (PortIdUint_t) istd.ingress_port;
        if (port == 1) {
            h.r.value = crc32.get_hash(h.d.digits);
        } else if (port == 2) {
            h.r.value = crc16.get_hash(h.d.digits);
        } else if (port == 3) {
            h.r.value = crc32_custom.get_hash(h.d.digits);
        } else if (port == 4) {
            h.r.value = crc16_custom.get_hash(h.d.digits);
        } else if (port == 5) {
            // Filled up in front to whole bytes.
            h.r.value = identity.get_hash({ h.d.digits, 4w0xf });
        } else if (port == 6) {
            h.r.value = sum16.get_hash(h.d.digits);
        } else if (port == 7) {
            in_steps.update(8w0x31);
            in_steps.update({ h.d.digits, 8w0x39 });
            h.r.value = in_steps.get();
        } else if (port == 8) {
            internet.add({ 16w0x0102, h.d.digits });
            internet.subtract(h.d.digits);
            h.r.value = 48w0 ++ internet.get();
        } else if (port == 9) {
            h.r.value = identity.get_hash({ 8w0x11, o.x, 8w0x22 });
        } else if (port == 10) {
            o.x = 0xaa;
            h.r.value = identity.get_hash({ 8w0x11, o, 8w0x22 });
        }
    }
}

control ID(packet_out buffer, out empty_t clone_meta, out empty_t resubmit_meta, out empty_t normal_meta,
           inout headers_t h, in empty_t user, in psa_ingress_output_metadata_t istd) {
    apply {
        buffer.emit(h.r);
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
