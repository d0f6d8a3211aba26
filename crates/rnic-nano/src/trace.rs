//! Traces of P4 programs: what a program does with each packet, for its author. [`TracedPipeline`] runs a program by
//! [`interpret`](crate::interpret) instead of the virtual machine, and describes the states of the parser, the fields
//! of headers, the calls of the NIC's blocks and the registers that change. [`trace`] runs it on two NICs that send
//! messages.

use crate::hir::{ExternCall, Instance, Pipeline as Code, Target};
use crate::interpret::{Externs, Flow, Interpreter};
use crate::lower::code::Call;
use crate::pipeline::{NicParameters, P4Header, arrival_values, departure_values, verdict};
use crate::program::{ARRIVAL, DEPARTURE, LINK, Program, REASSEMBLY};
use crate::runtime::{Binding, State, bind};
use crate::vm::{self, Context, Frame};
use rnic_transport::message::{
    Arrival, Blocks, Departure, Framed, Message, MessageNic, NicConfig, NicEvent, Outgoing, Pipeline, Verdict,
};
use rnic_transport::{BitRate, Time};
use std::collections::BTreeMap;

/// Size of the header buffer in bytes: the maximum of all programs.
const ROOM: usize = 256;
/// Names of the two NICs.
const NAMES: [&str; 2] = ["a", "b"];
/// Rate of the link between the NICs, and its propagation delay.
const RATE: BitRate = BitRate::from_gbps(100);
const DELAY: Time = Time::from_us(1);
/// Payload of a full packet in bytes, and the number of such packets in a round trip.
const MTU: u16 = 1_024;
const RTT_PACKETS: u32 = 24;
/// Maximum number of packets that the NICs send, so that a program which never ends is stopped.
const MAX_PACKETS: u64 = 1_000_000;

/// What [`trace`] simulates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Number of messages that NIC `a` sends to NIC `b` at the same time.
    pub messages: u32,
    /// Length of each message in bytes.
    pub bytes: u32,
    /// Every packet with this number is lost, counted from 1 over both directions; `None`: no packet is lost.
    pub lose_every: Option<u64>,
    /// Maximum number of packets that are described; the NICs send the others as well.
    pub described: u64,
}

impl Default for Settings {
    /// One message of three packets.
    fn default() -> Settings {
        Settings { messages: 1, bytes: 3_000, lose_every: None, described: 40 }
    }
}

/// The result of [`trace`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traced {
    /// Messages that arrived completely.
    pub delivered: u32,
    /// Messages whose sender has learned that they arrived.
    pub acknowledged: u32,
    /// Packets that the NICs sent, the lost ones included.
    pub packets: u64,
    /// Packets that were lost.
    pub lost: u64,
    /// Packets that a parser rejected.
    pub rejected: u64,
    /// Time of the last event.
    pub end: Time,
}

/// A P4 program on one NIC that describes what it does.
#[derive(Debug)]
pub struct TracedPipeline {
    program: Program,
    nic: Vec<(&'static str, u64)>,
    state: State,
    /// The latest known values of registers, by number of the object and index.
    registers: BTreeMap<(u32, u128), Vec<u128>>,
    rejected: u64,
    /// The lines about the packets since [`TracedPipeline::take_lines`].
    lines: Vec<String>,
}

impl TracedPipeline {
    /// Loads a program into a NIC.
    pub fn new(program: &Program, nic: &NicParameters) -> TracedPipeline {
        TracedPipeline {
            program: program.clone(),
            nic: nic.named(),
            state: State::new(program.bindings()),
            registers: BTreeMap::new(),
            rejected: 0,
            lines: Vec::new(),
        }
    }

    /// Takes the lines about the packets since the last call.
    pub fn take_lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }

    /// Number of packets that the parser rejected.
    pub fn rejected(&self) -> u64 {
        self.rejected
    }
}

/// Sets the inputs of a pipeline.
fn set_inputs<E: Externs>(interpreter: &mut Interpreter<'_, E>, given: &[(&str, u64)], nic: &[(&str, u64)]) {
    for (name, slot) in &interpreter.pipeline.inputs {
        let value = given.iter().chain(nic).find(|(known, _)| known == name).map_or(0, |(_, value)| *value);
        interpreter.slots[slot.0 as usize] = value.into();
    }
}

/// A value as the trace shows it: small numbers decimal, others hexadecimal.
fn shown(value: u128) -> String {
    if value < 100_000 { value.to_string() } else { format!("{value:#x}") }
}

fn list(values: &[u128]) -> String {
    values.iter().map(|value| shown(*value)).collect::<Vec<_>>().join(", ")
}

/// A line with the fields of each valid header.
fn header_lines<E: Externs>(interpreter: &Interpreter<'_, E>, lines: &mut Vec<String>) {
    let code = interpreter.pipeline;
    for header in code.headers.iter().filter(|header| interpreter.slots[header.valid.0 as usize] == 1) {
        let field = |slot: &crate::hir::SlotId| {
            let name = &code.slots[slot.0 as usize].name;
            let short = name.strip_prefix(&header.name).and_then(|rest| rest.strip_prefix('.')).unwrap_or(name);
            format!("{short}={}", shown(interpreter.slots[slot.0 as usize]))
        };
        let fields: Vec<String> = header.fields.iter().map(field).collect();
        lines.push(format!("  {}: {}", header.name, fields.join(" ")));
    }
}

/// The low 64 bits of an output of a pipeline; `default` if the pipeline does not have the output.
fn output<E: Externs>(interpreter: &Interpreter<'_, E>, (name, default): (&str, u64)) -> u64 {
    let found = interpreter.pipeline.outputs.iter().find(|(known, _)| known == name);
    found.map_or(default, |(_, slot)| interpreter.slots[slot.0 as usize] as u64)
}

/// A line with the outputs of a pipeline that begin with `prefix`.
fn output_line<E: Externs>(interpreter: &Interpreter<'_, E>, prefix: &str) -> String {
    let value = |(name, slot): &(String, crate::hir::SlotId)| {
        let short = name.strip_prefix(prefix).unwrap_or(name).trim_start_matches('.');
        format!("{short}={}", shown(interpreter.slots[slot.0 as usize]))
    };
    let values: Vec<String> = interpreter.pipeline.outputs.iter().map(value).collect();
    format!("  {prefix}: {}", values.join(" "))
}

/// The NIC's blocks and registers, whose calls are described.
struct Described<'a, B> {
    blocks: &'a mut B,
    state: &'a mut State,
    registers: &'a mut BTreeMap<(u32, u128), Vec<u128>>,
    instances: &'a [Instance],
    bindings: &'a [Binding],
    lines: Vec<String>,
}

impl<B: Blocks> Described<'_, B> {
    /// Calls the function as the virtual machine does.
    fn execute(&mut self, call: &ExternCall, arguments: &[u128]) -> Vec<u128> {
        let Ok((target, widths)) = bind(call, self.bindings, true) else { return Vec::new() };
        let mut frame: Frame = [0; crate::lower::REGISTERS];
        let mut next = 0_u8;
        let mut registers = |width: u32| {
            let first = next;
            next += if width > 64 { 2 } else { 1 };
            first..next
        };
        let places: Vec<u8> = call.arguments.iter().flat_map(|argument| registers(argument.width)).collect();
        let results: Vec<u8> = widths.iter().flat_map(|width| registers(*width)).collect();
        let words = arguments.iter().zip(&call.arguments).flat_map(|(value, argument)| {
            let words = [*value as u64, (*value >> 64) as u64];
            words.into_iter().take(if argument.width > 64 { 2 } else { 1 })
        });
        for (place, word) in places.iter().zip(words) {
            frame[usize::from(*place)] = word;
        }
        let mut word = results.clone().into_iter();
        let call = Call { target, arguments: places, results };
        let mut context =
            Context { state: self.state, tables: &[], blocks: self.blocks, packet: &[], len: 0, out: &mut [] };
        vm::call(&call, &mut frame, &mut context);
        let mut value = |width: &u32| {
            let mut next = || word.next().map_or(0, |place| u128::from(frame[usize::from(place)]));
            let low = next();
            if *width > 64 { low | next() << 64 } else { low }
        };
        widths.iter().map(&mut value).collect()
    }

    /// A line about an access to registers.
    fn register_line(&mut self, id: u32, call: &ExternCall, arguments: &[u128], results: &[u128]) -> String {
        let Instance { name, kind, .. } = &self.instances[id as usize];
        let index = arguments.first().copied().unwrap_or_default();
        if kind == "PriorityScheduler" {
            return format!("  {name}.schedule({}) = {}", list(arguments), list(results));
        }
        let new = if call.function == "write" { &arguments[1..] } else { results };
        let place = format!("  {name}[{}]", shown(index));
        let old = self.registers.insert((id, index), new.to_vec());
        let old = old.unwrap_or_else(|| vec![0; new.len()]);
        if old == new {
            format!("{place} = {}", list(new))
        } else {
            format!("{place}: {} -> {}", list(&old), list(new))
        }
    }
}

impl<B: Blocks> Externs for Described<'_, B> {
    fn call(&mut self, call: &ExternCall, arguments: &[u128]) -> Vec<u128> {
        let results = self.execute(call, arguments);
        let line = match call.instance {
            Some(id) => self.register_line(id.0, call, arguments, &results),
            None if results.is_empty() => format!("  {}({})", call.function, list(arguments)),
            None => format!("  {}({}) = {}", call.function, list(arguments), list(&results)),
        };
        self.lines.push(line);
        results
    }
}

impl Pipeline for TracedPipeline {
    type Header = P4Header<ROOM>;

    fn header_bytes(header: &P4Header<ROOM>) -> u32 {
        header.len.into()
    }

    fn ingress<B: Blocks>(&mut self, blocks: &mut B, header: &P4Header<ROOM>, arrival: &Arrival<'_>) -> Verdict {
        let program = self.program.clone();
        let code: &Code = &program.hir().ingress;
        let externs = Described {
            blocks,
            state: &mut self.state,
            registers: &mut self.registers,
            instances: &program.hir().instances,
            bindings: program.bindings(),
            lines: Vec::new(),
        };
        let bytes = &header.bytes[..usize::from(header.len).min(ROOM)];
        let mut interpreter = Interpreter::new(code, externs, bytes);
        let given: Vec<(&str, u64)> = ARRIVAL.into_iter().zip(arrival_values(arrival, 0)).collect();
        set_inputs(&mut interpreter, &given, &self.nic);
        let accepted = interpreter.parser() == Some(Target::Accept);
        let states: Vec<&str> = interpreter.visited.iter().map(|state| &*code.states[state.0 as usize].name).collect();
        let end = if accepted { "accept" } else { "reject" };
        self.lines.push(format!("  parser: {}: {end}", states.join(", ")));
        header_lines(&interpreter, &mut self.lines);
        if !accepted {
            self.rejected += 1;
            return Verdict::Consumed;
        }
        interpreter.control();
        self.lines.append(&mut interpreter.externs.lines);
        self.lines.push(output_line(&interpreter, "reassembly"));
        verdict(REASSEMBLY.map(|named| output(&interpreter, named)))
    }

    fn egress(&mut self, departure: &Departure) -> Framed<P4Header<ROOM>> {
        let program = self.program.clone();
        let code: &Code = &program.hir().egress;
        let externs = Described {
            blocks: &mut crate::pipeline::NoBlocks,
            state: &mut self.state,
            registers: &mut self.registers,
            instances: &program.hir().instances,
            bindings: program.bindings(),
            lines: Vec::new(),
        };
        let mut interpreter = Interpreter::new(code, externs, &[]);
        let given: Vec<(&str, u64)> = DEPARTURE.into_iter().zip(departure_values(departure)).collect();
        set_inputs(&mut interpreter, &given, &self.nic);
        let ended = interpreter.control();
        debug_assert!(matches!(ended, Flow::Next | Flow::Exit));
        self.lines.append(&mut interpreter.externs.lines);
        interpreter.deparser();
        header_lines(&interpreter, &mut self.lines);
        self.lines.push(output_line(&interpreter, "link"));
        let mut header = P4Header { bytes: [0; ROOM], len: interpreter.emitted.len().min(ROOM) as u16 };
        header.bytes[..usize::from(header.len)].copy_from_slice(&interpreter.emitted[..usize::from(header.len)]);
        Framed { header, priority: output(&interpreter, LINK[0]) as u8 }
    }

    fn expired(&mut self, rx_msg_id: u16) {
        self.state.schedulers.iter_mut().for_each(|scheduler| scheduler.remove(rx_msg_id));
    }
}

/// The parameters of NIC number `index`.
fn parameters(index: u32) -> NicParameters {
    let base_rtt = DELAY * 2 + RATE.time_for(u64::from(MTU) + 64) * 2;
    NicParameters {
        mac: 0x0200_0000_0001 + u64::from(index),
        switch_mac: 0x0200_0000_00fe,
        ip: 0x0a00_0001 + index,
        rtt_pkts: RTT_PACKETS,
        mtu: MTU,
        line_rate_mbps: 100_000,
        base_rtt_ns: (base_rtt.as_ps() / 1_000) as u32,
    }
}

/// A packet between the NICs.
struct Packet {
    to: usize,
    header: P4Header<ROOM>,
    frame_bytes: u16,
    is_lost: bool,
}

/// The two NICs and the packets between them.
struct Network<P> {
    cfg: NicConfig,
    nics: [MessageNic<P>; 2],
    free_at: [Time; 2],
    flying: BTreeMap<(Time, u64), Packet>,
    traced: Traced,
    lose_every: Option<u64>,
}

/// An event of a [`Network`], for its observer.
enum Event<'e> {
    /// A NIC sent a packet: its time, NIC, the packet and whether it is lost.
    Sent(Time, usize, &'e Outgoing<P4Header<ROOM>>, bool),
    /// A packet of this many bytes arrived at a NIC.
    Arrived(Time, usize, u16),
    /// A NIC reports an event.
    Nic(Time, usize, NicEvent),
}

impl<P: Pipeline<Header = P4Header<ROOM>>> Network<P> {
    fn new(programs: [P; 2], settings: &Settings) -> Network<P> {
        let cfg = NicConfig {
            mtu: MTU.into(),
            rtt_pkts: RTT_PACKETS,
            timeout: Time::from_us(20),
            rx_timeout: Time::from_us(140),
            pace: RATE.time_for(u64::from(MTU) + 64),
            ..NicConfig::default()
        };
        let nics = programs.map(|program| MessageNic::new(&cfg, program));
        let traced = Traced::default();
        let lose_every = settings.lose_every;
        let mut network = Network { cfg, nics, free_at: [Time::ZERO; 2], flying: BTreeMap::new(), traced, lose_every };
        for tag in 0..settings.messages {
            let message = Message { dst_ip: parameters(1).ip, bytes: settings.bytes, tag, ..Message::default() };
            // The NICs have no limit of buffers.
            let _ = network.nics[0].send(&network.cfg, Time::ZERO, &message);
        }
        network
    }

    /// The time of the next event, and the NIC that may send or whose timer expires then; without a NIC a packet
    /// arrives. Packets arrive before NICs send.
    fn next(&self) -> Option<(Time, Option<usize>)> {
        let arrival = self.flying.keys().next().map(|(at, _)| (*at, None));
        let of_nic = |index: usize| {
            let nic = &self.nics[index];
            let sends = nic.next_transmit().map(|at| at.max(self.free_at[index]));
            [sends, nic.deadline()].into_iter().flatten().min().map(|at| (at, Some(index)))
        };
        [arrival, of_nic(0), of_nic(1)].into_iter().flatten().min_by_key(|(at, _)| *at)
    }

    /// Simulates until nothing happens any more.
    fn run(&mut self, mut see: impl FnMut(Event<'_>, &mut [MessageNic<P>; 2])) {
        while let Some((at, nic)) = self.next().filter(|_| self.traced.packets < MAX_PACKETS) {
            let now = at.max(self.traced.end);
            self.traced.end = now;
            match nic {
                None => self.arrive(now, &mut see),
                Some(index) => self.drive(now, index, &mut see),
            }
            for index in 0..2 {
                while let Some(event) = self.nics[index].poll_event() {
                    self.traced.acknowledged += u32::from(matches!(event, NicEvent::Sent { .. }));
                    see(Event::Nic(now, index, event), &mut self.nics);
                }
            }
        }
    }

    fn arrive(&mut self, now: Time, see: &mut impl FnMut(Event<'_>, &mut [MessageNic<P>; 2])) {
        let Some((_, packet)) = self.flying.pop_first() else { return };
        if packet.is_lost {
            return;
        }
        let (trimmed, returned, marked, telemetry) = (false, false, false, None);
        let arrival = Arrival { now, frame_bytes: packet.frame_bytes, trimmed, returned, marked, telemetry };
        let received = self.nics[packet.to].receive(&self.cfg, &packet.header, &arrival);
        self.traced.delivered += u32::from(received.completed.is_some());
        see(Event::Arrived(now, packet.to, packet.frame_bytes), &mut self.nics);
    }

    fn drive(&mut self, now: Time, index: usize, see: &mut impl FnMut(Event<'_>, &mut [MessageNic<P>; 2])) {
        let nic = &mut self.nics[index];
        if nic.deadline().is_some_and(|deadline| deadline <= now) {
            nic.on_deadline(&self.cfg, now);
        }
        if self.free_at[index] > now {
            return;
        }
        let Some(outgoing) = nic.poll_transmit(&self.cfg, now) else { return };
        self.traced.packets += 1;
        let is_lost = self.lose_every.is_some_and(|every| self.traced.packets.is_multiple_of(every));
        self.traced.lost += u64::from(is_lost);
        let frame_bytes = (u32::from(outgoing.header.len) + outgoing.payload).max(64) as u16;
        let sent = now + RATE.time_for(frame_bytes.into());
        self.free_at[index] = sent;
        let packet = Packet { to: 1 - index, header: outgoing.header, frame_bytes, is_lost };
        self.flying.insert((sent + DELAY, self.traced.packets), packet);
        see(Event::Sent(now, index, &outgoing, is_lost), &mut self.nics);
    }
}

/// Runs a program on two NICs that a link of 100 Gbps and 1 us connects. NIC `a` (10.0.0.1) sends messages to NIC `b`
/// (10.0.0.2). `line` gets the lines of the trace, in order.
///
/// # Examples
/// ```
/// use rnic_nano::compile_file;
/// use rnic_nano::trace::{Settings, trace};
/// use std::path::Path;
///
/// let program = compile_file(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../p4/window.p4")), &[])?;
/// let mut lines = Vec::new();
/// let traced = trace(&program, &Settings::default(), &mut |line| lines.push(line));
/// assert_eq!((traced.delivered, traced.acknowledged, traced.packets), (1, 1, 6));
/// assert!(lines[0].starts_with("0.0000 us a sends"), "{}", lines[0]);
/// # Ok::<(), rnic_nano::CompileError>(())
/// ```
pub fn trace(program: &Program, settings: &Settings, line: &mut dyn FnMut(String)) -> Traced {
    let mut network = Network::new([0, 1].map(|nic| TracedPipeline::new(program, &parameters(nic))), settings);
    let mut described = 0;
    network.run(|event, nics| {
        let (index, text) = match event {
            Event::Sent(at, index, packet, is_lost) => {
                let kind = match (packet.is_control, packet.is_rtx) {
                    (true, _) => "a control packet".to_string(),
                    (false, false) => format!("a data packet of {} bytes", packet.payload),
                    (false, true) => format!("a data packet of {} bytes again", packet.payload),
                };
                let lost = if is_lost { ", which is lost" } else { "" };
                (index, format!("{:.4} us {} sends {kind}{lost}", at.as_us(), NAMES[index]))
            }
            Event::Arrived(at, index, bytes) => {
                (index, format!("{:.4} us {} receives {bytes} bytes", at.as_us(), NAMES[index]))
            }
            Event::Nic(at, index, event) => (index, format!("{:.4} us {}: {}", at.as_us(), NAMES[index], told(event))),
        };
        let is_packet = !matches!(event, Event::Nic(..));
        let lines = if is_packet { nics[index].program_mut().take_lines() } else { Vec::new() };
        described += u64::from(is_packet);
        if described <= settings.described {
            line(text);
            lines.into_iter().for_each(&mut *line);
        }
    });
    let rejected = network.nics.iter().map(|nic| nic.program().rejected()).sum();
    Traced { rejected, ..network.traced }
}

/// An event of a NIC in words.
fn told(event: NicEvent) -> String {
    match event {
        NicEvent::Sent { tag } => format!("message {tag} is acknowledged"),
        NicEvent::Timeout { tag } => format!("the timer of message {tag} expires"),
        NicEvent::Aborted { tag } => format!("message {tag} is aborted"),
        NicEvent::ReceiveExpired { tx_msg_id, .. } => format!("the reception of message {tx_msg_id:#x} expires"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{P4Pipeline, compile_file};
    use std::path::Path;

    fn program(name: &str) -> Program {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4").join(name);
        compile_file(&path, &[]).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// The packets that the NICs send: time, NIC, header and priority.
    fn packets<P: Pipeline<Header = P4Header<ROOM>>>(
        programs: [P; 2], settings: &Settings,
    ) -> (Vec<(Time, usize, P4Header<ROOM>, u8)>, Traced) {
        let mut packets = Vec::new();
        let mut network = Network::new(programs, settings);
        network.run(|event, _| {
            if let Event::Sent(at, nic, packet, _) = event {
                packets.push((at, nic, packet.header, packet.priority));
            }
        });
        (packets, network.traced)
    }

    /// The traced program sends the packets that the virtual machine sends.
    #[test]
    fn a_trace_shows_what_the_machine_does() {
        for name in ["window.p4", "ndp.p4", "homa.p4", "dcqcn.p4", "swift.p4", "ndp-dcqcn.p4"] {
            let program = program(name);
            for lose_every in [None, Some(7)] {
                let settings = Settings { messages: 3, bytes: 40_000, lose_every, described: 0 };
                let machines = [0, 1].map(|nic| P4Pipeline::<ROOM>::new(&program, &parameters(nic)).unwrap());
                let (machine, end) = packets(machines, &settings);
                let traced = [0, 1].map(|nic| TracedPipeline::new(&program, &parameters(nic)));
                assert_eq!(packets(traced, &settings), (machine, end), "{name}");
                assert_eq!((end.delivered, end.acknowledged), (3, 3), "{name}: {end:?}");
                assert_eq!(end.lost > 0, lose_every.is_some());
            }
        }
    }

    /// A message of one packet of the sliding window, from the data packet to the end.
    #[test]
    fn a_packet_is_described_line_by_line() {
        let mut lines = Vec::new();
        let settings = Settings { bytes: 100, ..Settings::default() };
        let traced = trace(&program("window.p4"), &settings, &mut |line| lines.push(line));
        assert_eq!((traced.delivered, traced.packets, traced.rejected), (1, 2, 0));
        // 155 bytes take 12.4 ns at 100 Gbps, then the link's 1 us. The message is the first one of slot 0: 65536.
        let expected = "\
0.0000 us a sends a data packet of 100 bytes
  hdr.ethernet: dst=0x200000000fe src=0x20000000001 ether_type=2048
";
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        assert!(text.starts_with(expected), "{text}");
        for part in [
            "\n1.0124 us b receives 155 bytes\n  parser: start, parse_ipv4, parse_window: accept\n",
            "\n  get_rx_msg_info(0xa000001, 0, 65536, 100, 0, 1) = 0, 0, 1, 1, 1, 1\n",
            "\n  reassembly: drop=0 rx_msg_id=0 pkt_offset=0 is_last_pkt=1\n",
            "\n  delivered_event(65536, 1, 0, 1)\n",
            " us a: message 0 is acknowledged\n",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn registers_show_their_old_and_new_values() {
        let mut lines = Vec::new();
        trace(&program("ndp.p4"), &Settings { described: 100, ..Settings::default() }, &mut |line| lines.push(line));
        let changes = lines.iter().filter(|line| line.contains(" -> ")).count();
        assert!(changes > 0, "{lines:#?}");
        let few = Settings { described: 2, ..Settings::default() };
        let mut first = Vec::new();
        trace(&program("ndp.p4"), &few, &mut |line| first.push(line));
        assert!(first.len() < lines.len() && lines.starts_with(&first), "{first:#?}");
    }
}
