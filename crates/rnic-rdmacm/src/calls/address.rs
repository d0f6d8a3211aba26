//! Binding to addresses and ports, and resolution of addresses and routes.

use super::event::complete;
use crate::objects::device::Device;
use crate::objects::id::{self, Id, Inner};
use crate::objects::{channel, devices};
use crate::sockets;
use crate::verbs::{call, trace};
use libc::{c_int, sockaddr};
use rnic_cabi::cma::*;
use rnic_cabi::entry::lock;
use rnic_cabi::get;
use rnic_cabi::pointer::Handle;
use rnic_cm::ip;
use std::net::{IpAddr, SocketAddr};

/// Range of ports for programs that do not choose a port, as on Linux.
const EPHEMERAL: std::ops::RangeInclusive<u16> = 32_768..=60_999;
/// Maximum number of random ports that are tried before the call fails.
const MAX_ATTEMPTS: usize = 64;

/// # Safety
/// The address has the length of its family.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_bind_addr(id: *mut rdma_cm_id, address: *mut sockaddr) -> c_int {
    call(|| {
        let id = id::live(id)?;
        // SAFETY: the caller promises the conditions of this function.
        bind(id, unsafe { sockets::read(address) }?)
    })
}

fn random_port(device: &'static Device) -> u16 {
    let (first, last) = (u32::from(*EPHEMERAL.start()), u32::from(*EPHEMERAL.end()));
    (first + device.with(|manager, _| manager.psn()) % (last - first + 1)) as u16
}

/// Claims a service ID on all these devices, or on none of them.
fn claim(devices: &[&'static Device], service: u64, shared: bool) -> Result<(), c_int> {
    for (at, device) in devices.iter().enumerate() {
        // Before the claim, because a request may be queued at the broker, which passes the request on as soon as the
        // service ID is claimed.
        device.with(|manager, _| manager.expect_listener(service, true));
        if let Err(error) = device.claim(service, shared) {
            devices[..at].iter().for_each(|device| device.release(service));
            devices[..=at].iter().for_each(|device| device.with(|manager, _| manager.expect_listener(service, false)));
            return Err(error);
        }
    }
    Ok(())
}

/// Binds an identifier to an address and a port; port 0 stands for any free port.
///
/// # Errors
/// `EINVAL` if it is bound already; `EADDRNOTAVAIL` if the address has no device; `ENODEV` if the host has no device;
/// `EADDRINUSE`.
pub(crate) fn bind(id: Handle<Id>, address: SocketAddr) -> Result<(), c_int> {
    let (state, space) = (id.state(), get!(id.ps));
    let mut inner = lock(&state.inner);
    if inner.local.is_some() {
        return Err(libc::EINVAL);
    }
    let address = SocketAddr::new(local_device(address.ip()).unwrap_or(address.ip()), address.port());
    let all = if address.ip().is_unspecified() { devices::all()? } else { Vec::new() };
    let devices: Vec<_> = if address.ip().is_unspecified() {
        let admits = |ip: IpAddr| ip.is_ipv4() == address.is_ipv4() || address.is_ipv6() && !inner.family_only;
        // If no device has an address of this family, no peer can connect, but the call succeeds, as on Linux.
        all.iter().copied().filter(|device| admits(device.ip)).collect()
    } else {
        let device = devices::of(address.ip()).map_err(|error| {
            trace(format_args!("rdma_bind_addr refused: {} is no address of a device", address.ip()));
            if error == libc::ENODEV { libc::EADDRNOTAVAIL } else { error }
        })?;
        vec![device]
    };
    let first = devices.first().or(all.first()).ok_or(libc::ENODEV)?;
    let service = |port| ip::service(space as u16, port);
    let port = match address.port() {
        0 => {
            let mut ports = (0..MAX_ATTEMPTS).map(|_| random_port(first));
            ports.find(|port| claim(&devices, service(*port), inner.reuse).is_ok()).ok_or(libc::EADDRNOTAVAIL)?
        }
        port => {
            claim(&devices, service(port), inner.reuse)?;
            port
        }
    };
    inner.bound = devices.iter().map(|device| (*device, service(port))).collect();
    inner.local = Some(SocketAddr::new(address.ip(), port));
    if !address.ip().is_unspecified() {
        inner.device = Some(devices[0]);
    }
    trace(format_args!("rdma_bind_addr {}:{port}", address.ip()));
    id::show_addresses(id, &inner);
    Ok(())
}

/// Returns the address of the first device if `ip` is a loopback address that does not belong to a device: as on Linux,
/// this loopback address then stands for a device of this host.
fn local_device(ip: IpAddr) -> Option<IpAddr> {
    let own = devices::addresses();
    let first = || own.iter().find(|own| own.is_ipv4() == ip.is_ipv4()).or(own.first()).copied();
    if ip.is_loopback() && !own.contains(&ip) { first() } else { None }
}

/// Finds the device by which this host reaches `remote`. Returns the device and the address of the peer.
fn route(inner: &Inner, remote: SocketAddr) -> Result<(&'static Device, SocketAddr), c_int> {
    if let Some(device) = inner.device {
        return if device.ip.is_ipv4() == remote.is_ipv4() { Ok((device, remote)) } else { Err(libc::EAFNOSUPPORT) };
    }
    let own = devices::addresses();
    let remote = SocketAddr::new(local_device(remote.ip()).unwrap_or(remote.ip()), remote.port());
    if remote.ip().is_unspecified() {
        let ip = own.iter().find(|ip| ip.is_ipv4() == remote.is_ipv4()).ok_or(libc::ENODEV)?;
        return Ok((devices::of(*ip)?, SocketAddr::new(*ip, remote.port())));
    }
    // The source address for an address of this host is this address itself.
    let source = if own.contains(&remote.ip()) { Some(remote.ip()) } else { sockets::source_for(remote) };
    let source = source.ok_or(libc::ENETUNREACH)?;
    let device = devices::of(source).inspect_err(|_| {
        trace(format_args!("rdma_resolve_addr: {remote} is reached from {source}, which is no device"));
    })?;
    Ok((device, remote))
}

/// Resolves the address of the peer: finds the device by which this host reaches the peer.
///
/// # Safety
/// The source is null or an address; the addresses have the lengths of their families.
pub(crate) unsafe fn resolve(id: Handle<Id>, source: *mut sockaddr, destination: *mut sockaddr) -> Result<(), c_int> {
    if destination.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: the caller promises the conditions of this function.
    let remote = unsafe { sockets::read(destination) }?;
    let state = id.state();
    if !source.is_null() && lock(&state.inner).local.is_none() {
        // SAFETY: as above.
        let source = unsafe { sockets::read(source) }?;
        // The unspecified address with port 0 stands for any source.
        if !source.ip().is_unspecified() || source.port() != 0 {
            bind(id, source)?;
        }
    }
    let resolved = {
        let mut inner = lock(&state.inner);
        route(&inner, remote).map(|(device, remote)| {
            let port = inner.local.map_or_else(|| random_port(device), |local| local.port());
            inner.local = Some(SocketAddr::new(device.ip, port));
            inner.device = Some(device);
            inner.remote = Some(remote);
            id::show_addresses(id, &inner);
        })
    };
    trace(format_args!("rdma_resolve_addr {remote}"));
    match resolved {
        Ok(()) => channel::done(state.token, RDMA_CM_EVENT_ADDR_RESOLVED, 0),
        Err(error) => channel::done(state.token, RDMA_CM_EVENT_ADDR_ERROR, -error),
    }
    complete(id)
}

/// # Safety
/// The source is null or an address; the addresses have the lengths of their families.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rdma_resolve_addr(
    id: *mut rdma_cm_id, source: *mut sockaddr, destination: *mut sockaddr, _timeout_ms: c_int,
) -> c_int {
    // SAFETY: the caller promises the conditions of this function.
    call(|| unsafe { resolve(id::live(id)?, source, destination) })
}

/// Resolves the route to the peer, which is known immediately.
pub(crate) fn resolve_route(id: Handle<Id>) -> Result<(), c_int> {
    let state = id.state();
    {
        let inner = lock(&state.inner);
        if inner.device.is_none() || inner.remote.is_none() {
            return Err(libc::EINVAL);
        }
        id::show_path(id, &inner);
    }
    channel::done(state.token, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
    complete(id)
}

#[unsafe(no_mangle)]
pub extern "C" fn rdma_resolve_route(id: *mut rdma_cm_id, _timeout_ms: c_int) -> c_int {
    call(|| resolve_route(id::live(id)?))
}
