// A sliding window: the receiver acknowledges every packet, and the sender has at most one bandwidth-delay product in
// flight.
//
// This is a minimal working transport. docs/guides/write-a-transport-in-p4.md builds it step by step.

#include <core.p4>
#include <nanotransport.p4>

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ether_type;
}

header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<8>  tos;
    bit<16> total_length;
    bit<16> identification;
    bit<16> fragment;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
    ip_t    src;
    ip_t    dst;
}

header window_t {
    bit<8>    flags;
    context_t src_context;
    context_t dst_context;
    tx_msg_t  tx_msg_id;
    bit<32>   msg_len;
    pkt_t     pkt_offset; // data: this packet; ACK: the acknowledged packet
    pkt_t     ack_no;     // ACK: the first packet that has not arrived
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    window_t   window;
}

struct metadata_t { }

const bit<16> IPV4 = 0x0800;
const bit<8> WINDOW_PROTOCOL = 0x9a;

parser WindowParser(packet_in packet, out headers_t hdr, inout metadata_t meta, in arrival_t arrival, in nic_t nic) {
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
            WINDOW_PROTOCOL: parse_window;
            default: reject;
        }
    }
    state parse_window {
        packet.extract(hdr.window);
        transition accept;
    }
}

control WindowIngress(inout headers_t hdr, inout metadata_t meta, in arrival_t arrival, in nic_t nic,
                      inout reassembly_t reassembly) {
    action data() {
        rx_msg_info_t info = get_rx_msg_info({
            hdr.ipv4.src, hdr.window.src_context, hdr.window.tx_msg_id, hdr.window.msg_len, hdr.window.pkt_offset,
            !arrival.trimmed
        });
        if (!info.fail) {
            reassembly.drop = arrival.trimmed || !info.is_new_pkt;
            reassembly.rx_msg_id = info.rx_msg_id;
            reassembly.pkt_offset = hdr.window.pkt_offset;
            reassembly.is_last_pkt = info.is_last_pkt;
            if (!arrival.trimmed) {
                ctrl_pkt_event({
                    hdr.ipv4.src, hdr.window.src_context, hdr.window.dst_context, hdr.window.tx_msg_id, hdr.window.msg_len,
                    hdr.window.pkt_offset, info.ack_no, 0
                }, ACK, 0);
            }
        }
    }

    action acknowledgement() {
        delivered_event(hdr.window.tx_msg_id, hdr.window.ack_no, hdr.window.pkt_offset, 1);
        credit_to_btx_event(hdr.window.tx_msg_id, false, 0, true, hdr.window.ack_no + nic.rtt_pkts);
    }

    table kind {
        key = { hdr.window.flags : exact; }
        actions = { data; acknowledgement; NoAction; }
        const entries = {
            DATA : data();
            ACK : acknowledgement();
        }
        const default_action = NoAction();
    }

    apply {
        if (!arrival.returned) {
            kind.apply();
        }
    }
}

control WindowEgress(inout headers_t hdr, inout metadata_t meta, in departure_t departure, in nic_t nic,
                     inout link_t link) {
    apply {
        hdr.ethernet.setValid();
        hdr.ethernet = { nic.switch_mac, nic.mac, IPV4 };
        hdr.ipv4.setValid();
        hdr.ipv4 = { 4, 5, 0, 20 + 21 + departure.payload, 0, 0, 64, WINDOW_PROTOCOL, 0, nic.ip, departure.dst_ip };
        hdr.window.setValid();
        hdr.window = {
            departure.flags, departure.src_context, departure.dst_context, departure.tx_msg_id, departure.msg_len,
            departure.pkt_offset, departure.credit
        };
        link.priority = 0;
    }
}

control WindowDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.window);
    }
}

NanoTransport(WindowParser(), WindowIngress(), WindowEgress(), WindowDeparser()) main;
