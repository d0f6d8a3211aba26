//! Verbs for work requests.

use super::require;
use crate::device::Device;
use crate::memory::total;
use crate::send_queue::{Local, Wqe};
use crate::types::{Data, Qpn, Recipient, RecvRequest, SendOp, SendRequest, Service, State, Status, VerbsError};

/// Verbs for work requests.
impl Device {
    /// Posts a send request. In state ERR or SQE the request completes immediately with [`Status::WorkRequestFlushed`].
    ///
    /// # Errors
    /// If the send queue is full, if the request is not possible in the queue pair's state or with its transport
    /// service, or if the memory of a scatter-gather element cannot be used. After an error nothing is posted. With
    /// [`DeviceConfig::late_checks`](crate::DeviceConfig::late_checks), requests that NICs accept and complete with an
    /// error are no errors of this function.
    pub fn post_send(&mut self, qpn: Qpn, request: &SendRequest<'_>) -> Result<(), VerbsError> {
        self.post(qpn, request, None, 0)
    }

    /// Posts a request like [`Device::post_send`], to a queue pair that spreads its requests over paths
    /// ([`Extras::spread`](crate::Extras::spread)). Requests with the same `entropy` take the same path.
    ///
    /// # Errors
    /// As [`Device::post_send`]. Also if the queue pair does not spread requests.
    pub fn post_spread(&mut self, qpn: Qpn, request: &SendRequest<'_>, entropy: u16) -> Result<(), VerbsError> {
        if !self.qp(qpn)?.common.extras.spread {
            return Err(VerbsError::Unsupported("the queue pair has one path: `Extras::spread` was not set"));
        }
        self.post(qpn, request, None, entropy)
    }

    /// Posts a Send, or a Send with Immediate, of a UD queue pair to the recipient `to`. In state ERR or SQE the
    /// request completes immediately with [`Status::WorkRequestFlushed`]. Otherwise it completes when
    /// [`Device::transmit`](crate::Device::transmit) returns its packet, whether or not the packet arrives.
    ///
    /// # Errors
    /// As [`Device::post_send`]. Also if the service is not UD, the message is longer than the path MTU, or the
    /// recipient is a multicast group or out of range.
    pub fn post_datagram(&mut self, qpn: Qpn, request: &SendRequest<'_>, to: &Recipient) -> Result<(), VerbsError> {
        self.post(qpn, request, Some(to), 0)
    }

    fn post(
        &mut self, qpn: Qpn, request: &SendRequest<'_>, to: Option<&Recipient>, entropy: u16,
    ) -> Result<(), VerbsError> {
        let qp = self.qps.get(qpn).ok_or(VerbsError::Unknown("such queue pair"))?;
        let c = &qp.common;
        let usable = [State::ReadyToSend, State::SendQueueDrain, State::SendQueueError, State::Error];
        require(c.state, &usable, "take sends")?;
        if c.sends.len() >= c.init.capacities.send_wr as usize {
            return Err(VerbsError::Full("send queue"));
        }
        let late = self.config.late_checks;
        let is_datagram = matches!(request.op, SendOp::Send | SendOp::SendImm(_));
        match to {
            Some(to) if c.init.service == Service::Ud => to.check()?,
            // UD lacks the operation, so the request fails whatever its recipient is.
            None if late && !is_datagram => {}
            None if c.init.service != Service::Ud => {}
            Some(_) => return Err(VerbsError::Unsupported("a connected queue pair sends to its peer: use post_send")),
            None => {
                return Err(VerbsError::Unsupported("a datagram needs a recipient: use post_datagram"));
            }
        }
        let op = request.op;
        let (local, len) = match request.data {
            data if op.is_local() => (self.local_operation(op, data)?, 0),
            Data::Bind(_) => return Err(VerbsError::Unsupported("only `SendOp::Bind` binds a memory window")),
            Data::Inline(bytes) => {
                if op.is_fetching() {
                    return Err(VerbsError::Unsupported(
                        "a read or atomic cannot have inline data: its response needs registered memory",
                    ));
                }
                let max = c.init.capacities.inline;
                if bytes.len() > max as usize {
                    return Err(VerbsError::Limit { what: "bytes of inline data", limit: max.into() });
                }
                (Local::Inline(bytes.into()), bytes.len() as u64)
            }
            Data::Gather(sges) => {
                let (max, write) = (c.init.capacities.send_sge, op.is_fetching());
                // The usual request has one element. What is wrong with another one, `check_sges` says.
                let one = match sges {
                    [sge] if sge.len > 0 && max > 0 => self.ctx.memory.local(c.pd, sge, write).ok(),
                    _ => None,
                };
                let local = match one {
                    Some(span) => Local::One(span),
                    None => Local::Gather(self.check_sges(c.pd, sges, max, write)?),
                };
                (local, total(sges))
            }
        };
        let (local, len) = match qp.admits(&op, len) {
            Ok(()) => (local, len as u32),
            Err(why) if late => (Local::Invalid(why.status), 0),
            Err(why) => return Err(why.error),
        };
        // With late checks the responder refuses the request, with a NAK.
        if let SendOp::FetchAdd { addr, .. } | SendOp::CompareSwap { addr, .. } = op
            && !late
            && !addr.is_multiple_of(8)
        {
            return Err(VerbsError::Range { name: "the address", value: addr, possible: "a multiple of 8".into() });
        }
        let wqe = Wqe { entropy, ..Wqe::new(request.wr_id, op, local, len, request.flags) };
        let (qp, ctx) = self.qp_and_ctx(qpn)?;
        if matches!(qp.common.state, State::Error | State::SendQueueError) {
            qp.common.sent(ctx, &wqe, Status::WorkRequestFlushed);
            self.settle();
            return Ok(());
        }
        let local = wqe.is_local();
        qp.push(ctx, wqe, to.copied());
        if local {
            self.settle();
        }
        self.touch(qpn);
        Ok(())
    }

    /// Posts a receive request. In state ERR the request completes immediately with [`Status::WorkRequestFlushed`].
    ///
    /// # Errors
    /// If the receive queue is full, the state is RESET, the queue pair has a shared receive queue, or the memory of a
    /// scatter-gather element cannot be used. After an error nothing is posted.
    pub fn post_recv(&mut self, qpn: Qpn, request: &RecvRequest<'_>) -> Result<(), VerbsError> {
        let c = &self.qps.get(qpn).ok_or(VerbsError::Unknown("such queue pair"))?.common;
        if c.init.srq.is_some() {
            return Err(VerbsError::Unsupported("receives of this queue pair come from its shared receive queue"));
        }
        if c.state == State::Reset {
            return Err(VerbsError::WrongState { state: c.state, action: "take receives" });
        }
        let receive = self.receive_request(c.pd, c.receives.max_sge, request)?;
        let (qp, ctx) = self.qp_and_ctx(qpn)?;
        let c = &mut qp.common;
        let taken = c.inbox_len();
        c.receives.post(receive, taken)?;
        if c.state == State::Error {
            c.flush(ctx);
            self.settle();
            return Ok(());
        }
        if c.told_no_credits.get() {
            qp.tell_credits();
            self.touch(qpn);
        }
        Ok(())
    }
}
