// The parser and the deparser for programs that need only the headers of frame.p4. The program must define the constant
// PROTOCOL: the value of the IPv4 header's protocol field for its packets.

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    message_t  message;
}

struct metadata_t { }

parser FrameParser(packet_in packet, out headers_t hdr, inout metadata_t meta, in arrival_t arrival, in nic_t nic) {
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
        transition accept;
    }
}

control FrameDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.message);
    }
}
