#include <core.p4>
header H { bit<8> f; }
control Inner(inout bit<8> x) { apply {} }
parser Prs(packet_in p, inout bit<8> x) { state start { transition accept; } }
Inner() global_inner;
control Work(inout bit<8> x, inout H[2] s) {
    Prs() prs;
    Inner() inner;
    Work() myself;
    action a() { inner.apply(x); }
    apply {
        break;
        s.next = s.last;
        return 1;
        Prs.apply(x);
        Inner(x);
    }
}
control Ct(inout bit<8> x);
package Top(Ct c);
Top(Ct()) one;
Top(Work()) main;
