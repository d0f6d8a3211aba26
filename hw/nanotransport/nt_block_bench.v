// SPDX-License-Identifier: MIT OR Apache-2.0
// One fixed-function block between two vectors of 32-bit words, for co-simulation. Fields of a result that the
// operation does not define are 0. Numbers of buffers are not compared; two NICs that pass payloads test them.
`default_nettype none
module nt_block_bench #(
    parameter BLOCK = 0,               // 0 packetization, 1 reassembly, 2 generator, 3 arbiter
    parameter RTX_NEEDS_CREDIT = 0
) (
    input  wire          clk,
    input  wire          in_valid,
    output wire          in_ready,
    input  wire [319:0]  in,
    output wire          out_valid,
    output wire [319:0]  out
);
    `define IN(n) in[32*(n) +: 32]
    // A reset in the first cycle.
    reg rst;
    initial rst = 1'b1;
    always @(posedge clk) rst <= 1'b0;
    generate
        if (BLOCK == 0) begin : of_packetization
            wire [2:0]  op;
            wire        valid, ok, aborted, resends, is_new, is_rtx, ready;
            wire [31:0] id, dst_ip, bytes, offset, credit;
            wire [15:0] dst_context, src_context;
            wire [10:0] payload;
            // A new message has the lowest free slot: it waits until the operations before it have ended.
            reg  [3:0]  since;
            reg         entered;
            wire        waits = in[2:0] == 3'd0 && (entered || !since[3]);
            wire        enters = in_valid && !waits;
            initial {entered, since} = 5'd0;
            always @(posedge clk) begin
                entered <= enters && ready;
                since <= rst || entered ? 4'd1 : since[3] ? since : since + 4'd1;
            end
            assign in_ready = ready && !waits && !rst;
            nt_packetization #(.RTX_NEEDS_CREDIT(RTX_NEEDS_CREDIT)) block (
                .clk(clk), .rst(rst), .now(`IN(1)), .rtt_pkts(32'd9), .timeout(32'd7000), .max_timeouts(8'd3),
                .in_valid(enters), .in_ready(ready), .in_op(in[2:0]), .in_id(`IN(2)), .in_a(`IN(3)), .in_b(`IN(4)),
                .in_c(`IN(5)), .in_bitmap(in[192 +: 64]), .may_send(), .refuses(), .busy_slots(), .out_valid(valid), .out_op(op), .out_ok(ok),
                .out_aborted(aborted), .out_resends(resends), .out_id(id), .out_large(), .out_buffer(), .out_dst_ip(dst_ip),
                .out_dst_context(dst_context), .out_src_context(src_context), .out_bytes(bytes), .out_pkt_offset(offset),
                .out_credit(credit), .out_is_new_msg(is_new), .out_is_rtx(is_rtx), .out_payload(payload)
            );
            assign out_valid = valid;
            wire        poll = op == 3'd3 && ok;
            wire        timer = op == 3'd4;
            assign out = {32'd0, poll ? {16'd0, is_rtx, is_new, 3'd0, payload} : 32'd0, poll ? credit : 32'd0, poll ? offset : 32'd0,
                          poll ? bytes : 32'd0, poll ? {src_context, dst_context} : 32'd0, poll ? dst_ip : 32'd0,
                          poll || (op == 3'd0 && ok) ? id : 32'd0,
                          29'd0, timer && resends, timer && aborted, !timer && ok, 29'd0, op};
        end else if (BLOCK == 1) begin : of_reassembly
            wire [1:0]  op;
            wire        fail, is_new_msg, is_new_pkt, is_last, marked, expired;
            wire [15:0] id;
            wire [31:0] ack_no, src_ip, tx_msg_id, bytes;
            // A verdict follows the result of its info.
            wire        ready;
            reg  [3:0]  since_info;
            wire        waits = in[1:0] == 2'd1 && !since_info[3];
            wire        enters = in_valid && !waits;
            initial since_info = 4'd8;
            always @(posedge clk) since_info <= rst ? 4'd8 : enters && ready && in[1:0] == 2'd0 ? 4'd4 : since_info[3] ? 4'd8 : since_info + 4'd1;
            assign in_ready = ready && !waits && !rst;
            nt_reassembly block (
                .clk(clk), .rst(rst), .now(`IN(1)), .rx_timeout(32'd49000), .in_valid(enters), .in_ready(ready), .in_op(in[1:0]), .in_src_ip(`IN(2)),
                .in_tx_msg_id(`IN(3)), .in_msg_len(`IN(4)), .in_pkt_offset(`IN(5)), .in_mark(in[2]), .in_rx_msg_id(in[192 +: 16]),
                .in_store(in[3]), .in_is_last(in[4]), .in_marked_id(in[208 +: 16]), .in_marked_offset(`IN(7)),
                .in_marked_last(in[5]), .out_valid(out_valid), .out_op(op), .out_fail(fail), .out_rx_msg_id(id),
                .out_is_new_msg(is_new_msg), .out_is_new_pkt(is_new_pkt), .out_is_last_pkt(is_last), .out_ack_no(ack_no),
                .out_marked(marked), .out_expired(expired), .out_src_ip(src_ip), .out_tx_msg_id(tx_msg_id), .out_bytes(bytes),
                .out_large(), .out_buffer()
            );
            wire        names = expired || op == 2'd2;
            assign out = {96'd0, names ? bytes : 32'd0, names ? tx_msg_id : 32'd0, names ? src_ip : 32'd0, ack_no,
                          16'd0, op == 2'd0 ? id : 16'd0, 26'd0, expired, marked, is_last, is_new_pkt, is_new_msg, fail, 30'd0, op};
        end else if (BLOCK == 2) begin : of_generator
            wire         valid, full;
            wire [199:0] fields;
            wire [7:0]   flags;
            assign in_ready = !rst;
            nt_generator block (
                .clk(clk), .rst(rst), .now(`IN(1)), .pace(32'd40), .event_valid(in_valid && in[1:0] == 2'd1), .event_fields(in[96 +: 200]),
                .event_immediate(in[64 +: 8]), .event_paced(in[72 +: 8]), .pop(in_valid && in[1:0] == 2'd2 && valid),
                .head_valid(valid), .head_fields(fields), .head_flags(flags), .full(full)
            );
            reg          done;
            reg  [319:0] result;
            always @(posedge clk) begin
                done <= !rst && in_valid;
                result <= in_valid && in[1:0] == 2'd3 ? {319'd0, full} : in_valid && in[1:0] == 2'd2 && valid ? {24'd0, fields, 32'd0, 24'd0, flags, 31'd0, 1'b1} : 320'd0;
            end
            assign out_valid = done;
            assign out = result;
        end else begin : of_arbiter
            wire [15:0]  grants;
            nt_arbiter #(.N(16)) block (.requests(in[79:64]), .grants(grants));
            reg          done;
            reg  [319:0] result;
            assign in_ready = !rst;
            always @(posedge clk) begin
                done <= !rst && in_valid;
                result <= {304'd0, grants};
            end
            assign out_valid = done;
            assign out = result;
        end
    endgenerate
    `undef IN
endmodule
`default_nettype wire
