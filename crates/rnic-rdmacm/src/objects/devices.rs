//! The devices of this host. Their events go to channels.

use super::channel;
use super::device::{self, Device};
use libc::c_int;
use std::net::IpAddr;

/// The device of an address.
///
/// # Errors
/// `ENODEV` if the address has no device; the error of opening it.
pub(crate) fn of(ip: IpAddr) -> Result<&'static Device, c_int> {
    let device = device::list()?.into_iter().find(|(own, _)| *own == ip).ok_or(libc::ENODEV)?;
    device::open(device, channel::deliver)
}

/// All devices that can be opened.
///
/// # Errors
/// `ENODEV` if no device can be opened.
pub(crate) fn all() -> Result<Vec<&'static Device>, c_int> {
    let devices = device::list()?.into_iter().filter_map(|device| device::open(device, channel::deliver).ok());
    let devices: Vec<_> = devices.collect();
    if devices.is_empty() { Err(libc::ENODEV) } else { Ok(devices) }
}

/// The addresses of all devices, whether opened or not.
pub(crate) fn addresses() -> Vec<IpAddr> {
    device::list().unwrap_or_default().into_iter().map(|(ip, _)| ip).collect()
}
