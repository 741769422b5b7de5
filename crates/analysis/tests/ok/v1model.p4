// A whole program: H and M of V1Switch are inferred; checksums and digests take tuples and structs.
#include <core.p4>
#include <v1model.p4>
header Ip { bit<8> ttl; bit<16> sum; bit<32> src; }
struct Headers { Ip ip; }
struct Meta { bit<16> h; }
struct Learn { bit<32> src; bit<9> port; }

parser Prs(packet_in p, out Headers hdr, inout Meta m, inout standard_metadata_t s) {
    state start { p.extract(hdr.ip); transition accept; }
}
control Verify(inout Headers hdr, inout Meta m) {
    apply { verify_checksum(hdr.ip.isValid(), { hdr.ip.ttl, hdr.ip.src }, hdr.ip.sum, HashAlgorithm.csum16); }
}
control Ing(inout Headers hdr, inout Meta m, inout standard_metadata_t s) {
    register<bit<32>>(8) last;
    counter(64, CounterType.bytes) count;
    apply {
        bit<32> old;
        last.read(old, 3);
        last.write(3, old + 1);
        count.count((bit<32>) s.ingress_port);
        hash(m.h, HashAlgorithm.crc16, 16w0, { hdr.ip.src, old }, 32w1024);
        digest<Learn>(1, { hdr.ip.src, s.ingress_port });
        random(m.h, 0, 9);
        log_msg("port {}", { s.ingress_port });
        clone_preserving_field_list(CloneType.I2E, 5, 1);
        assert(old < 9);
    }
}
control Egr(inout Headers hdr, inout Meta m, inout standard_metadata_t s) { apply {} }
control Compute(inout Headers hdr, inout Meta m) {
    apply { update_checksum(true, { hdr.ip.ttl }, hdr.ip.sum, HashAlgorithm.csum16); }
}
control Dep(packet_out p, in Headers hdr) { apply { p.emit(hdr); } }
V1Switch(Prs(), Verify(), Ing(), Egr(), Compute(), Dep()) main;
