// Constructs of the language that a transport can use in hardware: conditional compilation, functions, default values,
// constructor parameters of controls, verify, static_assert, priorities of entries.

#include <core.p4>
#include <nanotransport.p4>

#define VERSION 2
#if VERSION >= 2 && defined(VERSION) && !defined(OLD)
const bit<32> STEP = 3;
#elif VERSION == 1
const bit<32> STEP = 2;
#else
#error an unknown version
#endif

const bool CHECKED = static_assert(STEP == 3, "the second version has a step of 3");

header h_t {
    bit<32> a;
    bit<32> b;
    bit<8>  kind;
}

header more_t {
    bit<16> c;
}

struct headers_t {
    h_t    h;
    more_t more;
}

struct metadata_t { }

// The smaller number.
bit<32> smaller(in bit<32> x, in bit<32> y) {
    if (x < y) {
        return x;
    }
    return y;
}

bit<32> scaled(in bit<32> x, in bit<32> factor = STEP) {
    return x * factor;
}

void swap(inout bit<32> x, inout bit<32> y) {
    bit<32> old = x;
    x = y;
    y = old;
}

bool is_known(in bit<8> kind) {
    return kind != 7;
}

parser More(packet_in packet, out more_t more, in bit<8> kind)(bit<16> limit) {
    state start {
        transition select(kind) {
            9: read;
            default: accept;
        }
    }
    state read {
        packet.extract(more);
        verify(more.c < limit, error.NoMatch);
        transition accept;
    }
}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, in arrival_t arrival, in nic_t nic) {
    More(500) more;
    state start {
        packet.extract(hdr.h);
        verify(is_known(hdr.h.kind), error.NoMatch);
        hdr.h.b += 1;
        more.apply(packet, hdr.more, hdr.h.kind);
        verify(hdr.h.a != 0xffffffff, error.NoMatch);
        transition accept;
    }
}

control Limit(inout bit<32> value)(bit<32> max, bit<32> min = 1) {
    apply {
        value = smaller(value, max);
        if (value < min) {
            value = min;
        }
    }
}

control I(inout headers_t hdr, inout metadata_t meta, in arrival_t arrival, in nic_t nic, inout reassembly_t reassembly) {
    Limit(40) small;
    Limit(max = 1000, min = 100) large;
    bit<32> credit;

    action set(bit<32> to) {
        credit = to;
    }

    table kinds {
        key = { hdr.h.kind : ternary; }
        actions = { set; NoAction; }
        largest_priority_wins = false;
        const entries = {
            priority = 30: _ : set(5);
            priority = 10: 1 : set(6);
            priority = 20: 1 &&& 1 : set(7);
        }
    }

    apply {
        static_assert(STEP > 0);
        swap(hdr.h.a, hdr.h.b);
        if (hdr.more.isValid()) {
            hdr.h.a += (bit<32>) hdr.more.c;
        }
        kinds.apply();
        bit<32> a = hdr.h.a;
        bit<32> b = scaled(hdr.h.b) + scaled(factor = 2, x = hdr.h.a);
        small.apply(a);
        large.apply(b);
        ctrl_pkt_event({ 0, 0, 0, 0, a, b, credit, hdr.h.kind }, ACK, 0);
    }
}

control E(inout headers_t hdr, inout metadata_t meta, in departure_t departure, in nic_t nic, inout link_t link) {
    apply {
        hdr.h.setValid();
        hdr.h.a = departure.pkt_offset;
        hdr.h.b = departure.credit;
        hdr.h.kind = departure.rank;
        hdr.more.setValid();
        hdr.more.c = departure.src_context;
    }
}

control D(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.h);
        packet.emit(hdr.more);
    }
}

NanoTransport(P(), I(), E(), D()) main;
