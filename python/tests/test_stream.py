"""Events of a run."""

import _thread
import threading
import time

import pytest

import rnic

WATCH = {"watch.interval": "5 us", "watch.queues": "all", "watch.pauses": True}


def test_events_come_in_order_and_end_with_the_results(small):
    watched = small.with_(WATCH)
    stream = watched.stream("RoCE + PFC")
    events = list(stream)
    kinds = [event.event for event in events]
    assert kinds[0] == "started" and kinds[-1] == "finished" and kinds.count("sample") > 20
    assert events[0].run == "RoCE + PFC" and events[0].time_us is None
    samples = [event for event in events if event.event == "sample"]
    assert [event.time_us for event in samples] == [5.0 * index for index in range(len(samples))]
    assert any(max(event.queue_bytes) > 0 for event in samples)
    assert stream.results()["RoCE + PFC"].slowdown == watched.run()["RoCE + PFC"].slowdown
    assert next(stream, None) is None


def test_drops_sum_up_to_those_of_the_results(small):
    lossy = small.with_({**WATCH, "watch.pauses": False, "fabric.loss": 0.01, "fabric.switch.buffer": "20 KB"})
    stream = lossy.stream("IRN")
    rows = [row for event in stream if event.event == "drops" for row in event.ports]
    packets = stream.results()["IRN"].packets
    assert sum(row["dropped"] for row in rows) == packets.dropped > 0
    assert sum(row["lost"] for row in rows) == packets.lost > 0
    assert all(row["dropped"] + row["lost"] > 0 and row["priority"] == 0 for row in rows)


def test_until_ends_the_run(small):
    stream = small.with_(WATCH).stream("IRN", until="30 us")
    with pytest.raises(RuntimeError, match="has not ended"):
        stream.results()
    events = list(stream)
    assert events[-1].event == "finished" and events[-1].time_us == pytest.approx(30, abs=3)
    assert all(event.time_us <= 30 for event in events if event.event == "sample")
    run = stream.results()["IRN"]
    assert run.truncated.unfinished > 0 and run.flows.completed > 0
    late = small.stream("IRN", until="1 s")
    assert list(late)[-1].flows_done == 200 and late.results()["IRN"].slowdown == small.run()["IRN"].slowdown


def test_a_loop_can_be_left(small):
    for event in small.with_({"traffic.flows": 3_000_000}).stream():
        if event.event == "progress":
            break
    before = threading.active_count()
    with small.with_({"traffic.flows": 3_000_000}).stream() as stream:
        assert next(stream).event == "started"
    assert next(stream, None) is None and threading.active_count() == before


def test_ctrl_c_ends_the_wait_for_an_event(small):
    stream = small.with_({"traffic.flows": 3_000_000}).stream()
    threading.Timer(0.3, _thread.interrupt_main).start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        for _ in stream:
            pass
    assert time.monotonic() - start < 1


def test_wrong_arguments_are_refused(small):
    with pytest.raises(ValueError, match="until: "):
        small.stream(until="soon")
    with pytest.raises(TypeError, match="until = 5; accepted: a time with its unit as text"):
        small.stream(until=5)
    with pytest.raises(TypeError, match="run = 0; accepted: the name of a run"):
        small.stream(0)
    with pytest.raises(KeyError, match="unknown run"):
        small.stream("TCP")
    with pytest.raises(rnic.ScenarioError):
        small.with_({"fabric.switch.buffer": "1 KB"}).stream("RoCE + PFC")
