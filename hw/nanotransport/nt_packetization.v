// SPDX-License-Identifier: MIT OR Apache-2.0
// Packetization: the state of the messages that are being sent, and the choice of the next data packet.
//
// An operation may enter in every cycle; its result leaves one cycle later. The state of a message is the NanoTransport
// paper's: deliveredBitmap, credit, toBtx (here the packets to retransmit, and `sent`, before which all packets were
// sent), maxTxPktOffset (`timed`) and timeoutCnt. Messages that may send take turns in a queue of their ids; the id of
// a message that has ended stays there until it is polled, and `out_again` says that such an id was met.
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
    input  wire [2:0]  in_op,          // 0 send, 1 delivered, 2 credit, 3 poll, 4 the timer of a slot is looked at
    input  wire [31:0] in_id,          // delivered, credit: the message; timer: the slot
    // send: dst_ip, {dst_context, src_context}, bytes; delivered: before, pkt_offset;
    // credit: more, pkt_offset, credit. in_bitmap is the packets from pkt_offset on, delivered or to be retransmitted.
    input  wire [31:0] in_a,
    input  wire [31:0] in_b,
    input  wire [31:0] in_c,
    input  wire [63:0] in_bitmap,
    output wire        may_send,       // the queue has a message
    output wire        refuses,        // a message cannot be sent now, whatever its length
    output reg         out_valid,
    output reg  [2:0]  out_op,
    output reg         out_ok,         // send: accepted; delivered: all packets arrived; poll: a packet
    output reg         out_again,      // poll: nothing, but the queue has further messages. Timer: the message is aborted
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
    localparam [2:0] SEND = 3'd0, DELIVERED = 3'd1, CREDIT = 3'd2, POLL = 3'd3, TIMER = 3'd4;
    localparam [31:0] ZERO = 32'd0;

    // State: one row per slot.
    reg [SLOTS-1:0] live;
    reg [15:0]      generations [0:SLOTS-1];
    reg [95:0]      messages [0:SLOTS-1];      // bytes, src_context, dst_context, dst_ip
    reg [LOG_LARGE:0] buffers [0:SLOTS-1];
    // listed, left, heard, timeouts 8, timed 7, probe, rtx S, delivered S, sent 7, credit 7, packets 7
    localparam BITS = 40 + 2 * S;
    reg [BITS-1:0]  states [0:SLOTS-1];
    integer entry;
    initial begin
        live = 0;
        for (entry = 0; entry < SLOTS; entry = entry + 1) begin
            generations[entry] = 16'd0;
            states[entry] = 0;
            messages[entry] = 0;
            buffers[entry] = 0;
        end
    end

    // The queue of messages that may send.
    reg          push, pop;
    wire         queue_valid;
    wire [31:0]  head;
    wire [LOG_QUEUE:0] queued;
    wire         none_free;
    wire [LOG_SLOTS-1:0] free_slot;
    nt_lowest #(.LOG_W(LOG_SLOTS)) first_free (.bits(~live), .none(none_free), .index(free_slot));
    assign may_send = queue_valid;
    assign refuses = none_free || queued >= 3 * SLOTS - 2;

    // The slot and the message of this operation.
    wire [31:0] id = in_op == POLL ? head : in_id;
    wire [LOG_SLOTS-1:0] slot = in_op == SEND ? free_slot : id[LOG_SLOTS-1:0];
    wire [15:0] generation = generations[slot];
    wire        known = live[slot] && (in_op == TIMER || (generation == id[31:16] && id[15:LOG_SLOTS] == 0));
    wire [95:0] message = messages[slot];
    wire [LOG_LARGE:0] buffer = buffers[slot];
    wire [BITS-1:0] state = states[slot];
    wire [31:0] bytes = message[95:64];
    wire        listed, left, heard, probe;
    wire [7:0]  timeouts;
    wire [6:0]  timed, sent, credit, packets;
    wire [S-1:0] rtx, delivered;
    assign {listed, left, heard, timeouts, timed, probe, rtx, delivered, sent, credit, packets} = state;

    // Bits below a number: comparisons with constants, where a shifter would be larger.
    function [S-1:0] below(input [6:0] n);
        integer bit_number;
        for (bit_number = 0; bit_number < S; bit_number = bit_number + 1)
            below[bit_number] = {25'd0, n} > bit_number;
    endfunction
    wire [S-1:0] all_sent = below(sent);
    wire         waiting = rtx != 0 || sent < credit || probe;   // the message may send

    // delivered
    wire [6:0]   acked_end = in_a < {25'd0, sent} ? in_a[6:0] : sent;
    wire [S+62:0] bitmap = in_b < {25'd0, sent} ? {{(S-1){1'b0}}, in_bitmap} << in_b[5:0] : {(S+63){1'b0}};
    wire [S-1:0] arrived = below(acked_end) | (bitmap[S-1:0] & all_sent);
    wire [S-1:0] now_delivered = delivered | arrived;

    // credit
    wire [S-1:0] requested = bitmap[S-1:0] & all_sent;
    wire [6:0]   offered = !in_a[0] ? 7'd0 : in_c < {25'd0, packets} ? in_c[6:0] : packets;
    wire         raised = offered > credit;

    // poll
    wire         no_rtx;
    wire [5:0]   lowest_rtx;
    nt_lowest #(.LOG_W(6)) first_rtx (.bits({{(64-S){1'b0}}, rtx}), .none(no_rtx), .index(lowest_rtx));
    wire         fresh = no_rtx && sent < credit;
    wire [6:0]   chosen = !no_rtx ? {1'b0, lowest_rtx} : fresh ? sent : sent - 7'd1;
    wire [31:0]  rest = bytes - ({25'd0, chosen} << LOG_MTU);

    // timer
    wire         expired;
    wire         progress = heard || sent > timed;
    wire         counts = !progress && (left || !waiting);
    wire [7:0]   next_timeouts = progress ? 8'd0 : timeouts + {7'd0, counts};
    wire         aborts = counts && next_timeouts >= max_timeouts;
    wire [S-1:0] overdue = below(timed < sent ? timed : sent) & ~delivered;
    wire         stuck = PROBE != 0 && !heard && (rtx | overdue) == 0 && !(sent < credit) && !probe;

    // send
    wire [31:0]  send_packets = in_c == 0 ? 32'd1 : (in_c >> LOG_MTU) + {31'd0, |in_c[LOG_MTU-1:0]};
    wire         is_offered, is_large;
    wire [LOG_LARGE-1:0] number;
    wire         sends = in_valid && in_op == SEND && is_offered && !none_free;
    wire         ends = in_valid && known
                     && ((in_op == DELIVERED && now_delivered == below(packets)) || (in_op == TIMER && expired && aborts));
    nt_buffers #(.LOG_SMALL(LOG_SMALL), .LOG_LARGE(LOG_LARGE), .LARGE_BYTES(SEGMENTS << LOG_MTU)) free_buffers (
        .clk(clk), .rst(rst), .bytes(in_c), .take(sends), .free(ends), .free_large(buffer[LOG_LARGE]),
        .free_number(buffer[LOG_LARGE-1:0]), .offered(is_offered), .big(is_large), .number(number)
    );
    wire         goes_on = in_valid && known && in_op == TIMER && expired && !aborts;
    nt_timers #(.LOG_SLOTS(LOG_SLOTS)) timers (
        .clk(clk), .rst(rst), .set(sends || goes_on), .cancel(ends), .slot(slot), .at(now + timeout), .look(slot), .now(now), .expired(expired)
    );
    wire [15:0]  new_generation = generation + 16'd1;
    wire [31:0]  this_id = {sends ? new_generation : generation, {(16-LOG_SLOTS){1'b0}}, slot};
    nt_fifo #(.WIDTH(32), .LOG_DEPTH(LOG_QUEUE)) queue (
        .clk(clk), .rst(rst), .push(push), .in(this_id), .pop(pop), .valid(queue_valid), .out(head), .count(queued)
    );

    // The row after the operation.
    reg          n_listed, n_left, n_heard, n_probe, write;
    reg [7:0]    n_timeouts;
    reg [6:0]    n_timed, n_sent, n_credit, n_packets;
    reg [S-1:0]  n_rtx, n_delivered;
    reg          lists;                // the message enters the queue if it may send
    always @* begin
        {n_listed, n_left, n_heard, n_timeouts, n_timed, n_probe, n_rtx, n_delivered, n_sent, n_credit, n_packets} = state;
        write = in_valid && known;
        lists = 1'b0;
        pop = 1'b0;
        case (in_op)
            SEND: begin
                write = sends;
                {n_listed, n_left, n_heard, n_timeouts, n_timed, n_probe} = {3'd0, 8'd0, 7'd1, 1'b0};
                {n_rtx, n_delivered, n_sent} = 0;
                n_packets = send_packets[6:0];
                n_credit = rtt_pkts < send_packets ? (rtt_pkts == 0 ? 7'd1 : rtt_pkts[6:0]) : send_packets[6:0];
                lists = sends;
            end
            DELIVERED: begin
                n_heard = 1'b1;
                n_delivered = now_delivered;
                n_rtx = rtx & ~arrived;
            end
            CREDIT: begin
                n_heard = 1'b1;
                n_rtx = rtx | (requested & ~delivered);
                n_credit = raised ? offered : credit;
                lists = raised || RTX_NEEDS_CREDIT == 0;
            end
            POLL: begin
                pop = in_valid && queue_valid;
                write = in_valid && queue_valid && known;
                n_listed = 1'b0;
                if (waiting) begin
                    n_left = 1'b1;
                    n_rtx = rtx & (rtx - 1'b1);
                    if (fresh)
                        n_sent = sent + 7'd1;
                    else if (no_rtx)
                        n_probe = 1'b0;
                    lists = 1'b1;
                end
            end
            default: begin
                write = goes_on;
                n_timeouts = next_timeouts;
                n_rtx = rtx | overdue;
                n_probe = probe || stuck;
                {n_heard, n_left} = 2'd0;
                n_timed = sent == 0 ? 7'd1 : sent;
                lists = 1'b1;
            end
        endcase
        push = write && lists && !n_listed && (n_rtx != 0 || n_sent < n_credit || n_probe);
        if (push)
            n_listed = 1'b1;
    end
    always @(posedge clk) begin
        if (write)
            states[slot] <= {n_listed, n_left, n_heard, n_timeouts, n_timed, n_probe, n_rtx, n_delivered, n_sent, n_credit, n_packets};
        if (sends) begin
            live[slot] <= 1'b1;
            generations[slot] <= new_generation;
            messages[slot] <= {in_c, in_b, in_a};
            buffers[slot] <= {is_large, number};
        end else if (ends)
            live[slot] <= 1'b0;
        if (rst)
            live <= {SLOTS{1'b0}};
        out_valid <= !rst && in_valid;
        out_op <= in_op;
        out_id <= this_id;
        out_large <= sends ? is_large : buffer[LOG_LARGE];
        out_buffer <= sends ? number : buffer[LOG_LARGE-1:0];
        out_ok <= in_op == SEND ? sends : in_op == DELIVERED ? ends : in_op == POLL && pop && known && waiting;
        out_again <= in_op == POLL ? pop && !(known && waiting) : in_op == TIMER && ends;
        out_resends <= in_op == TIMER && goes_on && (stuck || (overdue & ~rtx) != 0);
        {out_bytes, out_src_context, out_dst_context, out_dst_ip} <= message;
        out_pkt_offset <= {25'd0, chosen};
        out_credit <= {25'd0, credit};
        out_is_new_msg <= sent == 0;
        out_is_rtx <= chosen < sent;
        out_payload <= rest > (1 << LOG_MTU) ? 1 << LOG_MTU : rest[LOG_MTU:0];
    end
endmodule
`default_nettype wire
