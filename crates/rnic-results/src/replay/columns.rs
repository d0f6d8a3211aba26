//! The columns of a recorded run as bytes. `rnic-web/components/columns.js` reads the columns, and defines the encoding
//! of numbers.
//!
//! The columns are, in this order: the time of each frame, as picoseconds since the frame before; for each port, its
//! utilisation in each frame (0 to 255), as one byte, the difference from the frame before; for each port, its queue in
//! each frame in units of [`QUEUE_UNIT`], as the difference from the frame before; for each port, the frames in which
//! its totals changed; the pauses; for each frame, its pauses with their causes, and its cycle; the cells of the matrix
//! at each of its instants, with the time as picoseconds since the instant before; for each flow, the frames with its
//! delivered bytes.

use super::matrix::InUnits;
use super::recorder::{Kept, Seen, Totals};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use rnic_spec::RootKind;
use rnic_transport::Time;
use std::io::{self, Write};

/// Unit of queues in bytes. A queue that is not empty has at least one unit.
pub(super) const QUEUE_UNIT: u32 = 256;

/// Numbers in the form that `columns.js` reads.
#[derive(Default)]
struct Numbers(Vec<u8>);

impl Numbers {
    fn number(&mut self, mut value: u64) {
        while value >= 128 {
            self.0.push((value & 127) as u8 | 128);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn signed(&mut self, value: i64) {
        self.number(if value < 0 { value.unsigned_abs() * 2 - 1 } else { value.unsigned_abs() * 2 });
    }

    fn numbers(&mut self, values: &[u64]) {
        values.iter().for_each(|value| self.number(*value));
    }

    /// The number of a port that may be absent.
    fn port(&mut self, port: Option<u32>) {
        self.number(port.map_or(0, |port| u64::from(port) + 1));
    }

    fn root(&mut self, root: Option<(RootKind, u32)>) {
        let kind = match root {
            None => 0,
            Some((RootKind::Congestion, _)) => 1,
            Some((RootKind::Nic, _)) => 2,
            Some((RootKind::Cycle, _)) => 3,
        };
        self.number(kind);
        self.port(root.map(|(_, port)| port));
    }
}

/// The columns of a run, deflated (zlib). `flows` are the ids of the flows, `end` is the end of the run.
pub(super) fn deflated(seen: &Seen, flows: &[u32], end: Time) -> io::Result<Vec<u8>> {
    let mut out = Numbers::default();
    let frames = &seen.frames;
    let before = |index: usize| index.checked_sub(1).map(|before| &frames[before]);
    let times = frames.iter().enumerate();
    times.for_each(|(i, frame)| out.number((frame.time.as_ps()) - before(i).map_or(0, |frame| frame.time.as_ps())));
    for port in 0..seen.picture.ports.len() {
        used(&mut out, seen, port);
    }
    for port in 0..seen.picture.ports.len() {
        let mut last = 0;
        for frame in frames {
            let queued = i64::from(frame.queued[port].div_ceil(QUEUE_UNIT));
            out.signed(queued - last);
            last = queued;
        }
    }
    (0..seen.picture.ports.len() as u32).for_each(|port| totals(&mut out, frames, port));
    pauses(&mut out, seen, end);
    frames.iter().for_each(|frame| causes(&mut out, frame));
    cells(&mut out, seen);
    flows.iter().for_each(|flow| delivered(&mut out, frames, *flow));
    // Level 6 takes twice as long and saves less than a tenth of the size.
    let mut deflate = ZlibEncoder::new(Vec::new(), Compression::new(3));
    deflate.write_all(&out.0)?;
    deflate.finish()
}

/// The utilisation of a port in each frame: the share of the time since the previous frame in which the port was
/// sending.
fn used(out: &mut Numbers, seen: &Seen, port: usize) {
    let links = u64::from(seen.picture.ports[port].links);
    let (mut time, mut busy, mut last) = (Time::ZERO, 0, 0u8);
    for frame in &seen.frames {
        let most = (frame.time.saturating_sub(time).as_ps() / 1_000).saturating_mul(links).max(1);
        let sending = frame.busy_ns[port].saturating_sub(busy).min(most);
        // A port that has sent a little is not idle.
        let value = sending.saturating_mul(255).div_ceil(most) as u8;
        out.0.push(value.wrapping_sub(last));
        (time, busy, last) = (frame.time, frame.busy_ns[port], value);
    }
}

fn totals(out: &mut Numbers, frames: &[Kept], port: u32) {
    let changes = frames.iter().enumerate().filter_map(|(index, frame)| Some((index as u64, frame.totals.get(&port)?)));
    let changes: Vec<(u64, &Totals)> = changes.collect();
    out.number(changes.len() as u64);
    let (mut at, mut last) = (0, Totals::default());
    for (index, totals) in changes {
        out.number(index - at);
        out.numbers(&[0, 1, 2, 3].map(|i| totals[i] - last[i]));
        (at, last) = (index, *totals);
    }
}

/// The pauses; an open pause has the length 0, and every other pause its length plus 1.
fn pauses(out: &mut Numbers, seen: &Seen, end: Time) {
    out.number(seen.pauses.len() as u64);
    let mut last = 0;
    for (port, priority, from, to) in &seen.pauses {
        out.numbers(&[u64::from(*port), u64::from(*priority)]);
        let start = from.as_ps() as i64;
        out.signed(start - last);
        last = start;
        let length = to.filter(|to| *to < end).map_or(0, |to| to.saturating_sub(*from).as_ps() + 1);
        out.number(length);
        let near = seen.frames.iter().skip(seen.frames.partition_point(|frame| frame.time < *from)).take(2);
        let same = near.flat_map(|frame| &frame.pauses).find(|kept| (kept.port, kept.priority) == (*port, *priority));
        out.root(same.and_then(|kept| kept.root));
    }
}

fn causes(out: &mut Numbers, frame: &Kept) {
    out.number(frame.pauses.len() as u64);
    for pause in &frame.pauses {
        out.numbers(&[u64::from(pause.port), u64::from(pause.priority)]);
        out.port(pause.waits_for);
        out.root(pause.root);
    }
    out.number(frame.cycle.len() as u64);
    frame.cycle.iter().for_each(|port| out.number(u64::from(*port)));
}

fn cells(out: &mut Numbers, seen: &Seen) {
    let InUnits { unit, increments } = seen.matrix.in_units();
    out.number(unit);
    let mut before = Time::ZERO;
    for (time, cells) in increments {
        out.numbers(&[time.saturating_sub(before).as_ps(), cells.len() as u64]);
        before = time;
        let mut last = 0;
        for (cell, units) in cells {
            out.numbers(&[u64::from(cell - last), units]);
            last = cell;
        }
    }
}

fn delivered(out: &mut Numbers, frames: &[Kept], flow: u32) {
    let bytes = |frame: &Kept| {
        let at = frame.delivered.binary_search_by_key(&flow, |(id, _)| *id).ok()?;
        Some(frame.delivered[at].1)
    };
    let points: Vec<(u64, u64)> =
        frames.iter().enumerate().filter_map(|(index, frame)| Some((index as u64, bytes(frame)?))).collect();
    out.number(points.len() as u64);
    let (mut at, mut last) = (0, 0);
    for (index, bytes) in points {
        out.numbers(&[index - at, bytes.saturating_sub(last)]);
        (at, last) = (index, bytes.max(last));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_seven_bits_per_byte() {
        let mut out = Numbers::default();
        out.numbers(&[0, 127, 128, 10_000_000]);
        [0, 1, -1, 64, -64].into_iter().for_each(|value| out.signed(value));
        assert_eq!(out.0, [0, 127, 128, 1, 0x80, 0xad, 0xe2, 0x04, 0, 2, 1, 128, 1, 127]);
    }

    #[test]
    fn the_greatest_number_has_ten_bytes() {
        let mut out = Numbers::default();
        out.number(u64::MAX);
        assert_eq!(out.0, [255, 255, 255, 255, 255, 255, 255, 255, 255, 1]);
    }
}
