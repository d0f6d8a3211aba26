//! The controller as a service: requests of agents over TLS, the page and the metrics, and results on disk.

mod api;
mod metrics;
mod otlp;
mod page;
mod quota;
mod reload;
mod tls;
mod views;
mod writer;

use crate::credentials::Files;
use crate::evaluation::Evaluation;
use crate::inventory::Inventory;
use crate::presence::{Held, Presence, ReportTimes};
use crate::registry::Registry;
use crate::state::{MeshState, START_MS};
pub use crate::store::Earlier;
use crate::store::{Converter, State, Store, StoreError, earlier};
use crate::verdict::Mesh;
use parking_lot::RwLock;
use rnic_http::Limits;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
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
    /// Address of the page and the metrics. On a loopback address every user of this machine may read them; on any
    /// other address, only clients with the certificate of an operator.
    pub page: SocketAddr,
    /// Certificates.
    pub files: Files,
    /// URL of an OTLP collector to which metrics are pushed, such as `http://127.0.0.1:4318/v1/metrics`.
    pub otlp: Option<String>,
    /// The clock for the time of day. Windows and alarms use a monotonic clock instead.
    pub clock: Clock,
    /// File with the fingerprints of withdrawn certificates, as in [`denied`](crate::credentials::denied).
    pub denied: Option<PathBuf>,
    /// How the controller reads its inventory and its certificates again.
    pub reload: Reload,
}

/// A request to read the inventory, the certificates and the list of withdrawn certificates again, while the controller
/// runs.
#[derive(Clone)]
pub struct Reload {
    requested: Arc<AtomicBool>,
    inventory: Arc<dyn Fn() -> Result<Inventory, String> + Send + Sync>,
}

impl Reload {
    /// The controller reloads when `requested` is set, and clears it. `inventory` reads the inventory, or returns a
    /// sentence about a mistake in it.
    pub fn new(
        requested: Arc<AtomicBool>, inventory: impl Fn() -> Result<Inventory, String> + Send + Sync + 'static,
    ) -> Reload {
        Reload { requested, inventory: Arc::new(inventory) }
    }
}

impl std::fmt::Debug for Reload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Reload({:?})", self.requested)
    }
}

/// A clock that shows the time of day in microseconds since 1970. It may go back and jump ahead.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> u64 + Send + Sync>);

impl Clock {
    /// A clock that reads the value that `show` returns.
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

/// An event of a running controller.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// The controller listens at these addresses: for agents, and for browsers.
    Open(SocketAddr, SocketAddr),
    /// The logs of an earlier controller were read; number of batches.
    Replayed(usize),
    /// The results of the last hour were read from Parquet files.
    Refilled(Earlier),
    /// An agent registered.
    Agent(String),
    /// The controller cannot write results to the disk; the agents keep them in the meantime.
    Storage(String),
    /// Results in a log cannot be read; the sentence has the log, the damaged bytes, and the file in which they remain.
    Damaged(String),
    /// The controller can write results to the disk again.
    StorageBack,
    /// The inventory was read again: number of hosts, of added hosts and of removed hosts.
    Inventory(usize, usize, usize),
    /// The certificates and the list of withdrawn certificates were read again; number of withdrawn ones.
    Certificates(usize),
    /// A file cannot be used, for this reason; the controller continues with the previous content.
    NotReloaded(String),
    /// A certificate expires soon or has expired: its name, and its expiry time in seconds since 1970.
    CertificateEnds(String, i64),
    /// The OTLP collector does not accept metrics.
    Otlp(String),
}

/// The reason why a controller cannot run.
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
    /// The system refuses an operation.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// A running controller.
struct Controller {
    state: Arc<MeshState>,
    writer: writer::Writer,
    converter: Converter,
    clock: Clock,
    events: std::sync::mpsc::Sender<Event>,
    secret: Vec<u8>,
    quota: quota::Quota,
    /// Whether an agent has registered since the state was last saved.
    dirty: AtomicBool,
}

#[expect(clippy::disallowed_methods, reason = "a service says when results arrived")]
fn unix_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_micros() as u64)
}

/// Maximum number of results that are read from Parquet files at the start to fill the windows.
const REFILL: usize = 20_000_000;
/// Length of the longest window.
const HOUR_MS: u64 = 3_600_000;

impl Controller {
    fn emit(&self, event: Event) {
        // This fails only when the controller ends.
        let _ = self.events.send(event);
    }

    /// Writes the state of the registry to the disk.
    fn save(&self) {
        let state = State {
            agents: self.state.registry.lock().registrations(),
            stored: self.writer.stored(),
            secret: self.secret.clone(),
        };
        if let Err(error) = self.converter.save(&state) {
            self.set_storage_error(Some(error.to_string()));
        }
    }

    /// Stores the reason why the disk cannot be written; `None` while it can.
    fn set_storage_error(&self, error: Option<String>) {
        let mut known = self.state.storage_error.lock();
        if known.is_some() != error.is_some() {
            self.emit(error.clone().map_or(Event::StorageBack, Event::Storage));
        }
        *known = error;
    }

    /// Evaluates alarms and suspects. Reports of agents can be counted between the steps, because each step locks the
    /// mesh only briefly.
    fn evaluate(&self, now: u64) {
        let mut evaluation = Evaluation::new(now);
        while evaluation.step(&mut self.state.mesh.lock()) {
            // The mesh is not locked now: let waiting requests lock it.
            std::thread::yield_now();
        }
        evaluation.localise();
        let silent = self.state.registry.lock().silent(now);
        let mut mesh = self.state.mesh.lock();
        mesh.set_silent(silent);
        evaluation.conclude(&mut mesh);
        self.state.evaluated.store(now, Ordering::Relaxed);
    }

    /// Counts a batch for alarms and suspects.
    fn count(&self, batch: &crate::record::Batch, now: u64) {
        let inventory = self.state.inventory();
        let index = |(name, incarnation): &(String, u64)| Some((inventory.index(name)?, *incarnation));
        let peers = self.presences(batch.targets.iter().filter_map(index), now);
        let presence = |host, incarnation| peers.get(&(host, incarnation)).copied().unwrap_or(Presence::Down);
        self.state.mesh.lock().add(batch, now, presence);
    }

    /// Counts the probes whose results are not evaluated yet, because it was not known whether their targets are up.
    fn settle(&self, now: u64) {
        let held = self.state.mesh.lock().held();
        if !held.is_empty() {
            let known = self.presences(held.into_iter(), now);
            let presence = |held: &Held| known.get(&(held.ends.1, held.incarnation)).copied();
            self.state.mesh.lock().settle(now, |held| presence(held).unwrap_or(Presence::Unknown));
        }
    }

    /// The presence of agents, given by host and incarnation.
    fn presences(&self, agents: impl Iterator<Item = (u32, u64)>, now: u64) -> BTreeMap<(u32, u64), Presence> {
        let registry = self.state.registry.lock();
        agents.map(|agent| (agent, registry.presence(agent.0, agent.1, now))).collect()
    }
}

/// Runs the controller until `stop` is set. Reports to `event`.
///
/// # Errors
/// Fails if the controller cannot start. A full disk or an invalid request does not end a running controller.
pub fn run(options: &Options, stop: &AtomicBool, mut event: impl FnMut(Event)) -> Result<(), ControllerError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (events, received) = std::sync::mpsc::channel();
    let (controller, threads) = open(options, events)?;
    let server = runtime.block_on(Server::start(options, controller.clone()))?;
    event(Event::Open(server.agents, server.page));
    let mut evaluated = controller.state.now();
    let mut saved = evaluated;
    let mut warnings = reload::Warnings::default();
    let mut exporter = options
        .otlp
        .as_deref()
        .map(|url| otlp::Exporter::new(url, controller.clock.unix_us()))
        .transpose()
        .map_err(ControllerError::Setup)?;
    while !stop.load(Ordering::Relaxed) {
        received.try_iter().for_each(&mut event);
        if options.reload.requested.swap(false, Ordering::Relaxed) {
            reload::reload(options, &controller, &server);
        }
        warnings.warn(&controller);
        let every = controller.state.inventory().settings.evaluate.as_ps() / 1_000_000_000;
        let now = controller.state.now();
        if now >= evaluated + every {
            evaluated = now;
            controller.settle(now);
            controller.evaluate(now);
            if let Some(exporter) = &mut exporter {
                exporter.push(&controller, |why| event(Event::Otlp(why)));
            }
        }
        // With this state the controller knows the agents after a restart, so they keep their pinglists.
        if now >= saved + 1_000 && controller.dirty.swap(false, Ordering::Relaxed) {
            saved = now;
            controller.save();
        }
        pause();
    }
    runtime.shutdown_timeout(Duration::from_secs(2));
    controller.save();
    received.try_iter().for_each(&mut event);
    // Releases the lock of the folder for another controller as soon as the threads have ended.
    drop(controller);
    for thread in threads {
        // If the thread panicked, the panic was reported there.
        let _ = thread.join();
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a service waits in real time")]
fn pause() {
    std::thread::sleep(Duration::from_millis(50));
}

/// Opens the folder, and restores the state of an earlier controller.
fn open(
    options: &Options, events: std::sync::mpsc::Sender<Event>,
) -> Result<(Arc<Controller>, [JoinHandle<()>; 2]), ControllerError> {
    let inventory = options.inventory.clone();
    let mut mesh = Mesh::new(inventory.clone());
    let wall = options.clock.unix_us();
    // As in the registry, the timeout is three intervals. The longer of the fetch interval and the report interval
    // counts, because an agent may report less often than it fetches.
    let timeout = 3 * inventory.settings.refresh.max(inventory.settings.report).as_ps() / 1_000_000_000;
    let mut reports = ReportTimes::new(inventory.hosts.len(), timeout);
    let refilled = refill(options, &mut mesh, &mut reports, wall)?;
    let mut replayed = 0;
    let retention = inventory.settings.retention_hours as usize;
    let (store, mut state) = Store::open(&options.folder, retention, |entry| {
        replayed += 1;
        // If the clock went back, the age is unknown and counts as 0. Results that are too old are ignored.
        let age = wall.checked_sub(entry.received_us).map_or(0, |us| us / 1_000);
        if let Some(at) = START_MS.checked_sub(age) {
            replay(&mut mesh, &mut reports, &entry.batch, at);
        }
    })?;
    // No later report shows whether the targets of the last results were up, so they count as down.
    mesh.settle(START_MS, |_| Presence::Down);
    if state.secret.len() < 32 {
        state.secret = rnic_probe::random::<32>()?.to_vec();
    }
    let mut registry = Registry::new(inventory.clone(), &state.secret);
    for registration in std::mem::take(&mut state.agents) {
        registry.restore(registration, START_MS);
    }
    let converter = store.converter();
    let passed = store.passed()?;
    // An agent that did not receive the response to a batch sends the batch again; it must not count twice.
    for (host, last) in store.stored() {
        mesh.counted_before(host, *last);
    }
    let (writer, jobs) = writer::Writer::new(store);
    let controller = Arc::new(Controller {
        state: Arc::new(MeshState::running(mesh, registry)),
        writer,
        converter,
        clock: options.clock.clone(),
        events,
        secret: state.secret,
        quota: quota::Quota::new(&inventory.settings, inventory.hosts.len(), START_MS),
        dirty: AtomicBool::new(false),
    });
    if refilled != Earlier::default() {
        controller.emit(Event::Refilled(refilled));
    }
    if replayed > 0 {
        controller.emit(Event::Replayed(replayed));
    }
    // Before a log becomes a Parquet file, `state.json` must contain the numbers of its last batches.
    controller.save();
    let threads = writer::start(&controller, jobs, passed)?;
    Ok((controller, threads))
}

/// Serves the page of a recorded mesh until `stop` is set. Passes the server's address to `opened`.
///
/// # Errors
/// The address is not a loopback address, or cannot be used.
pub fn show(
    state: MeshState, page: SocketAddr, stop: &AtomicBool, opened: impl FnOnce(SocketAddr),
) -> Result<(), ControllerError> {
    if !page.ip().is_loopback() {
        return Err(ControllerError::Setup(format!(
            "a recorded mesh cannot be shown at {page}; accepted: a loopback address such as 127.0.0.1:18518"
        )));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let listener = runtime.block_on(TcpListener::bind(page));
    let listener = listener.map_err(|error| ControllerError::Listen { address: page, error })?;
    opened(listener.local_addr()?);
    runtime.spawn(rnic_http::serve(listener, page::router(Arc::new(state), true), PAGE));
    while !stop.load(Ordering::Relaxed) {
        pause();
    }
    runtime.shutdown_timeout(Duration::from_secs(2));
    Ok(())
}

/// Counts a batch that an earlier controller received at `at`. The caller passes batches in order of arrival.
fn replay(mesh: &mut Mesh, reports: &mut ReportTimes, batch: &crate::record::Batch, at: u64) {
    if let Some(host) = mesh.inventory().index(&batch.host) {
        reported(mesh, reports, host, at);
    }
    mesh.add(batch, at, |target, _| reports.presence(target, at, at));
}

/// Notes that an earlier controller received a report of a host at `at`.
fn reported(mesh: &mut Mesh, reports: &mut ReportTimes, host: u32, at: u64) {
    if reports.reported(host, at) {
        mesh.settle(at, |held| reports.presence(held.ends.1, held.at, at));
    }
}

/// Fills the windows with the results of the last hour.
fn refill(options: &Options, mesh: &mut Mesh, reports: &mut ReportTimes, wall: u64) -> Result<Earlier, StoreError> {
    let since = wall.saturating_sub(HOUR_MS * 1_000);
    earlier(&options.folder, (since, wall), REFILL, |stored| {
        let index = |name: &[u8]| options.inventory.index(std::str::from_utf8(name).ok()?);
        // Results of hosts that are no longer in the inventory are ignored.
        if let (Some(prober), Some(target)) = (index(stored.prober.data()), index(stored.target.data())) {
            let at = START_MS - (wall - stored.received_us) / 1_000;
            reported(mesh, reports, prober, at);
            let presence = reports.presence(target, at, at);
            mesh.restore((prober, target), stored.path, stored.result, at, presence);
        }
    })
}

/// Limits for agents. An agent keeps its connection between two requests, which are at most 10 minutes apart.
const AGENTS: Limits = Limits {
    connections: 60_000,
    of_host: 64,
    header_bytes: 8 << 10,
    header_time: Duration::from_secs(1_200),
    write_time: Duration::from_secs(30),
    keep_alive: true,
};
/// Limits for browsers and for Prometheus.
const PAGE: Limits = Limits {
    connections: 256,
    of_host: 64,
    header_bytes: 32 << 10,
    header_time: Duration::from_secs(60),
    write_time: Duration::from_secs(30),
    keep_alive: true,
};

/// The sockets of a controller.
struct Server {
    agents: SocketAddr,
    page: SocketAddr,
    config: tls::Config,
}

impl Server {
    async fn start(options: &Options, controller: Arc<Controller>) -> Result<Server, ControllerError> {
        let listen = |address: SocketAddr| async move {
            let socket = TcpListener::bind(address).await;
            socket.map_err(|error| ControllerError::Listen { address, error })
        };
        let config = reload::certificates(options, &controller).map_err(ControllerError::Setup)?;
        let config: tls::Config = Arc::new(RwLock::new(config));
        let agents = listen(options.listen).await?;
        let page = listen(options.page).await?;
        let server = Server { agents: agents.local_addr()?, page: page.local_addr()?, config: config.clone() };
        let agents = tls::Listener::start(agents, config.clone());
        tokio::spawn(rnic_http::serve(agents, api::router(controller.clone()), AGENTS));
        let router = page::router(controller.state.clone(), options.page.ip().is_loopback());
        if options.page.ip().is_loopback() {
            tokio::spawn(rnic_http::serve(page, router, PAGE));
        } else {
            let page = tls::Listener::start(page, config);
            tokio::spawn(rnic_http::serve(page, router, PAGE));
        }
        Ok(server)
    }
}
