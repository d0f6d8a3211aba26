// Division by a variable, which a pipeline lacks: the product with a reciprocal from a table.

// Computes a / b with 16 fractional bits, modulo 2^64; b is not 0. The error is at most 0.2 %.
control Quotient(in bit<64> a, in bit<32> b, out bit<64> quotient) {
    bit<64> reciprocal = 0;
    bit<32> leading;

    action is(bit<64> value) {
        reciprocal = value;
    }
    table reciprocals {
        key = { leading[30:23] : exact; }
        actions = { is; }
        const entries = {
#include "reciprocals.p4"
        }
    }

    apply {
        // Normalises the divisor: shifts its leading one to bit 31. The steps shift by 16, 8, 4, 2 and 1 bits, each
        // only if the upper half, quarter, eighth and so on is zero.
        bit<8> exponent = 31;
        leading = b;
        if (leading[31:16] == 0) { leading = leading << 16; exponent = exponent - 16; }
        if (leading[31:24] == 0) { leading = leading << 8; exponent = exponent - 8; }
        if (leading[31:28] == 0) { leading = leading << 4; exponent = exponent - 4; }
        if (leading[31:30] == 0) { leading = leading << 2; exponent = exponent - 2; }
        if (leading[31:31] == 0) { leading = leading << 1; exponent = exponent - 1; }
        reciprocals.apply();
        quotient = (a * reciprocal) >> exponent;
    }
}
