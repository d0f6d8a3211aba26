//! Reads where the ranks of a program run.

use super::extends::Files;
use super::reader::{Result, Table};
use crate::format::server::{self, ServerShape};
use rnic_spec::{Collective, Deployment, Placement, Server, Straggler};
use rnic_transport::settings::{Kind, MAX_RATE};
use rnic_transport::{BitRate, Time};

/// Reads the number of ranks, at most the number of hosts.
pub(super) fn read_ranks(table: &Table<'_>, hosts: u32) -> Result<u32> {
    match table.get("ranks") {
        Some(item) => item.narrowed(Kind::Count { min: 2, max: hosts.into() }).typed(),
        None => Ok(hosts),
    }
}

/// Reads where `ranks` ranks run on `hosts` hosts, and how they react.
pub(super) fn read(table: &Table<'_>, ranks: u32, hosts: u32, files: Files<'_>) -> Result<Deployment> {
    let placement: Placement = table.word("placement")?;
    let shape = read_shape(table, files)?;
    let mut deployment = Deployment {
        ranks,
        placement,
        placed: match (placement, table.get("placement_file")) {
            (Placement::File, _) => read_places(table, files)?.into(),
            (_, None) => [].into(),
            (_, Some(item)) => {
                let message = "`placement_file` has no effect on this placement";
                return Err(item.error(message, "set `placement = \"file\"`, or remove `placement_file`"));
            }
        },
        server: read_server(table, shape.as_ref())?,
        reaction: table.value("reaction")?,
        timeline: None,
    };
    if let Some(shape) = &shape {
        place_on_nics(&mut deployment, shape, table, hosts)?;
    }
    match (deployment.check_places(hosts), table.get("placement_file")) {
        (Err(error), Some(item)) => Err(item.wrong(error, "see docs/concepts/collectives.md")),
        _ => Ok(deployment),
    }
}

/// Reads the shape of the servers from the file of the key `server_file`; `None` without the key.
fn read_shape(table: &Table<'_>, files: Files<'_>) -> Result<Option<ServerShape>> {
    let Some(item) = table.get("server_file") else { return Ok(None) };
    let path = item.folder().join(item.name()?);
    let text = files.read(&path).map_err(|why| {
        let help = "accepted: a topology file of NCCL (XML), or a network file of ASTRA-sim (YAML)";
        item.wrong(format!("cannot read `{}`: {why}", path.display()), help)
    })?;
    let located = |(line, error): (u64, String)| match line {
        0 => item.sentence(&format!("{}: {error}", path.display())),
        line => item.sentence(&format!("{}:{line}: {error}", path.display())),
    };
    server::read(&text).map(Some).map_err(located)
}

/// Checks that the hosts of the fabric have the rate of the NICs in the file of the key `server_file`, if there is one.
/// `rate` is the rate of all hosts; `None` if it is not the same for all.
pub(super) fn check_nics(table: &Table<'_>, rate: Option<BitRate>, files: Files<'_>) -> Result<()> {
    let speed = read_shape(table, files)?.and_then(|shape| shape.speed);
    match (table.get("server_file"), speed, rate) {
        (Some(item), Some(speed), Some(rate)) if speed != rate => {
            let message = format!("the NICs of the file have {speed}, and the hosts of the fabric {rate}");
            Err(item.error(message, "give [fabric] the rate of the file, or change the file"))
        }
        _ => Ok(()),
    }
}

/// Puts each rank on the host of its NIC: the hosts that a placement gives a server are the NICs of the server, in
/// their order.
fn place_on_nics(deployment: &mut Deployment, shape: &ServerShape, table: &Table<'_>, hosts: u32) -> Result<()> {
    let (ranks, accelerators) = (deployment.ranks, shape.accelerators);
    if shape.nics.iter().copied().eq(0..accelerators) || !ranks.is_multiple_of(accelerators) {
        return Ok(());
    }
    let servers = ranks / accelerators;
    let host = |rank: u32| {
        let (server, nic) = (rank / accelerators, shape.nics[(rank % accelerators) as usize]);
        match deployment.placement {
            Placement::Linear => Some(server * accelerators + nic),
            Placement::Rail => Some(nic * servers + server),
            Placement::Random | Placement::File => None,
        }
    };
    match (0..ranks).map(host).collect::<Option<Vec<u32>>>() {
        Some(placed) if ranks <= hosts => {
            deployment.placed = placed.into();
            deployment.placement = Placement::File;
            Ok(())
        }
        Some(_) => Ok(()),
        None if deployment.placement == Placement::File => Ok(()),
        None => {
            let message = "the accelerators of the server file are not in the order of their NICs";
            Err(table.error_at("placement", message, "accepted: \"linear\", \"rail\", \"file\""))
        }
    }
}

/// Reads the host of each rank from the file of the key `placement_file`.
fn read_places(table: &Table<'_>, files: Files<'_>) -> Result<Vec<u32>> {
    let item = table.require("placement_file")?;
    let name = item.name()?;
    let text = files.read(&item.folder().join(name)).map_err(|why| {
        item.wrong(format!("cannot read `{name}`: {why}"), "accepted: a CSV file with the columns rank and host")
    })?;
    places(&text)
        .map_err(|error| item.wrong(format!("{name}: {error}"), "accepted: rank,host in the first line, then numbers"))
}

/// The host of each rank, of a text with the columns `rank` and `host`.
fn places(text: &str) -> std::result::Result<Vec<u32>, String> {
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let header = lines.next().map(|(_, line)| line.split(',').map(str::trim).collect::<Vec<_>>());
    let columns = header.as_deref().unwrap_or_default();
    let place = |name: &str| columns.iter().position(|column| *column == name);
    let (Some(rank), Some(host), 2) = (place("rank"), place("host"), columns.len()) else {
        return Err("line 1: the columns are not `rank` and `host`".to_string());
    };
    let mut rows: Vec<(u32, u32, u32)> = Vec::new();
    for (line, text) in lines {
        let fields: Vec<&str> = text.split(',').map(str::trim).collect();
        let number = |column: usize| fields.get(column).and_then(|field| field.parse::<u32>().ok());
        match (number(rank), number(host), fields.len()) {
            (Some(rank), Some(host), 2) => rows.push((rank, host, line)),
            _ => return Err(format!("line {line}: \"{}\" is not a rank and a host", text.trim().escape_debug())),
        }
    }
    rows.sort_unstable();
    for (expected, (rank, _, line)) in (0u32..).zip(&rows) {
        if *rank != expected {
            let what = if *rank < expected { "is there twice" } else { "follows a rank that is missing" };
            return Err(format!("line {line}: rank {rank} {what}"));
        }
    }
    Ok(rows.into_iter().map(|(_, host, _)| host).collect())
}

/// Reads the bytes between the ranks of a group of `group` ranks from the file of the key `matrix`, row by row; none
/// without the key.
pub(super) fn read_matrix(table: &Table<'_>, group: u32, files: Files<'_>) -> Result<Vec<u64>> {
    let Some(item) = table.get("matrix") else { return Ok(Vec::new()) };
    let name = item.name()?;
    let help = format!("accepted: {group} rows of {group} numbers of bytes, separated by commas");
    if group > Collective::MAX_MATRIX {
        let most = Collective::MAX_MATRIX;
        return Err(item
            .wrong(format!("a matrix for groups of {group} ranks is too large"), format!("accepted: at most {most}")));
    }
    let text = files.read(&item.folder().join(name));
    let text = text.map_err(|why| item.wrong(format!("cannot read `{name}`: {why}"), help.clone()))?;
    matrix(&text, group).map_err(|error| item.wrong(format!("{name}: {error}"), help))
}

/// The numbers of a square of text.
fn matrix(text: &str, group: u32) -> std::result::Result<Vec<u64>, String> {
    let mut all = Vec::new();
    let mut rows = 0;
    for (line, text) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        rows += 1;
        let before = all.len();
        for field in text.split(',').map(str::trim) {
            match field.parse::<u64>() {
                Ok(bytes) if bytes <= rnic_trace::MAX_BYTES => all.push(bytes),
                _ => return Err(format!("line {line}: \"{}\" is not a number of bytes", field.escape_debug())),
            }
        }
        if all.len() - before != group as usize {
            return Err(format!("line {line}: the row has {} numbers", all.len() - before));
        }
    }
    if rows == group { Ok(all) } else { Err(format!("the file has {rows} rows")) }
}

/// Reads the servers, if they have several accelerators. Keys of the table replace values of the file, `shape`.
fn read_server(table: &Table<'_>, shape: Option<&ServerShape>) -> Result<Option<Server>> {
    if let Some(ServerShape { accelerators, rate, latency, .. }) = shape {
        if let Some(item) = table.get("accelerators") {
            let message = "`accelerators` and `server_file` are both given";
            return Err(item.error(message, "the file has the number of accelerators: remove one of them"));
        }
        let rate = match (table.given("domain_rate")?, rate) {
            (Some(given), _) => given,
            (None, Some(rate)) => *rate,
            (None, None) => {
                let help = "add `domain_rate`, the rate of an accelerator's port inside the server";
                return Err(table.error_at("server_file", "the server file has no NVLinks", help));
            }
        };
        if rate > MAX_RATE {
            let message = format!("the accelerators of the server file have {rate}");
            return Err(table.error_at(
                "server_file",
                message,
                "accepted: at most 10 Tbps; `domain_rate` replaces the rate",
            ));
        }
        let latency = match (table.given::<Time>("domain_latency")?, latency) {
            (None, Some(latency)) => *latency,
            _ => table.value("domain_latency")?,
        };
        return Ok(Some(Server { accelerators: *accelerators, rate, latency }));
    }
    let accelerators: u32 = table.value("accelerators")?;
    if accelerators > 1 {
        let (rate, latency) = (table.value("domain_rate")?, table.value("domain_latency")?);
        return Ok(Some(Server { accelerators, rate, latency }));
    }
    match ["domain_rate", "domain_latency"].iter().find_map(|key| Some((key, table.get(key)?))) {
        None => Ok(None),
        Some((key, item)) => {
            let message = format!("`{key}` has no effect on servers with one accelerator");
            Err(item.error(message, format!("set `accelerators`, or remove `{key}`")))
        }
    }
}

/// Reads the rank that computes longer than the others.
pub(super) fn read_straggler(table: &Table<'_>) -> Result<Option<Straggler>> {
    match (table.given("straggler")?, table.get("straggler_delay")) {
        (Some(rank), Some(delay)) => Ok(Some(Straggler { rank, delay: delay.typed()? })),
        (None, None) => Ok(None),
        (Some(_), None) => table.require("straggler_delay").map(|_| None),
        (None, Some(delay)) => {
            Err(delay.error("`straggler_delay` has no effect without a straggler", "set `straggler` to a rank"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_ranks() {
        assert_eq!(places("rank,host\n1,5\n0,7\n"), Ok(vec![7, 5]));
        assert_eq!(places(" host , rank\n\n5,1\n7,0"), Ok(vec![7, 5]));
        let error = |text| places(text).unwrap_err();
        assert_eq!(error(""), "line 1: the columns are not `rank` and `host`");
        assert_eq!(error("rank,host,x\n"), "line 1: the columns are not `rank` and `host`");
        assert_eq!(error("rank,host\n0,1\n0,2"), "line 3: rank 0 is there twice");
        assert_eq!(error("rank,host\n0,1\n2,2"), "line 3: rank 2 follows a rank that is missing");
        assert_eq!(error("rank,host\n0,-1"), "line 2: \"0,-1\" is not a rank and a host");
    }

    #[test]
    fn matrices() {
        assert_eq!(matrix("0,1\n2 , 0\n", 2), Ok(vec![0, 1, 2, 0]));
        let error = |text| matrix(text, 2).unwrap_err();
        assert_eq!(error("0,1\n"), "the file has 1 rows");
        assert_eq!(error("0,1\n\n1"), "line 3: the row has 1 numbers");
        assert_eq!(error("0,1\n1,1e3"), "line 2: \"1e3\" is not a number of bytes");
    }
}
