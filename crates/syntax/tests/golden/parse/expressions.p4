// Precedence, casts, calls with type arguments, and the literals.
struct S { bit<8> f; bit<8> g; }
struct G<T> { T f; }
header H { bit<8> f; }
enum E { A, B }
extern T ext<T>(in T x);
extern bit<8> two<T, U>(in T x, in U y);
extern Ctor<T> { Ctor(T x); }

action numbers() {
    x = 10 + 0x1F + 0b1010_1010 + 0o17 + 0d19 + 1_000;
    x = 8w255 ++ 8s0xFF ++ 32w0b_1 ++ 16w0377 ++ 16w0o377;
}
action literals() {
    x = true && !false;
    log("simple" ++ "with \" quote" ++ "back\\slash" ++ "two
lines" ++ "a\nb");
    y = {#};
    y = ...;
}
action precedence() {
    x = a + b * c - d / e % f;
    x = a << b + c >> d;
    x = a & b ^ c | d;
    x = a == b && c != d || e < f && g >= h;
    x = a & b == c;
    x = a < b == c > d;
    x = a |+| b |-| c ++ d;
    x = -a.b[3] + ~c * !d;
    x = a ? b : c ? d : e;
    x = a || b ? c + 1 : d;
    x = - - + a;
    x = a - -b;
    x = a >> 1 > 2 >> 3;
}
action postfix() {
    x = h.stack[1].field[7:4];
    x = h.stack[n + 1].f[a ? b : c];
    x = y[3 +: 2] + y[a + b +: c];
    x = .top.member;
    x = this.f(this);
    x = h.apply().hit;
    x = t.apply(a, b).action_run.key.type;
}
action casts() {
    x = (bit<8>) a + b;
    x = (bit<8>) -a;
    x = (S) { 1, 2 };
    x = (S) (E) y;
    x = (G<bit<8>>) { f = 1 };
    x = (bit<(a + 1)>) b.c[0];
    x = (int) (a);
    x = (a) - b;
    x = (E.A == y);
    x = (tuple<bit<8>, H>) {1, {#}};
    x = ((S) {1, 2}).f;
    x = (unknown_t) y;
    x = (list<S>) {{1, 2}};
    x = (H[2]) y;
}
action calls(bit<8> a, bit<8> b, bit<8> c) {
    x = ext<bit<8>>(1) + 2;
    x = ext<S>(s).f;
    x = two<_, E>(1, E.A);
    x = a < b;
    x = a < b > (c);
    x = a < E.A;
    x = two<G<G<bit<8>>>, bit<(1 > 0 ? 8 : 4)>>(a, b);
    x = ext(x = 1);
    x = two(x = _, y = _);
    x = Ctor<bit<8>>(3);
    x = Ctor(3);
    x = error.NoMatch;
    x = .E.B;
    h.extract(_);
    h.lookahead<bit<8>>();
    ext<S>({1, 2});
    ext<unknown_t>(a);
}
action lists() {
    x = {};
    x = {1, 2,};
    x = {a = 1, b = {c = 2},};
    x = {a = 1, ...};
    x = {1, ...,};
    x = {...};
    x = {key = 1, type = 2};
}
action shadows() {
    // A variable hides a type: `(S) - 1` is no cast here.
    bit<8> S = 1;
    x = (S) - 1;
    { bit<8> H; x = (H) + 2; }
    x = (H) - 2;
}
action soft_keywords(bit<8> key, bit<8> apply, bit<8> state, bit<8> type, bit<8> priority, bit<8> list,
                     bit<8> actions, bit<8> entries) {
    key = apply + state + type * priority - actions[entries:0];
    x.list = 3;
    type(key);
    state.key = state.list < 3;
}
const bit<DROP + 1> a = 1;
const bit<(a > b ? 1 : 2)> b = 1;
const list<bit<W>> c = {1};
const tuple<tuple<bit<8>>> d = {{1}};
