// The part of P4_16's core library that this compiler supports.

error {
    NoError,
    PacketTooShort,
    NoMatch,
    StackOutOfBounds,
    HeaderTooShort,
    ParserTimeout,
    ParserInvalidArgument
}

match_kind {
    exact,
    ternary,
    lpm
}

// The bytes of an arriving packet, from which the parser extracts headers.
extern packet_in {
    // Extracts a header: moves its bytes from the front of the packet into the fields of `hdr`.
    void extract<T>(out T hdr);
    // The next bits of the packet as a value of type T, without consuming them.
    T lookahead<T>();
    // Skips `bits` bits of the packet; the number must be a multiple of 8.
    void advance(in bit<32> bits);
    // Not supported: the pipeline sees the headers only.
    bit<32> length();
}

// The bytes of a departing packet, to which the deparser appends headers.
extern packet_out {
    // Appends the header `hdr` if it is valid. If `hdr` is a struct, appends all valid headers in it.
    void emit<T>(in T hdr);
}

action NoAction() { }
