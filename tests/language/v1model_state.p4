// v1model: counters and registers by index and of table entries; digests leave the packet alone.
#include "include/v1.p4"

header data_t {
    bit<8> which;
    bit<8> key;
    bit<16> value;
}

#include "include/data.p4"

struct learned_t {
    bit<8> key;
    bit<16> value;
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    counter(4, CounterType.packets) packets;
    counter(4, CounterType.packets_and_bytes) both;
    direct_counter(CounterType.packets_and_bytes) hits;
    register<bit<16>>(4) cells;
    register<int<12>>(2) signed_cells;
    action keep() {}
    action count() {
        hits.count();
    }
    table counted {
        key = { h.d.key: exact; }
        actions = { keep; count; NoAction; }
        counters = hits;
        default_action = NoAction;
    }
    apply {
        if (h.d.which == 1) {
            packets.count((bit<32>) h.d.key);
            both.count((bit<32>) h.d.key);
        } else if (h.d.which == 2) {
            counted.apply();
        } else if (h.d.which == 3) {
            bit<16> old;
            @atomic {
                cells.read(old, (bit<32>) h.d.key);
                cells.write((bit<32>) h.d.key, old + h.d.value);
            }
            h.d.value = old;
        } else if (h.d.which == 4) {
            int<12> old;
            signed_cells.read(old, 1);
            signed_cells.write(1, old - 1);
            h.d.value = (bit<16>) (int<16>) old;
        } else if (h.d.which == 5) {
            digest<learned_t>(1, { h.d.key, h.d.value });
            digest(2, h.d.value);
        }
    }
}

#include "include/main.p4"
