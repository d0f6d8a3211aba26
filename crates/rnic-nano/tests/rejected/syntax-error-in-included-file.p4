#include "syntax-error.inc"
const bit<8> B = 2
