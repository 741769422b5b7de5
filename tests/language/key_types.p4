// P4_16 "keys": keys of `bool`, enums, errors, signed integers, `type`s, slices and validity.
#include "include/v1.p4"

enum color_t { red, green, blue }

enum bit<8> kind_t { one = 1 }

type bit<8> id_t;

header data_t {
    bit<8> a;
    int<8> b;
    id_t id;
    bit<8> r;
}

struct headers_t {
    data_t d;
    data_t e;
}

struct meta_t {}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.d);
        transition accept;
    }
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    color_t color = color_t.green;
    action set(bit<8> v) {
        h.d.r = v;
    }
    table t {
        key = {
            h.d.a == 7 : exact @name("seven");
            color : exact @name("color");
            s.parser_error : exact @name("error");
            h.d.b : ternary;
            h.d.id : optional;
            h.d.a[3:0] : lpm @name("low");
            h.e.isValid() : exact;
            (kind_t)h.d.a : exact @name("kind");
        }
        actions = {
            set;
        }
        default_action = set(0xEE);
        const entries = {
            (true, color_t.green, error.NoError, -1 &&& 0x0F, _, _, false, (kind_t)7) : set(1);
            (true, color_t.green, error.NoError, _, 9, 7, false, (kind_t)7) : set(2);
            (false, color_t.green, error.NoError, _, _, 0x0 &&& 0xC, false, kind_t.one) : set(3);
        }
    }
    apply {
        t.apply();
    }
}

control D(packet_out p, in headers_t h) {
    apply {
        p.emit(h.d);
    }
}

#include "include/main.p4"
