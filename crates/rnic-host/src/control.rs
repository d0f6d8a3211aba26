//! The congestion control of a channel, chosen from the catalogue of `rnic-transport` or by type, and the bytes that a
//! channel may have outstanding.

use crate::chunk::Frames;
use crate::error::HostError;
use rnic_transport::congestion::{CongestionControl, DynamicParams, Law, RogueDelay, Settings, Value};
use rnic_transport::registry::{Visitor, visit_congestion_controls};
use rnic_transport::{BitRate, FlowConfig, Time};
use std::fmt;
use std::sync::Arc;

/// A congestion control for channels, with its settings.
///
/// ```
/// use rnic_host::Control;
/// use rnic_transport::congestion::{CongestionControl, Settings, Timely};
/// use rnic_transport::Time;
///
/// assert_eq!(Control::default().name(), "rogue");
/// let timely = Control::named("timely", &[("t_high", Time::from_us(250).into())])?;
/// let same = Control::of::<Timely>(Settings::new(Timely::PARAMETERS));
/// assert_eq!(timely.name(), same.name());
/// let error = Control::named("swif", &[]).unwrap_err().to_string();
/// assert!(error.starts_with("there is no congestion control `swif`; there are `rogue`, `none`, "));
/// # Ok::<(), rnic_host::HostError>(())
/// ```
#[derive(Clone)]
pub struct Control(Arc<dyn Factory>);

impl Control {
    /// The congestion control `C` with these settings. `C` need not be registered anywhere.
    pub fn of<C: CongestionControl>(settings: Settings) -> Control {
        Control(Arc::new(Maker::<C> { settings, of: std::marker::PhantomData }))
    }

    /// The congestion control with this name: `rogue` ([`RogueDelay`]), or one of the registry of `rnic-transport`.
    /// `values` are the settings that differ from their defaults.
    ///
    /// # Errors
    /// If no congestion control has this name, or a setting has an unknown name or a value out of range.
    pub fn named(name: &str, values: &[(&str, Value)]) -> Result<Control, HostError> {
        let mut find = Find { name, values, names: Vec::new(), found: None };
        find.visit::<RogueDelay>();
        visit_congestion_controls(&mut find);
        find.found.unwrap_or_else(|| {
            let names: Vec<String> = find.names.iter().map(|name| format!("`{name}`")).collect();
            let names = names.join(", ");
            Err(HostError::Congestion(format!("there is no congestion control `{name}`; there are {names}")))
        })
    }

    /// The name of the congestion control.
    pub fn name(&self) -> &'static str {
        self.0.name()
    }

    /// The state of a connection that begins at `now`.
    pub(crate) fn start(&self, cfg: &FlowConfig, now: Time) -> Result<Box<dyn Law>, HostError> {
        self.0.start(cfg, now).map_err(HostError::Congestion)
    }
}

impl Default for Control {
    /// RoGUE's response with its default settings.
    fn default() -> Control {
        Control::of::<RogueDelay>(Settings::new(RogueDelay::PARAMETERS))
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Control({})", self.name())
    }
}

/// The window in bytes for packets of `mtu` bytes; [`u64::MAX`] without a window.
pub(crate) fn window_bytes(law: &dyn Law, mtu: u32) -> u64 {
    match law.window() {
        u32::MAX => u64::MAX,
        packets => u64::from(packets) * u64::from(mtu),
    }
}

trait Factory: Send + Sync {
    fn name(&self) -> &'static str;
    fn start(&self, cfg: &FlowConfig, now: Time) -> Result<Box<dyn Law>, String>;
}

struct Maker<C> {
    settings: Settings,
    of: std::marker::PhantomData<fn() -> C>,
}

impl<C: CongestionControl> Factory for Maker<C> {
    fn name(&self) -> &'static str {
        C::NAME
    }
    fn start(&self, cfg: &FlowConfig, now: Time) -> Result<Box<dyn Law>, String> {
        let params = C::params(&self.settings, cfg)?;
        Ok(DynamicParams::of::<C>(params).start(cfg, now))
    }
}

struct Find<'a> {
    name: &'a str,
    values: &'a [(&'a str, Value)],
    names: Vec<&'static str>,
    found: Option<Result<Control, HostError>>,
}

impl Visitor for Find<'_> {
    fn visit<C: CongestionControl>(&mut self) {
        self.names.push(C::NAME);
        if C::NAME == self.name {
            let mut settings = Settings::new(C::PARAMETERS);
            let set = self.values.iter().try_for_each(|(name, value)| settings.set(name, value.clone()));
            self.found = Some(set.map(|()| Control::of::<C>(settings)).map_err(HostError::Congestion));
        }
    }
}

/// The configuration of a connection for its congestion control.
pub(crate) fn flow_config(frames: Frames, line_rate: BitRate, base_rtt: Time) -> FlowConfig {
    let packets = line_rate.bytes_in(base_rtt).div_ceil(u64::from(frames.mtu + frames.header));
    let bdp = u32::try_from(packets).unwrap_or(u32::MAX).max(1);
    FlowConfig {
        mtu: frames.mtu,
        header: frames.header,
        line_rate,
        base_rtt,
        bdp,
        bdp_cap: bdp,
        timeouts: None,
        ..FlowConfig::default()
    }
}

/// What a congestion control allows: RoGUE's rule for windows below a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allowance {
    /// Maximum number of bytes outstanding; `None`: only the rate limits the connection.
    pub window: Option<u64>,
    /// Maximum rate; `None`: only the link limits the rate.
    pub rate: Option<BitRate>,
}

impl Allowance {
    /// The allowance for a congestion control that has the rate `rate` and a window of `window` bytes; `u64::MAX`
    /// stands for no window. A window of at least `chunk` bytes is enforced as it is, together with the rate. A smaller
    /// window cannot be enforced, because a whole chunk is outstanding, so the rate `window / rtt` is used instead. At
    /// the rate `line` of the link and above, no limit is needed.
    ///
    /// ```
    /// use rnic_host::Allowance;
    /// use rnic_transport::{BitRate, Time};
    ///
    /// let (line, rtt) = (BitRate::from_gbps(10), Time::from_us(100));
    /// let of = |rate, window| Allowance::of(BitRate::from_gbps(rate), window, 65_536, rtt, line);
    /// assert_eq!(of(4, 100_000), Allowance { window: Some(100_000), rate: Some(BitRate::from_gbps(4)) });
    /// assert_eq!(of(10, 100_000), Allowance { window: Some(100_000), rate: None });
    /// assert_eq!(of(10, 50_000), Allowance { window: None, rate: Some(BitRate::from_gbps(4)) });
    /// assert_eq!(of(3, 50_000), Allowance { window: None, rate: Some(BitRate::from_gbps(3)) });
    /// ```
    pub fn of(rate: BitRate, window: u64, chunk: u64, rtt: Time, line: BitRate) -> Allowance {
        let limit = |rate: BitRate| (rate < line).then_some(rate.max(BitRate::from_bps(1)));
        if window >= chunk {
            let window = (window < u64::MAX).then_some(window);
            return Allowance { window, rate: limit(rate) };
        }
        let of_window = u128::from(window) * 8_000_000_000_000 / u128::from(rtt.as_ps().max(1));
        let of_window = BitRate::from_bps(u64::try_from(of_window).unwrap_or(u64::MAX));
        Allowance { window: None, rate: limit(rate.min(of_window)) }
    }
}
