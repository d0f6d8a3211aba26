//! The links between ports, from LLDP neighbours, SONiC's DEVICE_NEIGHBOR, or a file with all links.

use crate::dump::Dump;
use crate::input::{InputError, Place, shown};
use serde_json::Value;
use std::collections::BTreeMap;

/// A port of a device.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct End {
    pub(crate) device: String,
    pub(crate) port: String,
}

impl End {
    pub(crate) fn new(device: &str, port: &str) -> End {
        End { device: device.to_string(), port: port.to_string() }
    }
}

/// A neighbour as LLDP describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Neighbour {
    /// Name of the neighbouring device.
    pub(crate) device: String,
    /// Candidates for the name of the neighbour's port: the port identifier and the port description.
    pub(crate) ports: Vec<String>,
}

/// The neighbours by local port.
pub(crate) type Neighbours = BTreeMap<String, Neighbour>;

/// A link from a file with all links.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PlannedLink {
    pub(crate) ends: [End; 2],
    /// Length in metres.
    pub(crate) length: Option<u64>,
    pub(crate) line: usize,
}

/// What the reader of an LLDP file returns: the neighbours, and a (line or port, description) for each item that it
/// could not use.
type Parsed = (Neighbours, Vec<(String, String)>);

/// Reads the LLDP neighbours of a device from `lldp.json` (`lldpctl -f json` or `-f json0`) or `lldp.txt` (`show lldp
/// table`). Returns also the items of the file that could not be used, with their paths.
pub(crate) fn read(dump: &Dump) -> Result<Parsed, InputError> {
    let (file, parsed) = match (dump.read("lldp.json")?, dump.read("lldp.txt")?) {
        (Some(text), _) => ("lldp.json", parse_json(&text, &dump.called("lldp.json"))?),
        (None, Some(text)) => ("lldp.txt", parse_table(&text, &dump.called("lldp.txt"))?),
        (None, None) => return Ok(Parsed::default()),
    };
    let (neighbours, skipped) = parsed;
    Ok((neighbours, skipped.into_iter().map(|(at, text)| (format!("{file}:{at}"), text)).collect()))
}

/// The members of a value that is one object or a list of objects: lldpctl writes a list only if there are several.
fn members(value: &Value) -> Vec<(&String, &Value)> {
    match value {
        Value::Object(map) => map.iter().collect(),
        Value::Array(list) => list.iter().filter_map(Value::as_object).flatten().collect(),
        _ => Vec::new(),
    }
}

/// The items of a list; a value that is not a list counts as a list with one item.
fn items(value: Option<&Value>) -> &[Value] {
    match value {
        Some(Value::Array(list)) => list,
        Some(value) => std::slice::from_ref(value),
        None => &[],
    }
}

/// The text of a property: `"x"`, or `[{"value": "x"}]` in the format json0.
fn text_of<'v>(properties: &'v Value, name: &str) -> Option<&'v str> {
    let found = items(properties.get(name)).first()?;
    found.as_str().or_else(|| found.get("value")?.as_str()).filter(|text| !text.is_empty())
}

/// Parses the output of `lldpctl -f json`, or of `lldpctl -f json0`, in which every value is a list.
pub(crate) fn parse_json(text: &str, file: &str) -> Result<Parsed, InputError> {
    let value: Value = serde_json::from_str(text).map_err(|error| {
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or(&message).to_string();
        InputError::new(file, Place::Column(error.line(), error.column()), message)
    })?;
    let wrong = |message: &str| InputError::new(file, Place::File, message);
    let lldp =
        value.get("lldp").ok_or_else(|| wrong("has no member `lldp`; is this the output of lldpctl -f json?"))?;
    let (mut neighbours, mut skipped) = Parsed::default();
    for lldp in items(Some(lldp)) {
        if !lldp.is_object() {
            return Err(wrong("`lldp` is not an object or a list of objects; is this the output of lldpctl -f json?"));
        }
        for interface in items(lldp.get("interface")) {
            // In json0 an interface has its name as a property; in json the name is the key of its properties.
            let named: Vec<(&str, &Value)> = match interface.get("name").and_then(Value::as_str) {
                Some(name) => vec![(name, interface)],
                None => members(interface).into_iter().map(|(name, properties)| (name.as_str(), properties)).collect(),
            };
            if named.is_empty() {
                skipped.push((String::new(), "an interface without a name".to_string()));
            }
            for (local, properties) in named {
                match neighbour(properties) {
                    Some(neighbour) => drop(neighbours.insert(local.to_string(), neighbour)),
                    None => skipped.push((local.to_string(), "the neighbour has no name".to_string())),
                }
            }
        }
    }
    Ok((neighbours, skipped))
}

/// The neighbour in the properties of an interface; `None` if the neighbour states no name.
fn neighbour(properties: &Value) -> Option<Neighbour> {
    // In json the name of the chassis is the key of its properties. If the chassis has no name, its members are
    // properties.
    let chassis = properties.get("chassis");
    let key = || {
        let members = chassis.map(members).unwrap_or_default();
        members.into_iter().find(|(_, properties)| properties.get("id").is_some()).map(|(name, _)| name.clone())
    };
    let name = items(chassis).first().and_then(|chassis| text_of(chassis, "name"));
    let device = name.map(str::to_string).or_else(key)?;
    let port = items(properties.get("port")).first();
    let texts = ["id", "descr"].into_iter().filter_map(|name| text_of(port?, name));
    Some(Neighbour { device, ports: texts.map(str::to_string).collect() })
}

/// Parses the output of SONiC's `show lldp table`. Its columns are separated by at least two spaces.
pub(crate) fn parse_table(text: &str, file: &str) -> Result<Parsed, InputError> {
    let (mut neighbours, mut skipped) = Parsed::default();
    let mut in_table = false;
    for (number, line) in (1..).zip(text.lines()) {
        if line.starts_with("---") {
            in_table = line.contains(' ');
        } else if in_table && !line.trim().is_empty() {
            let columns: Vec<&str> = line.split("  ").map(str::trim).filter(|column| !column.is_empty()).collect();
            let [local, device, id, rest @ ..] = columns.as_slice() else {
                skipped.push((number.to_string(), format!("`{}` has no neighbour and port", shown(line.trim()))));
                continue;
            };
            // If the capability column is empty, the description is the last column.
            let ports = [*id].into_iter().chain(rest.last().copied()).map(str::to_string).collect();
            neighbours.insert((*local).to_string(), Neighbour { device: (*device).to_string(), ports });
        }
    }
    if !text.contains("LocalPort") {
        return Err(InputError::line(file, 1, "no column LocalPort; is this the output of show lldp table?"));
    }
    Ok((neighbours, skipped))
}

/// Parses a file with all links. Each line has the form `device,port,device,port`, optionally followed by the length in
/// metres; `#` begins a comment.
pub(crate) fn parse_links(text: &str, file: &str) -> Result<Vec<PlannedLink>, InputError> {
    let mut links: Vec<PlannedLink> = Vec::new();
    let mut used = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let parts: Vec<&str> = line.split(',').map(str::trim).collect();
        let wrong = |message: String| InputError::line(file, number, message);
        let (ends, length) = match parts.as_slice() {
            [a, b, c, d] => ([End::new(a, b), End::new(c, d)], None),
            [a, b, c, d, length] => ([End::new(a, b), End::new(c, d)], Some(*length)),
            _ => {
                let found = parts.len();
                return Err(wrong(format!(
                    "{found} fields; accepted: device,port,device,port or with a length in metres"
                )));
            }
        };
        if ends.iter().any(|end| end.device.is_empty() || end.port.is_empty()) {
            return Err(wrong("the name of a device or port is empty".to_string()));
        }
        let length = length.map(|text| {
            let metres = text.strip_suffix('m').unwrap_or(text).trim().parse::<u64>();
            metres.map_err(|_| wrong(format!("`{}` is not a length in metres", shown(text))))
        });
        for end in &ends {
            if let Some(before) = used.insert(end.clone(), number) {
                return Err(wrong(format!("{} {} is already in line {before}", shown(&end.device), shown(&end.port))));
            }
        }
        links.push(PlannedLink { ends, length: length.transpose()?, line: number });
    }
    Ok(links)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lldp_is_read_in_both_formats() {
        let several = r#"{"lldp": {"interface": [
            {"Ethernet0": {"via": "LLDP", "chassis": {"spine1": {"id": {"type": "mac", "value": "aa"}}},
              "port": {"id": {"type": "local", "value": "etp4"}, "descr": "Ethernet12"}}},
            {"Ethernet4": {"chassis": {"id": {"type": "mac", "value": "bb"}}, "port": {}}}]}}"#;
        let one = r#"{"lldp": {"interface": {"Ethernet0": {"chassis": {"spine1": {"id": {}}},
            "port": {"id": {"type": "local", "value": "etp4"}, "descr": "Ethernet12"}}}}}"#;
        let text = "Capability codes: (R) Router, (B) Bridge, (O) Other\n\
            LocalPort    RemoteDevice    RemotePortID    Capability    RemotePortDescr\n\
            -----------  --------------  --------------  ------------  -----------------\n\
            Ethernet0    spine1          etp4            BR            Ethernet12\n\
            --------------------------------------------------\nTotal entries displayed:  1\n";
        let expected = Neighbour { device: "spine1".into(), ports: vec!["etp4".into(), "Ethernet12".into()] };
        let expected = Neighbours::from([("Ethernet0".to_string(), expected)]);
        let nameless = vec![("Ethernet4".to_string(), "the neighbour has no name".to_string())];
        assert_eq!(parse_json(several, "l").unwrap(), (expected.clone(), nameless));
        assert_eq!(parse_json(one, "l").unwrap(), (expected.clone(), vec![]));
        assert_eq!(parse_table(text, "l").unwrap(), (expected.clone(), vec![]));
        assert_eq!(parse_json("{\"lldp\": {}}", "l").unwrap(), Parsed::default());
        assert!(parse_json("{\"lldp\": 3}", "l").unwrap_err().to_string().contains("is not an object"));
        let cut = text.replace("Ethernet12\n", "Ethernet12\nEthernet4    spine2\n");
        let skipped = vec![("5".to_string(), "`Ethernet4    spine2` has no neighbour and port".to_string())];
        assert_eq!(parse_table(&cut, "l").unwrap(), (expected, skipped));
        assert_eq!(parse_json("{", "l").unwrap_err().to_string(), "l:1:1: EOF while parsing an object");
        assert!(parse_json("{}", "l").unwrap_err().to_string().contains("lldpctl"));
        assert!(parse_table("x", "l").unwrap_err().to_string().contains("show lldp table"));
    }

    /// In `lldpctl -f json0` every value is a list, and names are properties.
    #[test]
    fn json0_is_read() {
        let text = r#"{"lldp": [{"interface": [
            {"name": "Ethernet0", "via": "LLDP",
             "chassis": [{"id": [{"type": "mac", "value": "aa"}], "name": [{"value": "spine1"}]}],
             "port": [{"id": [{"type": "local", "value": "etp4"}], "descr": [{"value": "Ethernet12"}]}]},
            {"name": "Ethernet4", "chassis": [{"id": [{"type": "mac", "value": "bb"}]}], "port": [{}]}]}]}"#;
        let (neighbours, skipped) = parse_json(text, "l").unwrap();
        let expected = Neighbour { device: "spine1".into(), ports: vec!["etp4".into(), "Ethernet12".into()] };
        assert_eq!(neighbours, Neighbours::from([("Ethernet0".to_string(), expected)]));
        assert_eq!(skipped, [("Ethernet4".to_string(), "the neighbour has no name".to_string())]);
    }

    #[test]
    fn links_are_read_from_a_file() {
        let text = "# pod 1\nleaf1,Ethernet0,spine1,Ethernet0,40\nleaf1, Ethernet4, h1, eth0 # short\n\n";
        let links = parse_links(text, "c").unwrap();
        assert_eq!((links.len(), links[0].length, links[1].length, links[1].line), (2, Some(40), None, 3));
        assert_eq!(links[1].ends[1], End::new("h1", "eth0"));
        let error = |text| parse_links(text, "c").unwrap_err().to_string();
        assert_eq!(error("a,b,c\n"), "c:1: 3 fields; accepted: device,port,device,port or with a length in metres");
        assert_eq!(error("a,b,c,d\nx,y,a,b\n"), "c:2: a b is already in line 1");
        assert_eq!(error("a,b,c,d,far\n"), "c:1: `far` is not a length in metres");
        assert_eq!(error("a,,c,d\n"), "c:1: the name of a device or port is empty");
    }
}
