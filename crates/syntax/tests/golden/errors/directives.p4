#defin X 1
#define
#define 1
#define defined
#define f(a, a) a
#define g(a b) a
#define h(a
#define i(..., a) a
#define j(a) ##a
#define TWO(a, b) a b
#define ONE 1
#define ONE 2
TWO(1)
TWO(1, 2, 3)
#define CAT(a, b) a##b
const bit<8> x = CAT(+, -);
#if
#endif
#if 1 +
#endif
#if (1
#endif
#if 1 / 0
#endif
#if 1 2
#endif
#if defined
#endif
#if TWO(1, 2)
#endif
#if "string"
#endif
#ifdef
#endif
#else
#elif 1
#endif
#if 1
#else
#else
#elif 1
#endif
#error this   is "wrong"
#pragma
#ifdef A
# if 1
#else
TWO(1,
