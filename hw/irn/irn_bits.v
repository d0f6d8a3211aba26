// SPDX-License-Identifier: MIT OR Apache-2.0
// Arithmetic on bitmaps that the blocks share.
`default_nettype none

// Index of the only bit that is set in `one_hot`; 0 if none is.
module irn_encode #(
    parameter LOG_W = 7
) (
    input  wire [(1<<LOG_W)-1:0] one_hot,
    output wire [LOG_W-1:0]      index
);
    localparam W = 1 << LOG_W;
    genvar digit, bit_at;
    generate
        for (digit = 0; digit < LOG_W; digit = digit + 1) begin : digits
            wire [W-1:0] with_digit;
            for (bit_at = 0; bit_at < W; bit_at = bit_at + 1) begin : bits
                assign with_digit[bit_at] = (((bit_at >> digit) & 1) != 0) ? one_hot[bit_at] : 1'b0;
            end
            assign index[digit] = |with_digit;
        end
    endgenerate
endmodule

// Sum of 2^LOG_N counts of 0 to 8, in a tree of adders.
module irn_sum #(
    parameter LOG_N = 4
) (
    input  wire [(4<<LOG_N)-1:0] counts,
    output wire [LOG_N+3:0]      sum
);
    generate
        if (LOG_N == 0) begin : leaf
            assign sum = counts;
        end else begin : node
            wire [LOG_N+2:0] low, high;
            irn_sum #(.LOG_N(LOG_N - 1)) of_low (.counts(counts[(2<<LOG_N)-1:0]), .sum(low));
            irn_sum #(.LOG_N(LOG_N - 1)) of_high (.counts(counts[(4<<LOG_N)-1:(2<<LOG_N)]), .sum(high));
            assign sum = {1'b0, low} + {1'b0, high};
        end
    endgenerate
endmodule
`default_nettype wire
