//! The environment variables `RNIC_...`, by which users set up the library in programs that do not know it.

use rnic_endpoint::Time;
use rnic_endpoint::port::{CorruptionKind, Faults, Probability};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::OnceLock;

/// Where the trace of verbs goes (`RNIC_TRACE`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum TraceTo {
    /// No trace is written.
    #[default]
    Nowhere,
    /// To the standard error output.
    Stderr,
    /// The trace is appended to this file. `%p` in the file name was already replaced by the process ID.
    File(PathBuf),
}

/// An entry of `RNIC_DEVICES`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceChoice {
    /// The name of the device; `None`: `rnic0`, `rnic1` and so on.
    pub name: Option<String>,
    /// An IP address, or the name of a network interface.
    pub place: String,
}

impl DeviceChoice {
    /// Reads `PLACE` or `NAME=PLACE`.
    fn read(entry: &str) -> Result<DeviceChoice, String> {
        let (name, place) = match entry.split_once('=') {
            Some((name, place)) => (Some(name.trim()), place.trim()),
            None => (None, entry.trim()),
        };
        if place.is_empty() {
            return Err("RNIC_DEVICES has an empty entry; it lists IP addresses or network interfaces, separated by \
                        commas, such as 10.0.0.1,eth1 or mlx5_0=10.0.0.1"
                .to_string());
        }
        // The name is a file name in sysfs, and has room in `ibv_device`.
        let fits = |name: &str| {
            (1..64).contains(&name.len())
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
                && !name.starts_with('.')
        };
        if let Some(name) = name.filter(|name| !fits(name)) {
            return Err(format!(
                "RNIC_DEVICES: `{name}` cannot be the name of a device; a name has 1 to 63 letters, digits, `_`, `-` and \
                 `.`, and does not begin with `.`"
            ));
        }
        Ok(DeviceChoice { name: name.map(str::to_string), place: place.to_string() })
    }
}

impl From<&str> for DeviceChoice {
    /// The choice of an address or interface without a name.
    fn from(place: &str) -> DeviceChoice {
        DeviceChoice { name: None, place: place.to_string() }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{name}={}", self.place),
            None => f.write_str(&self.place),
        }
    }
}

/// The settings of the environment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Environment {
    /// `RNIC_DEVICES`: the devices, in order. `None`: all addresses of this host.
    pub devices: Option<Vec<DeviceChoice>>,
    /// `RNIC_FAULTS`: faults that happen to received packets, and the seed of their random numbers.
    pub faults: Option<(Faults, u64)>,
    /// `RNIC_PCAP`: file into which packets are captured. `%p` stands for the process ID.
    pub pcap: Option<PathBuf>,
    /// `RNIC_TRANSPORT`: whether reliable connections offer IRN to their peers.
    pub offer_irn: bool,
    /// `RNIC_TRACE`: where a line for each called verb goes.
    pub trace: TraceTo,
    /// `RNIC_MIN_TIMEOUT`: minimum time without a response after which a reliable connection fails.
    pub min_timeout: Time,
    /// `RNIC_LOCAL`: whether packets between processes of one address may go through memory instead of datagrams. With
    /// `RNIC_FAULTS` or `RNIC_PCAP` they never do.
    pub within_host: bool,
    /// `RNIC_REQUIRED`: whether a program that opens no device fails.
    pub required: bool,
    /// `RNIC_STATS`: whether the process publishes statistics of its queue pairs for `rnic top`.
    pub stats: bool,
}

impl Default for Environment {
    fn default() -> Environment {
        Environment {
            devices: None,
            faults: None,
            pcap: None,
            offer_irn: false,
            trace: TraceTo::default(),
            min_timeout: MIN_TIMEOUT,
            within_host: true,
            required: false,
            stats: true,
        }
    }
}

/// Default of `RNIC_MIN_TIMEOUT`. A NIC responds whatever its host does. Here the peer is a program, and a busy host,
/// such as a host that runs tests, may not run the program for a while
/// (`docs/adr/0057-retransmission-timeouts-from-round-trip-times.md` has measurements).
const MIN_TIMEOUT: Time = Time::from_ms(500);
/// Maximum of `RNIC_MIN_TIMEOUT`.
const MAX_MIN_TIMEOUT: Time = Time::from_ms(3_600_000);

impl Environment {
    /// The settings of this process; read once.
    pub fn get() -> &'static Result<Environment, String> {
        static ENVIRONMENT: OnceLock<Result<Environment, String>> = OnceLock::new();
        ENVIRONMENT.get_or_init(|| {
            #[expect(clippy::disallowed_methods, reason = "the environment is how users set up a library in a program")]
            Environment::read(&|name| std::env::var_os(name))
        })
    }

    /// Reads the settings. `variable` returns the value of the environment variable with a given name.
    ///
    /// # Errors
    /// A sentence that names the variable, what is wrong, and what would be accepted.
    pub fn read(variable: &dyn Fn(&str) -> Option<OsString>) -> Result<Environment, String> {
        let text = |name: &str| match variable(name).map(OsString::into_string) {
            Some(Ok(text)) if text.trim().is_empty() => Ok(None),
            Some(Ok(text)) => Ok(Some(text)),
            Some(Err(_)) => Err(format!("{name} is not UTF-8")),
            None => Ok(None),
        };
        let devices = text("RNIC_DEVICES")?.map(|list| devices(&list)).transpose()?;
        let faults = text("RNIC_FAULTS")?.map(|text| faults(&text)).transpose()?;
        let pid = std::process::id().to_string();
        let named = |name: String| PathBuf::from(name.replace("%p", &pid));
        let pcap = text("RNIC_PCAP")?.map(named);
        let trace = match variable("RNIC_TRACE") {
            None => TraceTo::Nowhere,
            Some(value) if value.is_empty() || value == "0" => TraceTo::Nowhere,
            Some(value) if value == "1" || value == "-" => TraceTo::Stderr,
            // A file name may have bytes that are not UTF-8.
            Some(value) => TraceTo::File(value.into_string().map_or_else(PathBuf::from, named)),
        };
        let offer_irn = match text("RNIC_TRANSPORT")?.as_deref().map(str::trim) {
            None | Some("rc") => false,
            Some("irn") => true,
            Some(other) => return Err(format!("RNIC_TRANSPORT is `{other}`; it must be rc or irn")),
        };
        let min_timeout = text("RNIC_MIN_TIMEOUT")?.map_or(Ok(MIN_TIMEOUT), |text| min_timeout(text.trim()))?;
        let within_host = match text("RNIC_LOCAL")?.as_deref().map(str::trim) {
            None | Some("auto") => true,
            Some("wire") => false,
            Some(other) => return Err(format!("RNIC_LOCAL is `{other}`; it must be auto or wire")),
        };
        let required = match text("RNIC_REQUIRED")?.as_deref().map(str::trim) {
            None | Some("0") => false,
            Some("1") => true,
            Some(other) => return Err(format!("RNIC_REQUIRED is `{other}`; it must be 0 or 1")),
        };
        let stats = match text("RNIC_STATS")?.as_deref().map(str::trim) {
            None | Some("on") => true,
            Some("off") => false,
            Some(other) => return Err(format!("RNIC_STATS is `{other}`; it must be on or off")),
        };
        Ok(Environment { devices, faults, pcap, trace, offer_irn, min_timeout, within_host, required, stats })
    }
}

fn devices(list: &str) -> Result<Vec<DeviceChoice>, String> {
    let choices: Vec<DeviceChoice> = list.split(',').map(DeviceChoice::read).collect::<Result<_, _>>()?;
    let mut names = BTreeSet::new();
    for name in choices.iter().filter_map(|choice| choice.name.as_ref()) {
        if !names.insert(name) {
            return Err(format!("RNIC_DEVICES: `{name}` names two devices; give each a name of its own"));
        }
    }
    Ok(choices)
}

fn min_timeout(text: &str) -> Result<Time, String> {
    let wrong =
        || format!("RNIC_MIN_TIMEOUT is `{text}`; it must be a time of 0 to 3600 s with its unit, such as 500ms or 2s");
    let (number, unit) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        _ if text == "0" => ("0", 1),
        (Some(number), _) => (number, 1),
        (None, Some(number)) => (number, 1_000),
        (None, None) => return Err(wrong()),
    };
    let number = number.trim().parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    number.filter(|ms| *ms <= MAX_MIN_TIMEOUT.as_ps() / 1_000_000_000).map(Time::from_ms).ok_or_else(wrong)
}

/// Maximum number of later datagrams that overtake a reordered datagram.
const DEPTH: u32 = 8;

fn faults(text: &str) -> Result<(Faults, u64), String> {
    let mut faults = Faults { reordering_depth: DEPTH, ..Faults::default() };
    let mut seed = 1;
    for item in text.split(',').map(str::trim) {
        let example = "such as loss=1%,reorder=0.5%,duplicate=0.1%,corrupt=0.1%,delay=2%,seed=7";
        let Some((key, value)) = item.split_once('=') else {
            return Err(format!("RNIC_FAULTS: `{item}` is no fault; it must be a list {example}"));
        };
        let (key, value) = (key.trim(), value.trim());
        if key == "seed" {
            let number = value.parse();
            seed = number.map_err(|_| format!("RNIC_FAULTS: seed is `{value}`; it must be a number, 0 to 2^64 - 1"))?;
            continue;
        }
        if !["loss", "reorder", "duplicate", "corrupt", "delay"].contains(&key) {
            return Err(format!("RNIC_FAULTS: there is no fault `{key}`; it must be a list {example}"));
        }
        let probability = Probability::from_percentage(value).map_err(|why| format!("RNIC_FAULTS: {key}: {why}"))?;
        match key {
            "loss" => faults.loss = probability,
            "reorder" => faults.reordering = probability,
            "duplicate" => faults.duplication = probability,
            "corrupt" => (faults.corruption, faults.corruption_kind) = (probability, CorruptionKind::Mixed),
            _ => (faults.delay, faults.longest_delay) = (probability, Time::from_ms(1)),
        }
    }
    Ok((faults, seed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &'static str, value: &'static str) -> Result<Environment, String> {
        Environment::read(&move |asked| (asked == name).then(|| value.into()))
    }

    #[test]
    fn nothing_is_set_by_default() {
        assert_eq!(Environment::read(&|_| None), Ok(Environment::default()));
        for name in [
            "RNIC_DEVICES",
            "RNIC_FAULTS",
            "RNIC_PCAP",
            "RNIC_TRACE",
            "RNIC_TRANSPORT",
            "RNIC_MIN_TIMEOUT",
            "RNIC_LOCAL",
            "RNIC_REQUIRED",
            "RNIC_STATS",
        ] {
            assert_eq!(Environment::read(&|asked| (asked == name).then(OsString::new)), Ok(Environment::default()));
        }
    }

    #[test]
    fn faults_are_percentages() {
        let (faults, seed) = read("RNIC_FAULTS", "loss=1%, reorder = 0.5%,seed=7").unwrap().faults.unwrap();
        assert_eq!(
            (faults.loss, faults.reordering),
            (Probability::new(0.01).unwrap(), Probability::new(0.005).unwrap())
        );
        assert_eq!((faults.corruption, seed), (Probability::NEVER, 7));
        for (text, part) in [
            ("loss", "no fault"),
            ("loss=", "0% to 100%"),
            ("loss=101%", "0% to 100%"),
            ("loss=-1%", "0% to 100%"),
            ("loss=NaN", "0% to 100%"),
            ("loss=1", "it could mean 1%, or the probability 1, which is 100%"),
            ("reorder=0.005", "it could mean 0.005%, or the probability 0.005, which is 0.5%"),
            ("loss=5", "write 5%"),
            ("los=1%", "there is no fault `los`"),
            ("seed=x", "seed"),
            ("loss=1%,", "no fault"),
        ] {
            let error = read("RNIC_FAULTS", text).unwrap_err();
            assert!(error.contains(part) && error.starts_with("RNIC_FAULTS"), "{text}: {error}");
        }
    }

    #[test]
    fn the_other_variables() {
        assert_eq!(read("RNIC_DEVICES", "eth0, ::1").unwrap().devices, Some(vec!["eth0".into(), "::1".into()]));
        let named = read("RNIC_DEVICES", "mlx5_0=10.0.0.1, fd00::2").unwrap().devices.unwrap();
        let name = Some("mlx5_0".to_string());
        assert_eq!(named, [DeviceChoice { name, place: "10.0.0.1".into() }, "fd00::2".into()]);
        assert_eq!(named[0].to_string() + "," + &named[1].to_string(), "mlx5_0=10.0.0.1,fd00::2");
        for (wrong, part) in [
            ("eth0,,", "empty entry"),
            ("a=", "empty entry"),
            ("=10.0.0.1", "`` cannot be the name of a device"),
            ("a/b=10.0.0.1", "`a/b` cannot be the name"),
            ("..=10.0.0.1", "`..` cannot be the name"),
            ("a=10.0.0.1,a=10.0.0.2", "`a` names two devices"),
        ] {
            let error = read("RNIC_DEVICES", wrong).unwrap_err();
            assert!(error.starts_with("RNIC_DEVICES") && error.contains(part), "{wrong}: {error}");
        }
        for (text, ms) in [("0", 0), ("0s", 0), ("500ms", 500), ("2 s", 2_000), ("3600s", 3_600_000)] {
            assert_eq!(read("RNIC_MIN_TIMEOUT", text).unwrap().min_timeout, Time::from_ms(ms), "{text}");
        }
        for wrong in ["2", "-1s", "1m", "3601s", "1.5s", "99999999999999999999s", "18446744073709551615s"] {
            let error = read("RNIC_MIN_TIMEOUT", wrong).unwrap_err();
            assert!(error.contains("0 to 3600 s") && error.contains(wrong), "{error}");
        }
        assert!(read("RNIC_REQUIRED", "1").unwrap().required && !read("RNIC_REQUIRED", "0").unwrap().required);
        assert_eq!(read("RNIC_REQUIRED", "yes").unwrap_err(), "RNIC_REQUIRED is `yes`; it must be 0 or 1");
        assert!(read("RNIC_STATS", "on").unwrap().stats && !read("RNIC_STATS", "off").unwrap().stats);
        assert_eq!(read("RNIC_STATS", "no").unwrap_err(), "RNIC_STATS is `no`; it must be on or off");
        let pid = format!("/tmp/{}.pcapng", std::process::id());
        assert_eq!(read("RNIC_PCAP", "/tmp/%p.pcapng").unwrap().pcap, Some(pid.into()));
        assert!(read("RNIC_TRANSPORT", "irn").unwrap().offer_irn && !read("RNIC_TRANSPORT", "rc").unwrap().offer_irn);
        let error = read("RNIC_TRANSPORT", "IRN").unwrap_err();
        assert_eq!(error, "RNIC_TRANSPORT is `IRN`; it must be rc or irn");
        assert!(read("RNIC_LOCAL", "auto").unwrap().within_host && !read("RNIC_LOCAL", "wire").unwrap().within_host);
        assert_eq!(read("RNIC_LOCAL", "on").unwrap_err(), "RNIC_LOCAL is `on`; it must be auto or wire");
        assert_eq!(read("RNIC_TRACE", "1").unwrap().trace, TraceTo::Stderr);
        assert_eq!(read("RNIC_TRACE", "0").unwrap().trace, TraceTo::Nowhere);
        let pid = format!("{}.log", std::process::id());
        assert_eq!(read("RNIC_TRACE", "%p.log").unwrap().trace, TraceTo::File(pid.into()));
        assert_eq!(read("RNIC_TRACE", "a.log").unwrap().trace, TraceTo::File("a.log".into()));
    }
}
