control C() {
    apply {
        f(1 2);
        f(a = );
        x = (1;
        x[3] = 1;
        x[3:] = 1;
        x[3:0 = 1;
        x = a ? b;
        bit<8 x;
        bit<> y;
        x = bit<8> y;
        x = _;
        x = select(y);
        state start;
        bit<8> 3;
        bit<8> control = 1;
        const bit<8> A;
        a.b.c
    }
}
