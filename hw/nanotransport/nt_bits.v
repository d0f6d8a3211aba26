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
// buffer that fits, and the free one with the lowest number.
module nt_buffers #(
    parameter LOG_SMALL = 3,          // log2 of the number of small buffers, one of which is left out
    parameter LOG_LARGE = 3,          // log2 of the number of large buffers
    parameter SMALL_BYTES = 4096,
    parameter LARGE_BYTES = 38912
) (
    input  wire        clk,
    input  wire        rst,
    input  wire [31:0] bytes,
    input  wire        take,          // takes the buffer that is offered
    // A buffer that becomes free; a request of the same cycle may have it.
    input  wire        free,
    input  wire        free_large,
    input  wire [LOG_LARGE-1:0] free_number,
    output wire        offered,       // a buffer is free
    output wire        big,
    output wire [LOG_LARGE-1:0] number
);
    localparam SMALL = (1 << ((1 << LOG_SMALL) - 1)) - 1;   // a bit for each
    reg [(1<<LOG_SMALL)-1:0] small_free;
    reg [(1<<LOG_LARGE)-1:0] large_free;
    initial begin
        small_free = SMALL;
        large_free = {(1<<LOG_LARGE){1'b1}};
    end
    wire [(1<<LOG_SMALL)-1:0] small_now = small_free | ((free && !free_large) ? {{((1<<LOG_SMALL)-1){1'b0}}, 1'b1} << free_number : {(1<<LOG_SMALL){1'b0}});
    wire [(1<<LOG_LARGE)-1:0] large_now = large_free | ((free && free_large) ? {{((1<<LOG_LARGE)-1){1'b0}}, 1'b1} << free_number : {(1<<LOG_LARGE){1'b0}});
    wire                 no_small, no_large;
    wire [LOG_SMALL-1:0] small_number;
    wire [LOG_LARGE-1:0] large_number;
    nt_lowest #(.LOG_W(LOG_SMALL)) first_small (.bits(small_now), .none(no_small), .index(small_number));
    nt_lowest #(.LOG_W(LOG_LARGE)) first_large (.bits(large_now), .none(no_large), .index(large_number));
    assign big = no_small || bytes > SMALL_BYTES;
    assign offered = big ? !no_large && bytes <= LARGE_BYTES : 1'b1;
    assign number = big ? large_number : small_number;
    always @(posedge clk) begin
        small_free <= small_now & ~((take && !big) ? {{((1<<LOG_SMALL)-1){1'b0}}, 1'b1} << small_number : {(1<<LOG_SMALL){1'b0}});
        large_free <= large_now & ~((take && big) ? {{((1<<LOG_LARGE)-1){1'b0}}, 1'b1} << large_number : {(1<<LOG_LARGE){1'b0}});
        if (rst) begin
            small_free <= SMALL;
            large_free <= {(1<<LOG_LARGE){1'b1}};
        end
    end
endmodule
`default_nettype wire
