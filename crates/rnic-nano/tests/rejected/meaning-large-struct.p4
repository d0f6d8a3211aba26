#include <core.p4>
#include <nanotransport.p4>
struct s0_t { bit<8> a; bit<8> b; }
struct s1_t { s0_t a; s0_t b; }
struct s2_t { s1_t a; s1_t b; }
struct s3_t { s2_t a; s2_t b; }
struct s4_t { s3_t a; s3_t b; }
struct s5_t { s4_t a; s4_t b; }
struct s6_t { s5_t a; s5_t b; }
struct s7_t { s6_t a; s6_t b; }
struct s8_t { s7_t a; s7_t b; }
struct s9_t { s8_t a; s8_t b; }
struct s10_t { s9_t a; s9_t b; }
struct s11_t { s10_t a; s10_t b; }
struct s12_t { s11_t a; s11_t b; }
struct s13_t { s12_t a; s12_t b; }
struct s14_t { s13_t a; s13_t b; }
struct s15_t { s14_t a; s14_t b; }
struct s16_t { s15_t a; s15_t b; }
struct s17_t { s16_t a; s16_t b; }
struct s18_t { s17_t a; s17_t b; }
struct s19_t { s18_t a; s18_t b; }
control C() { s14_t x; s14_t y; apply { } }
