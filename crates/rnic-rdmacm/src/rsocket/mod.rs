//! rsockets: sockets of streams and of datagrams over RDMA, with the calls of `rdma/rsocket.h`. They speak with those
//! of rdma-core ([`rnic_cm::rsocket`] has the protocol).
//!
//! | module | contents |
//! |---|---|
//! | `stream` | the data path of a connection |
//! | `connect` | the steps from `rsocket` to `rclose` |
//! | `data` | sending and receiving |
//! | `iomap` | direct writes into memory of the peer |
//! | `poll` | `rpoll`, `rselect` |
//! | `options` | options and addresses |
//! | `datagram` | rsockets of datagrams |
//! | `watched` | threads that wait for the same rsocket |
//!
//! The number of an rsocket of streams is that of the descriptor of its identifier's event channel.

mod connect;
mod data;
mod datagram;
mod iomap;
mod options;
mod poll;
mod stream;
mod watched;

use crate::channel;
use crate::event::Outcome;
use crate::id;
use crate::verbs::{fail, trace};
use datagram::Datagrams;
use iomap::Maps;
use libc::c_int;
use options::Options;
use rnic_cabi::cma::*;
use rnic_cabi::entry::{entry, lock};
use rnic_cm::rsocket::ConnectData;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use stream::{News, Stream};
use watched::{Source, Watched};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// It may be bound.
    New,
    Listening,
    /// The REQ is sent.
    Connecting,
    /// The REP is sent.
    Accepting,
    Connected,
    /// The connection was not set up.
    Refused,
    /// The connection has ended.
    Ended,
    /// The connection is broken.
    Broken,
}

/// An rsocket of streams.
struct Socket {
    inner: Watched<Inner>,
    /// One call sends, and one receives, at a time.
    sending: Mutex<()>,
    receiving: Mutex<()>,
}

struct Inner {
    id: *mut rdma_cm_id,
    state: State,
    /// Whether the program may still read and write.
    readable: bool,
    writable: bool,
    /// The error that `SO_ERROR` tells.
    error: c_int,
    options: Options,
    stream: Option<Stream>,
    maps: Maps,
}

// SAFETY: the identifier belongs to the rsocket alone; the functions of this crate may be called from all threads.
unsafe impl Send for Inner {}

type Guard<'a> = watched::Guard<'a, Inner>;

/// An rsocket.
#[derive(Clone)]
enum Rsocket {
    Stream(Arc<Socket>),
    Datagrams(Arc<Datagrams>),
}

/// All rsockets, by their number.
static SOCKETS: Mutex<BTreeMap<c_int, Rsocket>> = Mutex::new(BTreeMap::new());

/// The rsocket with this number.
fn find(number: c_int) -> Option<Rsocket> {
    lock(&SOCKETS).get(&number).cloned()
}

/// Runs the body of a function of an rsocket of streams, which fails with -1 and an error in `errno`.
fn with<R: From<i8>>(number: c_int, body: impl FnOnce(&Socket) -> Result<R, c_int>) -> R {
    either(number, body, |_| Err(libc::EOPNOTSUPP))
}

/// Runs the body for the kind of the rsocket.
fn either<R: From<i8>>(
    number: c_int, streams: impl FnOnce(&Socket) -> Result<R, c_int>,
    datagrams: impl FnOnce(&Datagrams) -> Result<R, c_int>,
) -> R {
    entry(R::from(-1), || {
        let result = match find(number) {
            Some(Rsocket::Stream(socket)) => streams(&socket),
            Some(Rsocket::Datagrams(socket)) => datagrams(&socket),
            None => Err(libc::EBADF),
        };
        result.unwrap_or_else(|error| {
            fail(error);
            R::from(-1)
        })
    })
}

/// Adds an rsocket with an identifier that has a channel of its own; returns its number.
///
/// # Safety
/// The identifier exists and belongs to the rsocket from now on.
unsafe fn add(id: *mut rdma_cm_id, options: Options, state: State, stream: Option<Stream>) -> c_int {
    // SAFETY: the caller's promise.
    let number = unsafe { (*(*id).channel).fd };
    let is_open = state != State::New;
    let inner =
        Inner { id, state, readable: is_open, writable: is_open, error: 0, options, stream, maps: Maps::default() };
    let socket = Socket { inner: Watched::new(inner), sending: Mutex::default(), receiving: Mutex::default() };
    lock(&SOCKETS).insert(number, Rsocket::Stream(Arc::new(socket)));
    number
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.maps.clear();
        self.stream = None;
        // SAFETY: the identifier belongs to the rsocket, and its queue pair is destroyed.
        unsafe { id::rdma_destroy_id(self.id) };
    }
}

impl Inner {
    fn is_nonblocking(&self, flags: c_int) -> bool {
        self.options.flags & libc::O_NONBLOCK != 0 || flags & libc::MSG_DONTWAIT != 0
    }

    /// Descriptor of the events of the identifier.
    fn cm_fd(&self) -> c_int {
        // SAFETY: the identifier and its channel exist as long as the rsocket.
        unsafe { (*(*self.id).channel).fd }
    }

    fn give_credits(&mut self) {
        if self.state == State::Connected
            && let Some(stream) = &mut self.stream
            && stream.give_credits().is_err()
        {
            self.hear(News::Broken);
        }
    }

    fn hear(&mut self, news: News) {
        match (news, self.state) {
            (News::Shutdown, State::Connected | State::Accepting) if self.writable => self.readable = false,
            (News::Shutdown | News::Disconnected, State::Connected | State::Accepting) => self.end(State::Ended, 0),
            (News::Broken, State::Connected | State::Accepting) => self.end(State::Broken, libc::EIO),
            _ => {}
        }
    }

    /// The connection has ended. What has arrived can still be read.
    fn end(&mut self, state: State, error: c_int) {
        trace(format_args!("rsocket {} is {state:?}", self.cm_fd()));
        (self.state, self.readable, self.writable) = (state, false, false);
        if error != 0 {
            self.error = error;
        }
    }

    /// Handles the events of the identifier of a connection. Returns whether there were any.
    fn take_events(&mut self) -> bool {
        let mut had_events = false;
        // SAFETY: the identifier exists, with a channel of its own.
        let is_quiet = |inner: &Inner| unsafe { channel::is_quiet(inner.id) };
        while matches!(self.state, State::Connecting | State::Accepting | State::Connected) && !is_quiet(self) {
            // SAFETY: the identifier exists. Its channel is non-blocking.
            let outcome = match unsafe { channel::complete(self.id) } {
                Err(libc::EAGAIN | libc::EINTR) => return had_events,
                other => other,
            };
            had_events = true;
            // SAFETY: as above; the event is there until the next one is taken.
            let event = unsafe { (*self.id).event };
            if event.is_null() {
                self.end(State::Broken, outcome.err().unwrap_or(libc::EIO));
                return true;
            }
            // SAFETY: as above.
            let about = unsafe { Outcome::of(event) };
            match (self.state, about.kind) {
                (State::Connecting, RDMA_CM_EVENT_ESTABLISHED) => self.connected(&about.data),
                (State::Connecting, _) => {
                    let error = outcome.err().unwrap_or(libc::ECONNREFUSED);
                    (self.state, self.error) = (State::Refused, error);
                }
                (State::Accepting, RDMA_CM_EVENT_ESTABLISHED) => self.state = State::Connected,
                (_, RDMA_CM_EVENT_ESTABLISHED | RDMA_CM_EVENT_TIMEWAIT_EXIT) => {}
                _ => {
                    // What has arrived before counts.
                    let news = self.stream.as_mut().map(Stream::poll).unwrap_or_default();
                    news.into_iter().for_each(|news| self.hear(news));
                    if self.state != State::Ended {
                        self.end(State::Ended, 0);
                    }
                }
            }
        }
        had_events
    }

    /// The peer has accepted, and says this.
    fn connected(&mut self, data: &[u8]) {
        match (ConnectData::parse(data), &mut self.stream) {
            (Some(peer), Some(stream)) => {
                stream.set_peer(peer);
                (self.state, self.readable, self.writable) = (State::Connected, true, true);
            }
            // It is no rsocket.
            _ => (self.state, self.error) = (State::Refused, libc::EPROTO),
        }
    }
}

impl Source for Inner {
    /// Handles completions and events of the identifier, and gives credits.
    fn progress(&mut self) -> bool {
        let had_events = self.take_events();
        if let Some(stream) = &mut self.stream {
            for news in stream.poll() {
                self.hear(news);
            }
        }
        self.give_credits();
        had_events
    }

    fn arm(&mut self) -> (Vec<c_int>, bool) {
        let mut fds = vec![self.cm_fd()];
        let is_new = self.stream.as_mut().is_some_and(|stream| {
            fds.push(stream.fd());
            stream.arm()
        });
        (fds, is_new)
    }

    fn silence(&mut self) -> bool {
        self.stream.as_mut().is_some_and(Stream::silence)
    }
}

impl Socket {
    /// Waits until a connection is set up, if it is being set up.
    ///
    /// # Errors
    /// As [`Watched::wait`]; `ENOTCONN` if there is no connection.
    fn ready<'a>(&'a self, inner: Guard<'a>, is_nonblocking: bool) -> (Guard<'a>, Result<(), c_int>) {
        let (inner, waited) = self.inner.wait(inner, is_nonblocking, |inner| inner.state != State::Connecting);
        let is_connected = inner.stream.is_some() && !matches!(inner.state, State::Refused);
        (inner, waited.and(if is_connected { Ok(()) } else { Err(libc::ENOTCONN) }))
    }
}
