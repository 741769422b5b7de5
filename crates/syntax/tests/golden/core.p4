error { NoError, NoMatch }
match_kind { exact, ternary, lpm }
extern packet_in {
    void extract<T>(out T hdr);
    T lookahead<T>();
}
extern packet_out { void emit<T>(in T hdr); }
action NoAction() {}
