#include <core.p4>
const bit<8> LIMIT = 5;
const bit<8> LIMIT = 6;
struct S { bit<8> length; bit<8> length; }
enum Colour { red, green }
extern void bump();
control Work(inout S s, inout bit<8> v) {
    bit<8> counter = 0;
    apply {
        v = countr;
        v = s.lenght;
        v = .counter;
        Missing m;
        if (Colour.gren == Colour.red) {}
        error e = error.NoEror;
        v.x = 1;
        t.apply();
        bumpp();
        Worc();
    }
}
