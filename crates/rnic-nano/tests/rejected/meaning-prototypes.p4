#include <core.p4>
#include <nanotransport.p4>

extern int count(in bit<8> x);
extern void size(int x);
extern missing_t find(in missing2_t x);
extern void take(packet_in x);
extern Box<T> { Box(int size); T get<U>(in U x, in V y); }
extern void give<T>(out T x);
extern T make<T>();

control C(inout bit<8> x) {
    Box<bit<8>>(3) box;
    apply {
        give(_);
        give<bit<8>>(_);
        x = make();
        x = make<bit<8>>();
        x = count(1);
        box.get(x, x);
    }
}
