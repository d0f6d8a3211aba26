//! The TCP connection to the peer, and the RDMA device that exchanges packets with the peer.

use rnic_endpoint::{Config, Device, Mode, Security};
use rnic_simulator::error::CliError;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Connects to a server at TCP port `port` of `host`, and waits up to `timeout` for each address of the host.
/// `programs` names the programs that can be the server, for the error message.
pub(crate) fn dial(host: &str, port: u16, timeout: Duration, programs: &str) -> Result<TcpStream, CliError> {
    let addresses = (host, port)
        .to_socket_addrs()
        .map_err(|error| CliError::Input(format!("there is no host \"{host}\": {error}")))?;
    let mut last = None;
    for address in addresses {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = Some((address, error)),
        }
    }
    let (address, error) = last.ok_or_else(|| CliError::Input(format!("host \"{host}\" has no address")))?;
    Err(CliError::Io {
        doing: format!("no server accepts connections at {address}; start {programs} there first"),
        error,
    })
}

/// Opens an RDMA device for plain RoCEv2 at `address`. If `address` is `None`, the device has the local address of the
/// TCP connection.
pub(crate) fn device(
    stream: &TcpStream, address: Option<IpAddr>, roce_port: u16, mode: Mode,
) -> Result<Device, CliError> {
    let local = match address {
        Some(address) => address,
        None => {
            let doing = "the connection to the peer".to_string();
            stream.local_addr().map_err(|error| CliError::Io { doing, error })?.ip().to_canonical()
        }
    };
    let config = Config { mode, security: Security::None, ..Config::default() };
    Device::open_at(SocketAddr::new(local, roce_port), config)
        .map_err(|error| CliError::Failed(vec![error.to_string()]))
}
