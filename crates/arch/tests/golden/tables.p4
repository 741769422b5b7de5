// Tables: kinds of key, entries, priorities, names of action data, defaults, bound arguments, hit, action_run, direct counters.
#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8> a;
    bit<8> b;
}

struct headers_t {
    h_t h;
}

struct metadata_t {
    bit<8> x;
    bool hit;
}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control V(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    direct_counter(CounterType.packets_and_bytes) hits;
    @name("set") action put(inout bit<8> where, bit<8> what) {
        where = what;
        hits.count();
    }
    action out_(@name("egress port") bit<9> port) {
        standard_metadata.egress_spec = port;
    }
    action stop() {
        exit;
    }
    table many {
        key = {
            hdr.h.a : lpm;
            hdr.h.b & 0x0f : ternary @name("low");
            hdr.h.isValid() : exact;
            meta.x : range;
        }
        actions = { put(meta.x); out_; @defaultonly stop; }
        default_action = stop();
        const entries = {
            (0x80 &&& 0x80, 0x1 &&& 0x1, true, 3 .. 9): put(meta.x, 4);
            (_, _, false, _): out_(7);
        }
        counters = hits;
    }
    table few {
        key = { hdr.h.a : ternary; hdr.h.b : optional; }
        actions = { out_; NoAction; }
        largest_priority_wins = false;
        entries = {
            const priority = 10: (1, 2): out_(1);
            priority = 5: (_, _): out_(2);
        }
        size = 16;
    }
    table bmv2 {
        key = { hdr.h.a : ternary; }
        actions = { out_; NoAction; }
        const entries = {
            1: out_(1) @priority(3);
            2: out_(2);
            3: out_(3) @priority[0x1];
            4: out_(4);
        }
    }
    @hidden table keyless {
        actions = { stop; NoAction; }
    }
    apply {
        if (many.apply().hit && keyless.apply().miss) {
            meta.x = 1;
        }
        switch (few.apply().action_run) {
            out_: { meta.x = 2; }
            default: { meta.x = 3; }
        }
        meta.hit = few.apply().hit;
        bmv2.apply();
    }
}

control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {}
}

control C(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control D(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
