//! Writes a flow log to a byte stream and reads it back, with the same encoding as in the log's temporary file.

use super::FlowLog;
use super::file::{SIZE, decode, encode};
use std::io::{self, Read, Write};

impl FlowLog {
    /// Writes the records of the log to `out` in order of flow id, 64 bytes each.
    ///
    /// # Errors
    /// `out` cannot be written, or a record of the log is missing.
    pub fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        let mut written = 0;
        for record in self {
            if record.id as usize != written {
                break;
            }
            out.write_all(&encode(&record))?;
            written += 1;
        }
        match self.error() {
            Some(error) => Err(io::Error::other(error.to_string())),
            None if written < self.len() => Err(io::Error::other(format!("flow {written} has no record"))),
            None => Ok(()),
        }
    }

    /// Reads a log of `flows` records from bytes that [`FlowLog::write_to`] has written.
    ///
    /// # Errors
    /// `input` ends early or contains other data, or the log cannot store the records.
    pub fn read_from(input: &mut impl Read, flows: u32) -> io::Result<FlowLog> {
        let mut log = FlowLog::new();
        let mut bytes = [0; SIZE];
        for id in 0..flows {
            input.read_exact(&mut bytes)?;
            let record = decode(id, &bytes);
            log.put(record.ok_or_else(|| io::Error::other(format!("flow {id} has no record")))?);
        }
        log.close();
        log.error().map_or(Ok(()), |error| Err(io::Error::other(error.to_string())))?;
        Ok(log)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FlowRecord;

    fn flow(id: u32, bytes: u64) -> FlowRecord {
        FlowRecord::sample(id, bytes)
    }

    fn written(log: &FlowLog) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        log.write_to(&mut bytes).map(|()| bytes)
    }

    fn read(bytes: &[u8], flows: u32) -> io::Result<FlowLog> {
        FlowLog::read_from(&mut &*bytes, flows)
    }

    #[test]
    fn a_log_survives_writing_and_reading() {
        for flows in [0, 1, 3] {
            let log: FlowLog = (0..flows).map(|id| flow(id, 1_000 + u64::from(id))).collect();
            let bytes = written(&log).unwrap();
            assert_eq!(bytes.len(), flows as usize * 64);
            assert_eq!(written(&log.in_file()).unwrap(), bytes);
            assert_eq!(read(&bytes, flows).unwrap(), log);
        }
    }

    #[test]
    fn a_long_log_is_read_into_a_file() {
        let log: FlowLog = (0..super::super::IN_MEMORY as u32 + 1).map(|id| flow(id, 7)).collect();
        let again = read(&written(&log).unwrap(), log.len() as u32).unwrap();
        assert!(again.is_in_file() && again == log);
    }

    #[test]
    fn missing_records_are_errors() {
        let mut gap = FlowLog::new();
        gap.extend([flow(0, 1), flow(2, 1)]);
        assert_eq!(written(&gap).unwrap_err().to_string(), "flow 1 has no record");
        let log: FlowLog = (0..2).map(|id| flow(id, 1)).collect();
        assert!(written(&log.unreadable()).unwrap_err().to_string().contains("cannot be read"));
        let mut bytes = written(&log).unwrap();
        assert_eq!(read(&bytes, 3).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        bytes[127] = 0;
        assert_eq!(read(&bytes, 2).unwrap_err().to_string(), "flow 1 has no record");
    }
}
