//! Checks the window of AIMD after each round trip.

use rnic_transport::congestion::{AckSample, Aimd, AimdParams, CongestionControl, LossSignal, Settings, Value};
use rnic_transport::{FlowConfig, Time};

fn flow(given: &[(&str, Value)]) -> (AimdParams, Aimd) {
    let flow = FlowConfig::default();
    let mut settings = Settings::new(Aimd::PARAMETERS);
    for (name, value) in given {
        settings.set(name, value.clone()).unwrap();
    }
    let params = Aimd::params(&settings, &flow).unwrap();
    (params, Aimd::new(&params, &flow, Time::ZERO))
}

fn ack(cc: &mut Aimd, params: &AimdParams, acked: u32, in_flight: u32) {
    let sample = AckSample { now: Time::ZERO, rtt: Time::from_us(24), acked, in_flight, marked: false };
    cc.on_ack(params, &sample);
}

/// A loss occurs whenever the window reaches 12 packets. The window is 8, 9, 10, 11, 12 and then 6 packets.
#[test]
fn sawtooth() {
    let (params, mut cc) = flow(&[("initial_window", Value::Count(8))]);
    let mut windows = Vec::new();
    for _ in 0..14 {
        windows.push(cc.window());
        if cc.window() >= 12 {
            cc.on_loss(&params, Time::ZERO, LossSignal::Nack);
        } else {
            let window = cc.window();
            ack(&mut cc, &params, window, 0); // an acknowledged window adds one packet
        }
    }
    assert_eq!(windows, [8, 9, 10, 11, 12, 6, 7, 8, 9, 10, 11, 12, 6, 7]);
}

/// Each acknowledgement of one packet adds 1/W to the window W. W acknowledgements add a little less than one packet,
/// because W grows with each of them: 4, 4.25, 4.485, 4.708, 4.921, 5.124; 5.32, 5.51, 5.69, 5.86, 6.03; 6.20, 6.36,
/// 6.52, 6.67, 6.82, 6.97, 7.11.
#[test]
fn growth_by_packets() {
    let (params, mut cc) = flow(&[("initial_window", Value::Count(4))]);
    for (acks, window) in [(4, 4), (1, 5), (4, 5), (1, 6), (6, 6), (1, 7)] {
        for _ in 0..acks {
            let in_flight = cc.window() - 1;
            ack(&mut cc, &params, 1, in_flight);
        }
        assert_eq!(cc.window(), window);
    }
}

/// NACKs halve the window once for all packets in flight, even if go-back-N then counts no packet as in flight. A
/// timeout always halves the window, which stays at least one packet.
#[test]
fn one_cut_per_window() {
    let (params, mut cc) = flow(&[("initial_window", Value::Count(32))]);
    ack(&mut cc, &params, 0, 20);
    ack(&mut cc, &params, 0, 0); // go-back-N: no packet counts as in flight
    cc.on_loss(&params, Time::ZERO, LossSignal::Nack);
    assert_eq!(cc.window(), 16);
    ack(&mut cc, &params, 15, 0);
    cc.on_loss(&params, Time::ZERO, LossSignal::Nack);
    assert_eq!(cc.window(), 16);
    ack(&mut cc, &params, 5, 0);
    cc.on_loss(&params, Time::ZERO, LossSignal::Nack);
    assert_eq!(cc.window(), 8);
    for window in [4, 2, 1, 1] {
        cc.on_loss(&params, Time::ZERO, LossSignal::Timeout);
        assert_eq!(cc.window(), window);
    }
}

/// The parameters have the values `increase` = 3 and `decrease` = 0.75. A window that does not limit the flow does not
/// grow.
#[test]
fn parameters() {
    let (params, mut cc) = flow(&[
        ("initial_window", Value::Count(20)),
        ("increase", Value::Number(3.0)),
        ("decrease", Value::Number(0.75)),
    ]);
    ack(&mut cc, &params, 1, 18);
    assert_eq!(cc.window(), 20);
    ack(&mut cc, &params, 20, 0);
    assert_eq!(cc.window(), 23);
    ack(&mut cc, &params, 0, 23);
    cc.on_loss(&params, Time::ZERO, LossSignal::Nack);
    assert_eq!(cc.window(), 17); // 17.25
    assert_eq!(flow(&[]).1.window(), 111, "the BDP");
}
