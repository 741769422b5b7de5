// The program of vqueue.p4 without classifier and limits.
#define ROUTER
#include "vqueue.p4"
