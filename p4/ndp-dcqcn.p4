// Two protocols in one NIC: NDP for short messages, whose latency matters, and DCQCN for long ones.
//
// As the NanoTransport paper describes it (section 6.3), the parser branches by the protocol number of a packet, and
// the logic of that protocol processes the packet. Each protocol has registers of its own; all share the NIC's
// fixed-function blocks. The sender chooses the protocol by the length of the message.
//
// NDP's data has priority over DCQCN's. NDP assumes that its PULLs share out the receiver's whole link, so DCQCN's
// packets get the rest. The paper leaves such interactions to the designer.

#include <core.p4>
#include <nanotransport.p4>
#include "include/frame.p4"

const bit<8> NDP = 0x99;
const bit<8> DCQCN = 0x9d;

// Longest message of NDP in packets; 0: the packets of one round-trip time (`rtt_packets` of the scenario).
const bit<32> SHORT = 0;

const bit<8> HIGHEST_PRIORITY = 0;
const bit<8> SHORT_PRIORITY = 1;
const bit<8> LONG_PRIORITY = 2;

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    message_t  message;
}

struct metadata_t { }

#define ONE_OF_SEVERAL
#define CONTROL_PRIORITY HIGHEST_PRIORITY
#define PROTOCOL NDP
#define DATA_PRIORITY SHORT_PRIORITY
#include "ndp.p4"
#undef PROTOCOL
#undef DATA_PRIORITY
#define PROTOCOL DCQCN
#define DATA_PRIORITY LONG_PRIORITY
#include "dcqcn.p4"

parser BothParser(packet_in packet, out headers_t hdr, inout metadata_t meta, in arrival_t arrival, in nic_t nic) {
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
            NDP: parse_message;
            DCQCN: parse_message;
            default: reject;
        }
    }
    state parse_message {
        packet.extract(hdr.message);
        transition accept;
    }
}

control BothIngress(inout headers_t hdr, inout metadata_t meta, in arrival_t arrival, in nic_t nic,
                    inout reassembly_t reassembly) {
    NdpIngress() ndp;
    DcqcnIngress() dcqcn;

    apply {
        if (hdr.ipv4.protocol == NDP) {
            ndp.apply(hdr, meta, arrival, nic, reassembly);
        } else {
            dcqcn.apply(hdr, meta, arrival, nic, reassembly);
        }
    }
}

control BothEgress(inout headers_t hdr, inout metadata_t meta, in departure_t departure, in nic_t nic,
                   inout link_t link) {
    NdpEgress() ndp;
    DcqcnEgress() dcqcn;

    apply {
        // The control packets about a message have its length, too.
        bit<64> short = (bit<64>) (SHORT == 0 ? nic.rtt_pkts : SHORT) * (bit<64>) nic.mtu;
        if ((bit<64>) departure.msg_len <= short) {
            ndp.apply(hdr, meta, departure, nic, link);
        } else {
            dcqcn.apply(hdr, meta, departure, nic, link);
        }
    }
}

control BothDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

@priorities(3)
@order("round-robin")
@paths("ecmp")
NanoTransport(BothParser(), BothIngress(), BothEgress(), BothDeparser()) main;
