#include <core.p4>
parser P();
package Switch(P p);
parser Mine() { state start { transition accept; } }
Switch(Mine()) main;
