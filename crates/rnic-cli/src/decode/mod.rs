//! The command `rnic decode`: prints and checks the RoCE packets of a capture file.

mod capture;
mod fields;
mod packet;
mod print;

use crate::args::{DecodeArgs, DecodeFormat};
use capture::Captured;
use packet::{Found, Ports, examine};
use rnic_simulator::error::CliError;
use rnic_simulator::output;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

/// Numbers of frames in a capture file, by kind.
#[derive(Default)]
struct Counts {
    packets: u64,
    bad: u64,
    /// Number of packets that the capture contains only in part.
    truncated: u64,
    pfc: u64,
    /// Number of frames that are neither RoCE nor PFC, by the kind of frame.
    others: BTreeMap<String, u64>,
}

/// Prints a line for each RoCE packet in the file, and the numbers of frames on standard error.
pub(crate) fn decode(arguments: &DecodeArgs) -> Result<(), CliError> {
    let is_stdin = arguments.file.as_os_str() == "-";
    let name = if is_stdin { "standard input".to_string() } else { format!("`{}`", arguments.file.display()) };
    let unreadable = |why: String| CliError::Input(format!("cannot decode {name}: {why}"));
    let input: Box<dyn Read + Send> = match is_stdin {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(&arguments.file).map_err(|error| unreadable(error.to_string()))?),
    };
    let (mut counts, mut ports) = (Counts::default(), Ports::new(&arguments.port));
    let mut file = Ok(());
    output::print(|out| {
        let mut start = None;
        let read = capture::read(input, |captured| {
            let start = *start.get_or_insert(captured.ns);
            print(out, arguments, &captured, start, (&mut counts, &mut ports))
        });
        read.unwrap_or_else(|why| {
            file = Err(unreadable(why));
            Ok(())
        })
    })?;
    // If standard error is closed, this message is lost.
    let _ = writeln!(io::stderr(), "{}", counts.sentence());
    file?;
    match counts.bad {
        0 => Ok(()),
        1 => Err(CliError::Failed(vec![format!("a packet of {name} is bad")])),
        bad => Err(CliError::Failed(vec![format!("{bad} packets of {name} are bad")])),
    }
}

/// Why a capture file could not be decoded.
#[derive(Debug, thiserror::Error)]
pub enum Undecodable {
    /// The file could not be opened.
    #[error(transparent)]
    Io(io::Error),
    /// The file is not a capture file, or is damaged: one sentence.
    #[error("{0}")]
    Wrong(String),
}

/// Decodes a capture file as `rnic decode --format json` does: one document for each RoCE packet and PFC frame, with
/// all fields. `checksums` also checks the checksums of IPv4 headers and of UDP.
///
/// # Errors
/// The file cannot be read, or is not a capture file.
pub fn decode_file(path: &Path, checksums: bool) -> Result<Vec<Map<String, Value>>, Undecodable> {
    let input = File::open(path).map_err(Undecodable::Io)?;
    let arguments =
        DecodeArgs { file: path.into(), fields: true, checksums, port: Vec::new(), format: DecodeFormat::Json };
    let (mut documents, mut line) = (Vec::new(), Vec::new());
    let (mut counts, mut ports) = (Counts::default(), Ports::new(&[]));
    let read = capture::read(input, |captured| {
        line.clear();
        print(&mut line, &arguments, &captured, captured.ns, (&mut counts, &mut ports))?;
        for document in serde_json::Deserializer::from_slice(&line).into_iter() {
            documents.push(document?);
        }
        Ok::<(), io::Error>(())
    });
    read.map_err(Undecodable::Wrong)?.map_err(Undecodable::Io)?;
    Ok(documents)
}

fn print(
    out: &mut dyn Write, arguments: &DecodeArgs, captured: &Captured, start: i128,
    (counts, ports): (&mut Counts, &mut Ports),
) -> io::Result<()> {
    let is_text = arguments.format == DecodeFormat::Text;
    match examine(captured, arguments.checksums, ports) {
        Found::Packets(packets) => {
            for roce in packets {
                counts.packets += 1;
                counts.bad += u64::from(roce.bad.is_some());
                counts.truncated += u64::from(roce.missing > 0 && roce.bad.is_none());
                match is_text {
                    true => print::text(out, captured, start, &roce, arguments.fields)?,
                    false => print::json(out, captured, &roce)?,
                }
            }
            Ok(())
        }
        Found::Pfc { ethernet, pfc } => {
            counts.pfc += 1;
            match is_text {
                true => print::pfc_text(out, captured, start, ethernet.as_ref(), &pfc, arguments.fields),
                false => print::pfc_json(out, captured, ethernet.as_ref(), &pfc),
            }
        }
        Found::Malformed(why) => {
            counts.packets += 1;
            counts.bad += 1;
            match is_text {
                true => print::malformed_text(out, captured, start, why),
                false => print::malformed_json(out, captured, why),
            }
        }
        Found::Other(what) => {
            *counts.others.entry(what).or_default() += 1;
            Ok(())
        }
    }
}

impl Counts {
    fn sentence(&self) -> String {
        let mut parts = vec![format!("RoCE packets: {}", self.packets), format!("bad: {}", self.bad)];
        if self.truncated > 0 {
            parts.push(format!("truncated by the capture: {}", self.truncated));
        }
        if self.pfc > 0 {
            parts.push(format!("PFC frames: {}", self.pfc));
        }
        let total: u64 = self.others.values().sum();
        if total > 0 {
            let list: Vec<String> = self.others.iter().map(|(what, count)| format!("{count} {what}")).collect();
            parts.push(format!("other frames: {total} ({})", list.join(", ")));
        }
        parts.join("; ")
    }
}
