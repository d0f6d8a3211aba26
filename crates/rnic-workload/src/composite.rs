//! Several sources of flows that depend on completions in one run: closed loops, programs, lists with triggers.

use super::FlowSpec;
use super::boundaries::StepBoundaries;
use super::loops::{Loops, Origin};
use super::source::{Completion, Source};
use rnic_spec::ProgramRecords;
use rnic_transport::Time;

/// The sources of a run together, at most [`Composite::MAX_PARTS`]. Of flows that start at the same time and belong to
/// the same traffic source, those of an earlier part come first.
#[derive(Debug)]
pub(crate) struct Composite {
    parts: Vec<Box<dyn Source>>,
    /// For each flow in the simulator's flow table, the index of the part that started it, or [`Composite::OTHER`].
    of: Vec<u8>,
}

/// Position of the index of the part in [`Origin::member`], above the member of the part.
const PART: u32 = 30;
const MEMBER: u32 = (1 << PART) - 1;

impl Composite {
    /// The largest number of parts. The index 3 is left out, because [`Loops::NONE`] has it.
    const MAX_PARTS: usize = 3;
    const OTHER: u8 = u8::MAX;

    pub(crate) fn new(parts: Vec<Box<dyn Source>>) -> Composite {
        debug_assert!(parts.len() <= Composite::MAX_PARTS);
        Composite { parts, of: Vec::new() }
    }

    /// Index of the part whose flow is the next one.
    fn next_part(&self) -> Option<usize> {
        let heads = self.parts.iter().enumerate().filter_map(|(part, source)| Some((source.head()?, part)));
        heads.min().map(|(_, part)| part)
    }

    /// The part that started the flow in slot `flow`.
    fn part(&self, flow: u32) -> Option<usize> {
        let part = self.of.get(flow as usize).copied().filter(|part| *part != Composite::OTHER);
        part.map(usize::from)
    }
}

impl Source for Composite {
    fn advance(&mut self, end: Time) {
        self.parts.iter_mut().for_each(|part| part.advance(end));
    }
    fn head(&self) -> Option<(Time, u16)> {
        self.parts.iter().filter_map(|part| part.head()).min()
    }
    fn next_event(&self) -> Time {
        self.parts.iter().map(|part| part.next_event()).min().unwrap_or(Time::MAX)
    }
    fn take(&mut self) -> Option<(FlowSpec, Origin)> {
        let part = self.next_part()?;
        let (flow, origin) = self.parts[part].take()?;
        // Only one of the parts has streams, and only one has connections; the two are numbered apart.
        debug_assert!(origin.member <= MEMBER);
        Some((flow, Origin { member: origin.member | (part as u32) << PART, ..origin }))
    }
    fn place(&mut self, flow: u32, member: u32) {
        if self.of.len() <= flow as usize {
            self.of.resize(flow as usize + 1, Composite::OTHER);
        }
        let part = (member >> PART) as u8;
        self.of[flow as usize] = if member == Loops::NONE { Composite::OTHER } else { part };
        if member != Loops::NONE {
            self.parts[usize::from(part)].place(flow, member & MEMBER);
        }
    }
    fn holds(&self, flow: u32) -> bool {
        self.part(flow).is_some_and(|part| self.parts[part].holds(flow))
    }
    fn complete(&mut self, flow: u32, completion: Completion) {
        if let Some(part) = self.part(flow) {
            self.parts[part].complete(flow, completion);
        }
    }
    fn total(&self) -> Option<u64> {
        self.parts.iter().try_fold(0u64, |sum, part| Some(sum.saturating_add(part.total()?)))
    }
    fn reaction(&self) -> Option<Time> {
        self.parts.iter().filter_map(|part| part.reaction()).min()
    }
    fn waiting(&self) -> Vec<String> {
        self.parts.iter().flat_map(|part| part.waiting()).collect()
    }
    fn step_boundaries(&mut self) -> Option<StepBoundaries> {
        self.parts.iter_mut().find_map(|part| part.step_boundaries())
    }
    fn split_excess(&mut self) {
        self.parts.iter_mut().for_each(|part| part.split_excess());
    }
    fn take_records(&mut self) -> ProgramRecords {
        // Only programs have records.
        let mut records = self.parts.iter_mut().map(|part| part.take_records());
        records.find(|records| *records != ProgramRecords::default()).unwrap_or_default()
    }
}
