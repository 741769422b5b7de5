// Statements and blocks.
extern Reg<T> { Reg(bit<32> n); }
header H { bit<8> f; }
control Inner(inout H h) { apply {} }

control Main(inout H h, in bit<8> n)(int size) {
    bit<8> x;
    bit<8> y = 3;
    @name("r") Reg<bit<8>>(4) reg;
    const bit<8> K = 1;
    Inner() inner;
    H[2] stack;
    H old_style[2];
    unknown_t z;

    action a(in bit<8> p, bit<8> data) {
        x = p;
        exit;
    }
    apply {
        bit<8> v = 1;
        const bit<8> W = 2;
        H local;
        H[3] many;
        if (x == 1) y = 2;
        if (x == 1) { y = 2; } else y = 3;
        if (x == 1) { } else if (x == 2) { return; } else { exit; }
        if (a) if (b) c = 1; else c = 2;
        @atomic { x = 1; }
        { }
        ;
        x += 1; x -= 1; x *= 2; x /= 2; x %= 3; x |+|= 1; x |-|= 1;
        x <<= 1; x >>= 1; x &= 1; x |= 1; x ^= 1;
        h.f[3:0] = 4w1;
        (x) = 1;
        stack[0].f = 1;
        .global.f = 1;
        h.setValid();
        inner.apply(h);
        Inner.apply(h);
        Reg<bit<8>>.apply(h);
        t<bit<8>>(x);
        Unknown<bit<8>> u;
        unknown_t w = 1;
        switch (t.apply().action_run) {
            a: { x = 1; }
            b:
            .d: @inline { x = 2; }
            default: { }
        }
        switch (x + 1) {
            8w1: 8w2: { }
            (bit<8>) 3: { }
        }
        for (bit<8> i = 0, bit<8> j = 1; i < n; i = i + 1, j += 1) { continue; }
        for (;x < 3;) break;
        for (x = 1; x < 3; ) { }
        for (bit<8> i in 1 .. n + 1) x = i;
        @unroll for (@tag H e in stack) { e.f = 1; }
        return;
    }
}

control tables(inout H h) {
    action hit(bit<8> d) {}
    @name(".t") table t {
        key = {
            h.f : exact @name("f") @refers_to(a, b);
            h.f & 3 == 1 ? 8w1 : 8w2 : ternary;
            h.isValid() : optional;
        }
        actions = { hit; @defaultonly .NoAction; hit(x); miss(); }
        const default_action = hit(3);
        size = 1 << 10;
        @hidden implementation = Reg<bit<8>>(4);
        const entries = {
            1 : hit(1);
            (1, 2) : hit(2) @note("x");
            (_, default, 1 &&& 3, 1 .. 4) : hit(3);
            const priority = 10 : (8w1 &&& 8w3) : hit(4);
            priority = (K + 1) : _ : .hit(5);
            (1 + 2) * 3 : hit(6);
            (bit<8>) 3 : hit(7);
            ((bit<8>) 3, E.A) : hit(7);
            (a).b[1:0] &&& 2 : hit(8);
            priority + 1 : hit(9);
        }
        entries = { }
        key_like = { 1, 2 };
    }
    table empty { }
    apply { t.apply(); }
}

parser P(packet_in pkt, out H h) {
    value_set<bit<8>>(4) vs;
    @size(3) value_set<tuple<bit<8>, H>>(n + 1) vs2;
    bit<8> x = 1;
    state start {
        bit<8> y;
        const bit<8> K = 2;
        pkt.extract(h);
        pkt.extract<H>(h, (bit<32>) y);
        { x = y; }
        if (x == 1) { x = 2; }
        transition select(h.f, pkt.lookahead<bit<8>>()) {
            (1, 2): accept;
            (1 .. 3, _): reject;
            vs: next;
            default: start;
        }
    }
    @named state next { transition select(h.f) { 0x10 &&& 0xF0: last; _: reject; } }
    state last { transition accept; }
    state state { x = 1; }
}
