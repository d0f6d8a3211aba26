//! Interruption by Ctrl-C (SIGINT) and SIGTERM. A simulation then ends early, so that the command can print and store
//! the partial results. A second signal ends the program at once.

use crate::error::CliError;
use rnic_campaign::RunListener;
use rnic_sim::{FrameListener, FramePlan};
use rnic_spec::{RunEvent, RunRecord};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Handles Ctrl-C and SIGTERM while this value exists. When it is dropped, the signals end the program as usual.
pub struct Interruption {
    /// Number of the first signal that arrived; 0 if none has arrived.
    signal: Arc<AtomicUsize>,
    /// Whether a signal ends the program at once.
    at_once: Arc<AtomicBool>,
}

impl Interruption {
    /// Installs the handlers of the signals.
    pub fn listen() -> Result<Interruption, CliError> {
        let listening = |error| CliError::Io { doing: "cannot listen to signals".to_string(), error };
        let (signal, at_once) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        for number in [SIGINT, SIGTERM] {
            // The handlers of a signal run in the order of these calls. The check of `at_once` runs before the first
            // signal sets it, so only a second signal ends the program.
            flag::register_conditional_shutdown(number, exit_code(number).into(), at_once.clone())
                .map_err(listening)?;
            flag::register_usize(number, signal.clone(), number as usize).map_err(listening)?;
            flag::register(number, at_once.clone()).map_err(listening)?;
        }
        Ok(Interruption { signal, at_once })
    }

    /// A flag that each SIGHUP sets, for a service that reads its files again.
    ///
    /// # Errors
    /// If the system refuses the handler.
    pub fn on_hangup() -> Result<Arc<AtomicBool>, CliError> {
        let flag = Arc::new(AtomicBool::new(false));
        flag::register(SIGHUP, flag.clone())
            .map_err(|error| CliError::Io { doing: "cannot listen to signals".to_string(), error })?;
        Ok(flag)
    }

    /// The exit code of a command that was interrupted (128 + number of the signal); `None` if it was not interrupted.
    pub fn exit_code(&self) -> Option<u8> {
        match self.signal.load(Ordering::Relaxed) {
            0 => None,
            signal => Some(exit_code(signal as i32)),
        }
    }

    /// A flag that the first signal sets.
    pub fn flag(&self) -> &AtomicBool {
        &self.at_once
    }

    /// `Break` if the command was interrupted.
    pub fn flow(&self) -> ControlFlow<()> {
        if self.exit_code().is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// A listener that forwards everything to `inner`, and ends the runs after an interruption.
    pub fn around<'l>(&'l self, inner: &'l dyn RunListener) -> Interruptible<'l> {
        Interruptible { interruption: self, inner }
    }
}

impl Drop for Interruption {
    fn drop(&mut self) {
        self.at_once.store(true, Ordering::SeqCst);
    }
}

fn exit_code(signal: i32) -> u8 {
    (128 + signal).clamp(0, 255) as u8
}

/// A [`RunListener`] that ends the runs after an interruption.
pub struct Interruptible<'l> {
    interruption: &'l Interruption,
    inner: &'l dyn RunListener,
}

impl RunListener for Interruptible<'_> {
    fn event(&self, run: usize, event: &RunEvent) -> ControlFlow<()> {
        self.inner.event(run, event)?;
        self.interruption.flow()
    }

    fn frames(&self, run: usize) -> Option<(FramePlan, &dyn FrameListener)> {
        self.inner.frames(run)
    }

    fn finished(&self, run: usize, record: &RunRecord) -> ControlFlow<()> {
        self.inner.finished(run, record)?;
        self.interruption.flow()
    }
}
