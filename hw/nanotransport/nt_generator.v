// SPDX-License-Identifier: MIT OR Apache-2.0
// The packet generator: a queue of control packets for the link, and one for the pacer.
//
// The pacer releases one packet per `pace`. It does so in cycles without an event, so a release waits for at most the
// events of consecutive cycles. Times are 32-bit numbers that wrap around.
`default_nettype none
module nt_generator #(
    parameter LOG_DEPTH = 6
) (
    input  wire         clk,
    input  wire         rst,
    input  wire [31:0]  now,
    input  wire [31:0]  pace,
    input  wire         event_valid,
    // dst_ip 32, dst_context 16, src_context 16, tx_msg_id 32, msg_len 32, pkt_offset 32, credit 32, rank 8; the first
    // one is in the lowest bits.
    input  wire [199:0] event_fields,
    input  wire [7:0]   event_immediate,
    input  wire [7:0]   event_paced,
    input  wire         pop,            // takes the packet at the head
    output wire         head_valid,
    output wire [199:0] head_fields,
    output wire [7:0]   head_flags,
    output wire         full            // no room for two further events
);
    reg         pacer_free;             // the pacer's time has come
    reg [31:0]  pacer_at;
    initial begin
        pacer_free = 1'b1;
        pacer_at = 32'd0;
    end
    wire [31:0] since = now - pacer_at;
    wire        free = pacer_free || !since[31];
    wire        paced_valid;
    wire [207:0] paced_head;
    wire        joins = event_valid && event_paced != 8'd0 && free;     // one packet carries both flags
    wire        alone = event_valid && !joins && event_immediate != 8'd0;
    wire        waits = event_valid && !joins && event_paced != 8'd0;
    wire        releases = !event_valid && paced_valid && free;
    wire [7:0]  flags = releases ? paced_head[207:200] : joins ? event_immediate | event_paced : event_immediate;
    wire [LOG_DEPTH:0] ready_count, paced_count;
    nt_fifo #(.WIDTH(208), .LOG_DEPTH(LOG_DEPTH)) ready (
        .clk(clk), .rst(rst), .push(joins || alone || releases), .in({flags, releases ? paced_head[199:0] : event_fields}), .pop(pop),
        .valid(head_valid), .out({head_flags, head_fields}), .count(ready_count)
    );
    nt_fifo #(.WIDTH(208), .LOG_DEPTH(LOG_DEPTH)) paced (
        .clk(clk), .rst(rst), .push(waits), .in({event_paced, event_fields}), .pop(releases), .valid(paced_valid), .out(paced_head),
        .count(paced_count)
    );
    assign full = ready_count >= (1 << LOG_DEPTH) - 4 || paced_count >= (1 << LOG_DEPTH) - 4;
    always @(posedge clk) begin
        if (rst)
            pacer_free <= 1'b1;
        else if (joins) begin
            pacer_at <= now + pace;
            pacer_free <= 1'b0;
        end else if (releases) begin
            // Without idle time the next release is one `pace` after this one was due.
            pacer_at <= pacer_at + pace;
            pacer_free <= 1'b0;
        end else
            pacer_free <= free;
    end
endmodule
`default_nettype wire
