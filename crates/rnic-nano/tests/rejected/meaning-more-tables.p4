#include <core.p4>
#include <nanotransport.p4>
header tag_t { bit<8> kind; bit<8> more; }
struct headers_t { tag_t tag; }
struct meta_t { bit<32> a; bool f; }
extern bit<32> next(in bit<32> x);
parser P(packet_in packet, out headers_t hdr, inout meta_t meta, in arrival_t arrival, in nic_t nic) {
    state start { transition accept; }
}
control I(inout headers_t hdr, inout meta_t meta, in arrival_t arrival, in nic_t nic, inout reassembly_t reassembly) {
    action drop() { reassembly.drop = true; }
    action apply_it() { t.apply(); }
    table t { key = { meta.a: exact; } actions = { drop; NoAction; } size = meta.a; }
    table u { key = { next(1): exact; } actions = { drop; } }
    table v { key = { 3: exact; meta.a: lpm; nic.ip: lpm; } actions = { drop; } size = 1 << 21; }
    table w { key = { meta.a: exact; } actions = { drop; NoAction; } }
    table w2 { key = { meta.a: exact; } actions = { } }
    action apply_later() { w.apply(); }
    apply {
        if (w.apply()) { }
        if (w.apply().hits) { }
        w.apply(1);
        w.aply();
        w();
        meta.a = w.apply().action_run;
    }
}
control E(inout headers_t hdr, inout meta_t meta, in departure_t departure, in nic_t nic, inout link_t link) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
NanoTransport(P(), I(), E(), D()) main;
