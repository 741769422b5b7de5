// Generic structs, headers, controls; abstract methods; `this`; default and optional package arguments.
#include <core.p4>
header Wrap<T> { bit<8> tag; T value; }
struct Two<A, B> { A first; B second; }
typedef Two<bit<8>, bit<16>> Small;
extern Balancer {
    Balancer(bit<32> n);
    bit<32> count();
    abstract bit<4> pick(in bit<32> address);
}
control Gen<T>(inout T v) { apply {} }
control Work(inout Small s, inout Wrap<bit<16>> w) {
    Gen<bit<8>>() gen;
    Balancer(4) balancer = {
        bit<4> pick(in bit<32> address) { return (address + this.count())[3:0]; }
    };
    apply {
        s = { 1, 2 };
        s.second = w.value;
        w = { tag = 1, value = s.second };
        gen.apply(s.first);
        Two<bool, Small> t = { true, s };
        if (t.first) { s = t.second; }
        bit<4> x = balancer.pick(5);
    }
}
control C<A, B>(inout A a, inout B b);
control Nothing(inout bit<1> x) { apply {} }
control D(inout bit<1> x);
package Top<A, B>(C<A, B> c, D d = Nothing(), @optional D e);
Top(Work()) main;
