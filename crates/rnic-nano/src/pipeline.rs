//! Runs a P4 program on a NIC. [`P4Pipeline`] implements [`message::Pipeline`](Pipeline), the trait through which the
//! NIC calls the program of a message transport.

use crate::lower::TELEMETRY_BYTES;
use crate::program::{ARRIVAL, DEPARTURE, NIC, Program};
use crate::runtime::{State, Table, TableError, TableHandle};
use crate::vm::{self, Context, Frame, Outcome};

use rnic_transport::Time;
use rnic_transport::message::PacketHeader;
use rnic_transport::message::{
    Arrival, Blocks, CreditToBtxEvent, CtrlPktEvent, DeliveredEvent, Departure, Framed, Pipeline, RxMsgInfo,
    RxMsgInfoRequest, Verdict,
};
use serde::de::{Deserializer, Error, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// The headers of one packet: the bytes that the program's deparser emitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct P4Header<const N: usize> {
    /// The bytes of the headers. The bytes of this buffer after the first `len` bytes are zero.
    pub bytes: [u8; N],
    /// The total length of the headers in bytes, at most `N`.
    pub len: u16,
}

impl<const N: usize> PacketHeader for P4Header<N> {
    fn bytes(&self) -> Option<&[u8]> {
        self.bytes.get(..usize::from(self.len))
    }
}

impl<const N: usize> Serialize for P4Header<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.bytes[..usize::from(self.len).min(N)])
    }
}

impl<'de, const N: usize> Deserialize<'de> for P4Header<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<P4Header<N>, D::Error> {
        struct Headers<const N: usize>;
        impl<const N: usize> Visitor<'_> for Headers<N> {
            type Value = P4Header<N>;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, "at most {N} bytes of headers")
            }
            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<P4Header<N>, E> {
                let mut header = P4Header { len: bytes.len() as u16, ..P4Header::default() };
                let room = header.bytes.get_mut(..bytes.len());
                room.ok_or_else(|| E::invalid_length(bytes.len(), &self))?.copy_from_slice(bytes);
                Ok(header)
            }
        }
        deserializer.deserialize_bytes(Headers)
    }
}

impl<const N: usize> Default for P4Header<N> {
    fn default() -> P4Header<N> {
        P4Header { bytes: [0; N], len: 0 }
    }
}

/// The parameters of a NIC that a P4 program can read: the fields of `nic_t` in P4.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NicParameters {
    /// The NIC's Ethernet address, 48 bits.
    pub mac: u64,
    /// The Ethernet address of the switch that the NIC is connected to, 48 bits.
    pub switch_mac: u64,
    /// The NIC's IPv4 address.
    pub ip: u32,
    /// Number of full packets that a sender transmits in one round-trip time at line rate.
    pub rtt_pkts: u32,
    /// Payload of a full packet in bytes.
    pub mtu: u16,
    /// Rate of the NIC's link in Mbit/s.
    pub line_rate_mbps: u32,
    /// Maximum round-trip time in an idle network, in nanoseconds.
    pub base_rtt_ns: u32,
}

impl NicParameters {
    /// Returns the NIC's parameters by their names in P4, such as `nic.rtt_pkts`, in the order of `nic_t`.
    pub fn named(&self) -> Vec<(&'static str, u64)> {
        NIC.into_iter().zip(self.values()).collect()
    }

    /// Returns the values of the NIC's parameters in the order of the fields of `nic_t` in P4.
    fn values(&self) -> [u64; NIC.len()] {
        let mac = |address: u64| address & ((1 << 48) - 1);
        let [ip, rtt_pkts, rate, rtt] = [self.ip, self.rtt_pkts, self.line_rate_mbps, self.base_rtt_ns].map(u64::from);
        let per_mtu = (1u64 << 40).div_ceil(u64::from(self.mtu.max(1)));
        let per_rtt = (1u64 << 32) / u64::from(self.base_rtt_ns.max(1));
        [mac(self.mac), mac(self.switch_mac), ip, rtt_pkts, self.mtu.into(), rate, rtt, per_mtu, per_rtt]
    }
}

/// Counters of errors that occurred while a P4 program processed packets. None of these errors stops the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Number of packets that the program's parser rejected. A parser rejects a packet that is too short, that no case
    /// of a `select` matches, or for which the program transitions to `reject`.
    pub rejected: u64,
    /// Number of packets that the NIC dropped because the parser's loops repeated more instructions than allowed.
    pub exhausted: u64,
    /// Number of register accesses with an index beyond the end of the array. Such an access reads 0 and writes
    /// nothing.
    pub beyond: u64,
}

/// Error: the headers of a P4 program do not fit into the header buffer of a [`P4Pipeline`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the program needs room for headers of {needed} bytes, the pipeline has room for {room} bytes")]
pub struct HeaderRoom {
    /// Required size of the header buffer in bytes: [`Program::header_room`].
    pub needed: usize,
    /// Size of the pipeline's header buffer in bytes: the `N` of [`P4Pipeline<N>`].
    pub room: usize,
}

/// A P4 program loaded into one NIC. Each packet has a header buffer of `N` bytes.
#[derive(Clone, Debug)]
pub struct P4Pipeline<const N: usize> {
    program: Program,
    ingress: Box<Frame>,
    egress: Box<Frame>,
    nic: [u64; NIC.len()],
    state: State,
    ingress_tables: Vec<Arc<Table>>,
    egress_tables: Vec<Arc<Table>>,
    counters: Counters,
}

impl<const N: usize> P4Pipeline<N> {
    /// Loads a program into a NIC. All registers are zero initially, and the tables have the entries that the program
    /// declares.
    ///
    /// # Errors
    /// `N` is less than [`Program::header_room`].
    ///
    /// # Examples
    /// ```
    /// use rnic_nano::{NicParameters, P4Pipeline, compile_file};
    /// use std::path::Path;
    ///
    /// let program = compile_file(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../p4/ndp.p4")), &[])?;
    /// let nic = NicParameters { rtt_pkts: 10, mtu: 1000, line_rate_mbps: 100_000, ..NicParameters::default() };
    /// let pipeline = P4Pipeline::<64>::new(&program, &nic)?;
    /// assert_eq!(pipeline.counters().rejected, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(program: &Program, nic: &NicParameters) -> Result<P4Pipeline<N>, HeaderRoom> {
        if N < program.header_room() {
            return Err(HeaderRoom { needed: program.header_room(), room: N });
        }
        let nic = nic.values();
        Ok(P4Pipeline {
            program: program.clone(),
            ingress: vm::prepare(program.ingress(), &nic, ARRIVAL.len()),
            egress: vm::prepare(program.egress(), &nic, DEPARTURE.len()),
            nic,
            state: State::new(program.bindings()),
            ingress_tables: program.ingress_tables().to_vec(),
            egress_tables: program.egress_tables().to_vec(),
            counters: Counters::default(),
        })
    }

    /// Returns the counters of errors since the program was loaded.
    pub fn counters(&self) -> Counters {
        Counters { beyond: self.state.beyond, ..self.counters }
    }

    /// Returns a table by its name in the program. The control plane uses it to read and change the table's entries
    /// between packets.
    ///
    /// # Errors
    /// [`TableError::UnknownTable`] if the program has no table of this name.
    pub fn table(&mut self, name: &str) -> Result<TableHandle<'_>, TableError> {
        let hir = self.program.hir();
        let pipelines = [(&hir.ingress, &mut self.ingress_tables), (&hir.egress, &mut self.egress_tables)];
        for (pipeline, tables) in pipelines {
            if let Some(at) = pipeline.tables.iter().position(|table| table.name == name) {
                return Ok(TableHandle { spec: &pipeline.tables[at], slots: &pipeline.slots, table: &mut tables[at] });
            }
        }
        let tables = hir.ingress.tables.iter().chain(&hir.egress.tables);
        let names: Vec<&str> = tables.map(|table| table.name.as_str()).collect();
        Err(TableError::UnknownTable(name.to_string(), names.join(", ")))
    }

    /// Runs the ingress pipeline for an arriving packet. `packet` is a buffer whose first `len` bytes are the packet's
    /// headers; `hops` is the number of the telemetry records at the end of these headers.
    fn arrive<B: Blocks>(
        &mut self, blocks: &mut B, packet: &[u8], len: usize, arrival: &Arrival<'_>, hops: u64,
    ) -> Verdict {
        let executable = self.program.ingress();
        let given = arrival_values(arrival, hops);
        let input =
            |index: u8| *given.get(usize::from(index)).unwrap_or_else(|| &self.nic[usize::from(index) - given.len()]);
        let mut context =
            Context { state: &mut self.state, tables: &self.ingress_tables, blocks, packet, len, out: &mut [] };
        match vm::run(executable, &mut self.ingress, input, &mut context) {
            Outcome::Done(_) => {
                let output = |at: usize| self.ingress[usize::from(executable.code.outputs[at])];
                verdict([output(0), output(1), output(2), output(3)])
            }
            Outcome::Rejected => {
                self.counters.rejected += 1;
                Verdict::Consumed
            }
            Outcome::Exhausted => {
                self.counters.exhausted += 1;
                Verdict::Consumed
            }
        }
    }

    /// Runs the ingress pipeline for a packet with in-band telemetry: appends the telemetry records of the switches to
    /// the packet's headers.
    fn arrive_with_telemetry<B: Blocks>(&mut self, blocks: &mut B, header: &[u8], arrival: &Arrival<'_>) -> Verdict {
        let mut packet = [0; 256 + TELEMETRY_BYTES as usize];
        packet[..header.len()].copy_from_slice(header);
        let mut len = header.len();
        let hops = arrival.telemetry.map_or(&[][..], |telemetry| telemetry.hops());
        for hop in hops {
            for word in [hop.timestamp_ns, hop.tx_bytes, hop.queue_bytes, hop.rate_mbps] {
                packet[len..len + 4].copy_from_slice(&word.to_be_bytes());
                len += 4;
            }
        }
        self.arrive(blocks, &packet, len, arrival, hops.len() as u64)
    }
}

impl<const N: usize> Pipeline for P4Pipeline<N> {
    type Header = P4Header<N>;

    #[inline]
    fn header_bytes(header: &P4Header<N>) -> u32 {
        header.len.into()
    }

    fn ingress<B: Blocks>(&mut self, blocks: &mut B, header: &P4Header<N>, arrival: &Arrival<'_>) -> Verdict {
        let len = usize::from(header.len).min(N);
        match arrival.telemetry {
            None => self.arrive(blocks, &header.bytes, len, arrival, 0),
            Some(_) => self.arrive_with_telemetry(blocks, &header.bytes[..len.min(256)], arrival),
        }
    }

    fn egress(&mut self, departure: &Departure) -> Framed<P4Header<N>> {
        let executable = self.program.egress();
        let given = departure_values(departure);
        let input =
            |index: u8| *given.get(usize::from(index)).unwrap_or_else(|| &self.nic[usize::from(index) - given.len()]);
        let mut bytes = [0; N];
        let mut context = Context {
            state: &mut self.state,
            tables: &self.egress_tables,
            blocks: &mut NoBlocks,
            packet: &[],
            len: 0,
            out: &mut bytes,
        };
        let outcome = vm::run(executable, &mut self.egress, input, &mut context);
        let len = if let Outcome::Done(len) = outcome { len } else { 0 };
        let priority = self.egress[usize::from(executable.code.outputs[0])] as u8;
        Framed { header: P4Header { bytes, len: len as u16 }, priority }
    }

    fn faults(&self) -> Vec<(u64, &'static str)> {
        let Counters { rejected, exhausted, beyond } = self.counters();
        vec![
            (rejected, "packets were rejected by the program's parser"),
            (exhausted, "packets made the program's parser loop too often"),
            (beyond, "accesses to the program's registers had an index out of range"),
        ]
    }

    fn expired(&mut self, rx_msg_id: u16) {
        self.state.schedulers.iter_mut().for_each(|scheduler| scheduler.remove(rx_msg_id));
    }
}

/// The values that the NIC passes to the ingress pipeline with a packet that has `hops` telemetry records, in the order
/// of [`ARRIVAL`].
#[inline]
pub(crate) fn arrival_values(arrival: &Arrival<'_>, hops: u64) -> [u64; ARRIVAL.len()] {
    let flags = [arrival.trimmed, arrival.returned, arrival.marked].map(u64::from);
    [nanoseconds(arrival.now), arrival.frame_bytes.into(), flags[0], flags[1], flags[2], hops, 1, 0, 0, 0]
}

/// The values that the NIC passes to the egress pipeline with a packet, in the order of [`DEPARTURE`].
#[inline]
pub(crate) fn departure_values(d: &Departure) -> [u64; DEPARTURE.len()] {
    [
        nanoseconds(d.now),
        d.dst_ip.into(),
        d.dst_context.into(),
        d.src_context.into(),
        d.tx_msg_id.into(),
        d.msg_len.into(),
        d.pkt_offset.into(),
        d.credit.into(),
        d.rank.into(),
        d.flags.into(),
        d.is_new_msg.into(),
        d.is_rtx.into(),
        u64::from(d.payload) & 0xffff,
        0,
    ]
}

fn nanoseconds(time: Time) -> u64 {
    time.as_ps() / 1000
}

/// Converts the outputs of the ingress pipeline, in the order of [`REASSEMBLY`](crate::program::REASSEMBLY), to a
/// verdict, which tells the NIC's reassembly block what to do with the packet's payload.
#[inline]
pub(crate) fn verdict([drop, rx_msg_id, pkt_offset, is_last_pkt]: [u64; 4]) -> Verdict {
    if drop != 0 {
        return Verdict::Consumed;
    }
    Verdict::Reassemble { rx_msg_id: rx_msg_id as u16, pkt_offset: pkt_offset as u32, is_last_pkt: is_last_pkt != 0 }
}

/// The NIC's fixed-function blocks (for example reassembly) for the egress pipeline: none of their functions has an
/// effect. The compiler rejects a program whose egress pipeline calls such a function.
pub(crate) struct NoBlocks;

impl Blocks for NoBlocks {
    fn get_rx_msg_info(&mut self, _: &RxMsgInfoRequest) -> RxMsgInfo {
        RxMsgInfo { fail: true, ..RxMsgInfo::default() }
    }
    fn delivered(&mut self, _: &DeliveredEvent) {}
    fn credit_to_btx(&mut self, _: &CreditToBtxEvent) {}
    fn ctrl_pkt(&mut self, _: &CtrlPktEvent) {}
}
