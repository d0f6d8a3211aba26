//! The connection under attack.

use rnic_endpoint::{
    Access, CompletionQueue, Config, Congestion, Device, Error, MemoryRegion, PathOptions, QpOptions, QueuePair,
    Security, SendOp, Service, Status, Time,
};
use rnic_netns::Pair;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Largest message in bytes.
const LONGEST: usize = 16 << 10;

/// Two devices in two namespaces, and a connection between them.
pub struct Victim {
    a: Side,
    b: Side,
}

struct Side {
    qp: QueuePair,
    cq: CompletionQueue,
    region: MemoryRegion,
}

/// The facts about the connection that an attacker may know. Each attack uses a part of them.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// IP address and UDP port of the end that receives.
    pub receiver: SocketAddr,
    /// UDP source port of the end that sends.
    pub source_port: u16,
    /// QPN of the end that receives.
    pub qpn: u32,
    /// First PSN of the end that sends.
    pub psn: u32,
    /// Address of the receiver's memory, its key, and its length in bytes.
    pub memory: (u64, u32, u32),
}

/// The result of an attack for the connection.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// Number of messages that completed with success.
    pub messages: u64,
    /// Bytes of these messages that were wrong at the receiver when the message completed.
    pub wrong_bytes: u64,
    /// The error with which the connection ended; `None` if it did not end.
    pub failed: Option<String>,
}

impl Victim {
    /// Opens the devices and connects them. The congestion control is DCQCN, so that CNPs can have an effect.
    ///
    /// # Errors
    /// If a device cannot be opened.
    pub fn open(pair: &Pair, service: Service, security: Security) -> Result<Victim, Error> {
        let open = |namespace: &rnic_netns::Namespace, ip| namespace.run(|| Side::open(ip, service, security));
        let [a, b] = [open(&pair.a, Pair::A4)?, open(&pair.b, Pair::B4)?];
        let options = PathOptions { mtu: Some(1_024), ..PathOptions::default() };
        a.qp.connect(&b.qp.address(), &options)?;
        b.qp.connect(&a.qp.address(), &options)?;
        Ok(Victim { a, b })
    }

    /// Everything that an attacker can know about the connection, except the keys.
    pub fn known(&self) -> Known {
        let [a, b] = [self.a.qp.address(), self.b.qp.address()];
        let region = &self.b.region;
        Known {
            receiver: b.addr,
            source_port: a.source_port.unwrap_or(0),
            qpn: b.qpn,
            psn: a.psn,
            memory: (region.addr(), region.rkey(), region.len() as u32),
        }
    }

    /// For `time`, writes messages of one packet and of several packets one after another, and compares every byte.
    ///
    /// # Errors
    /// If a device fails.
    #[expect(clippy::disallowed_methods, reason = "an attack lasts a time")]
    pub fn work(&self, time: Duration) -> Result<Outcome, Error> {
        let mut outcome = Outcome::default();
        let start = Instant::now();
        while start.elapsed() < time {
            let number = outcome.messages;
            let len = [64, 1_024, LONGEST][number as usize % 3];
            let byte = |at: usize| (at as u64 * 31 + number * 7 + 1) as u8;
            self.a.region.with_mut(|bytes| bytes[..len].iter_mut().enumerate().for_each(|(at, out)| *out = byte(at)));
            let op = SendOp::Write { addr: self.b.region.addr(), rkey: self.b.region.rkey() };
            if let Err(error) = self.a.qp.post(number, op, &[self.a.region.slice(0, len)?]) {
                outcome.failed = Some(error.to_string());
                return Ok(outcome);
            }
            match self.a.cq.wait_one(Time::from_ms(20_000)) {
                Ok(completion) if completion.status == Status::Success => {}
                Ok(completion) => outcome.failed = Some(format!("{:?}", completion.status)),
                Err(Error::Failed { status, .. }) => outcome.failed = Some(format!("{status:?}")),
                Err(error) => return Err(error),
            }
            if outcome.failed.is_some() {
                return Ok(outcome);
            }
            let wrong = |bytes: &[u8]| bytes[..len].iter().enumerate().filter(|(at, is)| **is != byte(*at)).count();
            outcome.wrong_bytes += self.b.region.with(wrong) as u64;
            outcome.messages += 1;
        }
        Ok(outcome)
    }
}

impl Side {
    fn open(ip: std::net::IpAddr, service: Service, security: Security) -> Result<Side, Error> {
        let mut config = Config { security, ..Config::default() };
        config.verbs.congestion = Congestion::named("dcqcn").ok_or_else(|| Error::Closed("no DCQCN".to_string()))?;
        let device = Device::open(ip, config)?;
        let cq = device.completion_queue(16)?;
        let domain = device.protection_domain();
        let region = domain.register(vec![0; LONGEST], Access::ALL)?;
        let qp = domain.queue_pair(&QpOptions { service, ..QpOptions::new(&cq) })?;
        Ok(Side { qp, cq, region })
    }
}
