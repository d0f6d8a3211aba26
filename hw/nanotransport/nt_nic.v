// SPDX-License-Identifier: MIT OR Apache-2.0
// A NanoTransport NIC: the fixed-function blocks around the pipelines of a P4 program (`nt_program`, which is
// generated).
//
// A frame is HEADS words of 64 bytes with the headers, then words of payload. Time counts sixteenths of a nanosecond. A
// cycle has `CYCLE` of them: 5 at 3.2 GHz.
`default_nettype none
module nt_nic #(
    parameter LOG_SLOTS = 4,
    parameter HEADS = 1,               // words of headers in a frame, as the program needs
    parameter SEGMENTS = 38,
    parameter LOG_MTU = 10,
    parameter LOG_SENDERS = 4,
    parameter RTX_NEEDS_CREDIT = 0,
    parameter CYCLE = 5,
    parameter PACE = 696,              // of paced control packets: 43.5 ns
    parameter TIMEOUT = 7000,          // ns
    parameter RX_TIMEOUT = 49000,      // ns
    parameter MAX_TIMEOUTS = 5,
    parameter RTT_PKTS = 9,
    parameter SCAN = 64,               // a timer is looked at once in this number of cycles at least
    parameter AHEAD = 3,               // packets between the arbiter and the link
    // Not to be set: address bits of a buffer memory in words of 64 bytes.
    parameter LOG_LARGE = LOG_SLOTS - 1,
    parameter LOG_WORDS = LOG_LARGE + 11
) (
    input  wire         clk,
    input  wire         rst,           // synchronous; held for 2^(LOG_SENDERS + LOG_SLOTS) cycles, or one after power-up
    input  wire [31:0]  nic_ip,
    // A message to send. 5 cycles after it was accepted, `msg_done` says whether a buffer was free and where it begins.
    input  wire         msg_valid,
    output wire         msg_ready,
    input  wire [31:0]  msg_dst_ip,
    input  wire [15:0]  msg_dst_context,
    input  wire [15:0]  msg_src_context,
    input  wire [31:0]  msg_bytes,
    output wire         msg_done,
    output wire         msg_ok,
    output wire [31:0]  msg_id,
    output wire [LOG_WORDS-1:0] msg_address,
    // The payload of a message, which the host writes into its buffer.
    input  wire         put_valid,
    input  wire [LOG_WORDS-1:0] put_address,
    input  wire [511:0] put_data,
    // The link.
    output wire         tx_valid,
    input  wire         tx_ready,
    output wire         tx_first,
    output wire         tx_last,
    output wire [511:0] tx_data,
    output wire [15:0]  tx_bytes,
    output wire [7:0]   tx_priority,
    output wire [31:0]  tx_id,         // of a data packet: its message; else all ones
    input  wire         rx_valid,
    output wire         rx_ready,
    input  wire         rx_first,
    input  wire         rx_last,
    input  wire [511:0] rx_data,
    input  wire [15:0]  rx_bytes,
    input  wire         rx_trimmed,
    // A received message, word by word.
    output wire         got_valid,
    input  wire         got_ready,
    output wire         got_first,
    output wire         got_last,
    output wire [511:0] got_data,
    output wire [31:0]  got_src_ip,
    output wire [31:0]  got_id,
    output wire [31:0]  got_bytes,
    // Events and counters.
    output wire         sent_valid,    // all packets of message `event_id` have arrived
    output wire         timeout_valid,
    output wire         aborted_valid,
    output wire [31:0]  event_id,
    output reg  [31:0]  dropped        // frames that found a full queue
);
    // First word of a buffer: small buffers of 64 words, then large ones.
    function [LOG_WORDS-1:0] address_of(input is_large, input [LOG_LARGE-1:0] number);
        address_of = is_large ? 512 + number * (SEGMENTS << (LOG_MTU - 6)) : {number, 6'd0};
    endfunction

    reg [67:0] sixteenths;
    initial begin
        sixteenths = 0;
        dropped = 0;
    end
    always @(posedge clk) sixteenths <= sixteenths + CYCLE;
    wire [63:0] now_ns = sixteenths[67:4];

    // ---- The program.
    wire         ingress_valid, ingress_done, ingress_store, ingress_is_last, info_valid, marked_valid, program_full;
    wire [144:0] info_request;
    wire [51:0]  info_results;
    wire [48:0]  marked_now, marked;
    wire [15:0]  ingress_rx_msg_id;
    wire [31:0]  ingress_pkt_offset;
    wire [7:0]   period, info_stage;
    wire         delivered_valid, delivered_pop, credit_valid, credit_pop, control_valid;
    wire [159:0] delivered;
    wire [160:0] credit;
    wire [215:0] control;
    wire         egress_valid, egress_done;
    wire [225:0] departure;
    wire [512*HEADS-1:0] egress_header;
    wire [7:0]   egress_priority;
    wire         generator_full;
    // The header that enters.
    wire        header_valid, header_trimmed, header_payload;
    wire [15:0] header_bytes;
    wire [512*HEADS-1:0] header;
    nt_program pipelines (
        .clk(clk), .rst(rst), .now_ns(now_ns), .nic_ip(nic_ip), .nic_rtt_pkts(RTT_PKTS), .period(period), .info_stage(info_stage), .ingress_valid(ingress_valid),
        .ingress_header(header), .ingress_frame_bytes(header_bytes), .ingress_trimmed(header_trimmed), .info_valid(info_valid),
        .info_request(info_request), .info_results(info_results), .marked_now(marked_now), .delivered_valid(delivered_valid),
        .delivered(delivered), .delivered_pop(delivered_pop), .credit_valid(credit_valid), .credit(credit),
        .credit_pop(credit_pop), .control_valid(control_valid), .control(control), .control_pop(control_valid), .full(program_full),
        .ingress_done(ingress_done), .ingress_store(ingress_store), .ingress_rx_msg_id(ingress_rx_msg_id),
        .ingress_pkt_offset(ingress_pkt_offset), .ingress_is_last(ingress_is_last), .marked(marked),
        .egress_valid(egress_valid), .departure(departure), .egress_done(egress_done), .egress_header(egress_header),
        .egress_priority(egress_priority)
    );

    // ---- Arriving frames. A header enters the ingress pipeline when its frame is complete, because the response to
    // it says that the payload has arrived; at most one header enters per period. That a header enters is decided two
    // cycles before the program may call get_rx_msg_info. The payload waits for the verdict.
    reg [7:0]   since_header;
    reg [63:0]  chosen;                // bit n: a header was chosen n + 1 cycles ago
    reg         dropping;
    reg [7:0]   word;                  // words of the frame that have arrived, at most HEADS
    reg [16:0]  about;                 // the frame: trimmed, bytes
    reg [512*HEADS-1:0] collected;     // words of headers, the latest in the lowest bits
    wire        frames_valid, frame_payload, payload_valid, payload_last;
    wire [511:0] payload;
    wire [4:0]  frames, headers;
    wire [6:0]  payloads;
    wire        full = program_full || generator_full || frames >= 8 || headers >= 8 || payloads >= 40;
    assign rx_ready = 1'b1;
    wire        drops = rx_first ? full : dropping;
    wire        decides = header_valid && since_header >= period;
    assign ingress_valid = info_stage == 8'd0 ? chosen[1] : chosen[0];
    wire [7:0]  word_now = rx_first ? 8'd0 : word;
    wire        is_header = word_now < HEADS;
    wire        enough = word_now >= HEADS - 1;         // all words of headers have arrived
    wire [512*HEADS-1:0] headers_now;
    generate
        if (HEADS > 1) begin : several_words
            assign headers_now = is_header ? {collected[512*HEADS-513:0], rx_data} : collected;
        end else begin : one_word
            assign headers_now = is_header ? rx_data : collected;
        end
    endgenerate
    wire        keeps = rx_valid && rx_last && !drops && enough;
    initial {dropping, chosen, word} = 0;
    initial since_header = 8'hff;
    always @(posedge clk) begin
        since_header <= decides ? 8'd1 : &since_header ? since_header : since_header + 8'd1;
        chosen <= {chosen[62:0], decides};
        if (rx_valid) begin
            dropping <= drops && !rx_last;
            if (rx_first)
                about <= {rx_trimmed, rx_bytes};
            collected <= headers_now;
            word <= is_header ? word_now + 8'd1 : word_now;
            // A frame is also dropped if it is shorter than its headers.
            if ((rx_first && full) || (rx_last && !drops && !enough))
                dropped <= dropped + 32'd1;
        end
        if (rst) begin
            {dropping, chosen, word} <= 0;
            since_header <= 8'hff;
            dropped <= 32'd0;
        end
    end
    nt_fifo #(.WIDTH(18 + 512 * HEADS), .LOG_DEPTH(4)) header_queue (
        .clk(clk), .rst(rst), .push(keeps), .in({!is_header, rx_first ? {rx_trimmed, rx_bytes} : about, headers_now}), .pop(ingress_valid), .valid(header_valid),
        .out({header_payload, header_trimmed, header_bytes, header}), .count(headers)
    );
    wire        frame_done;
    wire        payload_pop;
    nt_fifo #(.WIDTH(1), .LOG_DEPTH(4)) frame_queue (
        .clk(clk), .rst(rst), .push(ingress_valid), .in(header_payload), .pop(frame_done), .valid(frames_valid), .out(frame_payload), .count(frames)
    );
    nt_fifo #(.WIDTH(513), .LOG_DEPTH(6)) payload_queue (
        .clk(clk), .rst(rst), .push(rx_valid && !is_header && !dropping), .in({rx_last, rx_data}), .pop(payload_pop), .valid(payload_valid),
        .out({payload_last, payload}), .count(payloads)
    );

    // ---- Reassembly. The other operations enter at least 3 cycles after an info and at least 3 before the next one, so
    // no info has to wait.
    wire        ask_valid, ask_store, ask_is_last, ask_pop;
    wire [15:0] ask_id;
    wire [31:0] ask_offset;
    wire [48:0] ask_marked;
    nt_fifo #(.WIDTH(99), .LOG_DEPTH(4)) asks (
        .clk(clk), .rst(rst), .push(ingress_done), .in({ingress_store, ingress_is_last, ingress_rx_msg_id, ingress_pkt_offset, marked}),
        .pop(ask_pop), .valid(ask_valid), .out({ask_store, ask_is_last, ask_id, ask_offset, ask_marked}), .count()
    );
    wire        release_valid, release_pop;
    wire [15:0] release_id;
    reg [LOG_SLOTS-1:0] rx_look;
    reg [1:0]   informed;              // an info in the last two cycles
    initial {rx_look, informed} = 0;
    // An info in this cycle or one of the next two. Bit n of `decisions`: a header was chosen n cycles ago.
    wire [64:0] decisions = {chosen, decides};
    wire [5:0]  soonest = info_stage == 8'd0 ? 6'd0 : info_stage[5:0] - 6'd1;
    wire        open = !informed[0] && !informed[1] && decisions[soonest +: 3] == 3'd0;
    wire        re_ready;
    wire [1:0]  rx_op = info_valid ? 2'd0 : ask_valid ? 2'd1 : release_valid ? 2'd2 : 2'd3;
    assign ask_pop = open && re_ready && rx_op == 2'd1;
    assign release_pop = open && re_ready && rx_op == 2'd2;
    always @(posedge clk) begin
        informed <= {informed[0], info_valid};
        if (open && re_ready && rx_op == 2'd3)
            rx_look <= rx_look + 1'b1;
    end
    wire        re_valid, re_fail, re_new_msg, re_new_pkt, re_last, re_marked, re_expired, re_large;
    wire [1:0]  re_op;
    wire [15:0] re_id;
    wire [31:0] re_ack_no, re_src_ip, re_tx_msg_id, re_bytes;
    wire [LOG_LARGE-1:0] re_buffer;
    wire [31:0] info_offset = info_request[143:112];
    nt_reassembly #(
        .LOG_SLOTS(LOG_SLOTS), .SEGMENTS(SEGMENTS), .LOG_MTU(LOG_MTU), .LOG_SENDERS(LOG_SENDERS), .LOG_SENDER_SLOTS(LOG_SLOTS),
        .LOG_LARGE(LOG_LARGE)
    ) reassembly (
        .clk(clk), .rst(rst), .now(now_ns[31:0]), .rx_timeout(RX_TIMEOUT), .in_valid(info_valid || open), .in_ready(re_ready), .in_op(rx_op),
        .in_src_ip(info_request[31:0]), .in_tx_msg_id(info_request[79:48]), .in_msg_len(info_request[111:80]),
        .in_pkt_offset(rx_op == 2'd0 ? info_offset : ask_offset), .in_mark(rx_op == 2'd0 ? info_request[144] : ask_marked[48]),
        .in_rx_msg_id(rx_op == 2'd1 ? ask_id : rx_op == 2'd2 ? release_id : {{(16-LOG_SLOTS){1'b0}}, rx_look}),
        .in_store(ask_store), .in_is_last(ask_is_last), .in_marked_id({1'b0, ask_marked[46:32]}),
        .in_marked_offset(ask_marked[31:0]), .in_marked_last(ask_marked[47]), .out_valid(re_valid), .out_op(re_op), .out_fail(re_fail),
        .out_rx_msg_id(re_id), .out_is_new_msg(re_new_msg), .out_is_new_pkt(re_new_pkt), .out_is_last_pkt(re_last),
        .out_ack_no(re_ack_no), .out_marked(re_marked), .out_expired(re_expired), .out_src_ip(re_src_ip),
        .out_tx_msg_id(re_tx_msg_id), .out_bytes(re_bytes), .out_large(re_large), .out_buffer(re_buffer)
    );
    assign info_results = {re_ack_no, re_last, re_new_pkt, re_new_msg, re_id, re_fail};
    reg [159:0] offsets;               // of the packets in reassembly
    wire [31:0] re_offset = offsets[159:128];
    always @(posedge clk) offsets <= {offsets[127:0], rx_op == 2'd0 ? info_offset : ask_offset};
    assign marked_now = {re_valid && re_op == 2'd0 && re_marked, re_last, re_id[14:0], re_offset};

    // ---- The payload of a stored packet goes into its message's buffer; a complete message leaves it.
    wire        verdict_valid, verdict_store, verdict_last;
    wire [LOG_WORDS-1:0] verdict_first, verdict_at;
    wire [15:0] verdict_id;
    wire [95:0] verdict_message;
    nt_fifo #(.WIDTH(114 + 2 * LOG_WORDS), .LOG_DEPTH(4)) verdicts (
        .clk(clk), .rst(rst), .push(re_valid && re_op == 2'd1),
        .in({re_new_pkt, re_last, address_of(re_large, re_buffer),
             address_of(re_large, re_buffer) + (re_offset[LOG_WORDS-1:0] << (LOG_MTU - 6)), re_id, re_bytes, re_tx_msg_id, re_src_ip}),
        .pop(frame_done), .valid(verdict_valid),
        .out({verdict_store, verdict_last, verdict_first, verdict_at, verdict_id, verdict_message}), .count()
    );
    wire        decided = frames_valid && verdict_valid;
    assign payload_pop = decided && frame_payload && payload_valid;
    assign frame_done = decided && (frame_payload ? payload_valid && payload_last : 1'b1);
    reg [511:0] rx_memory [0:(1<<LOG_WORDS)-1];
    reg [LOG_WORDS-1:0] words_written;
    initial words_written = 0;
    always @(posedge clk) begin
        if (payload_pop && verdict_store)
            rx_memory[verdict_at + words_written] <= payload;
        words_written <= frame_done || rst ? {LOG_WORDS{1'b0}} : words_written + payload_pop;
    end
    wire        complete_valid, complete_pop;
    wire [LOG_WORDS-1:0] complete_first;
    wire [95:0] complete_message;
    nt_fifo #(.WIDTH(112 + LOG_WORDS), .LOG_DEPTH(LOG_SLOTS)) completes (
        .clk(clk), .rst(rst), .push(frame_done && verdict_last), .in({verdict_first, verdict_id, verdict_message}), .pop(complete_pop),
        .valid(complete_valid), .out({complete_first, release_id, complete_message}), .count()
    );
    wire [31:0] complete_words = (complete_message[95:64] + 32'd63) >> 6;
    reg [31:0]  words_read;
    reg         reading, releasing, read_first, read_last;
    reg [95:0]  read_message;
    reg [511:0] read_data;
    initial {words_read, reading, releasing} = 0;
    wire        advances = !reading || got_ready;
    wire        reads = complete_valid && !releasing && advances;
    wire        at_end = words_read + 32'd1 >= complete_words;
    assign complete_pop = release_pop;
    assign release_valid = releasing;
    always @(posedge clk) begin
        if (advances) begin
            reading <= reads;
            read_first <= words_read == 0;
            read_last <= at_end;
            read_message <= complete_message;
            read_data <= rx_memory[complete_first + words_read[LOG_WORDS-1:0]];
        end
        if (reads)
            words_read <= at_end ? 32'd0 : words_read + 32'd1;
        releasing <= releasing ? !release_pop : reads && at_end;
        if (rst) begin
            words_read <= 32'd0;
            {reading, releasing} <= 2'd0;
        end
    end
    assign got_valid = reading;
    assign got_first = read_first;
    assign got_last = read_last;
    assign got_data = read_data;
    assign {got_bytes, got_id, got_src_ip} = read_message;

    // ---- Packetization: events of the program, timers, the next packet, new messages.
    wire        may_send, refuses;
    wire [(1<<LOG_SLOTS)-1:0] busy;    // an operation of a busy message leaves its turn to others
    wire        control_head;
    reg [3:0]   ahead;                 // packets between the arbiter and the link
    reg [9:0]   since_look;
    reg [LOG_SLOTS-1:0] tx_look;
    initial {ahead, since_look, tx_look} = 0;
    wire        room = ahead < AHEAD;
    wire        overdue = since_look >= SCAN;
    // A message that is looked at is busy for 6 cycles, so looks are not in every idle cycle.
    wire        idle_look = since_look >= 10'd8;
    wire [5:0]  grants;
    // A packet of packetization enters the egress pipeline as soon as it is there.
    wire        packet, pk_ready;
    wire        takes_control = control_head && room && !packet;
    nt_arbiter #(.N(6)) operations (
        .requests({idle_look && !busy[tx_look], msg_valid && !refuses, may_send && room && !control_head, overdue && !busy[tx_look],
                   credit_valid && !busy[credit[LOG_SLOTS-1:0]], delivered_valid && !busy[delivered[LOG_SLOTS-1:0]]}),
        .grants(grants)
    );
    wire        polls = grants[3] && pk_ready, looks = (grants[2] || grants[5]) && pk_ready;
    assign delivered_pop = grants[0] && pk_ready;
    assign credit_pop = grants[1] && pk_ready;
    assign msg_ready = grants[4] && pk_ready && !rst;
    wire [2:0]  tx_op = grants[0] ? 3'd1 : grants[1] ? 3'd2 : grants[3] ? 3'd3 : grants[4] ? 3'd0 : 3'd4;
    wire        pk_valid, pk_ok, pk_aborted, pk_resends, pk_large, pk_new, pk_rtx;
    wire [2:0]  pk_op;
    wire [31:0] pk_id, pk_dst_ip, pk_bytes, pk_offset, pk_credit;
    wire [15:0] pk_dst_context, pk_src_context;
    wire [LOG_MTU:0] pk_payload;
    wire [LOG_LARGE-1:0] pk_buffer;
    nt_packetization #(
        .LOG_SLOTS(LOG_SLOTS), .SEGMENTS(SEGMENTS), .LOG_MTU(LOG_MTU), .RTX_NEEDS_CREDIT(RTX_NEEDS_CREDIT), .LOG_LARGE(LOG_LARGE)
    ) packetization (
        .clk(clk), .rst(rst), .now(now_ns[31:0]), .rtt_pkts(RTT_PKTS), .timeout(TIMEOUT), .max_timeouts(MAX_TIMEOUTS[7:0]), .in_valid(|grants), .in_ready(pk_ready),
        .in_op(tx_op), .in_id(grants[0] ? delivered[31:0] : grants[1] ? credit[31:0] : {{(32-LOG_SLOTS){1'b0}}, tx_look}),
        .in_a(grants[0] ? delivered[63:32] : grants[1] ? {31'd0, credit[128]} : msg_dst_ip),
        .in_b(grants[0] ? delivered[95:64] : grants[1] ? credit[63:32] : {msg_src_context, msg_dst_context}),
        .in_c(grants[1] ? credit[160:129] : msg_bytes), .in_bitmap(grants[0] ? delivered[159:96] : credit[127:64]), .may_send(may_send), .refuses(refuses), .busy_slots(busy),
        .out_valid(pk_valid), .out_op(pk_op), .out_ok(pk_ok), .out_aborted(pk_aborted), .out_resends(pk_resends), .out_id(pk_id),
        .out_large(pk_large), .out_buffer(pk_buffer), .out_dst_ip(pk_dst_ip), .out_dst_context(pk_dst_context),
        .out_src_context(pk_src_context), .out_bytes(pk_bytes), .out_pkt_offset(pk_offset), .out_credit(pk_credit),
        .out_is_new_msg(pk_new), .out_is_rtx(pk_rtx), .out_payload(pk_payload)
    );
    assign packet = pk_valid && pk_op == 3'd3 && pk_ok;
    wire        leaves = tx_valid && tx_ready && tx_first;
    always @(posedge clk) begin
        since_look <= looks ? 10'd0 : &since_look ? since_look : since_look + 10'd1;
        tx_look <= tx_look + looks;
        ahead <= ahead + polls + takes_control - leaves;
        if (rst) begin
            {ahead, since_look} <= 0;
        end
    end
    assign msg_done = pk_valid && pk_op == 3'd0;
    assign msg_ok = pk_ok;
    assign msg_id = pk_id;
    assign msg_address = address_of(pk_large, pk_buffer);
    assign sent_valid = pk_valid && pk_op == 3'd1 && pk_ok;
    assign timeout_valid = pk_valid && pk_op == 3'd4 && pk_resends;
    assign aborted_valid = pk_valid && pk_op == 3'd4 && pk_aborted;
    assign event_id = pk_id;

    // ---- The packet generator; its packets precede those of packetization.
    wire [199:0] control_fields;
    wire [7:0]  control_flags;
    nt_generator generator (
        .clk(clk), .rst(rst), .now(sixteenths[31:0]), .pace(PACE), .event_valid(control_valid), .event_fields(control[199:0]),
        .event_immediate(control[207:200]), .event_paced(control[215:208]), .pop(takes_control), .head_valid(control_head),
        .head_fields(control_fields), .head_flags(control_flags), .full(generator_full)
    );

    // ---- The egress pipeline, and what is known about the packets in it.
    assign egress_valid = packet || takes_control;
    // is_new_msg, is_rtx, payload 16, flags 8, rank 8, credit, pkt_offset, msg_len, tx_msg_id, src_context,
    // dst_context, dst_ip
    wire [225:0] data_departure = {pk_new, pk_rtx, {(15-LOG_MTU){1'b0}}, pk_payload, 8'd1, 8'd0, pk_credit, pk_offset, pk_bytes,
                                   pk_id, pk_src_context, pk_dst_context, pk_dst_ip};
    wire [225:0] control_departure = {18'd0, control_flags, control_fields};
    assign departure = packet ? data_departure : control_departure;
    wire [LOG_WORDS-1:0] side_address;
    wire [15:0] side_payload;
    wire [31:0] side_id;
    nt_fifo #(.WIDTH(48 + LOG_WORDS), .LOG_DEPTH(4)) sides (
        .clk(clk), .rst(rst), .push(egress_valid),
        .in({packet ? pk_id : 32'hffffffff, packet ? {{(15-LOG_MTU){1'b0}}, pk_payload} : 16'd0,
             address_of(pk_large, pk_buffer) + (pk_offset[LOG_WORDS-1:0] << (LOG_MTU - 6))}),
        .pop(egress_done), .valid(), .out({side_id, side_payload, side_address}), .count()
    );

    // ---- Departing frames.
    wire        queue_valid, queue_pop;
    wire [LOG_WORDS-1:0] queue_address;
    wire [15:0] queue_payload;
    wire [512*HEADS-1:0] queue_header;
    nt_fifo #(.WIDTH(56 + 512 * HEADS + LOG_WORDS), .LOG_DEPTH(4)) departing (
        .clk(clk), .rst(rst), .push(egress_done), .in({egress_priority, side_id, side_payload, side_address, egress_header}), .pop(queue_pop),
        .valid(queue_valid), .out({tx_priority, tx_id, queue_payload, queue_address, queue_header}), .count()
    );
    reg [511:0] tx_memory [0:(1<<LOG_WORDS)-1];
    reg [511:0] tx_word;
    reg [LOG_WORDS-1:0] words_sent;    // of the payload
    reg [7:0]   heads_sent;            // words of headers
    reg         in_payload, fetched;
    initial {words_sent, heads_sent, in_payload, fetched} = 0;
    wire        last_head = heads_sent == HEADS - 1;
    wire [512*HEADS-1:0] heads_left = queue_header << {heads_sent, 9'd0};
    wire [15:0] payload_words = (queue_payload + 16'd63) >> 6;
    wire        at_last = {{(16-LOG_WORDS){1'b0}}, words_sent} + 16'd1 == payload_words;
    assign tx_valid = queue_valid && (!in_payload || fetched);
    assign tx_first = !in_payload && heads_sent == 8'd0;
    assign tx_last = in_payload ? at_last : last_head && queue_payload == 0;
    assign tx_data = in_payload ? tx_word : heads_left[512*HEADS-1 -: 512];
    assign tx_bytes = queue_payload + 64 * HEADS;
    assign queue_pop = tx_valid && tx_ready && tx_last;
    always @(posedge clk) begin
        if (put_valid)
            tx_memory[put_address] <= put_data;
        tx_word <= tx_memory[queue_address + words_sent];
        fetched <= in_payload && !(tx_valid && tx_ready);
        if (tx_valid && tx_ready) begin
            in_payload <= (in_payload || last_head) && !tx_last;
            heads_sent <= in_payload || last_head ? 8'd0 : heads_sent + 8'd1;
            words_sent <= in_payload && !tx_last ? words_sent + 1'b1 : {LOG_WORDS{1'b0}};
        end
        if (rst) begin
            words_sent <= {LOG_WORDS{1'b0}};
            {heads_sent, in_payload, fetched} <= 10'd0;
        end
    end
endmodule
`default_nettype wire
