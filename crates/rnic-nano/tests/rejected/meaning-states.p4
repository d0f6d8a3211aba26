#include <core.p4>
#include <nanotransport.p4>
header tag_t { bit<8> kind; bit<8> more; }
struct headers_t { tag_t tag; }
struct meta_t { bit<32> a; bool f; }
parser P(packet_in packet, out headers_t hdr, inout meta_t meta, in arrival_t arrival, in nic_t nic) {
    state start {
        transition select(hdr.tag.kind, meta.f) {
            (1, true): next;
            (2): nxt;
            (3, 4): accept;
            (256, _): accept;
            (3 .. 2, _): accept;
            (_, true &&& true): accept;
            (nic.mtu, _): accept;
        }
    }
    state next { packet.extract(hdr); packet.extract(meta.a); packet.extract(arrival.hops); transition select(hdr) { default: accept; } }
    state more { packet.advance(7); packet.advance(meta.a); NoAction(); packet.extrct(hdr.tag); transition rejct; }
    state more { transition accept; }
    state accept { transition accept; }
}
control I(inout headers_t hdr, inout meta_t meta, in arrival_t arrival, in nic_t nic, inout reassembly_t reassembly) {
    apply {
    }
}
control E(inout headers_t hdr, inout meta_t meta, in departure_t departure, in nic_t nic, inout link_t link) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
NanoTransport(P(), I(), E(), D()) main;
