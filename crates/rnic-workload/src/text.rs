//! Reads text files that users wrote.

use std::io::{Error, ErrorKind, Result};
use std::path::Path;

/// Reads a text file in UTF-8.
///
/// # Errors
/// The file cannot be read, or is no UTF-8 text; the error then says what it may be, and what to do.
pub fn read_text(path: &Path) -> Result<String> {
    decode(std::fs::read(path)?).map_err(|why| Error::new(ErrorKind::InvalidData, why))
}

fn decode(bytes: Vec<u8>) -> std::result::Result<String, String> {
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err("this is text in UTF-16; save the file as UTF-8".to_string());
    }
    String::from_utf8(bytes).map_err(|error| {
        let (at, bytes) = (error.utf8_error().valid_up_to(), error.as_bytes());
        let line = bytes[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
        format!(
            "this is not text in UTF-8: byte 0x{:02x} in line {line}; save the file as UTF-8, or name another file",
            bytes[at]
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_encodings_are_named() {
        let decoded = |bytes: &[u8]| decode(bytes.to_vec());
        assert_eq!(decoded("rate = \"5 µs\"".as_bytes()).as_deref(), Ok("rate = \"5 µs\""));
        let utf16 = "this is text in UTF-16; save the file as UTF-8";
        assert_eq!(decoded(b"\xff\xfe[\0f\0").unwrap_err(), utf16);
        assert_eq!(decoded(b"\xfe\xff\0[\0f").unwrap_err(), utf16);
        let message = "this is not text in UTF-8: byte 0xb5 in line 2; save the file as UTF-8, or name another file";
        assert_eq!(decoded(b"[fabric]\ndelay = \"5 \xb5s\"").unwrap_err(), message);
    }
}
