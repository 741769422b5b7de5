control c() {
    action a() { } }
    action b() { }
    table t { actions = { b; } }
    apply { }
}
header h_t { bit<8> f; }
