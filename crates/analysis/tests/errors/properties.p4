#include <core.p4>
// Misspelt properties: an error where the value makes no sense as one, a warning where it does.
control C(inout bit<8> x) {
    action a() { }
    action a() { }
    table t {
        key = { x: exact; }
        actions = { a; }
        defualt_action = a();
        szie = 20;
        colour = x + y;
        colour = 3;
    }
    table t {
        actions = { a; }
    }
    apply { t.apply(); }
}
