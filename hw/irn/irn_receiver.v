// SPDX-License-Identifier: MIT OR Apache-2.0
// The receivers of 2^LOG_QPS queue pairs: their contexts in a memory, and the block receiveData.
//
// A packet enters in each cycle in which `in_valid` and `in_ready` are set; its result leaves 6 cycles later. `in_ready`
// is clear while a packet of the same queue pair is under way: a queue pair has a packet in every 7th cycle at most, all
// queue pairs together one in every cycle.
`default_nettype none
module irn_receiver #(
    parameter CAP = 111,
    parameter LOG_QPS = 6,
    // Not to be set: log2 of the bits of a bitmap.
    parameter LOG_W = CAP <= 128 ? 7 : $clog2(CAP)
) (
    input  wire                  clk,
    input  wire                  rst,             // synchronous: forgets the operations under way, not the contexts
    input  wire                  in_valid,
    output wire                  in_ready,
    input  wire                  in_reset,        // a new connection: in_psn is its first PSN, in_msn its first MSN
    input  wire [LOG_QPS-1:0]    in_qp,
    input  wire [23:0]           in_psn,
    input  wire [23:0]           in_msn,
    input  wire                  in_ends,
    input  wire                  in_receive,
    output wire                  out_valid,
    output wire [LOG_QPS-1:0]    out_qp,
    output wire                  out_reset,
    output wire                  out_reply,
    output wire                  out_nack,
    output wire                  out_discarded,
    output wire [23:0]           out_trigger,
    output wire [LOG_W:0]        out_receives,
    // The context after the packet: its expected PSN and MSN are those of the response.
    output wire [47+(2<<LOG_W):0] out_context
);
    localparam W = 1 << LOG_W;
    localparam BITS = 48 + 2 * W;
    reg [BITS-1:0]   contexts [0:(1<<LOG_QPS)-1];
    reg [BITS-1:0]   read;
    wire [BITS-1:0]  written;
    reg              v1, v2, v3, v4, v5, v6, reset1, reset2, reset3, reset4, reset5, reset6, ends1, receive1;
    reg [LOG_QPS-1:0] qp1, qp2, qp3, qp4, qp5, qp6;
    reg [23:0]       psn1, msn1, msn2, msn3, msn4, msn5, msn6;
    assign in_ready = !((v1 && qp1 == in_qp) || (v2 && qp2 == in_qp) || (v3 && qp3 == in_qp) || (v4 && qp4 == in_qp)
                     || (v5 && qp5 == in_qp) || (v6 && qp6 == in_qp));
    always @(posedge clk) begin
        read <= contexts[in_qp];
        if (v6 && !rst)
            contexts[qp6] <= written;
        v1 <= !rst && in_valid && in_ready;
        {v6, v5, v4, v3, v2} <= rst ? 5'd0 : {v5, v4, v3, v2, v1};
        {reset6, reset5, reset4, reset3, reset2, reset1} <= {reset5, reset4, reset3, reset2, reset1, in_reset};
        {qp6, qp5, qp4, qp3, qp2, qp1} <= {qp5, qp4, qp3, qp2, qp1, in_qp};
        {msn6, msn5, msn4, msn3, msn2, msn1} <= {msn5, msn4, msn3, msn2, msn1, in_msn};
        psn1 <= in_psn;
        ends1 <= in_ends;
        receive1 <= in_receive;
    end

    wire         reply, nack, discarded, valid;
    wire [23:0]  expected, msn;
    wire [LOG_W:0] receives;
    wire [W-1:0] first, second;
    irn_receive_data #(.CAP(CAP)) receive_data (
        .clk(clk), .rst(rst), .in_valid(v1), .in_psn(psn1), .in_ends(ends1), .in_receive(receive1), .in_expected(read[23:0]),
        .in_msn(read[47:24]), .in_first(read[48 +: W]), .in_second(read[48+W +: W]), .out_valid(valid),
        .out_reply(reply), .out_nack(nack), .out_discarded(discarded), .out_trigger(out_trigger),
        .out_receives(receives), .out_expected(expected), .out_msn(msn), .out_first(first), .out_second(second)
    );
    // A new connection has an empty window; the block passes its first PSN on as the trigger.
    assign written = reset6 ? {{(2*W){1'b0}}, msn6, out_trigger} : {second, first, msn, expected};
    assign out_valid = v6;
    assign out_qp = qp6;
    assign out_reset = reset6;
    assign out_reply = reply && !reset6;
    assign out_nack = nack && !reset6;
    assign out_discarded = discarded && !reset6;
    assign out_receives = reset6 ? {(LOG_W+1){1'b0}} : receives;
    assign out_context = written;
endmodule
`default_nettype wire
