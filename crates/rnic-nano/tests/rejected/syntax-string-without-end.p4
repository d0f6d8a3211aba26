@name("a string
const bit<8> A = 1;
