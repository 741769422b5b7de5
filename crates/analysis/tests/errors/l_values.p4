#include <core.p4>
const bit<8> K = 1;
extern void give(out bit<8> x);
control Work(in bit<8> i, inout bit<8> io, bit<8> none)(bit<8> ctor) {
    action data(bit<8> d) { d = 1; }
    table t { key = { io: exact; } actions = { data; } }
    apply {
        i = 1;
        none = 1;
        ctor = 1;
        K = 1;
        give(i);
        give(io + 1);
        give(io[3:0]);
    }
}
