// The headers of all programs in this folder: Ethernet, IPv4, and a header that identifies a packet of a message.
#ifndef FRAME
#define FRAME

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

header message_t {
    context_t src_context;
    context_t dst_context;
    tx_msg_t  tx_msg_id;
    bit<32>   msg_len;
    pkt_t     pkt_offset;
    pkt_t     credit;     // control packets: defined by the program
    bit<8>    rank;       // control packets: defined by the program
    bit<8>    flags;
}

const bit<16> IPV4 = 0x0800;
const bit<16> IPV4_BYTES = 20;
const bit<16> MESSAGE_BYTES = 22;

// The value of `rx_msg_id` in a result of `get_rx_msg_info` for a message that has been delivered.
const rx_msg_t DELIVERED = 0xffff;

// Number of registers indexed by `rx_msg_id`, or by the low 16 bits of `tx_msg_id`.
const bit<32> MESSAGES = 65536;

// Writes the Ethernet, IPv4 and message headers of a departing packet. After them, the program writes `more` bytes of
// other headers.
action write_frame(inout ethernet_t ethernet, inout ipv4_t ipv4, inout message_t message,
                   in departure_t departure, in nic_t nic, in bit<8> protocol, in bit<16> more) {
    ethernet.setValid();
    ethernet = { nic.switch_mac, nic.mac, IPV4 };
    ipv4.setValid();
    ipv4 = {
        4, 5, 0, IPV4_BYTES + MESSAGE_BYTES + more + departure.payload, 0, 0, 64, protocol, 0, nic.ip, departure.dst_ip
    };
    message.setValid();
    message = {
        departure.src_context, departure.dst_context, departure.tx_msg_id, departure.msg_len, departure.pkt_offset,
        departure.credit, departure.rank, departure.flags
    };
}

#endif
