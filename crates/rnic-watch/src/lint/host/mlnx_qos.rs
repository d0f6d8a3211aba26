//! Reads the output of `mlnx_qos -i IF`, as printed by MLNX_OFED 4.2 or later and by mlnx-tools.

use super::{Class, Qos, Remarks};
use crate::input::{InputError, shown};
use crate::lint::switch::Map;
use std::str::FromStr;

/// Parses the output. A line that no known version of the tool prints is reported as unknown, and a malformed line is
/// an error; the other lines are still read.
pub(crate) fn parse(text: &str, file: &str, remarks: &mut Remarks<'_>) -> Result<Qos, InputError> {
    let mut parser = Parser::default();
    for (number, line) in (1..).zip(text.lines()) {
        match parser.line(line.trim()) {
            Ok(true) => {}
            Ok(false) => remarks.unknown(format!("{file}:{number}"), format!("unknown line `{}`", shown(line.trim()))),
            Err(message) => remarks.errors.push(InputError::line(file, number, message)),
        }
    }
    match (parser.qos.trust.is_empty(), parser.has_pfc) {
        (false, true) => Ok(parser.qos),
        (true, _) => Err(InputError::line(file, 1, "no line `Priority trust state:`; is this the output of mlnx_qos?")),
        (false, false) => Err(InputError::line(
            file,
            text.lines().count(),
            "the PFC configuration is missing; is the file truncated?",
        )),
    }
}

/// The settings of the lines that were read so far.
#[derive(Default)]
struct Parser {
    qos: Qos,
    has_pfc: bool,
    /// The transmission class of the latest line `tc:`.
    class: Option<u8>,
}

impl Parser {
    /// Reads a line; returns whether the line is known.
    fn line(&mut self, line: &str) -> Result<bool, String> {
        let qos = &mut self.qos;
        if line.is_empty()
            || line.starts_with("priority ")
            || line.starts_with("DCBX mode:")
            || line == "PFC configuration:"
            || line == "dscp2prio mapping:"
            || line == "Priority trust state is not supported on your system"
        {
        } else if let Some(state) = line.strip_prefix("Priority trust state:") {
            qos.trust = match state.trim() {
                state @ ("dscp" | "pcp" | "both" | "none") => state.to_string(),
                other => {
                    return Err(format!("`{}` is not a trust state; accepted: dscp, pcp, both, none", shown(other)));
                }
            };
        } else if let Some(rest) = line.strip_prefix("prio:") {
            let (priority, dscps) = rest.split_once("dscp:").ok_or("no `dscp:` in this line")?;
            let priority = within(priority, 7)?;
            let map = qos.dscp_to_priority.get_or_insert_with(Map::new);
            for dscp in dscps.split(',').map(str::trim).filter(|dscp| !dscp.is_empty()) {
                map.insert(within(dscp, 63)?, priority);
            }
        } else if let Some(rest) = line.strip_prefix("Receive buffer size (bytes):") {
            let sizes = rest.split(',').map(str::trim).filter(|part| !part.is_empty() && !part.contains('='));
            let sizes: Vec<u64> = sizes.map(number_of).collect::<Result<_, _>>()?;
            qos.buffers = Some(sizes).filter(|sizes| !sizes.is_empty());
        } else if let Some(length) = line.strip_prefix("Cable len:") {
            qos.length = Some(length.trim()).filter(|text| !text.is_empty()).map(number_of).transpose()?;
        } else if let Some(bits) = line.strip_prefix("enabled") {
            let bits = eight(bits, 1)?;
            qos.pfc = (0..8).filter(|priority| bits[usize::from(*priority)] == 1).collect();
            self.has_pfc = true;
        } else if let Some(buffers) = line.strip_prefix("buffer") {
            qos.priority_to_buffer = Some(eight(buffers, 7)?);
        } else if let Some(rest) = line.strip_prefix("tc:") {
            self.class = None;
            let (number, parsed) = parse_class(rest)?;
            qos.classes.insert(number, parsed);
            self.class = Some(number);
        } else if let Some(priority) = line.strip_prefix("priority:") {
            let priority = within(priority, 7)?;
            let class = self.class.and_then(|number| qos.classes.get_mut(&number));
            class.ok_or("a priority without a valid line `tc:` before it")?.priorities.insert(priority);
        } else {
            return Ok(false);
        }
        Ok(true)
    }
}

fn number_of<N: FromStr>(text: &str) -> Result<N, String> {
    text.trim().parse().map_err(|_| format!("`{}` is not a number", shown(text.trim())))
}

fn within(text: &str, max: u8) -> Result<u8, String> {
    let number: u8 = number_of(text)?;
    if number <= max { Ok(number) } else { Err(format!("{number} is out of range; accepted: 0 to {max}")) }
}

/// Eight numbers up to `max`, one for each priority.
fn eight(text: &str, max: u8) -> Result<Vec<u8>, String> {
    let numbers: Vec<u8> = text.split_whitespace().map(|part| within(part, max)).collect::<Result<_, _>>()?;
    if numbers.len() == 8 {
        Ok(numbers)
    } else {
        Err(format!("{} values; accepted: 8, one for each priority", numbers.len()))
    }
}

/// Parses ` 0 ratelimit: unlimited, tsa: ets, bw: 10%`.
fn parse_class(text: &str) -> Result<(u8, Class), String> {
    let (number, rest) = text.trim().split_once(' ').ok_or("no settings after the number of the class")?;
    let mut class = Class::default();
    for setting in rest.split(',') {
        match setting.trim().split_once(':').map(|(key, value)| (key, value.trim())) {
            Some(("ratelimit", limit)) => class.rate_limit = limit.to_string(),
            Some(("tsa", tsa @ ("ets" | "strict" | "vendor" | "unknown"))) => class.algorithm = tsa.to_string(),
            Some(("bw", share)) => {
                class.bandwidth = Some(within(share.trim_end_matches('%'), 100)?);
            }
            _ => return Err(format!("`{}` is unknown; accepted: ratelimit, tsa, bw", shown(setting.trim()))),
        }
    }
    Ok((within(number, 7)?, class))
}
