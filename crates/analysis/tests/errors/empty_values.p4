// Values without bits become no fields; a type of many of them has a limit of its own.
struct None {}
struct Zeros { bit<0>[4096] all; }
struct Nones { None[4096] all; }
struct Few { bit<0>[4000] all; }
enum bit<0> Only { it = 0 }
struct Onlys { Only[4096] all; }
