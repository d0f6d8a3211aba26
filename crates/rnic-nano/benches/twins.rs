//! Benchmarks of the programs in `p4/` and of the same transports in Rust. The benchmarks of rnic-transport measure the
//! cost per packet of both.
#![allow(missing_docs, reason = "a program, not a library")]

#[path = "../../rnic-transport/benches/messages.rs"]
#[allow(dead_code, reason = "its `main`")]
mod native;

use divan::Bencher;
use native::{Case, MTU, RTT_PKTS};
use rnic_nano::{NicParameters, P4Pipeline, Program, compile_file};
use std::path::Path;
use std::sync::LazyLock;

fn main() {
    divan::main();
}

/// A P4 program that is compiled when a benchmark first uses it.
struct Twin(LazyLock<Program>);

impl Twin {
    fn on_nic<const N: usize>(&self, ip: u32) -> P4Pipeline<N> {
        let nic =
            NicParameters { ip, rtt_pkts: RTT_PKTS, mtu: MTU as u16, base_rtt_ns: 525, ..NicParameters::default() };
        P4Pipeline::new(&self.0, &nic).expect("room for its headers")
    }
}

fn compiled(name: &str) -> Program {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4").join(name);
    compile_file(&file, &[]).unwrap_or_else(|what| panic!("{what}"))
}

static NDP: Twin = Twin(LazyLock::new(|| compiled("ndp.p4")));
static HOMA: Twin = Twin(LazyLock::new(|| compiled("homa.p4")));
static HPCC: Twin = Twin(LazyLock::new(|| compiled("hpcc.p4")));

struct P4Ndp;
impl Case for P4Ndp {
    type Program = P4Pipeline<64>;
    fn program(ip: u32) -> P4Pipeline<64> {
        NDP.on_nic(ip)
    }
}

struct P4Homa;
impl Case for P4Homa {
    type Program = P4Pipeline<64>;
    fn program(ip: u32) -> P4Pipeline<64> {
        HOMA.on_nic(ip)
    }
}

struct P4Hpcc;
impl Case for P4Hpcc {
    type Program = P4Pipeline<192>;
    fn program(ip: u32) -> P4Pipeline<192> {
        HPCC.on_nic(ip)
    }
}

#[divan::bench(types = [P4Ndp, P4Homa, P4Hpcc])]
fn pipeline<C: Case>(bencher: Bencher) {
    native::pipeline::<C>(bencher);
}

#[divan::bench(types = [P4Ndp, P4Homa, P4Hpcc])]
fn nic<C: Case>(bencher: Bencher) {
    native::nic::<C>(bencher);
}
