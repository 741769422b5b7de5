header default { bit<8> f; }
const bit<8> table = 1;
struct s { bit<8> _; bit<8> in; }
extern E { wrong(); void ok(); E(); noreturn(bit<8> x); }
action a(bit<8> x, control y) { }
enum bit<8> Values { a = 1, b }
enum NoValues { a = 1, b }
enum Empty { }
error { a, b, }
package P(bit<8> x) { }
type struct S { } T;
typedef struct S2 { };
