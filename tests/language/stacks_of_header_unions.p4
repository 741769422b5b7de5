// P4_16 "operations on header unions": a stack of unions takes options of any kind in any order.
#include "include/v1.p4"

header end_t {
    bit<8> kind;
}

header short_t {
    bit<8> kind;
    bit<8> value;
}

header long_t {
    bit<8> kind;
    bit<8> length;
    varbit<64> value;
}

header_union option_t {
    end_t end;
    short_t short;
    long_t long;
}

header count_t {
    bit<8> valid;
    bit<8> shorts;
}

struct headers_t {
    option_t[4] options;
    count_t count;
}

struct long_start_t {
    bit<8> kind;
    bit<8> length;
}

struct meta_t {}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        transition select(p.lookahead<bit<8>>()) {
            0: end;
            1: short;
            2: long;
            default: accept;
        }
    }
    state end {
        p.extract(h.options.next.end);
        transition accept;
    }
    state short {
        p.extract(h.options.next.short);
        transition start;
    }
    state long {
        bit<8> length = p.lookahead<long_start_t>().length;
        p.extract(h.options.next.long, (bit<32>)length * 8);
        transition start;
    }
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        h.count = { 0, 0 };
        for (option_t o in h.options) {
            if (o.isValid()) {
                h.count.valid = h.count.valid + 1;
            }
            if (o.short.isValid()) {
                h.count.shorts = h.count.shorts + o.short.value;
            }
        }
        if (h.count.shorts == 3) {
            h.options.pop_front(1);
            h.options[2].short = { 1, 0xFF };
        }
    }
}

control D(packet_out p, in headers_t h) {
    apply {
        p.emit(h);
    }
}

#include "include/main.p4"
