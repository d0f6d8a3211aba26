// SPDX-License-Identifier: MIT OR Apache-2.0
// Two NICs at the ends of a link, with a host at each that writes the payload of messages and checks it on arrival.
//
// A step is a message: words {sender, dst_context}, bytes, tag. Its result, when the message has arrived: tag;
// {payload is right}; bytes; then cycle numbers: message accepted, its first header left the sender, latest frame was
// complete at the receiver, last word delivered; then cycles from the latest arrival of a frame to the next departure
// of one at the receiver; frames lost in full queues; timeouts; bytes in 64 that passed in both directions.
`default_nettype none
module nt_pair #(
    parameter LOG_SLOTS = 4,
    parameter HEADS = 1,               // words of headers in a frame
    parameter DELAY = 8,
    parameter LOSS = 0,
    parameter TRIM = 0,
    parameter RTX_NEEDS_CREDIT = 0,
    parameter TIMEOUT = 7000
) (
    input  wire         clk,
    input  wire         in_valid,
    output wire         in_ready,
    input  wire [95:0]  in,
    output wire         out_valid,
    output wire [511:0] out
);
    localparam LOG_WORDS = LOG_SLOTS + 10;
    localparam LOG_TABLE = LOG_SLOTS + 3;
    reg [31:0] now;
    reg        rst;                    // in the first cycle
    initial {now, rst} = 1;
    always @(posedge clk) {now, rst} <= {now + 32'd1, 1'b0};

    wire [1:0]   msg_ready, msg_done, msg_ok, tx_valid, tx_ready, tx_first, tx_last, rx_valid, rx_ready, rx_first, rx_last, rx_trimmed;
    wire [1:0]   got_valid, got_first, got_last, timeout, result_valid, busy;
    wire [511:0] tx_data [0:1], rx_data [0:1], got_data [0:1];
    wire [15:0]  tx_bytes [0:1], rx_bytes [0:1];
    wire [31:0]  msg_id [0:1], tx_id [0:1], got_id [0:1], got_bytes [0:1], dropped [0:1];
    wire [LOG_WORDS-1:0] msg_address [0:1];
    wire [415:0] result [0:1];
    reg [31:0]   timeouts, passed;
    initial {timeouts, passed} = 0;
    always @(posedge clk) begin
        timeouts <= timeouts + timeout[0] + timeout[1];
        passed <= passed + (tx_valid[0] && tx_ready[0]) + (tx_valid[1] && tx_ready[1]);
    end

    // Word `k` of the message with tag `tag`.
    function [511:0] word_of(input [31:0] tag, input [31:0] k);
        word_of = {8{tag ^ 32'h5bd1e995, (k + 32'd1) * 32'h9e3779b1 ^ tag}} ^ {16{k[7:0], 24'h00a5c3}};
    endfunction

    wire [1:0] taken = {in_valid && in[0] && !busy[1], in_valid && !in[0] && !busy[0]};
    assign in_ready = |taken && !rst;
    genvar n;
    generate
        for (n = 0; n < 2; n = n + 1) begin : side
            // The host offers a message until the NIC has a buffer for it; then it writes a word of payload in each
            // cycle.
            reg         pending, asking, writing;
            reg [15:0]  port_of;
            reg [31:0]  tag, bytes, began, word;
            reg [LOG_WORDS-1:0] address;
            wire        offered = pending && !asking;
            wire        begins = msg_done[n] && msg_ok[n] && asking;
            wire        puts = begins ? bytes != 0 : writing;
            wire [31:0] put_word = begins ? 32'd0 : word;
            wire [LOG_WORDS-1:0] put_address = (begins ? msg_address[n] : address) + put_word[LOG_WORDS-1:0];
            assign busy[n] = pending || writing;
            initial {pending, asking, writing} = 0;
            // Of each message, by slot and low bits of the generation: tag, bytes, cycle.
            reg [95:0]  sent [0:(1<<LOG_TABLE)-1];
            reg [31:0]  departed [0:(1<<LOG_TABLE)-1];
            wire [LOG_TABLE-1:0] row = {msg_id[n][18:16], msg_id[n][LOG_SLOTS-1:0]};
            wire [LOG_TABLE-1:0] left = {tx_id[n][18:16], tx_id[n][LOG_SLOTS-1:0]};
            always @(posedge clk) begin
                if (taken[n]) begin
                    {tag, bytes, port_of} <= {in[95:64], in[63:32], in[31:16]};
                    pending <= 1'b1;
                end
                if (offered && msg_ready[n]) begin
                    began <= now;
                    asking <= 1'b1;
                end else if (msg_done[n])
                    asking <= 1'b0;
                if (begins) begin
                    pending <= 1'b0;
                    sent[row] <= {tag, bytes, began};
                    departed[row] <= 32'd0;
                    address <= msg_address[n];
                end else if (tx_valid[n] && tx_ready[n] && tx_first[n] && tx_id[n] != 32'hffffffff && departed[left] == 32'd0)
                    departed[left] <= now;
                if (puts) begin
                    writing <= put_word * 64 + 64 < bytes;
                    word <= put_word + 32'd1;
                end
            end
            nt_nic #(.LOG_SLOTS(LOG_SLOTS), .HEADS(HEADS), .RTX_NEEDS_CREDIT(RTX_NEEDS_CREDIT), .TIMEOUT(TIMEOUT)) nic (
                .clk(clk), .rst(rst), .nic_ip(32'h0a000000 + n[31:0]), .msg_valid(offered), .msg_ready(msg_ready[n]),
                .msg_dst_ip(32'h0a000001 - n[31:0]), .msg_dst_context(port_of), .msg_src_context(16'd7), .msg_bytes(bytes),
                .msg_done(msg_done[n]), .msg_ok(msg_ok[n]), .msg_id(msg_id[n]), .msg_address(msg_address[n]), .put_valid(puts),
                .put_address(put_address), .put_data(word_of(tag, put_word)), .tx_valid(tx_valid[n]), .tx_ready(tx_ready[n]),
                .tx_first(tx_first[n]), .tx_last(tx_last[n]), .tx_data(tx_data[n]), .tx_bytes(tx_bytes[n]), .tx_priority(),
                .tx_id(tx_id[n]), .rx_valid(rx_valid[n]), .rx_ready(rx_ready[n]), .rx_first(rx_first[n]), .rx_last(rx_last[n]),
                .rx_data(rx_data[n]), .rx_bytes(rx_bytes[n]), .rx_trimmed(rx_trimmed[n]), .got_valid(got_valid[n]), .got_ready(1'b1),
                .got_first(got_first[n]), .got_last(got_last[n]), .got_data(got_data[n]), .got_src_ip(), .got_id(got_id[n]),
                .got_bytes(got_bytes[n]), .sent_valid(), .timeout_valid(timeout[n]), .aborted_valid(), .event_id(),
                .dropped(dropped[n])
            );
            nt_link #(.HEADS(HEADS), .DELAY(DELAY), .LOSS(LOSS), .TRIM(TRIM), .SEED(1 + n)) link (
                .clk(clk), .rst(rst), .in_valid(tx_valid[n]), .in_ready(tx_ready[n]), .in_first(tx_first[n]), .in_last(tx_last[n]),
                .in_data(tx_data[n]), .in_bytes(tx_bytes[n]), .out_valid(rx_valid[1-n]), .out_ready(rx_ready[1-n]),
                .out_first(rx_first[1-n]), .out_last(rx_last[1-n]), .out_data(rx_data[1-n]), .out_bytes(rx_bytes[1-n]),
                .out_trimmed(rx_trimmed[1-n])
            );
        end
        for (n = 0; n < 2; n = n + 1) begin : receiver
            // Messages to this NIC, from the other one.
            wire [LOG_TABLE-1:0] row = {got_id[n][18:16], got_id[n][LOG_SLOTS-1:0]};
            wire [31:0] tag, bytes, began;
            assign {tag, bytes, began} = side[1-n].sent[row];
            reg [31:0]  k, arrived, turned;
            reg         right;
            wire        this_right = (got_first[n] || right) && got_bytes[n] == bytes
                                  && (bytes == 0 || got_data[n] == word_of(tag, got_first[n] ? 32'd0 : k));
            initial {k, arrived, turned} = 0;
            always @(posedge clk) begin
                if (got_valid[n]) begin
                    k <= got_first[n] ? 32'd1 : k + 32'd1;
                    right <= this_right;
                end
                if (rx_valid[n] && rx_ready[n] && rx_last[n])
                    arrived <= now;
                if (tx_valid[n] && tx_ready[n] && tx_first[n])
                    turned <= now - arrived;
            end
            nt_fifo #(.WIDTH(416), .LOG_DEPTH(6)) results (
                .clk(clk), .rst(rst), .push(got_valid[n] && got_last[n]),
                .in({passed, timeouts, dropped[0] + dropped[1], turned, now, arrived, side[1-n].departed[row], began, 32'd0, bytes,
                     31'd0, this_right, tag, 32'd0}),
                .pop(result_valid[n] && (n == 0 || !result_valid[0])), .valid(result_valid[n]), .out(result[n]), .count()
            );
        end
    endgenerate
    assign out_valid = |result_valid;
    assign out = {96'd0, result_valid[0] ? result[0] : result[1]};
endmodule
`default_nettype wire
