extern E {
    E(bit<32> size)
    void f(in bit<8> x;
    g(in bit<8> x);
    bit<8> h();
}
extern f(in bit<8> x);
extern void g(in bit<8> x) { }
package P(A a)
extern X<> { }
