const bit<8> A = 1;
#include <outer.p4>
