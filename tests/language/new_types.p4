// P4_16 "operations on types introduced by `type`": equality and assignment; numbers only after a cast.
#include "include/v1.p4"

type bit<8> port_t;

header data_t {
    port_t port;
    bit<8> v;
    bit<8> same;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    action set(port_t to) {
        h.d.port = to;
    }
    table t {
        key = {
            h.d.port : exact;
        }
        actions = {
            set;
            NoAction;
        }
        default_action = NoAction;
    }

    apply {
        port_t p = (port_t)9;
        h.d.same = h.d.port == p ? 8w1 : 0;
        h.d.v = (bit<8>)h.d.port + 1;
        t.apply();
    }
}

#include "include/main.p4"
