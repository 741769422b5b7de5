// What annotations forbid is not said beside errors either.
@noWarn("overflow") const bit<8> A = 256;
const bit<8> B = 257;
const bit<8> C = unknown;
