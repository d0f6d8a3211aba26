#include <core.p4>
#include <nanotransport.p4>
header tag_t { bit<8> kind; bit<8> more; }
struct headers_t { tag_t tag; }
struct meta_t { bit<32> a; bool f; }
const bit<32> LIMIT = 3;
const bit<32> COMPUTED = 3 + true;
parser P(packet_in packet, out headers_t hdr, inout meta_t meta, in arrival_t arrival, in nic_t nic) {
    state start { transition accept; }
}
control I(inout headers_t hdr, inout meta_t meta, in arrival_t arrival, in nic_t nic, inout reassembly_t reassembly) {
    const bit<32> INNER = nic.rtt_pkts;
    action change(in bit<32> x, bit<32> y) { x = 1; y = 2; }
    action give(out bit<32> x) { x = 1; }
    apply {
        LIMIT = 1;
        arrival.now_ns = 1;
        nic.mac[7:0] = 1;
        change = 1;
        give(5);
        give(LIMIT);
        give(arrival.frame_bytes);
        give(meta.f);
        give(nic.ip);
        meta = 3;
        meta.a = change;
        meta.a = hdr;
    }
}
control E(inout headers_t hdr, inout meta_t meta, in departure_t departure, in nic_t nic, inout link_t link) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
NanoTransport(P(), I(), E(), D()) main;
