// The rest of a v1model program whose parser is P, whose deparser is D, and all else of which is in C. The packet
// leaves by port 1 unless the program says otherwise.
control NoVerify(inout headers_t h, inout meta_t m) {
    apply {}
}

control NoEgress(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {}
}

control NoCompute(inout headers_t h, inout meta_t m) {
    apply {}
}

control ToPort1(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    C() c;
    apply {
        s.egress_spec = 1;
        c.apply(h, m, s);
    }
}

V1Switch(P(), NoVerify(), ToPort1(), NoEgress(), NoCompute(), D()) main;
