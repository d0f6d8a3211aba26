#include <core.p4>
#include <nanotransport.p4>
control A(inout bit<8> x) {
    A() inner;
    apply { inner.apply(x); }
}
control B(inout bit<8> x) {
    action a(in bit<8> y) { if (y > 1) { a(y - 1); } }
    action b() { c(); }
    action c() { b(); }
    apply { a(x); b(); }
}
control C(inout bit<8> x) { B() inner; apply { inner.apply(x); } }
