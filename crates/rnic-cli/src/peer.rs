//! The TCP connection to the peer, and the RDMA device that exchanges packets with the peer.

use rnic_endpoint::port::{CaptureFailure, CaptureFile, CapturePort};
use rnic_endpoint::{Config, Device, Mode, Security, UdpPort};
use rnic_simulator::error::CliError;
use rnic_simulator::output::note;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
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
/// TCP connection. The packets of the device are captured in the file `capture`.
pub(crate) fn device(
    stream: &TcpStream, address: Option<IpAddr>, roce_port: u16, mode: Mode, capture: Option<CaptureFile>,
) -> Result<Device, CliError> {
    let local = match address {
        Some(address) => address,
        None => {
            let doing = "the connection to the peer".to_string();
            stream.local_addr().map_err(|error| CliError::Io { doing, error })?.ip().to_canonical()
        }
    };
    let config = Config { mode, security: Security::None, ..Config::default() };
    let local = SocketAddr::new(local, roce_port);
    let device = match capture {
        None => Device::open_at(local, config),
        Some(file) => capturing(local, config, file),
    };
    let device = device.map_err(|error| CliError::Failed(vec![error.to_string()]))?;
    rnic_perf::publish(&device);
    Ok(device)
}

/// Opens a device at `local` whose packets are captured.
fn capturing(local: SocketAddr, config: Config, file: CaptureFile) -> Result<Device, rnic_endpoint::Error> {
    let port = UdpPort::bind(local, &config.udp)?;
    let config = config.fitted_to(&port)?;
    Device::on_port(Box::new(CapturePort::new(port, file)), config)
}

/// Creates a capture file. If it cannot be written later, a message states this, and the measurement continues.
pub(crate) fn capture(path: &Path) -> Result<CaptureFile, CliError> {
    let name = path.display().to_string();
    let failed = move |CaptureFailure { error, packets }| {
        note(&format!("--pcap: cannot write {name}: {error}; it ends after {packets} packets"));
    };
    let cannot = |error| CliError::Io { doing: format!("--pcap: cannot write {}", path.display()), error };
    CaptureFile::create(path, failed).map_err(cannot)
}
