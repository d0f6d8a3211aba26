// The part of P4_16's core library that this compiler supports.

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

// The bytes of an arriving packet.
extern packet_in {
    // Extracts a header: moves its bytes from the front of the packet into `hdr`.
    void extract<T>(out T hdr);
    // Skips `bits` bits, a multiple of 8.
    void advance(in bit<32> bits);
}

// The bytes of a departing packet.
extern packet_out {
    // Appends a header if it is valid, or all valid headers of a struct.
    void emit<T>(in T hdr);
}

action NoAction() { }
