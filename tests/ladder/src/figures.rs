//! Reads bandwidths and latencies from the output of programs.

use std::fmt;

/// A figure that a program has measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Figure {
    /// Bandwidth in Gbit/s.
    Bandwidth(f64),
    /// Latency in microseconds: the median, or the mean if the program does not print the median.
    Latency(f64),
}

impl Figure {
    /// The number, in Gbit/s or us.
    pub fn value(self) -> f64 {
        match self {
            Figure::Bandwidth(value) | Figure::Latency(value) => value,
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Figure::Bandwidth(value) => write!(f, "{} Gbit/s", short(*value)),
            Figure::Latency(value) => write!(f, "{} us", short(*value)),
        }
    }
}

/// A number with three significant digits.
pub fn short(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value if value >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Format of the output of a program, from which a figure is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reader {
    /// The program measures nothing.
    None,
    /// perftest with `--report_gbits`: the average bandwidth.
    PerftestBandwidth,
    /// perftest: the typical latency.
    PerftestLatency,
    /// The ping-pong programs of ibverbs-utils: half the round-trip time.
    Pingpong,
    /// qperf: the first latency, and otherwise the first bandwidth.
    Qperf,
    /// `ucx_perftest`: the overall bandwidth in the last line of results.
    UcxBandwidth,
    /// `ucx_perftest`: the median latency.
    UcxLatency,
    /// `fi_pingpong`: the time of a transfer.
    Libfabric,
    /// fio: the bandwidth.
    Fio,
    /// `rados bench`: the bandwidth of the last of its runs.
    Rados,
    /// `iscsi-perf`: the average bandwidth.
    Iscsi,
    /// qemu's migration: the bandwidth.
    Migration,
    /// `dapltest -T P`: the bandwidth.
    Dapl,
}

impl Reader {
    /// Reads the figure from an output; `None` if the output does not contain it.
    pub fn read(self, output: &str) -> Option<Figure> {
        match self {
            Reader::None => None,
            Reader::PerftestBandwidth => Some(Figure::Bandwidth(*perftest(output)?.get(3)?)),
            Reader::PerftestLatency => Some(Figure::Latency(*perftest(output)?.get(4)?)),
            Reader::Pingpong => {
                let line = output.lines().find(|line| line.contains("usec/iter"))?;
                let words: Vec<&str> = line.split_whitespace().collect();
                let at = words.iter().position(|word| *word == "usec/iter")?;
                Some(Figure::Latency(words.get(at.checked_sub(1)?)?.parse::<f64>().ok()? / 2.0))
            }
            Reader::Qperf => {
                let value = |name: &str| {
                    let line = output.lines().find(|line| line.trim_start().starts_with(name))?;
                    let mut words = line.split('=').nth(1)?.split_whitespace();
                    Some((words.next()?.parse::<f64>().ok()?, words.next()?.to_string()))
                };
                if let Some((number, unit)) = value("latency") {
                    return Some(Figure::Latency(number * if unit == "ms" { 1_000.0 } else { 1.0 }));
                }
                let (number, unit) = value("bw").or_else(|| value("send_bw"))?;
                let scale = match unit.as_str() {
                    "GB/sec" => 8.0,
                    "MB/sec" => 0.008,
                    "KB/sec" => 0.000_008,
                    _ => return None,
                };
                Some(Figure::Bandwidth(number * scale))
            }
            Reader::UcxBandwidth => {
                // MB of 2^20 bytes.
                Some(Figure::Bandwidth(*ucx(output)?.get(5)? * 1.048_576 * 0.008))
            }
            Reader::UcxLatency => Some(Figure::Latency(*ucx(output)?.get(1)?)),
            Reader::Libfabric => {
                let line = output.lines().rfind(|line| line.contains('='))?;
                let word = line.split_whitespace().rev().nth(1)?;
                Some(Figure::Latency(word.parse().ok()?))
            }
            Reader::Fio => {
                // bw=1234MiB/s (1294MB/s)
                let text = output.split("bw=").nth(1)?.split('(').nth(1)?.split(')').next()?;
                let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
                let number: f64 = text[..digits].parse().ok()?;
                let scale = match &text[digits..] {
                    "GB/s" => 8.0,
                    "MB/s" => 0.008,
                    "kB/s" => 0.000_008,
                    _ => return None,
                };
                Some(Figure::Bandwidth(number * scale))
            }
            // The three count MB of 2^20 bytes.
            Reader::Rados => {
                let line = output.lines().rfind(|line| line.starts_with("Bandwidth (MB/sec):"))?;
                Some(Figure::Bandwidth(line.split_whitespace().last()?.parse::<f64>().ok()? * MEBI))
            }
            Reader::Iscsi => {
                // iops average 2384 (149 MB/s)
                let text = output.split("iops average").nth(1)?.split('(').nth(1)?;
                Some(Figure::Bandwidth(text.split_whitespace().next()?.parse::<f64>().ok()? * MEBI))
            }
            Reader::Dapl => {
                // raw: operation, posts, bytes, segments, posts at the same time, ..., posts per second, MB/s
                let line = output.lines().find(|line| line.starts_with("raw:"))?;
                Some(Figure::Bandwidth(line.split(',').nth(7)?.trim().parse::<f64>().ok()? * MEBI))
            }
            Reader::Migration => {
                let line = output.lines().find(|line| line.starts_with("migrated "))?;
                let number: f64 = line.split(" at ").nth(1)?.split_whitespace().next()?.parse().ok()?;
                Some(Figure::Bandwidth(number / 1_000.0))
            }
        }
    }
}

/// Gbit in 2^20 bytes.
const MEBI: f64 = 1_048_576.0 * 8.0 / 1e9;

/// The numbers of perftest's line of results.
fn perftest(output: &str) -> Option<Vec<f64>> {
    let mut lines = output.lines().skip_while(|line| !line.contains("#bytes"));
    let numbers: Vec<f64> = lines.nth(1)?.split_whitespace().map_while(|number| number.parse().ok()).collect();
    (numbers.len() >= 4).then_some(numbers)
}

/// The numbers of the last line of results of `ucx_perftest`. The columns are:
/// iterations, median, average and overall latency, average and overall bandwidth, average and overall message rate.
fn ucx(output: &str) -> Option<Vec<f64>> {
    let line = output.lines().rfind(|line| line.starts_with("Final:"))?;
    let numbers: Vec<f64> = line.split_whitespace().skip(1).map_while(|number| number.parse().ok()).collect();
    (numbers.len() >= 8).then_some(numbers)
}

/// The median of the values; `None` if `values` is empty.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        len if len % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

/// The numbers of pyverbs tests that passed and that were skipped, as text; empty if the output has no such numbers.
pub fn remark(output: &str) -> String {
    let number = |before: &str| -> Option<u32> {
        let text = output.split(before).nth(1)?;
        text.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok()
    };
    match (number("\nRan "), number("skipped=")) {
        (Some(ran), Some(skipped)) => format!("{} tests, {skipped} skipped", ran - skipped),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found() {
        let bandwidth = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n \
                         65536      5000             28.47              27.91              0.053233\n";
        assert_eq!(Reader::PerftestBandwidth.read(bandwidth), Some(Figure::Bandwidth(27.91)));
        let latency = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]\n \
                       2       1000          4.50           99.68        5.05                5.21\n";
        assert_eq!(Reader::PerftestLatency.read(latency), Some(Figure::Latency(5.05)));
        let pingpong = "8192000 bytes in 0.01 seconds = 8000 Mbit/sec\n1000 iters in 0.01 seconds = 8.20 usec/iter\n";
        assert_eq!(Reader::Pingpong.read(pingpong), Some(Figure::Latency(4.1)));
        assert_eq!(Reader::Qperf.read("rc_lat:\n    latency  =  21.5 us\n"), Some(Figure::Latency(21.5)));
        assert_eq!(Reader::Qperf.read("rc_bw:\n    bw  =  2.5 GB/sec\n"), Some(Figure::Bandwidth(20.0)));
        let ucx = "Final:  1000  5.500  5.600  5.610  1.39  1000.0  178571  178253\n";
        assert_eq!(Reader::UcxLatency.read(ucx), Some(Figure::Latency(5.5)));
        assert_eq!(Reader::UcxBandwidth.read(ucx).map(|figure| short(figure.value())), Some("8.39".into()));
        assert_eq!(
            Reader::Fio.read("write: IOPS=1, BW=9\n bw=95.4MiB/s (100MB/s), io=4096KiB"),
            Some(Figure::Bandwidth(0.8))
        );
        let rados = "Bandwidth (MB/sec):     56.1615\nMax bandwidth (MB/sec): 64\nBandwidth (MB/sec):     100\n";
        assert_eq!(Reader::Rados.read(rados), Some(Figure::Bandwidth(100.0 * MEBI)));
        assert_eq!(Reader::Iscsi.read("iops average 457 (28 MB/s)  \n"), Some(Figure::Bandwidth(28.0 * MEBI)));
        let dapl = "raw: RW, 1000, 65536, 1, 16, 100.0, 3280.51, 205.3, 1670.85, 1.62, 302.98 \n";
        assert_eq!(Reader::Dapl.read(dapl), Some(Figure::Bandwidth(205.3 * MEBI)));
        let migration = "migrated 67657866 bytes at 225.5 Mbit/s\nverified\n";
        assert_eq!(Reader::Migration.read(migration), Some(Figure::Bandwidth(0.2255)));
        let storage = [Reader::Rados, Reader::Iscsi, Reader::Dapl, Reader::Migration];
        assert!(storage.iter().all(|reader| reader.read("nothing, at = (here)\n").is_none()));
        for reader in [Reader::PerftestBandwidth, Reader::Pingpong, Reader::Qperf, Reader::UcxLatency, Reader::Fio] {
            assert_eq!(reader.read("nothing = here\n"), None);
        }
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([0.012_34, 0.5, 12.345, 1_234.5].map(short), ["0.012", "0.50", "12.3", "1234"]);
        assert_eq!((median(vec![3.0, 1.0, 2.0]), median(vec![4.0, 1.0]), median(vec![])), (Some(2.0), Some(2.5), None));
    }
}
