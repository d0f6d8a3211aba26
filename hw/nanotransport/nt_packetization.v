// SPDX-License-Identifier: MIT OR Apache-2.0
// Packetization: the state of the messages that are being sent, and the choice of the next data packet.
//
// An operation enters in each cycle in which `in_valid` and `in_ready` are set; its result leaves 5 cycles later.
// `in_ready` is clear while an operation of the same message is under way: a message has an operation in every 6th
// cycle at most, all messages together one in every cycle. A message that is sent takes the slot and the buffer that
// were free 6 cycles ago, so there is a new message in every 4th cycle at most.
//
// The state of a message is the NanoTransport paper's: deliveredBitmap, credit, toBtx (here the packets to retransmit,
// and `sent`, before which all packets were sent), maxTxPktOffset (`timed`) and timeoutCnt. Messages that may send take
// turns in a queue of their ids. A poll drops ids of messages that have ended or have nothing to send; each takes a
// cycle in which `in_ready` is clear. If no message may send, a poll without a result enters when no operation is under
// way.
`default_nettype none
module nt_packetization #(
    parameter LOG_SLOTS = 4,
    parameter SEGMENTS = 38,           // packets of the longest message, at most 64
    parameter LOG_MTU = 10,
    parameter RTX_NEEDS_CREDIT = 0,
    parameter PROBE = 1,
    parameter LOG_SMALL = 3,           // buffers: see nt_buffers
    parameter LOG_LARGE = 3
) (
    input  wire        clk,
    input  wire        rst,
    input  wire [31:0] now,
    // Settings.
    input  wire [31:0] rtt_pkts,
    input  wire [31:0] timeout,
    input  wire [7:0]  max_timeouts,
    input  wire        in_valid,
    output wire        in_ready,
    input  wire [2:0]  in_op,          // 0 send, 1 delivered, 2 credit, 3 poll, 4 the timer of a slot is looked at
    input  wire [31:0] in_id,          // delivered, credit: the message; timer: the slot
    // send: dst_ip, {dst_context, src_context}, bytes; delivered: before, pkt_offset;
    // credit: more, pkt_offset, credit. in_bitmap is the packets from pkt_offset on, delivered or to be retransmitted.
    input  wire [31:0] in_a,
    input  wire [31:0] in_b,
    input  wire [31:0] in_c,
    input  wire [63:0] in_bitmap,
    output wire        may_send,       // a poll would take a message from the queue, or drop one
    output wire        refuses,        // a message cannot be sent now, whatever its length
    output wire [(1<<LOG_SLOTS)-1:0] busy_slots,    // operations of these slots have to wait
    output reg         out_valid,
    output reg  [2:0]  out_op,
    output reg         out_ok,         // send: accepted; delivered: all packets arrived; poll: a packet
    output reg         out_aborted,    // timer: the message is aborted
    output reg         out_resends,    // timer: packets will be retransmitted, or the last one as a probe
    output reg  [31:0] out_id,
    // send and poll: the message's buffer
    output reg         out_large,
    output reg  [LOG_LARGE-1:0] out_buffer,
    // poll
    output reg  [31:0] out_dst_ip,
    output reg  [15:0] out_dst_context,
    output reg  [15:0] out_src_context,
    output reg  [31:0] out_bytes,
    output reg  [31:0] out_pkt_offset,
    output reg  [31:0] out_credit,
    output reg         out_is_new_msg,
    output reg         out_is_rtx,
    output reg  [LOG_MTU:0] out_payload
);
    localparam SLOTS = 1 << LOG_SLOTS;
    localparam S = SEGMENTS;
    // Longest queue: ids of all messages, and of messages that have ended.
    localparam LOG_QUEUE = LOG_SLOTS + 2;
    localparam ID = 16 + LOG_SLOTS;            // generation, slot
    localparam [2:0] SEND = 3'd0, DELIVERED = 3'd1, CREDIT = 3'd2, POLL = 3'd3, TIMER = 3'd4;

    // State: bits in registers, and one row per slot in memories.
    reg [SLOTS-1:0] live;
    reg [SLOTS-1:0] busy;                      // an operation of this slot is under way
    reg [SLOTS-1:0] sendable;                  // the message may send
    reg [SLOTS-1:0] listed;                    // the message is in the queue
    reg [15:0]      generations [0:SLOTS-1];
    reg [95:0]      messages [0:SLOTS-1];      // bytes, src_context, dst_context, dst_ip
    reg [LOG_LARGE:0] buffers [0:SLOTS-1];
    // left, heard, timeouts 8, timed 7, probe, rtx S, delivered S, sent 7, credit 7, packets 7
    localparam BITS = 39 + 2 * S;
    reg [BITS-1:0]  states [0:SLOTS-1];
    integer entry;
    initial begin
        {live, busy, sendable, listed} = 0;
        for (entry = 0; entry < SLOTS; entry = entry + 1) begin
            generations[entry] = 16'd0;
            states[entry] = 0;
            messages[entry] = 0;
            buffers[entry] = 0;
        end
    end

    // Bits below a number: comparisons with constants, where a shifter would be larger.
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

    // ---- The stages' registers that the queue needs.
    reg                 v1, v2, v3, v4, v5, has1, has2, has3, has4, has5, sends3, sends4;
    reg [2:0]           op1, op2, op3, op4;
    reg [LOG_SLOTS-1:0] slot1, slot2, slot3, slot4, slot5;
    reg [15:0]          generation3, generation4, generation5;
    initial {v1, v2, v3, v4, v5, sends3, sends4} = 0;

    // ---- The queue: a FIFO, the id whose generation is compared (`next`), and the id that a poll takes (`head`). An id
    // goes directly to the head if nothing is before it.
    reg                 push5;
    reg                 next_valid, head_valid, head_fresh, head_ready, head_ended;
    reg [ID-1:0]        next, head;
    initial {push5, next_valid, head_valid, head_ready, head_ended} = 0;
    wire                early = sends4 && !push5;       // a new message enters the queue one stage earlier if it can
    wire                push = push5 || early;
    wire [ID-1:0]       pushed = push5 ? {generation5, slot5} : {generation4, slot4};
    wire                fifo_valid;
    wire [ID-1:0]       fifo_head;
    wire [LOG_QUEUE:0]  queued;
    wire                head_leaves;
    wire                head_free = !head_valid || head_leaves;
    wire                direct = push && !fifo_valid && !next_valid && !head_valid;
    nt_fifo #(.WIDTH(ID), .LOG_DEPTH(LOG_QUEUE)) queue (
        .clk(clk), .rst(rst), .push(push && !direct), .in(pushed), .pop(fifo_valid && !next_valid), .valid(fifo_valid), .out(fifo_head),
        .count(queued)
    );
    wire [LOG_SLOTS-1:0] head_slot = head[LOG_SLOTS-1:0];
    // Known one cycle before the poll, apart from an operation that entered in this cycle.
    wire                head_known = head_fresh && sendable[head_slot];
    wire                head_taken = v1 && slot1 == head_slot;
    wire                head_idle = head_valid && !busy[head_slot] && !head_taken;
    always @(posedge clk) begin
        if (!next_valid)
            next <= fifo_head;
        next_valid <= next_valid ? !head_free : fifo_valid;
        if (head_free) begin
            head_valid <= next_valid || direct;
            head <= direct ? pushed : next;
            head_fresh <= direct || generations[next[LOG_SLOTS-1:0]] == next[ID-1:LOG_SLOTS];
            {head_ready, head_ended} <= {direct, 1'b0};
        end else begin
            if (sends3 && slot3 == head_slot)           // a new message has the slot of an ended one
                head_fresh <= 1'b0;
            head_ready <= head_idle && head_known;
            head_ended <= head_idle && !head_known;
        end
        if (rst)
            {next_valid, head_valid, head_ready, head_ended} <= 4'd0;
    end

    // ---- Stage 0: the slot of the operation. A free slot is chosen in advance.
    reg                 none_free, free_busy, nothing_before;
    reg [LOG_SLOTS-1:0] free_slot;
    reg [2:0]           sending;                        // a message that enters in stages 1 to 3
    wire                no_slot;
    wire [LOG_SLOTS-1:0] lowest_free;
    initial {none_free, free_busy, nothing_before, free_slot, sending} = 0;
    nt_lowest #(.LOG_W(LOG_SLOTS)) first_free (.bits(~live), .none(no_slot), .index(lowest_free));
    wire [LOG_SLOTS-1:0] slot = in_op == SEND ? free_slot : in_op == POLL ? head_slot : in_id[LOG_SLOTS-1:0];
    wire                has = in_op == SEND ? !none_free : in_op != POLL || head_valid;
    wire                send_ready = sending == 0 && (none_free || !(free_busy || (v1 && slot1 == free_slot)));
    wire                nothing = !(head_valid || next_valid || fifo_valid || v1 || v2 || v3 || v4 || v5);
    assign in_ready = in_op == SEND ? send_ready : in_op == POLL ? (head_ready && !head_taken) || (nothing_before && !v1) : !busy[in_id[LOG_SLOTS-1:0]];
    assign busy_slots = busy;
    assign may_send = (head_ready || head_ended) && !head_taken;
    assign refuses = !send_ready || none_free || queued >= 3 * SLOTS - 2;
    wire                accept = in_valid && in_ready;
    assign head_leaves = in_valid && in_op == POLL && may_send;
    reg [15:0]          generation1;
    reg                 in_range1;
    reg [31:0]          a1, b1, c1, now1;
    reg [63:0]          bitmap1;
    always @(posedge clk) begin
        {none_free, free_slot, free_busy} <= {no_slot, lowest_free, busy[lowest_free]};
        nothing_before <= nothing;
        sending <= rst ? 3'd0 : {sending[1:0], accept && in_op == SEND};
        v1 <= !rst && accept;
        {op1, has1, slot1} <= {in_op, has, slot};
        generation1 <= in_id[31:16];
        in_range1 <= in_id[15:LOG_SLOTS] == 0;
        {a1, b1, c1, now1, bitmap1} <= {in_a, in_b, in_c, now, in_bitmap};
    end

    // ---- Stage 1: the state is read, and a buffer is chosen.
    reg [15:0]          was_generation2, generation2;
    reg                 in_range2, live2, more2, beyond2;
    reg [95:0]          message2;
    reg [LOG_LARGE:0]   buffer2;
    reg [BITS-1:0]      state2;
    reg [S-1:0]         before2, bitmap2;
    reg [2:0]           shift2;
    reg [6:0]           offered2, packets2;
    reg [31:0]          at2;
    wire                is_offered, is_large, expired3;
    wire [LOG_LARGE-1:0] number;
    wire [63:0]         octets = bitmap1 << {b1[5:3], 3'd0};
    always @(posedge clk) begin
        v2 <= !rst && v1;
        {op2, has2, slot2} <= {op1, has1, slot1};
        {was_generation2, in_range2} <= {generation1, in_range1};
        generation2 <= generations[slot1];
        live2 <= live[slot1];
        message2 <= op1 == SEND ? {c1, b1, a1} : messages[slot1];
        buffer2 <= buffers[slot1];
        state2 <= states[slot1];
        before2 <= below(a1[6:0]) | {S{|a1[31:7]}};
        bitmap2 <= octets[S-1:0];
        beyond2 <= |b1[31:6];
        shift2 <= b1[2:0];
        offered2 <= |c1[31:7] ? 7'd127 : c1[6:0];
        more2 <= a1[0];
        packets2 <= c1 == 0 ? 7'd1 : c1[LOG_MTU +: 7] + {6'd0, |c1[LOG_MTU-1:0]};
        at2 <= now1 + timeout;
    end

    // ---- Stage 2: the message is known; sets of packets below numbers.
    wire                left2, heard2, probe2;
    wire [7:0]          timeouts2;
    wire [6:0]          timed2, sent2, credit2, all2;
    wire [S-1:0]        rtx2, delivered2;
    assign {left2, heard2, timeouts2, timed2, probe2, rtx2, delivered2, sent2, credit2, all2} = state2;
    wire                sends2 = v2 && op2 == SEND && has2 && is_offered;
    wire                is_id = generation2 == was_generation2 && in_range2;
    wire [S+6:0]        shifted = {7'd0, bitmap2} << shift2;
    reg                 known3, left3, heard3, probe3, more3, few3, waiting3, progress3;
    reg [7:0]           timeouts3;
    reg [6:0]           sent3, credit3, packets3, offered3, timed3;
    reg [S-1:0]         rtx3, popped3, delivered3, before3, bitmap3, all_sent3, overdue3, all3;
    reg [95:0]          message3;
    reg [LOG_LARGE:0]   buffer3;
    reg [31:0]          at3;
    wire                no_rtx3;
    wire [5:0]          lowest_rtx3;
    nt_lowest_next first_rtx (.clk(clk), .bits({{(64-S){1'b0}}, rtx2}), .none(no_rtx3), .index(lowest_rtx3));
    always @(posedge clk) begin
        v3 <= !rst && v2;
        sends3 <= !rst && sends2;
        {op3, has3, slot3} <= {op2, has2, slot2};
        known3 <= v2 && (op2 == POLL ? has2 : op2 != SEND && live2 && (op2 == TIMER || is_id));
        generation3 <= op2 == SEND ? generation2 + 16'd1 : generation2;
        {left3, heard3, probe3, more3, timeouts3} <= {left2, heard2, probe2, more2, timeouts2 + 8'd1};
        few3 <= sent2 < credit2;
        waiting3 <= rtx2 != 0 || sent2 < credit2 || probe2;
        progress3 <= heard2 || sent2 > timed2;
        {sent3, credit3, timed3} <= {sent2, credit2, timed2};
        packets3 <= op2 == SEND ? packets2 : all2;
        offered3 <= !more2 ? 7'd0 : offered2 < all2 ? offered2 : all2;
        {rtx3, popped3, delivered3, before3} <= {rtx2, rtx2 & (rtx2 - 1'b1), delivered2, before2};
        bitmap3 <= beyond2 ? {S{1'b0}} : shifted[S-1:0];
        all_sent3 <= below(sent2);
        overdue3 <= below(timed2) & ~delivered2;
        all3 <= below(all2);
        {message3, at3} <= {message2, at2};
        buffer3 <= sends2 ? {is_large, number} : buffer2;
        if (sends2) begin
            generations[slot2] <= generation2 + 16'd1;
            messages[slot2] <= message2;
            buffers[slot2] <= {is_large, number};
        end
    end

    // ---- Stage 3: the packets that are delivered and to be retransmitted, and the packet of a poll.
    wire [S-1:0]        arrived = (before3 | bitmap3) & all_sent3;
    wire [S-1:0]        requested = bitmap3 & all_sent3 & ~delivered3;
    wire [S-1:0]        overdue = overdue3 & all_sent3;
    wire                raised = offered3 > credit3;
    wire                counts = !progress3 && (left3 || !waiting3);
    wire                aborts = counts && timeouts3 >= max_timeouts;
    wire                fresh = no_rtx3 && few3;
    wire [6:0]          first_credit = rtt_pkts >= {25'd0, packets3} ? packets3 : rtt_pkts == 0 ? 7'd1 : rtt_pkts[6:0];
    reg                 known4, goes_on4, aborts4, raised4, left4, heard4, probe4, may_probe4, was_first4, was_sent4;
    reg [7:0]           timeouts4;
    reg [6:0]           sent4, credit4, was_credit4, packets4, timed4, chosen4;
    reg [S-1:0]         rtx4, delivered4, all4, newly4;
    reg [95:0]          message4;
    reg [LOG_LARGE:0]   buffer4;
    reg [31:0]          at4;
    always @(posedge clk) begin
        v4 <= !rst && v3;
        sends4 <= !rst && sends3;
        {op4, has4, slot4, generation4, known4} <= {op3, has3, slot3, generation3, known3};
        goes_on4 <= known3 && op3 == TIMER && expired3 && !aborts;
        aborts4 <= known3 && op3 == TIMER && expired3 && aborts;
        {message4, buffer4, at4, packets4, all4} <= {message3, buffer3, at3, packets3, all3};
        raised4 <= raised;
        newly4 <= overdue & ~rtx3;
        // Probe, if nothing else is to be sent: the retransmitted packets are known in the next stage.
        may_probe4 <= PROBE != 0 && op3 == TIMER && !heard3 && !few3 && !probe3;
        was_credit4 <= credit3;
        was_first4 <= sent3 == 0;
        chosen4 <= !no_rtx3 ? {1'b0, lowest_rtx3} : fresh ? sent3 : sent3 - 7'd1;
        was_sent4 <= !fresh;
        {left4, heard4, probe4, delivered4, sent4, credit4} <= {left3, heard3, probe3, delivered3, sent3, credit3};
        // The number of timeouts was incremented in stage 2.
        timeouts4 <= timeouts3 - 8'd1;
        timed4 <= timed3;
        case (op3)
            SEND: begin
                {left4, heard4, timeouts4, timed4, probe4} <= {2'd0, 8'd0, 7'd1, 1'b0};
                {rtx4, delivered4, sent4} <= 0;
                credit4 <= first_credit;
            end
            DELIVERED: begin
                heard4 <= 1'b1;
                delivered4 <= delivered3 | arrived;
                rtx4 <= rtx3 & ~arrived;
            end
            CREDIT: begin
                heard4 <= 1'b1;
                rtx4 <= rtx3 | requested;
                credit4 <= raised ? offered3 : credit3;
            end
            POLL: begin
                left4 <= 1'b1;
                rtx4 <= popped3;
                sent4 <= fresh ? sent3 + 7'd1 : sent3;
                probe4 <= probe3 && !(no_rtx3 && !few3);
            end
            default: begin
                timeouts4 <= progress3 ? 8'd0 : counts ? timeouts3 : timeouts3 - 8'd1;
                rtx4 <= rtx3 | overdue;
                {heard4, left4} <= 2'd0;
                timed4 <= sent3 == 0 ? 7'd1 : sent3;
            end
        endcase
    end

    // ---- Stage 4: the row is written, and the result leaves.
    wire                stuck = may_probe4 && rtx4 == 0;
    wire                next_probe = probe4 || stuck;
    wire                may_send4 = rtx4 != 0 || sent4 < credit4 || next_probe;
    wire                writes = sends4 || (known4 && (op4 != TIMER || goes_on4));
    wire                lists = op4 != DELIVERED && (op4 != CREDIT || raised4 || RTX_NEEDS_CREDIT == 0);
    wire                complete = known4 && op4 == DELIVERED && delivered4 == all4;
    reg                 writes5, ends5, sets5, may_send5, large5;
    reg [LOG_LARGE-1:0] number5;
    reg [31:0]          at5;
    initial {writes5, ends5, sets5} = 0;
    always @(posedge clk) begin
        v5 <= !rst && v4 && !early;
        {has5, slot5, generation5} <= {has4, slot4, generation4};
        writes5 <= !rst && writes && !early;
        ends5 <= !rst && (complete || aborts4);
        sets5 <= !rst && (sends4 || goes_on4);
        may_send5 <= may_send4;
        push5 <= !rst && writes && lists && !early && may_send4 && (sends4 || !listed[slot4]);
        {large5, number5, at5} <= {buffer4, at4};
        if (writes)
            states[slot4] <= {left4, heard4, timeouts4, timed4, next_probe, rtx4, delivered4, sent4, credit4, packets4};
        out_valid <= !rst && v4;
        out_op <= op4;
        out_id <= {generation4, {(16-LOG_SLOTS){1'b0}}, slot4};
        {out_large, out_buffer} <= buffer4;
        out_ok <= sends4 || complete || (op4 == POLL && has4);
        out_aborted <= aborts4;
        out_resends <= goes_on4 && (stuck || newly4 != 0);
        {out_bytes, out_src_context, out_dst_context, out_dst_ip} <= message4;
        out_pkt_offset <= {25'd0, chosen4};
        out_credit <= {25'd0, was_credit4};
        out_is_new_msg <= was_first4;
        out_is_rtx <= was_sent4;
        // All packets but the last one are full.
        out_payload <= message4[64+LOG_MTU +: 7] != chosen4 ? 1 << LOG_MTU : {1'b0, message4[64 +: LOG_MTU]};
    end

    // ---- Stage 5: the queue, the timers, and the lists of free slots and buffers.
    nt_buffers #(.LOG_SMALL(LOG_SMALL), .LOG_LARGE(LOG_LARGE), .LARGE_BYTES(SEGMENTS << LOG_MTU)) free_buffers (
        .clk(clk), .rst(rst), .bytes(c1), .take(sends2), .free(ends5), .free_large(large5), .free_number(number5), .offered(is_offered),
        .big(is_large), .number(number)
    );
    nt_timers #(.LOG_SLOTS(LOG_SLOTS)) timers (
        .clk(clk), .rst(rst), .set(sets5), .cancel(ends5), .slot(slot5), .at(at5), .look(slot1), .now(now1), .expired(expired3)
    );
    always @(posedge clk) begin
        busy <= (busy | bit_of(accept && has, slot)) & ~bit_of(v5 && has5, slot5) & ~bit_of(early, slot4);
        live <= (live | bit_of(sends2, slot2)) & ~bit_of(ends5, slot5);
        sendable <= (sendable & ~bit_of(writes5, slot5) & ~bit_of(ends5, slot5)) | bit_of(writes5 && may_send5 && !ends5, slot5)
                  | bit_of(early, slot4);
        // A poll takes the message from the queue; so does a poll that drops it.
        listed <= (listed & ~bit_of(head_leaves && head_fresh, head_slot)) | bit_of(push, pushed[LOG_SLOTS-1:0]);
        if (rst)
            {live, busy, sendable, listed} <= 0;
    end
endmodule
`default_nettype wire
