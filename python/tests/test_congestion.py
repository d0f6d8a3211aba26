"""Congestion controls in Python."""

import math
import threading
import time

import pytest

import rnic


class Aimd(rnic.CongestionControl):
    """The algorithm of `cc = "aimd"`, in Python."""

    def __init__(self, flow, now_us):
        super().__init__(flow, now_us)
        self.rate_bps = math.inf
        self.packets = float(max(flow.bdp, 1))
        self.flight = self.hold = 0
        self.window = self.whole()

    def whole(self):
        return max(int(self.packets), 1)

    def on_ack(self, sample):
        self.flight = max(self.flight - sample.acked, 0, sample.in_flight)
        self.hold = max(self.hold - sample.acked, 0)
        if sample.in_flight + sample.acked >= self.whole():
            self.packets += 1.0 * sample.acked / self.packets
        self.window = self.whole()

    def on_loss(self, now_us, signal):
        if signal == "timeout" or self.hold == 0:
            self.packets = max(self.packets * 0.5, 1.0)
            self.hold = self.flight
        self.window = self.whole()


@pytest.fixture
def lossy():
    """An incast into a buffer that is too small for it."""
    return rnic.Scenario.load("irn/default").with_({"traffic.flows": 400, "traffic.warmup": 40, "fabric.switch.buffer": "60 KB", "fabric.switch.xoff": "40 KB"})


def python(scenario):
    return scenario.with_({"run.IRN.cc": "python"})


def test_an_algorithm_in_python_does_the_same_as_in_rust(lossy):
    expected = lossy.with_({"run.IRN.cc": "aimd"}).run("IRN")
    results = python(lossy).run("IRN", congestion=Aimd)
    assert expected["IRN"].packets.retransmitted > 100, "the congestion control has something to do"
    assert results.flows()["fct_us"] == expected.flows()["fct_us"]
    assert results["IRN"].cc == "python"
    none = lossy.run("IRN")
    assert none.flows()["fct_us"] != expected.flows()["fct_us"]


class Every(rnic.CongestionControl):
    """Notes all events."""

    marking = (5_000, 200_000, 0.01)
    cnp_interval_us = 50.0
    events: list = []

    def __init__(self, flow, now_us):
        super().__init__(flow, now_us)
        self.events.append(("new", now_us, flow.line_rate_bps, flow.base_rtt_us, flow.bdp, flow.mtu))
        self.next_timer_us = now_us + 5

    def on_send(self, now_us, packet_bytes):
        self.events.append(("send", now_us, packet_bytes))

    def on_ack(self, sample):
        self.events.append(("ack", sample.now_us, sample.rtt_us, sample.acked, sample.in_flight, sample.marked))

    def on_cnp(self, now_us):
        self.events.append(("cnp", now_us))
        self.rate_bps = max(self.rate_bps / 2, 1e8)

    def on_loss(self, now_us, signal):
        self.events.append(("loss", now_us, signal))

    def on_timer(self, now_us):
        self.events.append(("timer", now_us))
        self.next_timer_us = None


def test_all_hooks_are_called(lossy):
    Every.events = []
    results = python(lossy).run("IRN", congestion=Every)
    kinds = [event[0] for event in Every.events]
    for kind in ("new", "send", "ack", "cnp", "loss", "timer"):
        assert kinds.count(kind) >= 1, kind
    assert kinds.count("new") == 400 and kinds.count("send") == results["IRN"].packets.data
    sent = results["IRN"].packets.cnps
    assert results["IRN"].packets.marked > 0 and 0.9 * sent < kinds.count("cnp") <= sent, "a CNP may come after the end"
    (_, _, line_rate, base_rtt, bdp, mtu) = Every.events[0]
    assert line_rate == 40_000_000_000 and 10 < base_rtt < 50 and bdp > 50 and mtu == 1024
    assert {event[2] for event in Every.events if event[0] == "loss"} <= {"nack", "timeout"}
    first = list(Every.events)
    Every.events = []
    python(lossy).run("IRN", congestion=Every)
    assert Every.events == first, "the same seed gives the same calls"


def failing(method, action):
    def fail(self, *arguments):
        return action(self)

    return type("Failing", (rnic.CongestionControl,), {method: fail})


def divide(self):
    return 1 / 0


def setting(**attributes):
    return lambda self: [setattr(self, name, value) for name, value in attributes.items()]


@pytest.mark.parametrize(
    ("method", "action", "wrong", "message"),
    [
        ("on_ack", divide, ZeroDivisionError, "division by zero"),
        ("__init__", divide, ZeroDivisionError, "division by zero"),
        ("__init__", lambda self: None, AttributeError, "rate_bps"),
        ("on_ack", setting(rate_bps=-1), ValueError, "rate_bps = -1; accepted: 1000 bit/s or more"),
        ("on_ack", setting(rate_bps=math.nan), ValueError, "rate_bps = NaN"),
        ("on_ack", setting(rate_bps="fast"), TypeError, "must be real number"),
        ("on_ack", setting(window=0), ValueError, "window = 0; accepted: 1 packet"),
        ("on_ack", setting(next_timer_us=-5), ValueError, "next_timer_us = -5; accepted"),
        ("on_ack", setting(next_timer_us=1e-6), ValueError, "has no method on_timer"),
    ],
)
def test_mistakes_in_methods_end_the_simulation(lossy, method, action, wrong, message):
    start = time.monotonic()
    with pytest.raises(wrong, match=message):
        python(lossy.with_({"traffic.flows": 200_000})).run("IRN", congestion=failing(method, action))
    assert time.monotonic() - start < 5
    python(lossy).run("IRN", congestion=Aimd)


def test_a_timer_that_never_ends_is_a_mistake(lossy):
    class Stuck(rnic.CongestionControl):
        def __init__(self, flow, now_us):
            super().__init__(flow, now_us)
            self.next_timer_us = now_us + 1

        def on_timer(self, now_us):
            pass

    with pytest.raises(ValueError, match="accepted: a later time, or None"):
        python(lossy).run("IRN", congestion=Stuck)


def test_a_class_needs_a_run_and_a_run_a_class(lossy):
    with pytest.raises(ValueError, match="no effect: no run has cc"):
        lossy.run(congestion=Aimd)
    with pytest.raises(rnic.ScenarioError, match="there is no class"):
        python(lossy).run("IRN")
    with pytest.raises(AttributeError):
        python(lossy).run("IRN", congestion=int)
    marked = type("Marked", (Aimd,), {"marking": (5, 2, 0.5)})
    with pytest.raises(ValueError, match="kmin <= kmax"):
        python(lossy).run("IRN", congestion=marked)


def test_one_simulation_at_a_time(lossy):
    started, refused = threading.Event(), []

    class Slow(Aimd):
        def on_ack(self, sample):
            started.set()
            super().on_ack(sample)

    def other():
        started.wait(10)
        try:
            python(lossy).run("IRN", congestion=Aimd)
        except RuntimeError as error:
            refused.append(str(error))

    thread = threading.Thread(target=other)
    thread.start()
    python(lossy.with_({"traffic.flows": 3000})).run("IRN", congestion=Slow)
    thread.join()
    assert refused and "another simulation" in refused[0]
