// Values without bits count towards the size of a program.
#include <v1model.p4>
header h_t { bit<8> a; }
struct headers { h_t h; }
struct meta {}
struct zeros { bit<0>[4000] all; }
parser P(packet_in p, out headers hdr, inout meta m, inout standard_metadata_t s) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout meta m) { apply {} }
control I(inout headers hdr, inout meta m, inout standard_metadata_t s) {
    apply {
        zeros z0;
        zeros z1;
        zeros z2;
        zeros z3;
        zeros z4;
        zeros z5;
        zeros z6;
        zeros z7;
        zeros z8;
        zeros z9;
        zeros z10;
        zeros z11;
        zeros z12;
        zeros z13;
        zeros z14;
        zeros z15;
        zeros z16;
        zeros z17;
        zeros z18;
        zeros z19;
        zeros z20;
        zeros z21;
        zeros z22;
        zeros z23;
        zeros z24;
        zeros z25;
        zeros z26;
        zeros z27;
        zeros z28;
        zeros z29;
        zeros z30;
        zeros z31;
        zeros z32;
        zeros z33;
        zeros z34;
        zeros z35;
        zeros z36;
        zeros z37;
        zeros z38;
        zeros z39;
        zeros z40;
        zeros z41;
        zeros z42;
        zeros z43;
        zeros z44;
        zeros z45;
        zeros z46;
        zeros z47;
        zeros z48;
        zeros z49;
        zeros z50;
        zeros z51;
        zeros z52;
        zeros z53;
        zeros z54;
        zeros z55;
        zeros z56;
        zeros z57;
        zeros z58;
        zeros z59;
    }
}
control E(inout headers hdr, inout meta m, inout standard_metadata_t s) { apply {} }
control C(inout headers hdr, inout meta m) { apply {} }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
