"""Congestion controls in Python, for prototypes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Literal

from ._rnic import AckSample, Flow
from .metrics import unknown

__all__ = ["AckSample", "CongestionControl", "Flow"]

#: How a sender detects a loss.
LossSignal = Literal["nack", "timeout"]

#: The methods that the simulator calls.
HOOKS = ("on_send", "on_ack", "on_cnp", "on_loss", "on_timer")


class CongestionControl:
    """Base class of congestion controls. The simulator creates an instance for each flow when the flow starts::

        class Halving(rnic.CongestionControl):
            def on_loss(self, now_us, signal):
                self.rate_bps /= 2

        scenario.with_({"run.IRN.cc": "python"}).run(congestion=Halving)

    A class overrides the methods for the events that it uses; methods that it does not override take no time. A method
    that begins with `on_` and that the simulator does not call is refused, because its name is probably misspelt. The
    simulator reads the attributes `rate_bps`, `window` and `next_timer_us` after each call. The methods are the same as
    in Rust's trait for congestion controls. They must be deterministic: no clock, and no random numbers without a fixed
    seed. An exception in a method ends the simulation, and `run` raises it.

    A control with parameters is a `functools.partial`, or any function that takes the arguments of `__init__` and
    returns an object::

        scenario.run(congestion=functools.partial(Halving, gain=0.5))

    The attributes `marking` and `cnp_interval_us` are of the class, or of the function.

    A congestion control in Python is for prototypes: each call takes about 0.6 microseconds, so a simulation with a
    call for each ACK takes about twice as long as in Rust, and it uses one thread. Simulations in several threads wait
    for each other.
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

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        _check_hooks(cls)

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

    def on_loss(self, now_us: float, signal: LossSignal) -> None:
        """The sender detects a loss: `signal` is "nack" (once in each recovery) or "timeout"."""

    def on_timer(self, now_us: float) -> None:
        """The timer expires. Unless this method sets `next_timer_us` to a later time or None, the run fails."""


def _check_hooks(cls: type) -> None:
    """Refuses methods that the simulator would never call."""
    for name in dir(cls):
        if name.startswith("on_") and name not in HOOKS and callable(getattr(cls, name)):
            wrong = unknown(name, HOOKS, "method of congestion controls")
            raise TypeError(f"{cls.__name__}: {wrong}; another method needs a name that does not begin with `on_`")


def prepared(
    control: Callable[..., Any],
) -> tuple[type[CongestionControl] | None, tuple[int, int, float] | None, float | None]:
    """Checks the argument `congestion` of `Scenario.run`.

    Returns the class of all its objects, or None if only the objects have it; and the attributes `marking` and
    `cnp_interval_us`.
    """
    accepted = (
        "accepted: a subclass of rnic.CongestionControl, or a function (flow, now_us) that returns an object of one"
    )
    source: Any = control
    while isinstance(source, functools.partial):
        source = source.func
    if isinstance(source, type):
        if not issubclass(source, CongestionControl):
            raise TypeError(f"congestion = {source.__name__}; {accepted}")
        _check_hooks(source)
        _check_arguments(control, f"{source.__name__}.__init__")
        return source, source.marking, source.cnp_interval_us
    if isinstance(source, CongestionControl):
        raise TypeError(
            f"congestion is an object of {type(source).__name__}, but each flow needs an object of its own; "
            f"give the class: congestion={type(source).__name__}"
        )
    if not callable(source):
        raise TypeError(f"congestion = {control!r}; {accepted}")
    _check_arguments(control, getattr(source, "__name__", repr(source)))
    return None, getattr(source, "marking", None), getattr(source, "cnp_interval_us", None)


def _check_arguments(control: Callable[..., Any], name: str) -> None:
    """Refuses a class or function that cannot be called for a flow."""
    try:
        signature = inspect.signature(control)
    except (TypeError, ValueError):  # Not known for all functions in C.
        return
    try:
        signature.bind(None, 0.0)
    except TypeError as error:
        raise TypeError(
            f"{name}{signature} cannot be called for a flow: {error}; accepted: the arguments (flow, now_us), further "
            "ones with defaults"
        ) from None
