parser A() {
    value_set<bit<8>>(4) known;
    state start {
        verify(x == 1, error.NoError);
        x = (packet.lookahead<bit<8>>(), 1);
        packet.extract(hdr.stack[0:]);
        transition accept;
    }
}
