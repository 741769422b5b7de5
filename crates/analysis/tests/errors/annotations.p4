// Annotations that do not say what they should.
#include <core.p4>
extern Thing { Thing(); }
Thing() thing;
@pair[a = 1, b = "two"] @pair[a = 2] const bit<8> c1 = 1;
@mixed(3) @mixed[4] const bit<8> c2 = 1;
@many(3) @many(4) const bit<8> c3 = 1;
@twice[a = 1, a = 2] const bit<8> c4 = 1;
@bad[{ 2, 3 }] const bit<8> c5 = 1;
@bad[thing == thing] const bit<8> c6 = 1;
@bad[1 + 1, "a" ++ "b", true] const bit<8> c7 = 1;
@name(4) void f() {}
@deprecated("a" | "b") void g() {}
@p4runtime_translation("uri", bool) type bit<8> N1;
@p4runtime_translation("uri", bit<8>) type bit<8> N2;
@p4runtime_translation("uri", 8) type bit<8> N3;
@p4runtime_translation("uri", string) type bit<8> N4;
@p4runtime_translation(8) type bit<8> N5;
@pkginfo const bit<8> c8 = 1;
struct Keys { @match(ternary) bit<8> a; @match(1 + 1) bit<8> b; @match(prefix) bit<8> c; }
header H { bit<8> size1; @length(size1) varbit<8> a; @length(size2) varbit<8> b; bit<8> size2; }
