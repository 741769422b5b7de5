// A verified checksum in a varbit was a mistake of p4jet; it is refused now.
#include <core.p4>
#include <v1model.p4>
header a_t { bit<8> x; }
struct headers_t { a_t a; }
struct meta_t { varbit<64> sum; }
parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(h.a); transition accept; }
}
control V(inout headers_t h, inout meta_t m) {
    apply { verify_checksum(h.a.isValid(), { h.a.x }, m.sum, HashAlgorithm.csum16); }
}
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply {} }
control C(inout headers_t h, inout meta_t m) { apply {} }
control D(packet_out p, in headers_t h) { apply { p.emit(h.a); } }
V1Switch(P(), V(), I(), I(), C(), D()) main;
