//! Closed loops and programs in one run.

use super::FlowSpec;
use super::loops::{Loops, Origin};
use super::program::{Program, StepBoundaries};
use super::source::{Completion, Source};
use rnic_spec::ProgramRecords;
use rnic_transport::Time;

/// The closed loops and the programs of a run together.
#[derive(Debug)]
pub(crate) struct Both {
    loops: Loops,
    program: Program,
    /// For each flow in the simulator's flow table, whether the program started it.
    of_program: Vec<bool>,
}

/// The bit of [`Origin::member`] that marks flows of the program.
const PROGRAM: u32 = 1 << 31;

impl Both {
    pub(crate) fn new(loops: Loops, program: Program) -> Both {
        Both { loops, program, of_program: Vec::new() }
    }

    /// Whether the next flow is the program's.
    fn is_programs_turn(&self) -> bool {
        let (loops, program) = (Loops::head(&self.loops), Source::head(&self.program));
        program.is_some_and(|program| loops.is_none_or(|loops| program < loops))
    }
}

impl Source for Both {
    fn advance(&mut self, end: Time) {
        self.program.advance(end);
    }
    fn head(&self) -> Option<(Time, u16)> {
        match self.is_programs_turn() {
            true => Source::head(&self.program),
            false => Loops::head(&self.loops),
        }
    }
    fn next_event(&self) -> Time {
        self.loops.next_start().min(self.program.next_event())
    }
    fn take(&mut self) -> Option<(FlowSpec, Origin)> {
        let of_program = self.is_programs_turn();
        let (flow, origin) = if of_program { self.program.take() } else { Loops::take(&mut self.loops) }?;
        // Streams and the connections of closed loops are numbered apart.
        let member = if of_program { origin.member | PROGRAM } else { origin.member };
        Some((flow, Origin { member, ..origin }))
    }
    fn place(&mut self, flow: u32, member: u32) {
        let of_program = member != Loops::NONE && member & PROGRAM != 0;
        if self.of_program.len() <= flow as usize {
            self.of_program.resize(flow as usize + 1, false);
        }
        self.of_program[flow as usize] = of_program;
        if of_program {
            self.program.place(flow, member & !PROGRAM);
        } else {
            Loops::place(&mut self.loops, flow, member);
        }
    }
    fn holds(&self, flow: u32) -> bool {
        match self.of_program.get(flow as usize) {
            Some(true) => self.program.holds(flow),
            _ => Loops::holds(&self.loops, flow),
        }
    }
    fn complete(&mut self, flow: u32, completion: Completion) {
        match self.of_program.get(flow as usize) {
            Some(true) => self.program.complete(flow, completion),
            _ => Loops::complete(&mut self.loops, flow, completion.known),
        }
    }
    fn total(&self) -> Option<u64> {
        Some(Loops::total(&self.loops)?.saturating_add(self.program.total()?))
    }
    fn reaction(&self) -> Option<Time> {
        self.program.reaction()
    }
    fn waiting(&self) -> Vec<String> {
        self.program.waiting()
    }
    fn step_boundaries(&mut self) -> Option<StepBoundaries> {
        self.program.step_boundaries()
    }
    fn split_excess(&mut self) {
        self.program.split_excess();
    }
    fn take_records(&mut self) -> ProgramRecords {
        self.program.take_records()
    }
}
