header h {
    bit<8>;
}
