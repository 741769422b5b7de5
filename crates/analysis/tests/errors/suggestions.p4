// A mistyped name of each kind.
#include <core.p4>
#include <v1model.p4>
enum Colour { Red, Green }
enum bit<8> Proto { Tcp = 6, Udp = 17 }
error { BadVersion }
typedef bit<32> ip_t;
header ipv4_t { bit<8> ttl; ip_t srcAddr; ip_t dstAdr; ipt lost; }
struct headers { ipv4_t ipv4; ipv4_t[2] stack; }
struct pair_t { bit<8> first; bit<8> second; }
bit<8> helper(in bit<8> value, in bit<8> extra) { return value + extra; }
parser P(packet_in pkt, out headers hdr) {
    value_set<bit<8>>(4) known;
    state start {
        pkt.extrat(hdr.ipv4);
        pkt.extract(hdr.stack.nxt);
        transition select(hdr.ipv4.ttl) { knwon: next_on; default: reject; }
    }
    state next_one { transition accept; }
}
control Sub(inout headers hdr)(bit<8> number) { apply { hdr.ipv.ttl = number; } }
control I(inout headers hdr, inout standard_metadata_t sm) {
    counter(16, CounterType.packet) hits;
    Sub(numbr = 8w3) sub;
    Sub(8w3) other;
    action forward(bit<9> port) { sm.egres_spec = port; mark_to_drp(sm); }
    table routes {
        key = { hdr.ipv4.srcAddr : lmp; }
        actions = { foward; forward; NoAction; }
        default_action = noAction();
        const entries = { _ : forwrd(3); }
    }
    table other_routes { actions = { forward; } default_acton = forward(1); }
    apply {
        bit<8> x = helper(value = 1, extar = 2);
        x = helpr(1, 2);
        Colour c = Colour.Rde;
        c = Color.Red;
        x = (bit<8>) Proto.Tpc;
        pair_t p = { first = 1, secnd = 2 };
        hits.cuont(1);
        other.aply(hdr);
        router.apply();
        routes.aply();
        if (routes.apply().hti) { x = 1; }
        switch (routes.apply().action_run) { foward: { x = 2; } }
        if (hdr.ipv4.isvalid() && sm.parser_error == error.BadVerison) { x = p.frist; }
    }
}
