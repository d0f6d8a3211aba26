@ const bit<8> A = 1;
@name("x" const bit<8> B = 1;
@name(anything; goes) const bit<8> C = 1;
@[x] const bit<8> D = 1;
@"x" const bit<8> E = ;
