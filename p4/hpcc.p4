// HPCC: the sender sizes its window by what switches report of their queues and rates.
//
// Y. Li et al.: HPCC: high precision congestion control, SIGCOMM 2019, algorithm 1. Switches write telemetry into data packets; the receiver
// sends it back with each ACK; the sender compares it with that of the ACK before, and so knows how busy each hop was in between.
//
// Numbers that are fractions there have 16 binary places here: 1.0 is 65,536. There is no division: a quotient is the product with a
// reciprocal out of a table of 256, found by the divisor's leading bits; it is right to 0.2 %. There are no loops and no stacks of headers
// either: hop0 to hop7 are headers and registers of their own.
//
// In an ACK or NACK `pkt_offset` is the packet that arrived or lost its payload, `credit` the first packet missing, and `rank` the place of
// its telemetry at the NIC that answers.

#include <core.p4>
#include <nanotransport.p4>
#include "include/frame.p4"

const bit<8> PROTOCOL = 0x9c;
const bit<64> ONE = 65536;

// Utilisation to aim for (eta): 0.95.
const bit<32> ETA = 62259;
// Steps of additive increase in a row (maxStage).
const bit<32> MAX_STAGE = 5;
// Bytes that are added to the window at each step (W_AI); 0: what eta leaves free of the first window, shared by 16 messages.
const bit<32> W_AI = 0;

const bit<8> CONTROL_BAND = 0;
const bit<8> DATA_BAND = 1;

// Behind the message's header: how many records of telemetry follow. Data packets bring theirs behind all headers.
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
    bit<8> hops; // of hop0 to hop7, how many are there
}

// A hop's record in a register: registers hold structs, not headers.
struct hop_t {
    bit<32> timestamp_ns;
    bit<32> tx_bytes;
    bit<32> queue_bytes;
    bit<32> rate_mbps;
}

// Telemetry on its way from a data packet (ingress) to the answer (egress), and whose it is. 256 answers may wait for the wire with
// their telemetry; of a longer queue the oldest go without.
struct waiting_t {
    ip_t     dst_ip;
    tx_msg_t tx_msg_id;
    bit<8>   hops;
}
IfElseRaw<bit<8>>(1) next_place;
DualPort<waiting_t>(256) waiting;
DualPort<hop_t>(256) waiting0;
DualPort<hop_t>(256) waiting1;
DualPort<hop_t>(256) waiting2;
DualPort<hop_t>(256) waiting3;
DualPort<hop_t>(256) waiting4;
DualPort<hop_t>(256) waiting5;
DualPort<hop_t>(256) waiting6;
DualPort<hop_t>(256) waiting7;

// A message at its sender.
struct flow_t {
    bool     started;     // there was an answer
    tx_msg_t tx_msg_id;   // the message whose state it is
    bit<32>  reference;   // the reference window (W_c), in bytes
    bit<32>  utilisation; // U, a fraction
    bit<32>  stage;       // steps of additive increase since the last multiplicative one
    pkt_t    credit;      // packets before this one may be sent
    pkt_t    round_ends;  // when all packets before this one have arrived, a round trip is over
    bit<8>   hops;        // of the latest telemetry
}
// By slot.
DualPort<tx_msg_t>(MESSAGES) current; // the message that it holds: an answer to another one is an old one
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

// a / b with 16 binary places, as far as 64 bits go; b is not 0.
control Quotient(in bit<64> a, in bit<32> b, out bit<64> quotient) {
    bit<64> reciprocal = 0;
    bit<32> leading;

    action is(bit<64> value) {
        reciprocal = value;
    }
    table reciprocals {
        key = { leading[30:23] : exact; }
        actions = { is; }
        const entries = {
#include "include/reciprocals.p4"
        }
    }

    apply {
        // Moves the leading one to bit 31: by 16 places if it is not in the upper half, then by 8, 4, 2 and 1.
        bit<8> exponent = 31;
        leading = b;
        if (leading[31:16] == 0) { leading = leading << 16; exponent = exponent - 16; }
        if (leading[31:24] == 0) { leading = leading << 8; exponent = exponent - 8; }
        if (leading[31:28] == 0) { leading = leading << 4; exponent = exponent - 4; }
        if (leading[31:30] == 0) { leading = leading << 2; exponent = exponent - 2; }
        if (leading[31:31] == 0) { leading = leading << 1; exponent = exponent - 1; }
        reciprocals.apply();
        quotient = (a * reciprocal) >> exponent;
    }
}

// One hop: its rate and its queue's worth of rate since the last answer, as a fraction of its link's; keeps the busiest.
control Hop(in telemetry_t now, in hop_t before, in nic_t nic, inout bool valid, inout bit<64> busiest, inout bit<32> span) {
    Quotient() rate;
    Quotient() share;

    apply {
        bit<32> elapsed = now.timestamp_ns - before.timestamp_ns;
        if (elapsed == 0 || elapsed[31:31] == 1 || now.rate_mbps == 0) {
            valid = false; // not later than what is known already, or not from a switch
        } else {
            bit<32> queue = now.queue_bytes < before.queue_bytes ? now.queue_bytes : before.queue_bytes;
            // Bytes per nanosecond; at most 2 Tbit/s.
            bit<64> per_ns;
            rate.apply((bit<64>) (now.tx_bytes - before.tx_bytes), elapsed, per_ns);
            per_ns = per_ns + (((bit<64>) queue * (bit<64>) nic.per_rtt) >> 16);
            per_ns = per_ns < 256 * ONE ? per_ns : 256 * ONE;
            // One byte per nanosecond is 8,000 Mbit/s.
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
    Quotient() cut;

    // Keeps telemetry for the answer.
    action keep(in bit<32> place) {
        waiting.write(place, { hdr.ipv4.src, hdr.message.tx_msg_id, meta.hops });
        if (meta.hops > 0) { waiting0.write(place, { hdr.hop0.timestamp_ns, hdr.hop0.tx_bytes, hdr.hop0.queue_bytes, hdr.hop0.rate_mbps }); }
        if (meta.hops > 1) { waiting1.write(place, { hdr.hop1.timestamp_ns, hdr.hop1.tx_bytes, hdr.hop1.queue_bytes, hdr.hop1.rate_mbps }); }
        if (meta.hops > 2) { waiting2.write(place, { hdr.hop2.timestamp_ns, hdr.hop2.tx_bytes, hdr.hop2.queue_bytes, hdr.hop2.rate_mbps }); }
        if (meta.hops > 3) { waiting3.write(place, { hdr.hop3.timestamp_ns, hdr.hop3.tx_bytes, hdr.hop3.queue_bytes, hdr.hop3.rate_mbps }); }
        if (meta.hops > 4) { waiting4.write(place, { hdr.hop4.timestamp_ns, hdr.hop4.tx_bytes, hdr.hop4.queue_bytes, hdr.hop4.rate_mbps }); }
        if (meta.hops > 5) { waiting5.write(place, { hdr.hop5.timestamp_ns, hdr.hop5.tx_bytes, hdr.hop5.queue_bytes, hdr.hop5.rate_mbps }); }
        if (meta.hops > 6) { waiting6.write(place, { hdr.hop6.timestamp_ns, hdr.hop6.tx_bytes, hdr.hop6.queue_bytes, hdr.hop6.rate_mbps }); }
        if (meta.hops > 7) { waiting7.write(place, { hdr.hop7.timestamp_ns, hdr.hop7.tx_bytes, hdr.hop7.queue_bytes, hdr.hop7.rate_mbps }); }
    }

    action data() {
        rx_msg_info_t info = get_rx_msg_info({
            hdr.ipv4.src, hdr.message.src_context, hdr.message.tx_msg_id, hdr.message.msg_len, hdr.message.pkt_offset,
            !arrival.trimmed
        });
        // A packet for whose message there is no buffer is forgotten: its sender will try again.
        if (!info.fail) {
            bit<8> place = next_place.execute(0, true, reg_op_t.ADD, 1, reg_op_t.READ, 0) - 1;
            keep((bit<32>) place);
            // A trimmed packet is missing, unless another copy was there before.
            ctrl_pkt_event({
                hdr.ipv4.src, hdr.message.src_context, hdr.message.dst_context, hdr.message.tx_msg_id, hdr.message.msg_len,
                hdr.message.pkt_offset, info.ack_no, place
            }, arrival.trimmed && info.is_new_pkt ? NACK : ACK, 0);
            if (info.is_new_pkt && !arrival.trimmed) {
                reassembly = { false, info.rx_msg_id, hdr.message.pkt_offset, info.is_last_pkt };
            }
        }
    }

    // The telemetry is now what the next is compared with.
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
            // A switch has sent back this NIC's own packet: if it is data, it goes out again.
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

        // Products with 2^16 fit 64 bits with room.
        bit<64> largest = (bit<64>) (nic.rtt_pkts < 0x400000 ? nic.rtt_pkts : 0x400000) * (bit<64>) nic.mtu;
        largest = largest < 0x10000000 ? largest : 0x10000000;
        bit<64> window = largest;
        flow_t flow = flows.read(slot);
        if (!flow.started || flow.tx_msg_id != hdr.message.tx_msg_id) {
            // The first answer is there to compare with.
            flow = {
                true, hdr.message.tx_msg_id, (bit<32>) largest, (bit<32>) ONE, 0, nic.rtt_pkts, nic.rtt_pkts, meta.hops
            };
            remember(slot);
        } else {
            // MeasureInflight: the utilisation of the busiest hop since the last answer, averaged over a round trip.
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
                // The share of a round trip that the measurement covers.
                bit<64> covered = (bit<64>) (span < nic.base_rtt_ns ? span : nic.base_rtt_ns);
                covered = (covered * (bit<64>) nic.per_rtt) >> 16;
                covered = covered < ONE ? covered : ONE;
                flow.utilisation = (bit<32>) (((bit<64>) flow.utilisation * (ONE - covered) + busiest * covered) >> 16);
                flow.hops = meta.hops;
                remember(slot);
            }

            // ComputeWind: the window in bytes. Once per round trip it becomes the reference.
            bool is_cut = flow.utilisation >= ETA || flow.stage >= MAX_STAGE;
            window = (bit<64>) flow.reference;
            if (is_cut) {
                // Not more than 64 times the window, however idle the path is.
                bit<64> factor;
                cut.apply((bit<64>) ETA, flow.utilisation > 1024 ? flow.utilisation : 1024, factor);
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
                flow.stage = is_cut ? 0 : flow.stage + 1;
                flow.reference = (bit<32>) window;
                flow.round_ends = flow.credit;
            }
        }
        // A window of less than a packet is one.
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
            bit<32> place = (bit<32>) departure.rank;
            waiting_t kept = waiting.read(place);
            if (kept.dst_ip == departure.dst_ip && kept.tx_msg_id == departure.tx_msg_id) {
                hdr.echo.hops = kept.hops;
                if (kept.hops > 0) {
                    hop = waiting0.read(place);
                    hdr.hop0.setValid();
                    hdr.hop0 = { hop.timestamp_ns, hop.tx_bytes, hop.queue_bytes, hop.rate_mbps };
                }
                if (kept.hops > 1) {
                    hop = waiting1.read(place);
                    hdr.hop1.setValid();
                    hdr.hop1 = { hop.timestamp_ns, hop.tx_bytes, hop.queue_bytes, hop.rate_mbps };
                }
                if (kept.hops > 2) {
                    hop = waiting2.read(place);
                    hdr.hop2.setValid();
                    hdr.hop2 = { hop.timestamp_ns, hop.tx_bytes, hop.queue_bytes, hop.rate_mbps };
                }
                if (kept.hops > 3) {
                    hop = waiting3.read(place);
                    hdr.hop3.setValid();
                    hdr.hop3 = { hop.timestamp_ns, hop.tx_bytes, hop.queue_bytes, hop.rate_mbps };
                }
                if (kept.hops > 4) {
                    hop = waiting4.read(place);
                    hdr.hop4.setValid();
                    hdr.hop4 = { hop.timestamp_ns, hop.tx_bytes, hop.queue_bytes, hop.rate_mbps };
                }
                if (kept.hops > 5) {
                    hop = waiting5.read(place);
                    hdr.hop5.setValid();
                    hdr.hop5 = { hop.timestamp_ns, hop.tx_bytes, hop.queue_bytes, hop.rate_mbps };
                }
                if (kept.hops > 6) {
                    hop = waiting6.read(place);
                    hdr.hop6.setValid();
                    hdr.hop6 = { hop.timestamp_ns, hop.tx_bytes, hop.queue_bytes, hop.rate_mbps };
                }
                if (kept.hops > 7) {
                    hop = waiting7.read(place);
                    hdr.hop7.setValid();
                    hdr.hop7 = { hop.timestamp_ns, hop.tx_bytes, hop.queue_bytes, hop.rate_mbps };
                }
            }
        }
        write_frame(
            hdr.ethernet, hdr.ipv4, hdr.message, departure, nic, PROTOCOL, 1 + 16 * (bit<16>) hdr.echo.hops
        );
        link.band = is_data ? DATA_BAND : CONTROL_BAND;
    }
}

control HpccDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

// Switches write telemetry into data packets. Paths are those of ECMP: telemetry of one hop is compared with that of the same hop before.
@bands(2)
@order("round-robin")
@paths("ecmp")
@telemetry
NanoTransport(HpccParser(), HpccIngress(), HpccEgress(), HpccDeparser()) main;
