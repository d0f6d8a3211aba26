// SPDX-License-Identifier: MIT OR Apache-2.0
// The bench of a block between shift registers, with seven pins: for place and route, where all paths are from register
// to register.
`default_nettype none
module nt_place #(
    parameter BLOCK = 0,
    parameter RTX_NEEDS_CREDIT = 0
) (
    input  wire clk,
    input  wire in_valid,
    input  wire shift_in,
    input  wire capture,
    output wire shift_out,
    output reg  out_valid,
    output reg  in_ready
);
    reg  [319:0] in, captured;
    reg          valid;
    wire [319:0] out;
    wire         ready, result;
    nt_block_bench #(.BLOCK(BLOCK), .RTX_NEEDS_CREDIT(RTX_NEEDS_CREDIT)) bench (
        .clk(clk), .in_valid(valid), .in_ready(ready), .in(in), .out_valid(result), .out(out)
    );
    always @(posedge clk) begin
        valid <= in_valid;
        in <= {in[318:0], shift_in};
        in_ready <= ready;
        captured <= capture ? out : {captured[318:0], 1'b0};
        out_valid <= result;
    end
    assign shift_out = captured[319];
endmodule
`default_nettype wire
