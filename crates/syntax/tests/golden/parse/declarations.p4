// Every kind of top-level declaration.
#include <core.p4>

const bit<9> DROP = 511;
const bit ONE = 1;
typedef bit<48> mac_t;
type bit<9> port_t;
@metadata typedef struct pair_t { bit<8> a; bit<8> b; } pair_alias;

header ethernet_t {
    mac_t dst;
    @name("source") mac_t src;
    bit<16> type;
}
header label_t { bit<20> label; bit<3> tc; bit<1> bos; bit<8> ttl; }
header opts_t<T> { T kind; varbit<320> data; }
header_union either_t { ethernet_t e; label_t l; }
struct headers_t { ethernet_t ethernet; label_t[4] labels; either_t u; opts_t<bit<8>> o; tuple<bit<8>, bool> t; }
struct empty_t {}
struct meta_t { int<8> signed; bool flag; error err; list<pair_t> pairs; bit<(4 + 4)> wide; bit<DROP> named; }

enum Color { red, green, blue, }
enum bit<16> EtherType { ipv4 = 0x0800, ipv6 = 16w0x86DD, mpls = (0x8847) }
error { BadLabel, TooLong }
match_kind { range, selector, }
;

extern void log(string message, in bit<32> value = 0);
extern T pick<T>(in bool c, in T a, in T b);
extern Hasher;
extern Hasher<T> {
    Hasher();
    Hasher(T seed, @optional bit<8> rounds);
    @pure bit<32> get<D>(in D data);
    abstract void done(inout T x);
}
extern Box { Box(int size); void apply(); bit<8> key(); }
extern Hasher<bit<8>> make_hasher<T>(in T x);

bit<8> max(in bit<8> a, in bit<8> b) {
    if (a > b) return a;
    return b;
}
T identity<T>(in T x) { return x; }
void nothing() {}

action set_port(port_t port) { ; }

parser Parse<H, M>(packet_in p, out H hdr, inout M meta);
control Pipe<H, M>(inout H hdr, inout M meta);
control Deparse<H>(packet_out p, in H hdr);
package Switch<H, M>(Parse<H, M> p, Pipe<H, M> ig, @optional Pipe<H, M> eg, Deparse<H> d);

Hasher<bit<8>>(8w3, rounds = 2) hash = {
    void done(inout bit<8> x) { x = x + 1; }
    Box(4) inner;
};
Box(3) boxes;
