// The NanoTransport architecture: what a transport program sees of its NIC.
//
// An arriving packet passes the parser and the ingress control; what the control leaves in `reassembly` decides whether its payload goes
// on to reassembly. A departing packet, data or control, passes the egress control and the deparser, which write its header.
//
// Packets of a message are numbered from 0: `pkt_offset`. A credit is the number of packets that may be sent: those below it.

typedef bit<32> ip_t;       // address of a NIC
typedef bit<16> context_t;  // a port at that NIC
typedef bit<32> tx_msg_t;   // a message as its sender numbers it: the low 16 bits are dense, and index registers
typedef bit<16> rx_msg_t;   // a message as its receiver numbers it, dense; 0xffff for one that has been delivered
typedef bit<32> pkt_t;      // a packet of a message, or a number of packets

// What a packet is. A program may use other flags in its headers; these are the ones that packetization gives.
const bit<8> DATA = 1;
const bit<8> ACK = 2;
const bit<8> NACK = 4;
const bit<8> PULL = 8;
const bit<8> GRANT = 8;
const bit<8> CHOP = 16;
const bit<8> RESEND = 32;
const bit<8> BUSY = 64;
const bit<8> BOGUS = 128;

// The NIC that the program runs on.
struct nic_t {
    bit<48> mac;
    bit<48> switch_mac;
    ip_t    ip;
    pkt_t   rtt_pkts;       // packets in a round trip at line rate: the credit of a new message
    bit<16> mtu;            // payload bytes of a full packet
    bit<32> line_rate_mbps; // of its link
    bit<32> base_rtt_ns;    // longest round trip of an empty network
    // What a pipeline, which cannot divide, multiplies by instead:
    bit<48> per_mtu;        // 2^40 / mtu, rounded up
    bit<48> per_rtt;        // 2^32 / base_rtt_ns
}

// An arriving packet.
struct arrival_t {
    bit<64> now_ns;
    bit<16> frame_bytes;
    bool    trimmed;        // a switch has cut off the payload
    bool    returned;       // a switch sends it back: it is this NIC's own packet
    bool    marked;         // a switch saw congestion
    bit<8>  hops;           // records of in-band telemetry (telemetry_t) that follow the program's header
}

// What one switch wrote into a packet.
header telemetry_t {
    bit<32> timestamp_ns;
    bit<32> tx_bytes;
    bit<32> queue_bytes;
    bit<32> rate_mbps;
}

// From ingress to reassembly. It begins with `drop` true: a packet that nothing is said of is finished with.
struct reassembly_t {
    bool  drop;
    rx_msg_t rx_msg_id;
    pkt_t pkt_offset;
    bool  is_last_pkt;
}

// From packetization or the packet generator to egress.
struct departure_t {
    bit<64>   now_ns;
    ip_t      dst_ip;
    context_t dst_context;
    context_t src_context;
    tx_msg_t  tx_msg_id;
    bit<32>   msg_len;      // bytes
    pkt_t     pkt_offset;
    pkt_t     credit;
    bit<8>    rank;
    bit<8>    flags;
    bool      is_new_msg;   // first packet of its message that is sent
    bool      is_rtx;       // it has been sent before
    bit<16>   payload;      // bytes
}

// From egress to the link.
struct link_t {
    bit<8> band;            // priority in the network, 0 first
}

struct rx_msg_info_request_t {
    ip_t      src_ip;
    context_t src_context;
    tx_msg_t  tx_msg_id;
    bit<32>   msg_len;
    pkt_t     pkt_offset;
    bool      mark_received;
}

struct rx_msg_info_t {
    bool     fail;          // no buffer, or given up: the rest means nothing
    rx_msg_t rx_msg_id;
    bool     is_new_msg;
    bool     is_new_pkt;
    bool     is_last_pkt;
    pkt_t    ack_no;        // first packet not received
}

struct ctrl_pkt_t {
    ip_t      dst_ip;
    context_t dst_context;
    context_t src_context;
    tx_msg_t  tx_msg_id;
    bit<32>   msg_len;
    pkt_t     pkt_offset;
    pkt_t     credit;
    bit<8>    rank;
}

// Finds, or begins, the message that a packet belongs to.
extern rx_msg_info_t get_rx_msg_info(in rx_msg_info_request_t request);
// Packets of a message being sent have arrived: all below `before`, and those in the bitmap, whose bit 0 is `pkt_offset`.
extern void delivered_event(in tx_msg_t tx_msg_id, in pkt_t before, in pkt_t pkt_offset, in bit<64> bitmap);
// Packets of a message being sent may leave: one again if `rtx`, all below `credit` if `more`.
extern void credit_to_btx_event(in tx_msg_t tx_msg_id, in bool rtx, in pkt_t rtx_pkt, in bool more, in pkt_t credit);
// A control packet: with the flags `immediate` at once, with the flags `paced` at the pace of the receiving link; one packet has both if
// that allows it now.
extern void ctrl_pkt_event(in ctrl_pkt_t packet, in bit<8> immediate, in bit<8> paced);

enum bit<2> reg_op_t {
    READ = 0,
    WRITE = 1,
    ADD = 2
}

// Registers that are read, changed and written in one step: one of two operations, by a predicate. Gives the new value.
extern IfElseRaw<T> {
    IfElseRaw(bit<32> size);
    T execute(in bit<32> index, in bool predicate, in reg_op_t op_true, in T operand_true, in reg_op_t op_false, in T operand_false);
}

// Registers that several stages use, of one pipeline or of both. T: a bit<W> or a struct of such.
extern DualPort<T> {
    DualPort(bit<32> size);
    T read(in bit<32> index);
    void write(in bit<32> index, in T value);
}

struct scheduled_t {
    bool     found;
    rx_msg_t id;
    bit<8>   level;         // its place among all in the scheduler, 0 first
    pkt_t    credit;        // what it may be granted now
}

// Messages by rank, the least first; 16 are compared at once. It notes for each how many packets have been granted and how many may be.
extern PriorityScheduler {
    PriorityScheduler();
    // Inserts or changes `id` (or removes it, if `remove`), then gives the first of the first `levels` messages for which
    // granted < grantable; that one is then granted all that may be. A new message begins with `granted`; else that is left alone.
    scheduled_t schedule(in rx_msg_t id, in bool remove, in bit<32> rank, in pkt_t granted, in pkt_t grantable, in bit<8> levels);
}

parser IngressParser<H, M>(packet_in packet, out H hdr, inout M meta, in arrival_t arrival, in nic_t nic);
control Ingress<H, M>(inout H hdr, inout M meta, in arrival_t arrival, in nic_t nic, inout reassembly_t reassembly);
control Egress<H, M>(inout H hdr, inout M meta, in departure_t departure, in nic_t nic, inout link_t link);
control Deparser<H>(packet_out packet, in H hdr);

package NanoTransport<H, M>(IngressParser<H, M> ingress_parser, Ingress<H, M> ingress_control, Egress<H, M> egress_control, Deparser<H> egress_deparser);
