table t { key = { } }
state start { }
if (x) { }
@name("x") ;
control c() {
    state s { transition accept; }
    value_set<bit<8>>(4) vs;
    header h { }
}
control d() { }
control e() {
    apply { }
    apply { }
    action late() { }
}
parser p() {
    action a() { }
    table t { }
    state start {
        return;
        switch (x) { }
        transition accept;
        x = 1;
        transition reject;
    }
    bit<8> late;
    apply { }
}
