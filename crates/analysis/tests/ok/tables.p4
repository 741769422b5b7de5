// Keys and their names, bound and free action parameters, entries, priorities, properties.
#include <core.p4>
#include <v1model.p4>
header Eth { bit<48> dst; bit<48> src; bit<16> kind; }
struct Headers { Eth eth; Eth[2] stack; }
struct Meta { bit<8> class; bool flag; }

control Work(inout Headers hdr, inout Meta meta, inout standard_metadata_t std) {
    const bit<8> FIRST = 0;
    direct_counter(CounterType.packets) hits;
    action drop() { mark_to_drop(std); }
    @name(".forward")
    action send(@name("egress port") bit<9> port) { std.egress_spec = port; }
    action mark(inout bit<8> what, bit<8> value) { what = value; }
    @name("l2")
    table switching {
        key = {
            hdr.eth.dst: exact;
            hdr.eth.isValid(): exact;
            hdr.stack[FIRST].kind[11:4]: ternary;
            meta.class & 0x0f: ternary;
            meta.flag: exact @name("the_flag");
        }
        actions = { send; mark(meta.class); @defaultonly drop; }
        const default_action = drop();
        size = 1 << 10;
        counters = hits;
        support_timeout = true;
        entries = {
            const priority = 10: (1, true, 0x10 &&& 0xf0, _, true): send(1);
            (2, false, 0x20, 3, false): mark(4);
            priority = 100: _: mark(meta.class, 5);
        }
    }
    table routes {
        key = { hdr.eth.src: lpm; std.ingress_port: range; meta.class: optional; }
        actions = { send; }
        const entries = {
            (0xff0000000000 &&& 0xff0000000000, 1 .. 5, 7): send(3);
            (_, 7, _): send(port = 4) @priority(1);
        }
        implementation = action_profile(32);
    }
    table bare { actions = { drop; NoAction; } }
    apply {
        if (switching.apply().hit) { bare.apply(); }
        switch (routes.apply().action_run) {
            send: { meta.class = 1; }
            NoAction:
            default: { exit; }
        }
        if (!bare.apply().miss) { return; }
    }
}
control C(inout Headers hdr, inout Meta meta, inout standard_metadata_t std);
package Top(C c);
Top(Work()) main;
