// v1model: each hash algorithm, over the nine digits for which its check value is known.
#include "include/v1.p4"

header data_t {
    bit<8> which;
    bit<72> digits;
    bit<32> result;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        bit<64> all = 0x100000000;
        switch (h.d.which) {
            1: { hash(h.d.result, HashAlgorithm.crc32, 32w0, { h.d.digits }, all); }
            2: { hash(h.d.result, HashAlgorithm.crc16, 32w0, { h.d.digits }, all); }
            3: { hash(h.d.result, HashAlgorithm.csum16, 32w0, { h.d.digits }, all); }
            4: { hash(h.d.result, HashAlgorithm.xor16, 32w0, { h.d.digits }, all); }
            5: { hash(h.d.result, HashAlgorithm.identity, 32w0, { h.d.digits[31:0] }, all); }
            6: { hash(h.d.result, HashAlgorithm.crc32_custom, 32w0, { h.d.digits }, all); }
            7: { hash(h.d.result, HashAlgorithm.crc16_custom, 32w0, { h.d.digits }, all); }
            // base + hash modulo max
            8: { hash(h.d.result, HashAlgorithm.crc16, 32w100, { h.d.digits }, 64w1000); }
            9: { hash(h.d.result, HashAlgorithm.crc16, 32w100, { h.d.digits }, 64w0); }
            10: { random(h.d.result, 32w77, 32w77); }
            11: { random(h.d.result, 32w4, 32w5); h.d.result = h.d.result >> 1; }
        }
    }
}

#include "include/main.p4"
