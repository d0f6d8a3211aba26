//! Property tests of code generation: they compare the virtual machine with an interpreter of the intermediate
//! representation (HIR), for random programs.

mod generator;

use super::{Architecture, Executable, TELEMETRY_BYTES, lower};
use crate::hir::*;
use crate::interpret::{Externs, Interpreter};
use crate::runtime::{State, Table as Rows, bind_instances};
use crate::vm::{self, Context, Outcome};
use generator::Generator;
use proptest::prelude::*;
use rnic_transport::message::{Blocks, CreditToBtxEvent, CtrlPktEvent, DeliveredEvent, RxMsgInfo, RxMsgInfoRequest};
use std::collections::BTreeMap;
use std::sync::Arc;

struct NoBlocks;

impl Blocks for NoBlocks {
    fn get_rx_msg_info(&mut self, _: &RxMsgInfoRequest) -> RxMsgInfo {
        unreachable!("random programs do not call it")
    }
    fn delivered(&mut self, _: &DeliveredEvent) {}
    fn credit_to_btx(&mut self, _: &CreditToBtxEvent) {}
    fn ctrl_pkt(&mut self, _: &CtrlPktEvent) {}
}

/// A simple implementation of the register externs, for the interpreter.
struct Registers<'p> {
    instances: &'p [Instance],
    /// The values of the registers, by number of the register array, index of the entry in the array, and index of the
    /// scalar within the entry.
    scalars: BTreeMap<(u32, u128, usize), u128>,
}

impl Externs for Registers<'_> {
    fn call(&mut self, call: &ExternCall, arguments: &[u128]) -> Vec<u128> {
        let id = call.instance.expect("random programs call methods of objects").0;
        let instance = &self.instances[id as usize];
        let index = arguments[0];
        let in_range = index < instance.arguments[0];
        let scalar = |at| self.scalars.get(&(id, index, at)).copied().unwrap_or(0);
        match call.function.as_str() {
            "execute" if in_range => {
                let (op, operand) =
                    if arguments[1] == 1 { (arguments[2], arguments[3]) } else { (arguments[4], arguments[5]) };
                let value = match op {
                    1 => operand,
                    2 => (scalar(0) + operand) & crate::arithmetic::ones(instance.types[0]),
                    3 => scalar(0).wrapping_sub(operand) & crate::arithmetic::ones(instance.types[0]),
                    _ => scalar(0),
                };
                self.scalars.insert((id, index, 0), value);
                vec![value]
            }
            "read" => (0..instance.types.len()).map(scalar).collect(),
            "write" if in_range => {
                for (at, value) in arguments[1..].iter().enumerate() {
                    self.scalars.insert((id, index, at), *value);
                }
                Vec::new()
            }
            _ => Vec::new(),
        }
    }
}

/// A program with one pipeline, of which the test can observe all slots (scalar variables). The first `inputs` slots
/// are the inputs of the pipeline.
struct TestProgram {
    program: Program,
    executable: Executable,
    emitted: u32,
    outputs: Vec<(SlotId, u32)>,
}

const ROOM: u32 = 64;

impl TestProgram {
    /// Compiles a random program. Returns `None` if its parser has too many combinations of state and number of
    /// consumed bytes to be compiled.
    fn new(generator: Generator, inputs: usize) -> Option<TestProgram> {
        let mut pipeline = generator.pipeline;
        let slots = pipeline.slots.clone();
        let name = |at: usize| format!("in.{at}");
        pipeline.inputs = (0..inputs).map(|at| (name(at), SlotId(at as u32))).collect();
        // Every slot is an output. At the end of the program, the upper half of each wide slot is copied to a slot of
        // its own, because an output has 64 bits.
        let mut outputs = Vec::new();
        for (at, slot) in slots.iter().enumerate() {
            let id = SlotId(at as u32);
            outputs.push((id, 0));
            if slot.width > 64 {
                pipeline.slots.push(Slot { name: "upper".into(), width: slot.width - 64, signed: false });
                let upper = SlotId(pipeline.slots.len() as u32 - 1);
                let of = Expr { width: slot.width, kind: ExprKind::Slot(id) }.into();
                let value = Expr { width: slot.width - 64, kind: ExprKind::Slice { of, low: 64 } };
                pipeline.deparser.push(Stmt::Assign { slot: upper, value });
                outputs.push((upper, 64));
            }
        }
        pipeline.outputs = outputs.iter().enumerate().map(|(at, (slot, _))| (name(at), *slot)).collect();
        let bindings = bind_instances(&generator.instances).expect("known instances");
        let names: Vec<String> = (0..outputs.len()).map(name).collect();
        let architecture = Architecture {
            inputs: &names.iter().map(String::as_str).collect::<Vec<_>>(),
            first_pinned: names.len(),
            outputs: &names.iter().map(|name| (name.as_str(), 0)).collect::<Vec<_>>(),
            blocks: true,
            instances: &bindings,
            header_room: ROOM,
        };
        let (executable, emitted) = match lower(&pipeline, &architecture) {
            Err(errors) if errors[0].message.contains("too large") => return None,
            lowered => lowered.expect("a program of the subset"),
        };
        let (annotations, constants, egress) = Default::default();
        let (instances, warnings) = (generator.instances, Vec::new());
        let program = Program { ingress: pipeline, egress, instances, annotations, constants, warnings };
        Some(TestProgram { program, executable, emitted, outputs })
    }

    /// Runs the program on packets with the same inputs in the virtual machine and in the interpreter. Compares all
    /// slots (scalar variables) and the emitted bytes. Also compares the registers, because later packets read them.
    fn compare(&self, inputs: &[u128], packets: &[Vec<u8>]) {
        let pipeline = &self.program.ingress;
        let tables = |table: &Table| {
            let widths =
                |action: &Action| action.parameters.iter().map(|s| pipeline.slots[s.0 as usize].width).collect();
            Arc::new(Rows::new(table, table.actions.iter().map(widths).collect()))
        };
        let tables: Vec<_> = pipeline.tables.iter().map(tables).collect();
        let mut frame = vm::prepare(&self.executable, &[], 0);
        let mut state = State::new(&bind_instances(&self.program.instances).expect("known instances"));
        let mut registers = Registers { instances: &self.program.instances, scalars: BTreeMap::new() };
        for packet in packets {
            let mut interpreter = Interpreter::new(pipeline, registers, packet);
            interpreter.slots[..inputs.len()].copy_from_slice(inputs);
            let end = interpreter.parser();
            if end == Some(Target::Accept) {
                interpreter.control();
                interpreter.deparser();
            }
            let mut buffer = packet.clone();
            buffer.resize((ROOM + TELEMETRY_BYTES) as usize, 0xee);
            let mut out = vec![0; self.emitted as usize];
            let mut context = Context {
                state: &mut state,
                tables: &tables,
                blocks: &mut NoBlocks,
                packet: &buffer,
                len: packet.len(),
                out: &mut out,
            };
            let outcome = vm::run(&self.executable, &mut frame, |at| inputs[usize::from(at)] as u64, &mut context);
            match outcome {
                Outcome::Exhausted => return,
                Outcome::Rejected => assert_eq!(end, Some(Target::Reject)),
                Outcome::Done(len) => {
                    assert_eq!(end, Some(Target::Accept));
                    self.compare_slots(&frame, &interpreter);
                    assert_eq!(out[..len], interpreter.emitted);
                }
            }
            registers = interpreter.externs;
        }
    }

    fn compare_slots(&self, frame: &vm::Frame, interpreter: &Interpreter<'_, Registers<'_>>) {
        let slots = &self.program.ingress.slots;
        for ((slot, from), register) in self.outputs.iter().zip(&self.executable.code.outputs) {
            let expected = interpreter.slots[slot.0 as usize] as u64;
            let name = &slots[slot.0 as usize].name;
            assert_eq!(frame[usize::from(*register)], expected, "{name} from bit {from}");
        }
    }
}

fn packets() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let byte = prop_oneof![0u8..4, any::<u8>()];
    prop::collection::vec(prop::collection::vec(byte, 0..ROOM as usize + 30), 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// The random programs of this test have expressions, statements, tables and registers.
    #[test]
    fn controls_agree_with_the_interpreter(
        dice in prop::collection::vec(any::<u32>(), 0..400),
        inputs in prop::collection::vec(any::<u64>(), 10),
    ) {
        let mut generator = Generator::new(dice);
        generator.pipeline.control = generator.body(4, 0);
        let widths = generator.pipeline.slots.iter().map(|slot| slot.width);
        let inputs: Vec<u128> = widths.zip(inputs).map(|(width, input)| u128::from(input) & crate::arithmetic::ones(width)).collect();
        TestProgram::new(generator, inputs.len()).expect("not too large").compare(&inputs, &[vec![], vec![]]);
    }

    /// The random programs of this test have parsers with loops, and headers with fields of odd widths.
    #[test]
    fn parsers_and_deparsers_agree_with_the_interpreter(dice in prop::collection::vec(any::<u32>(), 0..300), packets in packets()) {
        let mut generator = Generator::new(dice);
        generator.headers(3);
        generator.states(4);
        generator.pipeline.control = generator.body(2, 0);
        generator.pipeline.deparser = (0..3).map(|header| Stmt::Emit(HeaderId(header))).collect();
        if let Some(program) = TestProgram::new(generator, 0) {
            program.compare(&[], &packets);
        }
    }
}
