// SPDX-License-Identifier: MIT OR Apache-2.0
// Reassembly: the state of the messages that are being received.
//
// An operation enters in each cycle in which `in_valid` and `in_ready` are set; its result leaves 5 cycles later, when
// the ingress pipeline expects the results of get_rx_msg_info. An operation of the same message, or of the same row of
// the table, enters 3 cycles later at the earliest, an info also 3 cycles after the last info, release or timer and 2
// after a verdict, and another operation 3 cycles after an info. A table remembers, for each slot of each sender,
// the newest message and whether it is active, was delivered, or has expired. The index of the table is the low bits
// of the sender's address and of its slot; a sender whose entry belongs to another one's active message has to wait
// (`fail`).
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
    output wire        in_ready,
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
    localparam SMALL_BYTES = 4096, LARGE_BYTES = SEGMENTS << LOG_MTU;
    localparam [1:0] INFO = 2'd0, VERDICT = 2'd1, RELEASE = 2'd2, TIMER = 2'd3;
    localparam [1:0] UNKNOWN = 2'd0, ACTIVE = 2'd1, COMPLETE = 2'd2, EXPIRED = 2'd3;

    // Newest message of a sender's slot: rx_msg_id, fate, generation, slot of the sender, address.
    localparam ENTRY = 66 + LOG_SLOTS;
    // A row that is read in the cycle of its write is forwarded.
    (* no_rw_check *) reg [ENTRY-1:0] table_rows [0:(1<<ROWS)-1];
    reg [SLOTS-1:0] live;
    reg [S-1:0]     received [0:SLOTS-1];
    reg [95:0]      messages [0:SLOTS-1];     // bytes, tx_msg_id, src_ip
    reg [ROWS-1:0]  rows [0:SLOTS-1];         // of the table
    reg [LOG_LARGE:0] buffers [0:SLOTS-1];
    reg [ROWS-1:0]  cleared;                  // the row that a reset clears next
    integer entry;
    initial begin
        {live, cleared} = 0;
        for (entry = 0; entry < SLOTS; entry = entry + 1) begin
            received[entry] = 0;
            messages[entry] = 0;
            rows[entry] = 0;
            buffers[entry] = 0;
        end
        for (entry = 0; entry < (1 << ROWS); entry = entry + 1)
            table_rows[entry] = 0;
    end

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
    // The bit of a slot.
    function [SLOTS-1:0] bit_of(input on, input [LOG_SLOTS-1:0] of_slot);
        integer bit_number;
        for (bit_number = 0; bit_number < SLOTS; bit_number = bit_number + 1)
            bit_of[bit_number] = on && of_slot == bit_number[LOG_SLOTS-1:0];
    endfunction

    // ---- Stage 0: the operation waits for earlier ones whose result it needs.
    reg                 v1, v2, v3, v4;
    reg [1:0]           op1, op2, op3, op4;
    reg [LOG_SLOTS-1:0] given1, given2;
    reg [ROWS-1:0]      row1, row2, row3, row4;
    initial {v1, v2, v3, v4} = 0;
    wire [LOG_SLOTS-1:0] given = in_op == VERDICT ? in_marked_id[LOG_SLOTS-1:0] : in_rx_msg_id[LOG_SLOTS-1:0];
    wire [ROWS-1:0]     row = {in_src_ip[LOG_SENDERS-1:0], in_tx_msg_id[LOG_SENDER_SLOTS-1:0]};
    assign in_ready = in_op == INFO ? !v1 && !(v2 && (op2 != VERDICT || row2 == row))
                    : !(v1 && (op1 == INFO || given1 == given)) && !(v2 && (op2 == INFO || given2 == given));
    wire                accept = in_valid && in_ready;
    reg [31:0]          src_ip1, tx_msg_id1, bytes1, offset1, now1;
    reg                 mark1, store1, last1, agrees1;
    reg [15:0]          id1;
    reg [5:0]           bit1;
    always @(posedge clk) begin
        v1 <= !rst && accept;
        {op1, given1, row1, id1, now1} <= {in_op, given, row, in_rx_msg_id, now};
        {src_ip1, tx_msg_id1, bytes1, offset1} <= {in_src_ip, in_tx_msg_id, in_msg_len, in_pkt_offset};
        {mark1, store1, last1} <= {in_mark, in_store, in_is_last};
        bit1 <= in_op == INFO ? in_pkt_offset[5:0] : in_marked_offset[5:0];
        // The program's decision agrees with the info.
        agrees1 <= in_mark && in_store && in_rx_msg_id == in_marked_id && in_pkt_offset == in_marked_offset
                && in_is_last == in_marked_last;
    end

    // ---- Stages 0 and 1: the row of the table is read, or of the message. The operation in stage 4 may write the row
    // in the meantime.
    wire                writes4;
    wire [ENTRY-1:0]    entry4;
    reg                 forwards1, forwards2;
    reg [ENTRY-1:0]     stored1, stored2, forwarded1, forwarded2;
    wire                forwards = writes4 && row4 == row1;
    always @(posedge clk) begin
        stored1 <= table_rows[row];
        stored2 <= stored1;
        {forwards1, forwarded1} <= {writes4 && row4 == row, entry4};
        {forwards2, forwarded2} <= {forwards || forwards1, forwards ? entry4 : forwarded1};
    end
    wire [ENTRY-1:0]    entry2 = forwards2 ? forwarded2 : stored2;
    reg [31:0]          src_ip2, tx_msg_id2, bytes2, offset2, packets2, at2, now2;
    reg                 mark2, store2, last2, agrees2;
    reg [15:0]          id2;
    reg [S-1:0]         bit2;
    always @(posedge clk) begin
        v2 <= !rst && v1;
        {op2, given2, id2} <= {op1, given1, id1};
        row2 <= op1 == INFO ? row1 : rows[given1];
        {src_ip2, tx_msg_id2, bytes2, offset2} <= {src_ip1, tx_msg_id1, bytes1, offset1};
        {mark2, store2, last2, agrees2} <= {mark1, store1, last1, agrees1};
        packets2 <= bytes1 == 0 ? 32'd1 : (bytes1 >> LOG_MTU) + {31'd0, |bytes1[LOG_MTU-1:0]};
        bit2 <= only(bit1);
        at2 <= now1 + rx_timeout;
        now2 <= now1;
    end

    // ---- Stage 2: what the table knows about the sender's slot; the message is read.
    wire [LOG_SLOTS-1:0] row_id2;
    wire [1:0]          row_fate2;
    wire [15:0]         row_generation2, row_slot2;
    wire [31:0]         row_ip2;
    assign {row_id2, row_fate2, row_generation2, row_slot2, row_ip2} = entry2;
    wire [LOG_SLOTS-1:0] ending2 = op2 == INFO ? row_id2 : given2;
    wire [15:0]         ahead = tx_msg_id2[31:16] - row_generation2;
    reg                 same_slot3, same3, newer3, in_message3, live3, fits_small3, fits_large3;
    reg [1:0]           row_fate3;
    reg [ENTRY-1:0]     entry3;
    reg [LOG_SLOTS-1:0] ending3;
    reg [95:0]          message3;
    reg [31:0]          src_ip3, tx_msg_id3, bytes3, packets3, at3;
    reg                 store3, last3, agrees3, mark3;
    reg [15:0]          id3;
    reg [S-1:0]         bit3, bits3, in_packets3;
    reg [LOG_LARGE:0]   buffer3;
    always @(posedge clk) begin
        v3 <= !rst && v2;
        {op3, ending3, row3, id3, entry3} <= {op2, ending2, row2, id2, entry2};
        same_slot3 <= row_fate2 != UNKNOWN && row_ip2 == src_ip2 && row_slot2 == tx_msg_id2[15:0];
        same3 <= ahead == 16'd0;
        newer3 <= ahead != 16'd0 && !ahead[15];
        row_fate3 <= row_fate2;
        in_message3 <= offset2 < packets2;
        live3 <= live[given2];
        message3 <= messages[ending2];
        bits3 <= received[ending2];
        buffer3 <= buffers[ending2];
        {src_ip3, tx_msg_id3, bytes3, packets3, at3} <= {src_ip2, tx_msg_id2, bytes2, packets2, at2};
        {mark3, store3, last3, agrees3, bit3} <= {mark2, store2, last2, agrees2, bit2};
        in_packets3 <= below(packets2[6:0]);
        fits_small3 <= bytes2 <= SMALL_BYTES;
        fits_large3 <= bytes2 <= LARGE_BYTES;
    end

    // ---- Stage 3: the message that the packet begins or continues, and the message that ends. A free slot is chosen
    // in advance.
    reg                 none_free;
    reg [LOG_SLOTS-1:0] free_slot;
    initial {none_free, free_slot} = 0;
    wire                no_slot;
    wire [LOG_SLOTS-1:0] lowest_free;
    nt_lowest #(.LOG_W(LOG_SLOTS)) first_free (.bits(~live), .none(no_slot), .index(lowest_free));
    always @(posedge clk) {none_free, free_slot} <= {no_slot, lowest_free};
    wire                info3 = v3 && op3 == INFO;
    wire                supersedes = same_slot3 && row_fate3 == ACTIVE && newer3;
    wire                begins = same_slot3 ? newer3 : row_fate3 != ACTIVE;
    wire                continues = same_slot3 && row_fate3 == ACTIVE && same3;
    wire                is_offered, is_large;
    wire [LOG_LARGE-1:0] number;
    // A message that supersedes another one may get its buffer.
    wire                fits = buffer3[LOG_LARGE] ? fits_large3 : fits_small3;
    wire                inherits = supersedes && fits && (!is_offered || (is_large && !buffer3[LOG_LARGE]));
    wire                begun = info3 && begins && in_message3 && (is_offered || inherits) && !none_free;
    wire                known = info3 && continues && bytes3 == message3[95:64] && in_message3;
    wire [S-1:0]        bits_before = op3 != INFO || continues ? bits3 : {S{1'b0}};
    wire [S-1:0]        bits_after = op3 != INFO ? bits_before & ~bit3 : mark3 ? bits_before | bit3 : bits_before;
    wire                no_gap4;
    wire [5:0]          gap4;
    nt_lowest_next first_gap (.clk(clk), .bits({{(64-S){1'b0}}, ~bits_after & in_packets3}), .none(no_gap4), .index(gap4));
    // The program's decision counts if the message still has its slot.
    wire                stores = v3 && op3 == VERDICT && agrees3 && live3;
    reg                 begun4, looks4, superseded4, releases4, undoes4, completes4, was_complete4, is_new4, marked4, stores4, contradicts4;
    reg                 live4, inherits4;
    reg [LOG_SLOTS-1:0] slot4, ending4;
    reg [S-1:0]         bits4;
    reg [ENTRY-1:0]     was4;
    reg [95:0]          message4;
    reg [31:0]          src_ip4, tx_msg_id4, bytes4, packets4, at4;
    reg [15:0]          id4;
    reg [LOG_LARGE:0]   buffer4, new_buffer4;
    initial {begun4, looks4, superseded4, releases4, undoes4, completes4} = 0;
    always @(posedge clk) begin
        v4 <= !rst && v3;
        {op4, row4, id4, ending4, was4} <= {op3, row3, id3, ending3, entry3};
        begun4 <= !rst && begun;
        looks4 <= !rst && (begun || known);
        superseded4 <= !rst && info3 && supersedes;
        inherits4 <= inherits && begun;
        releases4 <= !rst && v3 && op3 == RELEASE;
        undoes4 <= !rst && v3 && op3 == VERDICT && mark3 && !agrees3 && live3;
        // From here on the message counts as delivered, though it is in its buffer until the release.
        completes4 <= !rst && stores && last3;
        stores4 <= stores;
        contradicts4 <= op3 == VERDICT && (store3 ? !agrees3 : mark3);
        was_complete4 <= same_slot3 && row_fate3 == COMPLETE && same3 && in_message3;
        live4 <= live3;
        slot4 <= op3 != INFO || continues ? ending3 : free_slot;
        bits4 <= bits_after;
        is_new4 <= (bits_before & bit3) == 0;
        marked4 <= mark3;
        message4 <= message3;
        {src_ip4, tx_msg_id4, bytes4, packets4, at4, buffer4} <= {src_ip3, tx_msg_id3, bytes3, packets3, at3, buffer3};
        new_buffer4 <= inherits ? buffer3 : {is_large, number};
    end

    // ---- Stage 4: the state is written, and the result leaves. The timer of a message that has ended stays on: its
    // look finds a slot that is not live.
    wire                expired4;
    wire                expires = v4 && op4 == TIMER && live4 && expired4;
    wire                ends = expires || releases4 || superseded4;
    assign writes4 = begun4 || expires || superseded4 || completes4;
    assign entry4 = begun4 ? {slot4, ACTIVE, tx_msg_id4, src_ip4}
                  : superseded4 ? {was4[ENTRY-1:66], EXPIRED, was4[63:0]} : {ending4, completes4 ? COMPLETE : EXPIRED, message4[63:0]};
    nt_buffers #(.LOG_SMALL(LOG_SMALL), .LOG_LARGE(LOG_LARGE), .SMALL_BYTES(SMALL_BYTES), .LARGE_BYTES(LARGE_BYTES)) free_buffers (
        .clk(clk), .rst(rst), .bytes(bytes2), .take(begun && !inherits), .free(ends && !inherits4), .free_large(buffer4[LOG_LARGE]),
        .free_number(buffer4[LOG_LARGE-1:0]), .offered(is_offered), .big(is_large), .number(number)
    );
    nt_timers #(.LOG_SLOTS(LOG_SLOTS)) timers (
        .clk(clk), .rst(rst), .set(looks4), .cancel(completes4), .slot(slot4), .at(at4), .look(given2), .now(now2), .expired(expired4)
    );
    always @(posedge clk) begin
        cleared <= rst ? cleared + 1'b1 : {ROWS{1'b0}};
        if (rst)
            table_rows[cleared] <= 0;
        else if (writes4)
            table_rows[row4] <= entry4;
        if (looks4 || undoes4)
            received[slot4] <= bits4;
        live <= (live | bit_of(begun, free_slot)) & ~bit_of(ends, ending4);
        if (begun4) begin
            messages[slot4] <= {bytes4, tx_msg_id4, src_ip4};
            rows[slot4] <= row4;
            buffers[slot4] <= new_buffer4;
        end
        if (rst)
            live <= {SLOTS{1'b0}};
        out_valid <= !rst && v4;
        out_op <= op4;
        out_fail <= op4 == INFO ? !(looks4 || was_complete4) : contradicts4;
        out_rx_msg_id <= op4 != INFO ? id4 : was_complete4 ? 16'hffff : looks4 ? {{(16-LOG_SLOTS){1'b0}}, slot4} : 16'd0;
        out_is_new_msg <= begun4;
        out_is_new_pkt <= op4 == INFO ? looks4 && is_new4 : stores4;
        out_is_last_pkt <= op4 == INFO ? looks4 && no_gap4 : completes4;
        out_ack_no <= op4 != INFO ? 32'd0 : was_complete4 ? packets4 : !looks4 ? 32'd0 : no_gap4 ? packets4 : {26'd0, gap4};
        out_marked <= looks4 && marked4 && is_new4;
        out_expired <= expires || superseded4;
        {out_bytes, out_tx_msg_id, out_src_ip} <= message4;
        {out_large, out_buffer} <= buffer4;
    end
endmodule
`default_nettype wire
