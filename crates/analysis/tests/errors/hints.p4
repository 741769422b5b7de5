#include <core.p4>
#include <v1model.p4>
enum bit<8> E { A = 1, B = 2, A = 3 }
control Two(in bit<8> a, out bit<8> b)(bit<8> c, bit<8> d) { apply { b = a; } }
parser strat(packet_in p) { state strat { transition accept; } }
control C(inout bit<8> x, inout standard_metadata_t m) {
    counter(8) one;
    register<bit<8>>() none;
    Two(1) half;
    Two(1, 2, 3) more;
    action set(out bit<8> q) { q = 1; }
    table t {
        key = { x: lmp; }
        actions = { NoAction; }
    }
    apply {
        set(3);
        set(x + 1);
        one.cuont(1);
        hdr = 1;
    }
}
