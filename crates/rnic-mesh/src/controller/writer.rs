//! The thread that writes batches to the disk. It writes all waiting batches together, so that batches of many agents
//! need only one flush.

use super::{Controller, Event};
use crate::record::Batch;
use crate::store::{Store, Stored};
use parking_lot::Mutex;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::{mpsc, oneshot};

/// Maximum number of waiting batches.
const WAITING: usize = 1_024;
/// Maximum number of batches per flush.
const TOGETHER: usize = 256;

/// A batch to be written.
pub(super) struct Job {
    batch: Arc<Batch>,
    bytes: axum::body::Bytes,
    done: oneshot::Sender<Result<(), String>>,
}

/// Sends batches to the thread.
pub(super) struct Writer {
    jobs: mpsc::Sender<Job>,
    store: Arc<Mutex<Store>>,
}

impl Writer {
    pub(super) fn new(store: Store) -> (Writer, mpsc::Receiver<Job>) {
        let (jobs, waiting) = mpsc::channel(WAITING);
        (Writer { jobs, store: Arc::new(Mutex::new(store)) }, waiting)
    }

    /// Writes a batch; returns once it is on the disk.
    ///
    /// # Errors
    /// Returns the reason why the batch could not be written.
    pub(super) async fn write(&self, batch: Arc<Batch>, bytes: axum::body::Bytes) -> Result<(), String> {
        let (done, result) = oneshot::channel();
        let ended = || "the controller ends".to_string();
        self.jobs.send(Job { batch, bytes, done }).await.map_err(|_| ended())?;
        result.await.map_err(|_| ended())?
    }

    pub(super) fn stored(&self) -> Stored {
        self.store.lock().stored().clone()
    }
}

/// Starts the thread that writes, and a thread that converts the logs of past hours into Parquet files; `passed` are
/// the logs of an earlier controller. The threads end when the controller is dropped.
pub(super) fn start(
    controller: &Arc<Controller>, mut jobs: mpsc::Receiver<Job>, passed: Vec<PathBuf>,
) -> io::Result<[JoinHandle<()>; 2]> {
    let (logs, waiting) = std::sync::mpsc::channel::<PathBuf>();
    for log in passed {
        // This cannot fail, because the receiver still exists.
        let _ = logs.send(log);
    }
    // The threads have only a weak reference to the controller, so that they end when it is dropped.
    let weak = Arc::downgrade(controller);
    let converter = std::thread::Builder::new().name("mesh-parquet".to_string()).spawn(move || {
        let mut failed: Vec<PathBuf> = Vec::new();
        while let Ok(log) = waiting.recv() {
            let Some(controller) = weak.upgrade() else { return };
            // A log that could not be converted, for example because the disk was full, is tried again with each new
            // log.
            failed.push(log);
            controller.save();
            failed.retain(|log| match controller.converter.convert(log) {
                Ok(damage) => {
                    if let Some(why) = damage {
                        controller.emit(Event::Damaged(why));
                    }
                    false
                }
                Err(error) => {
                    controller.emit(Event::Storage(error.to_string()));
                    true
                }
            });
        }
    })?;
    let (store, clock) = (controller.writer.store.clone(), controller.clock.clone());
    let weak = Arc::downgrade(controller);
    let writer = std::thread::Builder::new().name("mesh-writer".to_string()).spawn(move || {
        while let Some(first) = jobs.blocking_recv() {
            let mut together = vec![first];
            while together.len() < TOGETHER
                && let Ok(next) = jobs.try_recv()
            {
                together.push(next);
            }
            let batches: Vec<(&Batch, &[u8])> = together.iter().map(|job| (&*job.batch, &job.bytes[..])).collect();
            let result = store.lock().append(&batches, clock.unix_us()).map_err(|error| error.to_string());
            if let Ok(Some(log)) = &result {
                // This can fail only when both threads are ending.
                let _ = logs.send(log.clone());
            }
            let Some(controller) = weak.upgrade() else { return };
            controller.set_storage_error(result.as_ref().err().cloned());
            for job in together {
                // This fails if the agent has closed the connection.
                let _ = job.done.send(result.as_ref().map(|_| ()).map_err(Clone::clone));
            }
        }
    })?;
    Ok([converter, writer])
}
