// What tables ask for beyond the types of their parts; no core.p4, so no NoAction.
match_kind { exact, ternary }
struct S { error e; }
control Work(inout bit<8> x, bit<8> own) {
    action go(bit<8> y) { x = y; }
    action stay() {}
    table first { key = { x : exact; } actions = { go; stay; } }
    table second { actions = { go; stay; } }
    table order { key = { x : exact; } default_action = stay; actions = { go; stay; } }
    table entries_first {
        entries = { 1 : stay(); }
        key = { x : exact; }
        actions = { stay; }
        default_action = stay;
    }
    table own { key = { own : exact; } actions = { stay; } default_action = stay; }
    table no_name { key = { x + 1 : exact; } actions = { stay; } default_action = stay; }
    table names {
        key = { x & 0x0f : exact; x[3:0] : ternary; x + 1 : exact @name("sum"); }
        actions = { stay; }
        default_action = stay;
    }
    action number(int n) {}
    apply { first.apply(); second.apply(); order.apply(); }
}
