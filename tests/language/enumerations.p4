// P4_16 "operations on enum types": equality and assignment; those with an underlying type are numbers too.
#include "include/v1.p4"

enum state_t { idle, busy }

enum bit<4> op_t { add = 1, mul = 5 }

const bit<8> LAST = 7;

header data_t {
    bit<8> a;
    bit<4> code;
    bit<4> next;
    bit<8> r;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        state_t x = state_t.idle;
        if (h.d.a > 3) {
            x = state_t.busy;
        }
        h.d.r = x == state_t.busy ? 8w1 : 0;
        op_t o = (op_t)h.d.code;
        if (o == op_t.mul) {
            h.d.r = h.d.r + 0x10;
        }
        h.d.next = (bit<4>)o + op_t.mul;
        op_t p = op_t.add;
        h.d.r = h.d.r + (bit<8>)(bit<4>)p;
        h.d.a = LAST + 1;
    }
}

#include "include/main.p4"
