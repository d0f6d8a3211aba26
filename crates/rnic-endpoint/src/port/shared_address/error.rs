//! Why a port that shares its address cannot be opened.

use super::SLOTS;
use super::owners::Owner;
use crate::port::BindError;
use nix::errno::Errno;
use std::net::IpAddr;

/// Why a process cannot join the processes of an address. The numbers in the variants are values of `errno`.
#[derive(Debug, thiserror::Error)]
pub enum SharedAddressError {
    /// A UDP port cannot be opened.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// Another user has a name that this process needs for the address: the name of the broker, because that user
    /// has the device or has only bound the name, or the name of a connection manager.
    #[error(
        "{} has the name @{name} of Unix sockets, without which the device of {ip} cannot be used; use another address",
        named(.owner)
    )]
    OtherUser {
        /// The address.
        ip: IpAddr,
        /// The name in the abstract namespace.
        name: String,
        /// The user; `None` if the system does not report it.
        owner: Option<Owner>,
    },
    /// Other users have bound the names of all free slots.
    #[error(
        "no slot of {ip} is free: other users, such as {}, have {names} of the {SLOTS} names @{name}/0 to @{name}/{} of \
         Unix sockets; use another address",
        named(.owner), SLOTS - 1
    )]
    SlotsOfOtherUser {
        /// The address.
        ip: IpAddr,
        /// The name of the broker, with which the names of slots begin.
        name: String,
        /// Number of slots whose names belong to other users.
        names: usize,
        /// The user to whom most of these slot names belong; `None` if the system does not report the user.
        owner: Option<Owner>,
    },
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

fn named(owner: &Option<Owner>) -> String {
    owner.map_or("another user".to_string(), |owner| owner.to_string())
}

fn description(errno: i32) -> &'static str {
    Errno::from_raw(errno).desc()
}

impl SharedAddressError {
    /// The value of `errno` that describes the error best.
    pub fn errno(&self) -> i32 {
        let errno = match self {
            SharedAddressError::Bind(BindError::System { error, .. }) => {
                return error.raw_os_error().unwrap_or(Errno::EADDRNOTAVAIL as i32);
            }
            SharedAddressError::Bind(_) => Errno::EADDRNOTAVAIL,
            SharedAddressError::OtherUser { .. } | SharedAddressError::SlotsOfOtherUser { .. } => Errno::EACCES,
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
