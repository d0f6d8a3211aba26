//! The manifest of a campaign: a file with the specifications of all its runs.

use super::error::CampaignError;
use super::until::Until;
use crate::fingerprint::CODE;
use crate::summed::Summed;
use crc32fast::Hasher;
use rnic_results::files::write_atomically;
use rnic_spec::{RunSpec, Vocabulary};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

/// Version of the format of manifests that this program writes. It also reads version 1, which has no checksum.
const VERSION: u32 = 2;

/// Maximum length of a line in bytes: 1 GiB, which is enough for a run with about 10 million listed flows.
const MAX_LINE: u64 = 1 << 30;

/// Maximum length of the first line in bytes, when it is read only for the name of the campaign.
const MAX_HEAD: u64 = 1 << 16;

/// Maximum number of runs of a manifest.
const MAX_RUNS: u32 = 10_000_000;

/// The list of a campaign's runs, and how often each is simulated.
///
/// Its file has a JSON document per line: a head with the fields below, then the specification of each run, as `rnic
/// run --print-spec` writes it, and at the end the CRC-32 of all lines before, such as `{"crc32":"0123abcd"}`. A run
/// with the seed `s` in the manifest is simulated with the seeds `s`, `s + 1` and so on.
#[derive(Clone, PartialEq, Debug)]
pub struct Manifest {
    /// Name of the campaign: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// Version and hash of the code that wrote the manifest, as [`CODE`].
    pub code: String,
    /// Number of seeds of each run; with `until`, the initial number of seeds.
    pub seeds: u32,
    /// When a run has been simulated with enough seeds; `None` for a fixed number.
    pub until: Option<Until>,
    /// Whether the complete record of each run, with all its flows, is stored too.
    pub records: bool,
    /// The runs.
    pub runs: Vec<RunSpec>,
}

/// The first line of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    rnic_campaign: u32,
    name: String,
    code: String,
    runs: u32,
    seeds: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<Until>,
    #[serde(default)]
    records: bool,
}

/// The last line of the file: the CRC-32 of all lines before, as 8 hexadecimal digits.
#[derive(Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Sum {
    crc32: String,
}

impl Sum {
    fn of(lines: &Hasher) -> Sum {
        Sum { crc32: format!("{:08x}", lines.clone().finalize()) }
    }
}

/// Whether `name` can be the name of a campaign, which is part of file names.
pub fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && name.len() <= 64 && !name.starts_with('.') && name.chars().all(is_plain)
}

impl Manifest {
    /// A campaign with these runs.
    ///
    /// # Errors
    /// A value is not possible, or two runs have the same name and seed.
    pub fn new(
        name: &str, runs: Vec<RunSpec>, seeds: u32, until: Option<Until>, records: bool,
    ) -> Result<Manifest, CampaignError> {
        let manifest = Manifest { name: name.to_string(), code: CODE.to_string(), seeds, until, records, runs };
        manifest.check().map_err(CampaignError::Input)?;
        Ok(manifest)
    }

    fn check(&self) -> Result<(), String> {
        if !is_name(&self.name) {
            let accepted = "accepted: 1 to 64 letters, digits, `-`, `_` and `.`, and no `.` at the beginning";
            return Err(format!("`{}` is no name of a campaign; {accepted}", self.name));
        }
        if self.runs.is_empty() {
            return Err("a campaign without runs; accepted: at least one run".to_string());
        }
        if self.seeds == 0 || self.seeds > 1_000_000 {
            return Err(format!("{} seeds; accepted: 1 to 1000000", self.seeds));
        }
        if let Some(until) = &self.until {
            until.check(self.seeds)?;
        }
        let mut names: Vec<(&str, u64)> = self.runs.iter().map(|run| (run.name.as_str(), run.seed)).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            let (name, seed) = pair[0];
            return Err(format!(
                "two runs have the name \"{name}\" and the seed {seed}; give one of them another name"
            ));
        }
        for run in &self.runs {
            let last = self.until.as_ref().map_or(self.seeds, |until| until.max_seeds);
            if run.seed.checked_add(u64::from(last)).is_none() {
                return Err(format!("the seeds of run \"{}\" from {} on exceed {}", run.name, run.seed, u64::MAX));
            }
        }
        Ok(())
    }

    /// The run with the index `point` and the seed of its replica number `replica`.
    pub fn run(&self, point: usize, replica: u32) -> Option<RunSpec> {
        let run = self.runs.get(point)?;
        Some(RunSpec { seed: run.seed + u64::from(replica), ..run.clone() })
    }

    /// Writes the file.
    ///
    /// # Errors
    /// The file cannot be written, or a run has a number that JSON cannot represent.
    pub fn write(&self, path: &Path) -> Result<(), CampaignError> {
        write_atomically(path, |out| self.write_to(out))
            .map(|_| ())
            .map_err(|error| CampaignError::Io { doing: "cannot write the manifest".to_string(), error })
    }

    /// Writes the file as [`Manifest::write`] does, but refuses to replace a file with another content, unless it is a
    /// manifest of this campaign or `replace` is true. Returns whether it replaced another content.
    ///
    /// # Errors
    /// The file exists and must not be replaced, it cannot be written, or a run has a number that JSON cannot
    /// represent.
    pub fn write_new(&self, path: &Path, replace: bool) -> Result<bool, CampaignError> {
        let mut first = String::new();
        let is_other = match File::open(path) {
            Ok(file) => {
                let read = BufReader::new(file).take(MAX_HEAD).read_line(&mut first);
                // A file that is not text is not a manifest.
                let is_own =
                    read.is_ok() && serde_json::from_str(&first).is_ok_and(|head: Head| head.name == self.name);
                if !is_own && !replace {
                    return Err(CampaignError::Input(format!(
                        "`{}` exists and is not a manifest of the campaign `{}`; accepted: a new file, or --replace",
                        path.display(),
                        self.name
                    )));
                }
                let bytes = self.to_bytes().map_err(CampaignError::writing(path))?;
                std::fs::read(path).map_err(CampaignError::reading(path))? != bytes
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(CampaignError::reading(path)(error)),
        };
        self.write(path)?;
        Ok(is_other)
    }

    fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        let mut out = Summed::new(out);
        self.write_lines(&mut out, VERSION)?;
        serde_json::to_writer(&mut *out.inner, &Sum::of(&out.sum))?;
        out.inner.write_all(b"\n")
    }

    /// Writes the head and the runs.
    fn write_lines(&self, out: &mut impl Write, version: u32) -> io::Result<()> {
        let head = Head {
            rnic_campaign: version,
            name: self.name.clone(),
            code: self.code.clone(),
            runs: self.runs.len() as u32,
            seeds: self.seeds,
            until: self.until.clone(),
            records: self.records,
        };
        serde_json::to_writer(&mut *out, &head)?;
        out.write_all(b"\n")?;
        self.runs.iter().try_for_each(|run| {
            let document = run.to_json(false).map_err(io::Error::other)?;
            out.write_all(document.as_bytes())?;
            out.write_all(b"\n")
        })
    }

    /// The content of the file.
    ///
    /// # Errors
    /// A run has a number that JSON cannot represent.
    pub fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.write_to(&mut bytes).map(|()| bytes)
    }

    /// Whether the bytes are the file of this manifest, in the current version of the format or in an earlier one.
    ///
    /// # Errors
    /// A run has a number that JSON cannot represent.
    pub(crate) fn is_in(&self, bytes: &[u8]) -> io::Result<bool> {
        let mut earlier = Vec::new();
        self.write_lines(&mut earlier, 1)?;
        Ok(bytes == earlier || bytes == self.to_bytes()?)
    }

    /// Reads a manifest, whose runs may use the transports and congestion controls of `vocabulary`.
    ///
    /// # Errors
    /// The file cannot be read or is not a manifest; the sentence has the line and what would be accepted.
    pub fn read(path: &Path, vocabulary: &Vocabulary) -> Result<Manifest, CampaignError> {
        let file = File::open(path).map_err(CampaignError::reading(path))?;
        let mut lines =
            Lines { path, input: BufReader::new(file), number: 0, before: Hasher::new(), sum: Hasher::new() };
        let first = lines.next()?.ok_or_else(|| lines.wrong("the file is empty; accepted: a manifest"))?;
        // The version comes first, so that a manifest of another version is not taken for a damaged one.
        let accepted =
            format!("accepted: a file that `rnic campaign plan` or rnic.Campaign.save of version 1 or {VERSION} wrote");
        let head: Value =
            serde_json::from_str(&first).map_err(|_| lines.wrong(&format!("this is no manifest; {accepted}")))?;
        match head.get("rnic_campaign").map(Value::as_u64) {
            Some(Some(version)) if (1..=u64::from(VERSION)).contains(&version) => {}
            Some(Some(version)) => {
                return Err(lines.wrong(&format!("this is a manifest of version {version}; {accepted}")));
            }
            _ => return Err(lines.wrong(&format!("this is no manifest: there is no `rnic_campaign`; {accepted}"))),
        }
        let head: Head = serde_json::from_value(head).map_err(|error| lines.wrong(&error.to_string()))?;
        if head.runs > MAX_RUNS {
            return Err(lines.wrong(&format!("{} runs; accepted: at most {MAX_RUNS}", head.runs)));
        }
        let mut runs = Vec::new();
        let mut has_sum = false;
        while let Some(line) = lines.next()? {
            if has_sum {
                return Err(lines.wrong("the file continues after its checksum"));
            }
            if head.rnic_campaign > 1
                && let Ok(sum) = serde_json::from_str::<Sum>(&line)
            {
                lines.check(&sum)?;
                has_sum = true;
                continue;
            }
            runs.push(RunSpec::from_json(&line, vocabulary).map_err(|error| lines.wrong(&error.to_string()))?);
            if runs.len() as u32 > head.runs {
                return Err(lines.wrong(&format!("there are more than the {} runs of the first line", head.runs)));
            }
        }
        if (runs.len() as u32) < head.runs {
            return Err(lines.wrong(&format!("the file is truncated: it has {} of {} runs", runs.len(), head.runs)));
        }
        if head.rnic_campaign > 1 && !has_sum {
            return Err(lines.wrong("the file is truncated: it has no checksum at the end"));
        }
        let Head { name, code, seeds, until, records, .. } = head;
        let manifest = Manifest { name, code, seeds, until, records, runs };
        manifest.check().map_err(|why| CampaignError::Input(format!("`{}`: {why}", path.display())))?;
        Ok(manifest)
    }
}

/// The lines of a manifest.
struct Lines<'p> {
    path: &'p Path,
    input: BufReader<File>,
    number: usize,
    /// CRC-32 of the lines before the current one, and with it.
    before: Hasher,
    sum: Hasher,
}

impl Lines<'_> {
    fn next(&mut self) -> Result<Option<String>, CampaignError> {
        let mut line = String::new();
        self.number += 1;
        let length = (&mut self.input).take(MAX_LINE + 1).read_line(&mut line);
        let length = length.map_err(CampaignError::reading(self.path))? as u64;
        if length > MAX_LINE {
            return Err(self.wrong(&format!("the line is longer than {MAX_LINE} bytes")));
        }
        self.before = self.sum.clone();
        self.sum.update(line.as_bytes());
        Ok((length > 0).then_some(line))
    }

    /// Compares the checksum in the current line with the lines before it.
    fn check(&self, sum: &Sum) -> Result<(), CampaignError> {
        let real = Sum::of(&self.before);
        if *sum == real {
            return Ok(());
        }
        Err(self.wrong(&format!(
            "the file is damaged or was edited: the checksum of its lines is {}, not {}; accepted: the file as `rnic \
             campaign plan` or rnic.Campaign.save wrote it",
            real.crc32, sum.crc32
        )))
    }

    fn wrong(&self, what: &str) -> CampaignError {
        CampaignError::Input(format!("`{}` line {}: {what}", self.path.display(), self.number))
    }
}
