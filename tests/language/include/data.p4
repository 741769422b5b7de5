// Packets that start with one header `h.d`, which the program declares as data_t.
struct headers_t {
    data_t d;
}

struct meta_t {}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.d);
        transition accept;
    }
}

control D(packet_out p, in headers_t h) {
    apply {
        p.emit(h.d);
    }
}
