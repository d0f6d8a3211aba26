// SPDX-License-Identifier: MIT OR Apache-2.0
// Strict priorities: the request with the lowest number is granted.
`default_nettype none
module nt_arbiter #(
    parameter N = 4
) (
    input  wire [N-1:0] requests,
    output wire [N-1:0] grants     // one bit at most
);
    // Subtracting one turns the zeros below the lowest set bit into ones.
    assign grants = requests & ~(requests - 1'b1);
endmodule
`default_nettype wire
