#include "local.p4"
#include <local.p4>
#include <twice.p4>
#include <twice.p4>
#define NAME "local.p4"
#include NAME
#define EMPTY
#define W 8
#define T bit<W>
#define DOUBLE(x) ((x) * 2)
#define ADD(a, b) a + b
#define STR(x) #x
#define XSTR(x) STR(x)
#define CAT(a, b) a##b
#define XCAT(a, b) CAT(a, b)
#define FIELD(type, name) \
    type name; \
    type CAT(name, _copy);
#define LOG(format, ...) log(format, ##__VA_ARGS__)
#define ALL(args...) f(args)
#define SELF SELF + 1
#define LEFT RIGHT
#define RIGHT LEFT
#define FUNC() 5
#define HASH {#}
 # define INDENTED 1 // comment
#define COMMENTED /* one */ 2 /* two
 lines */ + 3

const T object = W;
const T call = DOUBLE(3 + 4);
const T nested = DOUBLE(DOUBLE(1));
const T args = ADD(f(1, 2), DOUBLE(3));
const string s = STR(a  +  "b\"c" DOUBLE);
const string t = XSTR(W EMPTY W);
const T XCAT(var, W) = 1;
const T CAT(num, 1) = CAT(1, 0) + CAT(, 2) + CAT(3, );
header H { FIELD(bit<8>, a) FIELD(T, b) }
const T self = SELF + LEFT + FUNC() + FUNC;
const T multi = ADD(
    1,
    2
);
const T defined_here = FROM_COMMAND_LINE + PLAIN + INDENTED;
const T commented = COMMENTED;
const T line = __LINE__;
const string file = __FILE__;
const H invalid = HASH;
action a() { LOG("x"); LOG("x", 1, 2); ALL(1, 2); ALL(); }

#if W == 8 && defined(T) && !defined UNDEFINED && (1 ? 2 : 3) == 2 && UNKNOWN == 0
const T taken = 1;
#elif 1 / 0
const T never = 1;
#else
#endif
#ifdef W
# ifndef W
const T never = 2;
# else
const T inner = 2;
# endif
#endif
#if 0
# if 1
const T never = 3;
# else
# endif
#elif (1 << 4) >> 2 == 4 && -1 < 0 && ~0 == -1 && 7 % 4 == 3 && 0x10 == 16 && 201710L > 5 && DOUBLE(2) == 4
const T elif = 3;
#else
this is skipped: "don't, 'even lex @ it
/* #endif
#endif */ more
#endif
#undef W
#ifdef W
#error "W is still defined"
#endif
#
# 12 "marker.p4"
#line 40 "other.p4"
co\
nst bit<8> spli\
ced = 1; // a comment that goes on \
const bit<8> hidden = 1;
const bit<8> line2 = __LINE__;
#warning this one is a warning
