parser P(packet_in p, out H h) {
    state start
        p.extract(h.x);
        transition next;
    }
    state next { transition accept; }
}
control C(inout H h) {
    action a()
        h.x = 1;
    }
    table t
        key = { h.x: exact; }
        actions = { a; }
    }
    apply
        t.apply();
    }
}
