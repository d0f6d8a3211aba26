//! Why a port that shares its address cannot be opened.

use super::SLOTS;
use crate::port::BindError;
use nix::errno::Errno;
use std::net::IpAddr;

/// Why a process cannot join the processes of an address. The numbers in the variants are values of `errno`.
#[derive(Debug, thiserror::Error)]
pub enum SharedAddressError {
    /// A UDP port cannot be opened.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The broker of the address belongs to another user.
    #[error("a process of another user has the device of {0}; use another address")]
    OtherUser(IpAddr),
    /// The broker of the address does not respond.
    #[error("the process that receives for {0} does not answer; perhaps it is stopped, by a debugger for example")]
    NoResponse(IpAddr),
    /// All slots of the address are in use.
    #[error("{SLOTS} devices are open on {0}, and no more are possible")]
    NoSlot(IpAddr),
    /// The name of a connection manager cannot be claimed.
    #[error("a Unix socket cannot be bound: {}", description(*.0))]
    Name(i32),
    /// The file for a connection list cannot be made.
    #[error("a file in memory cannot be made: {}", description(*.0))]
    ConnectionList(i32),
    /// Another system call failed.
    #[error("a system call failed: {}", description(*.0))]
    System(i32),
}

fn description(errno: i32) -> &'static str {
    Errno::from_raw(errno).desc()
}

impl SharedAddressError {
    /// The value of `errno` that describes the error best.
    pub fn errno(&self) -> i32 {
        let errno = match self {
            SharedAddressError::Bind(_) => Errno::EADDRNOTAVAIL,
            SharedAddressError::OtherUser(_) => Errno::EACCES,
            SharedAddressError::NoResponse(_) => Errno::ETIMEDOUT,
            SharedAddressError::NoSlot(_) => Errno::ENOSPC,
            SharedAddressError::Name(errno)
            | SharedAddressError::ConnectionList(errno)
            | SharedAddressError::System(errno) => return *errno,
        };
        errno as i32
    }
}

impl From<Errno> for SharedAddressError {
    fn from(error: Errno) -> SharedAddressError {
        SharedAddressError::System(error as i32)
    }
}
