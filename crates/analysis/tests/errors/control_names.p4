// Two actions or tables with one control-plane name.
#include <core.p4>
@name("top") action a() {}
@name(".top") action b() {}
control Work(inout bit<8> x) {
    @name(".top") action c() { x = 1; }
    @name("mine") action d() { x = 2; }
    @name("mine") action e() { x = 3; }
    action f() { x = 4; }
    @hidden @name("f") action g() { x = 5; }
    @name("f") table t { actions = { c; } default_action = c; }
    @name("f") table u { actions = { c; } default_action = c; }
    apply { t.apply(); u.apply(); a(); b(); d(); e(); f(); g(); }
}
control Other(inout bit<8> x) {
    @name("mine") action h() { x = 1; }
    apply { h(); }
}
