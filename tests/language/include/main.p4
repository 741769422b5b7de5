// The rest of a v1model program whose parser is P, whose deparser is D, and all else of which is in C. Packets
// leave by port 0, as `egress_spec` starts as 0.
control NoVerify(inout headers_t h, inout meta_t m) {
    apply {}
}

control NoEgress(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {}
}

control NoCompute(inout headers_t h, inout meta_t m) {
    apply {}
}

V1Switch(P(), NoVerify(), C(), NoEgress(), NoCompute(), D()) main;
