#include <core.p4>
// core.p4 alone: the architecture is missing. A misspelt name is another error.
struct H { bit<8> a; }
control C(inout H h, in psa_ingress_input_metadata_t istd, inout PortId_t p) {
    apply { h.b = 1; unknwon(); }
}
