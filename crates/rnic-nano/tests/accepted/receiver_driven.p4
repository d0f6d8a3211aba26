// A receiver-driven transport similar to NDP: the sender sends the first packets immediately, and later packets when
// the receiver pulls them. For a trimmed packet the receiver sends a NACK, and the sender retransmits the packet.
#include <core.p4>
#include <nanotransport.p4>

const bit<32> REGISTERS = 1024;
const bit<8> CONTROL_PRIORITY = 0;
const bit<8> DATA_PRIORITY = 1;

header frame_t {
    ip_t      src_ip;
    ip_t      dst_ip;
    context_t src_context;
    context_t dst_context;
    tx_msg_t  tx_msg_id;
    bit<32>   msg_len;
    pkt_t     pkt_offset;
    pkt_t     credit;
    bit<8>    flags;
}

struct headers_t { frame_t frame; }
struct metadata_t { bool trimmed; }

// The credit of each message that is being received.
IfElseRaw<pkt_t>(REGISTERS) credit_reg;
// For each message, the packets whose retransmission the receiver has requested.
DualPort<pkt_t>(REGISTERS) nack_reg;

parser ParseFrame(packet_in packet, out headers_t hdr, inout metadata_t meta, in arrival_t arrival, in nic_t nic) {
    state start {
        packet.extract(hdr.frame);
        meta.trimmed = arrival.trimmed;
        transition select(hdr.frame.flags) {
            DATA &&& DATA: accept;
            ACK: accept;
            NACK: accept;
            PULL: accept;
            ACK | PULL: accept;
            NACK | PULL: accept;
            default: reject;
        }
    }
}

control Receive(inout headers_t hdr, inout metadata_t meta, in arrival_t arrival, in nic_t nic, inout reassembly_t reassembly) {
    action answer(in rx_msg_info_t info, in bit<8> flag, in pkt_t credit) {
        ctrl_pkt_t packet = {
            dst_ip = hdr.frame.src_ip,
            dst_context = hdr.frame.src_context,
            src_context = hdr.frame.dst_context,
            tx_msg_id = hdr.frame.tx_msg_id,
            msg_len = hdr.frame.msg_len,
            pkt_offset = hdr.frame.pkt_offset,
            credit = credit,
            rank = 0
        };
        ctrl_pkt_event(packet, flag, PULL);
    }

    action data() {
        rx_msg_info_t info = get_rx_msg_info({
            hdr.frame.src_ip, hdr.frame.src_context, hdr.frame.tx_msg_id, hdr.frame.msg_len, hdr.frame.pkt_offset, !meta.trimmed
        });
        bit<32> index = (bit<32>) info.rx_msg_id & (REGISTERS - 1);
        if (!info.fail) {
            pkt_t credit = credit_reg.execute(
                index, info.is_new_msg, reg_op_t.WRITE, nic.rtt_pkts + 1, reg_op_t.ADD, 1
            );
            if (meta.trimmed) {
                nack_reg.write(index, nack_reg.read(index) |+| 1);
                answer(info, NACK, credit);
            } else {
                answer(info, ACK, credit);
                reassembly.drop = !info.is_new_pkt;
                reassembly.rx_msg_id = info.rx_msg_id;
                reassembly.pkt_offset = hdr.frame.pkt_offset;
                reassembly.is_last_pkt = info.is_last_pkt;
            }
        }
    }

    action control_packet() {
        if (hdr.frame.flags & ACK != 0) {
            delivered_event(hdr.frame.tx_msg_id, 0, hdr.frame.pkt_offset, 1);
        }
        credit_to_btx_event(
            hdr.frame.tx_msg_id,
            hdr.frame.flags & NACK != 0,
            hdr.frame.pkt_offset,
            hdr.frame.flags & PULL != 0,
            hdr.frame.credit
        );
    }

    table kind {
        key = { hdr.frame.flags: ternary; arrival.returned: exact; }
        actions = { data; control_packet; NoAction; }
        const default_action = NoAction();
        const entries = {
            (DATA &&& DATA, false): data();
            (_, false): control_packet();
        }
    }

    apply {
        if (arrival.returned) {
            credit_to_btx_event(hdr.frame.tx_msg_id, true, hdr.frame.pkt_offset, false, 0);
        } else {
            kind.apply();
        }
    }
}

control Send(inout headers_t hdr, inout metadata_t meta, in departure_t departure, in nic_t nic, inout link_t link) {
    apply {
        hdr.frame.setValid();
        hdr.frame.src_ip = nic.ip;
        hdr.frame.dst_ip = departure.dst_ip;
        hdr.frame.src_context = departure.src_context;
        hdr.frame.dst_context = departure.dst_context;
        hdr.frame.tx_msg_id = departure.tx_msg_id;
        hdr.frame.msg_len = departure.msg_len;
        hdr.frame.pkt_offset = departure.pkt_offset;
        hdr.frame.credit = departure.credit;
        hdr.frame.flags = departure.flags;
        link.priority = departure.flags == DATA ? DATA_PRIORITY : CONTROL_PRIORITY;
    }
}

control WriteFrame(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.frame); }
}

NanoTransport(ParseFrame(), Receive(), Send(), WriteFrame()) main;
