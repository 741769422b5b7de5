// P4_16 "unsigned integers": bit<0> has no bits and only the value 0. It may be a field, element, variable, parameter, result,
// operand and select key.
#include "include/v1.p4"

typedef bit<0> none_t;

type bit<0> nothing_t;

enum bit<0> only_t { one = 0 }

struct pair_t {
    bit<0> a;
    bit<4> b;
}

header data_t {
    bit<0> first;
    bit<8> a;
    nothing_t middle;
    pair_t pair;
    bit<0>[2] array;
    bit<4> b;
    only_t last;
}

header marker_t {
    bit<0> only;
}

struct headers_t {
    data_t[2] d;
    marker_t m;
}

struct meta_t {
    none_t none;
    bit<0>[3] many;
    bit<8> sum;
}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.d.next);
        pair_t ahead = p.lookahead<pair_t>();
        m.none = p.lookahead<bit<0>>();
        m.sum = (bit<8>)ahead.b;
        transition select(h.d.last.first, h.d.last.a, m.none) {
            (0, 0x10, 0 &&& 0): more;
            (_, 0x20, 0 .. 0): accept;
            default: reject;
        }
    }
    state more {
        p.extract(h.d.next);
        p.extract(h.m);
        transition select(m.none) {
            0: accept;
            default: reject;
        }
    }
}

bit<0> twice(in bit<0> x, inout bit<0> y, out bit<0> z) {
    y = x + y;
    z = ~x;
    return x * y;
}

bit<8> counted(inout bit<8> n) {
    n = n + 1;
    return n;
}

T same<T>(in T x) {
    return x;
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    action with(in bit<0> y, inout bit<8> r, bit<0> x) {
        r = r + (bit<8>)x + (bit<8>)y + 1;
    }

    apply {
        bit<8> r = 0;
        bit<0> z = 0;
        bit<0> w = (bit<0>)h.d[0].a;
        h.d[0].first = twice(w, z, m.none);
        h.d[0].middle = (nothing_t)h.d[0].first;
        h.d[0].pair = { w, h.d[0].pair.b + (bit<4>)z };
        h.d[0].array[1] = -w;
        m.many[h.d[0].a] = m.many[1] |+| w;

        // Comparisons.
        if (w == 0 && z == m.none && !(w < z) && w <= z && !(w > z) && w >= z && !(w != z)) {
            r = r + 1;
        }
        // Concatenation with nothing, and shifts by and of it.
        r = r + (w ++ h.d[0].b ++ z ++ h.d[0].pair.b ++ (w ++ z));
        r = (r << w) + (r >> z) - r;
        z = z << r;
        z = z | (w & ~z) ^ z;
        // A conversion has no bits, but its operand is evaluated.
        bit<8> n = 0;
        z = (bit<0>)counted(n);
        z = s.ingress_port == 0 ? (bit<0>)counted(n) : w;
        r = r + (n << 4);
        with(w, r, 0);
        // Structs and headers are equal regardless of such fields; a hash has no bits of them.
        pair_t pair = { 0, h.d[0].pair.b };
        if (pair == h.d[0].pair && same(w) == same(z) && { 4w1, w } == { 4w1, z }) {
            r = r + 1;
        }
        bit<16> one;
        bit<16> other;
        hash(one, HashAlgorithm.crc16, 16w0, { w, h.d[0].a, z }, 32w0x10000);
        hash(other, HashAlgorithm.crc16, 16w0, { h.d[0].a }, 32w0x10000);
        if (one == other) {
            r = r + 1;
        }
        switch (w) {
            0: { r = r + 1; }
            default: { r = 0; }
        }
        for (bit<0> i in (list<bit<0>>){ 0, 0 }) {
            r = r + (bit<8>)i + 1;
        }
        h.d[w].a = r;
        if (h.m.isValid()) {
            // An element at a run-time index.
            h.d[m.sum - 1].first = 0;
            h.d[m.sum - 1].a = h.d[m.sum - 1].a + (bit<8>)h.d[m.sum - 1].first + (bit<8>)h.d[m.sum - 1].array[n];
        }
    }
}

control D(packet_out p, in headers_t h) {
    apply {
        p.emit(h);
    }
}

#include "include/main.p4"
