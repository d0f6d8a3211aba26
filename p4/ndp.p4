// NDP: the receiver pulls packets at the rate of its link, and requests the retransmission of packets that a switch has
// trimmed.
//
// M. Handley et al.: Re-architecting datacenter networks and stacks for low latency and high performance, SIGCOMM 2017;
// as the NanoTransport paper programs it (algorithm 4).
//
// A sender begins a message with one bandwidth-delay product of packets. For each packet that arrives, the receiver
// sends an ACK or, if the packet was trimmed, a NACK; and it requests one more packet with a PULL. PULLs are paced at
// the rate at which the receiver's link delivers full packets, so that all senders together send at the rate of that
// link.
//
// In a control packet, `pkt_offset` is the packet that arrived or was trimmed, and `credit` is the pull offset: packets
// with lower numbers may be sent.

#include <core.p4>
#include <nanotransport.p4>
#include "include/frame.p4"

// A program that includes this one as one of several protocols has a parser and an instance of its own.
#ifndef ONE_OF_SEVERAL
const bit<8> PROTOCOL = 0x99;
#include "include/parser.p4"

// Priorities in the network; 0 is the highest.
const bit<8> CONTROL_PRIORITY = 0;
const bit<8> DATA_PRIORITY = 1;
#endif

// NACKs are paced and share a packet with PULLs, so that senders retransmit at the rate of the receiver's link. In the
// NDP paper a PULL triggers either a retransmission or a new packet; in the NanoTransport paper the receiver sends
// NACKs immediately.
const bool PACED_NACKS = true;

// The pull offset of each message that is being received, indexed by the receiver's slot of the message. It begins with
// the bandwidth-delay product in packets, and grows by one with each untrimmed packet that arrives.
IfElseRaw<pkt_t>(MESSAGES) pull_offsets;

control NdpIngress(inout headers_t hdr, inout metadata_t meta, in arrival_t arrival, in nic_t nic,
                   inout reassembly_t reassembly) {
    ctrl_pkt_t reply;

    // Prepares a control packet about the arriving packet, to be sent to the arriving packet's sender.
    action begin_reply() {
        reply = {
            hdr.ipv4.src, hdr.message.src_context, hdr.message.dst_context, hdr.message.tx_msg_id, hdr.message.msg_len,
            hdr.message.pkt_offset, 0, 0
        };
    }

    // Processes a data packet of a message that is still being received.
    action respond(in rx_msg_info_t info) {
        bool gained = info.is_new_pkt && !arrival.trimmed;
        pkt_t one = gained ? (pkt_t) 1 : 0;
        // The first packet of a message writes the register, and later packets add to it. One predicated operation does
        // both, because the hardware allows one access to a register per packet.
        pkt_t pull_offset = pull_offsets.execute(
            (bit<32>) info.rx_msg_id, info.is_new_msg, reg_op_t.WRITE, nic.rtt_pkts + one, reg_op_t.ADD, one
        );
        reply.credit = pull_offset;

        // The payload of a trimmed packet is missing, unless an untrimmed copy arrived before.
        bit<8> immediate = arrival.trimmed && info.is_new_pkt ? NACK : ACK;
        // A PULL for a packet beyond the end of the message would only delay other PULLs, so the receiver sends none. A
        // packet that brought no new data always triggers a PULL: for its own retransmission if it was trimmed, or
        // because an earlier PULL may be lost if it is a duplicate.
        bool beyond = ((bit<64>) pull_offset - 1) * (bit<64>) nic.mtu >= (bit<64>) hdr.message.msg_len;
        bit<8> pull = gained && beyond ? 0 : PULL;
        if (PACED_NACKS && immediate == NACK) {
            ctrl_pkt_event(reply, 0, NACK | pull);
        } else {
            ctrl_pkt_event(reply, immediate, pull);
        }

        if (gained) {
            reassembly = { false, info.rx_msg_id, hdr.message.pkt_offset, info.is_last_pkt };
        }
    }

    action data() {
        rx_msg_info_t info = get_rx_msg_info({
            hdr.ipv4.src, hdr.message.src_context, hdr.message.tx_msg_id, hdr.message.msg_len, hdr.message.pkt_offset,
            !arrival.trimmed
        });
        // If the NIC has no buffer for the message, it drops the packet. The sender retransmits the packet after a
        // timeout.
        if (!info.fail) {
            begin_reply();
            if (info.rx_msg_id == DELIVERED) {
                ctrl_pkt_event(reply, ACK, 0);
            } else {
                respond(info);
            }
        }
    }

    action control_packet() {
        bool is_nack = hdr.message.flags & NACK != 0;
        bool is_pull = hdr.message.flags & PULL != 0;
        if (hdr.message.flags & ACK != 0) {
            delivered_event(hdr.message.tx_msg_id, 0, hdr.message.pkt_offset, 1);
        }
        if (is_nack || is_pull) {
            credit_to_btx_event(hdr.message.tx_msg_id, is_nack, hdr.message.pkt_offset, is_pull, hdr.message.credit);
        }
    }

    apply {
        bool is_data = hdr.message.flags & DATA != 0;
        if (arrival.returned) {
            // A switch has returned a packet that this NIC sent. If it is a data packet, the NIC retransmits it.
            if (is_data) {
                credit_to_btx_event(hdr.message.tx_msg_id, true, hdr.message.pkt_offset, false, 0);
            }
        } else if (is_data) {
            data();
        } else {
            control_packet();
        }
    }
}

control NdpEgress(inout headers_t hdr, inout metadata_t meta, in departure_t departure, in nic_t nic,
                  inout link_t link) {
    apply {
        write_frame(hdr.ethernet, hdr.ipv4, hdr.message, departure, nic, PROTOCOL, 0);
        link.priority = departure.flags & DATA != 0 ? DATA_PRIORITY : CONTROL_PRIORITY;
    }
}

#ifndef ONE_OF_SEVERAL
// The program uses the priorities 0 and 1. Each packet takes a path of its own (packet spraying), because NDP tolerates
// reordering.
@priorities(2)
@order("round-robin")
@paths("spray")
NanoTransport(FrameParser(), NdpIngress(), NdpEgress(), FrameDeparser()) main;
#endif
