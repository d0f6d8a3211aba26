//! Bad input: one sentence that names the limit.

use crate::rogue::Pair;
use crate::wire::{MTU, Wire};
use rnic_host::multipath::{self, Builtin, Grants, PathPolicy};
use rnic_host::rogue::{Channel, Config};
use rnic_host::{Control, Frames, HostError, Link};
use rnic_transport::{BitRate, Time};
use rnic_verbs::{Data, Device, DeviceConfig, Limits, SendFlags, SendOp, SendRequest, Service};

fn refused(config: Config) -> String {
    let mut wire = Wire::perfect();
    let pd = wire.pds[0];
    match Channel::open(wire.nic(0), pd, config) {
        Ok(_) => panic!("it was accepted"),
        Err(why) => why.to_string(),
    }
}

#[test]
fn settings_out_of_range_are_refused() {
    let with = |change: fn(&mut Config)| {
        let mut config = Config::default();
        change(&mut config);
        refused(config)
    };
    assert_eq!(with(|c| c.chunk = 4_095), "the chunk size is 4095; it must be 4096 to 16777216");
    assert_eq!(with(|c| c.requests = 0), "the number of outstanding requests is 0; it must be 1 to 1048576");
    assert_eq!(with(|c| c.send_wr = 3), "the capacity of the send queue is 3; it must be 4 to 32768");
    assert_eq!(with(|c| c.receives = 32_769), "the number of receives is 32769; it must be 0 to 32768");
    assert_eq!(with(|c| c.patience = Time::ZERO), "the patience is 0; it must be above 0");
    assert_eq!(with(|c| c.max_recoveries = 0), "the number of recoveries in a row is 0; it must be 1 to 4294967295");
    assert_eq!(
        with(|c| c.max_window = 65_535),
        "the maximum window is 65535; it must be at least the chunk size of 65536 bytes"
    );
    assert_eq!(
        with(|c| c.max_rate = Some(BitRate::from_bps(0))),
        "the maximum rate is 0; it must be at least the minimum rate of 100 Mbps"
    );
    assert_eq!(with(|c| c.timeout = 32), "the timeout is 32; it must be 1 to 31");
    assert_eq!(
        with(|c| c.min_rate = BitRate::from_bps(0)),
        "the minimum rate is 0; it must be 1 bit per second or more"
    );
    assert_eq!(with(|c| c.service = Service::Ud), "a RoGUE channel needs a connection: RC, IRN or UC");
}

/// UC supports neither Reads nor atomics, and the layer cannot place Sends into the application's receives in order.
#[test]
fn operations_that_uc_lacks_are_refused() {
    let mut pair = Pair::new(Wire::perfect(), 1_000, &Config { service: Service::Uc, ..Config::default() });
    let (addr, rkey) = (pair.memory[1].addr, pair.memory[1].rkey);
    for op in [SendOp::Send, SendOp::SendImm(1), SendOp::Read { addr, rkey }, SendOp::FetchAdd { addr, rkey, add: 1 }] {
        let sges = pair.sge(0, 0, 8);
        let request = SendRequest { wr_id: 1, op, data: Data::Gather(&sges), flags: SendFlags::SIGNALED };
        let error = pair.ends[0].post_send(&request).unwrap_err().to_string();
        assert_eq!(
            error,
            "a RoGUE channel over UC has Write and Write with Immediate; other operations need RC or IRN"
        );
    }
}

#[test]
fn rates_and_windows_of_0_are_refused() {
    let error = Control::named("rogue", &[("min_rate", BitRate::from_bps(0).into())]).unwrap_err().to_string();
    assert_eq!(error, "`min_rate` cannot be 0 bps; it takes a rate above 0, at most 10 Tbps, for example \"40 Gbps\"");
    let error = Control::named("timely", &[("t_high", Time::ZERO.into())]).unwrap_err().to_string();
    assert!(error.starts_with("`t_high` cannot be 0 ps; it takes a time above 0"), "{error}");
    let values = [("t_low", Time::from_us(3).into()), ("t_high", Time::from_us(2).into())];
    let control = Control::named("timely", &values).unwrap();
    let mut wire = Wire::perfect();
    let pd = wire.pds[0];
    let mut channel = Channel::open(wire.nic(0), pd, Config { control, ..Config::default() }).unwrap();
    let own = channel.address();
    let error = channel.connect(wire.nic(0), Link::new(Wire::addr(1), MTU), own, Time::ZERO).unwrap_err();
    assert_eq!(error.to_string(), "`t_low` must not be greater than `t_high`");
}

/// The NIC would time out while its own rate limiter delays the packets.
#[test]
fn a_timeout_that_is_too_short_for_the_minimum_rate_is_refused() {
    let mut wire = Wire::perfect();
    let pd = wire.pds[0];
    let config = Config { timeout: 8, ..Config::default() };
    let mut channel = Channel::open(wire.nic(0), pd, config).unwrap();
    let own = channel.address();
    let error = channel.connect(wire.nic(0), Link::new(Wire::addr(1), MTU), own, Time::ZERO).unwrap_err();
    let expected = "the timeout is 8; it must be 9 to 31, because 16 packets take 1.39008 ms at the minimum rate";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn too_few_queue_pairs_are_refused() {
    let limits = Limits { queue_pairs: 2, ..Limits::default() };
    let mut nic = Device::new(DeviceConfig { limits, ..DeviceConfig::default() });
    let pd = nic.create_pd();
    let error = Channel::open(&mut nic, pd, Config::default()).err().unwrap().to_string();
    assert_eq!(error, "the number of queue pairs that the NIC allows is 2; it must be 3 to 18446744073709551615");
}

#[test]
fn impossible_requests_are_refused() {
    let mut pair = Pair::new(Wire::perfect(), 4_096, &Config { requests: 1, ..Config::default() });
    let (addr, rkey) = (pair.memory[1].addr, pair.memory[1].rkey);
    let sges = [pair.sge(0, 0, 8)[0]; 5];
    let mut post = |op, data| {
        pair.ends[0].post_send(&SendRequest { wr_id: 1, op, data, flags: SendFlags::SIGNALED }).unwrap_err().to_string()
    };
    let atomic = SendOp::FetchAdd { addr: addr + 4, rkey, add: 1 };
    assert_eq!(
        post(atomic, Data::Gather(&sges[..1])),
        format!("the address is {}; it must be a multiple of 8", addr + 4)
    );
    assert_eq!(post(atomic, Data::Gather(&sges[..2])), "the length is 16; it must be 8 bytes for an atomic");
    assert_eq!(
        post(SendOp::Read { addr, rkey }, Data::Inline(&[0; 8])),
        "a read or atomic cannot have inline data: its response needs registered memory"
    );
    let long = [0; 257];
    assert_eq!(post(SendOp::Send, Data::Inline(&long)), "the length of inline data is 257; it must be 0 to 256 bytes");
    assert_eq!(
        post(SendOp::Send, Data::Gather(&sges)),
        "the number of scatter-gather elements is 5; it must be 0 to 4"
    );
    pair.post(0, 1, SendOp::Send, 0, 8, true);
    let request = SendRequest { wr_id: 1, op: SendOp::Send, data: Data::Inline(&[]), flags: SendFlags::SIGNALED };
    let error = pair.ends[0].post_send(&request).unwrap_err();
    assert_eq!(error.to_string(), "the channel's queue of requests is full: at most 1 are outstanding");
    let mut wire = Wire::perfect();
    let pd = wire.pds[0];
    let mut channel = Channel::open(wire.nic(0), pd, Config::default()).unwrap();
    assert_eq!(channel.post_send(&request), Err(HostError::NotConnected));
}

fn multipath_refused(change: fn(&mut multipath::Config)) -> String {
    let mut config = multipath::Config::default();
    change(&mut config);
    let limits = Limits { queue_pairs: 300, ..Limits::default() };
    let mut nic = Device::new(DeviceConfig { limits, ..DeviceConfig::default() });
    let pd = nic.create_pd();
    let hooks = Box::new(Builtin::new(PathPolicy::Single));
    multipath::Channel::open(&mut nic, pd, config, hooks).err().unwrap().to_string()
}

#[test]
fn settings_of_multipath_out_of_range_are_refused() {
    let limit = "it must be 1 to 149, because a path takes two of the NIC's 300 queue pairs, and at most 256";
    assert_eq!(multipath_refused(|c| c.paths = 150), format!("the number of paths is 150; {limit}"));
    assert_eq!(multipath_refused(|c| c.paths = 0), format!("the number of paths is 0; {limit}"));
    assert_eq!(
        multipath_refused(|c| c.max_window = 32_767),
        "the maximum window is 32767; it must be at least the chunk size of 32768 bytes"
    );
    assert_eq!(
        multipath_refused(|c| c.max_rate = Some(BitRate::from_bps(0))),
        "the maximum rate is 0; it must be 1 bit per second or more"
    );
    assert_eq!(multipath_refused(|c| c.chunk = 255), "the chunk size is 255; it must be 256 to 16777216");
    assert_eq!(multipath_refused(|c| c.timeout = Time::ZERO), "the timeout is 0; it must be above 0");
    assert_eq!(multipath_refused(|c| c.inline = 31), "the length of inline data is 31; it must be 32 to 1024");
    let frames = Frames { mtu: 1_024, header: 62 };
    let error = Grants::new(BitRate::from_bps(0), 32_768, frames).unwrap_err().to_string();
    assert_eq!(error, "the rate of credit is 0; it must be 1 bit per second or more");
}
