//! Reads the output of `mlnx_qos -i IF`, as printed by MLNX_OFED 4.2 or later and by mlnx-tools.

use super::{Class, Qos, Remarks};
use crate::input::{InputError, shown};
use crate::lint::switch::Map;
use std::str::FromStr;

/// Parses the output. A line that no known version of the tool prints is reported as unknown.
pub(crate) fn parse(text: &str, file: &str, remarks: &mut Remarks<'_>) -> Result<Qos, InputError> {
    let mut qos = Qos::default();
    let mut has_pfc = false;
    let mut class: Option<u8> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        let wrong = |message: String| InputError::line(file, number, message);
        if line.is_empty()
            || line.starts_with("priority ")
            || line == "PFC configuration:"
            || line == "dscp2prio mapping:"
        {
        } else if let Some(state) = line.strip_prefix("Priority trust state:") {
            qos.trust = match state.trim() {
                state @ ("dscp" | "pcp") => state.to_string(),
                // "both" and "none" are trust states in other tools of the driver.
                other => return Err(wrong(format!("`{}` is no trust state; accepted: dscp, pcp", shown(other)))),
            };
        } else if let Some(rest) = line.strip_prefix("prio:") {
            let (priority, dscps) = rest.split_once("dscp:").ok_or_else(|| wrong("no `dscp:` in this line".into()))?;
            let priority = within(priority, 7).map_err(&wrong)?;
            let map = qos.dscp_to_priority.get_or_insert_with(Map::new);
            for dscp in dscps.split(',').map(str::trim).filter(|dscp| !dscp.is_empty()) {
                map.insert(within(dscp, 63).map_err(&wrong)?, priority);
            }
        } else if let Some(rest) = line.strip_prefix("Receive buffer size (bytes):") {
            let sizes = rest.split(',').map(str::trim).filter(|part| !part.is_empty() && !part.contains('='));
            qos.buffers = Some(sizes.map(number_of).collect::<Result<_, _>>().map_err(&wrong)?);
        } else if let Some(length) = line.strip_prefix("Cable len:") {
            qos.length = Some(number_of(length).map_err(&wrong)?);
        } else if let Some(bits) = line.strip_prefix("enabled") {
            let bits = eight(bits, 1).map_err(&wrong)?;
            qos.pfc = (0..8).filter(|priority| bits[usize::from(*priority)] == 1).collect();
            has_pfc = true;
        } else if let Some(buffers) = line.strip_prefix("buffer") {
            qos.priority_to_buffer = Some(eight(buffers, 7).map_err(&wrong)?);
        } else if let Some(rest) = line.strip_prefix("tc:") {
            let (number, parsed) = parse_class(rest).map_err(&wrong)?;
            qos.classes.insert(number, parsed);
            class = Some(number);
        } else if let Some(priority) = line.strip_prefix("priority:") {
            let priority = within(priority, 7).map_err(&wrong)?;
            let class = class.and_then(|number| qos.classes.get_mut(&number));
            class.ok_or_else(|| wrong("a priority before the first `tc:`".into()))?.priorities.insert(priority);
        } else if !line.starts_with("DCBX mode:") {
            remarks.unknown(format!("{file}:{number}"), format!("unknown line `{}`", shown(line)));
        }
    }
    match (qos.trust.is_empty(), has_pfc) {
        (false, true) => Ok(qos),
        (true, _) => Err(InputError::line(file, 1, "no line `Priority trust state:`; is this the output of mlnx_qos?")),
        (false, false) => Err(InputError::line(
            file,
            text.lines().count(),
            "the PFC configuration is missing; is the file truncated?",
        )),
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
