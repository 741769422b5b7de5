// The program of vqueue.p4 that also limits the delay in output queues.
#define REAL_QUEUE
#include "vqueue.p4"
