//! Verbs for queue pairs (InfiniBand volume 1, section 10.3).

use super::require;
use crate::common::Common;
use crate::device::Device;
use crate::flow::Congestion;
use crate::packet::Route;
use crate::qp::ud::NO_CONNECTION;
use crate::qp::{Engine, MAX_IN_FLIGHT, Qp};
use crate::types::{
    Access, Connection, DatagramAttributes, Extras, MAX_MTU, Pd, QpChange, QpInfo, QpInit, Qpn, SendAttributes,
    Service, State, VerbsError, range,
};
use rnic_transport::{BitRate, FlowConfig, GoBack, NackPolicy, Psn, Time, headers};
use std::net::SocketAddr;

/// Verbs for queue pairs.
impl Device {
    /// Creates a queue pair in state RESET.
    ///
    /// The shared receive queue may belong to another protection domain than the queue pair: the memory of its receives
    /// is checked with the protection domain of the shared receive queue.
    ///
    /// # Errors
    /// If a limit of the device is reached, or a completion queue has overflowed.
    pub fn create_qp(&mut self, pd: Pd, init: QpInit) -> Result<Qpn, VerbsError> {
        self.domain(pd)?;
        let limits = self.config.limits;
        if self.qps.len() >= limits.queue_pairs.min(1 << 16) as usize {
            return Err(VerbsError::Exhausted { what: "queue pairs", limit: limits.queue_pairs.min(1 << 16).into() });
        }
        let sizes = init.capacities;
        range("the number of sends", sizes.send_wr, 1, limits.work_requests)?;
        range("the number of receives", sizes.recv_wr, 0, limits.work_requests)?;
        let max = sizes.send_sge.max(sizes.recv_sge);
        range("the number of scatter-gather elements", max, 0, limits.scatter_gather)?;
        range("the length of inline data", sizes.inline, 0, limits.inline)?;
        for cq in [init.send_cq, init.recv_cq] {
            if self.cq(cq)?.overflowed() {
                return Err(VerbsError::Overflow);
            }
        }
        if let Some(srq) = init.srq {
            self.srq(srq)?;
        }
        let queues = Common::queues(&init)?;
        for cq in [init.send_cq, init.recv_cq] {
            self.cq(cq)?.users += 1;
        }
        if let Some(srq) = init.srq {
            self.srq(srq)?.users += 1;
        }
        let (congestion, cfg) = (self.config.congestion.clone(), FlowConfig::default());
        let make = |qpn| {
            let common = Common::new(qpn, pd, init, queues);
            Qp {
                common,
                engine: Engine::None,
                congestion,
                cfg,
                rate: None,
                ready: false,
                armed: None,
                last_sent: None,
                last_cnp: None,
                answer: None,
            }
        };
        let qpn = self.qps.insert(&mut self.rng, self.config.shard, make);
        Ok(qpn)
    }

    /// Destroys a queue pair. Its outstanding work requests disappear without completions, and the bindings of memory
    /// windows of type 2 to it end.
    ///
    /// # Errors
    /// If there is no such queue pair.
    pub fn destroy_qp(&mut self, qpn: Qpn) -> Result<(), VerbsError> {
        let (at, qp) = self.qps.remove(qpn).ok_or(VerbsError::Unknown("such queue pair"))?;
        self.forget(at, &qp);
        self.ctx.memory.unbind_queue_pair(qpn);
        for cq in [qp.common.init.send_cq, qp.common.init.recv_cq] {
            self.cq(cq)?.users -= 1;
        }
        if let Some(srq) = qp.common.init.srq {
            self.srq(srq)?.users -= 1;
        }
        Ok(())
    }

    /// The state of a queue pair.
    ///
    /// # Errors
    /// If there is no such queue pair.
    pub fn state(&self, qpn: Qpn) -> Result<State, VerbsError> {
        self.qps.get(qpn).map(|qp| qp.common.state).ok_or(VerbsError::Unknown("such queue pair"))
    }

    /// Chooses the congestion control of a queue pair that is not connected yet, instead of
    /// [`DeviceConfig::congestion`](crate::DeviceConfig::congestion).
    ///
    /// # Errors
    /// If the state is neither RESET nor INIT.
    pub fn set_congestion(&mut self, qpn: Qpn, congestion: Congestion) -> Result<(), VerbsError> {
        let qp = self.qp(qpn)?;
        if qp.common.init.service == Service::Ud {
            return Err(VerbsError::Unsupported("a UD queue pair has no congestion control, only a rate limit"));
        }
        require(qp.common.state, &[State::Reset, State::Init], "change its congestion control")?;
        qp.congestion = congestion;
        Ok(())
    }

    /// Limits the rate at which a queue pair sends requests, and separately the rate at which it sends responses to
    /// RDMA Reads. `None`: only the link limits the rate. The limit stays in effect in every state until the next call
    /// of this function. The limited rate counts whole Ethernet frames, without preamble and inter-frame gap.
    ///
    /// After each packet the queue pair waits for the packet's serialisation time at this rate, or at the congestion
    /// control's rate if that is lower. If a packet leaves late, the packets after it do not make up for the delay.
    ///
    /// # Errors
    /// If there is no such queue pair, or the rate is 0.
    pub fn set_rate(&mut self, qpn: Qpn, rate: Option<BitRate>) -> Result<(), VerbsError> {
        let qp = self.qp(qpn)?;
        if rate.is_some_and(|rate| rate.as_bps() == 0) {
            return Err(VerbsError::Range {
                name: "the rate limit",
                value: 0,
                possible: "1 bit per second or more".into(),
            });
        }
        qp.set_rate(rate);
        self.touch(qpn);
        Ok(())
    }

    /// Returns state, connection, rate limit and outstanding work of a queue pair.
    ///
    /// # Errors
    /// If there is no such queue pair.
    pub fn query_qp(&self, qpn: Qpn) -> Result<QpInfo, VerbsError> {
        let qp = self.qps.get(qpn).ok_or(VerbsError::Unknown("such queue pair"))?;
        let c = &qp.common;
        Ok(QpInfo {
            state: c.state,
            service: c.init.service,
            capacities: c.init.capacities,
            connection: c.connection,
            datagrams: qp.datagrams(),
            rate: qp.rate,
            sends: c.sends.len() as u32,
            receives: (c.receives.queue.len() + c.inbox_len()) as u32,
        })
    }

    /// RESET to INIT: from now on the application can post receives. `access` holds the rights that the peer has
    /// through this queue pair. In state INIT the function only changes these rights. A UD queue pair gives no rights,
    /// so there `access` has no effect.
    ///
    /// # Errors
    /// If the state is neither RESET nor INIT.
    pub fn to_init(&mut self, qpn: Qpn, access: Access) -> Result<(), VerbsError> {
        let qp = self.qp(qpn)?;
        require(qp.common.state, &[State::Reset, State::Init], "go to INIT")?;
        qp.common.access = access;
        qp.common.state = State::Init;
        Ok(())
    }

    /// INIT to RTR: connects the queue pair. From now on the queue pair receives packets.
    ///
    /// # Errors
    /// If the state is not INIT or an attribute is out of range.
    pub fn to_rtr(&mut self, qpn: Qpn, connection: Connection, now: Time) -> Result<(), VerbsError> {
        let qp = self.qp(qpn)?;
        let service = qp.common.init.service;
        require(qp.common.state, &[State::Init], "go to RTR")?;
        let Connection { path_mtu, recv_psn, min_rnr_timer, dscp, peer_qpn, peer_in_flight, .. } = connection;
        let (fits, possible) = match service {
            Service::Rc => ((256..=4_096).contains(&path_mtu), "256, 512, 1024, 2048 or 4096"),
            Service::Uc => ((256..=8_192).contains(&path_mtu), "256, 512, 1024, 2048, 4096 or 8192"),
            Service::Irn => ((256..=MAX_MTU).contains(&path_mtu), "256 to 8960, a multiple of 4"),
            Service::Ud => return Err(VerbsError::Unsupported(NO_CONNECTION)),
        };
        if !fits || !(path_mtu.is_power_of_two() || service == Service::Irn && path_mtu.is_multiple_of(4)) {
            return Err(VerbsError::Range { name: "the path MTU", value: path_mtu.into(), possible: possible.into() });
        }
        range("the first PSN", recv_psn, 0, Psn::MODULUS - 1)?;
        range("the QPN of the peer", peer_qpn.0, 0, Psn::MODULUS - 2)?;
        range("the peer's number of packets in flight", peer_in_flight, 1, MAX_IN_FLIGHT)?;
        range("the RNR timer", min_rnr_timer.into(), 0, 31)?;
        range("the DSCP", dscp.into(), 0, 63)?;
        let (line_rate, base_rtt, timeouts) = (self.config.line_rate, self.config.base_rtt, self.config.timeouts);
        if line_rate.as_bps() == 0 {
            let possible = "1 bit per second or more".into();
            return Err(VerbsError::Range { name: "the link's rate", value: 0, possible });
        }
        let packets = u32::try_from(self.config.in_flight_bytes / u64::from(path_mtu)).unwrap_or(u32::MAX);
        let cap = self.config.in_flight.min(packets).clamp(1, MAX_IN_FLIGHT);
        let header = if service == Service::Irn { headers::IRN_DATA } else { headers::ROCE_DATA };
        let qp = self.qp(qpn)?;
        let mut cfg = FlowConfig {
            mtu: path_mtu,
            header,
            line_rate,
            base_rtt,
            bdp: cap,
            bdp_cap: cap,
            sack: true,
            timeouts: Some(timeouts),
            acks: true,
            nacks: NackPolicy::First,
            go_back: GoBack::Expected,
            cnp_interval: None,
            max_rate: None,
            ..FlowConfig::default()
        };
        qp.congestion.check(&mut cfg).map_err(VerbsError::Congestion)?;
        qp.cfg = cfg;
        qp.common.connection = Some(connection);
        qp.common.route = Route { service, peer_qpn: peer_qpn.0, mtu: path_mtu };
        let offers = service == Service::Rc && qp.common.extras.offer_irn;
        if offers {
            let irn = FlowConfig { header: headers::IRN_DATA, ..qp.cfg.clone() };
            qp.offer(irn, now);
        } else {
            qp.connect(now)?;
        }
        qp.common.state = State::ReadyToReceive;
        self.advance_to(now);
        if offers {
            self.touch(qpn);
        }
        Ok(())
    }

    /// INIT to RTR of a UD queue pair: from now on it receives datagrams.
    ///
    /// # Errors
    /// If the state is not INIT, the service is not UD, or the path MTU is not 256, 512, 1024, 2048 or 4096.
    pub fn to_datagrams(&mut self, qpn: Qpn, attributes: DatagramAttributes, now: Time) -> Result<(), VerbsError> {
        let (line_rate, base_rtt) = (self.config.line_rate, self.config.base_rtt);
        let qp = self.qp(qpn)?;
        let service = qp.common.init.service;
        if service != Service::Ud {
            return Err(VerbsError::Unsupported("only a UD queue pair receives datagrams; others are connected"));
        }
        require(qp.common.state, &[State::Init], "go to RTR")?;
        let path_mtu = attributes.path_mtu;
        if !(256..=4_096).contains(&path_mtu) || !path_mtu.is_power_of_two() {
            let possible = "256, 512, 1024, 2048 or 4096".into();
            return Err(VerbsError::Range { name: "the path MTU", value: path_mtu.into(), possible });
        }
        if line_rate.as_bps() == 0 {
            let possible = "1 bit per second or more".into();
            return Err(VerbsError::Range { name: "the link's rate", value: 0, possible });
        }
        let header = headers::ROCE_DATA;
        qp.cfg = FlowConfig { mtu: path_mtu, header, line_rate, base_rtt, ..FlowConfig::default() };
        qp.common.route = Route { service, peer_qpn: 0, mtu: path_mtu };
        qp.receive_datagrams(attributes, now)?;
        qp.common.state = State::ReadyToReceive;
        self.advance_to(now);
        Ok(())
    }

    /// RTR to RTS: from now on the queue pair sends requests. SQD or SQE to RTS: sending resumes, and `attributes` has
    /// no effect.
    ///
    /// # Errors
    /// If the state is not RTR, SQD or SQE, or an attribute is out of range.
    pub fn to_rts(&mut self, qpn: Qpn, attributes: SendAttributes, now: Time) -> Result<(), VerbsError> {
        let (qp, ctx) = self.qp_and_ctx(qpn)?;
        let from = qp.common.state;
        require(from, &[State::ReadyToReceive, State::SendQueueDrain, State::SendQueueError], "go to RTS")?;
        let SendAttributes { send_psn, timeout, retry_count, rnr_retry, give_up_after, keep_alive, .. } = attributes;
        range("the first PSN", send_psn, 0, Psn::MODULUS - 1)?;
        range("the timeout", timeout.into(), 0, 31)?;
        range("the retry count", retry_count.into(), 0, 7)?;
        range("the RNR retry count", rnr_retry.into(), 0, 7)?;
        span("the time in us after which the queue pair gives up (give_up_after)", give_up_after)?;
        span("the idle time in us after which the queue pair probes its peer (keep_alive)", keep_alive)?;
        match qp.common.init.service {
            Service::Uc if give_up_after.or(keep_alive).is_some() => {
                return Err(VerbsError::Unsupported(
                    "an unreliable connection gets no responses, so it cannot notice a dead peer: leave out give_up_after and keep_alive",
                ));
            }
            Service::Ud if give_up_after.or(keep_alive).is_some() => {
                return Err(VerbsError::Unsupported(
                    "a UD queue pair has no peer that could die: leave out give_up_after and keep_alive",
                ));
            }
            Service::Rc if keep_alive.is_some() && timeout == 0 && give_up_after.is_none() => {
                return Err(VerbsError::Unsupported(
                    "keep_alive needs a timeout or give_up_after, to end the wait for a response",
                ));
            }
            _ => {}
        }
        if from == State::ReadyToReceive {
            qp.common.attributes = attributes;
            if qp.common.init.service == Service::Rc {
                qp.cfg.timeouts = attributes.timeouts();
            }
            qp.start(ctx, now)?;
        } else {
            qp.common.state = State::ReadyToSend;
            qp.common.draining = false;
            qp.release(ctx);
        }
        self.settle();
        self.advance_to(now);
        self.touch(qpn);
        Ok(())
    }

    /// RTS to RTS and SQD to SQD: changes attributes of a connected queue pair. In state RTS only the rights of the
    /// peer and the RNR timer can change, in state SQD all attributes of [`QpChange`], once the send queue is drained.
    ///
    /// # Errors
    /// If the state does not admit the change, or an attribute is out of range. Then no attribute changes.
    pub fn change(&mut self, qpn: Qpn, change: QpChange) -> Result<(), VerbsError> {
        let qp = self.qp(qpn)?;
        require(qp.common.state, &[State::ReadyToSend, State::SendQueueDrain], "change its attributes")?;
        let QpChange { access: _, min_rnr_timer, peer, dscp, timeout, retry_count, rnr_retry, .. } = change;
        match (qp.is_datagram(), change.qkey) {
            (true, qkey) if (QpChange { qkey, ..QpChange::default() }) != change => {
                return Err(VerbsError::Unsupported("a UD queue pair has no connection: only its Q_Key can change"));
            }
            (false, Some(_)) => return Err(VerbsError::Unsupported("only a UD queue pair has a Q_Key")),
            _ => {}
        }
        let path = QpChange { access: None, min_rnr_timer: None, qkey: None, ..change };
        if path != QpChange::default() && (qp.common.state != State::SendQueueDrain || qp.common.draining) {
            return Err(VerbsError::Unsupported(
                "the path, timeouts and retries of a connection change only in state SQD, after the send queue is drained",
            ));
        }
        // A queue pair that has agreed with its peer on IRN is one of RC to the application.
        if timeout.is_some() && qp.common.init.service != Service::Rc && !qp.common.extras.offer_irn {
            return Err(VerbsError::Unsupported("only RC has the attribute `timeout`"));
        }
        let family = |peer: SocketAddr| peer.ip().to_canonical().is_ipv4();
        if peer.is_some_and(|peer| qp.common.connection.is_some_and(|old| family(old.peer) != family(peer))) {
            return Err(VerbsError::Unsupported("the address of the peer must stay of the same family, IPv4 or IPv6"));
        }
        range("the RNR timer", min_rnr_timer.unwrap_or(0).into(), 0, 31)?;
        range("the DSCP", dscp.unwrap_or(0).into(), 0, 63)?;
        range("the timeout", timeout.unwrap_or(0).into(), 0, 31)?;
        range("the retry count", retry_count.unwrap_or(0).into(), 0, 7)?;
        range("the RNR retry count", rnr_retry.unwrap_or(0).into(), 0, 7)?;
        qp.change(&change);
        Ok(())
    }

    /// RTS to SQD: the queue pair finishes messages that it has begun to send, and begins no other.
    /// [`Event::SendQueueDrained`](crate::Event::SendQueueDrained) follows when these messages are completed.
    ///
    /// # Errors
    /// If the state is not RTS.
    pub fn to_sqd(&mut self, qpn: Qpn) -> Result<(), VerbsError> {
        let (qp, ctx) = self.qp_and_ctx(qpn)?;
        require(qp.common.state, &[State::ReadyToSend], "go to SQD")?;
        qp.common.state = State::SendQueueDrain;
        qp.common.draining = true;
        qp.drain();
        qp.common.retire(ctx, 0);
        Ok(())
    }

    /// Any state to ERR: all outstanding work requests complete with
    /// [`Status::WorkRequestFlushed`](crate::Status::WorkRequestFlushed).
    ///
    /// # Errors
    /// If there is no such queue pair.
    pub fn to_error(&mut self, qpn: Qpn) -> Result<(), VerbsError> {
        let (qp, ctx) = self.qp_and_ctx(qpn)?;
        if qp.common.state != State::Error {
            qp.common.state = State::Error;
            qp.common.flush(ctx);
        }
        self.settle();
        Ok(())
    }

    /// Any state to RESET: outstanding work requests disappear without completions, the connection ends, and so do the
    /// bindings of memory windows of type 2. No packet of the old connection is written from now on.
    ///
    /// # Errors
    /// If there is no such queue pair.
    pub fn to_reset(&mut self, qpn: Qpn) -> Result<(), VerbsError> {
        let qp = self.qp(qpn)?;
        qp.engine = Engine::None;
        qp.answer = None;
        if qp.common.extras.offer_irn {
            // The next connection is agreed on again.
            qp.common.init.service = Service::Rc;
        }
        qp.common.reset();
        (qp.last_sent, qp.last_cnp) = (None, None);
        self.ctx.memory.unbind_queue_pair(qpn);
        if !self.reset.contains(&qpn) {
            self.reset.push(qpn);
        }
        Ok(())
    }

    /// Gives a queue pair abilities that commodity NICs lack, or takes them away. Those of the receiver take effect
    /// when the queue pair is connected. A reset leaves them.
    ///
    /// # Errors
    /// If there is no such queue pair, it is connected, `extras.spread` is set and its service is not UC, or
    /// `extras.offer_irn` is set and its service is not RC.
    pub fn set_extras(&mut self, qpn: Qpn, extras: Extras) -> Result<(), VerbsError> {
        let c = &mut self.qp(qpn)?.common;
        require(c.state, &[State::Reset, State::Init], "change its extras")?;
        if extras.offer_irn && c.init.service != Service::Rc {
            return Err(VerbsError::Unsupported("only a reliable connection (RC) offers IRN to its peer"));
        }
        if extras.spread && c.init.service != Service::Uc {
            return Err(VerbsError::Unsupported("only an unreliable connection (UC) spreads requests over paths"));
        }
        c.extras = extras;
        Ok(())
    }
}

/// Checks that a time attribute, if it is set, is 1 ms to 1 day.
fn span(name: &'static str, value: Option<Time>) -> Result<(), VerbsError> {
    let (min, max) = (Time::from_ms(1), Time::from_ms(86_400_000));
    match value {
        Some(value) if !(min..=max).contains(&value) => {
            let possible = "1000 (1 ms) to 86400000000 (1 day)".into();
            Err(VerbsError::Range { name, value: value.as_ps() / 1_000_000, possible })
        }
        _ => Ok(()),
    }
}
