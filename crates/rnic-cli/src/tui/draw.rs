//! Draws a [`Board`]. Everything fits into 60 columns and 15 lines; a larger terminal shows more runs, ports and
//! instants.

use super::board::{Board, Hot, Run};
use crate::run_state::Stage;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Clear, Paragraph, Sparkline};
use rnic_results::text::count;

const HELP: &str = "q, Ctrl-C  end the runs; the partial results are printed\n\
    up, down   show the fabric of another run\n\
    ?          this help\n\n\
    used   part of the time for which the port was sending\n\
    queue  bytes that wait at the port\n\
    /s     per second of simulated time";

/// Draws the board.
pub(super) fn draw(frame: &mut Frame<'_>, board: &Board) {
    let area = frame.area();
    let warnings = board.warnings.len().min(2) as u16;
    let most = (area.height.saturating_sub(9 + warnings) / 2).clamp(2, 12);
    let runs = (board.runs.len() as u16).clamp(1, most);
    let rows = [Constraint::Length(1), Constraint::Length(runs), Constraint::Length(1)];
    let rest = [Constraint::Length(3), Constraint::Fill(1), Constraint::Length(warnings)];
    let places: [Rect; 6] = Layout::vertical(rows.into_iter().chain(rest)).areas(area);
    let dim = Style::new().add_modifier(Modifier::DIM);
    let [title, keys] = Layout::horizontal([Constraint::Fill(1), Constraint::Length(15)]).areas(places[0]);
    frame.render_widget(Paragraph::new(board.title.as_str()).style(Style::new().add_modifier(Modifier::BOLD)), title);
    frame.render_widget(Paragraph::new(" q end  ? help").style(dim), keys);
    draw_runs(frame, board, places[1]);
    if let Some(run) = board.runs.get(board.selected) {
        let fabric = &run.fabric;
        let (under_way, paused) = (count(fabric.under_way as u64), count(fabric.paused as u64));
        let text = format!("{}: {under_way} flows under way, {paused} paused ports", run.name);
        frame.render_widget(Paragraph::new(text).style(Style::new().add_modifier(Modifier::UNDERLINED)), places[2]);
        draw_rates(frame, run, places[3]);
        draw_ports(frame, &fabric.hottest, places[4]);
    }
    let latest = board.warnings.iter().skip(board.warnings.len().saturating_sub(2));
    let latest: Vec<Line<'_>> = latest.map(|warning| Line::raw(format!("! {warning}"))).collect();
    frame.render_widget(Paragraph::new(latest), places[5]);
    if board.has_help {
        let lines = HELP.lines().count() as u16;
        let help = Rect { height: area.height.min(lines), y: area.y + area.height.saturating_sub(lines) / 2, ..area };
        frame.render_widget(Clear, help);
        frame.render_widget(Paragraph::new(HELP).style(Style::new().add_modifier(Modifier::REVERSED)), help);
    }
}

/// The runs around the selected one, a line each.
fn draw_runs(frame: &mut Frame<'_>, board: &Board, area: Rect) {
    let visible = usize::from(area.height);
    let first = board.selected.saturating_sub(visible / 2).min(board.runs.len().saturating_sub(visible));
    let width = usize::from(area.width);
    let longest = board.runs.iter().map(|run| run.name.chars().count()).max().unwrap_or(0);
    let (name, bar) = (longest.clamp(8, (width / 4).clamp(8, 24)), (width / 6).clamp(6, 20));
    let line = |(index, run): (usize, &Run)| {
        let mark = if index == board.selected { '>' } else { ' ' };
        let shown: String = run.name.chars().take(name).collect();
        let style = match run.state.stage {
            Stage::Waiting => Style::new().add_modifier(Modifier::DIM),
            _ => Style::new(),
        };
        Line::styled(format!("{mark}{shown:name$} {} {}", bar_of(run.state.fraction(), bar), run.text()), style)
    };
    let lines: Vec<Line<'_>> = board.runs.iter().enumerate().skip(first).take(visible).map(line).collect();
    frame.render_widget(Paragraph::new(lines), area);
}

/// A bar of `width` characters of which a fraction is full.
fn bar_of(fraction: f64, width: usize) -> String {
    let full = ((fraction * width as f64) as usize).min(width);
    format!("{}{}", "\u{2588}".repeat(full), "\u{2591}".repeat(width - full))
}

/// Drops, trims and pauses: the latest rate, the total, and the rates over time.
fn draw_rates(frame: &mut Frame<'_>, run: &Run, area: Rect) {
    let fabric = &run.fabric;
    for (kind, name) in ["drops", "trims", "pauses"].into_iter().enumerate() {
        let row = Rect { y: area.y + kind as u16, height: 1, ..area }.intersection(area);
        let latest = count(fabric.rates[kind].back().copied().unwrap_or(0));
        let text = format!("{name:6} {latest:>13}/s {:>11} ", count(fabric.totals[kind]));
        let [left, right] = Layout::horizontal([Constraint::Length(35), Constraint::Fill(1)]).areas(row);
        frame.render_widget(Paragraph::new(text), left);
        let skipped = fabric.rates[kind].len().saturating_sub(usize::from(right.width));
        frame.render_widget(Sparkline::default().data(fabric.rates[kind].iter().skip(skipped).copied()), right);
    }
}

/// The hottest ports, a line each.
fn draw_ports(frame: &mut Frame<'_>, hottest: &[Hot], area: Rect) {
    let name = usize::from(area.width).saturating_sub(34).clamp(12, 48);
    let header = format!("{:name$} {:>5} {:>13}", "hottest ports", "used", "queue");
    let mut lines = vec![Line::styled(header, Style::new().add_modifier(Modifier::DIM))];
    for hot in hottest.iter().take(usize::from(area.height).saturating_sub(1)) {
        let shown: String = hot.name.chars().take(name).collect();
        let paused = if hot.is_paused { "  paused" } else { "" };
        let (used, queued) = (format!("{:.0} %", hot.used * 100.0), format!("{} B", count(hot.queued)));
        lines.push(Line::raw(format!("{shown:name$} {used:>5} {queued:>13}{paused}")));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

#[cfg(test)]
mod tests {
    use super::super::board::tests::started;
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use rnic_spec::{RunEvent, RunProgress};
    use rnic_transport::Time;

    fn board() -> Board {
        let mut board = Board::new("An incast\u{1b}[2J", ["RoCE + PFC", "IRN\n\u{1b}]0;x\u{7}"].into_iter());
        board.event(0, &started(&["the buffer is small"]), 0);
        let progress = RunProgress {
            flows_done: 50,
            flows_total: Some(200),
            time: Time::from_us(1_230),
            ..RunProgress::default()
        };
        board.event(0, &RunEvent::Progress(progress), 0);
        let fabric = &mut board.runs[0].fabric;
        fabric.hottest = vec![
            Hot { name: "leaf0:3->h7".to_string(), used: 1.0, queued: 123_456, is_paused: false },
            Hot { name: "spine1:0->leaf0".to_string(), used: 0.254, queued: 0, is_paused: true },
        ];
        (fabric.under_way, fabric.paused, fabric.totals) = (12, 1, [6, 0, 1_000]);
        fabric.rates = [[0, 4, 8].into(), [0, 0, 0].into(), [100_000, 0, 100_000].into()];
        board
    }

    fn drawn(board: &Board, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, board)).unwrap();
        let text = terminal.backend().to_string();
        let lines = text.lines().map(|line| line.trim_matches('"').trim_end());
        lines.collect::<Vec<_>>().join("\n").trim_end().to_string()
    }

    #[test]
    fn a_small_terminal_shows_everything() {
        let expected = "\
An incast\\u{1b}[2J                            q end  ? help
>RoCE + PFC      ██░░░░░░░░ 50/200 flows  1.23 ms simulated
 IRN\\n\\u{1b}]0;x ░░░░░░░░░░ waiting
RoCE + PFC: 12 flows under way, 1 paused ports
drops              8/s           6  ▄█
trims              0/s           0
pauses       100,000/s       1,000 █ █
hottest ports               used         queue
leaf0:3->h7                100 %     123,456 B
spine1:0->leaf0             25 %           0 B  paused




! RoCE + PFC: the buffer is small";
        assert_eq!(drawn(&board(), 60, 15), expected);
    }

    #[test]
    fn any_size_can_be_drawn() {
        let mut board = board();
        board.has_help = true;
        assert!(drawn(&board, 80, 24).contains("end the runs; the partial results are printed"));
        for (width, height) in [(1, 1), (5, 3), (10, 2), (20, 8), (300, 100)] {
            drawn(&board, width, height);
        }
        let empty = Board::new("", std::iter::empty());
        drawn(&empty, 60, 15);
    }

    #[test]
    fn no_control_character_reaches_the_terminal() {
        assert!(!drawn(&board(), 80, 24).chars().any(|c| c.is_control() && c != '\n'));
    }
}
