#include <core.p4>
#include <nanotransport.p4>
header tag_t { bit<8> kind; bit<8> more; }
struct headers_t { tag_t tag; }
struct meta_t { bit<32> a; bool f; }
control Inner(inout bit<8> x, in bit<8> y) {
    action stop() { exit; }
    table t { key = { x: exact; } actions = { stop; } }
    apply { t.apply(); }
}
control Packets(packet_out packet) { apply { } }
control Broken() { apply { nothing(); } }
Inner() top;
parser P(packet_in packet, out headers_t hdr, inout meta_t meta, in arrival_t arrival, in nic_t nic) {
    state start { transition accept; }
}
control I(inout headers_t hdr, inout meta_t meta, in arrival_t arrival, in nic_t nic, inout reassembly_t reassembly) {
    Inner() inner;
    Packets() packets;
    Broken() broken;
    Inner(1) wrong;
    action act() { wrong.apply(hdr.tag.kind, 1); }
    apply {
        inner.apply(hdr.tag.kind);
        inner.apply(meta.a, 1);
        inner.apply(1, 1);
        inner.aply(hdr.tag.kind, 1);
        inner();
        Inner(hdr.tag.kind, 1);
        packets.apply(hdr);
        broken.apply();
    }
}
control E(inout headers_t hdr, inout meta_t meta, in departure_t departure, in nic_t nic, inout link_t link) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
NanoTransport(P(), I(), E(), D()) main;
