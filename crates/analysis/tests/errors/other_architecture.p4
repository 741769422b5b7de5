#include <psa.p4>
// What the other architecture has is just unknown.
control C(inout standard_metadata_t sm) { apply { mark_to_drop(sm); } }
