//! Common parts of commands that run as a service: the page of metrics, the clock, and waiting.

use axum::Router;
use axum::http::{StatusCode, header};
use axum::routing::get;
use parking_lot::Mutex;
use rnic_http::{Limits, Server};
use rnic_metrics::exposition::{CONTENT_TYPE, Metrics};
use rnic_simulator::error::CliError;
use rnic_simulator::interrupt::Interruption;
use rnic_transport::Time;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use time::OffsetDateTime;

/// Serves metrics at the path `/metrics`, until it is dropped.
pub(crate) struct MetricsPage {
    latest: Arc<Mutex<String>>,
    _server: Server,
}

impl MetricsPage {
    /// Serves no metrics yet. Prints the address of the page on standard error.
    ///
    /// # Errors
    /// If the address cannot be used.
    pub(crate) fn serve(listen: SocketAddr) -> Result<MetricsPage, CliError> {
        let listener = TcpListener::bind(listen)
            .map_err(|error| CliError::Io { doing: format!("cannot listen at {listen}"), error })?;
        let latest = Arc::new(Mutex::new(String::new()));
        let served = latest.clone();
        let metrics = get(|| async move { ([(header::CONTENT_TYPE, CONTENT_TYPE)], served.lock().clone()) });
        let no_page = || async { (StatusCode::NOT_FOUND, "no such page; try /metrics\n") };
        let router = Router::new().route("/metrics", metrics).fallback(no_page);
        let server = Server::start(listener, router, Limits::default())
            .map_err(|error| CliError::Io { doing: "cannot serve metrics".to_string(), error })?;
        let _ = writeln!(io::stderr(), "metrics at http://{}/metrics", server.address());
        Ok(MetricsPage { latest, _server: server })
    }

    /// Serves these metrics from now on.
    pub(crate) fn set(&self, metrics: &Metrics) {
        *self.latest.lock() = metrics.prometheus();
    }
}

/// Reads the time between two rounds of a service.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    let time: Time = text.parse().map_err(|error| format!("{error}"))?;
    let seconds = time.as_ps() / 1_000_000_000_000;
    if time < Time::from_ms(100) || seconds > 86_400 {
        return Err(format!("{time} is out of range; accepted: 100 ms to 24 h"));
    }
    Ok(Duration::from_nanos(time.as_ps() / 1_000))
}

/// The time in seconds since 1970.
#[expect(clippy::disallowed_methods, reason = "a service says when it found something")]
pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// The name of this machine; `localhost` if it is unknown.
pub(crate) fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "localhost".to_string() } else { name.trim().to_string() }
}

/// A monotonic clock.
pub(crate) struct Clock(Instant);

#[expect(clippy::disallowed_methods, reason = "a service measures real time")]
impl Clock {
    /// Starts a clock at 0.
    pub(crate) fn start() -> Clock {
        Clock(Instant::now())
    }

    /// Nanoseconds since the start of the clock.
    pub(crate) fn nanoseconds(&self) -> u64 {
        u64::try_from((Instant::now() - self.0).as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Waits, or returns early after a signal.
#[expect(clippy::disallowed_methods, reason = "a service runs in real time")]
pub(crate) fn wait(time: Duration, interruption: &Interruption) {
    let end = Instant::now() + time;
    while interruption.exit_code().is_none() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
}

/// Formats a time in seconds since 1970 as `2026-01-31 23:59:59 UTC`. A time outside the range of the calendar is
/// printed as a number of seconds.
pub(crate) fn utc(seconds: u64) -> String {
    let Some(utc) = i64::try_from(seconds).ok().and_then(|s| OffsetDateTime::from_unix_timestamp(s).ok()) else {
        return format!("{seconds} s");
    };
    let (date, time) = (format!("{:04}-{:02}-{:02}", utc.year(), u8::from(utc.month()), utc.day()), utc.time());
    format!("{date} {:02}:{:02}:{:02} UTC", time.hour(), time.minute(), time.second())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_782_399), "2000-02-28 23:59:59 UTC");
        assert_eq!(utc(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(utc(1_767_225_599), "2025-12-31 23:59:59 UTC");
        assert_eq!(utc(4_107_542_400), "2100-03-01 00:00:00 UTC");
    }

    #[test]
    fn intervals() {
        assert_eq!(interval("60s").unwrap(), Duration::from_secs(60));
        assert_eq!(interval("250 ms").unwrap(), Duration::from_millis(250));
        assert!(interval("1 ms").unwrap_err().contains("100 ms to 24 h"));
        assert!(interval("60").is_err());
    }
}
