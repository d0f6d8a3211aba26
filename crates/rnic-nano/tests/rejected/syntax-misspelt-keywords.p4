heade h_t { bit<8> a; }
contorl C() {
    apply { }
}
control D() {
    tabel t { }
    acton a() { }
    aply { }
}
parser P() {
    sate start { }
}
control E() {
    apply {
        fi (x) { y = 1; }
        swich (x) { }
        retrun;
        esle { }
    }
}
