// DCQCN: the sender reduces its rate when congestion notifications arrive, which marked packets trigger, and raises it
// by a timer and a byte counter.
//
// Y. Zhu et al.: Congestion control for large-scale RDMA deployments, SIGCOMM 2015, section 3.1. The NanoTransport
// paper names DCQCN as a protocol that needs fractions (section 6.2); here they are fixed-point numbers.
//
// A pipeline runs when a packet arrives or departs. So this program differs from the paper:
//
// - It has no rate limiter. The rate is enforced as a window of rate times round-trip time, at least one packet.
// - It has no timers. Each ACK first applies the increase events and the decay of alpha whose time has come, at most
//   one of each; ACKs are much more frequent than these events.
// - The byte counter counts acknowledged bytes instead of sent bytes.
// - A notification (CNP) is a flag of an ACK.
//
// The receiver acknowledges each packet. In an ACK or NACK, `pkt_offset` is the packet that arrived or was trimmed, and
// `credit` is the first missing packet. Switches need `ecn` thresholds, because a P4 program demands none.

#include <core.p4>
#include <nanotransport.p4>
#include "include/frame.p4"

// A program that includes this one as one of several protocols has a parser and an instance of its own.
#ifndef ONE_OF_SEVERAL
const bit<8> PROTOCOL = 0x9d;
#include "include/parser.p4"
const bit<8> CONTROL_PRIORITY = 0;
const bit<8> DATA_PRIORITY = 1;
#endif
#include "include/quotient.p4"

// The flag of an ACK that also is a congestion notification.
const bit<8> CNP = 64;

// N: minimum time between two notifications of a message.
const bit<64> CNP_INTERVAL_NS = 50000;
// T: time between two increase events; K: time without a notification after which alpha decays.
const bit<64> RATE_TIMER_NS = 55000;
const bit<64> ALPHA_TIMER_NS = 55000;
// B: bytes between two increase events.
const bit<32> BYTE_COUNTER = 10000000;
// F: number of fast recovery events.
const bit<16> FAST_RECOVERY = 5;
// Steps of additive and hyper increase, and the minimum rate.
const bit<64> R_AI_MBPS = 40;
const bit<64> R_HAI_MBPS = 200;
const bit<64> MIN_RATE_MBPS = 100;
// g is 2 to the power of minus G_SHIFT: 1/256.
const bit<64> G_SHIFT = 8;

// Rates are in Mbit/s with 16 fractional bits. Alpha has 32 fractional bits.
const bit<64> MBPS = 65536;
const bit<64> ALPHA_ONE = 4294967296;

// The time of the latest notification of each message that is being received, indexed by the receiver's slot.
IfElseRaw<bit<64>>(MESSAGES) notified;

// The sender's state of a message.
struct flow_t {
    tx_msg_t tx_msg_id;   // the message that this state belongs to
    bool     running;     // a notification has arrived, so timers run
    bit<64>  current;     // R_C
    bit<64>  target;      // R_T
    bit<64>  alpha;
    bit<64>  alpha_ends;  // when alpha decays next
    bit<64>  timer_ends;  // when the rate timer expires next
    bit<32>  bytes_left;  // bytes until the byte counter expires
    bit<16>  time_stage;  // increase events of the timer and of the counter since the last notification
    bit<16>  byte_stage;
    pkt_t    acked_to;    // the first missing packet of the latest ACK
    pkt_t    credit;      // packets with lower numbers may be sent
}
DualPort<tx_msg_t>(MESSAGES) current; // the message in the slot; an ACK or NACK for another message is outdated
DualPort<flow_t>(MESSAGES) flows;

// An increase event: fast recovery, additive increase or hyper increase. The stages do not count the event yet.
control Increase(inout flow_t flow, in bit<64> line) {
    apply {
        bit<16> most = flow.time_stage > flow.byte_stage ? flow.time_stage : flow.byte_stage;
        bit<16> least = flow.time_stage < flow.byte_stage ? flow.time_stage : flow.byte_stage;
        bit<64> step = 0;
        if (least >= FAST_RECOVERY) {
            step = R_HAI_MBPS * MBPS * ((bit<64>) (least - FAST_RECOVERY) + 1);
        } else if (most >= FAST_RECOVERY) {
            step = R_AI_MBPS * MBPS;
        }
        flow.target = flow.target + step;
        flow.target = flow.target < line ? flow.target : line;
        flow.current = (flow.current + flow.target + 1) >> 1;
    }
}

control DcqcnIngress(inout headers_t hdr, inout metadata_t meta, in arrival_t arrival, in nic_t nic,
                     inout reassembly_t reassembly) {
    Increase() by_timer;
    Increase() by_bytes;
    Quotient() share;

    action data() {
        rx_msg_info_t info = get_rx_msg_info({
            hdr.ipv4.src, hdr.message.src_context, hdr.message.tx_msg_id, hdr.message.msg_len, hdr.message.pkt_offset,
            !arrival.trimmed
        });
        // If the NIC has no buffer for the message, it drops the packet. The sender retransmits the packet after a
        // timeout.
        if (!info.fail) {
            bool notify = false;
            if (arrival.marked && info.rx_msg_id != DELIVERED) {
                // The first packet of a message ignores the time that an earlier message has left in the slot. If
                // that packet is not marked, the earlier message may delay the first notification by an interval.
                bit<64> before = arrival.now_ns |-| CNP_INTERVAL_NS;
                bit<64> latest = notified.compare(
                    (bit<32>) info.rx_msg_id, reg_cmp_t.LESS_EQUAL, info.is_new_msg ? arrival.now_ns : before,
                    reg_op_t.WRITE, arrival.now_ns, reg_op_t.READ, 0
                );
                notify = latest == arrival.now_ns;
            }
            bit<8> kind = arrival.trimmed && info.is_new_pkt ? NACK : ACK;
            ctrl_pkt_event({
                hdr.ipv4.src, hdr.message.src_context, hdr.message.dst_context, hdr.message.tx_msg_id, hdr.message.msg_len,
                hdr.message.pkt_offset, info.ack_no, 0
            }, notify ? kind | CNP : kind, 0);
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

        bit<64> line = (bit<64>) nic.line_rate_mbps * MBPS;
        bit<64> now = arrival.now_ns;
        flow_t flow = flows.read(slot);
        if (flow.tx_msg_id != hdr.message.tx_msg_id) {
            flow = {
                hdr.message.tx_msg_id, false, line, line, ALPHA_ONE, 0, 0, 0, 0, 0, 0, nic.rtt_pkts
            };
        }

        // Events whose time has come. At line rate they have no effect.
        if (flow.running) {
            if (now > flow.alpha_ends) {
                flow.alpha = flow.alpha - (flow.alpha >> G_SHIFT);
                flow.alpha_ends = flow.alpha_ends + ALPHA_TIMER_NS;
            }
            if (flow.current < line) {
                if (now > flow.timer_ends) {
                    by_timer.apply(flow, line);
                    flow.time_stage = flow.time_stage |+| 1;
                    flow.timer_ends = flow.timer_ends + RATE_TIMER_NS;
                }
                pkt_t packets = ack_no > flow.acked_to ? ack_no - flow.acked_to : 0;
                bit<32> bytes = packets * (bit<32>) nic.mtu;
                if (bytes >= flow.bytes_left) {
                    by_bytes.apply(flow, line);
                    flow.byte_stage = flow.byte_stage |+| 1;
                    flow.bytes_left = flow.bytes_left + BYTE_COUNTER;
                }
                flow.bytes_left = flow.bytes_left |-| bytes;
            }
        }
        flow.acked_to = ack_no > flow.acked_to ? ack_no : flow.acked_to;

        if (hdr.message.flags & CNP != 0) {
            flow.target = flow.current;
            // The 17 upper bits of alpha / 2 keep the product within 64 bits, for rates up to 16 Tbit/s.
            flow.current = flow.current - ((flow.current * (flow.alpha >> 17)) >> 16);
            flow.current = flow.current > MIN_RATE_MBPS * MBPS ? flow.current : MIN_RATE_MBPS * MBPS;
            flow.alpha = flow.alpha - (flow.alpha >> G_SHIFT) + (ALPHA_ONE >> G_SHIFT);
            flow.alpha_ends = now + ALPHA_TIMER_NS;
            flow.timer_ends = now + RATE_TIMER_NS;
            flow.bytes_left = BYTE_COUNTER;
            flow.time_stage = 0;
            flow.byte_stage = 0;
            flow.running = true;
        }

        // The window: packets of a round trip at line rate, times the share of the line rate.
        bit<64> window;
        share.apply((flow.current >> 16) * (bit<64>) nic.rtt_pkts, nic.line_rate_mbps, window);
        pkt_t packets_allowed = (pkt_t) ((window + 32768) >> 16);
        packets_allowed = flow.current >= line ? nic.rtt_pkts : packets_allowed;
        pkt_t credit = ack_no |+| (packets_allowed > 0 ? packets_allowed : 1);
        flow.credit = flow.credit > credit ? flow.credit : credit;
        flows.write(slot, flow);
        credit_to_btx_event(hdr.message.tx_msg_id, is_nack, hdr.message.pkt_offset, true, flow.credit);
    }
}

control DcqcnEgress(inout headers_t hdr, inout metadata_t meta, in departure_t departure, in nic_t nic,
                    inout link_t link) {
    apply {
        if (departure.is_new_msg) {
            current.write(departure.tx_msg_id & 0xffff, departure.tx_msg_id);
        }
        write_frame(hdr.ethernet, hdr.ipv4, hdr.message, departure, nic, PROTOCOL, 0);
        link.priority = departure.flags & DATA != 0 ? DATA_PRIORITY : CONTROL_PRIORITY;
    }
}

#ifndef ONE_OF_SEVERAL
@priorities(2)
@order("round-robin")
@paths("ecmp")
NanoTransport(FrameParser(), DcqcnIngress(), DcqcnEgress(), FrameDeparser()) main;
#endif
