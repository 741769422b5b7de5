// Parsers and controls: what they may take, where they may stand, whether they end.
#include <core.p4>
parser P(in bit<8> x);
control X();
control A() { apply {} }
control NeedsType()(A a) { apply {} }
control Takes(X x) { apply {} }
control TypeIsFine()(X x) { apply {} }
parser Sub(in bit<8> x, P p) { state start { transition accept; } }
extern Self { void use(Self other); }
bit<8> value() { return 1; }
T same<T>(T x) { return x; }
parser Round(in bit<8> x) {
    state start { transition one; }
    state one { transition select(x) { 1: one; default: two; } }
    state two { transition one; }
}
parser Falls(in bit<8> x) {
    state start { transition select(x) { 1: start; } }
}
parser Calls(in bit<8> x) {
    state start {
        bit<8> x = x;
        transition select(x) { value(): accept; default: reject; }
    }
}
control Inside(inout bit<8> x) {
    apply {
        A() a;
        bit<8> x = 1;
        bit<8> y = same(255);
        { bit<8> y = 2; x = y; }
    }
}
struct M {}
control Generic<H, M>(inout H h, inout M m);
control Nothing<H>(inout H h, inout M m) { apply {} }
package Needs<H, M>(Generic<H, M> g = Nothing<H>());
Needs() open;
Needs<_, _>() told;
