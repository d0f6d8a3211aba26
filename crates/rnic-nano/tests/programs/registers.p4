// Read-modify-write operations of registers, and one event that requests several packets.

#include <core.p4>
#include <nanotransport.p4>

header h_t {
    bit<32> a;
    bit<32> b;
    bit<8>  kind;
}

struct headers_t {
    h_t h;
}

struct metadata_t { }

IfElseRaw<bit<32>>(16) extremes;
IfElseRaw<bit<13>>(16) counts;

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, in arrival_t arrival, in nic_t nic) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control I(inout headers_t hdr, inout metadata_t meta, in arrival_t arrival, in nic_t nic, inout reassembly_t reassembly) {
    apply {
        bit<32> index = (bit<32>) hdr.h.kind[3:0];
        // The comparison of a register depends on the packet.
        reg_cmp_t how = reg_cmp_t.EQUAL;
        if (hdr.h.kind[4:4] == 1) { how = reg_cmp_t.NOT_EQUAL; }
        if (hdr.h.kind[5:5] == 1) { how = reg_cmp_t.LESS; }
        if (hdr.h.kind[6:6] == 1) { how = reg_cmp_t.LESS_EQUAL; }
        if (hdr.h.kind[7:7] == 1) { how = reg_cmp_t.GREATER; }
        if (hdr.h.kind[7:6] == 3) { how = reg_cmp_t.GREATER_EQUAL; }
        bit<32> extreme = extremes.compare(
            index, how, hdr.h.a, reg_op_t.WRITE, hdr.h.b, reg_op_t.SUBTRACT, hdr.h.a
        );
        bit<13> count = counts.execute(
            index, hdr.h.a[0:0] == 1, reg_op_t.ADD, (bit<13>) hdr.h.b, reg_op_t.SUBTRACT, (bit<13>) hdr.h.a
        );
        credit_to_btx_bitmap_event(extreme, (bit<32>) count, hdr.h.a ++ hdr.h.b, hdr.h.b[0:0] == 1, extreme);
        if (hdr.h.kind == 1) {
            credit_to_btx_event(hdr.h.a, hdr.h.b[1:1] == 1, 5, hdr.h.b[2:2] == 1, 6);
        }
    }
}

control E(inout headers_t hdr, inout metadata_t meta, in departure_t departure, in nic_t nic, inout link_t link) {
    apply {
        hdr.h.setValid();
        hdr.h = { departure.tx_msg_id, departure.credit, departure.rank };
    }
}

control D(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

NanoTransport(P(), I(), E(), D()) main;
