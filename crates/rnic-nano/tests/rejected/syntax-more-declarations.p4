header { bit<8> a; }
header h_t { bit<8>; bit<8> control; a; bit<8> b = 1; }
const A = 1;
const bit<8> B;
42;
enum bit<8> e_t { A = 1 B = 2 }
error { A; B }
const bit<8> AFTER = ;
