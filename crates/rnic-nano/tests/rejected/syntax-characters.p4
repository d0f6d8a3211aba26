const bit<8> ä = 1;
const bit<8> B = 1 $ 2;
const bit<8> G = 1  2;
const bit<8> C = 3; 
@name(“x”) const bit<8> D = 4;
const bit<8> E = 5; // ä is fine here
@name("ä is fine here") const bit<8> F = \ 6;
const bit<8> 日本 = 7;
