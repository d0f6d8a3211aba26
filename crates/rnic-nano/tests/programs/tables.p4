// Tables of many exact entries with short keys, which hardware has in memories: with two keys, several actions and a
// default action with an argument; and with an entry for every key.

#include <core.p4>
#include <nanotransport.p4>

header message_t {
    bit<8>    kind;
    bit<8>    number;
    context_t src_context;
    context_t dst_context;
    tx_msg_t  tx_msg_id;
    bit<32>   msg_len;
    pkt_t     pkt_offset;
}

struct headers_t {
    message_t message;
}

struct metadata_t { }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, in arrival_t arrival, in nic_t nic) {
    state start {
        packet.extract(hdr.message);
        transition accept;
    }
}

control I(inout headers_t hdr, inout metadata_t meta, in arrival_t arrival, in nic_t nic, inout reassembly_t reassembly) {
    bit<32> word = 0;
    bit<8> flags = 0;
    bit<8> chosen = 0;

    action pick(bit<32> value, bit<8> more) {
        word = value;
        flags = flags + more;
    }
    action mark(bit<8> value) {
        flags = value;
    }
    table pairs {
        key = { hdr.message.kind[2:0] : exact; hdr.message.number[4:0] : exact; }
        actions = { pick; mark; }
        const entries = {
            (0, 0) : mark(121);
            (1, 7) : pick(2545373331, 66);
            (2, 14) : pick(1588945317, 242);
            (3, 21) : mark(33);
            (4, 28) : pick(2601030206, 6);
            (0, 3) : pick(3903345312, 240);
            (1, 10) : mark(132);
            (2, 17) : pick(2365602029, 119);
            (3, 24) : pick(823534632, 240);
            (4, 31) : mark(243);
            (0, 6) : pick(1705680003, 77);
            (1, 13) : pick(996097415, 77);
            (2, 20) : mark(199);
            (3, 27) : pick(3183652506, 7);
            (4, 2) : pick(2883690329, 32);
            (0, 9) : mark(81);
            (1, 16) : pick(3256574099, 21);
            (2, 23) : pick(1293934752, 15);
            (3, 30) : mark(137);
            (4, 5) : pick(2030441879, 198);
            (0, 12) : pick(3067162762, 218);
            (1, 19) : mark(202);
            (2, 26) : pick(3127277236, 227);
            (3, 1) : pick(4140751115, 68);
            (4, 8) : mark(187);
            (0, 15) : pick(418563101, 18);
            (1, 22) : pick(583981820, 253);
            (2, 29) : mark(111);
            (3, 4) : pick(1108020927, 223);
            (4, 11) : pick(3345661764, 154);
            (0, 18) : mark(215);
            (1, 25) : pick(2178592017, 197);
            (2, 0) : pick(2465408892, 179);
            (3, 7) : mark(208);
            (4, 14) : pick(2509342357, 118);
            (0, 21) : pick(3883517041, 172);
            (1, 28) : mark(14);
            (2, 3) : pick(3678212433, 143);
            (3, 10) : pick(4256268117, 83);
            (4, 17) : mark(167);
        }
        const default_action = mark(99);
    }

    action square(bit<8> value) {
        flags = flags ^ value;
    }
    table squares {
        key = { hdr.message.number[4:0] : exact; }
        actions = { square; }
        const entries = {
            0 : square(1);
            1 : square(2);
            2 : square(5);
            3 : square(10);
            4 : square(17);
            5 : square(26);
            6 : square(37);
            7 : square(50);
            8 : square(65);
            9 : square(82);
            10 : square(101);
            11 : square(122);
            12 : square(145);
            13 : square(170);
            14 : square(197);
            15 : square(226);
            16 : square(1);
            17 : square(34);
            18 : square(69);
            19 : square(106);
            20 : square(145);
            21 : square(186);
            22 : square(229);
            23 : square(18);
            24 : square(65);
            25 : square(114);
            26 : square(165);
            27 : square(218);
            28 : square(17);
            29 : square(74);
            30 : square(133);
            31 : square(194);
        }
    }

    apply {
        switch (pairs.apply().action_run) {
            pick: { chosen = 1; }
            mark: { chosen = 2; }
        }
        if (hdr.message.pkt_offset[0:0] == 1 && squares.apply().hit) {
            chosen = chosen + 4;
        }
        ctrl_pkt_event({
            word, hdr.message.src_context, hdr.message.dst_context, hdr.message.tx_msg_id, hdr.message.msg_len,
            hdr.message.pkt_offset, (bit<32>) chosen, 0
        }, flags, 0);
    }
}

control E(inout headers_t hdr, inout metadata_t meta, in departure_t departure, in nic_t nic, inout link_t link) {
    apply {
        hdr.message.setValid();
        hdr.message = {
            departure.flags, 0, departure.src_context, departure.dst_context, departure.tx_msg_id, departure.msg_len, departure.pkt_offset
        };
    }
}

control D(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.message);
    }
}

NanoTransport(P(), I(), E(), D()) main;
