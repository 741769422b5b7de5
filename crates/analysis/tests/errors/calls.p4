#include <core.p4>
extern void log(string text);
extern void log<T>(string text, in T data);
extern void f(in bit<32> x, out bit<16> y);
extern T guess<T>();
extern void wide<T>(in T x);
extern Box<T> { Box(bit<32> size); void put(in T value); }
bit<8> one(in bit<8> x) { return x; }
bit<8> again(in bit<8> x) { return again(x); }
bit<8> maybe(in bit<8> x) { if (x == 1) { return 2; } }
control Work(inout bit<32> x, inout bit<16> y) {
    Box(16) unknown;
    Box<bit<8>>() short;
    Box<bit<8>>(x) late;
    Box<bit<8>>(8) box;
    apply {
        f(x);
        f(x, y, 1);
        f(x = x);
        f(x = x, y);
        f(x = x, x = x);
        f(x = x, z = y);
        f(_, y);
        f(x, x);
        log();
        guess();
        wide(5);
        box.get();
        box.putt(1);
        box.put(x);
        one(1).x = 2;
        x = log("a");
        one.apply();
        x();
        verify(true, error.NoError);
    }
}
