// P4_16 "switch statement with integer or enumerated type expression": labels fall through to the next block; nothing
// matching and no default does nothing.
#include "include/v1.p4"

enum color_t { red, green, blue }

enum bit<8> kind_t { one = 1, three = 3 }

header data_t {
    bit<8> a;
    bit<8> r;
    bit<8> e;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        switch (h.d.a) {
            1: { h.d.r = 0x10; }
            2:
            3: { h.d.r = 0x23; }
            default: { h.d.r = 0xFF; }
        }
        color_t c = color_t.red;
        if (h.d.a == 2) {
            c = color_t.green;
        } else if (h.d.a == 3) {
            c = color_t.blue;
        }
        switch (c) {
            color_t.green: { h.d.e = 1; }
            color_t.blue: { h.d.e = 2; }
        }
        switch ((kind_t)h.d.a) {
            kind_t.one: { h.d.e = h.d.e + 0x10; }
            kind_t.three: { h.d.e = h.d.e + 0x30; }
        }
    }
}

#include "include/main.p4"
