// P4_16 "operations on arbitrary-precision integers": constants of type `int` have any size; division rounds down.
#include "include/v1.p4"

const int TEN = 1 * 2 * 3 * 4 * 5 * 6 * 7 * 8 * 9 * 10;
const int TWENTY = TEN * 11 * 12 * 13 * 14 * 15 * 16 * 17 * 18 * 19 * 20;
const int FACTORIAL = TWENTY * 21 * 22 * 23 * 24 * 25 * 26 * 27 * 28 * 29 * 30;

header data_t {
    bit<32> high;
    bit<32> low;
    bit<8> quotient;
    bit<8> rest;
    int<8> shifted;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        h.d.high = (bit<32>)(FACTORIAL >> 70);
        h.d.low = (bit<32>)(FACTORIAL / 3 % 4294967296);
        h.d.quotient = 1000 / 7;
        h.d.rest = 1000 % 7;
        h.d.shifted = -5 >> 1;
    }
}

#include "include/main.p4"
