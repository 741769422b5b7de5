hedaer ethernet_t { bit<8> f; }
strcut s { bti<8> f; }
control c() {
    acton a() { retrun; }
    tabel t {
        kye = { x : exact; }
        acitons = { a; }
    }
    apply { if (x == 1) { } esle { } swtich (x) { } }
}
contorl d() { aply { } }
parser p() {
    stat start { transiton selct(x) { 1: accept; } }
    state next { transiton accept; }
}
cosnt bit<8> x = 1;
control e() { apply { iff (x == 1) { } bitt<8> y; } }
