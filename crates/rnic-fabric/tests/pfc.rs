//! Tests of priority flow control: when ports send pauses, how long pauses take, which transmissions they stop, and the
//! headroom.

use crate::common::*;
use rnic_fabric::config::{BufferSpec, ClockSpec, FabricSpec, InputSpec, TopologySpec};
use rnic_fabric::{Fabric, HostId, Watcher, lossless_headroom, required_headroom};
use rnic_transport::{BitRate, Bytes, Time};

const F: u64 = FRAME as u64;

/// A chain a - s1 - s2 - s3 - b with links of 1 us; the link to b is four times slower than the others. An input pauses
/// its peer at the third queued frame, and resumes it when one frame is left.
fn chain() -> FabricSpec {
    let links = [("a", "s1"), ("s1", "s2"), ("s2", "s3"), ("s3", "b")];
    let mut spec = graph(&["a", "b"], &["s1", "s2", "s3"], &links);
    spec.link.delay = Time::from_us(1);
    spec.links[3].rate = Some(BitRate::from_gbps(10));
    with_pfc(spec, 100_000, 2 * F, F)
}

/// The instants, in ps, at which the transmitters of `chain` are paused and resumed while host a sends without end.
/// Frame k leaves host a at kT, and arrives at the switch n hops away at (k + n)T + nD, until pauses interfere. D is
/// the delay of a link and P the time of a pause frame; 2D + P is 9.12 T.
struct Chain {
    pause: [u64; 3],
    resume: [u64; 3],
}

fn chain_by_hand() -> Chain {
    const D: u64 = US;
    // s3 sends a frame in 4T. So frame 0 passes through and frames 1, 2 and 3 queue; the third frame exceeds xoff.
    let crossed_s3 = 6 * T + 3 * D;
    let pause_s2 = crossed_s3 + PAUSE + D; // 15.12 T + 2D
    // s2 began to send frame 13 at 15T + 2D, just before the pause; frames 14, 15 and 16 queue at s2.
    let crossed_s2 = 18 * T + 2 * D;
    let pause_s1 = crossed_s2 + PAUSE + D; // 27.12 T + D
    // s1 began to send frame 26 at 27T + D, just before the pause; frames 27, 28 and 29 queue at s1.
    let crossed_s1 = 30 * T + D;
    let pause_a = crossed_s1 + PAUSE + D; // 39.12 T: a began frame 39 at 39T.
    // s3 holds frames up to number 13. One frame is left when s3 begins to send frame 12, 48 T after it began frame 0.
    let resume_s2 = 3 * (T + D) + 48 * T + PAUSE + D;
    // s2 begins to send frame 14 at this instant. Of frames 14 to 26, one is left when s2 begins to send frame 25.
    let resume_s1 = resume_s2 + 11 * T + PAUSE + D;
    // s1 begins to send frame 27 at this instant. Of frames 27 to 39, one is left when s1 begins to send frame 38.
    let resume_a = resume_s1 + 11 * T + PAUSE + D;
    Chain { pause: [pause_a, pause_s1, pause_s2], resume: [resume_a, resume_s1, resume_s2] }
}

#[test]
fn a_pause_travels_upstream_hop_by_hop_to_the_nic() {
    let mut fabric = Fabric::new(&chain(), 1).unwrap();
    let topology = fabric.topology().clone();
    let mut script = Script::new(2);
    script.send_burst(0, 0, 1, 200);
    let by_hand = chain_by_hand();
    // The last frame before the pause, number 39, arrives at s1 at 40T + D.
    let now = run_until(&mut fabric, &mut script, 40 * T + US);
    assert!(now > by_hand.pause[0] && now < by_hand.resume[2]);
    fabric.close_counters(Time::from_ps(now));
    let transmitters = [port(&topology, "a", "s1"), port(&topology, "s1", "s2"), port(&topology, "s2", "s3")];
    for (transmitter, paused_at) in transmitters.iter().zip(by_hand.pause) {
        let counters = fabric.counters(*transmitter)[0];
        assert_eq!(fabric.paused(*transmitter), 1);
        assert_eq!(counters.paused_ps, now - paused_at, "{}", topology.port_name(*transmitter));
        assert_eq!(counters.pause_received, 1);
        let sender = topology.port(*transmitter).peer;
        assert_eq!(fabric.counters(sender)[0].pause_sent, 1);
    }
    // When the pause arrives, the transmitter finishes the frame that it has begun, and sends no other frame.
    assert_eq!(script.departures(0).len(), 40);
    assert_eq!(script.departures(0)[39], (39 * T, 39));
    assert_eq!(fabric.counters(transmitters[1])[0].tx_packets, 27);
    assert_eq!(fabric.counters(transmitters[2])[0].tx_packets, 14);
    // s2 and s1 hold 13 frames each, which is also the maximum so far.
    for input in [port(&topology, "s2", "s1"), port(&topology, "s1", "a")] {
        assert_eq!(fabric.occupancy(input, 0), 13 * F);
        assert_eq!(fabric.counters(input)[0].queue_high_water, 13 * F);
    }
}

#[test]
fn transmission_resumes_at_the_exact_instant() {
    let mut fabric = Fabric::new(&chain(), 1).unwrap();
    let topology = fabric.topology().clone();
    let mut script = Script::new(2);
    script.send_burst(0, 0, 1, 41);
    let by_hand = chain_by_hand();
    let names = [("a", "s1"), ("s1", "s2"), ("s2", "s3")];
    // The run stops after each resume in turn; the transmitter is not paused again within a window.
    for hop in (0..3).rev() {
        let now = run_until(&mut fabric, &mut script, by_hand.resume[hop]);
        fabric.close_counters(Time::from_ps(now));
        let transmitter = port(&topology, names[hop].0, names[hop].1);
        assert_eq!(fabric.paused(transmitter), 0);
        assert_eq!(
            fabric.counters(transmitter)[0].paused_ps,
            by_hand.resume[hop] - by_hand.pause[hop],
            "{}",
            topology.port_name(transmitter)
        );
    }
    run_until(&mut fabric, &mut script, u64::MAX);
    // The NIC sends its last packet at the very instant at which the resume arrives.
    assert_eq!(script.departures(0)[40], (by_hand.resume[0], 40));
    assert_eq!(script.arrivals(1).len(), 41);
    assert!(topology.port_ids().all(|p| fabric.counters(p)[0].drops == 0));
    assert!(topology.port_ids().all(|p| fabric.paused(p) == 0));
    assert_eq!(fabric.counters(port(&topology, "a", "s1"))[0].pause_received, 1);
}

#[test]
fn a_resumption_follows_at_xon_and_not_before() {
    // In `chain`, xon is one frame. With an xon of two frames, the resume comes one frame time of the slow link (4T)
    // earlier.
    let mut spec = chain();
    if let BufferSpec::Input(InputSpec { pfc: Some(pfc), .. }) = &mut spec.switch.buffer {
        pfc.xon = Bytes(2 * F);
    }
    let mut fabric = Fabric::new(&spec, 1).unwrap();
    let topology = fabric.topology().clone();
    let mut script = Script::new(2);
    script.send_burst(0, 0, 1, 200);
    let by_hand = chain_by_hand();
    let resume = by_hand.resume[2] - 4 * T;
    let now = run_until(&mut fabric, &mut script, resume);
    fabric.close_counters(Time::from_ps(now));
    let transmitter = port(&topology, "s2", "s3");
    assert_eq!(fabric.counters(transmitter)[0].paused_ps, resume - by_hand.pause[2]);
}

/// Results of `all_outputs_blocked`. Hosts a, b and c are on one switch, and the link to b is so slow that its output
/// is blocked for the whole test. Host a sends to b without end. Host c sends one frame to a, whose transmission has
/// just begun when the pause for a is due.
struct Blocked {
    dropped: u64,
    high_water: u64,
    sent: usize,
}

const XOFF: u64 = 10 * F;

fn all_outputs_blocked(headroom: u64) -> Blocked {
    const D: u64 = 2 * US;
    let mut spec = graph(&["a", "b", "c"], &["s"], &[("a", "s"), ("b", "s"), ("c", "s")]);
    spec.links[1].rate = Some(BitRate::from_bps(1_000_000));
    let spec = with_pfc(spec, XOFF + headroom, XOFF, XOFF);
    let mut fabric = Fabric::new(&spec, 1).unwrap();
    let mut script = Script::new(3);
    script.send_burst(0, 0, 1, 100);
    // Frame 0 passes to the slow output, frames 1 to 10 fill the queue to exactly xoff, and frame 11 exceeds xoff at
    // 12T + D. The frame from c arrives at the switch, and leaves for a, one picosecond earlier.
    script.send(2, 12 * T + D - 1 - (T + D), packet(0, FRAME, 999));
    run_until(&mut fabric, &mut script, 100 * US);
    let input = port(fabric.topology(), "s", "a");
    let counters = fabric.counters(input)[0];
    assert_eq!(counters.pause_sent, 1);
    assert_eq!(script.arrivals(0), [(12 * T + D - 1 + T + D, 999)]);
    Blocked { dropped: counters.drops, high_water: counters.queue_high_water, sent: script.departures(0).len() }
}

/// The pause leaves at 13T + D - 1 and arrives at a at 13T + 2D + P - 1 = 31.16 T. So a sends frames 0 to 31, and 31
/// frames queue: 21 frames, or 22,806 bytes, above xoff. The required headroom is 20,000 + 2 x 1,106 + 84 + 1,086 =
/// 23,382 bytes. It is 576 bytes more, because it counts the gaps of the frames on the link, which take no buffer, and
/// does not round to whole frames.
#[test]
fn the_required_headroom_is_enough_and_within_a_packet_of_the_minimum() {
    let link = spec(rnic_fabric::config::TopologySpec::SingleSwitch { hosts: 2 }).link;
    let bound = required_headroom(&link, u32::from(FRAME), 20).0;
    assert_eq!(bound, 23_382);
    let blocked = all_outputs_blocked(bound);
    assert_eq!((blocked.dropped, blocked.sent), (0, 32));
    assert_eq!(blocked.high_water, XOFF + 21 * F);
    assert_eq!(all_outputs_blocked(22_806).dropped, 0);
    assert_eq!(all_outputs_blocked(22_805).dropped, 1);
    assert_eq!(all_outputs_blocked(bound - F).dropped, 1, "one packet less of headroom is too little");
    assert_eq!(all_outputs_blocked(bound - 10 * F).dropped, 10);
}

#[test]
fn lossless_headroom_is_that_of_the_most_demanding_port() {
    let mut spec = graph(&["a", "b"], &["s"], &[("a", "s"), ("b", "s")]);
    spec.links[1].delay = Some(Time::from_us(4));
    let topology = rnic_fabric::Topology::build(&spec).unwrap();
    // The headroom is 23,382 bytes for a delay of 2 us, and 20,000 bytes more for 4 us.
    assert_eq!(lossless_headroom(&topology, u32::from(FRAME), 20, &ClockSpec::default()), Bytes(43_382));
}

/// While priority 0 is paused, priority 1 continues, at the NIC and in the queue of the switch.
#[test]
fn a_pause_holds_its_own_priority_only() {
    const D: u64 = 2 * US;
    let mut spec = graph(&["a", "b"], &["s"], &[("a", "s"), ("b", "s")]);
    spec.switch.priorities = 2;
    spec.links[1].rate = Some(BitRate::from_gbps(1)); // a frame takes 8,848,000 ps
    let spec = with_pfc(spec, 100_000, 2 * F, F);
    let mut fabric = Fabric::new(&spec, 1).unwrap();
    let topology = fabric.topology().clone();
    let mut script = Script::new(2);
    script.send_burst(0, 0, 1, 60);
    // Frames 1, 2 and 3 queue. The third exceeds xoff at 4T + D, and the NIC is paused at 4T + 2D + P = 22.16 T. The
    // control packet is sent at 30 us.
    let mut control = packet(1, 66, 1_000);
    control.priority = 1;
    script.send(0, 30 * US, control);
    run_until(&mut fabric, &mut script, 80 * US);
    let departures = script.departures(0);
    assert_eq!(departures.len(), 24, "frames 0 to 22, and the control packet");
    assert_eq!(departures[23], (30 * US, 1_000));
    // The control packet arrives at the switch at 30 us + 17,200 ps + D = 32.02 us. The switch begins to send frame k
    // at T + D + 8.848 us x k. For k = 3 this is at 28.77 us, and the transmission ends at 37.61 us. The control packet
    // goes next, before 19 waiting frames, and takes 86 x 8,000 ps.
    let start = T + D + 4 * 8_848_000;
    assert_eq!(script.arrivals(1)[4], (start + 688_000 + D, 1_000));
    // Frame 4 follows the control packet.
    assert_eq!(script.arrivals(1)[5], (start + 688_000 + 8_848_000 + D, 4));
    let nic = port(&topology, "a", "s");
    fabric.close_counters(fabric.now());
    assert_eq!(fabric.paused(nic), 0b01);
    assert_eq!(fabric.counters(nic)[1].pause_received, 0);
    assert_eq!(fabric.counters(nic)[1].paused_ps, 0);
    assert_eq!(fabric.counters(nic)[0].paused_ps, fabric.now().as_ps() - (4 * T + 2 * D + PAUSE));
    assert_eq!((fabric.counters(nic)[0].tx_packets, fabric.counters(nic)[1].tx_packets), (23, 1));
}

/// A transmitter sends pause frames before data, and even while the transmitter itself is paused.
#[test]
fn a_paused_transmitter_still_sends_pauses() {
    // Both directions of the middle link are overloaded, because a host on either side has a slow link.
    let links = [("a", "l"), ("b", "l"), ("l", "r"), ("c", "r"), ("d", "r")];
    let mut spec = graph(&["a", "b", "c", "d"], &["l", "r"], &links);
    for slow in [1, 4] {
        spec.links[slow].rate = Some(BitRate::from_gbps(1));
    }
    let spec = with_pfc(spec, 100_000, 20 * F, 10 * F);
    let mut fabric = Fabric::new(&spec, 1).unwrap();
    let topology = fabric.topology().clone();
    let mut script = Script::new(4);
    script.send_burst(0, 0, 3, 300); // a to d, over a slow link
    script.send_burst(2, 0, 1, 300); // c to b, over a slow link
    run_until(&mut fabric, &mut script, u64::MAX);
    for (node, peer) in [("l", "r"), ("r", "l"), ("a", "l"), ("c", "r")] {
        let counters = fabric.counters(port(&topology, node, peer))[0];
        assert!(counters.pause_received >= 1 && counters.paused_ps > 0, "{node} -> {peer}");
        assert_eq!(fabric.paused(port(&topology, node, peer)), 0);
    }
    assert_eq!(script.arrivals(3).len(), 300);
    assert_eq!(script.arrivals(1).len(), 300);
    assert_eq!(fabric.in_flight(), 0);
}

/// Makes the NIC of host `host` pause given priorities at given instants.
struct Storm {
    host: u32,
    /// (time in ps, bitmap of priorities to pause), in order of time.
    later: Vec<(u64, u8)>,
}

impl Watcher<Script> for Storm {
    fn next(&self) -> Time {
        self.later.first().map_or(Time::MAX, |(at, _)| Time::from_ps(*at))
    }
    fn observe(&mut self, now: Time, fabric: &mut Fabric<u32>, _script: &mut Script) {
        while self.later.first().is_some_and(|(at, _)| *at <= now.as_ps()) {
            fabric.pause_from_host(HostId(self.host), self.later.remove(0).1);
        }
    }
    fn acts(&self) -> bool {
        !self.later.is_empty()
    }
}

#[test]
fn a_nic_that_pauses_stops_its_switch_and_a_resume_sets_it_free() {
    let mut fabric = Fabric::new(&spec(TopologySpec::SingleSwitch { hosts: 3 }), 1).unwrap();
    let topology = fabric.topology().clone();
    let mut script = Script::new(3);
    script.send_burst(0, 0, 2, 100);
    script.send(2, 10 * US - 100, packet(0, FRAME, 7));
    // When host 2 wants to pause its switch, it has just begun to send a frame; the pause frame follows this frame.
    let told = 10 * US - 100 + T + PAUSE;
    let mut storm = Storm { host: 2, later: vec![(10 * US, 1), (50 * US, 0)] };
    fabric.run_watched(&mut script, &mut storm, Time::MAX);
    let until = told + 2 * US;
    let resumed = 50 * US + PAUSE + 2 * US;
    // Frame k arrives at the switch at (k + 1) T + D and passes through at once, until the pause. The other frames
    // leave one after the other when the storm ends.
    let (arrivals, mut held) = (script.arrivals(2), 0);
    for k in 0..100 {
        let mut begins = (u64::from(k) + 1) * T + 2 * US;
        if begins > until {
            begins = resumed + held * T;
            held += 1;
        }
        assert_eq!(arrivals[k as usize], (begins + T + 2 * US, k));
    }
    assert_eq!((arrivals.len(), held), (100, 54));
    let at_switch = port(&topology, "s0", "h2");
    let counters = fabric.counters(at_switch)[0];
    assert_eq!((counters.pause_received, counters.paused_ps), (1, resumed - until));
    assert_eq!(fabric.counters(port(&topology, "h2", "s0"))[0].pause_sent, 1);
    assert_eq!(script.arrivals(0), [(told - PAUSE + 2 * US + T + 2 * US, 7)]);
}

#[test]
fn a_storm_holds_what_comes_after_it_and_a_run_goes_on_until_it_ends() {
    let mut fabric =
        Fabric::new(&with_pfc(spec(TopologySpec::SingleSwitch { hosts: 3 }), 100_000, 4 * F, 4 * F), 1).unwrap();
    let topology = fabric.topology().clone();
    let mut script = Script::new(3);
    script.send_burst(0, 0, 2, 200);
    let mut storm = Storm { host: 2, later: vec![(0, 1), (500 * US, 0)] };
    fabric.run_watched(&mut script, &mut storm, Time::MAX);
    // The pause arrives at the switch before the first frame. Once the switch has paused host 0, no event is left until
    // the storm ends.
    let resumed = 500 * US + PAUSE + 2 * US;
    let arrivals = script.arrivals(2);
    assert_eq!((arrivals.len(), arrivals[0].0), (200, resumed + T + 2 * US));
    // The switch paused the sender in turn, because the fifth queued frame exceeds xoff.
    let sender = fabric.counters(port(&topology, "h0", "s0"))[0];
    assert!(sender.pause_received >= 1 && sender.paused_ps > 490 * US, "{sender:?}");
    // If the storm never ends, the run ends with all packets stuck.
    let mut fabric =
        Fabric::new(&with_pfc(spec(TopologySpec::SingleSwitch { hosts: 3 }), 100_000, 4 * F, 4 * F), 1).unwrap();
    let mut script = Script::new(3);
    script.send_burst(0, 0, 2, 200);
    fabric.run_watched(&mut script, &mut Storm { host: 2, later: vec![(0, 1)] }, Time::MAX);
    assert_eq!((script.arrivals(2).len(), fabric.paused(port(&topology, "s0", "h2"))), (0, 1));
    assert!(fabric.in_flight() > 0);
}
