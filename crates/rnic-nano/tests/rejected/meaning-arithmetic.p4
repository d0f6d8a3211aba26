#include <core.p4>
#include <nanotransport.p4>
header tag_t { bit<8> kind; bit<8> more; }
struct headers_t { tag_t tag; }
struct meta_t { bit<32> a; bool f; }
const int HUGE = 1 << 128;
const int SUM = ((1 << 127) * 2) - 1 + 1;
const int HALF = -7 / 2;
const int ZERO = 7 % 0;
const int BITS = 5 & 3;
const bit<8> NOTHING = 8w7 / 0;
const int<8> QUOTIENT = 8s7 / 8s2;
const bit<8> RANDOM = 4 + tag_t.minSizeInBits() + 300;
parser P(packet_in packet, out headers_t hdr, inout meta_t meta, in arrival_t arrival, in nic_t nic) {
    state start { transition accept; }
}
control I(inout headers_t hdr, inout meta_t meta, in arrival_t arrival, in nic_t nic, inout reassembly_t reassembly) {
    apply {
        meta.a = meta.a / nic.rtt_pkts;
        meta.a = meta.a % 10;
        meta.a = meta.a / 0;
        meta.a[3:0] = meta.a[0:3];
        meta.a[32:0] = 0;
        meta.a[7:meta.a] = 0;
        meta.f[0:0] = 1;
        meta.a[3:0] = meta.a[7:0];
        meta.a = (bit<128>) meta.a ++ 1w1;
        meta.a = 5[3:0];
    }
}
control E(inout headers_t hdr, inout meta_t meta, in departure_t departure, in nic_t nic, inout link_t link) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
NanoTransport(P(), I(), E(), D()) main;
