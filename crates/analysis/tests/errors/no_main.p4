#include <core.p4>
control C();
package Top(C c);
control Work() { apply {} }
Top(Work()) mian;
