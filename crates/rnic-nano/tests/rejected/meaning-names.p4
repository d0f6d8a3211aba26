#include <core.p4>
#include <nanotransport.p4>
header tag_t { bit<8> kind; bit<8> more; }
struct headers_t { tag_t tag; }
struct meta_t { bit<32> a; bool f; }
const bit<8> LIMIT = 3;
const bit<8> LIMIT = 4;
const bit<8> EARLY = LATE;
const bit<8> LATE = 1;
parser P(packet_in packet, out headers_t hdr, inout meta_t meta, in arrival_t arrival, in nic_t nic) {
    state start { transition accept; }
}
control I(inout headers_t hdr, inout meta_t meta, in arrival_t arrival, in nic_t nic, inout reassembly_t reassembly) {
    bit<32> window;
    bit<32> window;
    action set(bit<32> x) { window = y; }
    action set(bit<32> x) { }
    apply {
        windov = 1;
        meta.a = LIMITT;
        meta.b = 2;
        hdr.tga.kind = 1;
        meta.a = hdr.tag.kindd;
        meta.a.x = 1;
        bit<32> inner = inner2;
        inner = reg_op_t.RAED;
        unknown_t thing;
        set2(1);
        meta.a = .window;
        { bit<8> here; bit<8> here; }
        here = 1;
    }
}
control E(inout headers_t hdr, inout meta_t meta, in departure_t departure, in nic_t nic, inout link_t link) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
NanoTransport(P(), I(), E(), D()) main;
