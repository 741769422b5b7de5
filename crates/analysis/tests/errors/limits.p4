// Sizes that a hostile or careless program may ask for.
header H { bit<8> f; }
const int SHIFTED = 1 << (1 << 60);
const int HUGE = 1 << 60000;
const int PRODUCT = HUGE * HUGE;
typedef bit<99999999999> Wide;
typedef bit<-1> Narrow;
typedef int<0> Zero;
typedef varbit<40000> Long;
typedef H[-1] NoStack;
typedef H[99999999999] BigStack;
typedef tuple<bit<8>>[4] Array;
typedef tuple<bit<1>, bit<1>, bit<1>, bit<1>, bit<1>, bit<1>, bit<1>, bit<1>> T1;
typedef tuple<T1, T1, T1, T1, T1, T1, T1, T1> T2;
typedef tuple<T2, T2, T2, T2, T2, T2, T2, T2> T3;
typedef tuple<T3, T3, T3, T3, T3, T3, T3, T3> T4;
typedef tuple<T4, T4, T4, T4, T4, T4, T4, T4> T5;
const bit<8> Z = 1 / 0;
const bit<3000> W = 3000w1;
const bit<8> S = (bit<8>) (2048w1 ++ 8w1);
control Work(inout bit<8> x, inout H[4] s) {
    apply {
        x = s[4].f;
        s.push_front(0);
        x = x << 99999999999999999999999;
        x = 5[99999999999:0];
    }
}
