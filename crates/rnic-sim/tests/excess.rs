//! Why messages on critical paths are slower than on an empty fabric, by hand: queues, pauses and retransmissions.

use crate::common::*;
use rnic_spec::{ExcessRecord, PathRecord, RunOutput};
use rnic_transport::Time;

/// Serialisation time of a minimum-size frame (64 bytes + 20 bytes of gap) on a 40 Gbps link, in picoseconds.
const LEAST: u64 = 16_800;

/// Serialisation time of a NACK of IRN (70 bytes + 20 bytes of gap), in picoseconds.
const NACK: u64 = 18_000;

/// A run of a trace in CSV on a switch with three hosts, with further tables of the scenario and keys of the run.
fn run(rows: &str, transport: &str, tables: &str, threads: usize) -> RunOutput {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("trace.csv"), format!("rank,id,kind,peer,bytes,tag,after,step\n{rows}")).unwrap();
    let text = format!(
        "[fabric]\ntopology = \"single-switch\"\nhosts = 3\nrate = \"40 Gbps\"\ndelay = \"2 us\"\nmtu = \"1024 B\"\n\
         {tables}\n[traffic]\npattern = \"trace\"\nfile = \"trace.csv\"\n\
         [[run]]\nname = \"a\"\n{transport}\n"
    );
    let scenario = read_scenario(&text, folder.path()).unwrap();
    let mut outputs = outputs(&scenario, threads);
    outputs.remove(0)
}

const EXCESS: &str = "[watch]\nexcess = true\n";

fn path(output: &RunOutput) -> (PathRecord, ExcessRecord) {
    let [step] = output.steps[..] else { panic!("one step: {:?}", output.status) };
    (step.path, step.path.excess_parts.expect("measured"))
}

fn parts(queueing: u64, pause: u64, retransmission: u64) -> ExcessRecord {
    let ps = Time::from_ps;
    ExcessRecord { queueing: ps(queueing), pause: ps(pause), retransmission: ps(retransmission) }
}

/// Two messages of one packet that meet at the output to rank 2.
const INCAST: &str = "0,1,send,2,1024,5,,0\n1,1,send,2,1024,6,,0\n2,1,receive,0,,5,,0\n2,2,receive,1,,6,,0\n";

#[test]
fn a_packet_waits_in_a_queue() {
    let roce = "transport = \"roce\"\npfc = true";
    let output = run(INCAST, roce, EXCESS, 1);
    let (path, causes) = path(&output);
    assert_eq!((path.excess.as_ps(), causes), (ROCE, parts(ROCE, 0, 0)));
    // The same bytes on several threads; without the setting the same run, without the parts.
    assert_eq!(run(INCAST, roce, EXCESS, 2), output);
    let without = run(INCAST, roce, "", 1);
    assert_eq!(without.steps[0].path, PathRecord { excess_parts: None, ..path });
    assert_eq!(without.flows, output.flows);
}

#[test]
fn packets_of_a_message_wait_for_each_other_on_an_empty_fabric_too() {
    // 10 packets over a second link that is 4 times as slow: the last one waits for 27 frames in the switch, nearly as
    // on an empty fabric. Frames of IRN have 16 B more than the ideal ones: 41 of these differences make the excess, of
    // which 9 are at the sender.
    let slow = format!("[[fabric.link]]\nfrom = \"s0\"\nto = \"h1\"\nrate = \"10 Gbps\"\n{EXCESS}");
    let rows = "0,1,send,1,10240,5,,0\n1,1,receive,0,,5,,0\n";
    let (path, causes) = path(&run(rows, "transport = \"irn\"\npfc = false", &slow, 1));
    let more = IRN - ROCE;
    assert_eq!((path.excess.as_ps(), causes), (41 * more, parts(32 * more, 0, 0)));
}

#[test]
fn a_packet_waits_for_a_pause() {
    // Rank 1's NIC pauses the switch from 0 to 30 us; the packet arrives at the switch before the end of the pause.
    let storm = format!("[[fabric.storm]]\nhost = \"h1\"\nstart = \"0 us\"\nduration = \"30 us\"\n{EXCESS}");
    let rows = "0,1,send,1,1024,5,,0\n1,1,receive,0,,5,,0\n";
    let (path, causes) = path(&run(rows, "transport = \"roce\"\npfc = true", &storm, 1));
    // XON is sent at 30 us, takes the time of a frame of minimum size, and arrives 2 us later.
    let pause = 30_000_000 + LEAST + D - (ROCE + D);
    assert_eq!((path.excess.as_ps(), causes), (pause, parts(0, pause, 0)));
}

#[test]
fn a_packet_is_sent_again() {
    // The switch drops the third of four packets; the receiver sends a NACK when the fourth packet arrives.
    let drop = format!("[[fabric.drop]]\nat = \"s0\"\nfrom = \"h0\"\nevery = 3\n{EXCESS}");
    let rows = "0,1,send,1,4096,5,,0\n1,1,receive,0,,5,,0\n";
    let output = run(rows, "transport = \"irn\"\npfc = false", &drop, 1);
    assert_eq!(output.totals.retransmitted, 1);
    let (path, causes) = path(&output);
    // The fourth packet arrives after 5 frames and 2 links. The NACK and the retransmission cross 2 links each.
    // On an empty fabric, 4 frames without the additional header of IRN take 5 times the time of a frame.
    let excess = 7 * IRN + 4 * D + 2 * NACK - 5 * ROCE;
    assert_eq!((path.excess.as_ps(), causes), (excess, parts(0, 0, excess)));
}

#[test]
fn runs_without_critical_paths_are_refused() {
    let text = "[fabric]\ntopology = \"single-switch\"\nhosts = 3\nrate = \"40 Gbps\"\ndelay = \"2 us\"\n\
                [watch]\nexcess = true\n[traffic]\npattern = \"permutation\"\nsizes = \"fixed 64 KB\"\nrepeats = 1\n\
                interval = \"1 ms\"\n[[run]]\nname = \"a\"\ntransport = \"irn\"\n";
    let scenario = read_scenario(text, std::path::Path::new("")).unwrap();
    let error = rnic_sim::resolve::resolve(&rnic_sim::Catalogue::standard(), &scenario.runs[0]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "[watch]: `excess`: no traffic has critical paths; accepted: the patterns collective, training, inference and trace"
    );
}
