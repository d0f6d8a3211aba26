//! The virtual machine that executes the compiled ingress and egress pipelines of a P4 program for each packet.

use crate::arithmetic;
use crate::lower::Executable;
use crate::lower::code::{Apply, Call, Load, Op, Pair, Store, Wide};
use crate::runtime::{Function, State, Table};
use rnic_transport::message::primitives::{Comparison, Entry, Op as RegisterOp, PairOperand};
use rnic_transport::message::{Blocks, CreditToBtxEvent, CtrlPktEvent, DeliveredEvent, RxMsgInfo, RxMsgInfoRequest};
use std::sync::Arc;

/// The registers with which the virtual machine executes a pipeline. There are 256 of them, and a byte holds the number
/// of a register, so register accesses need no bounds checks.
pub(crate) type Frame = [u64; crate::lower::REGISTERS];

/// Maximum number of instructions that a parser may execute repeatedly for one packet by jumping backwards. Only loops
/// of parser states contain backward jumps.
pub(crate) const MAX_REPEATED_INSTRUCTIONS: usize = 4096;

/// The way in which the execution of a pipeline for one packet ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// The pipeline ran to its end. The number is the length of the emitted headers in bytes.
    Done(usize),
    /// The parser rejected the packet, so the NIC drops it.
    Rejected,
    /// The parser's loops repeated more than [`MAX_REPEATED_INSTRUCTIONS`] instructions, so the NIC drops the packet.
    Exhausted,
}

/// The data that a pipeline reads and writes while it processes a packet, besides the registers of the virtual machine.
pub(crate) struct Context<'a, B> {
    pub(crate) state: &'a mut State,
    pub(crate) tables: &'a [Arc<Table>],
    pub(crate) blocks: &'a mut B,
    /// A buffer that begins with the headers of the arriving packet.
    pub(crate) packet: &'a [u8],
    /// The length of the arriving packet's headers in bytes.
    pub(crate) len: usize,
    /// The buffer for the headers that the pipeline emits, large enough for the longest headers of the program.
    pub(crate) out: &'a mut [u8],
}

/// Creates the registers for a pipeline, and loads the pipeline's constants and the NIC's parameters into them.
/// `first_pinned` is the index of the first NIC parameter in the pipeline's list of inputs.
pub(crate) fn prepare(executable: &Executable, nic: &[u64], first_pinned: usize) -> Box<Frame> {
    let mut frame = Box::new([0; crate::lower::REGISTERS]);
    for (value, register) in &executable.code.constants {
        frame[usize::from(*register)] = *value;
    }
    for (index, register) in &executable.code.pinned {
        frame[usize::from(*register)] = nic[usize::from(*index) - first_pinned];
    }
    frame
}

/// Runs a pipeline for one packet. `input` returns a value that the NIC provides with the packet, by its index in the
/// pipeline's list of inputs.
#[inline]
pub(crate) fn run<B: Blocks>(
    executable: &Executable, frame: &mut Frame, input: impl Fn(u8) -> u64, context: &mut Context<'_, B>,
) -> Outcome {
    if executable.zeros > 0 {
        frame[..executable.zeros].fill(0);
    }
    for &(index, register) in &executable.code.inputs {
        frame[usize::from(register)] = input(index);
    }
    execute(executable, frame, context)
}

/// Continues the execution at instruction `$to` if the condition holds.
macro_rules! jump {
    ($next:ident, $condition:expr, $to:expr) => {
        if $condition {
            $next = $to as usize;
        }
    };
}

fn execute<B: Blocks>(executable: &Executable, frame: &mut Frame, context: &mut Context<'_, B>) -> Outcome {
    let code = &executable.code;
    let mut next = 0;
    let mut base = 0;
    let mut budget = MAX_REPEATED_INSTRUCTIONS;
    macro_rules! r {
        ($register:expr) => {
            frame[usize::from($register)]
        };
    }
    loop {
        let op = code.ops[next];
        next += 1;
        match op {
            Op::Mov { d, a } => r!(d) = r!(a),
            Op::Const { d, index } => r!(d) = code.numbers[usize::from(index)],
            Op::Add { d, a, b, s } => r!(d) = cut(r!(a).wrapping_add(r!(b)), s),
            Op::Sub { d, a, b, s } => r!(d) = cut(r!(a).wrapping_sub(r!(b)), s),
            Op::Mul { d, a, b, s } => r!(d) = cut(r!(a).wrapping_mul(r!(b)), s),
            Op::And { d, a, b } => r!(d) = r!(a) & r!(b),
            Op::Or { d, a, b } => r!(d) = r!(a) | r!(b),
            Op::Xor { d, a, b } => r!(d) = r!(a) ^ r!(b),
            Op::Not { d, a, s } => r!(d) = cut(!r!(a), s),
            Op::Shl { d, a, b, s } => r!(d) = cut(if r!(b) < 64 { r!(a) << r!(b) } else { 0 }, s),
            Op::Shr { d, a, b } => r!(d) = if r!(b) < 64 { r!(a) >> r!(b) } else { 0 },
            Op::Bits { d, a, low, s } => r!(d) = cut(r!(a) >> (low & 63), s),
            Op::Insert { d, old, a, low, s } => {
                let mask = (u64::MAX >> (s & 63)) << (low & 63);
                r!(d) = r!(old) & !mask | r!(a) << (low & 63);
            }
            Op::Concat { d, a, b, low } => r!(d) = r!(a) << (low & 63) | r!(b),
            Op::Extend { d, a, from, s } => {
                r!(d) = cut(((r!(a) << (from & 63)) as i64 >> (from & 63)) as u64, s);
            }
            Op::Eq { d, a, b } => r!(d) = u64::from(r!(a) == r!(b)),
            Op::Ne { d, a, b } => r!(d) = u64::from(r!(a) != r!(b)),
            Op::Lt { d, a, b } => r!(d) = u64::from(r!(a) < r!(b)),
            Op::Le { d, a, b } => r!(d) = u64::from(r!(a) <= r!(b)),
            Op::Select { d, c, a, b } => r!(d) = if r!(c) != 0 { r!(a) } else { r!(b) },
            Op::Wide(index) => general(&code.wide[usize::from(index)], frame),
            Op::Jump { to } => next = to as usize,
            Op::JumpBack { to } => {
                let again = next - to as usize;
                if again > budget {
                    return Outcome::Exhausted;
                }
                (budget, next) = (budget - again, to as usize);
            }
            Op::JumpEq { a, b, to } => jump!(next, r!(a) == r!(b), to),
            Op::JumpNe { a, b, to } => jump!(next, r!(a) != r!(b), to),
            Op::JumpLt { a, b, to } => jump!(next, r!(a) < r!(b), to),
            Op::JumpLe { a, b, to } => jump!(next, r!(a) <= r!(b), to),
            Op::JumpAny { a, b, to } => jump!(next, r!(a) & r!(b) != 0, to),
            Op::JumpNone { a, b, to } => jump!(next, r!(a) & r!(b) == 0, to),
            Op::Need { bytes } => {
                if context.len < usize::from(bytes) {
                    return Outcome::Rejected;
                }
            }
            Op::Load { d, at, left, right } => r!(d) = load(context.packet, Load { d, at, left, right }),
            Op::Store { a, at, bytes } => store(context.out, base, Store { a, at, bytes }, r!(a)),
            Op::Loads { first, count } => {
                for field in &code.loads[usize::from(first)..][..usize::from(count)] {
                    r!(field.d) = load(context.packet, *field);
                }
            }
            Op::Stores { first, count } => {
                for field in &code.stores[usize::from(first)..][..usize::from(count)] {
                    store(context.out, base, *field, r!(field.a));
                }
            }
            Op::Advance { bytes } => base += usize::from(bytes),
            Op::Call(index) => call(&code.calls[usize::from(index)], frame, context),
            Op::Apply(index) => next = apply(&code.applies[usize::from(index)], frame, context.tables),
            Op::Reject => return Outcome::Rejected,
            Op::End => return Outcome::Done(base),
        }
    }
}

/// Loads a header field of the packet: reads eight bytes as a big-endian number, and shifts out the bits before and
/// after the field.
#[inline(always)]
fn load(packet: &[u8], field: Load<u8>) -> u64 {
    let bytes: &[u8; 8] = packet[usize::from(field.at)..].first_chunk().expect("the code loads within the buffer");
    u64::from_be_bytes(*bytes) << (field.left & 63) >> (field.right & 63)
}

/// Stores the lowest bytes of `value` into the header that begins at offset `base` of the output. It may write zeros
/// after these bytes; the next store overwrites the zeros.
#[inline(always)]
fn store(out: &mut [u8], base: usize, field: Store<u8>, value: u64) {
    let word = (value << ((64 - 8 * u32::from(field.bytes)) & 63)).to_be_bytes();
    let rest = &mut out[base + usize::from(field.at)..];
    match rest.first_chunk_mut() {
        Some(chunk) => *chunk = word,
        None => rest[..usize::from(field.bytes)].copy_from_slice(&word[..usize::from(field.bytes)]),
    }
}

/// Drops the bits beyond the width of a result; `s` is 64 minus the width.
#[inline(always)]
fn cut(value: u64, s: u8) -> u64 {
    value << (s & 63) >> (s & 63)
}

/// Executes an operator in its general form, which works for operands of up to 128 bits.
#[inline(never)]
fn general(wide: &Wide<u8>, frame: &mut Frame) {
    let value =
        |pair: Pair<u8>| u128::from(frame[usize::from(pair.hi)]) << 64 | u128::from(frame[usize::from(pair.lo)]);
    let result = arithmetic::binary(wide.op, wide.width.into(), wide.second.into(), value(wide.a), value(wide.b));
    frame[usize::from(wide.d.lo)] = result as u64;
    frame[usize::from(wide.d.hi)] = (result >> 64) as u64;
}

/// Applies a match-action table: looks up its keys, and writes the arguments of the selected action into registers.
/// Returns the index of the instruction at which execution continues.
fn apply(apply: &Apply<u8>, frame: &mut Frame, tables: &[Arc<Table>]) -> usize {
    /// Maximum number of 64-bit key words for which the lookup needs no heap allocation.
    const MAX_STACK_WORDS: usize = 8;
    let table = &tables[usize::from(apply.table)];
    let read = |register: &u8| frame[usize::from(*register)];
    let found = if apply.keys.len() <= MAX_STACK_WORDS {
        let mut key = [0; MAX_STACK_WORDS];
        key.iter_mut().zip(&apply.keys).for_each(|(word, register)| *word = read(register));
        table.find(&key[..apply.keys.len()])
    } else {
        table.find(&apply.keys.iter().map(read).collect::<Vec<u64>>())
    };
    if let Some(hit) = apply.hit {
        frame[usize::from(hit)] = u64::from(found.hit);
    }
    let action = found.action.map_or(apply.actions.len(), |(action, _)| action);
    if let Some(register) = apply.action {
        frame[usize::from(register)] = action as u64;
    }
    let Some((action, arguments)) = found.action else { return apply.end as usize };
    let (to, parameters) = &apply.actions[action];
    for (parameter, word) in parameters.iter().zip(arguments) {
        frame[usize::from(*parameter)] = *word;
    }
    *to as usize
}

/// Calls a function or method that the NIC provides to programs.
pub(crate) fn call<B: Blocks>(call: &Call<u8>, frame: &mut Frame, context: &mut Context<'_, B>) {
    match call.target {
        Function::GetRxMsgInfo => get_rx_msg_info(call, frame, context.blocks),
        Function::Delivered => delivered(call, frame, context.blocks),
        Function::CreditToBtx => credit_to_btx(call, frame, context.blocks),
        Function::CreditToBtxBitmap => credit_to_btx_bitmap(call, frame, context.blocks),
        Function::CtrlPkt => ctrl_pkt(call, frame, context.blocks),
        Function::IfElse(index) => if_else(call, frame, context.state, usize::from(index)),
        Function::Compare(index) => compare(call, frame, context.state, usize::from(index)),
        Function::Pair(index) => pair(call, frame, context.state, usize::from(index)),
        Function::Read(index) => read(call, frame, context.state, usize::from(index)),
        Function::Write(index) => write(call, frame, context.state, usize::from(index)),
        Function::Schedule(index) => schedule(call, frame, context.state, usize::from(index)),
    }
}

/// Returns the values of the arguments of a call to a NIC function. The compiler has checked their number.
fn arguments<const N: usize>(call: &Call<u8>, frame: &Frame) -> [u64; N] {
    let registers: &[u8; N] = call.arguments.first_chunk().expect("a bound call has its arguments");
    registers.map(|register| frame[usize::from(register)])
}

/// Writes the results of a call to a NIC function into the registers that receive them.
fn results<const N: usize>(call: &Call<u8>, frame: &mut Frame, values: [u64; N]) {
    for (register, value) in call.results.iter().zip(values) {
        frame[usize::from(*register)] = value;
    }
}

fn get_rx_msg_info<B: Blocks>(call: &Call<u8>, frame: &mut Frame, blocks: &mut B) {
    let [src_ip, src_context, tx_msg_id, msg_len, pkt_offset, mark] = arguments(call, frame);
    let info: RxMsgInfo = blocks.get_rx_msg_info(&RxMsgInfoRequest {
        src_ip: src_ip as u32,
        src_context: src_context as u16,
        tx_msg_id: tx_msg_id as u32,
        msg_len: msg_len as u32,
        pkt_offset: pkt_offset as u32,
        mark_received: mark != 0,
    });
    let flags = [info.fail, info.is_new_msg, info.is_new_pkt, info.is_last_pkt].map(u64::from);
    results(call, frame, [flags[0], info.rx_msg_id.into(), flags[1], flags[2], flags[3], info.ack_no.into()]);
}

fn delivered<B: Blocks>(call: &Call<u8>, frame: &mut Frame, blocks: &mut B) {
    let [tx_msg_id, before, pkt_offset, bitmap] = arguments(call, frame);
    let [tx_msg_id, before, pkt_offset] = [tx_msg_id, before, pkt_offset].map(|value| value as u32);
    blocks.delivered(&DeliveredEvent { tx_msg_id, before, pkt_offset, bitmap });
}

fn credit_to_btx<B: Blocks>(call: &Call<u8>, frame: &mut Frame, blocks: &mut B) {
    let [tx_msg_id, again, rtx, more, credit] = arguments(call, frame);
    blocks.credit_to_btx(&CreditToBtxEvent {
        tx_msg_id: tx_msg_id as u32,
        pkt_offset: rtx as u32,
        bitmap: u64::from(again != 0),
        credit: (more != 0).then_some(credit as u32),
    });
}

fn credit_to_btx_bitmap<B: Blocks>(call: &Call<u8>, frame: &mut Frame, blocks: &mut B) {
    let [tx_msg_id, pkt_offset, bitmap, more, credit] = arguments(call, frame);
    blocks.credit_to_btx(&CreditToBtxEvent {
        tx_msg_id: tx_msg_id as u32,
        pkt_offset: pkt_offset as u32,
        bitmap,
        credit: (more != 0).then_some(credit as u32),
    });
}

fn ctrl_pkt<B: Blocks>(call: &Call<u8>, frame: &mut Frame, blocks: &mut B) {
    let [dst_ip, dst_context, src_context, tx_msg_id, msg_len, pkt_offset, credit, rank, immediate, paced] =
        arguments(call, frame);
    blocks.ctrl_pkt(&CtrlPktEvent {
        dst_ip: dst_ip as u32,
        dst_context: dst_context as u16,
        src_context: src_context as u16,
        tx_msg_id: tx_msg_id as u32,
        msg_len: msg_len as u32,
        pkt_offset: pkt_offset as u32,
        credit: credit as u32,
        rank: rank as u8,
        immediate: immediate as u8,
        paced: paced as u8,
    });
}

fn if_else(call: &Call<u8>, frame: &mut Frame, state: &mut State, index: usize) {
    let [at, predicate, op_true, operand_true, op_false, operand_false] = arguments(call, frame);
    let registers = &mut state.if_else[index];
    let value = if at < registers.size {
        let yes = (register_op(op_true), operand_true);
        let no = (register_op(op_false), operand_false);
        registers.cells.apply(at as usize, predicate != 0, yes, no) & registers.mask
    } else {
        state.beyond += 1;
        0
    };
    results(call, frame, [value]);
}

fn compare(call: &Call<u8>, frame: &mut Frame, state: &mut State, index: usize) {
    let [at, comparison, compared, op_true, operand_true, op_false, operand_false] = arguments(call, frame);
    let registers = &mut state.if_else[index];
    let value = if at < registers.size {
        // Only the lowest bits of an entry count.
        let old = registers.cells.apply(at as usize, true, (RegisterOp::Read, 0), (RegisterOp::Read, 0));
        let holds = register_comparison(comparison).holds(old & registers.mask, compared);
        let yes = (register_op(op_true), operand_true);
        let no = (register_op(op_false), operand_false);
        registers.cells.apply(at as usize, holds, yes, no) & registers.mask
    } else {
        state.beyond += 1;
        0
    };
    results(call, frame, [value]);
}

fn pair(call: &Call<u8>, frame: &mut Frame, state: &mut State, index: usize) {
    let [at, left, comparison, compared, operations @ ..]: [u64; 12] = arguments(call, frame);
    let registers = &mut state.pairs[index];
    let [x, y] = if at < registers.size {
        let left = match left {
            1 => PairOperand::Second,
            2 => PairOperand::Difference,
            _ => PairOperand::First,
        };
        let [x_true, x_yes, x_false, x_no, y_true, y_yes, y_false, y_no] = operations;
        let of = |op: u64, operand: u64| (register_op(op), operand);
        let first = [of(x_true, x_yes), of(x_false, x_no)];
        let second = [of(y_true, y_yes), of(y_false, y_no)];
        let condition = (left, register_comparison(comparison), compared);
        registers.cells.apply(at as usize, registers.mask, condition, first, second)
    } else {
        state.beyond += 1;
        [0; 2]
    };
    results(call, frame, [x, y]);
}

/// Converts a value of the P4 enum `reg_op_t`.
fn register_op(number: u64) -> RegisterOp {
    match number {
        1 => RegisterOp::Write,
        2 => RegisterOp::Add,
        3 => RegisterOp::Subtract,
        _ => RegisterOp::Read,
    }
}

/// Converts a value of the P4 enum `reg_cmp_t`. A number that is not a member of the enum means `GREATER_EQUAL`.
fn register_comparison(number: u64) -> Comparison {
    match number {
        0 => Comparison::Equal,
        1 => Comparison::NotEqual,
        2 => Comparison::Less,
        3 => Comparison::LessEqual,
        4 => Comparison::Greater,
        _ => Comparison::GreaterEqual,
    }
}

fn read(call: &Call<u8>, frame: &mut Frame, state: &mut State, index: usize) {
    let [at] = arguments(call, frame);
    let registers = &state.dual[index];
    let known = at < registers.size;
    state.beyond += u64::from(!known);
    for (word, result) in call.results.iter().enumerate() {
        let value = if known { registers.cells.read(at as usize * registers.words + word) } else { 0 };
        frame[usize::from(*result)] = value;
    }
}

fn write(call: &Call<u8>, frame: &mut Frame, state: &mut State, index: usize) {
    let [at] = arguments(call, frame);
    let registers = &mut state.dual[index];
    if at >= registers.size {
        state.beyond += 1;
        return;
    }
    for (word, argument) in call.arguments[1..].iter().enumerate() {
        registers.cells.write(at as usize * registers.words + word, frame[usize::from(*argument)]);
    }
}

fn schedule(call: &Call<u8>, frame: &mut Frame, state: &mut State, index: usize) {
    let [id, remove, rank, granted, grantable, levels] = arguments(call, frame);
    let scheduler = &mut state.schedulers[index];
    let id = id as u16;
    if remove != 0 {
        scheduler.remove(id);
    } else {
        let granted = scheduler.get(id).map_or(granted as u32, |entry| entry.granted);
        scheduler.upsert(Entry { id, rank: rank as u32, granted, grantable: grantable as u32 });
    }
    let chosen = match scheduler.select(levels as u32) {
        Some(chosen) => [1, chosen.id.into(), chosen.level.into(), chosen.credit.into()],
        None => [0; 4],
    };
    results(call, frame, chosen);
}
