//! Tests of the pause tree: which port waits for which other port, since when, and the root cause.

use crate::common::*;
use rnic_fabric::config::FabricSpec;
use rnic_fabric::{Cause, Fabric, HostId, PauseTree, Wait, Watcher, pause_tree};
use rnic_transport::{BitRate, Time};

const F: u64 = FRAME as u64;

/// Hosts a and b at the ends of a chain of switches, a - s1 - s2 - s3 - b, and host c on s2. An input pauses its peer
/// at the third queued frame.
fn chain() -> FabricSpec {
    let links = [("a", "s1"), ("s1", "s2"), ("s2", "s3"), ("s3", "b"), ("c", "s2")];
    let spec = graph(&["a", "b", "c"], &["s1", "s2", "s3"], &links);
    with_pfc(spec, 100_000, 2 * F, F)
}

/// A watcher that pauses s3 from host b at the time `storm`, and records the pause tree at the time `at`.
struct Look {
    storm: Option<u64>,
    at: Option<u64>,
    tree: PauseTree,
}

impl Watcher<Script> for Look {
    fn next(&self) -> Time {
        Time::from_ps(self.storm.into_iter().chain(self.at).min().unwrap_or(u64::MAX))
    }
    fn observe(&mut self, now: Time, fabric: &mut Fabric<u32>, _script: &mut Script) {
        if self.storm.take_if(|at| *at <= now.as_ps()).is_some() {
            fabric.pause_from_host(HostId(1), 1);
        }
        if self.at.take_if(|at| *at <= now.as_ps()).is_some() {
            self.tree = pause_tree(fabric);
        }
    }
    fn acts(&self) -> bool {
        self.storm.is_some() || self.at.is_some()
    }
}

fn seen(spec: &FabricSpec, storm: Option<u64>, at: u64) -> (Fabric<u32>, PauseTree) {
    let mut fabric = Fabric::new(spec, 1).unwrap();
    fabric.log_pauses(1_000_000);
    let mut script = Script::new(3);
    script.send_burst(0, 0, 1, 600);
    let mut look = Look { storm, at: Some(at), tree: PauseTree::default() };
    fabric.run_watched(&mut script, &mut look, Time::MAX);
    (fabric, look.tree)
}

#[test]
fn a_chain_of_pauses_leads_to_the_congested_port() {
    let mut spec = with_pfc(chain(), 100_000, 20 * F, 10 * F);
    spec.links[3].rate = Some(BitRate::from_gbps(10));
    let topology = Fabric::<u32>::new(&spec, 1).unwrap().topology().clone();
    let named = |node, peer| port(&topology, node, peer);
    let (a, s1, s2) = (named("a", "s1"), named("s1", "s2"), named("s2", "s3"));
    let cause = Cause::Congestion { port: named("s3", "b") };
    // Frame k arrives at s3 at (k + 3) T + 3 D, and one frame leaves s3 in the time in which four arrive. So frame 27
    // is the 21st frame that waits at the same time.
    let first = seen(&spec, None, 15 * US).1;
    let since = Time::from_ps(30 * T + PAUSE + 4 * 2 * US);
    let shape: Vec<_> = first.ports.iter().map(|p| (p.port, p.on, p.since, p.waits_for, p.cause, p.depth)).collect();
    assert_eq!(shape, [(s2, true, since, Wait::Root(cause), cause, 1)]);
    // At every sample all paused ports have the same root. This also holds while a port in the chain sends packets that
    // piled up during its last pause, because this port is not congested itself.
    let (mut whole, mut bridged) = (0, 0);
    for at in (16..400).step_by(3) {
        let tree = seen(&spec, None, at * US).1;
        for paused in tree.paused() {
            let depth = [(a, 3), (s1, 2), (s2, 1)].iter().find(|(port, _)| *port == paused.port).unwrap().1;
            assert_eq!((paused.cause, paused.depth), (cause, depth), "{at} us: {tree:?}");
        }
        assert!(tree.cycle.is_empty());
        assert!(tree.is_at_root(cause, named("s3", "b")) && !tree.is_at_root(cause, s2));
        whole += usize::from(tree.paused().count() == 3);
        bridged += usize::from(tree.ports.iter().any(|p| !p.on));
    }
    assert!(whole > 3 && bridged > 3, "{whole} {bridged}");
    let (mut fabric, tree) = seen(&spec, None, 100 * US);
    assert!(tree.paused().count() > 0);
    // The log has the same pauses, with their ends. Its pauses add up to the counters.
    let (log, left_out) = fabric.take_pauses();
    assert_eq!(left_out, 0);
    for paused in tree.paused() {
        assert_eq!(log.iter().filter(|p| p.port == paused.port && p.from == paused.since).count(), 1);
    }
    for number in topology.port_ids() {
        let counters = fabric.counters(number)[0];
        let own = || log.iter().filter(|p| p.port == number);
        assert_eq!(own().count() as u64, counters.pause_received);
        assert_eq!(own().map(|p| (p.to - p.from).as_ps()).sum::<u64>(), counters.paused_ps);
    }
    assert!(fabric.take_pauses().0.is_empty() && !fabric.any_paused());
}

#[test]
fn the_log_of_pauses_holds_as_many_as_were_asked_for() {
    let mut spec = with_pfc(chain(), 100_000, 20 * F, 10 * F);
    spec.links[3].rate = Some(BitRate::from_gbps(10));
    let ended = |most| {
        let mut fabric = Fabric::new(&spec, 1).unwrap();
        fabric.log_pauses(most);
        let mut script = Script::new(3);
        script.send_burst(0, 0, 1, 600);
        fabric.run(&mut script);
        let (log, left_out) = fabric.take_pauses();
        assert_eq!(fabric.take_pauses(), (Vec::new(), 0));
        (log, left_out)
    };
    let (all, none) = ended(usize::MAX);
    assert!(all.len() > 2 && none == 0);
    assert_eq!(ended(2), (all[..2].to_vec(), all.len() as u64 - 2));
}

#[test]
fn a_nic_that_pauses_is_the_root() {
    let (fabric, tree) = seen(&chain(), Some(5 * US), 100 * US);
    let topology = fabric.topology();
    let cause = Cause::Nic { port: port(topology, "b", "s3") };
    assert_eq!(
        tree.paused().map(|p| (p.cause, p.depth)).collect::<Vec<_>>(),
        [(cause, 4), (cause, 3), (cause, 2), (cause, 1)]
    );
    let last = tree.ports[3];
    assert_eq!((last.port, last.held), (port(topology, "s3", "b"), 0));
    assert_eq!(last.since.as_ps(), 5 * US + PAUSE + 2 * US);
    assert!(tree.is_at_root(cause, last.port) && !tree.is_at_root(cause, tree.ports[2].port));
}

#[test]
fn the_output_with_most_behind_it_counts() {
    // Host c sends to b and to a at the same time, and the link s3-b is slow. So at s2 more frames wait for b than the
    // one or two frames that wait for a.
    let mut spec = chain();
    spec.links[3].rate = Some(BitRate::from_gbps(1));
    let mut fabric = Fabric::new(&spec, 1).unwrap();
    let mut script = Script::new(3);
    for id in 0..200 {
        script.send(2, 0, packet(if id % 8 == 7 { 0 } else { 1 }, FRAME, id));
        // Traffic from b to a keeps the link s1-a busy.
        script.send(1, 0, packet(0, FRAME, id));
    }
    let mut look = Look { storm: None, at: Some(60 * US), tree: PauseTree::default() };
    fabric.run_watched(&mut script, &mut look, Time::MAX);
    let topology = fabric.topology();
    let cause = Cause::Congestion { port: port(topology, "s3", "b") };
    let c = look.tree.paused().find(|p| p.port == port(topology, "c", "s2")).unwrap();
    assert_eq!((c.cause, c.depth), (cause, 2));
}

#[test]
fn an_idle_fabric_has_no_tree() {
    let fabric = Fabric::<u32>::new(&chain(), 1).unwrap();
    assert_eq!(pause_tree(&fabric), PauseTree::default());
}
