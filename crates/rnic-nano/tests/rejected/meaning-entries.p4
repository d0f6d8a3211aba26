#include <core.p4>
#include <nanotransport.p4>
header tag_t { bit<8> kind; bit<8> more; }
struct headers_t { tag_t tag; }
struct meta_t { bit<32> a; bool f; }
parser P(packet_in packet, out headers_t hdr, inout meta_t meta, in arrival_t arrival, in nic_t nic) {
    state start { transition accept; }
}
control I(inout headers_t hdr, inout meta_t meta, in arrival_t arrival, in nic_t nic, inout reassembly_t reassembly) {
    action set(bit<8> x) { meta.a[7:0] = x; }
    action drop() { reassembly.drop = true; }
    action both(in bit<32> x, bit<8> y) { meta.a = x; }
    action other() { }
    table u {
        key = { meta.a: exact; hdr.tag.kind: ternary; nic.ip: lpm; meta.f: exact; }
        actions = { set; @tableonly drop; @defaultonly NoAction; both(meta.a); }
        entries = {
            (1, 2): drop();
            (_, 2, 3, true): drop();
            (1 &&& 1, 2, 3, true): drop();
            (1, 2 &&& 256, 3, true): drop();
            (1, 2, 3 &&& 5, true): drop();
            (1, 2, 3, 4): drop();
            (1, 2, 3, true): set();
            (2, 2, 3, true): set(256);
            (3, 2, 3, true): set(hdr.tag.kind);
            (4, 2, 3, true): NoAction;
            (4, 2, 3, false): both(nic.ip, 1);
            (5, 1 .. 2, 3, false): drop;
            (1, 2, 3, true): drop();
            (7, 2, 3, true): drop();
            (7, 2, 3 &&& 0xffffffff, true): set(1);
            (6, 2, 3, true): other();
        }
        default_action = drop();
    }
    apply {
    }
}
control E(inout headers_t hdr, inout meta_t meta, in departure_t departure, in nic_t nic, inout link_t link) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
NanoTransport(P(), I(), E(), D()) main;
