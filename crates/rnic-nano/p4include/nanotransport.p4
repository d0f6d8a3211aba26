// The NanoTransport architecture: the interface between a transport program and its NIC.
//
// An arriving packet passes through the parser and the ingress control. The value that the control leaves in
// `reassembly` decides whether the NIC reassembles the packet's payload. A departing packet, data or control, passes
// through the egress control and the deparser, which write its header.
//
// The packets of a message are numbered 0, 1, 2, and so on; `pkt_offset` is the number of a packet. A credit of n
// allows the sender to send packets 0 to n - 1.

typedef bit<32> ip_t;       // IPv4 address of a NIC
typedef bit<16> context_t;  // port number at a NIC
typedef bit<32> tx_msg_t;   // sender's id of a message; its low 16 bits are the sender's slot, which indexes registers
typedef bit<16> rx_msg_t;   // the receiver's slot of a message, which indexes registers; 0xffff for a delivered message
typedef bit<32> pkt_t;      // number of a packet in its message, or a number of packets

// Flags for the types of packets. The NIC's packetization and packet generator use these values; a program may use
// other values in its headers.
const bit<8> DATA = 1;
const bit<8> ACK = 2;
const bit<8> NACK = 4;
const bit<8> PULL = 8;
const bit<8> GRANT = 8;
const bit<8> CHOP = 16;
const bit<8> RESEND = 32;
const bit<8> BUSY = 64;
const bit<8> BOGUS = 128;

// The parameters of the NIC that runs the program.
struct nic_t {
    bit<48> mac;
    bit<48> switch_mac;
    ip_t    ip;
    pkt_t   rtt_pkts;       // full packets sent in one round-trip time at line rate: the credit of a new message
    bit<16> mtu;            // payload of a full packet in bytes
    bit<32> line_rate_mbps; // rate of the NIC's link in Mbit/s
    bit<32> base_rtt_ns;    // maximum round-trip time of an idle network in nanoseconds
    // A pipeline cannot divide, so a program multiplies by these reciprocals:
    bit<48> per_mtu;        // 2^40 / mtu, rounded up
    bit<48> per_rtt;        // 2^32 / base_rtt_ns
}

// What the NIC knows about an arriving packet besides the packet's bytes.
struct arrival_t {
    bit<64> now_ns;
    bit<16> frame_bytes;
    bool    trimmed;        // a switch has trimmed the payload
    bool    returned;       // a switch has returned this packet to its sender, this NIC
    bool    marked;         // the packet is CE-marked (ECN)
    bit<8>  hops;           // number of in-band telemetry records (telemetry_t) after the program's header
}

// In-band telemetry that one switch wrote into a packet.
header telemetry_t {
    bit<32> timestamp_ns;
    bit<32> tx_bytes;
    bit<32> queue_bytes;
    bit<32> rate_mbps;
}

// Ingress tells the NIC what to do with the payload. `drop` is initially true, so the NIC drops the payload by default.
struct reassembly_t {
    bool  drop;
    rx_msg_t rx_msg_id;
    pkt_t pkt_offset;
    bool  is_last_pkt;
}

// A departing packet, as packetization or the packet generator passes it to egress.
struct departure_t {
    bit<64>   now_ns;
    ip_t      dst_ip;
    context_t dst_context;
    context_t src_context;
    tx_msg_t  tx_msg_id;
    bit<32>   msg_len;      // message length in bytes
    pkt_t     pkt_offset;
    pkt_t     credit;
    bit<8>    rank;
    bit<8>    flags;
    bool      is_new_msg;   // the packet is the first one that is sent of its message
    bool      is_rtx;       // the packet is a retransmission
    bit<16>   payload;      // payload in bytes
}

// Egress tells the NIC how to send the packet on the link.
struct link_t {
    bit<8> priority;        // priority in the network; 0 is the highest
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
    bool     fail;          // no buffer is free, or the reception has expired: the other fields are undefined
    rx_msg_t rx_msg_id;
    bool     is_new_msg;
    bool     is_new_pkt;
    bool     is_last_pkt;
    pkt_t    ack_no;        // number of the first packet that has not been received
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

// Finds the message to which an arriving packet belongs. Creates the message if this is its first packet.
extern rx_msg_info_t get_rx_msg_info(in rx_msg_info_request_t request);
// Marks packets of a sent message as delivered: all packets below `before`, and packet `pkt_offset` + i for each bit i
// of `bitmap` that is 1.
extern void delivered_event(in tx_msg_t tx_msg_id, in pkt_t before, in pkt_t pkt_offset, in bit<64> bitmap);
// Allows packets of a message to be sent. If `rtx` is true, the NIC retransmits packet `rtx_pkt`. If `more` is true,
// the credit of the message is raised to `credit`.
extern void credit_to_btx_event(in tx_msg_t tx_msg_id, in bool rtx, in pkt_t rtx_pkt, in bool more, in pkt_t credit);
// The same with several packets in one call: the NIC retransmits packet `pkt_offset` + i for each bit i of `bitmap`
// that is 1.
extern void credit_to_btx_bitmap_event(in tx_msg_t tx_msg_id, in pkt_t pkt_offset, in bit<64> bitmap, in bool more, in pkt_t credit);
// Sends one control packet immediately, with the flags `immediate`, and one at the pace of the receiving link, with the
// flags `paced`. Flags of 0 send no packet. If the pacer allows a packet now, one packet carries both sets of flags.
extern void ctrl_pkt_event(in ctrl_pkt_t packet, in bit<8> immediate, in bit<8> paced);

enum bit<2> reg_op_t {
    READ = 0,
    WRITE = 1,
    ADD = 2,
    SUBTRACT = 3
}

// A comparison of a register (left) with an operand (right), both without sign.
enum bit<3> reg_cmp_t {
    EQUAL = 0,
    NOT_EQUAL = 1,
    LESS = 2,
    LESS_EQUAL = 3,
    GREATER = 4,
    GREATER_EQUAL = 5
}

// An array of registers with atomic read-modify-write operations: a predicate selects one of two operations on a
// register. In `execute` the predicate depends on the packet only; in `compare` it is a comparison of the register's
// old value with `compared`. Both return the register's new value.
extern IfElseRaw<T> {
    IfElseRaw(bit<32> size);
    T execute(in bit<32> index, in bool predicate, in reg_op_t op_true, in T operand_true, in reg_op_t op_false, in T operand_false);
    T compare(in bit<32> index, in reg_cmp_t comparison, in T compared, in reg_op_t op_true, in T operand_true, in reg_op_t op_false, in T operand_false);
}

// The left side of the comparison of a pair of registers.
enum bit<2> pairs_operand_t {
    X = 0,
    Y = 1,
    DIFFERENCE = 2          // X - Y
}

struct pairs_t<T> {
    T x;
    T y;
}

// An array of pairs of registers X and Y, which one atomic operation updates together: the comparison of one of the old
// values, or of their difference, with `compared` selects one of two operations on each. `execute` returns the new
// values.
extern Pairs<T> {
    Pairs(bit<32> size);
    pairs_t<T> execute(in bit<32> index, in pairs_operand_t left, in reg_cmp_t comparison, in T compared,
                      in reg_op_t x_op_true, in T x_operand_true, in reg_op_t x_op_false, in T x_operand_false,
                      in reg_op_t y_op_true, in T y_operand_true, in reg_op_t y_op_false, in T y_operand_false);
}

// An array of registers with a read port and a write port, which different stages of one or both pipelines can use. T
// is a number bit<W>, or a struct whose fields are such numbers.
extern DualPort<T> {
    DualPort(bit<32> size);
    T read(in bit<32> index);
    void write(in bit<32> index, in T value);
}

struct scheduled_t {
    bool     found;
    rx_msg_t id;
    bit<8>   level;         // position among the scheduler's messages, ordered by rank; 0 is the first
    pkt_t    credit;        // the credit that the message is granted now
}

// A scheduler that orders messages by rank, the smallest first. The hardware compares 16 messages in parallel. For each
// message, the scheduler keeps the number of packets that have been granted and the number that may be granted.
extern PriorityScheduler {
    PriorityScheduler();
    // Inserts, updates or (if `remove`) removes message `id`. Then selects, among the first `levels` messages, the
    // first message with granted < grantable, and raises its granted to its grantable. The argument `granted` is the
    // initial value for a new message; it is ignored for a message that is already in the scheduler.
    scheduled_t schedule(in rx_msg_t id, in bool remove, in bit<32> rank, in pkt_t granted, in pkt_t grantable, in bit<8> levels);
}

parser IngressParser<H, M>(packet_in packet, out H hdr, inout M meta, in arrival_t arrival, in nic_t nic);
control Ingress<H, M>(inout H hdr, inout M meta, in arrival_t arrival, in nic_t nic, inout reassembly_t reassembly);
control Egress<H, M>(inout H hdr, inout M meta, in departure_t departure, in nic_t nic, inout link_t link);
control Deparser<H>(packet_out packet, in H hdr);

package NanoTransport<H, M>(IngressParser<H, M> ingress_parser, Ingress<H, M> ingress_control, Egress<H, M> egress_control, Deparser<H> egress_deparser);
