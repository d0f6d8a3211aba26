//! Writing to standard output, whose reader may close it at any time.

use crate::error::CliError;
use rnic_untrusted::text::{Printable, escaped};
use std::io::{self, BufWriter, ErrorKind, Write};

/// Calls `write` with the standard output. Names and texts in the output may come from files and devices of unknown
/// origin, so characters that a terminal would execute are replaced ([`Printable`]). If the reader has closed the
/// output, the result is [`CliError::NobodyReads`], with which the command ends without a message.
pub fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), CliError> {
    let mut out = Printable::new(BufWriter::new(io::stdout().lock()));
    let result = write(&mut out).and_then(|()| out.flush());
    // After an error, the buffer is discarded, because dropping the writer would write its contents again.
    let _ = out.into_inner().into_parts();
    result.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => CliError::NobodyReads,
        // This error means that the chosen format cannot represent the data. The output itself works.
        ErrorKind::InvalidInput => CliError::Input(error.to_string()),
        _ => CliError::Io { doing: "cannot write the output".to_string(), error },
    })
}

/// Prints a line on standard error. Parts of it may come from peers, files or devices, so control characters are
/// escaped ([`escaped`]). If standard error is closed, the line is lost.
pub fn note(line: &str) {
    let _ = writeln!(io::stderr(), "{}", escaped(line));
}

/// Number of columns of the terminal on standard output. Without a terminal: the value of the environment variable
/// `COLUMNS`, or 100.
#[expect(clippy::disallowed_methods, reason = "the width of a table is not a result")]
pub fn width() -> usize {
    let columns = || std::env::var("COLUMNS").ok()?.trim().parse().ok().filter(|columns| *columns > 0);
    comfy_table::Table::new().width().map(usize::from).or_else(columns).unwrap_or(100)
}
