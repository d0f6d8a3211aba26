// SPDX-License-Identifier: MIT OR Apache-2.0
// One block of IRN between two wide vectors of 32-bit words, for co-simulation: a step enters in each cycle in which
// `in_valid` is set, and its result leaves in the cycle in which `out_valid` is set.
//
// The benches 4 and 5 have the contexts of queue pairs in their memory, and ignore words 8 on of `in`.
//
// Words of `in`:  0 now, 1 window or the packet's marks {receive, ends}, 2 PSN or end of the send queue, 3 trigger or MSN,
// 4 stamp, 5 {queue pair, operation (bits 16 and 17), N, NACK}, 6 RTO_low, 7 RTO_high, 8 first_missing or expected, 9 next or MSN, 10 retransmit_next,
// 11 recover, 12 recover_since, 13 highest_sacked, 14 {rto_high, retransmit_first, in_recovery}, 15 timer_start; then
// the first and the second bitmap.
// Words of `out`: 0 {queue pair, operation} of the benches 4 and 5, 1 to 4 outputs, 8 on: the state in the same order. Fields that a block
// never changes are 0.
`default_nettype none
module irn_bench #(
    parameter CAP = 111,
    parameter PUBLISHED = 0,
    parameter BLOCK = 0,      // 0 receiveData, 1 txFree, 2 receiveAck, 3 timeout, 4 senders, 5 receivers
    parameter LOG_QPS = 6,    // log2 of the queue pairs of the benches 4 and 5
    // Not to be set: bits of a bitmap, and words of a step.
    parameter LOG_W = CAP <= 128 ? 7 : $clog2(CAP),
    parameter WORDS = 16 + (2 << LOG_W) / 32
) (
    input  wire                  clk,
    input  wire                  in_valid,
    output wire                  in_ready,
    input  wire [32*WORDS-1:0]   in,
    output wire                  out_valid,
    output wire [32*WORDS-1:0]   out
);
    localparam W = 1 << LOG_W;
    // A reset in the first cycle.
    reg rst;
    initial rst = 1'b1;
    always @(posedge clk) rst <= 1'b0;
    `define WORD(n) in[32*(n) +: 32]
    `define PSN(n) in[32*(n) +: 24]
    wire [W-1:0] first = in[512 +: W];
    generate
        if (BLOCK < 4) begin : always_ready
            assign in_ready = !rst;
        end
        if (BLOCK == 0) begin : receive_data
            wire        reply, nack, discarded;
            wire [23:0] trigger, expected, msn;
            wire [LOG_W:0] receives;
            wire [W-1:0] new_first, new_second;
            irn_receive_data #(.CAP(CAP)) block (
                .clk(clk), .rst(rst), .in_valid(in_valid), .in_psn(`PSN(2)), .in_ends(in[32]), .in_receive(in[33]),
                .in_expected(`PSN(8)), .in_msn(`PSN(9)), .in_first(first), .in_second(in[512+W +: W]),
                .out_valid(out_valid), .out_reply(reply), .out_nack(nack), .out_discarded(discarded),
                .out_trigger(trigger), .out_receives(receives), .out_expected(expected), .out_msn(msn),
                .out_first(new_first), .out_second(new_second)
            );
            assign out = {new_second, new_first, 192'd0, 8'd0, msn, 8'd0, expected, 96'd0, 32'd0,
                          {(31-LOG_W){1'b0}}, receives, 8'd0, trigger, 29'd0, discarded, nack, reply, 32'd0};
        end else if (BLOCK == 1) begin : tx_free
            wire        send, last, retransmission, retransmit_first, rto_high;
            wire [23:0] psn, next, retransmit_next, recover;
            wire [31:0] recover_since, timer_start;
            irn_tx_free #(.CAP(CAP), .PUBLISHED(PUBLISHED)) block (
                .clk(clk), .rst(rst), .in_valid(in_valid), .in_now(`WORD(0)), .in_window(`PSN(1)), .in_end(`PSN(2)),
                .in_low_packets(in[168 +: 8]), .in_first_missing(`PSN(8)), .in_next(`PSN(9)),
                .in_retransmit_next(`PSN(10)), .in_recover(`PSN(11)), .in_recover_since(`WORD(12)),
                .in_highest_sacked(`PSN(13)), .in_in_recovery(in[448]), .in_retransmit_first(in[449]),
                .in_rto_high(in[450]), .in_timer_start(`WORD(15)), .in_sacked(first),
                .out_valid(out_valid), .out_send(send), .out_psn(psn), .out_last(last),
                .out_retransmission(retransmission), .out_next(next), .out_retransmit_next(retransmit_next),
                .out_recover(recover), .out_recover_since(recover_since), .out_retransmit_first(retransmit_first),
                .out_rto_high(rto_high), .out_timer_start(timer_start)
            );
            assign out = {{(2*W){1'b0}}, timer_start, 29'd0, rto_high, retransmit_first, 1'b0, 32'd0, recover_since,
                          8'd0, recover, 8'd0, retransmit_next, 8'd0, next, 32'd0, 160'd0, 8'd0, psn,
                          29'd0, retransmission, last, send, 32'd0};
        end else if (BLOCK == 2) begin : receive_ack
            wire        loss, in_recovery, retransmit_first, rto_high;
            wire [23:0] acked, first_missing, retransmit_next, recover, highest_sacked;
            wire [31:0] recover_since, timer_start;
            wire [W-1:0] sacked;
            irn_receive_ack #(.CAP(CAP), .PUBLISHED(PUBLISHED)) block (
                .clk(clk), .rst(rst), .in_valid(in_valid), .in_now(`WORD(0)), .in_nack(in[160]), .in_psn(`PSN(2)),
                .in_trigger(`PSN(3)), .in_stamp(`WORD(4)), .in_low_packets(in[168 +: 8]), .in_first_missing(`PSN(8)),
                .in_next(`PSN(9)), .in_retransmit_next(`PSN(10)), .in_recover(`PSN(11)), .in_recover_since(`WORD(12)),
                .in_highest_sacked(`PSN(13)), .in_in_recovery(in[448]), .in_retransmit_first(in[449]),
                .in_rto_high(in[450]), .in_timer_start(`WORD(15)), .in_sacked(first),
                .out_valid(out_valid), .out_acked(acked), .out_loss(loss), .out_first_missing(first_missing),
                .out_retransmit_next(retransmit_next), .out_recover(recover),
                .out_recover_since(recover_since), .out_highest_sacked(highest_sacked),
                .out_in_recovery(in_recovery), .out_retransmit_first(retransmit_first), .out_rto_high(rto_high),
                .out_timer_start(timer_start), .out_sacked(sacked)
            );
            assign out = {{W{1'b0}}, sacked, timer_start, 29'd0, rto_high, retransmit_first, in_recovery,
                          8'd0, highest_sacked, recover_since, 8'd0, recover, 8'd0, retransmit_next, 32'd0, 8'd0, first_missing,
                          160'd0, 8'd0, acked, 31'd0, loss, 32'd0};
        end else if (BLOCK == 3) begin : timeout
            wire        running, expired, extended, in_recovery, retransmit_first, rto_high;
            wire [23:0] retransmit_next, recover;
            wire [31:0] recover_since, timer_start;
            irn_timeout #(.PUBLISHED(PUBLISHED)) block (
                .clk(clk), .rst(rst), .in_valid(in_valid), .in_now(`WORD(0)), .in_rto_low(`WORD(6)), .in_rto_high_ns(`WORD(7)),
                .in_low_packets(in[168 +: 8]), .in_first_missing(`PSN(8)), .in_next(`PSN(9)),
                .in_retransmit_next(`PSN(10)), .in_recover(`PSN(11)), .in_recover_since(`WORD(12)), .in_in_recovery(in[448]),
                .in_retransmit_first(in[449]), .in_rto_high(in[450]), .in_timer_start(`WORD(15)),
                .out_valid(out_valid), .out_running(running), .out_expired(expired), .out_extended(extended),
                .out_retransmit_next(retransmit_next), .out_recover(recover),
                .out_recover_since(recover_since), .out_in_recovery(in_recovery),
                .out_retransmit_first(retransmit_first), .out_rto_high(rto_high), .out_timer_start(timer_start)
            );
            assign out = {{(2*W){1'b0}}, timer_start, 29'd0, rto_high, retransmit_first, in_recovery, 32'd0, recover_since,
                          8'd0, recover, 8'd0, retransmit_next, 64'd0, 192'd0, 29'd0, extended, expired, running, 32'd0};
        end else if (BLOCK == 4) begin : sender
            wire [1:0]   op;
            wire [LOG_QPS-1:0] qp;
            wire [2:0]   flags;
            wire [23:0]  value;
            wire [185+W:0] after;
            irn_sender #(.CAP(CAP), .PUBLISHED(PUBLISHED), .LOG_QPS(LOG_QPS)) senders (
                .clk(clk), .rst(rst), .in_valid(in_valid), .in_ready(in_ready), .in_op(in[176 +: 2]), .in_qp(in[178 +: LOG_QPS]),
                .in_now(`WORD(0)), .in_window(`PSN(1)), .in_psn(`PSN(2)), .in_nack(in[160]), .in_trigger(`PSN(3)),
                .in_stamp(`WORD(4)), .in_low_packets(in[168 +: 8]), .in_rto_low(`WORD(6)), .in_rto_high_ns(`WORD(7)),
                .out_valid(out_valid), .out_op(op), .out_qp(qp), .out_flags(flags), .out_value(value),
                .out_context(after)
            );
            wire [31:0] other = after[127:96];
            wire [31:0] since = PUBLISHED != 0 ? 32'd0 : other;
            wire        high = PUBLISHED != 0 && other[0];
            assign out = {{W{1'b0}}, after[186 +: W], after[185:154], 29'd0, high, after[153:152], 8'd0, after[151:128],
                          since, 8'd0, after[95:72], 8'd0, after[71:48], 8'd0, after[47:24], 8'd0, after[23:0],
                          160'd0, 8'd0, value, 29'd0, flags, {(30-LOG_QPS){1'b0}}, qp, op};
        end else begin : receiver
            wire         reset, reply, nack, discarded;
            wire [LOG_QPS-1:0] qp;
            wire [23:0]  trigger;
            wire [LOG_W:0] receives;
            wire [47+2*W:0] after;
            irn_receiver #(.CAP(CAP), .LOG_QPS(LOG_QPS)) receivers (
                .clk(clk), .rst(rst), .in_valid(in_valid), .in_ready(in_ready), .in_reset(in[176 +: 2] == 2'd0),
                .in_qp(in[178 +: LOG_QPS]), .in_psn(`PSN(2)), .in_msn(`PSN(3)), .in_ends(in[32]), .in_receive(in[33]),
                .out_valid(out_valid), .out_qp(qp), .out_reset(reset), .out_reply(reply), .out_nack(nack),
                .out_discarded(discarded), .out_trigger(trigger), .out_receives(receives), .out_context(after)
            );
            assign out = {after[48 +: 2*W], 192'd0, 8'd0, after[47:24], 8'd0, after[23:0], 96'd0, 32'd0,
                          {(31-LOG_W){1'b0}}, receives, 8'd0, trigger, 29'd0, discarded, nack, reply,
                          {(30-LOG_QPS){1'b0}}, qp, 1'b0, !reset};
        end
    endgenerate
    `undef WORD
    `undef PSN
endmodule
`default_nettype wire
