// v1model: hash leaves out the fields of invalid headers, as bmv2 does, but not what is computed from them.
#include "include/v1.p4"

header data_t {
    bit<8> which;
    bit<8> present;
    bit<40> first;
    bit<32> last;
    bit<64> result;
}

header byte_t {
    bit<8> x;
}

header odd_t {
    bit<3> a;
    bit<21> b;
}

header_union either_t {
    byte_t byte;
    odd_t odd;
}

struct headers_t {
    data_t d;
    byte_t o;
    odd_t p;
    either_t u;
    byte_t[2] s;
}

struct meta_t {}

struct whole_t {
    bit<40> first;
    odd_t p;
    bit<32> last;
}

// The bits of `present`, from the right: o, p, an element of the stack, the second member of the union.
parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.d);
        transition select(h.d.present[0:0]) {
            1: byte;
            _: after_byte;
        }
    }
    state byte {
        p.extract(h.o);
        transition after_byte;
    }
    state after_byte {
        transition select(h.d.present[1:1]) {
            1: odd;
            _: after_odd;
        }
    }
    state odd {
        p.extract(h.p);
        transition after_odd;
    }
    state after_odd {
        transition select(h.d.present[2:2]) {
            1: element;
            _: after_element;
        }
    }
    state element {
        p.extract(h.s.next);
        transition after_element;
    }
    state after_element {
        transition select(h.d.present[3:3]) {
            1: member;
            _: accept;
        }
    }
    state member {
        p.extract(h.u.odd);
        transition accept;
    }
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        bit<128> all = 0x10000000000000000;
        byte_t local;
        switch (h.d.which) {
            1: {
                hash(h.d.result, HashAlgorithm.crc32, 64w0,
                     { h.d.first, h.o.x, h.p.a, h.p.b, h.d.last }, all);
            }
            2: {
                hash(h.d.result, HashAlgorithm.crc16, 64w0,
                     { h.d.first, h.o.x, h.p.a, h.p.b, h.d.last }, all);
            }
            3: {
                hash(h.d.result, HashAlgorithm.csum16, 64w0,
                     { h.d.first, h.o.x, h.p.a, h.p.b, h.d.last }, all);
            }
            4: {
                hash(h.d.result, HashAlgorithm.xor16, 64w0,
                     { h.d.first, h.o.x, h.p.a, h.p.b, h.d.last }, all);
            }
            5: {
                hash(h.d.result, HashAlgorithm.identity, 64w0,
                     { h.d.first, h.o.x, h.p.a, h.p.b, h.d.last }, all);
            }
            6: {
                hash(h.d.result, HashAlgorithm.crc32_custom, 64w0,
                     { h.d.first, h.o.x, h.p.a, h.p.b, h.d.last }, all);
            }
            7: {
                hash(h.d.result, HashAlgorithm.crc16_custom, 64w0,
                     { h.d.first, h.o.x, h.p.a, h.p.b, h.d.last }, all);
            }
            // Only one bit field, so that what follows it is no longer on a byte boundary.
            8: { hash(h.d.result, HashAlgorithm.identity, 64w0, { h.p.a, h.d.first }, all); }
            // What is written to an invalid header is there but does not count.
            9: {
                h.o.x = 0xaa;
                hash(h.d.result, HashAlgorithm.crc32, 64w0, { h.d.first, h.o.x, h.d.last }, all);
            }
            // Computed: counts.
            10: {
                h.o.x = 0x41;
                hash(h.d.result, HashAlgorithm.identity, 64w0,
                     { h.o.x + 1, h.o.x[3:0], (bit<12>) h.o.x, h.d.first }, all);
            }
            // Headers as wholes, in a list, in a struct, in a stack, in a union.
            11: { hash(h.d.result, HashAlgorithm.crc32, 64w0, { h.d.first, h.p, h.d.last }, all); }
            12: {
                whole_t w = { h.d.first, h.p, h.d.last };
                hash(h.d.result, HashAlgorithm.crc32, 64w0, w, all);
            }
            13: {
                hash(h.d.result, HashAlgorithm.crc32, 64w0,
                     { h.d.first, h.s[0].x, h.s[1].x, h.d.last }, all);
            }
            14: {
                hash(h.d.result, HashAlgorithm.crc32, 64w0,
                     { h.d.first, h.u.byte.x, h.u.odd, h.d.last }, all);
            }
            // Variables.
            15: { hash(h.d.result, HashAlgorithm.crc32, 64w0, { h.d.first, local.x, h.d.last }, all); }
            16: {
                local = { 0x2d };
                hash(h.d.result, HashAlgorithm.crc32, 64w0, { h.d.first, local.x, h.d.last }, all);
            }
            // Nothing is left.
            17: { hash(h.d.result, HashAlgorithm.csum16, 64w0, { h.o.x }, all); }
        }
    }
}

control D(packet_out p, in headers_t h) {
    apply {
        p.emit(h.d);
    }
}

#include "include/main.p4"
