// { … }, { k = v }, `...`, `{#}`, and constants made of them.
enum Colour { red, green }
struct Pair { bit<8> a; bit<16> b; }
struct Big { Pair p; Colour c; bool ok; }
header H { bit<8> f; bit<8> g; }
header_union U { H one; H two; }
const Pair P = { 1, 2 };
const Big B = { p = P, ... };
const tuple<bit<8>, bool> T = { 3, true };

control Work(inout Big b, inout H h, inout H[2] s, inout U u) {
    apply {
        b = { { 1, 2 }, Colour.green, true };
        b.p = { b = 4, a = 3 };
        b = ...;
        b = B;
        b.p.b = B.p.b + P.b;
        b.p.a = T[0];
        h = { 1, 2 };
        h = { g = 9, ... };
        h = {#};
        if (h == {#}) { h = (H) { f = 1, g = 2 }; }
        s = { { 1, 2 }, ... };
        u.one = { 1, 2 };
        b.ok = b.p == { 1, 2 };
        tuple<bit<8>, bool> t = { 1, b.ok };
        b.ok = t[1];
    }
}
control C(inout Big b, inout H h, inout H[2] s, inout U u);
package Top(C c);
Top(Work()) main;
