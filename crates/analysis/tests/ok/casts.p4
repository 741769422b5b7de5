// Implicit and explicit casts, widths of operators, folding.
enum bit<8> Kind { a = 5, b = 7 }
type bit<9> Port;
const bit<4 + 4> X = 3;
const int BIG = (1 << 100) - 1;
const Kind K = Kind.b;

control Work(inout bit<8> x, inout int<8> z, inout bit<16> y, inout bool t, inout Port port) {
    apply {
        x = x + 1;
        t = z < 0;
        x = x | 0xFF;
        x = x + Kind.a;
        y = y << 3;
        y = y << x;
        y = 16w11 << Kind.a;
        y = Kind.a ++ 8w0;
        y = (bit<16>) x + y;
        x = (bit<8>) z;
        z = -z |+| 1;
        t = (bool) x[3:3];
        x[7:4] = y[3:0];
        x = (bit<8>) (t ? 1 : 2);
        x = X * 2 + (bit<8>) BIG[7:0];
        t = K == Kind.b && x == K;
        port = (Port) 1;
        y = 7w0 ++ (bit<9>) port;
        x = y[x +: 8];
        y = (bit<16>) (int<16>) z;
        t = BIG == 1267650600228229401496703205375;
        x = 5 / 2 * 3;
    }
}
control C(inout bit<8> x, inout int<8> z, inout bit<16> y, inout bool t, inout Port port);
package Top(C c);
Top(Work()) main;
