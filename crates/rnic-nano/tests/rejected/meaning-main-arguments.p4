#include <core.p4>
#include <nanotransport.p4>
header tag_t { bit<8> kind; bit<8> more; }
struct headers_t { tag_t tag; }
struct meta_t { bit<32> a; bool f; }
parser P(packet_in packet, out headers_t hdr, inout meta_t meta, in arrival_t arrival, in nic_t nic) {
    state start { transition accept; }
}
control I(inout headers_t hdr, inout meta_t meta, in arrival_t arrival, in nic_t nic, inout reassembly_t reassembly) {
    apply {
    }
}
control E(inout headers_t hdr, inout meta_t meta, in departure_t departure, in nic_t nic, inout link_t link) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
NanoTransport(P(), E(), I(), D()) main;
