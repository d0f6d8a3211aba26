#include "syntax-includes-itself.p4"
