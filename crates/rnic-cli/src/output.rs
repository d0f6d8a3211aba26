//! Standard output, whose reader may leave at any time.

use crate::error::CliError;
use std::io::{self, BufWriter, ErrorKind, Write};

/// Lets `write` fill standard output; a reader that went away ends it without a word.
pub(crate) fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), CliError> {
    let mut out = BufWriter::new(io::stdout().lock());
    let result = write(&mut out).and_then(|()| out.flush());
    // What is left in the buffer after an error must not be tried again on drop.
    let _ = out.into_parts();
    result.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => CliError::NobodyReads,
        // The format cannot hold what was asked for: nothing is wrong with the output.
        ErrorKind::InvalidInput => CliError::Input(error.to_string()),
        _ => CliError::Io { doing: "cannot write the output".to_string(), error },
    })
}

/// Columns of the terminal on standard output; 100 where there is none.
pub(crate) fn width() -> usize {
    comfy_table::Table::new().width().map_or(100, usize::from)
}
