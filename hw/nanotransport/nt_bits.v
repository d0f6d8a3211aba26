// SPDX-License-Identifier: MIT OR Apache-2.0
// Index of the lowest bit that is set, as a binary tree; `none` if no bit is set.
`default_nettype none
module nt_lowest #(
    parameter LOG_W = 6
) (
    input  wire [(1<<LOG_W)-1:0] bits,
    output wire                  none,
    output wire [LOG_W-1:0]      index
);
    generate
        if (LOG_W == 1) begin : leaf
            assign none = ~|bits;
            assign index = ~bits[0];
        end else begin : node
            wire                 low_none, high_none;
            wire [LOG_W-2:0]     low, high;
            nt_lowest #(.LOG_W(LOG_W - 1)) of_low (.bits(bits[(1<<(LOG_W-1))-1:0]), .none(low_none), .index(low));
            nt_lowest #(.LOG_W(LOG_W - 1)) of_high (
                .bits(bits[(1<<LOG_W)-1:1<<(LOG_W-1)]), .none(high_none), .index(high)
            );
            assign none = low_none && high_none;
            assign index = {low_none, low_none ? high : low};
        end
    endgenerate
endmodule

// Index of the lowest of 64 bits that is set, one cycle later; `none` if no bit is set.
module nt_lowest_next (
    input  wire        clk,
    input  wire [63:0] bits,
    output wire        none,
    output wire [5:0]  index
);
    // The lowest bit in each group of eight, then the lowest group.
    reg  [7:0]  empty;
    reg  [23:0] indices;
    wire [7:0]  none_of;
    wire [23:0] index_of;
    wire [2:0]  group;
    genvar n;
    generate
        for (n = 0; n < 8; n = n + 1) begin : octet
            nt_lowest #(.LOG_W(3)) lowest (.bits(bits[8*n +: 8]), .none(none_of[n]), .index(index_of[3*n +: 3]));
        end
    endgenerate
    always @(posedge clk) {empty, indices} <= {none_of, index_of};
    nt_lowest #(.LOG_W(3)) first (.bits(~empty), .none(none), .index(group));
    assign index = {group, indices[3*group +: 3]};
endmodule

// A queue in registers or memory of LUTs: its first entry is visible. The user keeps it from overflowing.
module nt_fifo #(
    parameter WIDTH = 8,
    parameter LOG_DEPTH = 4
) (
    input  wire             clk,
    input  wire             rst,
    input  wire             push,
    input  wire [WIDTH-1:0] in,
    input  wire             pop,
    output wire             valid,
    output wire [WIDTH-1:0] out,
    output reg  [LOG_DEPTH:0] count
);
    reg [WIDTH-1:0]     entries [0:(1<<LOG_DEPTH)-1];
    reg [LOG_DEPTH-1:0] first, last;
    initial {count, first, last} = 0;
    assign valid = count != 0;
    assign out = entries[first];
    always @(posedge clk) begin
        if (push)
            entries[last] <= in;
        first <= rst ? {LOG_DEPTH{1'b0}} : first + {{(LOG_DEPTH-1){1'b0}}, pop};
        last <= rst ? {LOG_DEPTH{1'b0}} : last + {{(LOG_DEPTH-1){1'b0}}, push};
        count <= rst ? {(LOG_DEPTH+1){1'b0}} : count + {{LOG_DEPTH{1'b0}}, push} - {{LOG_DEPTH{1'b0}}, pop};
    end
endmodule

// Message buffers of two sizes, each with a free list (a bitmap of its free buffers). A request gets the smallest free
// buffer that fits, and the free one with the lowest number. A buffer is offered in the cycle after the request, and may
// be taken in this cycle.
module nt_buffers #(
    parameter LOG_SMALL = 3,          // log2 of the number of small buffers, one of which is left out
    parameter LOG_LARGE = 3,          // log2 of the number of large buffers
    parameter SMALL_BYTES = 4096,
    parameter LARGE_BYTES = 38912
) (
    input  wire        clk,
    input  wire        rst,
    input  wire [31:0] bytes,
    input  wire        take,          // takes the buffer that is offered; the request of this cycle is not to be taken
    input  wire        free,          // a buffer becomes free
    input  wire        free_large,
    input  wire [LOG_LARGE-1:0] free_number,
    output reg         offered,       // a buffer is free
    output reg         big,
    output reg  [LOG_LARGE-1:0] number
);
    localparam SMALL = (1 << ((1 << LOG_SMALL) - 1)) - 1;   // a bit for each
    reg [(1<<LOG_SMALL)-1:0] small_free;
    reg [(1<<LOG_LARGE)-1:0] large_free;
    initial begin
        small_free = SMALL;
        large_free = {(1<<LOG_LARGE){1'b1}};
    end
    wire                 no_small, no_large;
    wire [LOG_SMALL-1:0] small_number;
    wire [LOG_LARGE-1:0] large_number;
    nt_lowest #(.LOG_W(LOG_SMALL)) first_small (.bits(small_free), .none(no_small), .index(small_number));
    nt_lowest #(.LOG_W(LOG_LARGE)) first_large (.bits(large_free), .none(no_large), .index(large_number));
    wire                 is_big = no_small || bytes > SMALL_BYTES;
    integer              n;
    always @(posedge clk) begin
        big <= is_big;
        offered <= is_big ? !no_large && bytes <= LARGE_BYTES : 1'b1;
        number <= is_big ? large_number : small_number;
        for (n = 0; n < (1 << LOG_SMALL); n = n + 1)
            small_free[n] <= (small_free[n] || (free && !free_large && {{(32-LOG_LARGE){1'b0}}, free_number} == n)) && !(take && !big && {{(32-LOG_LARGE){1'b0}}, number} == n);
        for (n = 0; n < (1 << LOG_LARGE); n = n + 1)
            large_free[n] <= (large_free[n] || (free && free_large && {{(32-LOG_LARGE){1'b0}}, free_number} == n)) && !(take && big && {{(32-LOG_LARGE){1'b0}}, number} == n);
        if (rst) begin
            small_free <= SMALL;
            large_free <= {(1<<LOG_LARGE){1'b1}};
        end
    end
endmodule
`default_nettype wire
