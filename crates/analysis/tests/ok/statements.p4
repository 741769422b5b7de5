// switch on values, loops, compound assignment, scopes.
enum bit<4> E { one = 1, two = 2 }
header H { bit<8> f; }
control Work(inout bit<8> x, inout E e, inout H[3] s) {
    bit<8> local = x;
    apply {
        switch (x) {
            1:
            2: { x = 10; }
            0x30: { x = 20; }
            default: { x = 0; }
        }
        switch (e) {
            E.one: {}
            E.two: { x += 1; }
        }
        for (bit<8> i = 0; i < 4; i = i + 1) {
            if (i == 2) continue;
            x = x + i;
        }
        for (bit<8> i in 1 .. 3) { x ^= i; }
        for (H h in s) { x = x + h.f; if (x > 100) break; }
        for (bit<8> n in { 1, 2, 3 }) x |= n;
        @atomic { bit<8> local = 1; x <<= local; }
        x = local;
        x[3:0] += 1;
        return;
    }
}
control C(inout bit<8> x, inout E e, inout H[3] s);
package Top(C c);
Top(Work()) main;
