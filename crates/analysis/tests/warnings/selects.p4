#include <core.p4>
// Cases that are never reached, selects that decide nothing.
const bool TEST = false;
header h_t { bit<8> a; bit<8> b; int<8> i; }
parser P(packet_in p, out h_t h) {
    state start {
        p.extract(h);
        transition select(h.a, h.b) {
            (1, 2): accept;
            (3, 4): accept;
            default: accept;
        }
    }
    state ranges {
        transition select(h.a) {
            0..10: start;
            11..20: accept;
            5..15: reject;
            20: reject;
            21: reject;
            0x40 &&& 0xc0: accept;
            0x41: start;
            0x41 &&& 0xcf: start;
            default: accept;
        }
    }
    state whole {
        transition select(h.a) {
            0..255: start;
            3: accept;
            _: reject;
        }
    }
    state masks {
        transition select(h.a, h.b) {
            (1, _): start;
            (1, 2): accept;
            (_, 0 &&& 0): accept;
            (3, 4): reject;
        }
    }
    state constant {
        transition select(TEST, h.a) {
            (false, _): whole;
            (true, 3): accept;
            default: reject;
        }
    }
    state never {
        transition select(TEST, h.a) {
            (true, 3): accept;
        }
    }
    state complete {
        transition select(h.a == 1, h.i) {
            (true, -128..127): ranges;
            (false, _): masks;
            default: constant;
        }
    }
}
parser AnyParser(packet_in p, out h_t h);
package Top(AnyParser p);
Top(P()) main;
