//! The command `rnic pingpong`.

use crate::peer;
use clap::Args;
use rnic_endpoint::Mode;
use rnic_endpoint::port::ROCE_PORT;
use rnic_perf::ibverbs::{Options, Outcome, Pingpong};
use rnic_simulator::error::CliError;
use rnic_transport::Time;
use rnic_verbs::Service;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::time::Duration;

/// Arguments of `rnic pingpong`.
///
/// Without HOST, the command is the server and waits for a client. The peer is `rnic pingpong`, or `ibv_rc_pingpong` of
/// ibverbs-utils with `-g` and the index of a RoCE v2 GID. Size, number of iterations and MTU must be equal at both
/// ends.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    rnic pingpong                        # a server\n  \
    rnic pingpong 10.0.0.2 -c            # a client of `rnic pingpong -c`\n  \
    rnic pingpong 10.0.0.2 -s 65536      # a client of `ibv_rc_pingpong -g 1 -s 65536`\n  \
    rnic pingpong 10.0.0.2 --ud          # a client of `ibv_ud_pingpong -g 1`")]
pub(crate) struct PingpongArgs {
    /// Name or address of the server
    host: Option<String>,

    /// TCP port of the server
    #[arg(short, long, value_name = "PORT", default_value_t = 18_515)]
    port: u16,

    /// Address of this host for RDMA [default: the address from which the peer is reached]
    #[arg(long, value_name = "ADDRESS")]
    address: Option<IpAddr>,

    /// UDP port for RDMA on both hosts
    #[arg(long, value_name = "PORT", default_value_t = ROCE_PORT)]
    roce_port: u16,

    /// Bytes of a message [default: 4096, with --ud 1024]
    #[arg(short, long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(0..=1 << 30))]
    size: Option<u32>,

    /// Number of messages to send in each direction
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1_000)]
    iters: u32,

    /// Payload bytes of a full packet: 256, 512, 1024, 2048 or 4096
    #[arg(short, long, value_name = "BYTES", default_value_t = 1_024)]
    mtu: u32,

    /// Number of receives that are outstanding at the same time
    #[arg(short, long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=32_768))]
    rx_depth: u32,

    /// Check every received byte; the peer must use `-c` too
    #[arg(short = 'c', long = "chk")]
    check: bool,

    /// Use unreliable connections, like `ibv_uc_pingpong`
    #[arg(long)]
    uc: bool,

    /// Use datagrams, like `ibv_ud_pingpong`; a message then has at most MTU bytes
    #[arg(long, conflicts_with = "uc")]
    ud: bool,

    /// Seconds without a response after which the command fails
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    timeout: u32,
}

/// Runs the ping-pong as the server, or as the client of the given host.
pub(crate) fn pingpong(arguments: &PingpongArgs) -> Result<(), CliError> {
    let service = match (arguments.uc, arguments.ud) {
        (true, _) => Service::Uc,
        (_, true) => Service::Ud,
        _ => Service::Rc,
    };
    let size = arguments.size.unwrap_or(if arguments.ud { arguments.mtu.min(1_024) } else { 4_096 });
    if arguments.ud && size > arguments.mtu {
        let mtu = arguments.mtu;
        return Err(CliError::Input(format!(
            "with --ud a message is one packet: -s {size} is more than the MTU, -m {mtu}; an MTU has at most 4096 bytes"
        )));
    }
    let options = Options {
        service,
        size: size as usize,
        iterations: arguments.iters,
        mtu: arguments.mtu,
        receives: arguments.rx_depth,
        check: arguments.check,
        timeout: Time::from_ms(u64::from(arguments.timeout) * 1_000),
        ..Options::default()
    };
    let timeout = Duration::from_secs(u64::from(arguments.timeout));
    let outcome = match &arguments.host {
        Some(host) => {
            let stream = peer::dial(host, arguments.port, timeout, "`rnic pingpong` or `ibv_rc_pingpong -g INDEX`")?;
            side(&stream, arguments, options)?.dial(stream)
        }
        None => {
            // The server listens on IPv6 and IPv4; on a host without IPv6, it listens on IPv4 only.
            let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, arguments.port))
                .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, arguments.port)))
                .map_err(|error| CliError::Io {
                    doing: format!("cannot wait for a client at TCP port {}", arguments.port),
                    error,
                })?;
            let serve = |stream: TcpStream, _| {
                ControlFlow::Break(side(&stream, arguments, options).map(|side| side.serve(stream)))
            };
            rnic_perf::serve_speakers(&listener, serve)
                .map_err(|error| CliError::Io { doing: "cannot accept a client".to_string(), error })??
        }
    };
    print(&outcome.map_err(failed)?)
}

/// Prepares the local end of the ping-pong. Its device has the local address of the TCP connection to the peer, unless
/// `--address` is given.
fn side(stream: &TcpStream, arguments: &PingpongArgs, options: Options) -> Result<Pingpong, CliError> {
    let io = |error| CliError::Io { doing: "the connection to the peer".to_string(), error };
    let wait = Some(Duration::from_secs(u64::from(arguments.timeout)));
    stream.set_read_timeout(wait).and_then(|()| stream.set_nodelay(true)).map_err(io)?;
    let device = peer::device(stream, arguments.address, arguments.roce_port, Mode::Polled, None)?;
    Pingpong::new(&device, options).map_err(failed)
}

fn failed(error: impl std::error::Error) -> CliError {
    CliError::Failed(vec![error.to_string()])
}

/// Prints the result in the same form as `ibv_rc_pingpong`.
fn print(outcome: &Outcome) -> Result<(), CliError> {
    let Outcome { bytes, iterations, elapsed, checked } = *outcome;
    let seconds = elapsed.as_ps() as f64 / 1e12;
    let rate = bytes as f64 * 8.0 / 1e6 / seconds;
    let each = seconds * 1e6 / f64::from(iterations.max(1));
    rnic_simulator::output::print(|out| {
        writeln!(out, "{bytes} bytes in {seconds:.2} seconds = {rate:.2} Mbit/sec")?;
        writeln!(out, "{iterations} iters in {seconds:.2} seconds = {each:.2} usec/iter")?;
        if checked > 0 {
            writeln!(out, "{checked} bytes received and checked")?;
        }
        Ok(())
    })
}
