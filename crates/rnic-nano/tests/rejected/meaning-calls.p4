#include <core.p4>
#include <nanotransport.p4>
header tag_t { bit<8> kind; bit<8> more; }
struct headers_t { tag_t tag; }
struct meta_t { bit<32> a; bool f; }
extern bit<32> next(in bit<32> x, out bit<8> y);
extern void show<T>(in T x);
const bit<32> CALLED = next(1, _);
parser P(packet_in packet, out headers_t hdr, inout meta_t meta, in arrival_t arrival, in nic_t nic) {
    state start { transition accept; }
}
control I(inout headers_t hdr, inout meta_t meta, in arrival_t arrival, in nic_t nic, inout reassembly_t reassembly) {
    action act(in bit<32> x) { }
    action loop(in bit<32> x) { loop(x); }
    action again(in bit<8> x, bit<8> y, in bit<8> z) { }
    apply {
        next(1);
        meta.a = next(1, 2);
        meta.a = next(_, _);
        meta.a = next(meta.f, _);
        meta.a = next(x = 1, z = _);
        meta.a = next(x = 1, x = 2);
        meta.a = next(x = 1, _);
        meta.a = act(1);
        act();
        meta.a();
        hdr();
        I();
        show(1);
        show<bit<8>>(16w1);
        show<bit<8>, bit<8>>(1);
        next.apply();
        act(meta.f);
    }
}
control E(inout headers_t hdr, inout meta_t meta, in departure_t departure, in nic_t nic, inout link_t link) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
NanoTransport(P(), I(), E(), D()) main;
