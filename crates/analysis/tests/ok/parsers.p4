// States, selects, value sets, stacks, sub-parsers.
#include <core.p4>
header Eth { bit<48> dst; bit<16> kind; }
header Label { bit<20> label; bit<1> bottom; }
header Opt { bit<8> len; varbit<64> data; }
struct Headers { Eth eth; Label[3] labels; Opt opt; }
struct Pair { bit<16> kind; @match(ternary) bit<48> dst; }

parser Sub(packet_in p, inout Headers h) {
    state start {
        p.extract(h.opt, (bit<32>) p.lookahead<bit<8>>() * 8 - 8);
    }
}
parser Work(packet_in p, out Headers h) {
    value_set<bit<16>>(4) kinds;
    value_set<Pair>(8) pairs;
    Sub() sub;
    bit<8> seen = 0;
    state start {
        p.extract(h.eth);
        transition select(h.eth.kind) {
            0x0800: accept;
            kinds: more;
            0x8847 &&& 0xfffe: labels;
            1 .. 9: reject;
            default: last;
        }
    }
    state labels {
        p.extract(h.labels.next);
        seen = seen + 1;
        verify(seen < 3, error.StackOutOfBounds);
        transition select(h.labels.last.bottom, h.labels.lastIndex) {
            (1, _): more;
            (0, 0 .. 1): labels;
        }
    }
    state more {
        transition select(h.eth.kind, h.eth.dst) {
            pairs: last;
            _: accept;
        }
    }
    state last {
        sub.apply(p, h);
        p.advance(8);
    }
}
parser P(packet_in p, out Headers h);
package Top(P p);
Top(Work()) main;
