// v1model: two-rate three-colour meters (RFC 2698), by index and of table entries, in packets and in bytes.
#include "include/v1.p4"

header data_t {
    bit<8> which;
    bit<8> key;
    bit<8> colour;
    bit<8> again;
}

struct headers_t {
    data_t d;
}

struct meta_t {
    bit<2> colour;
}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.d);
        transition accept;
    }
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    meter(4, MeterType.packets) by_packets;
    meter(4, MeterType.bytes) by_bytes;
    direct_meter<bit<2>>(MeterType.packets) of_entries;
    action read() {
        of_entries.read(m.colour);
    }
    action leave() {}
    table metered {
        key = { h.d.key: exact; }
        actions = { read; leave; NoAction; }
        meters = of_entries;
    }
    apply {
        m.colour = 3;
        if (h.d.which == 1) {
            by_packets.execute_meter((bit<32>) h.d.key, h.d.colour);
        } else if (h.d.which == 2) {
            by_bytes.execute_meter((bit<32>) h.d.key, h.d.colour);
        } else {
            metered.apply();
            h.d.colour = (bit<8>) m.colour;
        }
    }
}

control D(packet_out p, in headers_t h) {
    apply {
        p.emit(h.d);
    }
}

#include "include/main.p4"
