//! The TCP connection over which the two hosts of a measurement with plain datagrams exchange its settings and results.
//! Each message is one line of text.

use rnic_endpoint::exchange::Refusal;
use rnic_endpoint::port::{BindError, SendError};
use rnic_untrusted::text::{MAX_CHARS, brief};
use socket2::{SockRef, TcpKeepalive};
use std::io::{self, BufRead, BufReader, Read as _, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::str::FromStr;
use std::time::Duration;

/// Maximum length of a message in bytes.
const MAX_LINE: u64 = 256;
/// Timeout for a message that the peer can send immediately, without waiting for something else first.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(10);

/// Time in which a client in a measurement must send a datagram or a message. Twice this time is less than the timeout
/// of the next client, which waits for its turn.
const ACTIVITY_INTERVAL: Duration = Duration::from_secs(4);

/// Why a measurement with plain datagrams failed.
#[derive(Debug, thiserror::Error)]
pub enum RawError {
    /// The TCP connection failed.
    #[error("the connection to {peer} failed: {error}")]
    Connection {
        /// The address of the peer.
        peer: SocketAddr,
        /// The error of the system.
        #[source]
        error: io::Error,
    },
    /// The peer sent an unexpected message.
    #[error("the peer is not `rnic perf raw`, or one of another version: {0}")]
    Protocol(String),
    /// The client sent neither a datagram nor a message.
    #[error("{peer} sent neither a datagram nor a message for {} s", .waited.as_secs())]
    Idle {
        /// The address of the client.
        peer: SocketAddr,
        /// Time without a datagram or a message.
        waited: Duration,
    },
    /// The server refused the client, because too many clients wait.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The UDP port for the datagrams cannot be opened.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A datagram could not be sent.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The UDP port failed after it was opened.
    #[error("the port failed: {0}")]
    Port(#[source] io::Error),
    /// The receiver did not receive any datagram during the measurement.
    #[error("no datagram arrived; is UDP from {from} to {to} filtered?")]
    Nothing {
        /// The address from which the datagrams were sent.
        from: SocketAddr,
        /// The address to which the datagrams were sent.
        to: SocketAddr,
    },
}

/// One end of the TCP connection over which the two hosts set up measurements.
#[derive(Debug)]
pub(super) struct Control {
    reader: BufReader<TcpStream>,
    pub(super) local: SocketAddr,
    pub(super) peer: SocketAddr,
}

impl Control {
    pub(super) fn connect(server: SocketAddr) -> Result<Control, RawError> {
        let failed = |error| RawError::Connection { peer: server, error };
        Control::over(TcpStream::connect(server).map_err(failed)?, server)
    }

    pub(super) fn over(stream: TcpStream, peer: SocketAddr) -> Result<Control, RawError> {
        let prepare = || {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(MESSAGE_TIMEOUT))?;
            // A peer that sends no message may be measuring, or its host may have failed. Keepalive probes
            // distinguish the two cases.
            SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(MESSAGE_TIMEOUT))?;
            stream.local_addr()
        };
        // On a connection over IPv4, a dual-stack socket has an IPv4-mapped IPv6 address. A UDP port with such an
        // address cannot send to IPv4 addresses.
        let peer = canonical(peer);
        let local = prepare().map_err(|error| RawError::Connection { peer, error })?;
        Ok(Control { reader: BufReader::new(stream), local: canonical(local), peer })
    }

    pub(super) fn say(&mut self, line: &str) -> Result<(), RawError> {
        let sent = self.reader.get_mut().write_all(format!("{line}\n").as_bytes());
        sent.map_err(|error| RawError::Connection { peer: self.peer, error })
    }

    /// Receives the peer's next line, and returns it without the line feed.
    pub(super) fn receive_line(&mut self) -> Result<String, RawError> {
        let mut line = String::new();
        let read = self.reader.by_ref().take(MAX_LINE).read_line(&mut line);
        match read {
            // The line may become part of a message for users.
            Ok(_) if line.ends_with('\n') => Ok(brief(line.trim_end(), MAX_CHARS).into_owned()),
            Ok(_) => Err(RawError::Protocol("the connection ended within a line, or the line is too long".to_string())),
            Err(error) => Err(RawError::Connection { peer: self.peer, error }),
        }
    }

    /// Receives the peer's next line like [`Control::receive_line`]. Returns `None` if the peer closed the connection.
    pub(super) fn next_line(&mut self) -> Result<Option<String>, RawError> {
        let failed = |error| RawError::Connection { peer: self.peer, error };
        let ended = self.reader.fill_buf().map_err(failed)?.is_empty();
        if ended { Ok(None) } else { self.receive_line().map(Some) }
    }

    /// Receives the peer's next line like [`Control::next_line`], for which the peer may take any time as long as
    /// `is_active` returns true. The function calls it at intervals of [`ACTIVITY_INTERVAL`].
    pub(super) fn line_while(&mut self, is_active: impl Fn() -> bool) -> Result<Option<String>, RawError> {
        let peer = self.peer;
        let failed = |error| RawError::Connection { peer, error };
        self.reader.get_ref().set_read_timeout(Some(ACTIVITY_INTERVAL)).map_err(failed)?;
        while let Err(error) = self.reader.fill_buf() {
            match error.kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut if is_active() => {}
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                    return Err(RawError::Idle { peer, waited: ACTIVITY_INTERVAL });
                }
                _ => return Err(failed(error)),
            }
        }
        self.reader.get_ref().set_read_timeout(Some(MESSAGE_TIMEOUT)).map_err(failed)?;
        self.next_line()
    }

    /// A function that closes the connection from another thread.
    pub(super) fn closer(&self) -> Result<impl FnOnce() + Send + use<>, RawError> {
        let stream = self.reader.get_ref().try_clone();
        let stream = stream.map_err(|error| RawError::Connection { peer: self.peer, error })?;
        // The call fails only if the connection is already broken.
        Ok(move || drop(stream.shutdown(Shutdown::Both)))
    }
}

/// Converts an IPv4-mapped IPv6 address to its IPv4 address; returns other addresses unchanged.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip @ IpAddr::V4(_) => SocketAddr::new(ip, address.port()),
        IpAddr::V6(_) => address,
    }
}

/// Returns the value of the field `name` of a line, which contains `name=value`.
pub(super) fn field<T: FromStr>(line: &str, name: &str) -> Result<T, RawError> {
    let value = line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let value = value.ok_or_else(|| RawError::Protocol(format!("`{line}` has no field `{name}`")))?;
    value.parse().map_err(|_| RawError::Protocol(format!("`{name}` in `{line}` has an invalid value")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_name() {
        let line = "throughput size=1024 to=127.0.0.1:80 resize=5";
        assert_eq!(field::<usize>(line, "size").unwrap(), 1024);
        assert_eq!(field::<SocketAddr>(line, "to").unwrap(), "127.0.0.1:80".parse().unwrap());
        assert!(matches!(field::<u64>(line, "window"), Err(RawError::Protocol(_))));
        assert!(matches!(field::<u64>(line, "to"), Err(RawError::Protocol(_))));
    }
}
