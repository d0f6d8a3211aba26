//! The view of `rnic run --tui`: the runs in the terminal, while they are simulated.

mod board;
mod draw;

use crate::service::Clock;
use board::Board;
use parking_lot::Mutex;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::crossterm::{cursor, execute};
use rnic_campaign::RunListener;
use rnic_fabric::{Routes, Topology};
use rnic_sim::{FrameListener, FramePlan};
use rnic_simulator::error::CliError;
use rnic_simulator::interrupt::Interruption;
use rnic_simulator::live::{Results, View};
use rnic_spec::{Frame, PauseRow, RunEvent, RunRecord, Scenario};
use rnic_transport::Time;
use signal_hook::consts::SIGINT;
use std::io::{self, IsTerminal, Stderr};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time between two drawings.
const REDRAW: Duration = Duration::from_millis(200);
/// The instants of frames: the interval doubles after some hundred frames, so the frames of a long run take little time
/// and memory.
const PLAN: FramePlan = FramePlan { interval: Time::from_us(10), frames: 512 };

/// The view. The terminal is drawn by a thread of its own.
struct Tui {
    board: Arc<Mutex<Board>>,
    fabrics: Vec<Watch>,
    clock: Clock,
    stopping: Arc<AtomicBool>,
    drawer: Mutex<Option<JoinHandle<()>>>,
}

/// Receives the frames of one run.
struct Watch {
    board: Arc<Mutex<Board>>,
    run: usize,
}

/// Opens the view on standard error, so that standard output has the results only.
pub(crate) fn open(scenario: &Scenario) -> Result<Box<dyn View>, CliError> {
    if !io::stderr().is_terminal() || !io::stdin().is_terminal() {
        let sentence = "--tui needs a terminal at standard input and standard error; leave it out for output to a file";
        return Err(CliError::Input(sentence.to_string()));
    }
    let names = scenario.runs.iter().map(|run| run.name.as_str());
    let board = Arc::new(Mutex::new(Board::new(&scenario.title, names)));
    let fabrics = (0..scenario.runs.len()).map(|run| Watch { board: board.clone(), run }).collect();
    let failed = |error| CliError::Io { doing: "cannot draw in the terminal".to_string(), error };
    restore_after_panic();
    let terminal = enter().inspect_err(|_| restore()).map_err(failed)?;
    let stopping = Arc::new(AtomicBool::new(false));
    let (shown, stop) = (board.clone(), stopping.clone());
    let drawer = std::thread::Builder::new().name("tui".to_string()).spawn(move || draw_until(terminal, &shown, &stop));
    let drawer = drawer.inspect_err(|_| restore()).map_err(failed)?;
    Ok(Box::new(Tui { board, fabrics, clock: Clock::start(), stopping, drawer: Mutex::new(Some(drawer)) }))
}

pub(crate) fn enter() -> io::Result<Terminal<CrosstermBackend<Stderr>>> {
    enable_raw_mode()?;
    execute!(io::stderr(), EnterAlternateScreen, cursor::Hide)?;
    Terminal::new(CrosstermBackend::new(io::stderr()))
}

/// Gives the terminal back. If it is gone, there is nothing to restore.
pub(crate) fn restore() {
    let _ = execute!(io::stderr(), LeaveAlternateScreen, cursor::Show);
    let _ = disable_raw_mode();
}

/// Restores the terminal before the message of a panic is printed.
pub(crate) fn restore_after_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        restore();
        before(info);
    }));
}

/// Draws the board and reads keys, until it must stop.
fn draw_until(mut terminal: Terminal<CrosstermBackend<Stderr>>, board: &Mutex<Board>, stopping: &AtomicBool) {
    let mut interrupts = 0;
    while !stopping.load(Ordering::Relaxed) {
        // A terminal that cannot be drawn on shows nothing; the runs continue.
        let _ = terminal.draw(|frame| draw::draw(frame, &board.lock()));
        if !event::poll(REDRAW).unwrap_or(false) {
            continue;
        }
        if let Ok(Event::Key(key)) = event::read()
            && act(&mut board.lock(), key)
        {
            interrupts += 1;
            if interrupts > 1 {
                // The second signal ends the program at once, so the terminal is restored before.
                restore();
            }
            let _ = signal_hook::low_level::raise(SIGINT);
        }
    }
}

/// What a key does. Returns whether it interrupts the runs.
fn act(board: &mut Board, key: KeyEvent) -> bool {
    if key.kind == KeyEventKind::Release {
        return false;
    }
    match key.code {
        KeyCode::Char('q') => return true,
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return true,
        KeyCode::Up => board.select(-1),
        KeyCode::Down => board.select(1),
        KeyCode::Char('?') => board.has_help = !board.has_help,
        KeyCode::Esc => board.has_help = false,
        _ => {}
    }
    false
}

impl RunListener for Tui {
    fn event(&self, run: usize, event: &RunEvent) -> ControlFlow<()> {
        self.board.lock().event(run, event, self.clock.nanoseconds());
        ControlFlow::Continue(())
    }

    fn frames(&self, run: usize) -> Option<(FramePlan, &dyn FrameListener)> {
        self.fabrics.get(run).map(|watch| (PLAN, watch as &dyn FrameListener))
    }

    fn finished(&self, run: usize, record: &RunRecord) -> ControlFlow<()> {
        if let Some(run) = self.board.lock().runs.get_mut(run) {
            run.state.end(&record.output.status);
        }
        ControlFlow::Continue(())
    }
}

impl FrameListener for Watch {
    fn begin(&self, topology: &Arc<Topology>, _: &Arc<Routes>) {
        if let Some(run) = self.board.lock().runs.get_mut(self.run) {
            run.fabric.begin(topology);
        }
    }

    fn frame(&self, frame: Frame) {
        if let Some(run) = self.board.lock().runs.get_mut(self.run) {
            run.fabric.take(&frame);
        }
    }

    fn pause(&self, _: PauseRow) {
        if let Some(run) = self.board.lock().runs.get_mut(self.run) {
            run.fabric.pause();
        }
    }
}

impl View for Tui {
    fn close(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        if let Some(drawer) = self.drawer.lock().take() {
            // A thread that has panicked has restored the terminal.
            let _ = drawer.join();
            restore();
        }
    }

    fn stay(&self, _: &Results<'_>, _: &Interruption) {}
}

impl Drop for Tui {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::board::tests::started;
    use super::*;

    #[test]
    fn keys_select_runs_and_interrupt() {
        let mut board = Board::new("t", ["a", "b"].into_iter());
        let mut press = |code, modifiers| act(&mut board, KeyEvent::new(code, modifiers));
        assert!(press(KeyCode::Char('q'), KeyModifiers::NONE));
        assert!(press(KeyCode::Char('c'), KeyModifiers::CONTROL));
        assert!(!press(KeyCode::Char('c'), KeyModifiers::NONE));
        assert!(!press(KeyCode::Down, KeyModifiers::NONE));
        assert!(!press(KeyCode::Char('?'), KeyModifiers::NONE));
        assert_eq!((board.selected, board.has_help), (1, true));
        board.event(0, &started(&[]), 0);
        assert_eq!(board.selected, 1, "the user's choice stays");
    }
}
