//! The tasks of a trace, with the lengths of computations that a scenario asks for.

use super::{Graph, Task, Tasks, Work};
use rnic_spec::{Straggler, Trace};
use rnic_transport::Time;

/// The tasks of all ranks of a trace.
///
/// # Errors
/// The trace cannot be read, or has changed since the scenario was read.
pub(super) fn graph(trace: &Trace) -> Result<Graph, String> {
    let graph = rnic_trace::open_unchanged(&trace.file, trace.format, &trace.content)?;
    let scaled = |(rank, tasks): (u32, Box<dyn Tasks>)| {
        let own = trace.straggler.filter(|straggler| straggler.rank == rank);
        let delay = own.map_or(Time::ZERO, |Straggler { delay, .. }| delay);
        let scale = trace.compute_scale;
        if scale == 1.0 && delay == Time::ZERO { tasks } else { Box::new(Scaled { tasks, scale, delay }) }
    };
    Ok(Graph { tasks: (0..).zip(graph.tasks).map(scaled).collect(), ..graph })
}

/// Tasks whose computations take `scale` times as long, and `delay` longer.
#[derive(Debug)]
struct Scaled {
    tasks: Box<dyn Tasks>,
    scale: f64,
    delay: Time,
}

impl Tasks for Scaled {
    fn next(&mut self) -> Result<Option<Task>, String> {
        let mut task = self.tasks.next()?;
        if let Some(Task { work: Work::Compute { time, .. }, .. }) = &mut task {
            let scaled = (time.as_ps() as f64 * self.scale).round();
            *time = Time::from_ps(scaled as u64).saturating_add(self.delay);
        }
        Ok(task)
    }
}
