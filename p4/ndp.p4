// NDP: the receiver pulls packets at the rate of its link; packets whose payload a switch has cut off are asked for again at once.
//
// M. Handley et al.: Re-architecting datacenter networks and stacks for low latency and high performance, SIGCOMM 2017; as the
// NanoTransport paper programs it (algorithm 4).
//
// A message begins with a round trip's packets. For each that arrives, whole or cut, the receiver answers at once (ACK or NACK) and
// pulls one more (PULL): pulls leave no faster than full packets arrive, so that the senders together send just what the receiver's link takes.
//
// In a control packet `pkt_offset` is the packet that arrived or was cut, and `credit` the pull offset: packets before it may be sent.

#include <core.p4>
#include <nanotransport.p4>
#include "include/frame.p4"

const bit<8> PROTOCOL = 0x99;
#include "include/parser.p4"

// Priorities in the network.
const bit<8> CONTROL_BAND = 0;
const bit<8> DATA_BAND = 1;

// NACKs leave at the pace of PULLs, in one packet with them, so that packets are sent again no faster than the link takes them. In the NDP paper a PULL
// releases either kind of packet; in the NanoTransport paper NACKs leave at once.
const bool PACED_NACKS = true;

// By message received: its pull offset. It begins with a round trip, and grows by one with each packet that arrives whole.
IfElseRaw<pkt_t>(MESSAGES) pull_offsets;

control NdpIngress(inout headers_t hdr, inout metadata_t meta, in arrival_t arrival, in nic_t nic,
                   inout reassembly_t reassembly) {
    ctrl_pkt_t reply;

    // What this packet's sender gets of us: about the same message and packet, the other way round.
    action begin_reply() {
        reply = {
            hdr.ipv4.src, hdr.message.src_context, hdr.message.dst_context, hdr.message.tx_msg_id, hdr.message.msg_len,
            hdr.message.pkt_offset, 0, 0
        };
    }

    // A packet of a message that is still being received.
    action answer(in rx_msg_info_t info) {
        bool gained = info.is_new_pkt && !arrival.trimmed;
        pkt_t one = gained ? (pkt_t) 1 : 0;
        // The first packet of a message writes, later ones add: one access to the register.
        pkt_t pull_offset = pull_offsets.execute(
            (bit<32>) info.rx_msg_id, info.is_new_msg, reg_op_t.WRITE, nic.rtt_pkts + one, reg_op_t.ADD, one
        );
        reply.credit = pull_offset;

        // A trimmed packet is missing, unless another copy was there before.
        bit<8> immediate = arrival.trimmed && info.is_new_pkt ? NACK : ACK;
        // A pull for a packet beyond the message would only cost pace. What brought nothing new is pulled in any case: for the packet
        // sent again, or because an earlier pull may be lost.
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
        // A packet for whose message there is no buffer is forgotten: its sender will try again.
        if (!info.fail) {
            begin_reply();
            if (info.rx_msg_id == DELIVERED) {
                ctrl_pkt_event(reply, ACK, 0);
            } else {
                answer(info);
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
            // A switch has sent back this NIC's own packet: if it is data, it goes out again.
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
        link.band = departure.flags & DATA != 0 ? DATA_BAND : CONTROL_BAND;
    }
}

// Bands 0 and 1. Each packet takes a path of its own: what is out of order costs nothing here.
@bands(2)
@order("round-robin")
@paths("spray")
NanoTransport(FrameParser(), NdpIngress(), NdpEgress(), FrameDeparser()) main;
