// Strict priorities: the request with the lowest number is granted.
module nt_arbiter #(
    parameter N = 4
) (
    input  wire [N-1:0] requests,
    output wire [N-1:0] grants     // one bit at most
);
    // Subtracting one turns the zeros below the lowest set bit into ones.
    assign grants = requests & ~(requests - 1'b1);
endmodule
