// Homa: the receiver grants packets to the messages with the least left to receive, and tells their senders which priority to use.
//
// B. Montazeri et al.: Homa: a receiver-driven low-latency transport protocol using network priorities, SIGCOMM 2018; as the
// NanoTransport paper programs it (algorithm 5). With TRIMMING (homa-tr.p4) packets that switches have cut are asked for again at once.
//
// A message begins with a round trip's packets, unscheduled, in the first priorities. The rest must be granted. Each packet that arrives
// lets the scheduler choose one message: the first in the order of what is left to receive that has not been granted all that it may be,
// among the first OVERCOMMITMENT. Its sender gets a GRANT: credit, and the priority to use.
//
// In an ACK and a GRANT `pkt_offset` is the first packet missing and `credit` what has been granted; in a GRANT `rank` is the priority to
// use. In a NACK `pkt_offset` is the packet to send again and `credit` the first packet missing.

#include <core.p4>
#include <nanotransport.p4>
#include "include/frame.p4"

const bit<8> PROTOCOL = 0x9b;
#include "include/parser.p4"

// Priorities of unscheduled packets, from 0 on, and of granted ones, after those. `@bands` below is their sum: change it with them.
const bit<8> UNSCHEDULED_LEVELS = 1;
const bit<8> SCHEDULED_LEVELS = 3;
// Messages that are granted packets at the same time.
const bit<8> OVERCOMMITMENT = 3;

// Where the answers to a message go, and the first of its packets that is missing.
struct sender_t {
    ip_t      ip;
    context_t context;
    context_t own_context;
    tx_msg_t  tx_msg_id;
    bit<32>   msg_len;
    pkt_t     ack_no;
}

// By message received.
IfElseRaw<pkt_t>(MESSAGES) received; // packets that have arrived whole
DualPort<pkt_t>(MESSAGES) granted;   // packets before this one may be sent
DualPort<sender_t>(MESSAGES) senders;
// Messages that wait for grants.
PriorityScheduler() scheduler;

// By slot of a message sent: priority of its packets. GRANTs write it (ingress), data packets read it (egress).
DualPort<bit<8>>(MESSAGES) priorities;

control HomaIngress(inout headers_t hdr, inout metadata_t meta, in arrival_t arrival, in nic_t nic,
                    inout reassembly_t reassembly) {
    // What this packet's sender gets of us: about the same message, the other way round.
    action reply(in pkt_t pkt_offset, in pkt_t credit, in bit<8> flags) {
        ctrl_pkt_event({
            hdr.ipv4.src, hdr.message.src_context, hdr.message.dst_context, hdr.message.tx_msg_id, hdr.message.msg_len,
            pkt_offset, credit, 0
        }, flags, 0);
    }

    // A GRANT to the message that the scheduler chose: hardly ever the one whose packet has just come.
    action grant(in scheduled_t chosen) {
        bit<32> place = (bit<32>) chosen.id;
        sender_t to = senders.read(place);
        granted.write(place, chosen.credit);
        bit<8> level = chosen.level < SCHEDULED_LEVELS ? chosen.level : SCHEDULED_LEVELS - 1;
        ctrl_pkt_event({
            to.ip, to.context, to.own_context, to.tx_msg_id, to.msg_len, to.ack_no, chosen.credit, UNSCHEDULED_LEVELS + level
        }, GRANT, 0);
    }

    // The message may have changed its place among those that wait for grants; one of them may get one.
    action schedule(in rx_msg_info_t info, in bool gained, in pkt_t so_far, in pkt_t allowed) {
        bit<64> got = (bit<64>) so_far * (bit<64>) nic.mtu;
        bit<32> left = (bit<32>) ((bit<64>) hdr.message.msg_len |-| got);
        bool has_all = (bit<64>) allowed * (bit<64>) nic.mtu >= (bit<64>) hdr.message.msg_len;
        scheduled_t chosen = scheduler.schedule(
            info.rx_msg_id, info.is_last_pkt || has_all, left, allowed, nic.rtt_pkts |+| so_far, OVERCOMMITMENT
        );
        if (chosen.found) {
            grant(chosen);
        }
        // A packet that arrives again is one whose sender has heard too little: it gets an answer of its own, with what it was
        // granted before.
        if (!chosen.found || !gained || info.is_last_pkt) {
            reply(info.ack_no, allowed, ACK);
        }
        if (gained) {
            reassembly = { false, info.rx_msg_id, hdr.message.pkt_offset, info.is_last_pkt };
        }
    }

    // A packet of a message that is still being received.
    action take(in rx_msg_info_t info) {
        bit<32> place = (bit<32>) info.rx_msg_id;
        bool gained = info.is_new_pkt && !arrival.trimmed;
        pkt_t one = gained ? (pkt_t) 1 : 0;
        pkt_t so_far = received.execute(place, info.is_new_msg, reg_op_t.WRITE, one, reg_op_t.ADD, one);
        if (info.is_new_msg) {
            granted.write(place, nic.rtt_pkts);
        }
        senders.write(place, {
            hdr.ipv4.src, hdr.message.src_context, hdr.message.dst_context, hdr.message.tx_msg_id, hdr.message.msg_len,
            info.ack_no
        });
#ifdef TRIMMING
        // A trimmed packet is missing, unless another copy was there before.
        if (arrival.trimmed && info.is_new_pkt) {
            reply(hdr.message.pkt_offset, info.ack_no, NACK);
        } else {
            schedule(info, gained, so_far, granted.read(place));
        }
#else
        schedule(info, gained, so_far, granted.read(place));
#endif
    }

    action data() {
        rx_msg_info_t info = get_rx_msg_info({
            hdr.ipv4.src, hdr.message.src_context, hdr.message.tx_msg_id, hdr.message.msg_len, hdr.message.pkt_offset,
            !arrival.trimmed
        });
        // A packet for whose message there is no buffer is forgotten: its sender will try again.
        if (!info.fail) {
            if (info.rx_msg_id == DELIVERED) {
                reply(info.ack_no, 0, ACK);
            } else {
                take(info);
            }
        }
    }

    action control_packet() {
        if (hdr.message.flags & GRANT != 0) {
            priorities.write(hdr.message.tx_msg_id & 0xffff, hdr.message.rank);
        }
        bool is_nack = hdr.message.flags & NACK != 0;
        delivered_event(hdr.message.tx_msg_id, is_nack ? hdr.message.credit : hdr.message.pkt_offset, 0, 0);
        credit_to_btx_event(hdr.message.tx_msg_id, is_nack, hdr.message.pkt_offset, !is_nack, hdr.message.credit);
    }

    apply {
        bool is_data = hdr.message.flags & DATA != 0;
        if (arrival.returned) {
            // A switch has sent back this NIC's own packet: if it is data, it goes out again.
            if (is_data) {
                credit_to_btx_event(hdr.message.tx_msg_id, true, hdr.message.pkt_offset, false, 0);
            }
        } else if (!is_data) {
            control_packet();
        } else {
#ifdef TRIMMING
            data();
#else
            // Homa takes no notice of trimmed packets.
            if (!arrival.trimmed) {
                data();
            }
#endif
        }
    }
}

control HomaEgress(inout headers_t hdr, inout metadata_t meta, in departure_t departure, in nic_t nic,
                   inout link_t link) {
    // Small messages go first; what is sent again does not compete with what is sent unscheduled.
    action data_band() {
        bit<32> slot = departure.tx_msg_id & 0xffff;
        if (departure.is_new_msg) {
            bool is_small = (bit<64>) nic.rtt_pkts * (bit<64>) nic.mtu >= (bit<64>) departure.msg_len;
            priorities.write(slot, is_small ? 0 : UNSCHEDULED_LEVELS - 1);
        }
        bit<8> band = priorities.read(slot);
        link.band = departure.is_rtx && band < UNSCHEDULED_LEVELS ? UNSCHEDULED_LEVELS : band;
    }

    apply {
        write_frame(hdr.ethernet, hdr.ipv4, hdr.message, departure, nic, PROTOCOL, 0);
        // Control packets go before all data: band 0.
        if (departure.flags & DATA != 0) {
            data_band();
        }
    }
}

// The message with the fewest packets unsent goes first; each packet takes a path of its own.
@bands(4)
@order("shortest-first")
@paths("spray")
NanoTransport(FrameParser(), HomaIngress(), HomaEgress(), FrameDeparser()) main;
