// NanoTransport's priority scheduler: up to 16 messages in the order of their ranks, all compared at once.
//
// A request in a cycle has its result in the next one. It inserts, updates or removes a message; then it selects the
// first message with granted < grantable, if it is among the first `levels`, and sets its granted to its grantable.
// A message beyond the 16th is not inserted.
module nt_scheduler (
    input  wire        clk,
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
    reg         valid [0:N-1];
    reg [15:0]  ids [0:N-1];
    reg [31:0]  ranks [0:N-1], granteds [0:N-1], grantables [0:N-1];
    reg         on, remove_q;
    reg [15:0]  id_q;
    reg [31:0]  rank_q, granted_q, grantable_q;
    reg [7:0]   levels_q;

    reg         next_valid [0:N-1];
    reg [15:0]  next_ids [0:N-1];
    reg [31:0]  next_ranks [0:N-1], next_granteds [0:N-1], next_grantables [0:N-1];
    reg [N-1:0] same, ahead;          // entry of this message; entries before its new place
    reg         known, inserts;
    reg [31:0]  had;
    integer     at, from, place, position;

    initial begin
        on = 1'b0;
        for (at = 0; at < N; at = at + 1) begin
            valid[at] = 1'b0;
            ids[at] = 16'd0;
            ranks[at] = 32'd0;
            granteds[at] = 32'd0;
            grantables[at] = 32'd0;
        end
    end

    always @* begin
        known = 1'b0;
        had = granted_q;
        from = 0;
        place = N;
        position = 0;
        for (at = 0; at < N; at = at + 1) begin
            same[at] = valid[at] && ids[at] == id_q;
            if (same[at]) begin
                known = 1'b1;
                had = granteds[at];
                place = at;
            end
            // Entries that stay before the new place: smaller rank, or the same rank and a smaller id.
            ahead[at] = valid[at] && !same[at] && {ranks[at], ids[at]} < {rank_q, id_q};
            if (ahead[at])
                position = position + 1;
        end
        inserts = !remove_q && (known || !valid[N-1]);
        // Without its old entry, the list moves up; the new entry moves what follows it down.
        for (at = 0; at < N; at = at + 1) begin
            if (inserts && at == position) begin
                next_valid[at] = 1'b1;
                next_ids[at] = id_q;
                next_ranks[at] = rank_q;
                next_granteds[at] = had;
                next_grantables[at] = grantable_q;
            end else begin
                from = inserts && at > position ? at - 1 : at;
                if (from >= place)
                    from = from + 1;
                next_valid[at] = from < N && valid[from & (N-1)];
                next_ids[at] = ids[from & (N-1)];
                next_ranks[at] = ranks[from & (N-1)];
                next_granteds[at] = granteds[from & (N-1)];
                next_grantables[at] = grantables[from & (N-1)];
            end
        end
        found = 1'b0;
        found_id = 16'd0;
        level = 8'd0;
        credit = 32'd0;
        for (at = 0; at < N; at = at + 1) begin
            if (!found && at < {24'd0, levels_q} && next_valid[at] && next_granteds[at] < next_grantables[at]) begin
                found = 1'b1;
                found_id = next_ids[at];
                level = at[7:0];
                credit = next_grantables[at];
                next_granteds[at] = next_grantables[at];
            end
        end
    end

    integer entry;
    always @(posedge clk) begin
        on <= request;
        remove_q <= remove;
        id_q <= id;
        rank_q <= rank;
        granted_q <= granted;
        grantable_q <= grantable;
        levels_q <= levels;
        if (on)
            for (entry = 0; entry < N; entry = entry + 1) begin
                valid[entry] <= next_valid[entry];
                ids[entry] <= next_ids[entry];
                ranks[entry] <= next_ranks[entry];
                granteds[entry] <= next_granteds[entry];
                grantables[entry] <= next_grantables[entry];
            end
    end
endmodule
