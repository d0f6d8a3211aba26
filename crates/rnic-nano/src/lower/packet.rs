//! Part of the code generation: generates virtual-machine instructions for parser states, `extract` and `emit`.
//!
//! If a parser can reach a state after different numbers of consumed bytes, the state is compiled once for each of
//! these numbers. So the position of every header field is known at compile time, and a field is a single load from a
//! fixed offset.

use super::code::Op;
use super::{Label, Lowering, TELEMETRY_BYTES};
use crate::arithmetic;
use crate::hir::{Expr, Header, HeaderId, Pattern, SlotId, StateId, Target, Transition};
use std::collections::BTreeMap;

/// The parser states for which code has not been generated yet.
struct States {
    /// The label of each parser state, by state and number of bytes consumed at its entry.
    labels: BTreeMap<(StateId, u32), Label>,
    open: Vec<(StateId, u32)>,
    accept: Label,
}

impl Lowering<'_> {
    /// Generates code for all reachable parser states. The code of the control, which runs after `accept`, follows.
    pub(super) fn parser(&mut self) {
        if self.pipeline.states.is_empty() {
            return;
        }
        let mut states = States { labels: BTreeMap::new(), open: Vec::new(), accept: self.label() };
        let start = self.state_label(&mut states, StateId(0));
        self.jump(start);
        while let Some((state, position)) = states.open.pop()
            && self.error.is_none()
        {
            self.position = position;
            self.bind(states.labels[&(state, position)]);
            self.state(&mut states, state);
        }
        // There is only one copy of the control's code, for any number of bytes that the parser has consumed.
        self.labels[states.accept.0 as usize].position = None;
        self.position = 0;
        self.bind(states.accept);
    }

    fn state_label(&mut self, states: &mut States, state: StateId) -> Label {
        let place = (state, self.position);
        if let Some(label) = states.labels.get(&place) {
            return *label;
        }
        let label = self.label();
        states.labels.insert(place, label);
        states.open.push(place);
        label
    }

    fn state(&mut self, states: &mut States, id: StateId) {
        let state = &self.pipeline.states[id.0 as usize];
        self.statements(&state.body);
        match &state.transition {
            Transition::To(target) => self.go(states, *target),
            Transition::Select { keys, cases } => {
                let values: Vec<_> = keys.iter().map(|key| self.value(key)).collect();
                let mut certain = false;
                for (patterns, target) in cases {
                    let next = self.label();
                    certain = true;
                    for ((key, value), pattern) in keys.iter().zip(&values).zip(patterns) {
                        certain &= self.unless_matches(key, *value, *pattern, next);
                    }
                    self.go(states, *target);
                    self.bind(next);
                    if certain {
                        break;
                    }
                }
                if !certain {
                    self.push(Op::Reject);
                }
            }
        }
    }

    fn go(&mut self, states: &mut States, target: Target) {
        match target {
            Target::Reject => self.push(Op::Reject),
            Target::Accept => {
                // The number of consumed bytes is not checked here, because the control does not depend on it.
                self.push(Op::Jump { to: states.accept.0 });
            }
            Target::State(state) => {
                let label = self.state_label(states, state);
                self.jump(label);
            }
        }
    }

    /// Emits a jump to `next` that is taken unless the key matches the pattern. Returns whether the pattern matches
    /// every key.
    fn unless_matches(&mut self, key: &Expr, value: super::Pair<u32>, pattern: Pattern, next: Label) -> bool {
        let zero = self.constant(0);
        match pattern {
            Pattern::Masked { mask, .. } if mask & arithmetic::ones(key.width) == 0 => return true,
            Pattern::Masked { value: wanted, mask } => {
                let value = self.masked(value, key.width, mask & arithmetic::ones(key.width));
                let wanted = self.constant_pair(wanted);
                let to = self.to(next);
                self.push(Op::JumpNe { a: value.lo, b: wanted.lo, to });
                if key.width > 64 {
                    self.push(Op::JumpNe { a: value.hi, b: wanted.hi, to });
                }
            }
            Pattern::Range { low, high } => {
                let inside = self.in_range(value, key.width, low, high);
                let to = self.to(next);
                self.push(Op::JumpEq { a: inside, b: zero, to });
            }
        }
        false
    }

    /// Advances the parser by a number of bytes. Emits an instruction that checks whether the packet has these bytes.
    pub(super) fn advance(&mut self, bytes: u32) {
        self.position = self.position.saturating_add(bytes);
        if self.position <= self.architecture.header_room + TELEMETRY_BYTES {
            self.push(Op::Need { bytes: self.position as u16 });
        } else {
            // The parser would read beyond the largest possible packet, so the check rejects every packet.
            self.push(Op::Need { bytes: u16::MAX });
            self.position = self.architecture.header_room + TELEMETRY_BYTES;
        }
    }

    pub(super) fn extract(&mut self, header: HeaderId) {
        let header = &self.pipeline.headers[header.0 as usize];
        let bit = 8 * self.position;
        let bytes = self.bytes(header);
        self.advance(bytes);
        if bit / 8 + bytes > self.position {
            return;
        }
        self.load_fields(&header.fields, bit);
        let valid = self.slots[header.valid.0 as usize].lo;
        let one = self.constant(1);
        self.copy_to(one, Some(valid));
    }

    /// Reads the next bits of the packet without consuming them.
    pub(super) fn lookahead(&mut self, slots: &[SlotId]) {
        let start = self.position;
        let bits: u32 = slots.iter().map(|slot| self.pipeline.slots[slot.0 as usize].width).sum();
        self.advance(bits.div_ceil(8));
        if start + bits.div_ceil(8) <= self.position {
            self.load_fields(slots, 8 * start);
        }
        self.position = start;
    }

    fn load_fields(&mut self, fields: &[SlotId], mut bit: u32) {
        for slot in fields {
            let register = self.slots[slot.0 as usize];
            let width = self.pipeline.slots[slot.0 as usize].width;
            if width > 64 {
                self.load(register.hi, bit, width - 64);
                self.load(register.lo, bit + width - 64, 64);
            } else {
                self.load(register.lo, bit, width);
            }
            bit += width;
        }
    }

    /// Emits a load of `width` bits, at most 64, that start at any bit of the packet.
    fn load(&mut self, d: u32, bit: u32, width: u32) {
        let byte = bit / 8;
        let offset = bit % 8;
        if offset + width > 64 {
            // The field spans nine bytes, so it needs two loads.
            let upper = 64 - offset;
            let a = self.fresh();
            let b = self.fresh();
            self.load(a, bit, upper);
            self.load(b, bit + upper, width - upper);
            return self.push(Op::Concat { d, a, b, low: (width - upper) as u8 });
        }
        // A load reads eight bytes. Near the end of the buffer it starts at an earlier byte, so that it does not read
        // beyond the buffer. In a packet without telemetry, the buffer ends after the headers.
        let room = self.architecture.header_room;
        let end = if bit + width <= 8 * room { room } else { room + TELEMETRY_BYTES };
        let at = byte.min(end - 8);
        let left = 8 * (byte - at) + offset;
        self.push(Op::Load { d, at: at as u16, left: left as u8, right: (64 - width) as u8 });
    }

    pub(super) fn emit_header(&mut self, header: HeaderId) {
        let header = &self.pipeline.headers[header.0 as usize];
        let absent = self.label();
        let zero = self.constant(0);
        let to = self.to(absent);
        self.push(Op::JumpEq { a: self.slots[header.valid.0 as usize].lo, b: zero, to });
        // Consecutive fields are stored together, as a group that ends at a byte boundary.
        let mut group = Vec::new();
        let mut bits = 0;
        let mut at = 0;
        for slot in &header.fields {
            group.push((self.slots[slot.0 as usize], self.pipeline.slots[slot.0 as usize].width));
            bits += group[group.len() - 1].1;
            if bits % 8 == 0 {
                self.store(&group, bits, at);
                at += bits / 8;
                (group, bits) = (Vec::new(), 0);
            }
        }
        self.push(Op::Advance { bytes: at as u16 });
        self.emitted = self.emitted.saturating_add(at);
        self.bind(absent);
    }

    /// Emits stores of consecutive values that together have `bits` bits, a whole number of bytes. A store writes at
    /// most eight bytes.
    fn store(&mut self, values: &[(super::Pair<u32>, u32)], bits: u32, at: u32) {
        let mut done = 0;
        while done < bits {
            let size = (bits - done).min(64);
            let mut start = 0;
            let mut word = None;
            for (value, width) in values {
                // Bit positions count from the first transmitted bit. The part of this value that this store writes
                // lies between the positions `first` and `last`.
                let first = start.max(done);
                let last = (start + width).min(done + size);
                if first < last {
                    let part = self.bits(*value, *width, start + width - last, last - first, None);
                    word = Some(match word {
                        None => part,
                        Some(before) => {
                            let d = self.fresh();
                            self.push(Op::Concat { d, a: before, b: part, low: (last - first) as u8 });
                            d
                        }
                    });
                }
                start += width;
            }
            let a = word.expect("every word has bits");
            self.push(Op::Store { a, at: (at + done / 8) as u16, bytes: (size / 8) as u8 });
            done += size;
        }
    }

    /// Returns the length of a header on the wire in bytes.
    fn bytes(&self, header: &Header) -> u32 {
        header.fields.iter().map(|slot| self.pipeline.slots[slot.0 as usize].width).sum::<u32>() / 8
    }
}
