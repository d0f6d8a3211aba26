// SPDX-License-Identifier: MIT OR Apache-2.0
// The timers of messages, one per slot: a table of expiry times, which a scan looks at one after the other.
//
// A timer expires when the scan looks at it, up to one round of the scan after its time. Times are 32-bit numbers that
// wrap around; a timer must be looked at once in half of their range.
`default_nettype none
module nt_timers #(
    parameter LOG_SLOTS = 4
) (
    input  wire                 clk,
    input  wire                 rst,
    input  wire                 set,          // sets the timer of `slot` to `at`
    input  wire                 cancel,       // turns the timer of `slot` off
    input  wire [LOG_SLOTS-1:0] slot,
    input  wire [31:0]          at,
    input  wire [LOG_SLOTS-1:0] look,
    input  wire [31:0]          now,
    output reg                  expired       // two cycles after the look: the timer was on, and its time had come
);
    reg [(1<<LOG_SLOTS)-1:0] running;
    reg [31:0]               times [0:(1<<LOG_SLOTS)-1];
    reg                      on;
    integer                  number;
    reg [31:0]               looked, at_look;
    initial running = 0;
    wire [31:0] since = at_look - looked;
    always @(posedge clk) begin
        {on, looked, at_look} <= {running[look], times[look], now};
        expired <= on && !since[31];
        if (set)
            times[slot] <= at;
        for (number = 0; number < (1 << LOG_SLOTS); number = number + 1)
            if ((set || cancel) && slot == number[LOG_SLOTS-1:0])
                running[number] <= set;
        if (rst)
            running <= 0;
    end
endmodule
`default_nettype wire
