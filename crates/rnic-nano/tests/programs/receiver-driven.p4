// A receiver-driven transport similar to NDP: the receiver sends an ACK or NACK for every data packet, and pulls one
// more packet for each untrimmed packet.
#include <core.p4>
#include <nanotransport.p4>

header transport_t {
    ip_t      src_ip;
    context_t src_context;
    context_t dst_context;
    tx_msg_t  tx_msg_id;
    bit<32>   msg_len;
    pkt_t     pkt_offset;
    pkt_t     pull;
    bit<8>    flags;
}

struct headers_t { transport_t h; }
struct metadata_t { }

IfElseRaw<pkt_t>(65536) pulls;

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta, in arrival_t arrival, in nic_t nic) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta, in arrival_t arrival, in nic_t nic, inout reassembly_t reassembly) {
    apply {
        if ((hdr.h.flags & DATA) > 0) {
            rx_msg_info_t info = get_rx_msg_info({hdr.h.src_ip, hdr.h.src_context, hdr.h.tx_msg_id, hdr.h.msg_len, hdr.h.pkt_offset, !arrival.trimmed});
            if (!info.fail) {
                pkt_t diff = 1;
                bit<8> answer = ACK;
                if (arrival.trimmed) {
                    diff = 0;
                    answer = NACK;
                }
                pkt_t pull = pulls.execute((bit<32>)info.rx_msg_id, info.is_new_msg, reg_op_t.WRITE, nic.rtt_pkts + diff, reg_op_t.ADD, diff);
                ctrl_pkt_event({hdr.h.src_ip, hdr.h.src_context, hdr.h.dst_context, hdr.h.tx_msg_id, hdr.h.msg_len, hdr.h.pkt_offset, pull, 0}, answer, PULL);
                if (!arrival.trimmed && info.is_new_pkt) {
                    reassembly = {false, info.rx_msg_id, hdr.h.pkt_offset, info.is_last_pkt};
                }
            }
        } else {
            if ((hdr.h.flags & ACK) > 0) {
                delivered_event(hdr.h.tx_msg_id, 0, hdr.h.pkt_offset, 1);
            }
            if ((hdr.h.flags & (NACK | PULL)) > 0) {
                credit_to_btx_event(hdr.h.tx_msg_id, (hdr.h.flags & NACK) > 0, hdr.h.pkt_offset, (hdr.h.flags & PULL) > 0, hdr.h.pull);
            }
        }
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, in departure_t departure, in nic_t nic, inout link_t link) {
    apply {
        hdr.h.setValid();
        hdr.h = {nic.ip, departure.src_context, departure.dst_context, departure.tx_msg_id, departure.msg_len, departure.pkt_offset, departure.credit, departure.flags};
        if ((departure.flags & DATA) > 0) {
            link.priority = 1;
        }
    }
}

control MyDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

NanoTransport(MyParser(), MyIngress(), MyEgress(), MyDeparser()) main;
