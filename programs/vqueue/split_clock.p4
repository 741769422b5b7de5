// The program of vqueue.p4 with a clock of 32 bits of seconds and 32 bits of nanoseconds.
#define SPLIT_CLOCK
#include "vqueue.p4"
