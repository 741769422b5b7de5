// Text that a macro produced has its place where the macro is used; the definition is shown, too.
#define TWICE(x) x x
#define BROKEN(x) bit<8> x
#define OUTER BROKEN(inner)
const bit<8> A = TWICE(1);
struct S { BROKEN(f) }
struct T {
    OUTER
}
