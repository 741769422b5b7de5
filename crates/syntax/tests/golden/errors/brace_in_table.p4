// A `}` too many inside a table, one behind it, and one behind an action.
control C(inout H h) {
    table t {
        key = { h.x: exact; }
        actions = { a; b; } }
        const default_action = a;
        size = 3;
    }
    action c() { }
    apply { t.apply(); }
}
control D(inout H h) {
    table t {
        actions = { a; }
    } }
    action b() { }
    table u {
        actions = { b; }
    }
    apply { t.apply(); u.apply(); }
}
control E(inout H h) {
    action b() { } }
    apply { b(); }
}
struct S { bit<8> x; }
