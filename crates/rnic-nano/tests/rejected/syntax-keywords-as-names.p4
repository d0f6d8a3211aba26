const bit<8> header = 1;
struct table { bit<8> action; }
struct s_t { bit<8> action; bit<8> key; }
control C(in bit<8> in) { }
control D() {
    bit<8> state = 1;
    bit<8> out;
    action exit() { }
    apply { hdr.default = 1; }
}
