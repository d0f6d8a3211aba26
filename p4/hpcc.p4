// HPCC: the sender adjusts its window to the queue lengths and rates that switches report (in-band telemetry).
//
// Y. Li et al.: HPCC: high precision congestion control, SIGCOMM 2019, algorithm 1. Switches write telemetry into data
// packets; the receiver returns the telemetry in its ACKs; the sender compares it with the telemetry of the previous
// ACK to compute the utilisation of each hop.
//
// The paper's fractions are fixed-point numbers with 16 fractional bits here: 1.0 is 65,536. Instead of dividing, the
// program multiplies by a reciprocal from a table of 256 entries. The key of this table is the leading bits of the
// divisor, and the error of a quotient is at most 0.2 %. The compiler supports neither loops in controls nor header
// stacks, so each of the hops 0 to 7 has headers and registers of its own.
//
// In an ACK or NACK, `pkt_offset` is the packet that arrived or was trimmed, and `credit` is the first missing packet.
// `rank` is the index of the packet's telemetry in the registers of the NIC that sends the ACK or NACK.

#include <core.p4>
#include <nanotransport.p4>
#include "include/frame.p4"

const bit<8> PROTOCOL = 0x9c;
const bit<64> ONE = 65536;

// Target utilisation (eta): 0.95.
const bit<32> ETA = 62259;
// Maximum number of consecutive additive-increase steps (maxStage).
const bit<32> MAX_STAGE = 5;
// Additive increase of the window per step in bytes (W_AI). 0 means (1 - eta) of the initial window, divided by 16
// messages.
const bit<32> W_AI = 0;

const bit<8> CONTROL_PRIORITY = 0;
const bit<8> DATA_PRIORITY = 1;

// The header after the message header. In an ACK or NACK it has the number of telemetry records that follow. In data
// packets the number is 0, and the records that switches append come after all headers.
header echo_t {
    bit<8> hops;
}

struct headers_t {
    ethernet_t  ethernet;
    ipv4_t      ipv4;
    message_t   message;
    echo_t      echo;
    telemetry_t hop0;
    telemetry_t hop1;
    telemetry_t hop2;
    telemetry_t hop3;
    telemetry_t hop4;
    telemetry_t hop5;
    telemetry_t hop6;
    telemetry_t hop7;
}

struct metadata_t {
    bit<8> hops; // number of valid headers among hop0 to hop7
}

// A telemetry record in a register. Registers can hold structs, but not headers.
struct hop_t {
    bit<32> timestamp_ns;
    bit<32> tx_bytes;
    bit<32> queue_bytes;
    bit<32> rate_mbps;
}

// Telemetry of an arrived data packet, which ingress stores until egress sends the ACK or NACK; and the destination of
// that control packet. If more than 256 control packets wait for transmission, the oldest ones are sent without
// telemetry.
struct waiting_t {
    ip_t     dst_ip;
    tx_msg_t tx_msg_id;
    bit<8>   hops;
}
IfElseRaw<bit<8>>(1) next_index;
DualPort<waiting_t>(256) waiting;
DualPort<hop_t>(256) waiting0;
DualPort<hop_t>(256) waiting1;
DualPort<hop_t>(256) waiting2;
DualPort<hop_t>(256) waiting3;
DualPort<hop_t>(256) waiting4;
DualPort<hop_t>(256) waiting5;
DualPort<hop_t>(256) waiting6;
DualPort<hop_t>(256) waiting7;

// The sender's state of a message.
struct flow_t {
    bool     started;     // an ACK or NACK has arrived
    tx_msg_t tx_msg_id;   // the message that this state belongs to
    bit<32>  reference;   // the reference window (W_c), in bytes
    bit<32>  utilisation; // U, fixed-point
    bit<32>  stage;       // additive-increase steps since the last multiplicative adjustment
    pkt_t    credit;      // packets with lower numbers may be sent
    pkt_t    round_ends;  // the current round trip ends when all packets below this one have arrived
    bit<8>   hops;        // number of records in the latest telemetry
}
// These registers are indexed by the sender's slot of a message.
DualPort<tx_msg_t>(MESSAGES) current; // the message in the slot; an ACK or NACK for another message is outdated
DualPort<flow_t>(MESSAGES) flows;
DualPort<hop_t>(MESSAGES) latest0;
DualPort<hop_t>(MESSAGES) latest1;
DualPort<hop_t>(MESSAGES) latest2;
DualPort<hop_t>(MESSAGES) latest3;
DualPort<hop_t>(MESSAGES) latest4;
DualPort<hop_t>(MESSAGES) latest5;
DualPort<hop_t>(MESSAGES) latest6;
DualPort<hop_t>(MESSAGES) latest7;

parser HpccParser(packet_in packet, out headers_t hdr, inout metadata_t meta, in arrival_t arrival, in nic_t nic) {
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
            PROTOCOL: parse_message;
            default: reject;
        }
    }
    state parse_message {
        packet.extract(hdr.message);
        packet.extract(hdr.echo);
        transition select(hdr.message.flags) {
            DATA &&& DATA: written_by_switches;
            default: sent_back;
        }
    }
    state written_by_switches {
        meta.hops = arrival.hops;
        transition parse_hops;
    }
    state sent_back {
        meta.hops = hdr.echo.hops;
        transition parse_hops;
    }
    state parse_hops {
        transition select(meta.hops) {
            0: accept;
            default: parse_hop0;
        }
    }
    state parse_hop0 {
        packet.extract(hdr.hop0);
        transition select(meta.hops) {
            1: accept;
            default: parse_hop1;
        }
    }
    state parse_hop1 {
        packet.extract(hdr.hop1);
        transition select(meta.hops) {
            2: accept;
            default: parse_hop2;
        }
    }
    state parse_hop2 {
        packet.extract(hdr.hop2);
        transition select(meta.hops) {
            3: accept;
            default: parse_hop3;
        }
    }
    state parse_hop3 {
        packet.extract(hdr.hop3);
        transition select(meta.hops) {
            4: accept;
            default: parse_hop4;
        }
    }
    state parse_hop4 {
        packet.extract(hdr.hop4);
        transition select(meta.hops) {
            5: accept;
            default: parse_hop5;
        }
    }
    state parse_hop5 {
        packet.extract(hdr.hop5);
        transition select(meta.hops) {
            6: accept;
            default: parse_hop6;
        }
    }
    state parse_hop6 {
        packet.extract(hdr.hop6);
        transition select(meta.hops) {
            7: accept;
            default: parse_hop7;
        }
    }
    state parse_hop7 {
        packet.extract(hdr.hop7);
        transition accept;
    }
}

#include "include/quotient.p4"

// Computes the utilisation of one hop since the previous ACK or NACK: the throughput plus the queue length divided by
// the round-trip time, as a fraction of the link rate. `busiest` is the maximum utilisation of the hops processed so
// far.
control Hop(in telemetry_t now, in hop_t before, in nic_t nic, inout bool valid, inout bit<64> busiest, inout bit<32> span) {
    Quotient() rate;
    Quotient() share;

    apply {
        bit<32> elapsed = now.timestamp_ns - before.timestamp_ns;
        if (elapsed == 0 || elapsed[31:31] == 1 || now.rate_mbps == 0) {
            valid = false; // the record is outdated, or no switch wrote it
        } else {
            bit<32> queue = now.queue_bytes < before.queue_bytes ? now.queue_bytes : before.queue_bytes;
            // The throughput plus queue length, in bytes per nanosecond. It is limited to 256, which is about 2 Tbit/s.
            bit<64> per_ns;
            rate.apply((bit<64>) (now.tx_bytes - before.tx_bytes), elapsed, per_ns);
            per_ns = per_ns + (((bit<64>) queue * (bit<64>) nic.per_rtt) >> 16);
            per_ns = per_ns < 256 * ONE ? per_ns : 256 * ONE;
            // 1 byte per nanosecond is 8,000 Mbit/s.
            bit<64> used;
            share.apply(per_ns * 8000, now.rate_mbps, used);
            used = used >> 16;
            used = used < 256 * ONE ? used : 256 * ONE;
            if (used > busiest) {
                busiest = used;
                span = elapsed;
            }
        }
    }
}

control HpccIngress(inout headers_t hdr, inout metadata_t meta, in arrival_t arrival, in nic_t nic,
                    inout reassembly_t reassembly) {
    Hop() compare0;
    Hop() compare1;
    Hop() compare2;
    Hop() compare3;
    Hop() compare4;
    Hop() compare5;
    Hop() compare6;
    Hop() compare7;
    Quotient() adjustment;

    // Stores the telemetry of the arriving packet, until egress sends it in the ACK or NACK.
    action store_telemetry(in bit<32> index) {
        waiting.write(index, { hdr.ipv4.src, hdr.message.tx_msg_id, meta.hops });
        if (meta.hops > 0) { waiting0.write(index, { hdr.hop0.timestamp_ns, hdr.hop0.tx_bytes, hdr.hop0.queue_bytes, hdr.hop0.rate_mbps }); }
        if (meta.hops > 1) { waiting1.write(index, { hdr.hop1.timestamp_ns, hdr.hop1.tx_bytes, hdr.hop1.queue_bytes, hdr.hop1.rate_mbps }); }
        if (meta.hops > 2) { waiting2.write(index, { hdr.hop2.timestamp_ns, hdr.hop2.tx_bytes, hdr.hop2.queue_bytes, hdr.hop2.rate_mbps }); }
        if (meta.hops > 3) { waiting3.write(index, { hdr.hop3.timestamp_ns, hdr.hop3.tx_bytes, hdr.hop3.queue_bytes, hdr.hop3.rate_mbps }); }
        if (meta.hops > 4) { waiting4.write(index, { hdr.hop4.timestamp_ns, hdr.hop4.tx_bytes, hdr.hop4.queue_bytes, hdr.hop4.rate_mbps }); }
        if (meta.hops > 5) { waiting5.write(index, { hdr.hop5.timestamp_ns, hdr.hop5.tx_bytes, hdr.hop5.queue_bytes, hdr.hop5.rate_mbps }); }
        if (meta.hops > 6) { waiting6.write(index, { hdr.hop6.timestamp_ns, hdr.hop6.tx_bytes, hdr.hop6.queue_bytes, hdr.hop6.rate_mbps }); }
        if (meta.hops > 7) { waiting7.write(index, { hdr.hop7.timestamp_ns, hdr.hop7.tx_bytes, hdr.hop7.queue_bytes, hdr.hop7.rate_mbps }); }
    }

    action data() {
        rx_msg_info_t info = get_rx_msg_info({
            hdr.ipv4.src, hdr.message.src_context, hdr.message.tx_msg_id, hdr.message.msg_len, hdr.message.pkt_offset,
            !arrival.trimmed
        });
        // If the NIC has no buffer for the message, it drops the packet. The sender retransmits the packet after a
        // timeout.
        if (!info.fail) {
            bit<8> index = next_index.execute(0, true, reg_op_t.ADD, 1, reg_op_t.READ, 0) - 1;
            store_telemetry((bit<32>) index);
            // The payload of a trimmed packet is missing, unless an untrimmed copy arrived before.
            ctrl_pkt_event({
                hdr.ipv4.src, hdr.message.src_context, hdr.message.dst_context, hdr.message.tx_msg_id, hdr.message.msg_len,
                hdr.message.pkt_offset, info.ack_no, index
            }, arrival.trimmed && info.is_new_pkt ? NACK : ACK, 0);
            if (info.is_new_pkt && !arrival.trimmed) {
                reassembly = { false, info.rx_msg_id, hdr.message.pkt_offset, info.is_last_pkt };
            }
        }
    }

    // Stores the telemetry of this ACK or NACK, to compare it with the telemetry of the next ACK or NACK.
    action remember(in bit<32> slot) {
        if (meta.hops > 0) { latest0.write(slot, { hdr.hop0.timestamp_ns, hdr.hop0.tx_bytes, hdr.hop0.queue_bytes, hdr.hop0.rate_mbps }); }
        if (meta.hops > 1) { latest1.write(slot, { hdr.hop1.timestamp_ns, hdr.hop1.tx_bytes, hdr.hop1.queue_bytes, hdr.hop1.rate_mbps }); }
        if (meta.hops > 2) { latest2.write(slot, { hdr.hop2.timestamp_ns, hdr.hop2.tx_bytes, hdr.hop2.queue_bytes, hdr.hop2.rate_mbps }); }
        if (meta.hops > 3) { latest3.write(slot, { hdr.hop3.timestamp_ns, hdr.hop3.tx_bytes, hdr.hop3.queue_bytes, hdr.hop3.rate_mbps }); }
        if (meta.hops > 4) { latest4.write(slot, { hdr.hop4.timestamp_ns, hdr.hop4.tx_bytes, hdr.hop4.queue_bytes, hdr.hop4.rate_mbps }); }
        if (meta.hops > 5) { latest5.write(slot, { hdr.hop5.timestamp_ns, hdr.hop5.tx_bytes, hdr.hop5.queue_bytes, hdr.hop5.rate_mbps }); }
        if (meta.hops > 6) { latest6.write(slot, { hdr.hop6.timestamp_ns, hdr.hop6.tx_bytes, hdr.hop6.queue_bytes, hdr.hop6.rate_mbps }); }
        if (meta.hops > 7) { latest7.write(slot, { hdr.hop7.timestamp_ns, hdr.hop7.tx_bytes, hdr.hop7.queue_bytes, hdr.hop7.rate_mbps }); }
    }

    apply {
        bool is_data = hdr.message.flags & DATA != 0;
        if (arrival.returned) {
            // A switch has returned a packet that this NIC sent. If it is a data packet, the NIC retransmits it.
            if (is_data) {
                credit_to_btx_event(hdr.message.tx_msg_id, true, hdr.message.pkt_offset, false, 0);
            }
            return;
        }
        if (is_data) {
            data();
            return;
        }
        bit<32> slot = hdr.message.tx_msg_id & 0xffff;
        if (current.read(slot) != hdr.message.tx_msg_id) {
            return;
        }
        pkt_t ack_no = hdr.message.credit;
        bool is_nack = hdr.message.flags & NACK != 0;
        delivered_event(hdr.message.tx_msg_id, ack_no, hdr.message.pkt_offset, is_nack ? 0 : (bit<64>) 1);

        // The window is limited, so that its product with 2^16 stays within 64 bits.
        bit<64> largest = (bit<64>) (nic.rtt_pkts < 0x400000 ? nic.rtt_pkts : 0x400000) * (bit<64>) nic.mtu;
        largest = largest < 0x10000000 ? largest : 0x10000000;
        bit<64> window = largest;
        flow_t flow = flows.read(slot);
        if (!flow.started || flow.tx_msg_id != hdr.message.tx_msg_id) {
            // This is the first ACK or NACK of the message. Its telemetry is only stored, for the next comparison.
            flow = {
                true, hdr.message.tx_msg_id, (bit<32>) largest, (bit<32>) ONE, 0, nic.rtt_pkts, nic.rtt_pkts, meta.hops
            };
            remember(slot);
        } else {
            // MeasureInflight in the paper: computes the utilisation of the busiest hop since the previous ACK or NACK,
            // averaged over a round trip.
            bool valid = true;
            bit<64> busiest = 0;
            bit<32> span = 0;
            if (meta.hops == flow.hops) {
                if (meta.hops > 0) { compare0.apply(hdr.hop0, latest0.read(slot), nic, valid, busiest, span); }
                if (meta.hops > 1) { compare1.apply(hdr.hop1, latest1.read(slot), nic, valid, busiest, span); }
                if (meta.hops > 2) { compare2.apply(hdr.hop2, latest2.read(slot), nic, valid, busiest, span); }
                if (meta.hops > 3) { compare3.apply(hdr.hop3, latest3.read(slot), nic, valid, busiest, span); }
                if (meta.hops > 4) { compare4.apply(hdr.hop4, latest4.read(slot), nic, valid, busiest, span); }
                if (meta.hops > 5) { compare5.apply(hdr.hop5, latest5.read(slot), nic, valid, busiest, span); }
                if (meta.hops > 6) { compare6.apply(hdr.hop6, latest6.read(slot), nic, valid, busiest, span); }
                if (meta.hops > 7) { compare7.apply(hdr.hop7, latest7.read(slot), nic, valid, busiest, span); }
            }
            if (valid) {
                // `covered` is the fraction of a round trip that the measurement covers.
                bit<64> covered = (bit<64>) (span < nic.base_rtt_ns ? span : nic.base_rtt_ns);
                covered = (covered * (bit<64>) nic.per_rtt) >> 16;
                covered = covered < ONE ? covered : ONE;
                flow.utilisation = (bit<32>) (((bit<64>) flow.utilisation * (ONE - covered) + busiest * covered) >> 16);
                flow.hops = meta.hops;
                remember(slot);
            }

            // ComputeWind in the paper: computes the window in bytes. Once per round trip it becomes the reference
            // window.
            bool is_multiplicative = flow.utilisation >= ETA || flow.stage >= MAX_STAGE;
            window = (bit<64>) flow.reference;
            if (is_multiplicative) {
                // The window grows at most to about 61 times its size, however low the utilisation is.
                bit<64> factor;
                adjustment.apply((bit<64>) ETA, flow.utilisation > 1024 ? flow.utilisation : 1024, factor);
                window = (window * factor) >> 16;
            }
            bit<64> step = (bit<64>) W_AI;
            if (W_AI == 0) {
                step = ((bit<64>) nic.rtt_pkts * (bit<64>) nic.mtu * (ONE |-| (bit<64>) ETA) + 0x80000) >> 20;
                step = step > 0 ? step : 1;
            }
            window = window + step;
            window = window < largest ? window : largest;
            if (ack_no > flow.round_ends) {
                flow.stage = is_multiplicative ? 0 : flow.stage + 1;
                flow.reference = (bit<32>) window;
                flow.round_ends = flow.credit;
            }
        }
        // The window is at least one packet.
        pkt_t packets = (pkt_t) ((window * (bit<64>) nic.per_mtu) >> 40);
        pkt_t credit = ack_no |+| (packets > 0 ? packets : 1);
        flow.credit = flow.credit > credit ? flow.credit : credit;
        flows.write(slot, flow);
        credit_to_btx_event(hdr.message.tx_msg_id, is_nack, hdr.message.pkt_offset, true, flow.credit);
    }
}

control HpccEgress(inout headers_t hdr, inout metadata_t meta, in departure_t departure, in nic_t nic,
                   inout link_t link) {
    hop_t hop;

    apply {
        bool is_data = departure.flags & DATA != 0;
        if (departure.is_new_msg) {
            current.write(departure.tx_msg_id & 0xffff, departure.tx_msg_id);
        }
        hdr.echo.setValid();
        hdr.echo.hops = 0;
        if (!is_data) {
            bit<32> index = (bit<32>) departure.rank;
            waiting_t stored = waiting.read(index);
            if (stored.dst_ip == departure.dst_ip && stored.tx_msg_id == departure.tx_msg_id) {
                hdr.echo.hops = stored.hops;
                if (stored.hops > 0) {
                    hop = waiting0.read(index);
                    hdr.hop0.setValid();
                    hdr.hop0 = { hop.timestamp_ns, hop.tx_bytes, hop.queue_bytes, hop.rate_mbps };
                }
                if (stored.hops > 1) {
                    hop = waiting1.read(index);
                    hdr.hop1.setValid();
                    hdr.hop1 = { hop.timestamp_ns, hop.tx_bytes, hop.queue_bytes, hop.rate_mbps };
                }
                if (stored.hops > 2) {
                    hop = waiting2.read(index);
                    hdr.hop2.setValid();
                    hdr.hop2 = { hop.timestamp_ns, hop.tx_bytes, hop.queue_bytes, hop.rate_mbps };
                }
                if (stored.hops > 3) {
                    hop = waiting3.read(index);
                    hdr.hop3.setValid();
                    hdr.hop3 = { hop.timestamp_ns, hop.tx_bytes, hop.queue_bytes, hop.rate_mbps };
                }
                if (stored.hops > 4) {
                    hop = waiting4.read(index);
                    hdr.hop4.setValid();
                    hdr.hop4 = { hop.timestamp_ns, hop.tx_bytes, hop.queue_bytes, hop.rate_mbps };
                }
                if (stored.hops > 5) {
                    hop = waiting5.read(index);
                    hdr.hop5.setValid();
                    hdr.hop5 = { hop.timestamp_ns, hop.tx_bytes, hop.queue_bytes, hop.rate_mbps };
                }
                if (stored.hops > 6) {
                    hop = waiting6.read(index);
                    hdr.hop6.setValid();
                    hdr.hop6 = { hop.timestamp_ns, hop.tx_bytes, hop.queue_bytes, hop.rate_mbps };
                }
                if (stored.hops > 7) {
                    hop = waiting7.read(index);
                    hdr.hop7.setValid();
                    hdr.hop7 = { hop.timestamp_ns, hop.tx_bytes, hop.queue_bytes, hop.rate_mbps };
                }
            }
        }
        write_frame(
            hdr.ethernet, hdr.ipv4, hdr.message, departure, nic, PROTOCOL, 1 + 16 * (bit<16>) hdr.echo.hops
        );
        link.priority = is_data ? DATA_PRIORITY : CONTROL_PRIORITY;
    }
}

control HpccDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

// Switches write telemetry into data packets. ECMP keeps a message on one path, so that successive telemetry records
// come from the same hops.
@priorities(2)
@order("round-robin")
@paths("ecmp")
@telemetry
NanoTransport(HpccParser(), HpccIngress(), HpccEgress(), HpccDeparser()) main;
