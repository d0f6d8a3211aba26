//! What exists, by name: one line per transport and congestion control.

/// Name and one-line description.
pub type Entry = (&'static str, &'static str);

/// Transports, as a scenario's `transport` names them.
pub const TRANSPORTS: &[Entry] = &[
    ("roce", "RoCE NIC: go-back-N, NACK on the first packet out of order (or every one), fixed timeout; ACKs optional"),
    ("irn", "IRN: selective retransmission (bitmap SACK), BDP-FC, two timeouts; no lossless network needed"),
];

/// Congestion controls, as a scenario's `cc` names them.
pub const CONGESTION_CONTROLS: &[Entry] =
    &[("none", "No congestion control: line rate, bounded only by the transport's own flow control")];
