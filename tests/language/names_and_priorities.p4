// P4_16 "the error type", "computing control-plane names", "entry priorities", "select expressions": errors used above
// their declaration, key names as p4c writes them, entries of the program against added ones, labels that are known only
// at run time; and what p4c's preprocessor for bmv2 does.
#include "include/v1.p4"
# a comment as scripts have them

#define ACTION(id) action set_ ## id ## (bit<8> v) { h.byte. ## id = v; }

header byte_t {
    bit<8> v;
    bit<8> w;
}

struct headers_t {
    byte_t byte;
}

struct inner_t {
    bit<8> f;
}

struct meta_t {
    @name("ingress_metadata")
    inner_t local;
}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.byte);
        verify(h.byte.v != 0xff, error.Late);
        // a label that is known only at run time
        transition select(h.byte.v) {
            h.byte.w: twins;
            default: accept;
        }
    }
    state twins {
        verify(false, error.Twins);
        transition accept;
    }
}

error {
    Late,
    Twins
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    ACTION(v)
    ACTION(w)
    table named {
        key = {
            m.local.f: exact;
            h.byte.v & 0x0f: exact;
            h.byte.isValid(): exact;
            h.byte.w[3:0]: exact;
        }
        actions = { set_v; NoAction; }
        default_action = NoAction();
    }
    table ranked {
        key = { h.byte.v: ternary; }
        actions = { set_w; }
        entries = {
            priority = 20: 0x20 &&& 0xf0: set_w(2);
            priority = 100: 0x20 &&& 0xff: set_w(1);
        }
        default_action = set_w(0xdd);
        size = 16;
    }
    apply {
        m.local.f = 3;
        named.apply();
        ranked.apply();
#ifndef __TARGET_BMV2__
        set_v(0x99);
#endif
        if (s.parser_error == error.Twins) {
            set_w(0xaa);
        }
        if (s.parser_error == error.Late) {
            set_w(0xee);
        }
    }
}

control D(packet_out p, in headers_t h) {
    apply {
        p.emit(h);
    }
}

#include "include/main.p4"
