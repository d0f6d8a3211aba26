//! The clients of a server that serves one client after another.
//!
//! A thread for each client receives its first messages, so that a client that sends nothing does not keep others
//! waiting. The client then waits until it is served. The numbers of both kinds of clients, and of failures that wait
//! to be reported, are limited, because every host can connect.

use rnic_endpoint::exchange::{Admission, Admissions, Limit, accept, admit};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::Duration;

/// Maximum number of clients whose first messages a server is receiving. If a limit is reached, the server closes the
/// connection of another such client and accepts the new one ([`Admissions`]).
pub(crate) const MAX_UNPROVED: Limit = Limit { of_all: 64, of_host: 8 };
/// Maximum number of clients that wait to be served. They have sent their first messages, with the server's credentials
/// if it has credentials. Further clients are refused, with a reason.
pub(crate) const MAX_WAITING: Limit = Limit { of_all: 64, of_host: 8 };
/// Maximum number of failures to receive first messages that wait to be reported. Further ones are not reported, so
/// that hosts without credentials cannot fill the memory or the log of a server.
pub(crate) const MAX_FAILURES: usize = 16;

/// A client that has sent its first messages, and its place among the waiting clients, which it keeps while it is
/// served.
pub(crate) type Ready<T> = (T, Admission);

/// An entry in the queue of a server.
enum Arrival<T, E> {
    Ready(SocketAddr, Ready<T>),
    Failed { peer: SocketAddr, error: E, _count: FailureCount },
}

/// A failure in the queue, counted until it is dropped.
struct FailureCount(Arc<AtomicUsize>);

impl FailureCount {
    /// Counts another failure; `None` if [`MAX_FAILURES`] are in the queue.
    fn new(count: &Arc<AtomicUsize>) -> Option<FailureCount> {
        let has_room = |count| (count < MAX_FAILURES).then_some(count + 1);
        count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, has_room).ok()?;
        Some(FailureCount(count.clone()))
    }
}

impl Drop for FailureCount {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The receiving end of the queue of a server.
pub(crate) struct Clients<T, E>(Receiver<Arrival<T, E>>);

/// The sending end of the queue of a server.
pub(crate) struct Reception<T, E>(SyncSender<Arrival<T, E>>);

/// Makes the queue of a server. It has room for all waiting clients, for the same number of clients that were evicted
/// while they waited, and for the failures.
pub(crate) fn queue<T, E>() -> (Reception<T, E>, Clients<T, E>) {
    let (sender, receiver) = mpsc::sync_channel(2 * MAX_WAITING.of_all + MAX_FAILURES);
    (Reception(sender), Clients(receiver))
}

impl<T, E> Clients<T, E> {
    /// Waits for the next client, at most for `timeout`. Returns the client's address, and the client or the reason why
    /// its first messages could not be received. `None` if no client is ready.
    pub(crate) fn next(&self, timeout: Duration) -> Option<(SocketAddr, Result<Ready<T>, E>)> {
        match self.0.recv_timeout(timeout).ok()? {
            Arrival::Ready(_, (_, admission)) if admission.is_evicted() => None,
            Arrival::Ready(peer, ready) => Some((peer, Ok(ready))),
            Arrival::Failed { peer, error, .. } => Some((peer, Err(error))),
        }
    }
}

impl<T: Send + 'static, E: Send + 'static> Reception<T, E> {
    /// Accepts clients until `ends` returns true. `first` receives the first messages of a client, in an own thread; it
    /// calls [`Admission::prove`] as soon as the client has proved that it may use the server.
    ///
    /// # Errors
    /// An error of `listener` when it accepts a connection.
    pub(crate) fn run(
        &self, listener: &TcpListener, ends: impl Fn() -> bool,
        first: impl Fn(TcpStream, SocketAddr, &Admission) -> Result<T, E> + Clone + Send + 'static,
    ) -> io::Result<()> {
        let (admissions, failures) = (Admissions::new(MAX_UNPROVED, MAX_WAITING), Arc::default());
        while let Some((stream, peer)) = accept(listener, &ends)? {
            let Some(admission) = admit(&admissions, &stream, peer) else { continue };
            let (first, clients, failures) = (first.clone(), self.0.clone(), Arc::clone(&failures));
            let listen = move || {
                let arrival = match first(stream, peer, &admission) {
                    Ok(client) => Arrival::Ready(peer, (client, admission)),
                    // The client made room for another one.
                    Err(_) if admission.is_evicted() => return,
                    Err(error) => {
                        let Some(_count) = FailureCount::new(&failures) else { return };
                        Arrival::Failed { peer, error, _count }
                    }
                };
                // This fails only if the server has ended, because the limits are the size of the queue.
                let _ = clients.try_send(arrival);
            };
            // If no thread can be started, the client is refused.
            let _ = std::thread::Builder::new().name("rnic-perf-client".to_string()).spawn(listen);
        }
        Ok(())
    }
}

/// Time within which a client of [`serve_speakers`] must send its first byte.
const FIRST_BYTE: Duration = Duration::from_secs(10);
/// Interval in which [`serve_speakers`] checks whether accepting clients has failed.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Serves clients of a protocol in which the client speaks first, such as perftest's, one after another, until `serve`
/// returns [`ControlFlow::Break`]. A client is served when it has sent its first byte, so clients that send nothing do
/// not keep others waiting. They are not reported.
///
/// # Errors
/// An error of `listener` when it accepts a connection.
pub fn serve_speakers<B>(
    listener: &TcpListener, mut serve: impl FnMut(TcpStream, SocketAddr) -> ControlFlow<B>,
) -> io::Result<B> {
    let (done, (reception, clients)) = (AtomicBool::new(false), queue());
    std::thread::scope(|scope| {
        let reception = scope.spawn(|| reception.run(listener, || done.load(Ordering::Relaxed), first_byte));
        while !reception.is_finished() {
            let Some((peer, Ok((stream, _admission)))) = clients.next(CHECK_INTERVAL) else { continue };
            if let ControlFlow::Break(result) = serve(stream, peer) {
                done.store(true, Ordering::Relaxed);
                return Ok(result);
            }
        }
        let ended = reception.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Err(ended.err().unwrap_or_else(|| io::Error::other("the thread that accepts clients has ended")))
    })
}

/// Waits for the first byte of a client, which stays in the connection.
fn first_byte(stream: TcpStream, _: SocketAddr, admission: &Admission) -> io::Result<TcpStream> {
    stream.set_read_timeout(Some(FIRST_BYTE))?;
    if stream.peek(&mut [0])? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    stream.set_read_timeout(None)?;
    admission.prove().map_err(io::Error::other)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Read, Write};

    const SOON: Duration = Duration::from_secs(10);

    /// Receives a line, as a server would.
    fn line(stream: TcpStream, _: SocketAddr, admission: &Admission) -> Result<String, String> {
        let mut line = String::new();
        match BufReader::new(stream).read_line(&mut line) {
            Ok(_) if line.ends_with('\n') => {}
            other => return Err(format!("{other:?} {line}")),
        }
        admission.prove().map_err(|refusal| refusal.to_string()).map(|()| line)
    }

    fn serving(test: impl FnOnce(SocketAddr, &Clients<String, String>)) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (reception, clients) = queue();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| reception.run(&listener, || done.load(Ordering::Relaxed), line).unwrap());
            test(listener.local_addr().unwrap(), &clients);
            done.store(true, Ordering::Relaxed);
        });
    }

    /// Addresses of one host: each has its own limit.
    fn connect_from(address: [u8; 4], server: SocketAddr) -> TcpStream {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((address, 0)).into()).unwrap();
        socket.connect(&server.into()).unwrap();
        socket.into()
    }

    /// One host with 8 addresses opens 64 connections that say nothing, repeatedly.
    #[test]
    fn silent_connections_do_not_keep_others_out() {
        serving(|server, clients| {
            let mut silent = Vec::new();
            for round in 0..4_u8 {
                for number in 0..64_u8 {
                    silent.push(connect_from([127, 0, 1, number % 8], server));
                }
                let mut honest = connect_from([127, 0, 2, round], server);
                writeln!(honest, "{round}").unwrap();
                let ready = loop {
                    match clients.next(SOON) {
                        Some((_, Ok((line, _)))) => break line,
                        Some((_, Err(_))) => {}
                        None => panic!("the client with a message is not ready"),
                    }
                };
                assert_eq!(ready, format!("{round}\n"));
            }
            drop(silent);
        });
    }

    #[test]
    fn a_client_that_speaks_is_served_before_silent_ones() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        let silent: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(server).unwrap()).collect();
        let mut speaker = TcpStream::connect(server).unwrap();
        speaker.write_all(b"x").unwrap();
        let served = serve_speakers(&listener, |mut stream, _| {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            ControlFlow::Break(byte)
        });
        assert_eq!(served.unwrap(), *b"x");
        drop(silent);
    }

    /// While a server serves no client, it keeps at most the maximum number of waiting clients, and the maximum number
    /// of failures.
    #[test]
    fn waiting_clients_and_failures_are_bounded() {
        serving(|server, clients| {
            for _ in 0..100 {
                connect_from([127, 0, 3, 1], server);
            }
            let mut streams = Vec::new();
            for number in 0..20 {
                let mut stream = connect_from([127, 0, 4, 1], server);
                writeln!(stream, "{number}").unwrap();
                streams.push(stream);
            }
            let pause = Duration::from_secs(1);
            let (mut waiting, mut failed) = (Vec::new(), 0);
            while let Some((_, arrival)) = clients.next(pause) {
                match arrival {
                    Ok(ready) => waiting.push(ready),
                    Err(_) => failed += 1,
                }
            }
            assert_eq!(waiting.len(), MAX_WAITING.of_host);
            assert!((1..=100 + 12).contains(&failed), "{failed}");
        });
    }
}
