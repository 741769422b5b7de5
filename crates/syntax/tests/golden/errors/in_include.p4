#include "broken.p4"
const bit<8> a = ;
