#include <core.p4>
control C();
package Top(C c);
control Work() { apply {} }
Top(Work()) mian;
// The end, where the error points: no declaration is to blame.
