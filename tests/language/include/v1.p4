// What every program of this folder starts with.
#include <core.p4>
#include <v1model.p4>
