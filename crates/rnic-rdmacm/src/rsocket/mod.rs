//! rsockets: sockets of streams and of datagrams over RDMA, with the calls of `rdma/rsocket.h`. They connect to the
//! rsockets of rdma-core ([`rnic_cm::rsocket`] has the protocol).
//!
//! | module | contents |
//! |---|---|
//! | `completions` | a completion queue with a channel |
//! | `stream` | the data path of a connection |
//! | `connect` | the steps from `rsocket` to `rclose` |
//! | `data` | sending and receiving |
//! | `iomap` | direct writes into memory of the peer |
//! | `poll` | `rpoll`, `rselect` |
//! | `options` | options and addresses |
//! | `datagram` | rsockets of datagrams |
//! | `watched` | threads that wait for the same rsocket |
//!
//! The number of a stream rsocket is the file descriptor of the event channel of its identifier (`rdma_cm_id`).

mod completions;
mod connect;
mod data;
mod datagram;
mod iomap;
mod options;
mod poll;
mod stream;
mod watched;

use crate::calls::event::complete;
use crate::objects::event::{self, Outcome};
use crate::objects::id::{self, Id};
use crate::verbs::{fail, trace};
use datagram::Datagrams;
use iomap::Maps;
use libc::c_int;
use options::Options;
use rnic_cabi::cma::*;
use rnic_cabi::entry::{entry, lock};
use rnic_cabi::get;
use rnic_cabi::pointer::Handle;
use rnic_cm::rsocket::ConnectData;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use stream::{News, Stream};
use watched::{Source, Watched};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The rsocket is new, and may be bound.
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
    /// At most one call sends at a time, and at most one call receives.
    sending: Mutex<()>,
    receiving: Mutex<()>,
}

struct Inner {
    /// The identifier, which has its own channel and belongs to the rsocket alone.
    id: Handle<Id>,
    state: State,
    /// Whether the program may still read and write.
    readable: bool,
    writable: bool,
    /// The value of `SO_ERROR`.
    error: c_int,
    options: Options,
    stream: Option<Stream>,
    maps: Maps,
}

// SAFETY: the identifier belongs to the rsocket alone, and is used under its lock.
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

/// Runs the body of a function that only stream rsockets have. The function fails with -1 and an error in `errno`.
fn with<R: From<i8>>(number: c_int, body: impl FnOnce(&Socket) -> Result<R, c_int>) -> R {
    either(number, body, |_| Err(libc::EOPNOTSUPP))
}

/// Runs the body that belongs to the type of the rsocket.
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

/// Adds an rsocket with an identifier that has its own channel, and belongs to the rsocket from now on. Returns the
/// number of the rsocket.
fn add(id: Handle<Id>, options: Options, state: State, stream: Option<Stream>) -> c_int {
    let number = channel_fd(id);
    let is_open = state != State::New;
    let inner =
        Inner { id, state, readable: is_open, writable: is_open, error: 0, options, stream, maps: Maps::default() };
    let socket = Socket { inner: Watched::new(inner), sending: Mutex::default(), receiving: Mutex::default() };
    lock(&SOCKETS).insert(number, Rsocket::Stream(Arc::new(socket)));
    number
}

/// The descriptor of an identifier's channel.
fn channel_fd(id: Handle<Id>) -> c_int {
    let channel = id::channel(id);
    get!(channel.fd)
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.maps.clear();
        self.stream = None;
        let _ = id::destroy(self.id.as_ptr());
    }
}

impl Inner {
    fn is_nonblocking(&self, flags: c_int) -> bool {
        self.options.flags & libc::O_NONBLOCK != 0 || flags & libc::MSG_DONTWAIT != 0
    }

    /// Descriptor of the events of the identifier.
    fn cm_fd(&self) -> c_int {
        channel_fd(self.id)
    }

    fn give_credits(&mut self) {
        if self.state == State::Connected
            && let Some(stream) = &mut self.stream
            && stream.give_credits().is_err()
        {
            self.handle(News::Broken);
        }
    }

    /// Handles a change of the connection that the data path reports.
    fn handle(&mut self, news: News) {
        match (news, self.state) {
            (News::Shutdown, State::Connected | State::Accepting) if self.writable => self.readable = false,
            (News::Shutdown | News::Disconnected, State::Connected | State::Accepting) => self.end(State::Ended, 0),
            (News::Broken, State::Connected | State::Accepting) => self.end(State::Broken, libc::EIO),
            _ => {}
        }
    }

    /// Handles the end of the connection. The program can still read received bytes.
    fn end(&mut self, state: State, error: c_int) {
        trace(format_args!("rsocket {} is {state:?}", self.cm_fd()));
        (self.state, self.readable, self.writable) = (state, false, false);
        if error != 0 {
            self.error = error;
        }
    }

    /// Handles the events of the identifier of a connection. Returns whether the identifier had any events.
    fn take_cm_events(&mut self) -> bool {
        let mut had_events = false;
        let is_open = |inner: &Inner| matches!(inner.state, State::Connecting | State::Accepting | State::Connected);
        while is_open(self) && !id::has_no_events(self.id) {
            let outcome = match complete(self.id) {
                Err(libc::EAGAIN | libc::EINTR) => return had_events,
                other => other,
            };
            had_events = true;
            // The identifier keeps the event until it takes the next event.
            let Some(about) = self.latest_event() else {
                self.end(State::Broken, outcome.err().unwrap_or(libc::EIO));
                return true;
            };
            match (self.state, about.kind) {
                (State::Connecting, RDMA_CM_EVENT_ESTABLISHED) => self.connected(&about.data),
                (State::Connecting, _) => {
                    let error = outcome.err().unwrap_or(libc::ECONNREFUSED);
                    (self.state, self.error) = (State::Refused, error);
                }
                (State::Accepting, RDMA_CM_EVENT_ESTABLISHED) => self.state = State::Connected,
                (_, RDMA_CM_EVENT_ESTABLISHED | RDMA_CM_EVENT_TIMEWAIT_EXIT) => {}
                _ => {
                    // Handle the completions that came before the event first.
                    let news = self.stream.as_mut().map(Stream::poll).unwrap_or_default();
                    news.into_iter().for_each(|news| self.handle(news));
                    if self.state != State::Ended {
                        self.end(State::Ended, 0);
                    }
                }
            }
        }
        had_events
    }

    /// The event of the identifier's latest step.
    fn latest_event(&self) -> Option<Outcome> {
        let id = self.id;
        event::live(get!(id.event)).map(Outcome::of)
    }

    /// Handles the peer's acceptance of the connection, with this private data.
    fn connected(&mut self, data: &[u8]) {
        match (ConnectData::parse(data), &mut self.stream) {
            (Some(peer), Some(stream)) => {
                stream.set_peer(peer);
                (self.state, self.readable, self.writable) = (State::Connected, true, true);
            }
            // The peer is not an rsocket.
            _ => (self.state, self.error) = (State::Refused, libc::EPROTO),
        }
    }
}

impl Source for Inner {
    /// Handles completions and events of the identifier, and gives credits to the peer.
    fn progress(&mut self) -> bool {
        let had_events = self.take_cm_events();
        if let Some(stream) = &mut self.stream {
            for news in stream.poll() {
                self.handle(news);
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

    fn take_events(&mut self) -> bool {
        self.stream.as_mut().is_some_and(Stream::take_events)
    }
}

impl Socket {
    /// If a connection is being set up, waits until it is set up or refused.
    ///
    /// # Errors
    /// As [`Watched::wait`]; `ENOTCONN` if the rsocket has no connection.
    fn ready<'a>(&'a self, inner: Guard<'a>, is_nonblocking: bool) -> (Guard<'a>, Result<(), c_int>) {
        let (inner, waited) = self.inner.wait(inner, is_nonblocking, |inner| inner.state != State::Connecting);
        let is_connected = inner.stream.is_some() && !matches!(inner.state, State::Refused);
        (inner, waited.and(if is_connected { Ok(()) } else { Err(libc::ENOTCONN) }))
    }
}
