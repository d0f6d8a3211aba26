// A transport with trimming and PULLs, which the semantic analysis must accept.
#include <core.p4>
#include <nanotransport.p4>

const bit<32> MESSAGES = 1024;
const bool RESEND_AT_ONCE = true;

header transport_t {
    ip_t      src_ip;
    context_t src_context;
    context_t dst_context;
    tx_msg_t  tx_msg_id;
    bit<32>   msg_len;
    pkt_t     pkt_offset;
    pkt_t     credit;
    bit<8>    flags;
    bit<8>    reserved;
}

struct headers_t { transport_t ndp; }
struct meta_t { bool is_data; }

IfElseRaw<pkt_t>(MESSAGES) credits;

parser Parse(packet_in packet, out headers_t hdr, inout meta_t meta, in arrival_t arrival, in nic_t nic) {
    state start {
        packet.extract(hdr.ndp);
        transition select(hdr.ndp.flags) {
            DATA &&& DATA: data;
            default: accept;
        }
    }
    state data { meta.is_data = true; transition accept; }
}

control Arrive(inout headers_t hdr, inout meta_t meta, in arrival_t arrival, in nic_t nic, inout reassembly_t reassembly) {
    ctrl_pkt_t answer;

    action prepare(in rx_msg_info_t info) {
        answer = {
            dst_ip = hdr.ndp.src_ip, dst_context = hdr.ndp.src_context, src_context = hdr.ndp.dst_context,
            tx_msg_id = hdr.ndp.tx_msg_id, msg_len = hdr.ndp.msg_len, pkt_offset = hdr.ndp.pkt_offset, credit = 0, rank = 0
        };
    }

    action deliver(in rx_msg_info_t info) {
        reassembly = { drop = false, rx_msg_id = info.rx_msg_id, pkt_offset = hdr.ndp.pkt_offset, is_last_pkt = info.is_last_pkt };
    }

    apply {
        if (arrival.returned) {
            credit_to_btx_event(hdr.ndp.tx_msg_id, true, hdr.ndp.pkt_offset, false, 0);
            return;
        }
        if (!meta.is_data) {
            if ((hdr.ndp.flags & ACK) != 0) {
                delivered_event(hdr.ndp.tx_msg_id, 0, hdr.ndp.pkt_offset, 1);
            }
            if ((hdr.ndp.flags & (NACK | PULL)) != 0) {
                bool again = (hdr.ndp.flags & NACK) != 0;
                credit_to_btx_event(hdr.ndp.tx_msg_id, again, hdr.ndp.pkt_offset, !again || RESEND_AT_ONCE, hdr.ndp.credit);
            }
            exit;
        }
        rx_msg_info_t info = get_rx_msg_info({
            hdr.ndp.src_ip, hdr.ndp.src_context, hdr.ndp.tx_msg_id, hdr.ndp.msg_len, hdr.ndp.pkt_offset, !arrival.trimmed
        });
        if (info.fail) {
            return;
        }
        prepare(info);
        pkt_t step = arrival.trimmed || !info.is_new_pkt ? (pkt_t) 0 : 1;
        answer.credit = credits.execute(
            (bit<32>) info.rx_msg_id & (MESSAGES - 1), info.is_new_msg, reg_op_t.WRITE, nic.rtt_pkts + step, reg_op_t.ADD, step
        );
        ctrl_pkt_event(answer, arrival.trimmed && info.is_new_pkt ? NACK : ACK, PULL);
        if (!arrival.trimmed && info.is_new_pkt) {
            deliver(info);
        }
    }
}

control Depart(inout headers_t hdr, inout meta_t meta, in departure_t departure, in nic_t nic, inout link_t link) {
    action band(bit<8> value) { link.priority = value; }
    table bands {
        key = { departure.flags: ternary; departure.is_rtx: exact; }
        actions = { band; NoAction; }
        const entries = {
            (DATA &&& DATA, false): band(1);
            (DATA &&& DATA, true): band(0);
            (0 &&& DATA, false): NoAction();
        }
    }
    apply {
        hdr.ndp = {
            nic.ip, departure.src_context, departure.dst_context, departure.tx_msg_id, departure.msg_len, departure.pkt_offset,
            departure.credit, departure.flags, 0
        };
        bands.apply();
    }
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

NanoTransport(Parse(), Arrive(), Depart(), Deparse()) main;
