//! Tests what PSA programs do to packets, on both engines.
//!
//! Every test inserts the bodies of the six blocks into a common program around a header `h` of four bytes `a b c d`,
//! sends `frame` bytes to port 3 and checks all output. Ingress sends to port 1 unless its code says otherwise. Blind
//! spot: tables have only the entries of the program.

use crate::common::run_text;

#[derive(Default)]
struct Pieces<'a> {
    /// Declarations before the ingress parser.
    top: &'a str,
    /// After the extraction of `h` in the ingress parser.
    parser: &'a str,
    /// Declarations of ingress.
    locals: &'a str,
    ingress: &'a str,
    ingress_deparser: &'a str,
    /// After the extraction of `h` in the egress parser.
    egress_parser: &'a str,
    egress: &'a str,
    egress_deparser: &'a str,
}

impl Pieces<'_> {
    fn text(&self) -> String {
        let Pieces { top, parser, locals, ingress, ingress_deparser, egress_parser, egress, egress_deparser } =
            self;
        format!(
            "#include <core.p4>
#include <psa.p4>
header h_t {{ bit<8> a; bit<8> b; bit<8> c; bit<8> d; }}
struct headers_t {{ h_t h; }}
struct user_t {{ bit<8> x; bit<8> y; }}
struct carried_t {{ bit<8> v; h_t h; }}
{top}
parser IP(packet_in buffer, out headers_t hdr, inout user_t user, in psa_ingress_parser_input_metadata_t istd,
          in carried_t resubmitted, in carried_t recirculated) {{
    state start {{ buffer.extract(hdr.h); {parser} transition accept; }}
}}
control IG(inout headers_t hdr, inout user_t user, in psa_ingress_input_metadata_t istd,
           inout psa_ingress_output_metadata_t ostd) {{
    {locals}
    apply {{ send_to_port(ostd, (PortId_t) 1); {ingress} }}
}}
control ID(packet_out buffer, out carried_t to_clone, out carried_t to_resubmit, out carried_t to_normal,
           inout headers_t hdr, in user_t user, in psa_ingress_output_metadata_t istd) {{
    apply {{ {ingress_deparser} buffer.emit(hdr.h); }}
}}
parser EP(packet_in buffer, out headers_t hdr, inout user_t user, in psa_egress_parser_input_metadata_t istd,
          in carried_t normal, in carried_t i2e, in carried_t e2e) {{
    state start {{ buffer.extract(hdr.h); {egress_parser} transition accept; }}
}}
control EG(inout headers_t hdr, inout user_t user, in psa_egress_input_metadata_t istd,
           inout psa_egress_output_metadata_t ostd) {{
    apply {{ {egress} }}
}}
control ED(packet_out buffer, out carried_t to_clone, out carried_t to_recirculate, inout headers_t hdr,
           in user_t user, in psa_egress_output_metadata_t istd, in psa_egress_deparser_input_metadata_t edstd) {{
    apply {{ {egress_deparser} buffer.emit(hdr.h); }}
}}
IngressPipeline(IP(), IG(), ID()) ip;
EgressPipeline(EP(), EG(), ED()) ep;
PSA_Switch(ip, PacketReplicationEngine(), ep, BufferingQueueingEngine()) main;
"
        )
    }

    /// Exactly these packets are sent, in this order.
    #[track_caller]
    fn check(&self, frame: &[u8], expected: &[(u32, &[u8])]) {
        let expected: Vec<_> = expected.iter().map(|(port, frame)| (*port, frame.to_vec())).collect();
        assert_eq!(run_text(&self.text(), frame).sent, expected);
    }

    /// Nothing is sent, for this reason.
    #[track_caller]
    fn check_dropped(&self, frame: &[u8], why: &str) {
        let processed = run_text(&self.text(), frame);
        assert_eq!((processed.sent, processed.dropped), (vec![], vec![why.to_string()]));
    }
}

#[track_caller]
fn ingress(code: &str, frame: &[u8], expected: &[u8]) {
    Pieces { ingress: code, ..Pieces::default() }.check(frame, &[(1, expected)]);
}

#[test]
fn a_packet_leaves_by_the_port_that_ingress_sets_and_keeps_its_payload() {
    ingress("hdr.h.b = (bit<8>) (PortIdUint_t) istd.ingress_port;", &[1, 2, 3, 4, 5], &[1, 3, 3, 4, 5]);
}

#[test]
fn packets_are_dropped_unless_ingress_forwards_them() {
    let p = Pieces { ingress: "ostd.drop = true; ostd.resubmit = true;", ..Pieces::default() };
    p.check_dropped(&[0; 4], "ingress did not ask to send (psa_ingress_output_metadata.drop)");
    let p = Pieces { egress: "egress_drop(ostd);", ..Pieces::default() };
    p.check_dropped(&[0; 4], "egress asked to drop (psa_egress_output_metadata.drop)");
}

#[test]
fn egress_sees_how_the_packet_came_and_its_own_metadata() {
    let p = Pieces {
        ingress: "user.x = 7; ostd.class_of_service = (ClassOfService_t) 2;",
        ingress_deparser: "if (psa_normal(istd)) { to_normal.v = user.x; } hdr.h.a = 9;",
        egress_parser: "user.y = normal.v;",
        egress: "if (istd.packet_path == PSA_PacketPath_t.NORMAL_UNICAST) { hdr.h.b = user.y; }
            hdr.h.c = user.x; hdr.h.d = (ClassOfServiceUint_t) istd.class_of_service;",
        ..Pieces::default()
    };
    p.check(&[1, 2, 3, 4], &[(1, &[9, 7, 0, 2])]);
}

#[test]
fn multicast_makes_instances() {
    let p = Pieces {
        ingress: "multicast(ostd, (MulticastGroup_t) 7); hdr.h.a = 9; user.x = 6;",
        ingress_deparser: "if (psa_normal(istd)) { to_normal.v = user.x; }",
        egress_parser: "user.y = normal.v;",
        egress: "if (istd.packet_path == PSA_PacketPath_t.NORMAL_MULTICAST) {
            hdr.h.b = (bit<8>) (EgressInstanceUint_t) istd.instance;
            hdr.h.c = (bit<8>) (PortIdUint_t) istd.egress_port; hdr.h.d = user.y; }",
        ..Pieces::default()
    };
    p.check(&[1, 2, 3, 4], &[(8, &[9, 1, 8, 6]), (9, &[9, 2, 9, 6])]);
    let empty = Pieces { ingress: "multicast(ostd, (MulticastGroup_t) 70);", ..Pieces::default() };
    empty.check(&[0; 4], &[]);
}

#[test]
fn clones_of_ingress_are_the_received_packet() {
    let p = Pieces {
        ingress: "ostd.clone = true; ostd.clone_session_id = (CloneSessionId_t) 5; ingress_drop(ostd);
            hdr.h.a = 9; user.x = 6;",
        ingress_deparser: "if (psa_clone_i2e(istd)) { to_clone.v = user.x; to_clone.h = hdr.h; }",
        egress_parser: "user.y = i2e.v; user.x = i2e.h.a;",
        egress: "if (istd.packet_path == PSA_PacketPath_t.CLONE_I2E) {
            hdr.h.b = (bit<8>) (EgressInstanceUint_t) istd.instance; hdr.h.c = user.y; hdr.h.d = user.x; }",
        ..Pieces::default()
    };
    p.check(&[1, 2, 3, 4], &[(5, &[1, 3, 6, 9])]);
    let short = Pieces {
        ingress: "ostd.clone = true; ostd.clone_session_id = (CloneSessionId_t) 6;",
        ..Pieces::default()
    };
    short.check(&[1, 2, 3, 4, 5, 6], &[(6, &[1, 2, 3, 4, 5]), (1, &[1, 2, 3, 4, 5, 6])]);
    let no_session = Pieces {
        ingress: "ostd.clone = true; ostd.clone_session_id = (CloneSessionId_t) 60;",
        ..Pieces::default()
    };
    no_session.check(&[0; 4], &[(1, &[0; 4])]);
}

#[test]
fn clones_of_egress_are_the_sent_packet() {
    let p = Pieces {
        egress_parser: "user.y = e2e.v;",
        egress: "if (istd.packet_path == PSA_PacketPath_t.CLONE_E2E) {
                hdr.h.b = user.y; hdr.h.c = (ClassOfServiceUint_t) istd.class_of_service;
            } else { ostd.clone = true; ostd.clone_session_id = (CloneSessionId_t) 5; ostd.drop = true; hdr.h.a = 9; }",
        egress_deparser: "if (psa_clone_e2e(istd)) { to_clone.v = 8; }",
        ..Pieces::default()
    };
    p.check(&[1, 2, 3, 4, 5], &[(5, &[9, 8, 4, 4, 5])]);
}

#[test]
fn resubmitted_packets_are_as_received_with_their_metadata() {
    let p = Pieces {
        parser: "user.x = resubmitted.v; user.y = (bit<8>) (PortIdUint_t) istd.ingress_port;",
        ingress: "if (user.x < 3) { ostd.resubmit = true; hdr.h.a = 9; }
            if (istd.packet_path == PSA_PacketPath_t.RESUBMIT) { hdr.h.b = user.x; } hdr.h.c = user.y;",
        ingress_deparser: "if (psa_resubmit(istd)) { to_resubmit.v = user.x + 1; }",
        ..Pieces::default()
    };
    p.check(&[1, 2, 3, 4], &[(1, &[1, 3, 3, 4])]);
}

#[test]
fn recirculated_packets_are_as_sent_with_their_metadata() {
    let p = Pieces {
        parser: "user.x = recirculated.v;",
        ingress: "if (user.x < 2) { send_to_port(ostd, PSA_PORT_RECIRCULATE); }
            if (istd.packet_path == PSA_PacketPath_t.RECIRCULATE && istd.ingress_port == PSA_PORT_RECIRCULATE) {
                hdr.h.b = user.x; }",
        ingress_deparser: "to_normal.v = user.x;",
        egress_parser: "user.x = normal.v;",
        egress: "hdr.h.a = hdr.h.a + 1;",
        egress_deparser: "if (psa_recirculate(istd, edstd)) { to_recirculate.v = user.x + 1; }",
        ..Pieces::default()
    };
    p.check(&[1, 2, 3, 4], &[(1, &[4, 2, 3, 4])]);
}

#[test]
fn parser_errors_are_seen_by_the_controls() {
    let p = Pieces {
        ingress: "if (istd.parser_error == error.PacketTooShort) { hdr.h.setValid(); hdr.h.d = 7; }",
        egress: "if (istd.parser_error == error.NoError) { hdr.h.a = 6; }",
        ..Pieces::default()
    };
    p.check(&[1, 2], &[(1, &[6, 0, 0, 7, 1, 2])]);
}

#[test]
fn registers_start_with_the_declared_values() {
    let p = Pieces {
        locals: "Register<bit<8>, bit<4>>(4, 5) cells; Register<user_t, bit<4>>(2, { 6, 7 }) pairs;
            Register<bit<8>, bit<4>>(2) plain;",
        ingress: "hdr.h.a = cells.read(1); cells.write(1, 9); hdr.h.b = cells.read(1);
            user_t pair = pairs.read(1); hdr.h.c = pair.y; hdr.h.d = plain.read(0);",
        ..Pieces::default()
    };
    p.check(&[1; 4], &[(1, &[5, 9, 7, 0])]);
}

#[test]
fn hashes() {
    let p = Pieces {
        locals: "Hash<bit<16>>(PSA_HashAlgorithm_t.CRC16) crc; Hash<bit<8>>(PSA_HashAlgorithm_t.IDENTITY) same;",
        // CRC-16/ARC of "1234" is 0x14ba. Data that do not fill their bytes are padded in front.
        ingress: "bit<16> h = crc.get_hash({ hdr.h.a, hdr.h.b, hdr.h.c, hdr.h.d });
            bit<12> odd = 0x456;
            if (h == 0x14ba && crc.get_hash({ odd }) == 0xfe82) { hdr.h.a = 1; }
            hdr.h.b = same.get_hash(8w10, { 8w23 }, 8w5); hdr.h.c = same.get_hash(8w10, { 8w23 }, 8w0);",
        ..Pieces::default()
    };
    p.check(b"1234", &[(1, &[1, 13, 10, b'4'])]);
}

#[test]
fn checksums_come_in_steps() {
    // CRC-32 of "1234" is 0x9be3e0a3, CRC-16/ARC 0x14ba.
    let p = Pieces {
        locals: "Checksum<bit<32>>(PSA_HashAlgorithm_t.CRC32) crc; Checksum<bit<16>>(PSA_HashAlgorithm_t.CRC16) small;
            Checksum<bit<16>>(PSA_HashAlgorithm_t.ONES_COMPLEMENT16) sum;",
        ingress: "crc.update({ hdr.h.a }); crc.clear(); crc.update({ hdr.h.a, hdr.h.b, hdr.h.c });
            bit<32> three = crc.get(); crc.update(hdr.h.d);
            small.update({ hdr.h.a, hdr.h.b }); small.update({ hdr.h.c, hdr.h.d });
            sum.update({ 16w0xfffe }); sum.update({ 16w3 });
            if (crc.get() == 0x9be3e0a3 && three != crc.get()) { hdr.h.a = 1; }
            if (small.get() == 0x14ba) { hdr.h.b = 1; }
            if (sum.get() == 0xfffd) { hdr.h.c = 1; }",
        ..Pieces::default()
    };
    p.check(b"1234", &[(1, &[1, 1, 1, b'4'])]);
}

#[test]
fn internet_checksums_subtract_data() {
    let p = Pieces {
        locals: "InternetChecksum() sum; InternetChecksum() other;",
        ingress: "sum.add({ 16w0x1234, hdr.h.a, hdr.h.b }); bit<16> with = sum.get();
            sum.add({ 32w0xabcd9876 }); sum.subtract({ 32w0xabcd9876 });
            if (sum.get() == with && with == ~(16w0x1234 + (hdr.h.a ++ hdr.h.b))) { hdr.h.c = 1; }
            other.set_state(sum.get_state()); sum.clear();
            if (other.get() == with && sum.get() == 0xffff) { hdr.h.d = 1; }",
        ..Pieces::default()
    };
    p.check(&[1, 2, 0, 0], &[(1, &[1, 2, 1, 1])]);
}

#[test]
fn random_numbers_are_in_range() {
    ingress("", &[0; 4], &[0; 4]);
    let p = Pieces {
        locals: "Random<bit<8>>(4, 5) r; Random<bit<8>>(9, 9) nine;",
        ingress: "bit<8> v = r.read(); if (v == 4 || v == 5) { hdr.h.a = 1; } hdr.h.b = nine.read();",
        ..Pieces::default()
    };
    p.check(&[0; 4], &[(1, &[1, 9, 0, 0])]);
}
