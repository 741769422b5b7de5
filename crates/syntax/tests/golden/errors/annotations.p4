@ const bit<8> a = 1;
@9 const bit<8> b = 1;
@mixed[a = 1, 2] const bit<8> c = 1;
@mixed[1, a = 2] const bit<8> d = 1;
control c() {
    apply {
        @name("x") x = 1;
        @name("x") return;
        @name("x") if (true) { }
    }
}
@open(a (b) const bit<8> e = 1;
const bit<8> f = 1;
