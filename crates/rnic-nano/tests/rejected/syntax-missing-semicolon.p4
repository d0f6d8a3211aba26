header h_t {
    bit<8> a
    bit<8> b;
}
const bit<8> ONE = 1
control C() {
    apply {
        x = 1
        y = 2;
        f(x) g(y);
        z = 3
    }
}
