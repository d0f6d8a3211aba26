// SPDX-License-Identifier: MIT OR Apache-2.0
// IRN's receiveData: what a receiver does with an arriving data packet.
//
// Fully pipelined: a packet of another queue pair may enter in every cycle; its result leaves LATENCY = 5 cycles later.
// Packets of one queue pair must be at least 5 cycles apart, because each needs the state that the one before it left.
//
// Each packet of the window has two bits, {second, first}: 00 not arrived, 01 arrived, 10 arrived and ends a message,
// 11 arrived, ends a message and completes a Receive. The bits of packet `psn` are at index psn mod W.
`default_nettype none
module irn_receive_data #(
    parameter CAP = 111,      // BDP-FC's cap on packets in flight, at most 2^23
    // Not to be set: log2 of the number of bits of a bitmap. The core's bitmaps have at least 128 bits, too.
    parameter LOG_W = CAP <= 128 ? 7 : $clog2(CAP)
) (
    input  wire                      clk,
    input  wire                      rst,            // synchronous: forgets what is under way
    input  wire                      in_valid,
    input  wire [23:0]               in_psn,
    input  wire                      in_ends,       // the packet ends a message
    input  wire                      in_receive,    // the message completes a Receive
    input  wire [23:0]               in_expected,   // state: first packet that has not arrived
    input  wire [23:0]               in_msn,        // state: messages completed, modulo 2^24
    input  wire [(1<<LOG_W)-1:0]     in_first,      // state: first bits of the window
    input  wire [(1<<LOG_W)-1:0]     in_second,     // state: second bits of the window
    output reg                       out_valid,
    output reg                       out_reply,     // send a response
    output reg                       out_nack,      // the response is a NACK, not an ACK
    output reg                       out_discarded, // duplicate, or beyond the window
    output reg  [23:0]               out_trigger,   // NACK: the packet that arrived
    output reg  [LOG_W:0]            out_receives,  // Receives that the packet completed
    output reg  [23:0]               out_expected,  // state after the packet, and PSN of the response
    output reg  [23:0]               out_msn,
    output reg  [(1<<LOG_W)-1:0]     out_first,
    output reg  [(1<<LOG_W)-1:0]     out_second
);
    localparam W = 1 << LOG_W;

    // Stage 1: where is the packet?
    wire [23:0] ahead = in_psn - in_expected;
    reg         v0, order0, early0, beyond0, ends0, receive0;
    reg [23:0]  psn0, expected0, msn0;
    reg [W-1:0] first0, second0, here0;
    always @(posedge clk) begin
        v0 <= !rst && in_valid;
        order0 <= ahead == 24'd0;
        early0 <= !ahead[23] && ahead != 24'd0;               // after the expected packet
        beyond0 <= !ahead[23] && |ahead[22:LOG_W];            // no bit for it
        ends0 <= in_ends;
        receive0 <= in_receive;
        psn0 <= in_psn;
        expected0 <= in_expected;
        msn0 <= in_msn;
        here0 <= {{W-1{1'b0}}, 1'b1} << in_psn[LOG_W-1:0];
        first0 <= in_first;
        second0 <= in_second;
    end

    // Stage 2: a packet that is new leaves its mark.
    wire        known = |((first0 | second0) & here0);
    wire        accepted = order0 || (early0 && !beyond0 && !known);
    wire        marks_first = (order0 || (early0 && !beyond0)) && (!ends0 || receive0);
    wire        marks_second = (order0 || (early0 && !beyond0)) && ends0;

    reg         v1, reply1, nack1, discarded1, order1;
    reg [23:0]  psn1, expected1, msn1;
    reg [W-1:0] first1, second1, here1;
    always @(posedge clk) begin
        v1 <= !rst && v0;
        reply1 <= !beyond0;
        nack1 <= early0 && !beyond0;
        discarded1 <= !accepted;
        order1 <= order0;
        psn1 <= psn0;
        expected1 <= expected0;
        msn1 <= msn0;
        here1 <= here0;
        // A packet that is known keeps the marks that it has.
        first1 <= first0 | (here0 & {W{marks_first}} & ~second0);
        second1 <= second0 | (here0 & {W{marks_second}} & ~first0);
    end

    // Stage 3: an addition carries through the packets that arrived, from the one in order to the first that is missing.
    wire [W-1:0] arrived1 = first1 | second1;
    wire [W:0]   from_here = {1'b0, arrived1} + {1'b0, here1};
    wire [W:0]   from_zero = {1'b0, arrived1} + {{W{1'b0}}, 1'b1};
    wire         wraps = from_here[W];
    wire [W-1:0] flipped_here = from_here[W-1:0] ^ arrived1;
    wire [W-1:0] flipped_zero = from_zero[W-1:0] ^ arrived1;
    wire [W-1:0] flipped = wraps ? flipped_here | flipped_zero : flipped_here;

    reg         v2, reply2, nack2, discarded2, order2, wraps2;
    reg [23:0]  psn2, expected2, msn2;
    reg [W-1:0] first2, second2, flipped2;
    always @(posedge clk) begin
        v2 <= !rst && v1;
        reply2 <= reply1;
        nack2 <= nack1;
        discarded2 <= discarded1;
        order2 <= order1;
        psn2 <= psn1;
        expected2 <= expected1;
        msn2 <= msn1;
        first2 <= first1;
        second2 <= second1;
        wraps2 <= order1 && wraps;
        flipped2 <= order1 ? flipped : {W{1'b0}};
    end

    // Stage 4: the run leaves the window. `stop` has one bit, of the first packet that is missing; none if all arrived.
    wire [W-1:0] arrived2 = first2 | second2;
    wire [W-1:0] run = flipped2 & arrived2;
    wire [W-1:0] stop = flipped2 & ~arrived2;
    wire [LOG_W-1:0] stop_index;
    irn_encode #(.LOG_W(LOG_W)) encode (.one_hot(stop), .index(stop_index));
    wire         full = order2 && ~|stop;
    wire [23-LOG_W:0] upper = expected2[23:LOG_W] + {{(23-LOG_W){1'b0}}, wraps2};
    wire [LOG_W:0] messages, receives;
    wire [W-1:0] ended = run & second2;
    wire [W-1:0] received = run & second2 & first2;

    // A count over the whole window takes two cycles: the first adds groups of eight bits.
    reg [W/2-1:0] ended3, received3;
    reg         v3, reply3, nack3, discarded3;
    reg [23:0]  psn3, expected3, msn3;
    reg [W-1:0] first3, second3;
    integer group;
    always @(posedge clk) begin
        v3 <= !rst && v2;
        reply3 <= reply2;
        nack3 <= nack2;
        discarded3 <= discarded2;
        psn3 <= psn2;
        msn3 <= msn2;
        if (!order2)
            expected3 <= expected2;
        else
            expected3 <= {upper, full ? expected2[LOG_W-1:0] : stop_index};
        first3 <= first2 & ~run;
        second3 <= second2 & ~run;
        for (group = 0; group < W; group = group + 8) begin
            ended3[group/2 +: 4] <= ones(ended[group +: 8]);
            received3[group/2 +: 4] <= ones(received[group +: 8]);
        end
    end

    function [3:0] ones(input [7:0] bits);
        ones = {3'd0, bits[0]} + {3'd0, bits[1]} + {3'd0, bits[2]} + {3'd0, bits[3]}
             + {3'd0, bits[4]} + {3'd0, bits[5]} + {3'd0, bits[6]} + {3'd0, bits[7]};
    endfunction

    // Stage 5: messages and Receives that completed.
    irn_sum #(.LOG_N(LOG_W - 3)) sum_messages (.counts(ended3), .sum(messages));
    irn_sum #(.LOG_N(LOG_W - 3)) sum_receives (.counts(received3), .sum(receives));
    always @(posedge clk) begin
        out_valid <= !rst && v3;
        out_reply <= reply3;
        out_nack <= nack3;
        out_discarded <= discarded3;
        out_trigger <= psn3;
        out_receives <= receives;
        out_expected <= expected3;
        out_msn <= msn3 + {{(23-LOG_W){1'b0}}, messages};
        out_first <= first3;
        out_second <= second3;
    end
endmodule
`default_nettype wire
