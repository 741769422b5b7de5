// P4_16 "header stacks" in "packet parsing": `next`, `last`, `lastIndex`; one element too many is
// `error.StackOutOfBounds`.
#include "include/v1.p4"

header byte_t {
    bit<8> v;
}

struct headers_t {
    byte_t[3] s;
    byte_t info;
    byte_t status;
}

struct meta_t {
    bit<8> last_index;
    bit<8> sum;
}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.s.next);
        m.last_index = (bit<8>)h.s.lastIndex;
        m.sum = m.sum + h.s.last.v;
        transition select(h.s.last.v) {
            0: accept;
            default: start;
        }
    }
}

control C(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        h.info = { m.last_index ++ m.sum == 16w0 ? 8w0xEE : m.last_index * 16 + m.sum };
        h.status = { (bit<8>)(bit<1>)(s.parser_error == error.StackOutOfBounds) };
    }
}

control D(packet_out p, in headers_t h) {
    apply {
        p.emit(h);
    }
}

#include "include/main.p4"
