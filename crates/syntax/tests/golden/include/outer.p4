// Includes a file that is wrong.
#include "nested/wrong.p4"
