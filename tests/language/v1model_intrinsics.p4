// v1model: what the target writes into standard_metadata, and what it reads there.
#include "include/v1.p4"

header data_t {
    bit<8> which;
    bit<8> port;
    bit<16> length;
    bit<8> error_code;
    bit<8> egress_port;
}

struct headers_t {
    data_t d;
    data_t[2] more;
}

struct meta_t {
    bit<16> zero;
}

error { Mine }

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.d);
        transition select(h.d.which) {
            1: short;
            2: mine;
            3: none;
            4: many;
            default: accept;
        }
    }
    state short {
        p.extract(h.more[0]);
        transition accept;
    }
    state mine {
        verify(h.d.port == 1, error.Mine);
        transition accept;
    }
    @noWarn("incomplete-select")
    state none {
        transition select(h.d.port) {
            1: accept;
        }
    }
    state many {
        p.extract(h.more.next);
        transition many;
    }
}

control V(inout headers_t h, inout meta_t m) {
    apply {}
}

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        m.zero = m.zero + (bit<16>) s.egress_spec + (bit<16>) s.mcast_grp + (bit<16>) s.instance_type;
        if (s.parser_error == error.PacketTooShort) {
            h.d.error_code = 1;
        } else if (s.parser_error == error.Mine) {
            h.d.error_code = 2;
        } else if (s.parser_error == error.NoMatch) {
            h.d.error_code = 3;
        } else if (s.parser_error == error.StackOutOfBounds) {
            h.d.error_code = 4;
        } else {
            h.d.error_code = s.parser_error == error.NoError ? 8w0 : 0xff;
        }
        h.d.port = (bit<8>) s.ingress_port;
        h.d.length = (bit<16>) s.packet_length;
        s.egress_spec = 3;
        s.priority = 5;
        if (h.d.which == 5) {
            // Only the port counts that is set last; a drop may be taken back.
            mark_to_drop(s);
            s.egress_spec = 4;
        } else if (h.d.which == 6) {
            mark_to_drop(s);
        } else if (h.d.which == 7) {
            assert(h.d.isValid());
            log_msg("port {} of {}", { s.ingress_port, h.d.which });
        }
    }
}

control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        h.d.egress_port = (bit<8>) s.egress_port;
        // egress cannot send the packet elsewhere.
        s.egress_spec = 9;
        m.zero = m.zero + (bit<16>) s.egress_rid + (bit<16>) s.deq_qdepth + (bit<16>) s.enq_qdepth;
        if (m.zero != 0 || h.d.which == 8) {
            mark_to_drop(s);
        }
    }
}

control C(inout headers_t h, inout meta_t m) {
    apply {}
}

control D(packet_out p, in headers_t h) {
    apply {
        p.emit(h);
    }
}

V1Switch(P(), V(), I(), E(), C(), D()) main;
