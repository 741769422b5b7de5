// Arrays of anything that has a fixed size, in headers too; arrays of arrays; arrays of objects.
#include <core.p4>
struct Pair { bit<4> a; bit<4> b; }
header H { bit<8>[4] bytes; Pair[2] pairs; bit<2> i; bit<6> rest; }
struct Grid { bit<8>[3][2] cells; error[2] codes; bool[2] flags; }
extern Cell<T> { Cell(T first); T read(); void write(in T value); }

control Work(inout H h, inout Grid g, out bit<32> size) {
    Cell<bit<8>>(1) typed[4];
    Cell(8w2) inferred[2][2];
    action fill(bit<8>[2] data) { g.cells[0][1] = data[0]; }
    table t { actions = { fill; NoAction; } default_action = fill(...); }
    apply {
        h.bytes[h.i] = h.bytes[3] + 1;
        h.pairs[1].a = h.pairs[0].b;
        bit<8>[4] copy = h.bytes;
        h.bytes = { 1, 2, 3, 4 };
        if (copy == h.bytes) g.cells[1] = { 7, 8, 9 };
        g.codes[0] = error.NoMatch;
        for (bit<8> x in copy) { g.cells[1][2] = g.cells[1][2] ^ x; }
        size = copy.size;
        typed[h.i].write(inferred[1][0].read());
        t.apply();
        H[0] none;
        size = size + none[0].minSizeInBits();
    }
}
