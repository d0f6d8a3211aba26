//! Flow sizes of workloads: built-in distributions, fixed and uniform sizes, and CDF files.
//!
//! A CDF file has one point of the cumulative distribution per line: a size in bytes, and the percentage of flows that
//! are not larger, separated by white space or a comma. Between two points, sizes are linear in probability. `#` starts
//! a comment.
//!
//! ```text
//! # bytes  percentage of flows that are not larger
//! 1000     50        # half of the flows have exactly 1,000 bytes
//! 100000   90
//! 3000000  100
//! ```

use rnic_spec::SizeDistribution;
use rnic_transport::Bytes;
use std::path::Path;

/// The built-in distributions of flow sizes: name in a scenario, and description.
pub const BUILT_IN: &[(&str, &str)] = &[
    ("irn-heavy-tailed", "IRN paper: half of the flows are single packets, 15 % are 200 KB to 3 MB, mean 195 KB"),
    ("websearch", "web search cluster of the DCTCP paper, with the points that public simulators use, mean 1.7 MB"),
];

/// The accepted values of a scenario's key `sizes`, for error messages.
const ACCEPTED: &str =
    "accepted: `irn-heavy-tailed`, `websearch`, `fixed 1 MB`, `uniform 500 KB - 5 MB` or the path of a CDF file";

/// Points of the distribution `irn-heavy-tailed` of flow sizes, in units of 1,460 bytes, from the text of the IRN paper
/// and its authors' public simulator.
///
/// Half of the flows are a single packet of 32 to 1,000 bytes. Neither the paper nor the simulator states how the sizes
/// of these flows are distributed; here they are distributed uniformly. The load hardly depends on these flows, because
/// they carry 0.1 % of the bytes.
const IRN_UNITS: &[(f64, f64)] = &[
    (1.0, 0.50),
    (2.0, 0.60),
    (3.0, 0.70),
    (5.0, 0.75),
    (7.0, 0.80),
    (40.0, 0.8125),
    (72.0, 0.825),
    (137.0, 0.85),
    (267.0, 0.90),
    (1187.0, 0.95),
    (2107.0, 1.0),
];

/// Points of the distribution `websearch` of flow sizes in bytes: the web search trace of the DCTCP paper, with the
/// points that later public simulators use, HPCC's among them.
const WEBSEARCH: &[(f64, f64)] = &[
    (0.0, 0.0),
    (10e3, 0.15),
    (20e3, 0.20),
    (30e3, 0.30),
    (50e3, 0.40),
    (80e3, 0.53),
    (200e3, 0.60),
    (1e6, 0.70),
    (2e6, 0.80),
    (5e6, 0.90),
    (10e6, 0.97),
    (30e6, 1.0),
];

/// Parses the value of a scenario's key `sizes`: a name of [`BUILT_IN`], `fixed 1 MB`, `uniform 500 KB - 5 MB`, or the
/// path of a CDF file relative to `base_dir`.
///
/// ```
/// use rnic_workload::sizes;
/// use std::path::Path;
///
/// let sizes = sizes::parse("uniform 500 KB - 5 MB", Path::new("."))?;
/// assert_eq!(sizes.mean(), 2_750_000.0);
/// # Ok::<(), String>(())
/// ```
///
/// # Errors
/// One sentence that says what is wrong, where (file and line in a CDF file), and what is accepted.
pub fn parse(text: &str, base_dir: &Path) -> Result<SizeDistribution, String> {
    let text = text.trim();
    let named = |points| Ok(SizeDistribution { name: text.to_string(), points });
    match text.split_once(char::is_whitespace).unwrap_or((text, "")) {
        ("irn-heavy-tailed", "") => named(irn_heavy_tailed()),
        ("websearch", "") => named(WEBSEARCH.to_vec()),
        ("fixed", size) => named(vec![(bytes(text, size)?, 1.0)]),
        ("uniform", range) => named(uniform(text, range)?),
        _ => from_file(text, base_dir),
    }
}

/// The distribution in the text `content` of a CDF file called `name`.
///
/// # Errors
/// One sentence that says what is wrong, in which line.
pub fn of_cdf(name: &str, content: &str) -> Result<SizeDistribution, String> {
    Ok(SizeDistribution { name: name.to_string(), points: parse_cdf(name, content)? })
}

/// The points of the distribution `irn-heavy-tailed`, with flow sizes in bytes.
fn irn_heavy_tailed() -> Vec<(f64, f64)> {
    let single_packet = [(32.0, 0.0), (1000.0, 0.5)];
    single_packet.into_iter().chain(IRN_UNITS.iter().map(|&(units, p)| (units * 1460.0, p))).collect()
}

/// Parses `size` as a flow size of at least 1 byte. `text`, the whole value of the key `sizes`, is for error messages.
fn bytes(text: &str, size: &str) -> Result<f64, String> {
    let size: Bytes = size.parse().map_err(|error| format!("sizes `{text}`: {error}"))?;
    if size.0 == 0 {
        return Err(format!("sizes `{text}`: a flow has at least 1 B; write for example \"1 MB\""));
    }
    Ok(size.0 as f64)
}

/// The points of the distribution `uniform SMALLEST - LARGEST`.
fn uniform(text: &str, range: &str) -> Result<Vec<(f64, f64)>, String> {
    let Some((smallest, largest)) = range.split_once('-') else {
        return Err(format!("sizes `{text}`: the range is missing; write for example \"uniform 500 KB - 5 MB\""));
    };
    let (smallest, largest) = (bytes(text, smallest)?, bytes(text, largest)?);
    if smallest > largest {
        return Err(format!("sizes `{text}`: the smaller size must come first, for example \"uniform 500 KB - 5 MB\""));
    }
    Ok(vec![(smallest, 0.0), (largest, 1.0)])
}

/// Reads the CDF file at the path `text`; if there is no such file, the error lists the accepted values of `sizes`.
fn from_file(text: &str, base_dir: &Path) -> Result<SizeDistribution, String> {
    let path = base_dir.join(text);
    if text.is_empty() || !path.is_file() {
        return Err(unknown(text, &path));
    }
    let shown = path.display().to_string();
    let content = crate::read_text(&path).map_err(|error| format!("{shown}: cannot read this CDF file: {error}"))?;
    Ok(SizeDistribution { name: text.to_string(), points: parse_cdf(&shown, &content)? })
}

/// Returns the error for an unknown name of a distribution or a missing CDF file, with the most similar name if there
/// is one.
fn unknown(text: &str, path: &Path) -> String {
    if path.is_dir() && !text.is_empty() {
        return format!("{}: this is a directory, not a CDF file; {ACCEPTED}", path.display());
    }
    if text.contains(['/', '\\', '.']) {
        return format!("{}: this CDF file does not exist; {ACCEPTED}", path.display());
    }
    let word = text.split_whitespace().next().unwrap_or("").to_lowercase();
    let near = ["irn-heavy-tailed", "websearch", "fixed", "uniform"]
        .into_iter()
        .map(|name| (strsim::jaro_winkler(&word, name), name))
        .filter(|&(similarity, _)| similarity > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let hint = near.map_or(String::new(), |(_, name)| format!(" (did you mean `{name}`?)"));
    format!("unknown sizes `{text}`{hint}; {ACCEPTED}")
}

/// Returns the points in the text of a CDF file; `shown` is the file's name in error messages.
fn parse_cdf(shown: &str, content: &str) -> Result<Vec<(f64, f64)>, String> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    let mut last_line = 0;
    for (number, line) in content.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        last_line = number + 1;
        let point = parse_point(line).and_then(|point| rises(points.last(), point));
        points.push(point.map_err(|error| format!("{shown}:{last_line}: {error}"))?);
    }
    let Some(&(_, end)) = points.last() else {
        return Err(format!(
            "{shown}: the file has no points; write lines of bytes and percent, for example `10000 15`"
        ));
    };
    if end != 100.0 {
        let hint = if end == 1.0 { "; write percentages, not fractions" } else { "" };
        return Err(format!("{shown}:{last_line}: the last point is at {end} %; it must be at 100 %{hint}"));
    }
    if points.iter().find(|point| point.1 == 100.0).is_some_and(|point| point.0 == 0.0) {
        return Err(format!("{shown}:{last_line}: every flow would have 0 bytes; write at least one size above 0"));
    }
    Ok(points.into_iter().map(|(bytes, percent)| (bytes, percent / 100.0)).collect())
}

/// Parses one line of a CDF file: flow size in bytes, and percentage of flows that are not larger.
fn parse_point(line: &str) -> Result<(f64, f64), String> {
    let fields: Vec<&str> =
        line.split(|c: char| c == ',' || c.is_whitespace()).filter(|field| !field.is_empty()).collect();
    let numbers: Vec<f64> = fields.iter().filter_map(|field| field.parse().ok()).collect();
    let (2, &[bytes, percent]) = (fields.len(), numbers.as_slice()) else {
        return Err(format!("`{line}` is not two numbers; write bytes and percent, for example `10000 15`"));
    };
    if !(0.0..=1e15).contains(&bytes) || bytes.fract() != 0.0 {
        return Err(format!("`{}` is not a size; write whole bytes from 0 to 10^15", fields[0]));
    }
    if !(0.0..=100.0).contains(&percent) {
        return Err(format!("`{}` is not a percentage; write a number from 0 to 100", fields[1]));
    }
    Ok((bytes, percent))
}

/// Returns the point of a CDF, or an error if its bytes or its percentage are below the bytes or the percentage of the
/// previous point.
fn rises(previous: Option<&(f64, f64)>, point: (f64, f64)) -> Result<(f64, f64), String> {
    match previous {
        Some(&(bytes, _)) if point.0 < bytes => {
            Err(format!("bytes decrease from {bytes} to {}; they must not decrease from line to line", point.0))
        }
        Some(&(_, percent)) if point.1 < percent => {
            Err(format!("percent decrease from {percent} to {}; they must not decrease from line to line", point.1))
        }
        _ => Ok(point),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn named(text: &str) -> SizeDistribution {
        parse(text, Path::new("")).unwrap()
    }

    /// Means of the sampled flow size and of its number of packets over a fine regular grid of probabilities.
    fn grid_means(sizes: &SizeDistribution, mtu: u64) -> (f64, f64) {
        const STEPS: u32 = 1_000_000;
        let (mut bytes, mut packets) = (0.0, 0.0);
        for step in 0..STEPS {
            let size = sizes.sample((f64::from(step) + 0.5) / f64::from(STEPS));
            bytes += size as f64;
            packets += size.div_ceil(mtu) as f64;
        }
        (bytes / f64::from(STEPS), packets / f64::from(STEPS))
    }

    #[test]
    fn means_are_those_of_the_samples() {
        for text in [
            "irn-heavy-tailed",
            "websearch",
            "fixed 1 MB",
            "fixed 1000 B",
            "uniform 500 KB - 5 MB",
            "uniform 1 B - 3 B",
        ] {
            let sizes = named(text);
            for mtu in [1, 256, 1000, 4096] {
                let (bytes, packets) = grid_means(&sizes, mtu);
                assert!((sizes.mean() / bytes - 1.0).abs() < 1e-4, "{text}: {} {bytes}", sizes.mean());
                let exact = sizes.mean_packets(mtu as u32);
                assert!((exact / packets - 1.0).abs() < 1e-4, "{text}, {mtu} B: {exact} {packets}");
            }
        }
    }

    #[test]
    fn irn_heavy_tailed_agrees_with_the_paper() {
        let sizes = named("irn-heavy-tailed");
        assert!((sizes.mean() - 194_885.125).abs() < 1e-6, "{}", sizes.mean());
        assert_eq!((sizes.sample(0.0), sizes.sample(0.25)), (32, 516));
        assert_eq!((sizes.sample(0.4999999), sizes.sample(0.5)), (1000, 1460));
        assert_eq!(sizes.sample(1.0), 2107 * 1460);
        // "15 % of the flows have 200 KB to 3 MB"
        assert!((199_000..201_000).contains(&sizes.sample(0.85)), "{}", sizes.sample(0.85));
    }

    #[test]
    fn websearch_has_its_published_mean() {
        assert!((named("websearch").mean() - 1_711_250.0).abs() < 1.0, "{}", named("websearch").mean());
    }

    #[test]
    fn fixed_and_uniform_sizes_have_units() {
        assert_eq!(named(" fixed 1 MB ").points, [(1e6, 1.0)]);
        assert_eq!(named("fixed 1KiB").sample(0.3), 1024);
        assert_eq!(named("uniform 500 KB - 5 MB").points, [(500e3, 0.0), (5e6, 1.0)]);
        assert_eq!(named("uniform 500KB-5MB").mean(), 2_750_000.0);
    }

    #[test]
    fn built_in_names_are_accepted() {
        for (name, description) in BUILT_IN {
            assert_eq!(named(name).validate(), Ok(()));
            assert!(!description.contains('\n'));
        }
    }

    #[test]
    fn errors_of_wrong_names_list_the_accepted_ones() {
        let accepted = super::ACCEPTED;
        for (text, error) in [
            ("web-search", format!("unknown sizes `web-search` (did you mean `websearch`?); {accepted}")),
            (
                "IRN-heavy-tail",
                format!("unknown sizes `IRN-heavy-tail` (did you mean `irn-heavy-tailed`?); {accepted}"),
            ),
            ("fixd 1 MB", format!("unknown sizes `fixd 1 MB` (did you mean `fixed`?); {accepted}")),
            ("", format!("unknown sizes ``; {accepted}")),
            ("/", format!("/: this is a directory, not a CDF file; {accepted}")),
            ("no/such.cdf", format!("base/no/such.cdf: this CDF file does not exist; {accepted}")),
            (
                "fixed 1",
                "sizes `fixed 1`: `1` has no unit; use one of B, KB, MB, GB, TB, KiB, MiB, GiB, for example \"240 KB\""
                    .into(),
            ),
            ("fixed 0 B", "sizes `fixed 0 B`: a flow has at least 1 B; write for example \"1 MB\"".into()),
            (
                "uniform 1 MB",
                "sizes `uniform 1 MB`: the range is missing; write for example \"uniform 500 KB - 5 MB\"".into(),
            ),
            (
                "uniform 2 MB - 1 MB",
                "sizes `uniform 2 MB - 1 MB`: the smaller size must come first, for example \
                 \"uniform 500 KB - 5 MB\""
                    .into(),
            ),
        ] {
            assert_eq!(parse(text, Path::new("base")).unwrap_err(), error);
        }
    }

    #[test]
    fn a_cdf_file_is_found_in_the_folder_of_the_scenario() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.cdf"), "# mine\n\n1000, 50 # half\n3000\t100\n").unwrap();
        let sizes = parse("a.cdf", folder.path()).unwrap();
        assert_eq!(sizes, SizeDistribution { name: "a.cdf".into(), points: vec![(1000.0, 0.5), (3000.0, 1.0)] });
        assert_eq!((sizes.sample(0.2), sizes.sample(0.75), sizes.mean()), (1000, 2000, 1500.0));
    }

    #[test]
    fn errors_of_bad_cdf_files_name_the_line_and_the_mistake() {
        for (content, error) in [
            ("", "f: the file has no points; write lines of bytes and percent, for example `10000 15`"),
            ("# only\n", "f: the file has no points; write lines of bytes and percent, for example `10000 15`"),
            ("1 2 3\n", "f:1: `1 2 3` is not two numbers; write bytes and percent, for example `10000 15`"),
            ("\nten 100\n", "f:2: `ten 100` is not two numbers; write bytes and percent, for example `10000 15`"),
            ("1\n", "f:1: `1` is not two numbers; write bytes and percent, for example `10000 15`"),
            ("-1 100\n", "f:1: `-1` is not a size; write whole bytes from 0 to 10^15"),
            ("1.5 100\n", "f:1: `1.5` is not a size; write whole bytes from 0 to 10^15"),
            ("nan 100\n", "f:1: `nan` is not a size; write whole bytes from 0 to 10^15"),
            ("1 101\n", "f:1: `101` is not a percentage; write a number from 0 to 100"),
            ("5 10\n4 100\n", "f:2: bytes decrease from 5 to 4; they must not decrease from line to line"),
            ("5 10\n6 9\n", "f:2: percent decrease from 10 to 9; they must not decrease from line to line"),
            ("5 10\n6 90\n\n", "f:2: the last point is at 90 %; it must be at 100 %"),
            ("5 0.1\n6 1\n", "f:2: the last point is at 1 %; it must be at 100 %; write percentages, not fractions"),
            ("0 0\n0 100\n", "f:2: every flow would have 0 bytes; write at least one size above 0"),
        ] {
            assert_eq!(parse_cdf("f", content), Err(error.to_string()), "{content}");
        }
    }

    /// Generates distributions whose CDFs have gaps, point masses, and a first point with a probability above 0.
    fn any_distribution() -> impl Strategy<Value = SizeDistribution> {
        proptest::collection::vec((0u32..5000, 0u32..50), 1..8).prop_map(|steps| {
            let total: u32 = steps.iter().map(|step| step.1).sum();
            let (mut bytes, mut weight) = (0, 0);
            let mut points: Vec<(f64, f64)> = Vec::new();
            for (more_bytes, more_weight) in steps {
                (bytes, weight) = (bytes + more_bytes, weight + more_weight);
                points.push((f64::from(bytes), f64::from(weight) / f64::from(total.max(1))));
            }
            points.push((f64::from(bytes + 1), 1.0));
            SizeDistribution { name: "any".into(), points }
        })
    }

    proptest! {
        #[test]
        fn samples_rise_with_probability_and_stay_inside(sizes in any_distribution(), u in 0.0f64..1.0, v in 0.0f64..1.0) {
            let (low, high) = (sizes.sample(u.min(v)), sizes.sample(u.max(v)));
            prop_assert!(low <= high);
            prop_assert!(low >= (sizes.points[0].0 as u64).max(1));
            prop_assert!(high <= sizes.points[sizes.points.len() - 1].0 as u64);
            prop_assert_eq!(sizes.validate(), Ok(()));
        }

        #[test]
        fn sampling_inverts_the_cdf(sizes in any_distribution(), u in 0.0f64..1.0) {
            // The point below the sample has a probability of at most u, and the point above the sample has a
            // probability of at least u.
            let size = sizes.sample(u) as f64;
            prop_assert!(sizes.points.iter().all(|&(bytes, p)| p <= u || bytes >= size - 1.0));
            prop_assert!(sizes.points.iter().all(|&(bytes, p)| p > u || bytes <= size + 1.0));
        }

        #[test]
        fn expectations_match_a_fine_grid(sizes in any_distribution(), mtu in 1u32..3000) {
            const STEPS: u32 = 40_000;
            let draws = || (0..STEPS).map(|step| sizes.sample((f64::from(step) + 0.5) / f64::from(STEPS)));
            let bytes = draws().map(|size| size as f64).sum::<f64>() / f64::from(STEPS);
            let packets = draws().map(|size| size.div_ceil(u64::from(mtu)) as f64).sum::<f64>() / f64::from(STEPS);
            prop_assert!((sizes.mean() - bytes).abs() < 0.005 * bytes + 0.01, "{} {bytes}", sizes.mean());
            let exact = sizes.mean_packets(mtu);
            prop_assert!((exact - packets).abs() < 0.005 * packets + 0.01, "{exact} {packets}");
        }

        #[test]
        fn arbitrary_text_never_panics(content in "[0-9 .,#\n-]{0,40}") {
            let _ = parse_cdf("f", &content);
        }
    }
}
