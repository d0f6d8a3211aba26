//! Repeated measurements for comparison: programs with rnic's libibverbs, `rnic perf`, and UCX over TCP. The
//! repetitions of all contenders alternate, so that other load on the machine affects all of them equally.

use crate::figures::{Figure, Reader, median};
use crate::host::{Host, Place, Ready, Setting};
use std::path::Path;

/// A program with its settings that takes part in a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Contender {
    /// Name in the table.
    pub name: &'static str,
    place: Place,
    ready: Ready,
    server: &'static str,
    client: &'static str,
    settings: &'static [Setting<'static>],
    reader: Reader,
}

/// A comparison: a quantity, and the contenders that are measured.
#[derive(Clone, Copy, Debug)]
pub struct Contest {
    /// Name of its table in records.
    pub name: &'static str,
    /// Name of the measured quantity.
    pub title: &'static str,
    /// The contenders. The first one is the reference for the others.
    pub contenders: &'static [Contender],
}

const NOTHING: &[Setting<'static>] = &[];
const IRN: &[Setting<'static>] = &[("RNIC_TRANSPORT", "irn")];
const LOSS: &[Setting<'static>] = &[("RNIC_FAULTS", "loss=1%,seed=7")];
const IRN_LOSS: &[Setting<'static>] = &[("RNIC_TRANSPORT", "irn"), ("RNIC_FAULTS", "loss=1%,seed=7")];
const TCP: &[Setting<'static>] = &[("UCX_TLS", "tcp,self")];
const RC_VERBS: &[Setting<'static>] = &[("UCX_TLS", "rc_verbs,ud_verbs,self"), ("UCX_NET_DEVICES", "rnic0:1")];

/// The contender `rnic`, the command next to this program; its output has the columns of perftest.
const fn rnic(client: &'static str, reader: Reader) -> Contender {
    Contender {
        name: "`rnic perf`, RC, plain",
        place: Place::Link,
        ready: Ready::Port(18_515),
        server: "{rnic} perf --once",
        client,
        settings: NOTHING,
        reader,
    }
}

const fn perftest(
    name: &'static str, server: &'static str, client: &'static str, reader: Reader,
    settings: &'static [Setting<'static>],
) -> Contender {
    let (place, ready) = (Place::Link, Ready::Port(18_515));
    Contender { name, place, ready, server, client, settings, reader }
}

const fn ucx(
    name: &'static str, client: &'static str, place: Place, reader: Reader, settings: &'static [Setting<'static>],
) -> Contender {
    let (ready, server) = (Ready::Port(13_337), "ucx_perftest");
    Contender { name, place, ready, server, client, settings, reader }
}

const BW: Reader = Reader::PerftestBandwidth;
const LAT: Reader = Reader::PerftestLatency;

/// All comparisons.
pub const ALL: &[Contest] = &[
    Contest {
        name: "write-bandwidth",
        title: "RDMA Write, 64 KiB",
        contenders: &[
            rnic(
                "{rnic} perf {peer} --service rc --security none -m 4096 --op write -s 65536 -t 128 -n 20000 --report_gbits",
                BW,
            ),
            perftest(
                "`ib_write_bw`",
                "ib_write_bw -s 65536 -n 20000 --report_gbits -F",
                "ib_write_bw -s 65536 -n 20000 --report_gbits -F {peer}",
                BW,
                NOTHING,
            ),
            perftest(
                "`ib_write_bw`, `RNIC_TRANSPORT=irn`",
                "ib_write_bw -s 65536 -n 20000 --report_gbits -F",
                "ib_write_bw -s 65536 -n 20000 --report_gbits -F {peer}",
                BW,
                IRN,
            ),
            ucx(
                "UCX over rnic's libibverbs, put",
                "ucx_perftest -t ucp_put_bw -s 65536 -n 10000 -w 500 {peer}",
                Place::Ucx,
                Reader::UcxBandwidth,
                RC_VERBS,
            ),
            ucx(
                "UCX over TCP, put",
                "ucx_perftest -t ucp_put_bw -s 65536 -n 10000 -w 500 {peer}",
                Place::Tcp,
                Reader::UcxBandwidth,
                TCP,
            ),
        ],
    },
    Contest {
        name: "send-bandwidth",
        title: "Send, 64 KiB",
        contenders: &[
            rnic(
                "{rnic} perf {peer} --service rc --security none -m 4096 --op send -s 65536 -t 128 -n 20000 --report_gbits",
                BW,
            ),
            perftest(
                "`ib_send_bw`",
                "ib_send_bw -s 65536 -n 20000 --report_gbits -F",
                "ib_send_bw -s 65536 -n 20000 --report_gbits -F {peer}",
                BW,
                NOTHING,
            ),
            ucx(
                "UCX over TCP, tag",
                "ucx_perftest -t tag_bw -s 65536 -n 10000 -w 500 {peer}",
                Place::Tcp,
                Reader::UcxBandwidth,
                TCP,
            ),
        ],
    },
    Contest {
        name: "write-latency",
        title: "RDMA Write, 64 B, latency",
        contenders: &[
            rnic("{rnic} perf {peer} --service rc --security none -m 4096 --op write --latency -s 64 -n 20000", LAT),
            perftest(
                "`ib_write_lat`",
                "ib_write_lat -s 64 -n 20000 -F",
                "ib_write_lat -s 64 -n 20000 -F {peer}",
                LAT,
                NOTHING,
            ),
            ucx(
                "UCX over TCP, put",
                "ucx_perftest -t ucp_put_lat -s 64 -n 20000 -w 500 {peer}",
                Place::Tcp,
                Reader::UcxLatency,
                TCP,
            ),
        ],
    },
    Contest {
        name: "send-latency",
        title: "Send, 64 B, latency",
        contenders: &[
            rnic("{rnic} perf {peer} --service rc --security none -m 4096 --op send --latency -s 64 -n 20000", LAT),
            perftest(
                "`ib_send_lat`",
                "ib_send_lat -s 64 -n 20000 -F",
                "ib_send_lat -s 64 -n 20000 -F {peer}",
                LAT,
                NOTHING,
            ),
            ucx(
                "UCX over rnic's libibverbs, tag",
                "ucx_perftest -t tag_lat -s 64 -n 20000 -w 500 {peer}",
                Place::Ucx,
                Reader::UcxLatency,
                RC_VERBS,
            ),
            ucx(
                "UCX over TCP, tag",
                "ucx_perftest -t tag_lat -s 64 -n 20000 -w 500 {peer}",
                Place::Tcp,
                Reader::UcxLatency,
                TCP,
            ),
        ],
    },
    Contest {
        name: "write-loss",
        title: "RDMA Write, 64 KiB, 1 % of the packets lost in each direction (`RNIC_FAULTS=loss=1%`)",
        contenders: &[
            perftest(
                "`ib_write_bw`",
                "ib_write_bw -s 65536 -n 2000 --report_gbits -F",
                "ib_write_bw -s 65536 -n 2000 --report_gbits -F {peer}",
                BW,
                LOSS,
            ),
            perftest(
                "`ib_write_bw`, `RNIC_TRANSPORT=irn`",
                "ib_write_bw -s 65536 -n 2000 --report_gbits -F",
                "ib_write_bw -s 65536 -n 2000 --report_gbits -F {peer}",
                BW,
                IRN_LOSS,
            ),
        ],
    },
];

/// The measurements of one contender.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The contender.
    pub name: &'static str,
    /// The measured figures, or the reason why the last attempt failed.
    pub figures: Result<Vec<Figure>, String>,
}

impl Measured {
    /// The median of the figures.
    pub fn median(&self) -> Option<Figure> {
        let figures = self.figures.as_ref().ok()?;
        let value = median(figures.iter().map(|figure| figure.value()).collect())?;
        Some(match figures.first()? {
            Figure::Bandwidth(_) => Figure::Bandwidth(value),
            Figure::Latency(_) => Figure::Latency(value),
        })
    }
}

/// Measures all contenders of a contest, `repeat` times.
pub fn measure(host: &Host, contest: &Contest, repeat: u32) -> Vec<Measured> {
    let mut all: Vec<Measured> =
        contest.contenders.iter().map(|one| Measured { name: one.name, figures: Ok(Vec::new()) }).collect();
    for _ in 0..repeat {
        for (contender, measured) in contest.contenders.iter().zip(&mut all) {
            match (once(host, contender), &mut measured.figures) {
                (Ok(figure), Ok(figures)) => figures.push(figure),
                (Err(why), Ok(figures)) if figures.is_empty() => measured.figures = Err(why),
                (Ok(figure), Err(_)) => measured.figures = Ok(vec![figure]),
                (Err(_), _) => {}
            }
        }
    }
    all
}

fn once(host: &Host, contender: &Contender) -> Result<Figure, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let rnic = program.parent().unwrap_or(Path::new("/")).join("rnic").display().to_string();
    let with = |line: &str| line.replace("{rnic}", &rnic);
    let (server, client) = (with(contender.server), with(contender.client));
    let output = host.run(contender.place, contender.ready, &server, &client, contender.settings, true)?;
    contender.reader.read(&output).ok_or(format!("no figure in: {}", crate::host::last(&output)))
}
