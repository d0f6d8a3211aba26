// SPDX-License-Identifier: MIT OR Apache-2.0
// IRN's timeout: what a sender does when its timer is looked at.
//
// The timeout is RTO_low while at most N packets are in flight, else RTO_high. The published logic decides this when the
// timer starts; a short timer that expires while more than N packets are in flight is extended to RTO_high.
//
// Fully pipelined: a queue pair may enter in every cycle; its result leaves LATENCY = 3 cycles later.
`default_nettype none
module irn_timeout #(
    parameter PUBLISHED = 0   // 1: the logic that the authors published
) (
    input  wire        clk,
    input  wire        rst,                // synchronous: forgets what is under way
    input  wire        in_valid,
    input  wire [31:0] in_now,             // ns, modulo 2^32
    input  wire [31:0] in_rto_low,         // ns
    input  wire [31:0] in_rto_high_ns,     // ns
    input  wire [7:0]  in_low_packets,     // N
    // State: see docs/concepts/hardware.md for its fields.
    input  wire [23:0] in_first_missing,
    input  wire [23:0] in_next,
    input  wire [23:0] in_retransmit_next,
    input  wire [23:0] in_recover,
    input  wire [31:0] in_recover_since,
    input  wire        in_in_recovery,
    input  wire        in_retransmit_first,
    input  wire        in_rto_high,
    input  wire [31:0] in_timer_start,
    output reg         out_valid,
    output reg         out_running,        // packets are in flight
    output reg         out_expired,        // a recovery begins
    output reg         out_extended,       // published logic: RTO_low became RTO_high
    // State after the look; the fields that a timeout never changes are not repeated.
    output reg  [23:0] out_retransmit_next,
    output reg  [23:0] out_recover,
    output reg  [31:0] out_recover_since,
    output reg         out_in_recovery,
    output reg         out_retransmit_first,
    output reg         out_rto_high,
    output reg  [31:0] out_timer_start
);
    // Stage 1: packets in flight, time since the timer started.
    wire [23:0] in_flight = in_next - in_first_missing;
    reg         v1, running1, few1, recovering1, retransmit_first1, high1;
    reg [31:0]  elapsed1, now1, since1, timer1, low_ns1, high_ns1;
    reg [23:0]  missing1, next1, retransmit1, recover1;
    always @(posedge clk) begin
        v1 <= !rst && in_valid;
        running1 <= |in_flight;
        few1 <= in_flight <= {16'd0, in_low_packets};
        elapsed1 <= in_now - in_timer_start;
        now1 <= in_now;
        since1 <= in_recover_since;
        timer1 <= in_timer_start;
        low_ns1 <= in_rto_low;
        high_ns1 <= in_rto_high_ns;
        missing1 <= in_first_missing;
        next1 <= in_next;
        retransmit1 <= in_retransmit_next;
        recover1 <= in_recover;
        recovering1 <= in_in_recovery;
        retransmit_first1 <= in_retransmit_first;
        high1 <= in_rto_high;
    end

    // Stage 2: compare with both timeouts.
    reg         v2, running2, few2, recovering2, retransmit_first2, high2, past_low2, past_high2;
    reg [31:0]  now2, since2, timer2;
    reg [23:0]  missing2, last2, retransmit2, recover2;
    always @(posedge clk) begin
        v2 <= !rst && v1;
        running2 <= running1;
        few2 <= few1;
        past_low2 <= elapsed1 >= low_ns1;
        past_high2 <= elapsed1 >= high_ns1;
        now2 <= now1;
        since2 <= since1;
        timer2 <= timer1;
        missing2 <= missing1;
        last2 <= next1 - 24'd1;
        retransmit2 <= retransmit1;
        recover2 <= recover1;
        recovering2 <= recovering1;
        retransmit_first2 <= retransmit_first1;
        high2 <= high1;
    end

    // Stage 3: decide.
    wire        short_timer = PUBLISHED != 0 ? !high2 : few2;
    wire        due = running2 && (short_timer ? past_low2 : past_high2);
    wire        extended = PUBLISHED != 0 && due && short_timer && !few2;
    wire        expired = due && !extended;
    always @(posedge clk) begin
        out_valid <= !rst && v2;
        out_running <= running2;
        out_expired <= expired;
        out_extended <= extended;
        out_retransmit_next <= expired ? missing2 : retransmit2;
        out_recover <= expired ? last2 : recover2;
        out_recover_since <= (expired && PUBLISHED == 0) ? now2 : since2;
        out_in_recovery <= recovering2 || expired;
        out_retransmit_first <= retransmit_first2 || expired;
        out_rto_high <= (PUBLISHED != 0 && expired) ? !few2 : high2 || extended;
        out_timer_start <= expired ? now2 : timer2;
    end
endmodule
`default_nettype wire
