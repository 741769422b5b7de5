const bit<8> a = 'x';
const bit<8> b = 1 $ 2;
const bit<8> c = é + ☺☺;
const bit<8> d = 1; # a comment, as to p4c
const bit<8> e = a \ b;
const bit<8> f = 1 &&& 2;
const bit<8> g = 1 .. 2;
