// Arrays have elements and a size, and no more; not everything can be in one.
#include <core.p4>
header H { bit<8> x; }
extern Cell { Cell(); }
typedef tuple<bit<8>>[2] Tuples;
typedef string[2] Texts;
typedef H[2][2] Stacks;
header Bad { error[2] codes; }
control Work(inout bit<8>[4] bytes, inout H[4] stack) {
    Cell() cells[2];
    apply {
        bytes[4] = 1;
        bytes.next = 1;
        bytes.push_front(1);
        bytes = { 1, 2 };
        bytes = stack;
        Cell[2] more;
        cells = cells;
        bit<8>[-1] none;
    }
}
