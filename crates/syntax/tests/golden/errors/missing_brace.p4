control c() {
    action a() {
        x = 1;
    apply { }
}
header h_t { bit<8> f;
control d() {
    apply {
        if (true) {
            x = 1;
    }
}
struct s { bit<8> f; }
parser p() { state start { transition accept; }
