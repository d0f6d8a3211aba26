//! The environment variables `RNIC_...`, by which users set up the library in programs that do not know it.

use rnic_endpoint::Time;
use rnic_endpoint::port::{CorruptionKind, Faults, Probability};
use std::ffi::OsString;
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

/// The settings of the environment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Environment {
    /// `RNIC_DEVICES`: IP addresses and names of network interfaces, in the order of the devices. `None`: all addresses
    /// of this host.
    pub devices: Option<Vec<String>>,
    /// `RNIC_FAULTS`: faults that happen to received packets, and the seed of their random numbers.
    pub faults: Option<(Faults, u64)>,
    /// `RNIC_PCAP`: file into which packets are captured. `%p` stands for the process ID.
    pub pcap: Option<PathBuf>,
    /// `RNIC_TRANSPORT`: whether reliable connections offer IRN to their peers.
    pub offer_irn: bool,
    /// `RNIC_TRACE`: where a line for each called verb goes.
    pub trace: TraceTo,
}

impl Environment {
    /// The settings of this process; read once.
    pub fn get() -> &'static Result<Environment, String> {
        static ENVIRONMENT: OnceLock<Result<Environment, String>> = OnceLock::new();
        ENVIRONMENT.get_or_init(|| {
            #[expect(clippy::disallowed_methods, reason = "the environment is how users set up a library in a program")]
            Environment::read(&|name| std::env::var_os(name))
        })
    }

    /// Reads the settings with `variable`, which returns the value of a variable.
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
        let names = |list: String| list.split(',').map(|name| name.trim().to_string()).collect::<Vec<_>>();
        let devices = text("RNIC_DEVICES")?.map(names);
        if devices.as_ref().is_some_and(|names| names.iter().any(String::is_empty)) {
            return Err("RNIC_DEVICES has an empty entry; it lists IP addresses or network interfaces, separated by \
                        commas, such as 10.0.0.1,eth1"
                .to_string());
        }
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
        Ok(Environment { devices, faults, pcap, trace, offer_irn })
    }
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
        let (number, scale) = match value.strip_suffix('%') {
            Some(number) => (number, 100.0),
            None => (value, 1.0),
        };
        let number = number.trim().parse::<f64>().ok().and_then(|number| Probability::new(number / scale).ok());
        let Some(probability) = number else {
            return Err(format!("RNIC_FAULTS: {key} is `{value}`; it must be 0% to 100%, or a probability of 0 to 1"));
        };
        match key {
            "loss" => faults.loss = probability,
            "reorder" => faults.reordering = probability,
            "duplicate" => faults.duplication = probability,
            "corrupt" => (faults.corruption, faults.corruption_kind) = (probability, CorruptionKind::Mixed),
            "delay" => (faults.delay, faults.longest_delay) = (probability, Time::from_ms(1)),
            _ => return Err(format!("RNIC_FAULTS: there is no fault `{key}`; it must be a list {example}")),
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
        for name in ["RNIC_DEVICES", "RNIC_FAULTS", "RNIC_PCAP", "RNIC_TRACE", "RNIC_TRANSPORT"] {
            assert_eq!(Environment::read(&|asked| (asked == name).then(OsString::new)), Ok(Environment::default()));
        }
    }

    #[test]
    fn faults_are_percentages_or_probabilities() {
        let (faults, seed) = read("RNIC_FAULTS", "loss=1%, reorder = 0.005,seed=7").unwrap().faults.unwrap();
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
        assert!(read("RNIC_DEVICES", "eth0,,").is_err());
        let pid = format!("/tmp/{}.pcapng", std::process::id());
        assert_eq!(read("RNIC_PCAP", "/tmp/%p.pcapng").unwrap().pcap, Some(pid.into()));
        assert!(read("RNIC_TRANSPORT", "irn").unwrap().offer_irn && !read("RNIC_TRANSPORT", "rc").unwrap().offer_irn);
        let error = read("RNIC_TRANSPORT", "IRN").unwrap_err();
        assert_eq!(error, "RNIC_TRANSPORT is `IRN`; it must be rc or irn");
        assert_eq!(read("RNIC_TRACE", "1").unwrap().trace, TraceTo::Stderr);
        assert_eq!(read("RNIC_TRACE", "0").unwrap().trace, TraceTo::Nowhere);
        let pid = format!("{}.log", std::process::id());
        assert_eq!(read("RNIC_TRACE", "%p.log").unwrap().trace, TraceTo::File(pid.into()));
        assert_eq!(read("RNIC_TRACE", "a.log").unwrap().trace, TraceTo::File("a.log".into()));
    }
}
