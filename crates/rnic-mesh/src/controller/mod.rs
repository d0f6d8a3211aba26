//! The controller as a service: requests of agents over TLS, the page and the metrics, and results on disk.

mod api;
mod metrics;
mod otlp;
mod page;
mod tls;
mod views;
mod writer;

use crate::credentials::Files;
use crate::evaluation::Evaluation;
use crate::inventory::Inventory;
use crate::presence::{Heard, Held, Presence};
use crate::recorded::Recording;
use crate::registry::Registry;
pub use crate::store::Earlier;
use crate::store::{Converter, State, Store, StoreError, earlier};
use crate::verdict::Mesh;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::net::TcpListener;

/// Options of [`run`].
#[derive(Clone, Debug)]
pub struct Options {
    /// The inventory.
    pub inventory: Arc<Inventory>,
    /// Folder of the results.
    pub folder: PathBuf,
    /// Address for agents.
    pub listen: SocketAddr,
    /// Address of the page and the metrics. On a loopback address everybody on this machine may read them; on any
    /// other, only who has the certificate of an operator.
    pub page: SocketAddr,
    /// Certificates.
    pub files: Files,
    /// URL of an OTLP collector to which metrics are pushed, such as `http://127.0.0.1:4318/v1/metrics`.
    pub otlp: Option<String>,
    /// The time of day. Windows and alarms do not use it.
    pub clock: Clock,
}

/// A clock that shows the time of day in microseconds since 1970. It may go back and jump ahead.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> u64 + Send + Sync>);

impl Clock {
    /// A clock that shows what a function returns.
    pub fn new(show: impl Fn() -> u64 + Send + Sync + 'static) -> Clock {
        Clock(Arc::new(show))
    }

    fn unix_us(&self) -> u64 {
        (self.0)()
    }
}

impl Default for Clock {
    /// The clock of the system.
    fn default() -> Clock {
        Clock::new(unix_us)
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Clock({})", self.unix_us())
    }
}

/// What the controller tells while it runs.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// It listens: for agents, and for browsers.
    Open(SocketAddr, SocketAddr),
    /// Results of an earlier controller were read: number of batches.
    Replayed(usize),
    /// Results of the last hour were read from Parquet files.
    Refilled(Earlier),
    /// An agent registered.
    Agent(String),
    /// The disk does not take results; agents keep them meanwhile.
    Storage(String),
    /// The disk takes results again.
    StorageBack,
    /// The OTLP collector does not take metrics.
    Otlp(String),
}

/// Why a controller cannot run.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// The folder cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The certificates cannot be used, or an option is wrong.
    #[error("{0}")]
    Setup(String),
    /// An address cannot be used.
    #[error("cannot listen at {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The reason.
        error: io::Error,
    },
    /// The system refuses something.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// What the page and the metrics show.
struct View {
    inventory: Arc<Inventory>,
    mesh: Mutex<Mesh>,
    registry: Mutex<Registry>,
    start: Instant,
    /// The time of a mesh that was recorded, in ms; `None`: time passes.
    still: Option<u64>,
    /// What is special about this mesh, for the page.
    note: Option<String>,
    /// Why the disk takes nothing; `None` while it does.
    trouble: Mutex<Option<String>>,
    /// Batches that the controller has refused, and requests of strangers.
    refused: AtomicU64,
}

impl View {
    /// Milliseconds of a clock that does not go back.
    fn now(&self) -> u64 {
        self.still.unwrap_or_else(|| (instant() - self.start).as_millis() as u64 + BEFORE_MS)
    }
}

/// State that all requests share.
struct Shared {
    view: Arc<View>,
    writer: writer::Writer,
    converter: Converter,
    clock: Clock,
    events: std::sync::mpsc::Sender<Event>,
    secret: Vec<u8>,
    /// Whether an agent has registered since the state was saved.
    dirty: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[expect(clippy::disallowed_methods, reason = "a service measures real time")]
fn instant() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "a service says when results arrived")]
fn unix_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_micros() as u64)
}

/// Maximum number of results with which the windows are filled at the start, from Parquet files.
const REFILL: usize = 20_000_000;
/// How far back windows look.
const HOUR_MS: u64 = 3_600_000;
/// Times of this process begin late enough for results of the hour before.
const BEFORE_MS: u64 = 2 * 3_600_000;

impl Shared {
    fn tell(&self, event: Event) {
        // Nobody listens once the controller ends.
        let _ = self.events.send(event);
    }

    fn save(&self) {
        let state = State {
            agents: lock(&self.view.registry).registrations(),
            stored: self.writer.stored(),
            secret: self.secret.clone(),
        };
        if let Err(error) = self.converter.save(&state) {
            self.storage(Some(error.to_string()));
        }
    }

    fn storage(&self, trouble: Option<String>) {
        let mut known = lock(&self.view.trouble);
        if known.is_some() != trouble.is_some() {
            self.tell(trouble.clone().map_or(Event::StorageBack, Event::Storage));
        }
        *known = trouble;
    }

    /// Makes a verdict. Reports are counted in between, because each step holds the mesh for a moment only.
    fn evaluate(&self, now: u64) {
        let mut evaluation = Evaluation::new(now);
        while evaluation.step(&mut lock(&self.view.mesh)) {
            // Who waits for the mesh gets it now.
            std::thread::yield_now();
        }
        evaluation.localise();
        evaluation.conclude(&mut lock(&self.view.mesh));
    }

    /// Counts a batch in the verdicts.
    fn count(&self, batch: &crate::record::Batch, now: u64) {
        let index = |(name, incarnation): &(String, u64)| Some((self.view.inventory.index(name)?, *incarnation));
        let peers = self.presences(batch.targets.iter().filter_map(index), now);
        let presence = |host, incarnation| peers.get(&(host, incarnation)).copied().unwrap_or(Presence::Down);
        lock(&self.view.mesh).add(batch, now, presence);
    }

    /// Counts the results that were held back until it was known whether their targets are up.
    fn settle(&self, now: u64) {
        let held = lock(&self.view.mesh).held();
        if !held.is_empty() {
            let known = self.presences(held.into_iter(), now);
            let presence = |held: &Held| known.get(&(held.ends.1, held.incarnation)).copied();
            lock(&self.view.mesh).settle(now, |held| presence(held).unwrap_or(Presence::Unknown));
        }
    }

    /// What is known about agents, given by host and incarnation.
    fn presences(&self, agents: impl Iterator<Item = (u32, u64)>, now: u64) -> BTreeMap<(u32, u64), Presence> {
        let registry = lock(&self.view.registry);
        agents.map(|agent| (agent, registry.presence(agent.0, agent.1, now))).collect()
    }
}

/// Runs the controller until `stop` is set. Tells `event` what happens.
///
/// # Errors
/// If it cannot start. Once it runs, a full disk or a wrong request does not end it.
pub fn run(options: &Options, stop: &AtomicBool, mut event: impl FnMut(Event)) -> Result<(), ControllerError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (events, told) = std::sync::mpsc::channel();
    let (shared, threads) = open(options, events)?;
    let server = runtime.block_on(Server::start(options, shared.clone()))?;
    event(Event::Open(server.agents, server.page));
    let mut evaluated = shared.view.now();
    let mut saved = evaluated;
    let every = options.inventory.settings.evaluate.as_ps() / 1_000_000_000;
    let mut exporter = options
        .otlp
        .as_deref()
        .map(|url| otlp::Exporter::new(url, shared.clock.unix_us()))
        .transpose()
        .map_err(ControllerError::Setup)?;
    while !stop.load(Ordering::Relaxed) {
        told.try_iter().for_each(&mut event);
        let now = shared.view.now();
        if now >= evaluated + every {
            evaluated = now;
            shared.settle(now);
            shared.evaluate(now);
            if let Some(exporter) = &mut exporter {
                exporter.push(&shared, |why| event(Event::Otlp(why)));
            }
        }
        // A controller that starts anew knows the agents, and gives them the lists that they have.
        if now >= saved + 1_000 && shared.dirty.swap(false, Ordering::Relaxed) {
            saved = now;
            shared.save();
        }
        pause();
    }
    runtime.shutdown_timeout(Duration::from_secs(2));
    shared.save();
    told.try_iter().for_each(&mut event);
    // The folder is free for another controller once the threads have ended.
    drop(shared);
    for thread in threads {
        // A panic was reported in that thread.
        let _ = thread.join();
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a service waits in real time")]
fn pause() {
    std::thread::sleep(Duration::from_millis(50));
}

/// Opens the folder, and restores what an earlier controller knew.
fn open(
    options: &Options, events: std::sync::mpsc::Sender<Event>,
) -> Result<(Arc<Shared>, [JoinHandle<()>; 2]), ControllerError> {
    let inventory = options.inventory.clone();
    let mut mesh = Mesh::new(inventory.clone());
    let wall = options.clock.unix_us();
    let mut replay = Replay::new(&mut mesh);
    let refilled = refill(options, &mut replay, wall)?;
    let mut replayed = 0;
    let retention = inventory.settings.retention_hours as usize;
    let (store, mut state) = Store::open(&options.folder, retention, |entry| {
        replayed += 1;
        // A clock that went back, or an hour of long ago: the age is not known or of no interest.
        let age = wall.checked_sub(entry.received_us).map_or(0, |us| us / 1_000);
        if let Some(at) = BEFORE_MS.checked_sub(age) {
            replay.batch(&entry.batch, at);
        }
    })?;
    replay.end();
    if state.secret.len() < 32 {
        state.secret = crate::host::random::<32>()?.to_vec();
    }
    let mut registry = Registry::new(inventory.clone(), &state.secret);
    for registration in std::mem::take(&mut state.agents) {
        registry.restore(registration, BEFORE_MS);
    }
    let converter = store.converter();
    let passed = store.passed()?;
    // A batch that an agent repeats, because it has not got the answer, counts once.
    for (host, last) in store.stored() {
        mesh.counted_before(host, *last);
    }
    let (writer, jobs) = writer::Writer::new(store);
    let view = View {
        inventory,
        mesh: Mutex::new(mesh),
        registry: Mutex::new(registry),
        start: instant(),
        still: None,
        note: None,
        trouble: Mutex::new(None),
        refused: AtomicU64::new(0),
    };
    let shared = Arc::new(Shared {
        view: Arc::new(view),
        writer,
        converter,
        clock: options.clock.clone(),
        events,
        secret: state.secret,
        dirty: AtomicBool::new(false),
    });
    if refilled != Earlier::default() {
        shared.tell(Event::Refilled(refilled));
    }
    if replayed > 0 {
        shared.tell(Event::Replayed(replayed));
    }
    // What the logs tell must be in the state before a log becomes a Parquet file.
    shared.save();
    let threads = writer::start(&shared, jobs, passed)?;
    Ok((shared, threads))
}

/// Serves the page of a mesh that was recorded, until `stop` is set. Tells `opened` the address.
///
/// # Errors
/// If the address is no loopback address, or cannot be used.
pub fn show(
    recording: Recording, page: SocketAddr, stop: &AtomicBool, opened: impl FnOnce(SocketAddr),
) -> Result<(), ControllerError> {
    if !page.ip().is_loopback() {
        return Err(ControllerError::Setup(format!(
            "a recorded mesh cannot be shown at {page}; accepted: a loopback address such as 127.0.0.1:18518"
        )));
    }
    let Recording { mesh, registry, now, note } = recording;
    let view = View {
        inventory: mesh.inventory().clone(),
        mesh: Mutex::new(mesh),
        registry: Mutex::new(registry),
        start: instant(),
        still: Some(now),
        note: Some(note),
        trouble: Mutex::new(None),
        refused: AtomicU64::new(0),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let listener = runtime.block_on(TcpListener::bind(page));
    let listener = listener.map_err(|error| ControllerError::Listen { address: page, error })?;
    opened(listener.local_addr()?);
    let router = page::router(Arc::new(view), true);
    runtime.spawn(async move { axum::serve(listener, router.into_make_service()).await });
    while !stop.load(Ordering::Relaxed) {
        pause();
    }
    runtime.shutdown_timeout(Duration::from_secs(2));
    Ok(())
}

/// Counts the results of an earlier controller, in order of arrival.
struct Replay<'m> {
    mesh: &'m mut Mesh,
    heard: Heard,
    /// When the results that are held back were looked at last.
    settled: u64,
}

impl Replay<'_> {
    fn new(mesh: &mut Mesh) -> Replay<'_> {
        let settings = &mesh.inventory().settings;
        // As in the registry; a report comes as often as a fetch, or less often.
        let patience = 3 * settings.refresh.max(settings.report).as_ps() / 1_000_000_000;
        let heard = Heard::new(mesh.inventory().hosts.len(), patience);
        Replay { mesh, heard, settled: 0 }
    }

    /// A host's report arrived at `at`.
    fn heard(&mut self, host: u32, at: u64) {
        self.heard.note(host, at);
        if at >= self.settled + 1_000 {
            self.settled = at;
            let heard = &self.heard;
            self.mesh.settle(at, |held| heard.presence(held.ends.1, held.at, at));
        }
    }

    fn batch(&mut self, batch: &crate::record::Batch, at: u64) {
        if let Some(host) = self.mesh.inventory().index(&batch.host) {
            self.heard(host, at);
        }
        let heard = &self.heard;
        self.mesh.add(batch, at, |target, _| heard.presence(target, at, at));
    }

    fn result(&mut self, ends: (u32, u32), path: (u16, u16), result: crate::record::ProbeResult, at: u64) {
        self.heard(ends.0, at);
        self.mesh.restore(ends, path, result, at, self.heard.presence(ends.1, at, at));
    }

    /// There are no more results. Nothing tells whether the targets of the last ones were up.
    fn end(self) {
        self.mesh.settle(BEFORE_MS, |_| Presence::Down);
    }
}

/// Fills the windows with the results of the last hour.
fn refill(options: &Options, replay: &mut Replay<'_>, wall: u64) -> Result<Earlier, StoreError> {
    let since = wall.saturating_sub(HOUR_MS * 1_000);
    earlier(&options.folder, (since, wall), REFILL, |stored| {
        let index = |name: &[u8]| options.inventory.index(std::str::from_utf8(name).ok()?);
        // Hosts that have left the inventory tell nothing any more.
        if let (Some(prober), Some(target)) = (index(stored.prober.data()), index(stored.target.data())) {
            let age = (wall - stored.received_us) / 1_000;
            replay.result((prober, target), stored.path, stored.result, BEFORE_MS - age);
        }
    })
}

/// The sockets of a controller.
struct Server {
    agents: SocketAddr,
    page: SocketAddr,
}

impl Server {
    async fn start(options: &Options, shared: Arc<Shared>) -> Result<Server, ControllerError> {
        let listen = |address: SocketAddr| async move {
            let socket = TcpListener::bind(address).await;
            socket.map_err(|error| ControllerError::Listen { address, error })
        };
        let credentials = || options.files.read()?.server();
        let agents = listen(options.listen).await?;
        let page = listen(options.page).await?;
        let server = Server { agents: agents.local_addr()?, page: page.local_addr()? };
        let agents = tls::Listener::start(agents, credentials().map_err(ControllerError::Setup)?);
        let router = api::router(shared.clone()).into_make_service_with_connect_info::<tls::Peer>();
        tokio::spawn(async move { axum::serve(agents, router).await });
        let router = page::router(shared.view.clone(), options.page.ip().is_loopback());
        if options.page.ip().is_loopback() {
            tokio::spawn(async move { axum::serve(page, router.into_make_service()).await });
        } else {
            let page = tls::Listener::start(page, credentials().map_err(ControllerError::Setup)?);
            let router = router.into_make_service_with_connect_info::<tls::Peer>();
            tokio::spawn(async move { axum::serve(page, router).await });
        }
        Ok(server)
    }
}
