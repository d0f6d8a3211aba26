// SPDX-License-Identifier: MIT OR Apache-2.0
// A bench between shift registers, with six pins: for place and route, where all paths are from register to register.
`default_nettype none
module irn_place #(
    parameter CAP = 111,
    parameter PUBLISHED = 0,
    parameter BLOCK = 0,
    parameter LOG_QPS = 6,
    // Not to be set.
    parameter LOG_W = CAP <= 128 ? 7 : $clog2(CAP),
    parameter WORDS = 16 + (2 << LOG_W) / 32
) (
    input  wire clk,
    input  wire in_valid,
    input  wire shift_in,
    input  wire capture,
    output wire shift_out,
    output reg  out_valid
);
    reg  [32*WORDS-1:0] in, captured;
    reg                 valid;
    wire [32*WORDS-1:0] out;
    wire                ready, result;
    irn_bench #(.CAP(CAP), .PUBLISHED(PUBLISHED), .BLOCK(BLOCK), .LOG_QPS(LOG_QPS)) bench (
        .clk(clk), .in_valid(valid), .in_ready(ready), .in(in), .out_valid(result), .out(out)
    );
    always @(posedge clk) begin
        if (ready) begin
            valid <= in_valid;
            in <= {in[32*WORDS-2:0], shift_in};
        end
        captured <= capture ? out : {captured[32*WORDS-2:0], 1'b0};
        out_valid <= result;
    end
    assign shift_out = captured[32*WORDS-1];
endmodule
`default_nettype wire
