// The program of vqueue.p4 with two-rate three-colour meters instead of virtual queues.
#define METERS
#include "vqueue.p4"
