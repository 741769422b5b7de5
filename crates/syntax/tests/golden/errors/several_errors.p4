// Each line with an error is reported, the others are not.
control c(inout bit<8> h) {
    action good1() { h = 1; }
    action bad1( { h = 1; }
    action good2() { h = 1; }
    action bad2() {
        h = ;
        h = 2;
        h + 1;
        (h = 3;
        h = {1, 2;
        h = f(1, 2;
        if h == 1 { h = 2; }
        else h = 3;
        h == 4;
        h++;
        return 1 2;
        h = 5;
    }
    bit<8 x = 1;
    bit<8> y = 1;
    table t { key = h; size = 3; }
    apply {
        for (i in 1 .. 3) { }
        for (bit<8> i = 0; i < 3) { }
        switch (h) { a { } b: { h = 1; } }
        { h, h } = { 1, 2 };
        h = 1;
    }
}
bit<8> global = 3;
const bit<8> fine = 1;
