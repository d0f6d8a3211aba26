#include <core.p4>
#include <nanotransport.p4>
struct meta_t { missing_t a; bit<8> b; }
control C(inout meta_t m, in missing2_t n) {
    bit<8> x = m.a + 1;
    missing3_t y = 3;
    action act(in missing4_t z) { x = z; }
    table t { key = { n: exact; y: exact; } actions = { act(x); } }
    apply {
        x = y + m.a.b;
        act(y);
        n.foo();
        t.apply();
        if (y) { x = n ? 1 : 2; }
        m.b = true;
    }
}
