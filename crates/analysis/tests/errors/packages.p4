#include <core.p4>
#include <v1model.p4>
struct Headers { bit<8> x; }
struct Meta { bit<8> y; }
parser Prs(packet_in p, out Headers h, inout Meta m, inout standard_metadata_t s) { state start { transition accept; } }
control Sum(inout Headers h, inout Meta m) { apply {} }
control Ing(inout Headers h, inout Headers m, inout standard_metadata_t s) { apply {} }
control Egr(inout Headers h, in Meta m, inout standard_metadata_t s) { apply {} }
control Dep(packet_out p, inout Headers h) { apply {} }
V1Switch(Prs(), Sum(), Ing(), Egr(), Sum(), Dep()) main;
