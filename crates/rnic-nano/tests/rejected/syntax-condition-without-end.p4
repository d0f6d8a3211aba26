#ifdef A
#ifndef B
const bit<8> C = 1;
#endif
