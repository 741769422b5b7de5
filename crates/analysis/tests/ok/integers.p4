// `int` from values that are known only at run time, and from constants of fixed width.
#include <core.p4>
const int three = 2w3;
const bool yes = (bool) three[0:0];
const tuple<int, bool> pair = { 8w7, true };
type bit<10> Vrf;
const Vrf none = 0;
enum bit<4> Steps { one = 1, two = one + 1, again = two }
extern Store { Store(int size); void put(int index, in bit<8> value); }

control Inner(int step, inout bit<8> x) {
    apply {
        if (x == step) x = step + 8w1;
        x = (bit<8>)(step * 2);
    }
}
control Work(inout bit<8> x, inout int<16> y, in Steps s, inout Vrf vrf) {
    Store(16w64) store;
    Inner() inner;
    action keep(bit<4> index) { store.put(index, x); }
    apply {
        x = (bit<8>)((int) x + 1);
        y = (int<16>)(-(int) x * (int) y - 70000);
        x = (bit<8>)(((int) y << 3) >> 1);
        if ((int) x + 1 > (int) y) x = 0;
        inner.apply(5, x);
        keep(3);
        vrf = 5;
        if (vrf == none) y = (int<16>)(x == 1 ? (int) y : 7);
    }
}
