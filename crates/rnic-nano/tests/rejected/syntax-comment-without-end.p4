const bit<8> A = 1 /* begins
const bit<8> B = 2;
