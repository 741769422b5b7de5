#include <core.p5>
#include "missing.p4"
#include <v1model.p4>
#include
#include "open.p4
#include <>
#include ""
#include 17
const bit<8> a = 1;
