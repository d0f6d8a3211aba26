control C( {
    apply { }
}
control D(in) { apply { } }
control E(in bit<8>) { apply { } }
control F(bit<8> a bit<8> b) { apply { } }
control G(out bit<8> a,) { apply { } }
control H() apply { }
control I() {
    action a { }
    action b() x = 1;
    apply { }
}
