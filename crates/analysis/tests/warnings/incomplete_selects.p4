// Selects with and without a case for every value.
#include <core.p4>
enum kind { one, two, three }
enum bit<2> number { zero = 0, one = 1, two = 2, three = 3 }
header h_t { bit<8> a; bit<2> b; int<6> i; }
struct headers { h_t h; }
parser P(packet_in p, out headers hdr, in kind k, in bool yes, in error e, in bit<8> given) {
    value_set<bit<8>>(4) some;
    state start {
        p.extract(hdr.h);
        transition select(hdr.h.a) { 0x08: bits; 0x81 &&& 0x81: bits; }
    }
    state bits { transition select(hdr.h.b) { 0: signs; 1: both; 2: kinds; 3: accept; } }
    state signs { transition select(hdr.h.i) { -32..3: both; 4..31: signs_again; } }
    state signs_again { transition select(hdr.h.i) { -32..3: both; 5..31: kinds; } }
    state both {
        transition select(hdr.h.b, yes) {
            (0 &&& 1, true): kinds;
            (1 &&& 1, _): kinds_again;
            (_, false): accept;
        }
    }
    state both_again {
        transition select(hdr.h.b,
                          yes) {
            (0 &&& 1, true): kinds;
            (3, _): accept;
            (_, false): accept;
        }
    }
    state kinds { transition select(k) { kind.one: numbers; kind.two: accept; kind.three: reject; } }
    state kinds_again { transition select(k) { kind.one: accept; kind.three: reject; } }
    state numbers {
        transition select((number) hdr.h.b) {
            number.zero: numbers_again; number.one: errors; number.two: errors; number.three: accept;
        }
    }
    state numbers_again { transition select((number) hdr.h.b) { number.zero: accept; number.three: errors; } }
    state errors { transition select(e) { error.NoError: sets; error.NoMatch: accept; } }
    state sets { transition select(hdr.h.a) { some: run_time; } }
    state run_time { transition select(hdr.h.a) { given: halves; 0..127: both_again; 128..255: accept; } }
    state halves { transition select(hdr.h.a, hdr.h.b) { (0..127, 0..1): accept; (0..127, 2..3): accept; (128..255, _): accept; } }
}
parser Parser(packet_in p, out headers hdr, in kind k, in bool yes, in error e, in bit<8> given);
package Top(Parser p);
Top(P()) main;
