struct S { bit<8> a; bit<16> b; }
header H { bit<8> f; S s; error e; }
header_union U { bit<8> x; }
type bit<8> Port;
control Work(inout S s, inout bit<8> x, inout int<8> z, inout bit<16> y, inout bool t, inout Port p) {
    apply {
        y = x;
        x = x + y;
        x = x + z;
        t = x;
        if (x) {}
        t = !x;
        x = ~1;
        x = t ? 1 : true;
        x = 1 << y;
        y = y << z;
        y = y << -1;
        z = (int<8>) y;
        t = (bool) x;
        x = y[3:8];
        x = y[20:13];
        x = x[1];
        s = { 1 };
        s = { a = 1, c = 2 };
        s = { a = 1 };
        p = x;
        p = p + 1;
        x = (bit<8>) s;
        x = x & t;
        t = t & t;
        int i = 5;
        string text;
        x = 5 / 0;
        y = x ++ 5;
        x = { 1, 2 };
        t = s == x;
        x = 300;
    }
}
