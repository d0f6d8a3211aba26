// The core library of P4_16, as far as this compiler knows it.

error {
    NoError,
    PacketTooShort,
    NoMatch
}

match_kind {
    exact,
    ternary,
    lpm
}

// What arrives, byte for byte.
extern packet_in {
    // Takes a header off the front.
    void extract<T>(out T hdr);
    // Leaves bits out: a multiple of 8.
    void advance(in bit<32> bits);
}

// What leaves.
extern packet_out {
    // Appends a header, or all headers of a struct, if valid.
    void emit<T>(in T hdr);
}

action NoAction() { }
