"""Congestion controls in Python."""

import _thread
import concurrent.futures
import functools
import math
import threading
import time
import types

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
    with pytest.raises(TypeError, match="congestion = int; accepted: a subclass of rnic.CongestionControl"):
        python(lossy).run("IRN", congestion=int)
    with pytest.raises(TypeError, match="congestion = 5; accepted"):
        python(lossy).run("IRN", congestion=5)
    marked = type("Marked", (Aimd,), {"marking": (5, 2, 0.5)})
    with pytest.raises(ValueError, match="kmin <= kmax"):
        python(lossy).run("IRN", congestion=marked)


def test_misspelt_methods_are_refused(lossy):
    with pytest.raises(TypeError, match="Typo: there is no method .* `on_acks`; did you mean `on_ack`"):
        type("Typo", (rnic.CongestionControl,), {"on_acks": lambda self, sample: None})
    later = type("Later", (rnic.CongestionControl,), {})
    later.on_los = lambda self, now_us, signal: None
    with pytest.raises(TypeError, match="did you mean `on_loss`"):
        python(lossy).run("IRN", congestion=later)
    type("Helper", (rnic.CongestionControl,), {"_on_start": lambda self: None, "on_time": 5})


class Scaled(Aimd):
    """With a parameter."""

    marking = (5_000, 200_000, 0.01)

    def __init__(self, flow, now_us, factor=1.0, *, more=0):
        super().__init__(flow, now_us)
        self.packets *= factor
        self.window = self.whole()


def test_functions_make_objects(lossy):
    expected = python(lossy).run("IRN", congestion=Aimd).flows()["fct_us"]
    found = python(lossy).run("IRN", congestion=lambda flow, now_us: Aimd(flow, now_us))
    assert found.flows()["fct_us"] == expected
    scaled = functools.partial(Scaled, factor=0.5)
    half = python(lossy).run("IRN", congestion=functools.partial(scaled, more=1))
    assert half["IRN"].packets.marked > 0, "the class of a partial has the attribute `marking`"

    def marked(flow, now_us):
        return Scaled(flow, now_us, 0.5)

    marked.marking = Scaled.marking
    assert python(lossy).run("IRN", congestion=marked) == half
    with pytest.raises(TypeError, match="the function `congestion` returned None; accepted: an object of a subclass"):
        python(lossy).run("IRN", congestion=lambda flow, now_us: None)


def test_what_cannot_be_called_is_refused(lossy):
    empty = type("Empty", (rnic.CongestionControl,), {"__init__": lambda self: None})
    with pytest.raises(TypeError, match=r"Empty.__init__\(\) cannot be called for a flow: .*; accepted: the arguments \(flow, now_us\)"):
        python(lossy).run("IRN", congestion=empty)
    with pytest.raises(TypeError, match="cannot be called for a flow"):
        python(lossy).run("IRN", congestion=lambda flow: None)
    flow = types.SimpleNamespace(line_rate_bps=1, bdp=1)
    with pytest.raises(TypeError, match="each flow needs an object of its own; give the class: congestion=Aimd"):
        python(lossy).run("IRN", congestion=Aimd(flow, 0.0))


def test_simulations_of_several_threads_wait_for_each_other(lossy):
    expected = python(lossy).run("IRN", congestion=Aimd)
    none = lossy.run("IRN").flows()["fct_us"]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        runs = [pool.submit(python(lossy).run, "IRN", congestion=Aimd) for _ in range(4)]
        plain = pool.submit(lossy.run, "IRN")
        assert all(run.result() == expected for run in runs)
        assert plain.result().flows()["fct_us"] == none


def test_a_run_without_a_class_does_not_take_that_of_another_thread(lossy):
    started, go_on, refused = threading.Event(), threading.Event(), []

    class Slow(Aimd):
        def on_ack(self, sample):
            if not started.is_set():
                started.set()
                go_on.wait(20)
            super().on_ack(sample)

    def other():
        started.wait(20)
        try:
            python(lossy).run("IRN")
        except rnic.ScenarioError as error:
            refused.append(str(error))
        go_on.set()

    thread = threading.Thread(target=other)
    thread.start()
    python(lossy).run("IRN", congestion=Slow)
    thread.join()
    assert refused and "there is no class" in refused[0]


def test_ctrl_c_ends_the_wait_for_another_simulation(lossy):
    started, go_on = threading.Event(), threading.Event()

    class Slow(Aimd):
        def on_ack(self, sample):
            started.set()
            go_on.wait(20)
            super().on_ack(sample)

    thread = threading.Thread(target=lambda: python(lossy).run("IRN", congestion=Slow))
    thread.start()
    started.wait(20)
    threading.Timer(0.2, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        python(lossy).run("IRN", congestion=Aimd)
    go_on.set()
    thread.join()


def test_a_method_cannot_start_a_simulation_with_a_class(lossy):
    class Nested(Aimd):
        def on_ack(self, sample):
            python(lossy).run("IRN", congestion=Aimd)

    with pytest.raises(RuntimeError, match="cannot start another simulation"):
        python(lossy).run("IRN", congestion=Nested)
    with pytest.raises(RuntimeError, match="cannot start another simulation"):
        big = python(lossy.with_({"traffic.flows": 20_000}))
        big.run("IRN", congestion=Aimd, progress=lambda _: python(lossy).run("IRN", congestion=Aimd))
    python(lossy).run("IRN", congestion=Aimd)
