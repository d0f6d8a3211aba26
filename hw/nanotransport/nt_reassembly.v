// SPDX-License-Identifier: MIT OR Apache-2.0
// Reassembly: the state of the messages that are being received.
//
// An operation may enter in every cycle; its result leaves one cycle later, so the ingress pipeline has the answer of
// get_rx_msg_info in its next stage. A table remembers, for each slot of each sender, the newest message and whether
// it is active, was delivered, or has expired. The index of the table is the low bits of the sender's address and of
// its slot; a sender whose entry belongs to another one's active message has to wait (`fail`).
`default_nettype none
module nt_reassembly #(
    parameter LOG_SLOTS = 4,
    parameter SEGMENTS = 38,           // packets of the longest message, at most 64
    parameter LOG_MTU = 10,
    parameter LOG_SENDERS = 4,         // low bits of the sender's address in the table's index
    parameter LOG_SENDER_SLOTS = 4,    // low bits of the sender's slot in the table's index
    parameter LOG_SMALL = 3,           // buffers: see nt_buffers
    parameter LOG_LARGE = 3
) (
    input  wire        clk,
    input  wire        rst,            // synchronous; each of its cycles clears a row of the table, 2^(LOG_SENDERS + LOG_SENDER_SLOTS) all
    input  wire [31:0] now,
    input  wire [31:0] rx_timeout,
    input  wire        in_valid,
    // 0 info: get_rx_msg_info. 1 verdict: the program's decision about the packet of an info. 2 release: a complete
    // message has left its buffer; its slot and buffer are free. 3 the timer of a slot is looked at.
    input  wire [1:0]  in_op,
    input  wire [31:0] in_src_ip,
    input  wire [31:0] in_tx_msg_id,
    input  wire [31:0] in_msg_len,
    input  wire [31:0] in_pkt_offset,  // info; verdict: of the program
    input  wire        in_mark,        // info: mark_received; verdict: the info has newly marked the packet
    input  wire [15:0] in_rx_msg_id,   // verdict: of the program; release, timer
    input  wire        in_store,       // verdict: the program wants the payload
    input  wire        in_is_last,     // verdict: of the program
    input  wire [15:0] in_marked_id,   // verdict: rx_msg_id, pkt_offset and is_last_pkt of the info
    input  wire [31:0] in_marked_offset,
    input  wire        in_marked_last,
    output reg         out_valid,
    output reg  [1:0]  out_op,
    output reg         out_fail,       // info: failed; verdict: it contradicts the info
    output reg  [15:0] out_rx_msg_id,
    output reg         out_is_new_msg,
    output reg         out_is_new_pkt, // info; verdict: the payload is stored
    output reg         out_is_last_pkt,
    output reg  [31:0] out_ack_no,
    output reg         out_marked,     // info: the packet is newly marked
    output reg         out_expired,    // timer: the reception has expired. Info: a newer message superseded an older one
    // The message of a verdict, a release or an expiry, and its buffer.
    output reg  [31:0] out_src_ip,
    output reg  [31:0] out_tx_msg_id,
    output reg  [31:0] out_bytes,
    output reg         out_large,
    output reg  [LOG_LARGE-1:0] out_buffer
);
    localparam SLOTS = 1 << LOG_SLOTS;
    localparam S = SEGMENTS;
    localparam ROWS = LOG_SENDERS + LOG_SENDER_SLOTS;
    localparam [1:0] INFO = 2'd0, VERDICT = 2'd1, RELEASE = 2'd2, TIMER = 2'd3;
    localparam [1:0] UNKNOWN = 2'd0, ACTIVE = 2'd1, COMPLETE = 2'd2, EXPIRED = 2'd3;

    // Newest message of a sender's slot: rx_msg_id, fate, generation, slot of the sender, address.
    reg [65+LOG_SLOTS:0] table_rows [0:(1<<ROWS)-1];
    reg [SLOTS-1:0] live;
    reg [S-1:0]     received [0:SLOTS-1];
    reg [95:0]      messages [0:SLOTS-1];     // bytes, tx_msg_id, src_ip
    reg [LOG_LARGE:0] buffers [0:SLOTS-1];
    reg [ROWS-1:0]  cleared;                  // the row that a reset clears next
    integer entry;
    initial begin
        {live, cleared} = 0;
        for (entry = 0; entry < SLOTS; entry = entry + 1) begin
            received[entry] = 0;
            messages[entry] = 0;
            buffers[entry] = 0;
        end
        for (entry = 0; entry < (1 << ROWS); entry = entry + 1)
            table_rows[entry] = 0;
    end

    // What the table knows about the sender's slot.
    wire [LOG_SLOTS-1:0] given = in_op == VERDICT ? in_marked_id[LOG_SLOTS-1:0] : in_rx_msg_id[LOG_SLOTS-1:0];
    wire [95:0] ended = messages[given];      // verdict, release, timer
    wire [31:0] src_ip = in_op == INFO ? in_src_ip : ended[31:0];
    wire [31:0] tx_msg_id = in_op == INFO ? in_tx_msg_id : ended[63:32];
    wire [ROWS-1:0] row = {src_ip[LOG_SENDERS-1:0], tx_msg_id[LOG_SENDER_SLOTS-1:0]};
    wire [LOG_SLOTS-1:0] row_id;
    wire [1:0]  row_fate;
    wire [15:0] row_generation, row_slot;
    wire [31:0] row_ip;
    assign {row_id, row_fate, row_generation, row_slot, row_ip} = table_rows[row];
    wire        same_slot = row_fate != UNKNOWN && row_ip == in_src_ip && row_slot == in_tx_msg_id[15:0];
    wire [15:0] generation = in_tx_msg_id[31:16];
    wire [15:0] ahead = generation - row_generation;
    wire        same = ahead == 16'd0;
    wire        newer = !same && !ahead[15];
    wire        supersedes = same_slot && row_fate == ACTIVE && newer;
    wire        begins = same_slot ? newer : row_fate != ACTIVE;
    wire        continues = same_slot && row_fate == ACTIVE && same;

    wire [31:0] packets = in_msg_len == 0 ? 32'd1 : (in_msg_len >> LOG_MTU) + {31'd0, |in_msg_len[LOG_MTU-1:0]};
    wire        none_free;
    wire [LOG_SLOTS-1:0] free_slot;
    nt_lowest #(.LOG_W(LOG_SLOTS)) first_free (.bits(~live), .none(none_free), .index(free_slot));
    wire        in_message = in_pkt_offset < packets;
    wire        was_complete = same_slot && row_fate == COMPLETE && same && in_message;
    wire        is_offered, is_large;
    wire [LOG_LARGE-1:0] number;
    wire        info = in_valid && in_op == INFO;
    wire        begun = info && begins && in_message && is_offered && !none_free;
    wire [LOG_SLOTS-1:0] id = continues ? row_id : free_slot;

    // The message that ends: superseded, released or expired.
    wire        time_over;
    wire        expires = in_valid && in_op == TIMER && live[given] && time_over;
    wire        releases = in_valid && in_op == RELEASE;
    wire        superseded = info && supersedes;
    wire        ends = expires || releases || superseded;
    // The program's decision.
    wire        agrees = in_mark && in_store && in_rx_msg_id == in_marked_id && in_pkt_offset == in_marked_offset
                      && in_is_last == in_marked_last;
    wire        undoes = in_valid && in_op == VERDICT && in_mark && !agrees;
    // From here on the message counts as delivered, though it is in its buffer until the release.
    wire        completes = in_valid && in_op == VERDICT && agrees && in_is_last;
    wire [LOG_SLOTS-1:0] ending = in_op == INFO ? row_id : given;
    wire [LOG_LARGE:0] buffer = buffers[ending];
    nt_buffers #(.LOG_SMALL(LOG_SMALL), .LOG_LARGE(LOG_LARGE), .LARGE_BYTES(SEGMENTS << LOG_MTU)) free_buffers (
        .clk(clk), .rst(rst), .bytes(in_msg_len), .take(begun), .free(ends), .free_large(buffer[LOG_LARGE]),
        .free_number(buffer[LOG_LARGE-1:0]), .offered(is_offered), .big(is_large), .number(number)
    );

    // The bit of a number, and the bits below one: comparisons with constants, where a shifter would be larger.
    function [S-1:0] only(input [5:0] n);
        integer bit_number;
        for (bit_number = 0; bit_number < S; bit_number = bit_number + 1)
            only[bit_number] = {26'd0, n} == bit_number;
    endfunction
    function [S-1:0] below(input [6:0] n);
        integer bit_number;
        for (bit_number = 0; bit_number < S; bit_number = bit_number + 1)
            below[bit_number] = {25'd0, n} > bit_number;
    endfunction

    // The packet in its message.
    wire [95:0] message = messages[row_id];
    wire        known = info && continues && in_msg_len == message[95:64] && in_message;
    wire        looks = begun || known;
    wire [S-1:0] bits = continues ? received[row_id] : {S{1'b0}};
    wire [S-1:0] bit_of = only(in_pkt_offset[5:0]);
    wire        is_new = (bits & bit_of) == 0;
    wire [S-1:0] bits_after = in_mark ? bits | bit_of : bits;
    wire        no_gap;
    wire [5:0]  gap;
    wire [S-1:0] in_packets = below(packets[6:0]);
    nt_lowest #(.LOG_W(6)) first_gap (.bits({{(64-S){1'b0}}, ~bits_after & in_packets}), .none(no_gap), .index(gap));

    nt_timers #(.LOG_SLOTS(LOG_SLOTS)) timers (
        .clk(clk), .rst(rst), .set(looks), .cancel(completes), .slot(looks ? id : ending), .at(now + rx_timeout), .look(given), .now(now),
        .expired(time_over)
    );
    // The timer of a message that has ended stays on: its look finds a slot that is not live.

    // The table's row after the operation.
    wire [1:0]  fate_after = begun ? ACTIVE : completes ? COMPLETE : EXPIRED;
    always @(posedge clk) begin
        cleared <= rst ? cleared + 1'b1 : {ROWS{1'b0}};
        if (rst)
            table_rows[cleared] <= 0;
        else if (begun || expires || superseded || completes)
            table_rows[row] <= {begun ? free_slot : row_id, fate_after, begun ? generation : row_generation,
                                begun ? in_tx_msg_id[15:0] : row_slot, begun ? in_src_ip : row_ip};
        if (looks)
            received[id] <= bits_after;
        else if (undoes)
            received[given] <= received[given] & ~only(in_marked_offset[5:0]);
        if (ends)
            live[ending] <= 1'b0;
        if (begun) begin
            live[free_slot] <= 1'b1;
            messages[free_slot] <= {in_msg_len, in_tx_msg_id, in_src_ip};
            buffers[free_slot] <= {is_large, number};
        end
        if (rst)
            live <= {SLOTS{1'b0}};
        out_valid <= !rst && in_valid;
        out_op <= in_op;
        out_fail <= in_op == INFO ? !(looks || was_complete) : in_op == VERDICT && (in_store ? !agrees : in_mark);
        out_rx_msg_id <= in_op != INFO ? in_rx_msg_id : was_complete ? 16'hffff : looks ? {{(16-LOG_SLOTS){1'b0}}, id} : 16'd0;
        out_is_new_msg <= begun;
        out_is_new_pkt <= in_op == INFO ? looks && is_new : in_op == VERDICT && agrees;
        out_is_last_pkt <= in_op == INFO ? looks && no_gap : in_op == VERDICT && agrees && in_is_last;
        out_ack_no <= in_op != INFO ? 32'd0 : was_complete ? packets : !looks ? 32'd0 : no_gap ? packets : {26'd0, gap};
        out_marked <= in_op == INFO && looks && in_mark && is_new;
        out_expired <= expires || superseded;
        {out_bytes, out_tx_msg_id, out_src_ip} <= messages[ending];
        {out_large, out_buffer} <= buffer;
    end
endmodule
`default_nettype wire
