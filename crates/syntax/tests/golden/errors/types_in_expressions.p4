header H { bit<8> f; }
control c(inout H h) {
    bit<8> b;
    apply {
        b = H;
        b = bit<8>(3);
        b = b + H * 2;
        b = bit<8>;
        b = error;
        H = 1;
        H;
        b = (H;
        b = f<H(3);
    }
}
