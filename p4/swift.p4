// Swift: the sender keeps the round-trip time at a target by its window.
//
// G. Kumar et al.: Swift: delay is simple and effective for congestion control in the datacenter, SIGCOMM 2020,
// algorithm 1, with flow scaling (section 3.5). The NanoTransport paper names Swift as a protocol that needs fractions
// (section 6.2); here they are fixed-point numbers, and divisions and square roots are tables.
//
// Differences from the paper:
//
// - A NIC cannot pace the packets of a message, so the credit of a window below one packet is one packet. The window
//   itself falls further, because the target depends on it.
// - The fixed-function timers retransmit, and the program is not notified of a timeout. So a timeout changes no window.
// - The delay of hosts is not measured; a flow has one window.
//
// A data packet carries its departure time, which the ACK or NACK returns in place of the message's length. In an ACK
// or NACK, `pkt_offset` is the packet that arrived or was trimmed, and `credit` is the first missing packet.

#include <core.p4>
#include <nanotransport.p4>
#include "include/frame.p4"

const bit<8> PROTOCOL = 0x9e;
const bit<64> ONE = 65536;

// Target of the round-trip time for a large window; 0: twice the round-trip time of an idle network.
const bit<32> BASE_TARGET_NS = 0;
// Additive increase in packets per round trip, in units of 1/65,536: 1.
const bit<64> AI = 65536;
// Weight of the excess delay in a decrease, and maximum decrease, in units of 1/65,536: 0.8 and 0.5.
const bit<64> BETA = 52429;
const bit<64> MAX_MDF = 32768;
// Flow scaling raises the target by at most FS_RANGE base targets: by (1 / sqrt(window) - FS_OFFSET) * FS_SCALE of this
// range, both in units of 1/65,536. The values are for windows of 0.1 to 100 packets: 1 / sqrt(100), and
// 1 / (1 / sqrt(0.1) - 1 / sqrt(100)).
const bit<64> FS_RANGE = 4;
const bit<64> FS_OFFSET = 6554;
const bit<64> FS_SCALE = 21401;
// Minimum and maximum window in packets, in units of 1/65,536: 0.1 and 32,767.
const bit<64> MIN_WINDOW = 6554;
const bit<64> MAX_WINDOW = 2147418112;

const bit<8> CONTROL_PRIORITY = 0;
const bit<8> DATA_PRIORITY = 1;

header stamp_t {
    bit<32> sent_ns; // departure time of the data packet, modulo 2^32
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    message_t  message;
    stamp_t    stamp;
}

struct metadata_t { }

// The sender's state of a message.
struct flow_t {
    tx_msg_t tx_msg_id;  // the message that this state belongs to
    bit<32>  window;     // in packets, with 16 fractional bits
    bit<64>  decreased;  // when the window was last made smaller
    bit<32>  rtt_ns;     // the latest round-trip time
    pkt_t    credit;     // packets with lower numbers may be sent
}
DualPort<tx_msg_t>(MESSAGES) current; // the message in the slot; an ACK or NACK for another message is outdated
DualPort<flow_t>(MESSAGES) flows;

#include "include/quotient.p4"

// Computes 1 / sqrt(a) with 16 fractional bits, for a number a with 16 fractional bits; a is not 0. The error is at
// most 0.1 %.
control InverseRoot(in bit<32> a, out bit<64> root) {
    bit<64> value = 0;
    bit<32> leading;
    bit<8> exponent;

    action is(bit<64> entry) {
        value = entry;
    }
    table roots {
        key = { exponent[0:0] ++ leading[30:23] : exact; }
        actions = { is; }
        const entries = {
#include "include/inverse_roots.p4"
        }
    }

    apply {
        exponent = 31;
        leading = a;
        if (leading[31:16] == 0) { leading = leading << 16; exponent = exponent - 16; }
        if (leading[31:24] == 0) { leading = leading << 8; exponent = exponent - 8; }
        if (leading[31:28] == 0) { leading = leading << 4; exponent = exponent - 4; }
        if (leading[31:30] == 0) { leading = leading << 2; exponent = exponent - 2; }
        if (leading[31:31] == 0) { leading = leading << 1; exponent = exponent - 1; }
        roots.apply();
        // a is m times 2^(exponent - 16), with m of 1 to 2. An odd exponent is part of the table's argument.
        root = exponent >= 16 ? value >> ((exponent - 16) >> 1) : value << ((17 - exponent) >> 1);
    }
}

parser SwiftParser(packet_in packet, out headers_t hdr, inout metadata_t meta, in arrival_t arrival, in nic_t nic) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            IPV4: parse_ipv4;
            default: reject;
        }
    }
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.protocol) {
            PROTOCOL: parse_message;
            default: reject;
        }
    }
    state parse_message {
        packet.extract(hdr.message);
        packet.extract(hdr.stamp);
        transition accept;
    }
}

control SwiftIngress(inout headers_t hdr, inout metadata_t meta, in arrival_t arrival, in nic_t nic,
                     inout reassembly_t reassembly) {
    InverseRoot() root;
    Quotient() growth;
    Quotient() excess;

    action data() {
        rx_msg_info_t info = get_rx_msg_info({
            hdr.ipv4.src, hdr.message.src_context, hdr.message.tx_msg_id, hdr.message.msg_len, hdr.message.pkt_offset,
            !arrival.trimmed
        });
        // If the NIC has no buffer for the message, it drops the packet. The sender retransmits the packet after a
        // timeout.
        if (!info.fail) {
            ctrl_pkt_event({
                hdr.ipv4.src, hdr.message.src_context, hdr.message.dst_context, hdr.message.tx_msg_id, hdr.stamp.sent_ns,
                hdr.message.pkt_offset, info.ack_no, 0
            }, arrival.trimmed && info.is_new_pkt ? NACK : ACK, 0);
            if (info.is_new_pkt && !arrival.trimmed) {
                reassembly = { false, info.rx_msg_id, hdr.message.pkt_offset, info.is_last_pkt };
            }
        }
    }

    apply {
        bool is_data = hdr.message.flags & DATA != 0;
        if (arrival.returned) {
            // A switch has returned a packet that this NIC sent. If it is a data packet, the NIC retransmits it.
            if (is_data) {
                credit_to_btx_event(hdr.message.tx_msg_id, true, hdr.message.pkt_offset, false, 0);
            }
            return;
        }
        if (is_data) {
            data();
            return;
        }
        bit<32> slot = hdr.message.tx_msg_id & 0xffff;
        if (current.read(slot) != hdr.message.tx_msg_id) {
            return;
        }
        pkt_t ack_no = hdr.message.credit;
        bool is_nack = hdr.message.flags & NACK != 0;
        delivered_event(hdr.message.tx_msg_id, ack_no, hdr.message.pkt_offset, is_nack ? 0 : (bit<64>) 1);

        flow_t flow = flows.read(slot);
        if (flow.tx_msg_id != hdr.message.tx_msg_id) {
            pkt_t first = nic.rtt_pkts < 32767 ? nic.rtt_pkts : 32767;
            flow = { hdr.message.tx_msg_id, first << 16, 0, nic.base_rtt_ns, nic.rtt_pkts };
        }
        bit<64> window = (bit<64>) flow.window;
        bit<64> factor = ONE - MAX_MDF;
        bool decreases = true;
        if (!is_nack) {
            flow.rtt_ns = ((bit<32>) arrival.now_ns) - hdr.stamp.sent_ns;
            bit<64> delay = (bit<64>) flow.rtt_ns;
            bit<64> base = BASE_TARGET_NS == 0 ? 2 * (bit<64>) nic.base_rtt_ns : (bit<64>) BASE_TARGET_NS;
            bit<64> share;
            root.apply(flow.window, share);
            share = ((share |-| FS_OFFSET) * FS_SCALE) >> 16;
            share = share < ONE ? share : ONE;
            bit<64> target = base + ((base * FS_RANGE * share) >> 16);
            if (delay < target) {
                decreases = false;
                bit<64> step;
                growth.apply(AI, window > ONE ? (bit<32>) window : (bit<32>) ONE, step);
                window = window + step;
                window = window < MAX_WINDOW ? window : MAX_WINDOW;
            } else {
                bit<64> part;
                excess.apply(delay - target, flow.rtt_ns > 0 ? flow.rtt_ns : 1, part);
                bit<64> cut = (BETA * part) >> 16;
                factor = cut < MAX_MDF ? ONE - cut : ONE - MAX_MDF;
            }
        }
        // At most one decrease in a round trip.
        if (decreases && arrival.now_ns - flow.decreased >= (bit<64>) flow.rtt_ns) {
            bit<64> smaller = (window * factor) >> 16;
            smaller = smaller > MIN_WINDOW ? smaller : MIN_WINDOW;
            if (smaller < window) {
                flow.decreased = arrival.now_ns;
            }
            window = smaller;
        }
        flow.window = (bit<32>) window;
        pkt_t packets = (pkt_t) (window >> 16);
        pkt_t credit = ack_no |+| (packets > 0 ? packets : 1);
        flow.credit = flow.credit > credit ? flow.credit : credit;
        flows.write(slot, flow);
        credit_to_btx_event(hdr.message.tx_msg_id, is_nack, hdr.message.pkt_offset, true, flow.credit);
    }
}

control SwiftEgress(inout headers_t hdr, inout metadata_t meta, in departure_t departure, in nic_t nic,
                    inout link_t link) {
    apply {
        bool is_data = departure.flags & DATA != 0;
        if (departure.is_new_msg) {
            current.write(departure.tx_msg_id & 0xffff, departure.tx_msg_id);
        }
        hdr.stamp.setValid();
        hdr.stamp.sent_ns = is_data ? (bit<32>) departure.now_ns : departure.msg_len;
        write_frame(hdr.ethernet, hdr.ipv4, hdr.message, departure, nic, PROTOCOL, 4);
        link.priority = is_data ? DATA_PRIORITY : CONTROL_PRIORITY;
    }
}

control SwiftDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

@priorities(2)
@order("round-robin")
@paths("ecmp")
NanoTransport(SwiftParser(), SwiftIngress(), SwiftEgress(), SwiftDeparser()) main;
