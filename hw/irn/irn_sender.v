// SPDX-License-Identifier: MIT OR Apache-2.0
// The senders of 2^LOG_QPS queue pairs: their contexts in a memory, and the blocks txFree, receiveAck and timeout.
//
// An operation enters in each cycle in which `in_valid` and `in_ready` are set; its result leaves 6 cycles later.
// `in_ready` is clear while an operation of the same queue pair is under way: a queue pair has an operation in every 7th
// cycle at most, all queue pairs together one in every cycle.
`default_nettype none
module irn_sender #(
    parameter CAP = 111,
    parameter PUBLISHED = 0,
    parameter LOG_QPS = 6,
    // Not to be set: log2 of the bits of the bitmap.
    parameter LOG_W = CAP <= 128 ? 7 : $clog2(CAP)
) (
    input  wire                  clk,
    input  wire                  rst,             // synchronous: forgets the operations under way, not the contexts
    input  wire                  in_valid,
    output wire                  in_ready,
    input  wire [1:0]            in_op,           // 0 reset, 1 txFree, 2 receiveAck, 3 timeout
    input  wire [LOG_QPS-1:0]    in_qp,
    input  wire [31:0]           in_now,          // ns, modulo 2^32
    input  wire [23:0]           in_window,       // txFree: packets in flight that the congestion control allows
    input  wire [23:0]           in_psn,          // txFree: end of the send queue; receiveAck: expected PSN; reset: first
    input  wire                  in_nack,
    input  wire [23:0]           in_trigger,
    input  wire [31:0]           in_stamp,
    input  wire [7:0]            in_low_packets,
    input  wire [31:0]           in_rto_low,      // ns
    input  wire [31:0]           in_rto_high_ns,  // ns
    output wire                  out_valid,
    output wire [1:0]            out_op,
    output wire [LOG_QPS-1:0]    out_qp,
    output wire [2:0]            out_flags,       // txFree {retransmission, last, send}; receiveAck {0, 0, loss};
                                                  // timeout {extended, expired, running}
    output wire [23:0]           out_value,       // txFree: PSN; receiveAck: packets acknowledged
    // The context after the operation, for those that watch.
    output wire [185+(1<<LOG_W):0] out_context
);
    localparam W = 1 << LOG_W;
    localparam BITS = 186 + W;
    // {sacked, timer_start, rto_high or nothing, flags, highest_sacked, recover_since, recover, retransmit_next, next,
    //  first_missing}; the field of the other logic is constant and costs no memory.
    localparam STORED = PUBLISHED != 0 ? BITS - 31 : BITS;

    // Cycle 0: the context is read.
    reg [STORED-1:0] contexts [0:(1<<LOG_QPS)-1];
    reg [STORED-1:0] read;
    wire             accept = in_valid && in_ready;
    reg              v1, v2, v3, v4, v5, v6;
    reg [1:0]        op1, op2, op3, op4, op5, op6;
    reg [LOG_QPS-1:0] qp1, qp2, qp3, qp4, qp5, qp6;
    assign in_ready = !((v1 && qp1 == in_qp) || (v2 && qp2 == in_qp) || (v3 && qp3 == in_qp)
                     || (v4 && qp4 == in_qp) || (v5 && qp5 == in_qp) || (v6 && qp6 == in_qp));

    reg [31:0]       now1, now2, now3, stamp1, stamp2, stamp3, low1, low2, low3, high1, high2, high3;
    reg [23:0]       window1, psn1, psn2, psn3, psn4, psn5, psn6, trigger1, trigger2, trigger3;
    reg              nack1, nack2, nack3;
    reg [7:0]        packets1, packets2, packets3;
    wire [STORED-1:0] written;
    always @(posedge clk) begin
        read <= contexts[in_qp];
        if (v6 && !rst)
            contexts[qp6] <= written;
        v1 <= !rst && accept;
        {v6, v5, v4, v3, v2} <= rst ? 5'd0 : {v5, v4, v3, v2, v1};
        {op6, op5, op4, op3, op2, op1} <= {op5, op4, op3, op2, op1, in_op};
        {qp6, qp5, qp4, qp3, qp2, qp1} <= {qp5, qp4, qp3, qp2, qp1, in_qp};
        {psn6, psn5, psn4, psn3, psn2, psn1} <= {psn5, psn4, psn3, psn2, psn1, in_psn};
        {now3, now2, now1} <= {now2, now1, in_now};
        {stamp3, stamp2, stamp1} <= {stamp2, stamp1, in_stamp};
        {low3, low2, low1} <= {low2, low1, in_rto_low};
        {high3, high2, high1} <= {high2, high1, in_rto_high_ns};
        window1 <= in_window;
        {trigger3, trigger2, trigger1} <= {trigger2, trigger1, in_trigger};
        {nack3, nack2, nack1} <= {nack2, nack1, in_nack};
        {packets3, packets2, packets1} <= {packets2, packets1, in_low_packets};
    end

    // Cycles 1 to 6: the blocks, and beside them the fields that a block does not change.
    wire [BITS-1:0] now_of;
    generate
        if (PUBLISHED != 0) begin : published
            // The stored context has one bit, rto_high, where the core's logic has recover_since.
            assign now_of = {read[STORED-1:123], read[122:121], read[119:96], {31'd0, read[120]}, read[95:0]};
        end else begin : core
            assign now_of = read;
        end
    endgenerate
    // txFree begins in cycle 1; the shorter blocks begin in cycle 3, so that all end in cycle 6.
    reg [BITS-1:0] before2, before3, before4, before5, before6;
    always @(posedge clk)
        {before6, before5, before4, before3, before2} <= {before5, before4, before3, before2, now_of};

    wire         send, last, retransmission, tx_first, tx_high, tx_valid;
    wire [23:0]  tx_psn, tx_next, tx_retransmit_next, tx_recover;
    wire [31:0]  tx_since, tx_timer;
    irn_tx_free #(.CAP(CAP), .PUBLISHED(PUBLISHED)) tx_free (
        .clk(clk), .rst(rst), .in_valid(v1), .in_now(now1), .in_window(window1), .in_end(psn1), .in_low_packets(packets1),
        .in_first_missing(now_of[23:0]), .in_next(now_of[47:24]), .in_retransmit_next(now_of[71:48]), .in_recover(now_of[95:72]),
        .in_recover_since(PUBLISHED != 0 ? 32'd0 : now_of[127:96]), .in_highest_sacked(now_of[151:128]), .in_in_recovery(now_of[152]),
        .in_retransmit_first(now_of[153]), .in_rto_high(PUBLISHED != 0 && now_of[96]), .in_timer_start(now_of[185:154]), .in_sacked(now_of[186 +: W]),
        .out_valid(tx_valid), .out_send(send), .out_psn(tx_psn), .out_last(last), .out_retransmission(retransmission),
        .out_next(tx_next), .out_retransmit_next(tx_retransmit_next), .out_recover(tx_recover),
        .out_recover_since(tx_since), .out_retransmit_first(tx_first), .out_rto_high(tx_high), .out_timer_start(tx_timer)
    );
    wire         loss, ack_recovery, ack_first, ack_high, ack_valid;
    wire [23:0]  acked, ack_missing, ack_retransmit_next, ack_recover, ack_highest;
    wire [31:0]  ack_since, ack_timer;
    wire [W-1:0] ack_sacked;
    irn_receive_ack #(.CAP(CAP), .PUBLISHED(PUBLISHED)) receive_ack (
        .clk(clk), .rst(rst), .in_valid(v3), .in_now(now3), .in_nack(nack3), .in_psn(psn3), .in_trigger(trigger3),
        .in_stamp(stamp3), .in_low_packets(packets3), .in_first_missing(before3[23:0]), .in_next(before3[47:24]),
        .in_retransmit_next(before3[71:48]), .in_recover(before3[95:72]), .in_recover_since(PUBLISHED != 0 ? 32'd0 : before3[127:96]),
        .in_highest_sacked(before3[151:128]), .in_in_recovery(before3[152]), .in_retransmit_first(before3[153]),
        .in_rto_high(PUBLISHED != 0 && before3[96]), .in_timer_start(before3[185:154]), .in_sacked(before3[186 +: W]), .out_valid(ack_valid), .out_acked(acked),
        .out_loss(loss), .out_first_missing(ack_missing), .out_retransmit_next(ack_retransmit_next),
        .out_recover(ack_recover), .out_recover_since(ack_since), .out_highest_sacked(ack_highest), .out_in_recovery(ack_recovery),
        .out_retransmit_first(ack_first), .out_rto_high(ack_high), .out_timer_start(ack_timer), .out_sacked(ack_sacked)
    );
    wire         running, expired, extended, time_recovery, time_first, time_high, time_valid;
    wire [23:0]  time_retransmit_next, time_recover;
    wire [31:0]  time_since, time_timer;
    irn_timeout #(.PUBLISHED(PUBLISHED)) timeout (
        .clk(clk), .rst(rst), .in_valid(v3), .in_now(now3), .in_rto_low(low3), .in_rto_high_ns(high3), .in_low_packets(packets3),
        .in_first_missing(before3[23:0]), .in_next(before3[47:24]), .in_retransmit_next(before3[71:48]), .in_recover(before3[95:72]),
        .in_recover_since(PUBLISHED != 0 ? 32'd0 : before3[127:96]), .in_in_recovery(before3[152]),
        .in_retransmit_first(before3[153]), .in_rto_high(PUBLISHED != 0 && before3[96]),
        .in_timer_start(before3[185:154]), .out_valid(time_valid), .out_running(running), .out_expired(expired),
        .out_extended(extended), .out_retransmit_next(time_retransmit_next), .out_recover(time_recover), .out_recover_since(time_since),
        .out_in_recovery(time_recovery), .out_retransmit_first(time_first), .out_rto_high(time_high),
        .out_timer_start(time_timer)
    );

    // Cycle 6: the context is written.
    wire [31:0] tx_other = PUBLISHED != 0 ? {31'd0, tx_high} : tx_since;
    wire [31:0] ack_other = PUBLISHED != 0 ? {31'd0, ack_high} : ack_since;
    wire [31:0] time_other = PUBLISHED != 0 ? {31'd0, time_high} : time_since;
    reg [BITS-1:0] after;
    always @* begin
        case (op6)
            2'd0: after = {{W{1'b0}}, 32'd0, 2'd0, psn6, 32'd0, psn6, psn6, psn6, psn6};
            2'd1: after = {before6[186 +: W], tx_timer, tx_first, before6[152:128], tx_other, tx_recover,
                           tx_retransmit_next, tx_next, before6[23:0]};
            2'd2: after = {ack_sacked, ack_timer, ack_first, ack_recovery, ack_highest, ack_other, ack_recover,
                           ack_retransmit_next, before6[47:24], ack_missing};
            default: after = {before6[186 +: W], time_timer, time_first, time_recovery, before6[151:128], time_other,
                              time_recover, time_retransmit_next, before6[47:0]};
        endcase
    end
    generate
        if (PUBLISHED != 0) begin : store_published
            assign written = {after[BITS-1:154], after[153:152], after[96], after[151:128], after[95:0]};
        end else begin : store_core
            assign written = after;
        end
    endgenerate
    assign out_valid = v6;
    assign out_op = op6;
    assign out_qp = qp6;
    assign out_flags = op6 == 2'd1 ? {retransmission, last, send} : op6 == 2'd2 ? {2'd0, loss}
                     : op6 == 2'd3 ? {extended, expired, running} : 3'd0;
    assign out_value = op6 == 2'd1 ? tx_psn : op6 == 2'd2 ? acked : 24'd0;
    assign out_context = after;
endmodule
`default_nettype wire
