// Header stacks, lookahead, tuples and generic structs.

#include <core.p4>
#include <nanotransport.p4>

const int ITEMS = 4;

header h_t {
    bit<32> a;
    bit<32> b;
    bit<8>  count;
}

header item_t {
    bit<8>  more;   // 0: the last item
    bit<16> value;
}

struct headers_t {
    h_t           h;
    item_t[ITEMS] items;
    item_t        beyond;
}

struct metadata_t { }

struct pair_t<T, U> {
    T first;
    U second;
}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, in arrival_t arrival, in nic_t nic) {
    state start {
        packet.extract(hdr.h);
        transition select(hdr.h.count) {
            0: accept;
            default: item;
        }
    }
    state item {
        packet.extract(hdr.items.next);
        transition select(hdr.items.last.more) {
            0: accept;
            default: another;
        }
    }
    // An item that begins with 0xff ends the list.
    state another {
        item_t following = packet.lookahead<item_t>();
        verify(following.isValid(), error.NoMatch);
        transition select(packet.lookahead<bit<8>>(), hdr.items.lastIndex) {
            (0xff, _): accept;
            default: item;
        }
    }
}

control I(inout headers_t hdr, inout metadata_t meta, in arrival_t arrival, in nic_t nic, inout reassembly_t reassembly) {
    apply {
        bit<32> sum = 0;
        if (hdr.items[0].isValid()) { sum += (bit<32>) hdr.items[0].value; }
        if (hdr.items[1].isValid()) { sum += (bit<32>) hdr.items[1].value; }
        if (hdr.items[2].isValid()) { sum += (bit<32>) hdr.items[2].value; }
        if (hdr.items[3].isValid()) { sum += (bit<32>) hdr.items[3].value; }
        bit<2> index = hdr.h.b[1:0];
        pair_t<bit<32>, bit<16>> found = { sum, hdr.items[index].value };
        tuple<bit<32>, bit<16>> both = { found.first, found.second };
        hdr.items[index].value = 9;
        hdr.items.push_front(1);
        bit<8> kept = 0;
        if (hdr.items[3].isValid()) { kept = 1; }
        if (hdr.items[index].isValid()) { kept = kept + 2; }
        hdr.items.pop_front(2);
        ctrl_pkt_event(
            { 0, both[1], 0, 0, both[0], (bit<32>) hdr.items[1].value, hdr.items.size, kept }, ACK, 0
        );
    }
}

control E(inout headers_t hdr, inout metadata_t meta, in departure_t departure, in nic_t nic, inout link_t link) {
    action item(inout item_t item, in bit<8> number) {
        if (departure.rank > number) {
            item.setValid();
            item.more = departure.rank > number + 1 ? 8w1 : 0;
            item.value = departure.src_context + (bit<16>) number;
        }
    }

    apply {
        hdr.h = { departure.pkt_offset, departure.credit, departure.rank };
        item(hdr.items[0], 0);
        item(hdr.items[1], 1);
        item(hdr.items[2], 2);
        item(hdr.items[3], 3);
        item(hdr.beyond, 4);
        // The third item ends the list before it.
        if (departure.credit[7:7] == 1) {
            hdr.items[departure.credit[3:2]].more = 0xff;
        }
    }
}

control D(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

NanoTransport(P(), I(), E(), D()) main;
