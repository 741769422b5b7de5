// P4_16 "for statement": three clauses, ranges and lists; `break` and `continue` work on the innermost loop.
#include "include/v1.p4"

header data_t {
    bit<8> n;
    bit<8> sum;
    bit<8> odd;
    bit<8> product;
    bit<8> listed;
    bit<8> last;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        for (bit<8> i = 0; i < h.d.n; i = i + 1) {
            h.d.sum = h.d.sum + i;
        }
        for (bit<8> i in 1 .. h.d.n) {
            if (i[0:0] == 0) {
                continue;
            }
            if (i > 7) {
                break;
            }
            for (bit<8> j in 0 .. 3) {
                if (j == 2) {
                    break;
                }
                h.d.odd = h.d.odd + i;
            }
        }
        h.d.product = 1;
        for (bit<8> i = 1, bit<8> j = 3; i != j; i = i + 1) {
            h.d.product = h.d.product * (i + j);
        }
        for (bit<8> x in (list<bit<8>>){ 3, 5, 9 }) {
            h.d.listed = (h.d.listed << 2) ^ x;
        }
        for (bit<8> i in 250 .. 255) {
            h.d.last = i;
        }
    }
}

#include "include/main.p4"
