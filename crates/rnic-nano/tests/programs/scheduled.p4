// A transport similar to Homa: the receiver grants packets to the message with the fewest remaining packets. It uses
// DualPort registers, a scheduler, and a register that both pipelines access.
#include <core.p4>
#include <nanotransport.p4>

const bit<8> OVERCOMMITMENT = 3;
const bit<8> UNSCHEDULED_PRIORITIES = 1;

header transport_t {
    ip_t      src_ip;
    context_t src_context;
    context_t dst_context;
    tx_msg_t  tx_msg_id;
    bit<32>   msg_len;
    pkt_t     pkt_offset;
    pkt_t     grant;
    bit<8>    rank;
    bit<8>    flags;
}

struct headers_t { transport_t h; }
struct metadata_t { }

// The receiver's state of a message: fields that GRANTs to the sender of the message need.
struct message_t {
    ip_t      src_ip;
    context_t src_context;
    context_t dst_context;
    tx_msg_t  tx_msg_id;
    bit<32>   msg_len;
    pkt_t     ack_no;
}

DualPort<message_t>(65536) messages;
IfElseRaw<pkt_t>(65536) remaining;
PriorityScheduler() scheduler;
DualPort<bit<8>>(65536) granted_ranks;

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta, in arrival_t arrival, in nic_t nic) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta, in arrival_t arrival, in nic_t nic, inout reassembly_t reassembly) {
    apply {
        if ((hdr.h.flags & DATA) > 0) {
            rx_msg_info_t info = get_rx_msg_info({hdr.h.src_ip, hdr.h.src_context, hdr.h.tx_msg_id, hdr.h.msg_len, hdr.h.pkt_offset, true});
            if (info.fail) {
                return;
            }
            if (info.is_new_pkt) {
                reassembly = {false, info.rx_msg_id, hdr.h.pkt_offset, info.is_last_pkt};
            }
            bit<32> at = (bit<32>)info.rx_msg_id;
            messages.write(at, {hdr.h.src_ip, hdr.h.src_context, hdr.h.dst_context, hdr.h.tx_msg_id, hdr.h.msg_len, info.ack_no});
            pkt_t left = remaining.execute(at, info.is_new_msg, reg_op_t.WRITE, (hdr.h.msg_len >> 10) - 1, reg_op_t.ADD, 0xffffffff);
            scheduled_t next = scheduler.schedule(info.rx_msg_id, info.is_last_pkt, left, nic.rtt_pkts, nic.rtt_pkts + info.ack_no, OVERCOMMITMENT);
            if (next.found) {
                message_t other = messages.read((bit<32>)next.id);
                ctrl_pkt_event({other.src_ip, other.src_context, other.dst_context, other.tx_msg_id, other.msg_len, other.ack_no, next.credit, next.level + UNSCHEDULED_PRIORITIES}, GRANT, 0);
            } else {
                ctrl_pkt_event({hdr.h.src_ip, hdr.h.src_context, hdr.h.dst_context, hdr.h.tx_msg_id, hdr.h.msg_len, info.ack_no, 0, 0}, ACK, 0);
            }
        } else {
            delivered_event(hdr.h.tx_msg_id, hdr.h.pkt_offset, 0, 0);
            if ((hdr.h.flags & GRANT) > 0) {
                granted_ranks.write(hdr.h.tx_msg_id & 0xffff, hdr.h.rank);
                credit_to_btx_event(hdr.h.tx_msg_id, false, 0, true, hdr.h.grant);
            }
        }
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, in departure_t departure, in nic_t nic, inout link_t link) {
    apply {
        hdr.h.setValid();
        hdr.h = {nic.ip, departure.src_context, departure.dst_context, departure.tx_msg_id, departure.msg_len, departure.pkt_offset, departure.credit, departure.rank, departure.flags};
        if ((departure.flags & DATA) > 0) {
            link.priority = granted_ranks.read(departure.tx_msg_id & 0xffff);
        }
    }
}

control MyDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

NanoTransport(MyParser(), MyIngress(), MyEgress(), MyDeparser()) main;
