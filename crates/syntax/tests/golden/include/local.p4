#ifndef LOCAL_P4
#define LOCAL_P4
const bit<8> FROM_LOCAL = __LINE__;
#include "nested/inner.p4"
#endif
