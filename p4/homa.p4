// Homa: the receiver grants packets to the messages with the fewest remaining bytes, and tells their senders which
// priority to use.
//
// B. Montazeri et al.: Homa: a receiver-driven low-latency transport protocol using network priorities, SIGCOMM 2018;
// as the NanoTransport paper programs it (algorithm 5). With TRIMMING (homa-tr.p4) the receiver immediately requests
// the retransmission of trimmed packets.
//
// A sender sends the first bandwidth-delay product of a message unscheduled, in the highest priorities. The receiver
// must grant the rest. Each arriving packet makes the scheduler select one message: among the OVERCOMMITMENT messages
// with the fewest remaining bytes, the first one that can be granted more packets. The receiver sends a GRANT to that
// message's sender, with a credit and the priority to use.
//
// In an ACK or GRANT, `pkt_offset` is the first missing packet and `credit` is the granted credit; in a GRANT, `rank`
// is the priority to use. In a NACK, `pkt_offset` is the packet to retransmit and `credit` is the first missing packet.

#include <core.p4>
#include <nanotransport.p4>
#include "include/frame.p4"

const bit<8> PROTOCOL = 0x9b;
#include "include/parser.p4"

// Number of priorities for unscheduled packets (from priority 0 on), and for granted packets (the priorities after the
// unscheduled ones). `@priorities` at the end of this file must be at least their sum.
const bit<8> UNSCHEDULED_PRIORITIES = 1;
const bit<8> SCHEDULED_PRIORITIES = 3;
// Maximum number of messages that are granted packets at the same time.
const bit<8> OVERCOMMITMENT = 3;

// For each message that is being received: the destination of control packets to its sender, and its first missing
// packet.
struct sender_t {
    ip_t      ip;
    context_t context;
    context_t own_context;
    tx_msg_t  tx_msg_id;
    bit<32>   msg_len;
    pkt_t     ack_no;
}

// These registers are indexed by the receiver's slot of a message.
IfElseRaw<pkt_t>(MESSAGES) received; // number of packets that have arrived untrimmed
DualPort<pkt_t>(MESSAGES) granted;   // credit: packets with lower numbers may be sent
DualPort<sender_t>(MESSAGES) senders;
// Selects the message that is granted next, among the messages that wait for grants.
PriorityScheduler() scheduler;

// The priority of a message's packets, indexed by the sender's slot. Ingress writes it when a GRANT arrives; egress
// reads it for a data packet.
DualPort<bit<8>>(MESSAGES) priorities;

control HomaIngress(inout headers_t hdr, inout metadata_t meta, in arrival_t arrival, in nic_t nic,
                    inout reassembly_t reassembly) {
    // Sends a control packet about the arriving packet's message to the arriving packet's sender.
    action reply(in pkt_t pkt_offset, in pkt_t credit, in bit<8> flags) {
        ctrl_pkt_event({
            hdr.ipv4.src, hdr.message.src_context, hdr.message.dst_context, hdr.message.tx_msg_id, hdr.message.msg_len,
            pkt_offset, credit, 0
        }, flags, 0);
    }

    // Sends a GRANT for the message that the scheduler selected, which is usually not the message of the arriving
    // packet.
    action grant(in scheduled_t chosen) {
        bit<32> slot = (bit<32>) chosen.id;
        sender_t to = senders.read(slot);
        granted.write(slot, chosen.credit);
        bit<8> scheduled = chosen.level < SCHEDULED_PRIORITIES ? chosen.level : SCHEDULED_PRIORITIES - 1;
        ctrl_pkt_event({
            to.ip, to.context, to.own_context, to.tx_msg_id, to.msg_len, to.ack_no, chosen.credit,
            UNSCHEDULED_PRIORITIES + scheduled
        }, GRANT, 0);
    }

    // Updates the arriving packet's message in the scheduler. If the scheduler selects a message, sends a GRANT for it.
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
        // A duplicate packet means that its sender may have missed a GRANT: the receiver sends an ACK with the credit
        // granted before.
        if (!chosen.found || !gained || info.is_last_pkt) {
            reply(info.ack_no, allowed, ACK);
        }
        if (gained) {
            reassembly = { false, info.rx_msg_id, hdr.message.pkt_offset, info.is_last_pkt };
        }
    }

    // Processes a data packet of a message that is still being received.
    action take(in rx_msg_info_t info) {
        bit<32> slot = (bit<32>) info.rx_msg_id;
        bool gained = info.is_new_pkt && !arrival.trimmed;
        pkt_t one = gained ? (pkt_t) 1 : 0;
        pkt_t so_far = received.execute(slot, info.is_new_msg, reg_op_t.WRITE, one, reg_op_t.ADD, one);
        if (info.is_new_msg) {
            granted.write(slot, nic.rtt_pkts);
        }
        senders.write(slot, {
            hdr.ipv4.src, hdr.message.src_context, hdr.message.dst_context, hdr.message.tx_msg_id, hdr.message.msg_len,
            info.ack_no
        });
#ifdef TRIMMING
        // The payload of a trimmed packet is missing, unless an untrimmed copy arrived before.
        if (arrival.trimmed && info.is_new_pkt) {
            reply(hdr.message.pkt_offset, info.ack_no, NACK);
        } else {
            schedule(info, gained, so_far, granted.read(slot));
        }
#else
        schedule(info, gained, so_far, granted.read(slot));
#endif
    }

    action data() {
        rx_msg_info_t info = get_rx_msg_info({
            hdr.ipv4.src, hdr.message.src_context, hdr.message.tx_msg_id, hdr.message.msg_len, hdr.message.pkt_offset,
            !arrival.trimmed
        });
        // If the NIC has no buffer for the message, it drops the packet. The sender retransmits the packet after a
        // timeout.
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
            // A switch has returned a packet that this NIC sent. If it is a data packet, the NIC retransmits it.
            if (is_data) {
                credit_to_btx_event(hdr.message.tx_msg_id, true, hdr.message.pkt_offset, false, 0);
            }
        } else if (!is_data) {
            control_packet();
        } else {
#ifdef TRIMMING
            data();
#else
            // Homa ignores trimmed packets.
            if (!arrival.trimmed) {
                data();
            }
#endif
        }
    }
}

control HomaEgress(inout headers_t hdr, inout metadata_t meta, in departure_t departure, in nic_t nic,
                   inout link_t link) {
    // A message that fits into one bandwidth-delay product has the highest priority. Retransmissions never have an
    // unscheduled priority, so that they do not delay unscheduled packets.
    action set_data_priority() {
        bit<32> slot = departure.tx_msg_id & 0xffff;
        if (departure.is_new_msg) {
            bool is_small = (bit<64>) nic.rtt_pkts * (bit<64>) nic.mtu >= (bit<64>) departure.msg_len;
            priorities.write(slot, is_small ? 0 : UNSCHEDULED_PRIORITIES - 1);
        }
        bit<8> granted_priority = priorities.read(slot);
        link.priority =
            departure.is_rtx && granted_priority < UNSCHEDULED_PRIORITIES ? UNSCHEDULED_PRIORITIES : granted_priority;
    }

    apply {
        write_frame(hdr.ethernet, hdr.ipv4, hdr.message, departure, nic, PROTOCOL, 0);
        // Control packets keep priority 0, the highest.
        if (departure.flags & DATA != 0) {
            set_data_priority();
        }
    }
}

// The NIC sends the message with the fewest unsent packets first. Each packet takes a path of its own (packet
// spraying).
@priorities(4)
@order("shortest-first")
@paths("spray")
NanoTransport(FrameParser(), HomaIngress(), HomaEgress(), FrameDeparser()) main;
