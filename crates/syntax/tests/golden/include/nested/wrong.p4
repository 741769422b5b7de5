struct Inner { bit<8> x }
