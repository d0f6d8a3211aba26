// SPDX-License-Identifier: MIT OR Apache-2.0
// IRN's txFree: which packet of a queue pair leaves when the transmitter is free.
//
// In recovery the first packet is the one that is missing, then every packet that counts as lost: not acknowledged,
// before a selectively acknowledged one, and not retransmitted yet. Without one, a new packet leaves if BDP-FC's cap and
// the window of the congestion control allow it.
//
// Fully pipelined: a request of another queue pair may enter in every cycle; its result leaves LATENCY = 5 cycles later.
`default_nettype none
module irn_tx_free #(
    parameter CAP = 111,      // BDP-FC's cap on packets in flight, at most 2^23
    // Not to be set: log2 of the number of bits of a bitmap. The core's bitmaps have at least 128 bits, too.
    parameter LOG_W = CAP <= 128 ? 7 : $clog2(CAP),
    parameter PUBLISHED = 0   // 1: the logic that the authors published
) (
    input  wire                  clk,
    input  wire                  rst,             // synchronous: forgets what is under way
    input  wire                  in_valid,
    input  wire [31:0]           in_now,              // ns, modulo 2^32
    input  wire [23:0]           in_window,           // packets in flight that the congestion control allows
    input  wire [23:0]           in_end,              // PSN after the last packet of the send queue
    input  wire [7:0]            in_low_packets,      // N: most packets in flight with the timeout RTO_low
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
    output reg                   out_send,            // a packet leaves
    output reg  [23:0]           out_psn,
    output reg                   out_last,            // it is the last of the send queue
    output reg                   out_retransmission,
    // State after the request; the fields that a request never changes are not repeated.
    output reg  [23:0]           out_next,
    output reg  [23:0]           out_retransmit_next,
    output reg  [23:0]           out_recover,
    output reg  [31:0]           out_recover_since,
    output reg                   out_retransmit_first,
    output reg                   out_rto_high,
    output reg  [31:0]           out_timer_start
);
    localparam W = 1 << LOG_W;

    // Stage 1: where the search for a lost packet begins and ends, and whether a new packet may leave.
    wire [23:0] in_flight = in_next - in_first_missing;
    wire [23:0] from_first = in_retransmit_next - in_first_missing;
    wire [23:0] from = from_first[23] ? in_first_missing : in_retransmit_next;
    wire [23:0] below_next = in_highest_sacked - in_retransmit_next;
    wire [23:0] below_first = in_highest_sacked - in_first_missing;
    wire [23:0] below = from_first[23] ? below_first : below_next;
    wire        sacked_any = |in_sacked;
    wire        may_search = in_in_recovery && !in_retransmit_first && sacked_any && !below[23] && |below;
    wire        room = in_flight < in_window && {8'd0, in_flight} < CAP;

    reg         v1, search1, first1, new1, idle1, any1, rto_high1, retransmit_first1, few1, low_is_zero1;
    reg [31:0]  now1, since1, timer1;
    reg [23:0]  end1, missing1, next1, retransmit1, recover1, from1, below1;
    reg [W-1:0] sacked1, start1;
    always @(posedge clk) begin
        v1 <= !rst && in_valid;
        search1 <= may_search;
        first1 <= in_in_recovery && in_retransmit_first;
        new1 <= room && in_next != in_end;
        idle1 <= in_flight == 24'd0;
        few1 <= in_flight <= {16'd0, in_low_packets};
        low_is_zero1 <= in_low_packets == 8'd0;
        any1 <= sacked_any;
        now1 <= in_now;
        since1 <= in_recover_since;
        timer1 <= in_timer_start;
        rto_high1 <= in_rto_high;
        retransmit_first1 <= in_retransmit_first;
        end1 <= in_end;
        missing1 <= in_first_missing;
        next1 <= in_next;
        retransmit1 <= in_retransmit_next;
        recover1 <= in_recover;
        from1 <= from;
        below1 <= below;
        sacked1 <= in_sacked;
        start1 <= {{W-1{1'b0}}, 1'b1} << from[LOG_W-1:0];
    end

    // What the search does not need waits for it in stages 2 and 3.
    reg         v1b, search1b, first1b, new1b, idle1b, any1b, rto_high1b, retransmit_first1b, few1b, low_is_zero1b;
    reg         v1c, search1c, first1c, new1c, idle1c, any1c, rto_high1c, retransmit_first1c, few1c, low_is_zero1c;
    reg [31:0]  now1b, since1b, timer1b, now1c, since1c, timer1c;
    reg [23:0]  end1b, missing1b, next1b, retransmit1b, recover1b, from1b, below1b;
    reg [23:0]  end1c, missing1c, next1c, retransmit1c, recover1c, from1c, below1c;
    always @(posedge clk) begin
        {v1c, v1b} <= rst ? 2'd0 : {v1b, v1};
        {search1c, search1b} <= {search1b, search1};
        {first1c, first1b} <= {first1b, first1};
        {new1c, new1b} <= {new1b, new1};
        {idle1c, idle1b} <= {idle1b, idle1};
        {any1c, any1b} <= {any1b, any1};
        {rto_high1c, rto_high1b} <= {rto_high1b, rto_high1};
        {retransmit_first1c, retransmit_first1b} <= {retransmit_first1b, retransmit_first1};
        {few1c, few1b} <= {few1b, few1};
        {low_is_zero1c, low_is_zero1b} <= {low_is_zero1b, low_is_zero1};
        {now1c, now1b} <= {now1b, now1};
        {since1c, since1b} <= {since1b, since1};
        {timer1c, timer1b} <= {timer1b, timer1};
        {end1c, end1b} <= {end1b, end1};
        {missing1c, missing1b} <= {missing1b, missing1};
        {next1c, next1b} <= {next1b, next1};
        {retransmit1c, retransmit1b} <= {retransmit1b, retransmit1};
        {recover1c, recover1b} <= {recover1b, recover1};
        {from1c, from1b} <= {from1b, from1};
        {below1c, below1b} <= {below1b, below1};
    end

    // Stage 2: an addition carries through the acknowledged packets to the first that is not.
    wire [W:0]   from_start = {1'b0, sacked1} + {1'b0, start1};
    wire [W:0]   from_zero = {1'b0, sacked1} + {{W{1'b0}}, 1'b1};
    reg [W-1:0]  stop_start, stop_zero;
    reg          wraps;
    always @(posedge clk) begin
        // The sum sets the bit where the carry stops. Other bits that are clear in `sacked1` stay clear.
        stop_start <= from_start[W-1:0] & ~sacked1;
        stop_zero <= from_zero[W-1:0] & ~sacked1;
        wraps <= from_start[W];
    end

    // Stage 3: the packet that the bit stands for.
    wire [W-1:0] stop = wraps ? stop_zero : stop_start;
    wire [LOG_W-1:0] stop_index;
    irn_encode #(.LOG_W(LOG_W)) encode (.one_hot(stop), .index(stop_index));
    reg [LOG_W-1:0] distance;
    reg          stops;
    always @(posedge clk) begin
        distance <= stop_index - from1b[LOG_W-1:0];
        stops <= |stop;
    end

    // Stage 4: the packet that leaves.
    wire         found = search1c && stops && {{(24-LOG_W){1'b0}}, distance} < below1c;
    wire [23:0]  lost = from1c + {{(24-LOG_W){1'b0}}, distance};

    reg         v2, again2, send2, new2, idle2, any2, rto_high2, retransmit_first2, few2, low_is_zero2;
    reg [31:0]  now2, since2, timer2;
    reg [23:0]  psn2, end2, missing2, next2, retransmit2, recover2;
    always @(posedge clk) begin
        v2 <= !rst && v1c;
        again2 <= first1c || found;
        new2 <= !first1c && !found && new1c;
        send2 <= first1c || found || new1c;
        psn2 <= first1c ? missing1c : found ? lost : next1c;
        idle2 <= idle1c;
        few2 <= few1c;
        low_is_zero2 <= low_is_zero1c;
        any2 <= any1c;
        now2 <= now1c;
        since2 <= since1c;
        timer2 <= timer1c;
        rto_high2 <= rto_high1c;
        retransmit_first2 <= retransmit_first1c;
        end2 <= end1c;
        missing2 <= missing1c;
        next2 <= next1c;
        retransmit2 <= retransmit1c;
        recover2 <= recover1c;
    end

    // Stage 5: the state that the packet leaves.
    wire [23:0] after = psn2 + 24'd1;
    wire        restart = (again2 && psn2 == missing2) || (new2 && idle2);
    // Only selective acknowledgements prove a loss. The published logic moves the recovery sequence without a proof, too.
    wire        moves = again2 && (any2 || PUBLISHED != 0);
    always @(posedge clk) begin
        out_valid <= !rst && v2;
        out_send <= send2;
        out_psn <= psn2;
        out_last <= send2 && after == end2;
        out_retransmission <= again2;
        out_next <= new2 ? after : next2;
        out_retransmit_next <= again2 ? after : retransmit2;
        out_recover <= moves ? next2 - 24'd1 : recover2;
        out_recover_since <= (PUBLISHED == 0 && again2 && (retransmit_first2 || any2)) ? now2 : since2;
        out_retransmit_first <= retransmit_first2 && !again2;
        out_timer_start <= restart ? now2 : timer2;
        out_rto_high <= (PUBLISHED != 0 && restart) ? (again2 ? !few2 : low_is_zero2) : rto_high2;
    end
endmodule
`default_nettype wire
