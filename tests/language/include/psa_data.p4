// PSA programs whose packets start with one header `h.d`, which the program declares as data_t. Ingress is `I`; all else
// is here, and forwards unchanged what ingress makes of it.
struct headers_t {
    data_t d;
}

struct empty_t {}

parser IP(packet_in buffer, out headers_t h, inout empty_t user, in psa_ingress_parser_input_metadata_t istd,
          in empty_t resubmitted, in empty_t recirculated) {
    state start {
        buffer.extract(h.d);
        transition accept;
    }
}
