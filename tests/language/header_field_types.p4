// P4_16 "header types": fields may be `bool`, `int<W>`, serialisable enums, `type`s and structs of such.
#include "include/v1.p4"

enum bit<4> kind_t { low = 1, high = 9 }

type bit<8> id_t;

struct flags_t {
    bool urgent;
    bit<2> level;
    bool last;
}

header data_t {
    kind_t kind;
    flags_t flags;
    int<8> offset;
    id_t id;
}

#include "include/data.p4"

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        if (h.d.kind == kind_t.low && h.d.flags.urgent) {
            h.d.kind = kind_t.high;
        }
        h.d.flags = { h.d.flags.last, h.d.flags.level + 1, h.d.flags.urgent };
        h.d.offset = -h.d.offset;
        if (h.d.offset < 0) {
            h.d.id = (id_t)((bit<8>)h.d.id + 1);
        }
    }
}

#include "include/main.p4"
