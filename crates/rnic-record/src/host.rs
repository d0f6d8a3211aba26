//! What a record says of where and when its numbers were measured. Only programs call these functions.

use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};
use time::OffsetDateTime;

/// The date of today in UTC, as `YYYY-MM-DD`.
#[expect(clippy::disallowed_methods, reason = "a record says when its numbers were measured; no result depends on it")]
pub fn date() -> String {
    let since = std::time::SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    day(since.as_secs() as i64)
}

/// The date at this time, in seconds since 1970; the number itself if no calendar has it.
fn day(seconds: i64) -> String {
    OffsetDateTime::from_unix_timestamp(seconds).map_or(format!("{seconds} s"), |time| {
        format!("{:04}-{:02}-{:02}", time.year(), u8::from(time.month()), time.day())
    })
}

/// The commit of the checkout in the current folder, with `+` if tracked files were changed since; `None` outside a
/// checkout.
pub fn commit() -> Option<String> {
    let git = |words: &[&str]| {
        let output = Command::new("git").args(words).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_string())
    };
    let id = git(&["rev-parse", "--short=8", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|lines| !lines.is_empty());
    Some(if changed { format!("{id}+") } else { id })
}

/// The machine: number of cores, model of the processor, and kernel, as far as they are known.
pub fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut parts = vec![format!("{cores} core{}", if cores == 1 { "" } else { "s" })];
    let model = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| model(&text));
    parts.extend(model);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok();
    parts.extend(kernel.and_then(|text| Some(format!("Linux {}", text.trim().split(['-', '+']).next()?))));
    parts.join(", ")
}

/// The processor's model in the text of `/proc/cpuinfo`.
fn model(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        for (days, expected) in [
            (0, "1970-01-01"),
            (59, "1970-03-01"),
            (11_016, "2000-02-29"),
            (20_593, "2026-05-20"),
            (20_453, "2025-12-31"),
        ] {
            assert_eq!(day(days * 86_400), expected);
        }
    }

    #[test]
    fn the_model_is_the_text_after_the_colon() {
        assert_eq!(model("processor\t: 0\nmodel name\t: A CPU @ 2.6GHz\n").as_deref(), Some("A CPU @ 2.6GHz"));
        assert!(machine().contains("core"));
    }
}
