#include <core.p4>
#include <nanotransport.p4>
header tag_t { bit<8> kind; bit<8> more; }
struct headers_t { tag_t tag; }
struct meta_t { bit<32> a; bool f; }
parser P(packet_in packet, out headers_t hdr, inout meta_t meta, in arrival_t arrival, in nic_t nic) {
    state start { transition accept; }
}
control I(inout headers_t hdr, inout meta_t meta, in arrival_t arrival, in nic_t nic, inout reassembly_t reassembly) {
    apply { }
}
control E(inout headers_t hdr, inout meta_t meta, in departure_t departure, in nic_t nic, inout link_t link) {
    action a0() { meta.a = meta.a + 1; }
    action a1() { a0(); a0(); }
    action a2() { a1(); a1(); }
    action a3() { a2(); a2(); }
    action a4() { a3(); a3(); }
    action a5() { a4(); a4(); }
    action a6() { a5(); a5(); }
    action a7() { a6(); a6(); }
    action a8() { a7(); a7(); }
    action a9() { a8(); a8(); }
    action a10() { a9(); a9(); }
    action a11() { a10(); a10(); }
    action a12() { a11(); a11(); }
    action a13() { a12(); a12(); }
    action a14() { a13(); a13(); }
    action a15() { a14(); a14(); }
    apply { a15(); }
}
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
NanoTransport(P(), I(), E(), D()) main;
