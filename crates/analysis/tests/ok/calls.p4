// Overloads, defaults, named and omitted arguments, inference of type arguments.
#include <core.p4>
struct Data { bit<32> a; bit<32> b; }
extern void note(string text);
extern void note<T>(string text, in T data);
extern T choose<T>(in bool which, in T x, in T y);
extern void fill<T>(out T value, in T low, in T high);
extern void optional_one(in bit<8> a, @optional in bit<8> b);
extern Box<T> {
    Box(bit<32> size);
    Box(bit<32> size, T first);
    void put(in T value);
    T get();
    U convert<U>(in T value);
}
bit<8> add(in bit<8> x, in bit<8> y = 5) { return x + y; }
T same<T>(in T x) { return x; }
void swap(inout bit<8> x, inout bit<8> y) { bit<8> t = x; x = y; y = t; }

control Inner(inout bit<8> v)(bit<8> step) {
    apply { v = v + step; }
}
control Plain(inout bit<8> v) { apply { v = 1; } }

control Work(inout bit<8> v, inout Data d) {
    Box<bit<8>>(16) box;
    Box<_>(16, 8w3) guessed;
    Inner(2) two;
    action set(inout bit<8> target, bit<8> value) { target = value; }
    apply {
        note("nothing");
        note("both {} {}", { v, d.a });
        v = add(v);
        v = add(y = 1, x = v);
        v = same(v);
        v = choose(v == 1, 3, v);
        fill(v, 0, 100);
        optional_one(v);
        swap(v, v);
        box.put(4);
        guessed.put(v);
        d.a = box.convert<bit<32>>(v);
        fill(_, d.a, 7);
        two.apply(v);
        Plain.apply(v);
        set(v, 9);
        d.b = (bit<32>) d.minSizeInBits();
    }
}
control C(inout bit<8> v, inout Data d);
package Top(C c);
Top(Work()) main;
