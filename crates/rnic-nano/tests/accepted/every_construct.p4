/* Every construct of the subset, at least once.
 * Umlauts (ä) in comments do no harm. */
#include <core.p4>
#include <nanotransport.p4>
#include <core.p4> // the second inclusion has no effect

#define WINDOW 16w0x1_0
#define TWICE (WINDOW + WINDOW)
#define NOTHING
#ifdef WINDOW
#ifndef UNKNOWN
const bit<16> LIMIT = TWICE NOTHING;
#else
this is skipped, whatever it's like: "
#endif
#else
#include "there is no such file"
#endif
#undef WINDOW

const bit<(8 * 2)> WIDE = 0xffff;
const bit<8 + 8> SUM_WIDTH = 0b1010_1010;
const int<8> SIGNED = -8s5;
const int ANY = 0o17 + 0d9;
const bool FLAG = !false && (true || 1 < 2);
typedef bit<48> mac_t;
type bit<9> port_t;

error { BadVersion, BadLength, }
match_kind { optional }
enum color_t { Red, Green, Blue }
enum bit<8> kind_t { Data = 1, Ack = 2, }

@name("message.header")
header message_t {
    @ignored(anything [goes] {here}) bit<4> version;
    bit<4>    kind;
    tx_msg_t  key; // words like `key`, `state`, `type` are identifiers in this context
    bit<(32)> length;
}
header empty_t { }
struct headers_t {
    message_t   message;
    empty_t     empty;
    telemetry_t hop;
}
struct metadata_t { bit<16> state; bool type; }
struct record_t { bit<8> a; bit<8> b; }

action common(inout bit<16> x, in bit<16> by) { x = x |+| by; }

extern Sum<T> {
    Sum();
    Sum(bit<32> size);
    @pure T add(in T a, in T b);
    void reset();
}
extern void note<T, U>(in T what, out U where);
extern bit<8> small();

DualPort<bit<32>>(1024) shared;
DualPort<record_t>(16) records;

parser Deep<H>(packet_in packet, out H hdr);

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta, in arrival_t arrival, in nic_t nic) {
    const bit<4> OURS = 2;
    bit<8> left = 0;
    state start {
        packet.extract(hdr.message);
        left = arrival.hops;
        transition select(hdr.message.version, hdr.message.kind) {
            (OURS, 1): data;
            (OURS, 2 .. 4): accept;
            (_, 0b1000 &&& 0b1000): hop;
            (default, _): reject;
        }
    }
    state data {
        packet.extract<empty_t>(hdr.empty);
        { left = left - 1; }
        transition select(left) { 0: accept; default: hop; }
    }
    state hop {
        packet.advance(32w8 * 2);
        transition accept;
    }
    state unused { }
}


control MyIngress(inout headers_t hdr, inout metadata_t meta, in arrival_t arrival, in nic_t nic, inout reassembly_t reassembly) {
    IfElseRaw<bit<16>>(256) counts;
    PriorityScheduler() order;
    bit<16> sum;
    const bit<16> STEP = 1;
    action nothing() { }
    action set(bit<16> value, bool flag) { meta.state = value; meta.type = flag; }
    action leave() { exit; }
    table kinds {
        key = {
            hdr.message.kind: exact;
            hdr.message.length[31:16]: ternary @name("upper");
            hdr.message.key: lpm;
        }
        actions = { set; nothing(); @defaultonly leave; }
        size = 4 * 16;
        const default_action = leave();
        const entries = {
            (1, _, 0x0a000000 &&& 0xff000000): set(16w7, true);
            (2, 5, default): nothing;
            (4, 9, _): nothing() @hidden();
        }
    }
    table single {
        key = { meta.state: exact; }
        actions = { nothing; NoAction; }
        default_action = NoAction();
        entries = { 1: nothing(); (2): NoAction(); }
    }
    table keyless { actions = { nothing; } default_action = nothing; }
    apply {
        bit<32> index = (bit<32>) hdr.message.key & 0xff;
        const bit<8> HERE = 3;
        rx_msg_info_request_t request = { 1, 2, 3, 4, 5, true };
        record_t record = { a = 1, b = HERE };
        rx_msg_info_t info = get_rx_msg_info({
            src_ip = 1, src_context = 2, tx_msg_id = hdr.message.key, msg_len = 4, pkt_offset = 5, mark_received = true
        });
        if (arrival.trimmed) return;
        else if (!arrival.returned && info.fail == false) { ; }
        else { exit; }
        sum = counts.execute(
            index = index, predicate = sum > 3, op_true = reg_op_t.ADD, operand_true = 1, op_false = reg_op_t.READ, operand_false = 0
        );
        bit<16> shifted = sum >> 2 << 1;
        bool less = index < 5 && (index) > (3);
        bool more = shifted >= 1 == !less;
        meta.state[7:0] = hdr.message.kind ++ hdr.message.version;
        meta.state = less ? (bit<16>) record.a : more ? -sum : ~sum ^ (sum | 3) % 2 / 1 |-| 1;
        meta.state = (bit<16>)(bit<8>) (kind_t) 1;
        common(x = meta.state, by = .LIMIT);
        shared.write(index, shared.read(index) + 1);
        if (kinds.apply().hit) { set(1, false); }
        switch (kinds.apply().action_run) {
            set:
            nothing: { sum = 1; }
            default: { }
        }
        switch (hdr.message.kind) { 1: { sum = 2; } 2: 3: { } (4): { } }
        { bit<16> sum = 3; sum = sum; }
        if (hdr.message.isValid()) hdr.message.setInvalid();
        keyless.apply();
        error e = error.BadVersion;
        reassembly.drop = false;
    }
}

@interface("a", 1)
control MyEgress(inout headers_t hdr, inout metadata_t meta, in departure_t departure, in nic_t nic, inout link_t link) {
    apply { link.priority = (departure.flags & DATA) == 0 ? 8w0 : 1; }
}

control MyDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.message); }
}

;
@rtt_pkts(10)
NanoTransport(MyParser(), MyIngress(), MyEgress(), MyDeparser()) main;
