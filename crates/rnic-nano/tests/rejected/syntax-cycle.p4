#include "syntax-cycle.inc"
const bit<8> A = 1;
