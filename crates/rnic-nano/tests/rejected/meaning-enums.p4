#include <core.p4>
#include <nanotransport.p4>
header tag_t { bit<8> kind; bit<8> more; }
struct headers_t { tag_t tag; }
struct meta_t { bit<32> a; bool f; }
enum plain_t { A = 1, B, A }
enum bit<2> typed_t { A = 1, B, C = 4 }
enum bool truth_t { A = 1 }
enum bit<2> good_t { A = 1, B = 2 }
error { NoError, Mine }
parser P(packet_in packet, out headers_t hdr, inout meta_t meta, in arrival_t arrival, in nic_t nic) {
    state start { transition accept; }
}
control I(inout headers_t hdr, inout meta_t meta, in arrival_t arrival, in nic_t nic, inout reassembly_t reassembly) {
    plain2_t unknown;
    good_t good = good_t.C;
    error e = error.Min;
    apply {
        good = 1;
        good = (good_t) 8w1;
        good = (good_t) 2;
        meta.a = good_t.A;
        if (good_t.A == reg_op_t.READ) { }
        if (e == 1) { }
    }
}
control E(inout headers_t hdr, inout meta_t meta, in departure_t departure, in nic_t nic, inout link_t link) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
NanoTransport(P(), I(), E(), D()) main;
