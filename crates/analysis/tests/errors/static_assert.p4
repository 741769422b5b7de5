#include <core.p4>
const bool fine = static_assert(1 + 1 == 2, "arithmetic");
const bool wrong = static_assert(1 + 1 == 3, "one and one is two");
