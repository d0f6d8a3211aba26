// SPDX-License-Identifier: MIT OR Apache-2.0
// IRN's receiveAck: what a sender does with an arriving ACK or NACK.
//
// Fully pipelined: a response of another queue pair may enter in every cycle; its result leaves LATENCY = 3 cycles later.
`default_nettype none
module irn_receive_ack #(
    parameter CAP = 111,      // BDP-FC's cap on packets in flight, at most 2^23
    // Not to be set: log2 of the number of bits of a bitmap. The core's bitmaps have at least 128 bits, too.
    parameter LOG_W = CAP <= 128 ? 7 : $clog2(CAP),
    parameter PUBLISHED = 0   // 1: the logic that the authors published
) (
    input  wire                  clk,
    input  wire                  rst,             // synchronous: forgets what is under way
    input  wire                  in_valid,
    input  wire [31:0]           in_now,          // ns, modulo 2^32
    input  wire                  in_nack,         // NACK, not ACK
    input  wire [23:0]           in_psn,          // the receiver's expected PSN
    input  wire [23:0]           in_trigger,      // NACK: the packet that caused it
    input  wire [31:0]           in_stamp,        // departure of the packet that caused the response, ns modulo 2^32
    input  wire [7:0]            in_low_packets,  // N: most packets in flight with the timeout RTO_low
    // State: see docs/concepts/hardware.md for its fields.
    input  wire [23:0]           in_first_missing,
    input  wire [23:0]           in_next,
    input  wire [23:0]           in_retransmit_next,
    input  wire [23:0]           in_recover,
    input  wire [31:0]           in_recover_since,
    input  wire [23:0]           in_highest_sacked,
    input  wire                  in_in_recovery,
    input  wire                  in_retransmit_first,
    input  wire                  in_rto_high,
    input  wire [31:0]           in_timer_start,
    input  wire [(1<<LOG_W)-1:0] in_sacked,
    output reg                   out_valid,
    output reg  [23:0]           out_acked,       // packets that are newly acknowledged cumulatively
    output reg                   out_loss,        // a recovery begins
    // State after the response; the fields that a response never changes are not repeated.
    output reg  [23:0]           out_first_missing,
    output reg  [23:0]           out_retransmit_next,
    output reg  [23:0]           out_recover,
    output reg  [31:0]           out_recover_since,
    output reg  [23:0]           out_highest_sacked,
    output reg                   out_in_recovery,
    output reg                   out_retransmit_first,
    output reg                   out_rto_high,
    output reg  [31:0]           out_timer_start,
    output reg  [(1<<LOG_W)-1:0] out_sacked
);
    localparam W = 1 << LOG_W;

    // Stage 1: all distances, and the masks of the packets that leave the window.
    wire [23:0] advance = in_psn - in_first_missing;
    wire [23:0] in_flight = in_next - in_first_missing;
    wire [23:0] remaining = in_next - in_psn;
    wire [23:0] offset = in_trigger - in_psn;
    wire [23:0] past_recover = in_psn - in_recover;
    wire [23:0] to_retransmit = in_psn - in_retransmit_next;
    wire [31:0] stamp_age = in_stamp - in_recover_since;

    reg         v1, valid1, slides1, nack1, passes1, fresh1, proven1, recovering1, retransmit_first1, rto_high1;
    reg [23:0]  advance1, remaining1, offset1, psn1, trigger1, next1, missing1, retransmit1, recover1, highest1;
    reg [31:0]  now1, since1, timer1;
    reg [7:0]   low1;
    reg [W-1:0] sacked1, below_old1, below_new1, at_trigger1;
    always @(posedge clk) begin
        v1 <= !rst && in_valid;
        valid1 <= !advance[23] && advance <= in_flight;
        slides1 <= |advance;
        nack1 <= in_nack;
        passes1 <= !past_recover[23] && |past_recover;
        fresh1 <= !to_retransmit[23];
        proven1 <= !stamp_age[31];
        recovering1 <= in_in_recovery;
        retransmit_first1 <= in_retransmit_first;
        rto_high1 <= in_rto_high;
        advance1 <= advance;
        remaining1 <= remaining;
        offset1 <= offset;
        psn1 <= in_psn;
        trigger1 <= in_trigger;
        next1 <= in_next;
        missing1 <= in_first_missing;
        retransmit1 <= in_retransmit_next;
        recover1 <= in_recover;
        highest1 <= in_highest_sacked;
        now1 <= in_now;
        since1 <= in_recover_since;
        timer1 <= in_timer_start;
        low1 <= in_low_packets;
        sacked1 <= in_sacked;
        below_old1 <= ~({W{1'b1}} << in_first_missing[LOG_W-1:0]);
        below_new1 <= ~({W{1'b1}} << in_psn[LOG_W-1:0]);
        at_trigger1 <= {{W-1{1'b0}}, 1'b1} << in_trigger[LOG_W-1:0];
    end

    // Stage 2: the bitmap slides; the recovery ends or goes on.
    wire        slide = valid1 && slides1;
    wire        wraps = psn1[LOG_W-1:0] <= missing1[LOG_W-1:0];
    wire [W-1:0] leaving = wraps ? below_new1 | ~below_old1 : below_new1 & ~below_old1;
    wire [W-1:0] kept = slide ? sacked1 & ~leaving : sacked1;
    wire        ends = slide && recovering1 && passes1;
    wire        partial_ack = slide && recovering1 && !passes1 && fresh1 && (proven1 || PUBLISHED != 0);
    wire        reports = valid1 && nack1 && !offset1[23] && |offset1 && offset1 < remaining1;
    wire [23:0] above_highest = trigger1 - highest1;

    reg         v2, valid2, reports2, recovering2, retransmit_first2, rto_high2, higher2;
    reg [23:0]  advance2, trigger2, next2, missing2, retransmit2, recover2, highest2;
    reg [31:0]  now2, since2, timer2;
    reg         few2;
    reg [W-1:0] sacked2, at_trigger2;
    always @(posedge clk) begin
        v2 <= !rst && v1;
        valid2 <= valid1;
        reports2 <= reports;
        recovering2 <= recovering1 && !ends;
        retransmit_first2 <= slide ? partial_ack : retransmit_first1;
        rto_high2 <= rto_high1;
        higher2 <= !above_highest[23] && |above_highest;
        advance2 <= slide ? advance1 : 24'd0;
        trigger2 <= trigger1;
        next2 <= next1;
        missing2 <= slide ? psn1 : missing1;
        retransmit2 <= retransmit1;
        recover2 <= recover1;
        highest2 <= highest1;
        now2 <= now1;
        since2 <= since1;
        timer2 <= timer1;
        few2 <= remaining1 <= {16'd0, low1};
        sacked2 <= kept;
        at_trigger2 <= at_trigger1;
    end

    // Stage 3: the selective acknowledgement; a recovery begins.
    wire        new_sack = reports2 && ~|(sacked2 & at_trigger2);
    wire        raises = new_sack && (~|sacked2 || higher2);
    wire        enters = reports2 && !recovering2;
    always @(posedge clk) begin
        out_valid <= !rst && v2;
        out_acked <= advance2;
        out_loss <= enters;
        out_first_missing <= missing2;
        out_retransmit_next <= enters ? missing2 : retransmit2;
        out_recover <= enters ? next2 - 24'd1 : recover2;
        out_recover_since <= (enters && PUBLISHED == 0) ? now2 : since2;
        out_highest_sacked <= raises ? trigger2 : highest2;
        out_in_recovery <= recovering2 || enters;
        out_retransmit_first <= retransmit_first2 || enters;
        out_rto_high <= (PUBLISHED != 0 && valid2) ? !few2 : rto_high2;
        out_timer_start <= valid2 ? now2 : timer2;
        out_sacked <= reports2 ? sacked2 | at_trigger2 : sacked2;
    end
endmodule
`default_nettype wire
