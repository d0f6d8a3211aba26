// SPDX-License-Identifier: MIT OR Apache-2.0
// One direction of a link of 200 Gbps at 3.2 GHz: a word of 64 bytes takes 8.192 cycles. It may lose frames, or trim
// them to their headers.
`default_nettype none
module nt_link #(
    parameter HEADS = 1,               // words of headers in a frame
    parameter DELAY = 8,               // cycles from the first bit of a word to its arrival
    parameter LOSS = 0,                // of 1024 frames
    parameter TRIM = 0,
    parameter SEED = 1
) (
    input  wire         clk,
    input  wire         rst,
    input  wire         in_valid,
    output wire         in_ready,
    input  wire         in_first,
    input  wire         in_last,
    input  wire [511:0] in_data,
    input  wire [15:0]  in_bytes,      // of the frame
    output wire         out_valid,
    input  wire         out_ready,
    output wire         out_first,
    output wire         out_last,
    output wire [511:0] out_data,
    output wire [15:0]  out_bytes,
    output wire         out_trimmed
);
    // Bits of time that the words before this one still need, in sixteenths of a byte; a cycle has 125.
    localparam [15:0] HEADER_BYTES = 64 * HEADS;
    reg [15:0] debt, left;
    reg [7:0]  place;                  // words of the frame that have passed, at most HEADS
    reg [31:0] now, random;
    reg        losing, trimming;
    initial begin
        {debt, left, place, now, losing, trimming} = 0;
        random = SEED;
    end
    wire [12:0] waiting;
    assign in_ready = debt < 16'd125 && waiting < 13'd4000;
    wire        accept = in_valid && in_ready;
    wire [15:0] rest = in_first ? in_bytes : left;
    wire [15:0] word = rest < 16'd64 ? rest : 16'd64;
    wire        loses = in_first ? random[9:0] < LOSS : losing;
    wire        trims = in_first ? random[25:16] < TRIM && in_bytes > HEADER_BYTES : trimming;
    wire [7:0]  index = in_first ? 8'd0 : place;
    wire        passes = accept && !loses && (index < HEADS || !trims);
    wire        ends = in_last || (trims && index == HEADS - 1);
    always @(posedge clk) begin
        now <= now + 32'd1;
        random <= {random[30:0], random[31] ^ random[21] ^ random[1] ^ random[0]};
        if (accept) begin
            debt <= debt + (word << 4) - 16'd125;
            left <= rest - word;
            place <= index < HEADS ? index + 8'd1 : index;
            losing <= loses;
            trimming <= trims;
        end else
            debt <= debt < 16'd125 ? 16'd0 : debt - 16'd125;
        if (rst) begin
            {debt, left, place, now, losing, trimming} <= 0;
            random <= SEED;
        end
    end
    wire        queued;
    wire [31:0] arrival;
    nt_fifo #(.WIDTH(563), .LOG_DEPTH(12)) words (
        .clk(clk), .rst(rst), .push(passes), .in({now + DELAY, trims, trims ? HEADER_BYTES : in_bytes, in_first, ends, in_data}),
        .pop(out_valid && out_ready), .valid(queued), .out({arrival, out_trimmed, out_bytes, out_first, out_last, out_data}),
        .count(waiting)
    );
    wire [31:0] since = now - arrival;
    assign out_valid = queued && !since[31];
endmodule
`default_nettype wire
