//! Statistics of the queue pairs of a measurement, for `rnic top`.

use rnic_endpoint::device::Device;
use rnic_endpoint::statistics;

/// Publishes the statistics of a device of a measurement until the device is closed. If the system has no descriptor or
/// thread for them, the measurement runs without.
pub fn publish(device: &Device) {
    let start = |run| std::thread::Builder::new().name("rnic stats".to_string()).spawn(run).map(drop);
    let _ = statistics::publish(device, "rnic", start);
}
