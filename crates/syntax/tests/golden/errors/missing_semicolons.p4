header h_t {
    bit<8> a
    bit<8> b;
    bit<8> c
}
const bit<8> K = 1
control c(inout h_t h) {
    bit<8> x
    action a() {
        x = 1
        x = 2;
        foo(x)
    }
    table t {
        key = { x : exact }
        actions = { a, b; }
        size = 10
    };
    apply { t.apply() }
}
