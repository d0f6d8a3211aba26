//! The controller as a service: requests of agents over TLS, the page and the metrics, and results on disk.

mod api;
mod metrics;
mod otlp;
mod page;
mod tls;
mod views;
mod writer;

use crate::credentials::Files;
use crate::inventory::Inventory;
use crate::registry::Registry;
use crate::store::{Converter, State, Store, StoreError};
use crate::verdict::Mesh;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
}

/// What the controller tells while it runs.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// It listens: for agents, and for browsers.
    Open(SocketAddr, SocketAddr),
    /// Results of an earlier controller were read: number of batches.
    Replayed(usize),
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

/// State that all requests share.
struct Shared {
    inventory: Arc<Inventory>,
    mesh: Mutex<Mesh>,
    registry: Mutex<Registry>,
    writer: writer::Writer,
    converter: Converter,
    start: Instant,
    events: std::sync::mpsc::Sender<Event>,
    /// Why the disk takes nothing; `None` while it does.
    trouble: Mutex<Option<String>>,
    /// Batches that the controller has refused, and requests of strangers.
    refused: AtomicU64,
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

/// Times of this process begin late enough for results of the hour before.
const BEFORE_MS: u64 = 2 * 3_600_000;

impl Shared {
    /// Milliseconds of a clock that does not go back.
    fn now(&self) -> u64 {
        (instant() - self.start).as_millis() as u64 + BEFORE_MS
    }

    fn tell(&self, event: Event) {
        // Nobody listens once the controller ends.
        let _ = self.events.send(event);
    }

    fn save(&self) {
        let state = State {
            agents: lock(&self.registry).registrations(),
            stored: self.writer.stored(),
            secret: self.secret.clone(),
        };
        if let Err(error) = self.converter.save(&state) {
            self.storage(Some(error.to_string()));
        }
    }

    fn storage(&self, trouble: Option<String>) {
        let mut known = lock(&self.trouble);
        if known.is_some() != trouble.is_some() {
            self.tell(trouble.clone().map_or(Event::StorageBack, Event::Storage));
        }
        *known = trouble;
    }

    /// Counts a batch in the verdicts.
    fn count(&self, batch: &crate::record::Batch, now: u64) {
        let registry = lock(&self.registry);
        let peers: std::collections::BTreeMap<(u32, u64), bool> = batch
            .targets
            .iter()
            .filter_map(|(name, incarnation)| Some((self.inventory.index(name)?, *incarnation)))
            .map(|key| (key, registry.is_up(key.0, key.1, now)))
            .collect();
        drop(registry);
        let is_up = |host, incarnation| peers.get(&(host, incarnation)).copied().unwrap_or(false);
        lock(&self.mesh).add(batch, now, is_up);
    }
}

/// Runs the controller until `stop` is set. Tells `event` what happens.
///
/// # Errors
/// If it cannot start. Once it runs, a full disk or a wrong request does not end it.
pub fn run(options: &Options, stop: &AtomicBool, mut event: impl FnMut(Event)) -> Result<(), ControllerError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (events, told) = std::sync::mpsc::channel();
    let shared = open(options, events)?;
    let server = runtime.block_on(Server::start(options, shared.clone()))?;
    event(Event::Open(server.agents, server.page));
    let mut evaluated = shared.now();
    let mut saved = evaluated;
    let every = options.inventory.settings.evaluate.as_ps() / 1_000_000_000;
    let mut exporter = options.otlp.as_deref().map(otlp::Exporter::new).transpose().map_err(ControllerError::Setup)?;
    while !stop.load(Ordering::Relaxed) {
        told.try_iter().for_each(&mut event);
        let now = shared.now();
        if now >= evaluated + every {
            evaluated = now;
            lock(&shared.mesh).evaluate(now);
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
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a service waits in real time")]
fn pause() {
    std::thread::sleep(Duration::from_millis(50));
}

/// Opens the folder, and restores what an earlier controller knew.
fn open(options: &Options, events: std::sync::mpsc::Sender<Event>) -> Result<Arc<Shared>, ControllerError> {
    let inventory = options.inventory.clone();
    let mut mesh = Mesh::new(inventory.clone());
    let wall = unix_us();
    let mut replayed = 0;
    let retention = inventory.settings.retention_hours as usize;
    let (store, mut state) = Store::open(&options.folder, retention, |entry| {
        replayed += 1;
        // A clock that went back, or an hour of long ago: the age is not known or of no interest.
        let age = wall.checked_sub(entry.received_us).map_or(0, |us| us / 1_000);
        if let Some(at) = BEFORE_MS.checked_sub(age) {
            mesh.add(&entry.batch, at, |_, _| true);
        }
    })?;
    if state.secret.len() < 32 {
        state.secret = crate::host::random::<32>()?.to_vec();
    }
    let mut registry = Registry::new(inventory.clone(), &state.secret);
    for registration in std::mem::take(&mut state.agents) {
        registry.restore(registration, BEFORE_MS);
    }
    let converter = store.converter();
    let passed = store.passed()?;
    let (writer, jobs) = writer::Writer::new(store);
    let shared = Arc::new(Shared {
        inventory,
        mesh: Mutex::new(mesh),
        registry: Mutex::new(registry),
        writer,
        converter,
        start: instant(),
        events,
        trouble: Mutex::new(None),
        refused: AtomicU64::new(0),
        secret: state.secret,
        dirty: AtomicBool::new(false),
    });
    if replayed > 0 {
        shared.tell(Event::Replayed(replayed));
    }
    // What the logs tell must be in the state before a log becomes a Parquet file.
    shared.save();
    writer::start(&shared, jobs, passed)?;
    Ok(shared)
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
        let router = page::router(shared, options.page.ip().is_loopback());
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
