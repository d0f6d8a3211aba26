// A state of the parser that begins at three positions in the packet, and requests for messages in branches that
// exclude each other.

#include <core.p4>
#include <nanotransport.p4>

header start_t {
    bit<8> kind;
    bit<8> options;
}

header short_t {
    bit<16> value;
}

header long_t {
    bit<24> value;
    bit<8>  more;
}

header message_t {
    context_t src_context;
    context_t dst_context;
    tx_msg_t  tx_msg_id;
    bit<32>   msg_len;
    pkt_t     pkt_offset;
}

header end_t {
    bit<8> check;
}

struct headers_t {
    start_t   start;
    short_t   shorter;
    long_t    longer;
    message_t message;
    end_t     end;
}

struct metadata_t { }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, in arrival_t arrival, in nic_t nic) {
    state start {
        packet.extract(hdr.start);
        transition select(hdr.start.options & 3) {
            0: message;
            1: shorter;
            2: longer;
            default: reject;
        }
    }
    state shorter {
        packet.extract(hdr.shorter);
        transition message;
    }
    state longer {
        packet.extract(hdr.longer);
        transition select(hdr.longer.more) {
            0 .. 99: message;
            default: shorter;
        }
    }
    state message {
        packet.extract(hdr.message);
        bit<8> next = packet.lookahead<bit<8>>();
        transition select(next) {
            0: accept;
            default: end;
        }
    }
    state end {
        packet.extract(hdr.end);
        transition accept;
    }
}

control I(inout headers_t hdr, inout metadata_t meta, in arrival_t arrival, in nic_t nic, inout reassembly_t reassembly) {
    action answer(in bit<8> flags, in pkt_t ack_no) {
        ctrl_pkt_event({
            (bit<32>) arrival.frame_bytes, hdr.message.src_context, hdr.message.dst_context, hdr.message.tx_msg_id, hdr.message.msg_len,
            hdr.message.pkt_offset, ack_no, 0
        }, flags, 0);
    }

    action known(bit<8> flags) {
        rx_msg_info_t info = get_rx_msg_info({
            1, hdr.message.src_context, hdr.message.tx_msg_id, hdr.message.msg_len, hdr.message.pkt_offset, true
        });
        answer(flags, info.ack_no);
    }

    table kinds {
        key = { hdr.end.check : exact; }
        actions = { known; NoAction; }
        const entries = {
            7 : known(ACK);
            8 : known(NACK);
        }
        const default_action = NoAction();
    }

    apply {
        if (hdr.shorter.isValid()) {
            delivered_event(hdr.message.tx_msg_id, (bit<32>) hdr.shorter.value, 0, 0);
            bit<32> shifted = hdr.message.msg_len * 3 + (bit<32>) hdr.shorter.value;
            rx_msg_info_t info = get_rx_msg_info({
                2, hdr.message.src_context, hdr.message.tx_msg_id, shifted, hdr.message.pkt_offset, false
            });
            if (!info.fail) {
                reassembly.drop = false;
                reassembly.rx_msg_id = info.rx_msg_id;
                reassembly.pkt_offset = hdr.message.pkt_offset;
                reassembly.is_last_pkt = info.is_last_pkt;
            }
        } else {
            switch (hdr.start.kind) {
                1: {
                    rx_msg_info_t info = get_rx_msg_info({
                        3, hdr.message.dst_context, hdr.message.tx_msg_id, (bit<32>) hdr.longer.value, 5, true
                    });
                    answer(DATA, info.ack_no);
                }
                default: { kinds.apply(); }
            }
        }
    }
}

control E(inout headers_t hdr, inout metadata_t meta, in departure_t departure, in nic_t nic, inout link_t link) {
    apply {
        hdr.start.setValid();
        hdr.start = { departure.flags, (bit<8>) departure.pkt_offset };
        if (hdr.start.options & 3 == 1) {
            hdr.shorter.setValid();
            hdr.shorter.value = departure.src_context;
        }
        if (hdr.start.options & 3 == 2) {
            hdr.longer.setValid();
            hdr.longer = { 77, (bit<8>) departure.credit };
            if (hdr.longer.more > 99) {
                hdr.shorter.setValid();
                hdr.shorter.value = 9;
            }
        }
        hdr.message.setValid();
        hdr.message = {
            departure.src_context, departure.dst_context, departure.tx_msg_id, departure.msg_len, departure.pkt_offset
        };
        hdr.end.setValid();
        hdr.end.check = departure.rank;
    }
}

control D(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.start);
        packet.emit(hdr.longer);
        packet.emit(hdr.shorter);
        packet.emit(hdr.message);
        packet.emit(hdr.end);
    }
}

NanoTransport(P(), I(), E(), D()) main;
