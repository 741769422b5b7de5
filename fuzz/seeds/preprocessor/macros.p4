#include <core.p4>
#include "twice.p4"
#define A 3
#define B A
#define F(x) (x + B)
#define G(x, y) x##y #x
#if defined(A) && (A << 2) / 3 >= 4 || !B
const bit<8> a = F(F(1));
#elif A % 2 == 1
#error "odd"
#else
const bit<8> b = G(1, 2);
#endif
#ifndef A
#undef B
#else
@pragma x y
const bit<32> l = __LINE__ + \
    B;
#endif
#pragma name value
