control A() {
    x = 1;
    if (x) { }
    state start { }
    apply { }
    bit<8> late;
}
control B() {
    bit<8> a;
}
