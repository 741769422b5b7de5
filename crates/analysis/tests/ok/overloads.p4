// Controls and packages that share a name; factories; optional abstract methods and parameters.
#include <core.p4>
extern Widget<T> { }
extern Widget<T> make<T, U>(T a, U b);
enum Kind { plain, hashed }
@pure extern Kind choose(bool fast);
extern Engine<W> { Engine(Kind kind); W run<D>(in D data); }
extern Stack<T> {
    Stack(bit<32> size);
    bit<8> push();
    abstract void step(inout T value, @optional out bit<8> result);
    @optional abstract void overflow(@optional inout T value);
}
control Add(inout bit<32> x)(bit<32> a) { apply { x = x + a; } }
control Add(inout bit<32> x)(bit<32> b, bit<32> c) { apply { x = x + b + c; } }
control Part(inout bit<32> x)(Widget<bit<8>> w) { apply {} }
control Work(inout bit<32> x) {
    Add(1) first;
    Add(c = 2, b = 3) second;
    Part(make(8w1, true)) part;
    Stack<bit<16>>(4) stack = { void step(inout bit<16> value) { value = value + 1; } };
    apply {
        first.apply(x);
        second.apply(x);
        part.apply(x);
        x = Engine<bit<32>>(choose(true)).run({ x, stack.push() });
    }
}
control C(inout bit<32> x);
package Top(C only);
package Top(C left, C right);
void main() {}
Top(Work()) one;
Top(right = Work(), left = Work()) two;
