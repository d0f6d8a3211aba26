//! Recordings of runs while they are simulated. A replay and a page that shows the runs share them, so each run takes
//! its frames once.

use parking_lot::{Mutex, MutexGuard};
use rnic_campaign::RunListener;
use rnic_fabric::{Routes, Topology};
use rnic_results::replay::Recorder;
use rnic_sim::{FrameListener, FramePlan};
use rnic_spec::{Frame, PauseRow, RunRecord, RunSpec, hosts};
use rnic_transport::Time;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The recording of one run.
#[derive(Debug)]
pub struct Recording {
    plan: FramePlan,
    recorder: Mutex<Recorder>,
}

impl Recording {
    /// A recording that may use `max_bytes` of a file, and that has the flows with the ids `flows` in any case.
    pub fn new(run: &RunSpec, max_bytes: u64, flows: &[u32]) -> Recording {
        let frames = Recorder::frames_for(max_bytes, hosts(&run.fabric.topology));
        Recording {
            plan: FramePlan { interval: Recorder::INTERVAL, frames },
            recorder: Mutex::new(Recorder::new(run, max_bytes, flows)),
        }
    }

    /// The recorder. The run waits for its next frame until the guard is dropped.
    pub fn recorder(&self) -> MutexGuard<'_, Recorder> {
        self.recorder.lock()
    }
}

impl FrameListener for Recording {
    fn begin(&self, topology: &Arc<Topology>, routes: &Arc<Routes>) {
        self.recorder().begin(topology, routes, self.plan.frames);
    }

    fn frame(&self, frame: Frame) {
        self.recorder().frame(&frame);
    }

    fn interval_to_next(&self) -> Option<Time> {
        self.recorder().interval_to_next()
    }

    fn pause(&self, pause: PauseRow) {
        self.recorder().pause(pause);
    }
}

/// The recordings of the first runs of a scenario, as a listener that makes them.
#[derive(Clone, Debug, Default)]
pub struct Recordings(Vec<Arc<Recording>>);

impl Recordings {
    /// Recordings of these runs, each of which may use `max_bytes`; see [`Recording::new`].
    pub fn of(runs: &[RunSpec], max_bytes: u64, flows: &[u32]) -> Recordings {
        Recordings(runs.iter().map(|run| Arc::new(Recording::new(run, max_bytes, flows))).collect())
    }

    /// The recording of a run of the scenario, if the run is recorded.
    pub fn get(&self, run: usize) -> Option<&Arc<Recording>> {
        self.0.get(run)
    }
}

impl RunListener for Recordings {
    fn frames(&self, run: usize) -> Option<(FramePlan, &dyn FrameListener)> {
        self.get(run).map(|recording| (recording.plan, &**recording as &dyn FrameListener))
    }

    fn finished(&self, run: usize, _record: &RunRecord) -> ControlFlow<()> {
        self.get(run).iter().for_each(|recording| recording.recorder().end());
        ControlFlow::Continue(())
    }
}
