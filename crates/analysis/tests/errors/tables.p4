#include <core.p4>
struct M { bit<8> class; bit<16> kind; }
action elsewhere() {}
control Ingress(inout M m) {
    action drop() {}
    action set_next_hop(bit<8> port) {}
    action bind(inout bit<8> x, bit<8> y) {}
    table ipv4_lpm {
        key = { m.class: exct; m: exact; 5: exact; }
        actions = { set_nexthop; drop; drop; m; bind; }
    }
    table routes {
        key = { m.class: exact; m.kind: lpm; }
        actions = { drop; set_next_hop; bind(m.class); @tableonly elsewhere; }
        default_action = elsewhere();
        const entries = {
            (1, 2): set_next_hop();
            (1, 2, 3): drop;
            1: drop;
            (1 &&& 1, 5): drop;
            (1, 5 &&& 5): drop;
            (1, 1 .. 2): drop;
            (true, 1): drop;
            (1, 2): NoAction;
            (2, 3): bind(m.kind, 1);
            (3, 3): set_next_hop(m.class);
        }
    }
    table twice { actions = { drop; } actions = { drop; } size = 1; size = 2; }
    table none { key = { m.class: exact; } }
    table keyless { actions = { drop; } entries = { 1: drop; } }
    table same { key = { m.class: exact; } actions = { drop; } const entries = { 1: drop; 1: drop; } }
    action apply_table() { routes.apply(); }
    apply {
        switch (routes.apply().action_run) {
            drop: {}
            dropp: {}
            drop: {}
        }
        routes.apply(1);
        routes.lookup();
        if (routes.apply().hits) {}
    }
}
