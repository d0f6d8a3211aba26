"""Congestion controls in Python, for prototypes."""

from __future__ import annotations

from ._rnic import AckSample, Flow

__all__ = ["AckSample", "CongestionControl", "Flow"]


class CongestionControl:
    """Base class of congestion controls. There is an instance for each flow, made when the flow starts::

        class Halving(rnic.CongestionControl):
            def on_loss(self, now_us, signal):
                self.rate_bps /= 2

        scenario.with_({"run.IRN.cc": "python"}).run(congestion=Halving)

    A class overrides the methods for the events that it uses; methods that it does not override cost nothing. The
    simulator reads the attributes `rate_bps`, `window` and `next_timer_us` after each call. The methods are those of
    the trait of congestion controls in Rust. They must be deterministic: no clock, and no random numbers without a
    fixed seed. An exception in a method ends the simulation, and `run` raises it.

    A congestion control in Python is for prototypes: each call takes about 0.6 microseconds, so a simulation with a
    call for each ACK takes about twice as long as in Rust, and it uses one thread.
    """

    #: ECN thresholds of the switches: (kmin, kmax, pmax), in bytes and as a probability; None: no packets are marked.
    marking: tuple[int, int, float] | None = None
    #: Minimum time in microseconds between two CNPs of a receiver; None: receivers send no CNPs.
    cnp_interval_us: float | None = None

    #: Maximum rate of the flow in bit/s, headers included: 1,000 or more. Above the line rate it is the line rate;
    #: infinite (`math.inf`) turns off the pacing of packets, for controls of the window alone.
    rate_bps: float
    #: Maximum number of packets in flight, 1 or more; None for no limit.
    window: float | None
    #: Time of the next call of `on_timer` in microseconds of simulated time; None if no timer runs.
    next_timer_us: float | None

    def __init__(self, flow: Flow, now_us: float) -> None:
        """Starts at the line rate, without a window. `flow` has `line_rate_bps`, `base_rtt_us`, `bdp` (packets), `mtu`
        and `header` (bytes)."""
        self.rate_bps = flow.line_rate_bps
        self.window = None
        self.next_timer_us = None

    def on_send(self, now_us: float, packet_bytes: int) -> None:
        """The flow sends a packet of this length, headers included."""

    def on_ack(self, sample: AckSample) -> None:
        """An ACK or NACK arrives. `sample` has `now_us`, `rtt_us`, `acked` and `in_flight` (packets), and `marked`."""

    def on_cnp(self, now_us: float) -> None:
        """A congestion notification packet arrives."""

    def on_loss(self, now_us: float, signal: str) -> None:
        """The sender detects a loss: `signal` is "nack" (once in each recovery) or "timeout"."""

    def on_timer(self, now_us: float) -> None:
        """The timer expires. Unless this method sets `next_timer_us` to a later time or None, the run fails."""
