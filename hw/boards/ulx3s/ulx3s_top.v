// SPDX-License-Identifier: MIT OR Apache-2.0
// A self-test on the board ULX3S: a small NIC whose link leads back to itself sends messages to itself and compares
// what arrives. It needs no other hardware. led[0] blinks with arriving messages, led[1] is on after a message that
// differs, led[2] after an abort, led[3] after a dropped frame; led[7] blinks with the clock. Button 1 is the reset.
`default_nettype none
module ulx3s_top #(
    parameter LOG_RATE = 16            // log2 of the cycles between two messages
) (
    input  wire       clk_25mhz,
    input  wire [6:0] btn,
    output wire [7:0] led
);
    localparam [31:0] IP = 32'h0a000001;
    localparam WORDS = 20;             // of a message: two packets
    // The reset lasts for 512 cycles: longer than the table of senders has rows.
    reg [9:0] held;
    initial held = 10'd0;
    always @(posedge clk_25mhz) held <= btn[1] ? 10'd0 : held[9] ? held : held + 10'd1;
    wire aresetn = held[9];

    reg [25:0] clock;
    initial clock = 26'd0;
    always @(posedge clk_25mhz) clock <= clock + 26'd1;

    // Messages: each word repeats a number that depends on the message and the word.
    function [511:0] word_of(input [15:0] message, input [4:0] k);
        word_of = {16{{message, 11'd0, k} ^ 32'h9e3779b1}};
    endfunction
    reg [15:0] sending, receiving;
    reg [4:0]  sent, received;
    reg        offering;
    wire       send_ready, recv_valid, recv_last, tx_valid, tx_ready, tx_last, aborted;
    wire [511:0] recv_data, tx_data;
    wire [31:0] dropped;
    wire       send_last = sent == WORDS - 1;
    reg        wrong, given_up;
    always @(posedge clk_25mhz) begin
        if (&clock[LOG_RATE-1:0])
            offering <= 1'b1;
        if (offering && send_ready) begin
            sent <= send_last ? 5'd0 : sent + 5'd1;
            if (send_last) begin
                offering <= 1'b0;
                sending <= sending + 16'd1;
            end
        end
        if (recv_valid) begin
            received <= recv_last ? 5'd0 : received + 5'd1;
            receiving <= receiving + {15'd0, recv_last};
            wrong <= wrong || recv_data != word_of(receiving, received) || recv_last != (received == WORDS - 1);
        end
        given_up <= given_up || aborted;
        if (!aresetn) begin
            {sending, receiving, sent, received} <= 0;
            {offering, wrong, given_up} <= 3'd0;
        end
    end

    // The length of a frame is known from its first word on only to the sender, so a frame waits in a queue until it is
    // complete.
    wire [63:0] tx_keep;
    reg  [15:0] bytes;
    function [6:0] ones_of(input [63:0] keep);
        integer at;
        begin
            ones_of = 7'd0;
            for (at = 0; at < 64; at = at + 1)
                ones_of = ones_of + {6'd0, keep[at]};
        end
    endfunction
    wire [15:0] bytes_now = bytes + {9'd0, ones_of(tx_keep)};
    wire [6:0]  words_count;
    wire [4:0]  frames_count;
    wire        word_valid, word_last, frame_valid;
    wire [511:0] word;
    wire [15:0] frame_bytes;
    assign tx_ready = words_count < 7'd60 && frames_count < 5'd15;
    wire        takes = tx_valid && tx_ready;
    always @(posedge clk_25mhz) bytes <= !aresetn || (takes && tx_last) ? 16'd0 : takes ? bytes_now : bytes;
    nt_fifo #(.WIDTH(513), .LOG_DEPTH(6)) words (
        .clk(clk_25mhz), .rst(!aresetn), .push(takes), .in({tx_last, tx_data}), .pop(frame_valid), .valid(word_valid),
        .out({word_last, word}), .count(words_count)
    );
    nt_fifo #(.WIDTH(16), .LOG_DEPTH(4)) frames (
        .clk(clk_25mhz), .rst(!aresetn), .push(takes && tx_last), .in(bytes_now), .pop(frame_valid && word_last),
        .valid(frame_valid), .out(frame_bytes), .count(frames_count)
    );
    nt_nic_axis #(.LOG_SLOTS(4), .SEGMENTS(2), .LOG_STORE(6), .LOG_WORDS(10)) nic (
        .aclk(clk_25mhz), .aresetn(aresetn), .nic_ip(IP), .s_axis_send_tdata(word_of(sending, sent)),
        .s_axis_send_tkeep({64{1'b1}}), .s_axis_send_tvalid(offering), .s_axis_send_tready(send_ready),
        .s_axis_send_tlast(send_last), .s_axis_send_tuser({16'd7, 16'd5, IP}), .m_axis_recv_tdata(recv_data),
        .m_axis_recv_tkeep(), .m_axis_recv_tvalid(recv_valid), .m_axis_recv_tready(1'b1), .m_axis_recv_tlast(recv_last),
        .m_axis_recv_tuser(), .m_axis_tx_tdata(tx_data), .m_axis_tx_tkeep(tx_keep), .m_axis_tx_tvalid(tx_valid),
        .m_axis_tx_tready(tx_ready), .m_axis_tx_tlast(tx_last), .m_axis_tx_tuser(), .s_axis_rx_tdata(word),
        .s_axis_rx_tvalid(frame_valid && word_valid), .s_axis_rx_tready(), .s_axis_rx_tlast(word_last),
        .s_axis_rx_tuser({1'b0, frame_bytes}), .sent_valid(), .aborted_valid(aborted), .event_id(), .dropped(dropped), .oversized()
    );
    assign led = {clock[23], 3'd0, |dropped, given_up, wrong, receiving[0]};
endmodule
`default_nettype wire
