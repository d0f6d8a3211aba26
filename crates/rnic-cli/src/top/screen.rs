//! The table in the terminal, which is read again at an interval.

use super::rows::{Meter, Row};
use super::table::{COLUMNS, cells, notes};
use super::{Choice, Key, Reading, read};
use crate::service::Clock;
use crate::tui::{enter, restore, restore_after_panic};
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row as TableRow, Table};
use rnic_endpoint::statistics::Processes;
use rnic_simulator::error::CliError;
use rnic_untrusted::text::escaped;
use std::io::{self, IsTerminal};
use std::time::Duration;

/// Maximum time until a key has an effect.
const KEYS: Duration = Duration::from_millis(100);
/// Maximum characters of a filter.
const MAX_FILTER: usize = 64;

/// What is on the screen.
struct Screen {
    choice: Choice,
    /// The filter while it is typed.
    typed: Option<String>,
    /// Number of rows above the screen.
    first: usize,
    rows: Vec<Row>,
    all: Processes,
    /// Whether the latest reading has rates.
    has_rates: bool,
}

/// What a key asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Action {
    Continue,
    Quit,
}

/// Shows the table until the user ends it.
pub(super) fn run(choice: Choice, interval: Duration) -> Result<(), CliError> {
    if !io::stderr().is_terminal() || !io::stdin().is_terminal() {
        let sentence =
            "rnic top needs a terminal at standard input and standard error; --once prints one table, --json documents";
        return Err(CliError::Input(sentence.to_string()));
    }
    let failed = |error| CliError::Io { doing: "cannot draw in the terminal".to_string(), error };
    let mut meter = Meter::default();
    let mut screen = Screen::new(choice);
    screen.take(read(&mut meter)?);
    restore_after_panic();
    let terminal = enter().inspect_err(|_| restore()).map_err(failed)?;
    let ended = show(terminal, &mut screen, &mut meter, interval);
    restore();
    ended
}

fn show(
    mut terminal: ratatui::Terminal<impl ratatui::backend::Backend<Error = io::Error>>, screen: &mut Screen,
    meter: &mut Meter, interval: Duration,
) -> Result<(), CliError> {
    let failed = |error| CliError::Io { doing: "cannot draw in the terminal".to_string(), error };
    let clock = Clock::start();
    let interval = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
    let mut next = interval;
    loop {
        terminal.draw(|frame| screen.draw(frame)).map_err(failed)?;
        let left = Duration::from_nanos(next.saturating_sub(clock.nanoseconds()));
        if event::poll(left.min(KEYS)).map_err(failed)?
            && let Event::Key(key) = event::read().map_err(failed)?
            && screen.press(key) == Action::Quit
        {
            return Ok(());
        }
        if clock.nanoseconds() >= next {
            screen.take(read(meter)?);
            screen.has_rates = true;
            next = clock.nanoseconds().saturating_add(interval);
        }
    }
}

impl Screen {
    fn new(choice: Choice) -> Screen {
        Screen { choice, typed: None, first: 0, rows: Vec::new(), all: Processes::default(), has_rates: false }
    }

    fn take(&mut self, reading: Reading) {
        (self.rows, self.all) = (reading.rows, reading.all);
    }

    /// The rows to show.
    fn chosen(&self) -> Vec<Row> {
        let mut rows = self.rows.clone();
        self.choice.apply(&mut rows);
        rows
    }

    fn press(&mut self, key: KeyEvent) -> Action {
        if key.kind == KeyEventKind::Release {
            return Action::Continue;
        }
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Action::Quit;
        }
        match &mut self.typed {
            Some(typed) => match key.code {
                KeyCode::Enter => self.filter(),
                KeyCode::Esc => self.typed = None,
                KeyCode::Backspace => drop(typed.pop()),
                KeyCode::Char(c) if typed.chars().count() < MAX_FILTER => typed.push(c),
                _ => {}
            },
            None => return self.command(key.code),
        }
        Action::Continue
    }

    fn command(&mut self, code: KeyCode) -> Action {
        match code {
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Char('s') => self.choice.sort = self.choice.sort.next(),
            KeyCode::Char('/') => self.typed = Some(String::new()),
            KeyCode::Esc => self.choice.processes.clear(),
            KeyCode::Up => self.first = self.first.saturating_sub(1),
            KeyCode::Down => self.first = self.first.saturating_add(1),
            KeyCode::PageUp => self.first = self.first.saturating_sub(10),
            KeyCode::PageDown => self.first = self.first.saturating_add(10),
            KeyCode::Home => self.first = 0,
            _ => {}
        }
        Action::Continue
    }

    /// Shows the processes that were typed, separated by spaces; all of them if none were.
    fn filter(&mut self) {
        let typed = self.typed.take().unwrap_or_default();
        self.choice.processes = typed.split_whitespace().map(str::to_string).collect();
        self.first = 0;
    }

    fn draw(&mut self, frame: &mut Frame<'_>) {
        let rows = self.chosen();
        let notes = notes(&self.all, &self.choice);
        let below = (notes.len() as u16).min(frame.area().height / 3);
        let parts = [Constraint::Length(1), Constraint::Fill(1), Constraint::Length(below)];
        let [title, table, foot] = Layout::vertical(parts).areas(frame.area());
        frame.render_widget(Paragraph::new(self.title(&rows)), title);
        let visible = usize::from(table.height.saturating_sub(1));
        self.first = self.first.min(rows.len().saturating_sub(visible));
        let shown: Vec<_> = rows.iter().skip(self.first).take(visible).map(cells).collect();
        frame.render_widget(self.table(&shown), table);
        let notes: Vec<Line<'_>> = notes.into_iter().map(Line::raw).collect();
        frame.render_widget(Paragraph::new(notes).style(Style::new().add_modifier(Modifier::DIM)), foot);
    }

    fn title(&self, rows: &[Row]) -> String {
        if let Some(typed) = &self.typed {
            return format!("processes (IDs or parts of names; Enter): {}", escaped(typed));
        }
        let processes = match &self.choice.processes[..] {
            [] => "all processes".to_string(),
            some => escaped(&some.join(" ")).into_owned(),
        };
        let wait = if self.has_rates { "" } else { ", rates follow" };
        let sort = self.choice.sort.name();
        format!("{} queue pairs of {processes} by {sort}{wait}   q quit  s sort  / filter  Esc all", rows.len())
    }

    fn table(&self, shown: &[[String; COLUMNS.len()]]) -> Table<'static> {
        let sorted = match self.choice.sort {
            Key::Traffic => [8, 10].as_slice(),
            Key::Send => &[8],
            Key::Receive => &[10],
            Key::Retransmissions => &[11],
            Key::Rtt => &[13],
            Key::Outstanding => &[14],
            Key::Process => &[0],
        };
        let line =
            |text: String, is_right: bool| if is_right { Line::raw(text).right_aligned() } else { Line::raw(text) };
        let head = COLUMNS.iter().enumerate().map(|(column, (name, is_right))| {
            let style = Style::new().add_modifier(Modifier::REVERSED);
            let style = if sorted.contains(&column) { style.add_modifier(Modifier::BOLD) } else { style };
            Cell::new(line(name.to_string(), *is_right)).style(style)
        });
        let width = |column: usize| {
            let cells = shown.iter().map(|row| row[column].chars().count());
            Constraint::Length(cells.chain([COLUMNS[column].0.len()]).max().unwrap_or(0) as u16)
        };
        let rows = shown.iter().map(|row| {
            TableRow::new(row.iter().zip(COLUMNS).map(|(cell, (_, is_right))| Cell::new(line(cell.clone(), is_right))))
        });
        Table::new(rows, (0..COLUMNS.len()).map(width)).header(TableRow::new(head)).column_spacing(1)
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::tests::{pair, process};
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn screen(count: u32) -> Screen {
        let mut meter = Meter::default();
        let at = |time, factor| {
            let found = (1..=count).map(|pid| process(pid, time, vec![pair(pid, factor * u64::from(pid))])).collect();
            Processes { found, of_others: 1, ..Processes::default() }
        };
        meter.rows(&at(0, 0));
        let all = at(1_000_000_000, 1_000);
        let mut screen = Screen::new(Choice { processes: Vec::new(), sort: Key::Traffic });
        screen.take(Reading { rows: meter.rows(&all), all });
        screen.has_rates = true;
        screen
    }

    fn drawn(screen: &mut Screen, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| screen.draw(frame)).unwrap();
        let text = terminal.backend().to_string();
        let lines = text.lines().map(|line| line.trim_matches('"').trim_end());
        lines.collect::<Vec<_>>().join("\n").trim_end().to_string()
    }

    fn press(screen: &mut Screen, keys: &[KeyCode]) -> Action {
        keys.iter().map(|code| screen.press(KeyEvent::new(*code, KeyModifiers::NONE))).last().unwrap()
    }

    #[test]
    fn the_screen_has_the_table() {
        let text = drawn(&mut screen(2), 140, 6);
        let expected = "\
2 queue pairs of all processes by traffic   q quit  s sort  / filter  Esc all
PID PROGRAM  DEVICE QP       TYPE STATE PEER              SEND pkt/s   B/s RECV pkt/s B/s RETR/s WINDOW     RTT OUT
  2 program2 rnic0  0x000002 rc   RTS   10.0.0.2 0x000abc      2.00k 2.00M        500   0  1.00k   5/64 12.3 us   3
  1 program1 rnic0  0x000001 rc   RTS   10.0.0.2 0x000abc      1.00k 1.00M        250   0    500   5/64 12.3 us   3

processes of other users, which are not shown: 1";
        assert_eq!(text, expected);
    }

    #[test]
    fn keys_sort_filter_and_scroll() {
        let mut screen = screen(30);
        press(&mut screen, &[KeyCode::Char('s')]);
        assert_eq!(screen.choice.sort, Key::Send);
        let typed = ['/', '3', 'x'].map(KeyCode::Char);
        press(&mut screen, &typed);
        press(&mut screen, &[KeyCode::Backspace, KeyCode::Char(' '), KeyCode::Char('7'), KeyCode::Enter]);
        assert_eq!(screen.chosen().iter().map(|row| row.pid).collect::<Vec<_>>(), [Some(7), Some(3)]);
        press(&mut screen, &[KeyCode::Esc]);
        assert_eq!(screen.chosen().len(), 30);
        press(&mut screen, &[KeyCode::PageDown, KeyCode::Down]);
        assert!(drawn(&mut screen, 140, 10).contains("program19 ") && screen.first == 11);
        press(&mut screen, &[KeyCode::PageDown, KeyCode::PageDown, KeyCode::PageDown]);
        assert!(drawn(&mut screen, 140, 10).contains("program1 ") && screen.first < 30);
        // In a filter the letters are text.
        assert_eq!(press(&mut screen, &[KeyCode::Char('/'), KeyCode::Char('q')]), Action::Continue);
        assert_eq!(press(&mut screen, &[KeyCode::Esc, KeyCode::Char('q')]), Action::Quit);
        let stop = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(screen.press(stop), Action::Quit);
    }

    #[test]
    fn any_size_can_be_drawn() {
        let mut screen = screen(50);
        press(&mut screen, &[KeyCode::Char('/'), KeyCode::Char('\u{1b}'), KeyCode::Char('a')]);
        for (width, height) in [(1, 1), (5, 3), (10, 2), (20, 8), (300, 100)] {
            let text = drawn(&mut screen, width, height);
            assert!(!text.chars().any(|c| c.is_control() && c != '\n'));
        }
    }
}
