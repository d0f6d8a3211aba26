// SPDX-License-Identifier: MIT OR Apache-2.0
// NanoTransport's priority scheduler: up to 16 messages in the order of their ranks, all compared at once.
//
// A request in a cycle has its result in the next one. It inserts, updates or removes a message; then it selects the
// first message with granted < grantable, if it is among the first `levels`, and sets its granted to its grantable.
// A message beyond the 16th is not inserted. An entry takes its next value from itself or a neighbour: removing the old
// entry of the message moves the later ones up, inserting the new one moves them down.
`default_nettype none
module nt_scheduler (
    input  wire        clk,
    input  wire        rst,        // synchronous: forgets all messages
    input  wire        request,
    input  wire [15:0] id,
    input  wire        remove,
    input  wire [31:0] rank,
    input  wire [31:0] granted,    // of a message that is new here
    input  wire [31:0] grantable,
    input  wire [7:0]  levels,
    output reg         found,
    output reg  [15:0] found_id,
    output reg  [7:0]  level,
    output reg  [31:0] credit
);
    localparam N = 16;
    localparam E = 113;               // valid, id 16, rank 32, granted 32, grantable 32
    reg [N*E-1:0] entries;
    reg           on, remove_q;
    reg [15:0]    id_q;
    reg [31:0]    rank_q, granted_q, grantable_q;
    reg [7:0]     levels_q;
    initial begin
        on = 1'b0;
        entries = {N*E{1'b0}};
    end

    // The entry of this message; entries before its new place: a smaller rank, or the same rank and a smaller id.
    wire [N-1:0] same, ahead;
    genvar at;
    generate
        for (at = 0; at < N; at = at + 1) begin : compare
            wire [E-1:0] entry = entries[E*at +: E];
            assign same[at] = entry[112] && entry[111:96] == id_q;
            assign ahead[at] = entry[112] && !same[at] && {entry[95:64], entry[111:96]} < {rank_q, id_q};
        end
    endgenerate
    wire         known = |same;
    wire         inserts = !remove_q && (known || !entries[E*N-1]);

    reg [31:0]   had;
    reg [N-1:0]  behind;              // the old entry is at this index or before it
    reg [N-1:0]  stays;               // without the old entry, this index is before the new place
    integer      index;
    always @* begin
        had = known ? 32'd0 : granted_q;
        for (index = 0; index < N; index = index + 1) begin
            had = had | (same[index] ? entries[E*index+32 +: 32] : 32'd0);
            behind[index] = same[index] || (index > 0 && behind[index > 0 ? index - 1 : 0]);
            stays[index] = behind[index] ? index < N - 1 && ahead[index < N - 1 ? index + 1 : index] : ahead[index];
        end
    end

    wire [N*E-1:0] next;
    wire [N-1:0]   may_grow;          // granted < grantable, among the first levels
    generate
        for (at = 0; at < N; at = at + 1) begin : move
            wire [E-1:0] here = entries[E*at +: E];
            wire [E-1:0] later, earlier;
            wire         first, back;  // the new entry comes here; the one that was before this index
            if (at < N - 1) begin : inner
                assign later = entries[E*(at+1) +: E];
            end else begin : end_of_list
                assign later = {E{1'b0}};
            end
            if (at > 0) begin : follows
                assign earlier = entries[E*(at-1) +: E];
                assign first = inserts && !stays[at] && stays[at-1];
                assign back = inserts && !stays[at] && !behind[at-1];
            end else begin : head_of_list
                assign earlier = {E{1'b0}};
                assign first = inserts && !stays[at];
                assign back = 1'b0;
            end
            wire         after = inserts && !stays[at];
            assign next[E*at +: E] = first ? {1'b1, id_q, rank_q, had, grantable_q} : back ? earlier
                                   : !after && behind[at] ? later : here;
            assign may_grow[at] = next[E*at+112] && next[E*at+32 +: 32] < next[E*at +: 32] && levels_q > at;
        end
    endgenerate
    wire [N-1:0] chosen = may_grow & ~(may_grow - 1'b1);

    integer entry_number;
    always @* begin
        found = |may_grow;
        {found_id, level, credit} = 0;
        for (entry_number = 0; entry_number < N; entry_number = entry_number + 1)
            if (chosen[entry_number]) begin
                found_id = found_id | next[E*entry_number+96 +: 16];
                level = level | entry_number[7:0];
                credit = credit | next[E*entry_number +: 32];
            end
    end

    integer written;
    always @(posedge clk) begin
        on <= !rst && request;
        remove_q <= remove;
        id_q <= id;
        rank_q <= rank;
        granted_q <= granted;
        grantable_q <= grantable;
        levels_q <= levels;
        if (rst)
            entries <= {N*E{1'b0}};
        else if (on)
            for (written = 0; written < N; written = written + 1) begin
                entries[E*written +: E] <= next[E*written +: E];
                if (chosen[written])
                    entries[E*written+32 +: 32] <= next[E*written +: 32];
            end
    end
endmodule
`default_nettype wire
