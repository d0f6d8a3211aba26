#include <core.p4>
#include <nanotransport.p4>
header tag_t { bit<8> kind; bit<8> more; }
struct headers_t { tag_t tag; }
struct meta_t { bit<32> a; bool f; }
parser P(packet_in packet, out headers_t hdr, inout meta_t meta, in arrival_t arrival, in nic_t nic) {
    state start { transition accept; }
}
control I(inout headers_t hdr, inout meta_t meta, in arrival_t arrival, in nic_t nic, inout reassembly_t reassembly) {
    int<16> s;
    bit<16> h;
    apply {
        meta.a = (bit<32>) s;
        s = (int<16>) meta.a;
        meta.f = (bool) h;
        meta.a = (bit<32>) meta.f;
        meta.f = (bool) 2;
        hdr.tag = (tag_t) meta.a;
        hdr.tag = { 1 };
        hdr.tag = { 1, 2, 3 };
        hdr.tag = { kind = 1, mor = 2 };
        hdr.tag = { kind = 1, kind = 2 };
        hdr.tag = { kind = 1, 2 };
        hdr.tag = { 1, true };
        hdr.tag = { 1, 256 };
        meta.a = (int) h;
        meta.a = (meta_t) { 1, true };
        meta.a = { 1, 2 };
    }
}
control E(inout headers_t hdr, inout meta_t meta, in departure_t departure, in nic_t nic, inout link_t link) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
NanoTransport(P(), I(), E(), D()) main;
