// SPDX-License-Identifier: MIT OR Apache-2.0
// A NanoTransport NIC with AXI-Stream ports: messages to send and received messages, departing and arriving frames.
//
// Byte 0 of a word is in bits 7:0, as AXI-Stream has it. A frame is a word with the headers, then words of payload.
// A message to send is stored until its last word has arrived, because the NIC sends a message without a pause; a
// message that is longer than SEGMENTS packets is discarded, and `oversized` counts it. A message without payload is
// one word without bytes (tkeep 0).
`default_nettype none
module nt_nic_axis #(
    parameter LOG_SLOTS = 4,
    parameter HEADS = 1,               // words of headers in a frame, as the program needs
    parameter SEGMENTS = 38,
    parameter LOG_MTU = 10,
    parameter LOG_SENDERS = 4,
    parameter RTX_NEEDS_CREDIT = 0,
    parameter LOG_STORE = 10,          // log2 of the words of the store for messages to send; it has room for a message
    // Address bits of a buffer memory in words of 64 bytes.
    parameter LOG_WORDS = LOG_SLOTS + 10
) (
    input  wire         aclk,
    input  wire         aresetn,       // held low for 2^(LOG_SENDERS + LOG_SLOTS) cycles, or one after power-up
    input  wire [31:0]  nic_ip,
    // Messages to send.
    input  wire [511:0] s_axis_send_tdata,
    input  wire [63:0]  s_axis_send_tkeep,
    input  wire         s_axis_send_tvalid,
    output wire         s_axis_send_tready,
    input  wire         s_axis_send_tlast,
    input  wire [63:0]  s_axis_send_tuser,   // of the last word: {src_context, dst_context, dst_ip}
    // Received messages.
    output wire [511:0] m_axis_recv_tdata,
    output wire [63:0]  m_axis_recv_tkeep,
    output wire         m_axis_recv_tvalid,
    input  wire         m_axis_recv_tready,
    output wire         m_axis_recv_tlast,
    output wire [95:0]  m_axis_recv_tuser,   // {bytes, the sender's id of the message, src_ip}
    // Departing frames.
    output wire [511:0] m_axis_tx_tdata,
    output wire [63:0]  m_axis_tx_tkeep,
    output wire         m_axis_tx_tvalid,
    input  wire         m_axis_tx_tready,
    output wire         m_axis_tx_tlast,
    output wire [7:0]   m_axis_tx_tuser,     // priority, 0 is the highest
    // Arriving frames; they are never held up, and dropped if a queue is full.
    input  wire [511:0] s_axis_rx_tdata,
    input  wire         s_axis_rx_tvalid,
    output wire         s_axis_rx_tready,
    input  wire         s_axis_rx_tlast,
    input  wire [16:0]  s_axis_rx_tuser,     // {trimmed, bytes of the frame}, in all its words
    // Events and counters.
    output wire         sent_valid,          // all packets of message `event_id` have arrived
    output wire         aborted_valid,       // message `event_id` is given up
    output wire [31:0]  event_id,
    output wire [31:0]  dropped,             // frames that found a full queue
    output reg  [31:0]  oversized            // messages that were discarded
);
    localparam [31:0] LONGEST = SEGMENTS << LOG_MTU;
    wire rst = !aresetn;

    function [511:0] reversed(input [511:0] word);
        integer at;
        for (at = 0; at < 64; at = at + 1)
            reversed[8*at +: 8] = word[8*(63-at) +: 8];
    endfunction
    // The lowest `bytes` bytes of a word; 0 stands for 64.
    function [63:0] keep_of(input [5:0] bytes);
        integer at;
        for (at = 0; at < 64; at = at + 1)
            keep_of[at] = bytes == 6'd0 || at < {26'd0, bytes};
    endfunction
    function [6:0] ones_of(input [63:0] keep);
        integer at;
        begin
            ones_of = 7'd0;
            for (at = 0; at < 64; at = at + 1)
                ones_of = ones_of + {6'd0, keep[at]};
        end
    endfunction

    // ---- The store: words of messages, and the description of each complete message.
    reg  [511:0] store [0:(1<<LOG_STORE)-1];
    reg  [511:0] head;
    reg  [LOG_STORE:0] put_at, begin_at, take_at;
    reg  [31:0] words;
    wire [LOG_STORE:0] used = put_at - take_at;
    wire [4:0]  described;
    wire        description_valid;
    wire [31:0] bytes;
    wire [63:0] user;
    wire [31:0] bytes_so_far = (words << 6) + {25'd0, ones_of(s_axis_send_tkeep)};
    wire        too_long = bytes_so_far > LONGEST;
    assign s_axis_send_tready = !rst && (too_long || !used[LOG_STORE]) && described < 5'd15;
    wire        beat = s_axis_send_tvalid && s_axis_send_tready;
    wire        stored = beat && !too_long && s_axis_send_tkeep != 64'd0;
    wire        complete = beat && s_axis_send_tlast && !too_long;
    wire        puts, ends;
    nt_fifo #(.WIDTH(96), .LOG_DEPTH(4)) descriptions (
        .clk(aclk), .rst(rst), .push(complete), .in({bytes_so_far, s_axis_send_tuser}), .pop(ends), .valid(description_valid),
        .out({bytes, user}), .count(described)
    );
    wire [LOG_STORE:0] put_next = put_at + {{LOG_STORE{1'b0}}, stored};
    wire [LOG_STORE:0] take_next = take_at + {{LOG_STORE{1'b0}}, puts};
    always @(posedge aclk) begin
        if (stored)
            store[put_at[LOG_STORE-1:0]] <= s_axis_send_tdata;
        head <= store[take_next[LOG_STORE-1:0]];
        take_at <= take_next;
        if (beat) begin
            words <= s_axis_send_tlast ? 32'd0 : words + 32'd1;
            put_at <= too_long ? begin_at : put_next;
            if (complete)
                begin_at <= put_next;
            if (s_axis_send_tlast && too_long)
                oversized <= oversized + 32'd1;
        end
        if (rst) begin
            {put_at, begin_at, take_at} <= 0;
            words <= 32'd0;
            oversized <= 32'd0;
        end
    end

    // ---- A complete message: ask for a buffer until there is one, then write a word in each cycle.
    reg         asking, writing;
    reg  [LOG_WORDS-1:0] address;
    reg  [31:0] left;
    wire        msg_ready, msg_done, msg_ok;
    wire [LOG_WORDS-1:0] msg_address;
    wire        msg_valid = description_valid && !asking && !writing;
    wire        begins = asking && msg_done && msg_ok;
    wire [31:0] message_words = (bytes + 32'd63) >> 6;
    wire [31:0] left_now = begins ? message_words : left;
    assign puts = (begins || writing) && left_now != 32'd0;
    assign ends = (begins || writing) && left_now <= 32'd1;
    wire [LOG_WORDS-1:0] put_address = begins ? msg_address : address;
    always @(posedge aclk) begin
        if (msg_valid && msg_ready)
            asking <= 1'b1;
        else if (msg_done)
            asking <= 1'b0;
        if (begins || writing) begin
            writing <= !ends;
            left <= left_now - 32'd1;
            address <= put_address + 1'b1;
        end
        if (rst)
            {asking, writing} <= 2'd0;
    end

    // ---- Frames and received messages.
    wire         tx_first;
    wire [511:0] tx_data, got_data;
    wire [15:0]  tx_bytes;
    wire [31:0]  got_src_ip, got_id, got_bytes;
    reg          in_frame;
    always @(posedge aclk)
        in_frame <= !rst && (s_axis_rx_tvalid && s_axis_rx_tready ? !s_axis_rx_tlast : in_frame);
    assign m_axis_tx_tdata = reversed(tx_data);
    assign m_axis_tx_tkeep = tx_first || !m_axis_tx_tlast ? {64{1'b1}} : keep_of(tx_bytes[5:0]);
    assign m_axis_recv_tdata = reversed(got_data);
    assign m_axis_recv_tkeep = got_bytes == 32'd0 ? 64'd0 : m_axis_recv_tlast ? keep_of(got_bytes[5:0]) : {64{1'b1}};
    assign m_axis_recv_tuser = {got_bytes, got_id, got_src_ip};
    nt_nic #(
        .LOG_SLOTS(LOG_SLOTS), .HEADS(HEADS), .SEGMENTS(SEGMENTS), .LOG_MTU(LOG_MTU), .LOG_SENDERS(LOG_SENDERS),
        .RTX_NEEDS_CREDIT(RTX_NEEDS_CREDIT), .LOG_WORDS(LOG_WORDS)
    ) nic (
        .clk(aclk), .rst(rst), .nic_ip(nic_ip), .msg_valid(msg_valid), .msg_ready(msg_ready), .msg_dst_ip(user[31:0]),
        .msg_dst_context(user[47:32]), .msg_src_context(user[63:48]), .msg_bytes(bytes), .msg_done(msg_done), .msg_ok(msg_ok),
        .msg_id(), .msg_address(msg_address), .put_valid(puts), .put_address(put_address), .put_data(reversed(head)),
        .tx_valid(m_axis_tx_tvalid), .tx_ready(m_axis_tx_tready), .tx_first(tx_first), .tx_last(m_axis_tx_tlast),
        .tx_data(tx_data), .tx_bytes(tx_bytes), .tx_priority(m_axis_tx_tuser), .tx_id(), .rx_valid(s_axis_rx_tvalid),
        .rx_ready(s_axis_rx_tready), .rx_first(!in_frame), .rx_last(s_axis_rx_tlast), .rx_data(reversed(s_axis_rx_tdata)),
        .rx_bytes(s_axis_rx_tuser[15:0]), .rx_trimmed(s_axis_rx_tuser[16]), .got_valid(m_axis_recv_tvalid),
        .got_ready(m_axis_recv_tready), .got_first(), .got_last(m_axis_recv_tlast), .got_data(got_data), .got_src_ip(got_src_ip),
        .got_id(got_id), .got_bytes(got_bytes), .sent_valid(sent_valid), .timeout_valid(), .aborted_valid(aborted_valid),
        .event_id(event_id), .dropped(dropped)
    );
endmodule
`default_nettype wire
