"""Simulations that a program drives."""

import pytest
from conftest import needs

import rnic

FABRIC = {"topology": "single-switch", "hosts": 4, "rate": "100 Gbps", "delay": "1 us"}
RUNS = [{"name": "IRN", "transport": "irn"}, {"name": "RoCE", "transport": "roce"}]


@pytest.fixture
def outside():
    return rnic.Scenario(fabric=FABRIC, traffic={"pattern": "outside", "largest": "1 MB"}, run=RUNS)


def test_a_driven_simulation_has_the_results_of_a_scenario(outside):
    flows = [(0.5 * index, index % 4, (index + 1 + index % 3) % 4, 30_000 + index) for index in range(60)]
    with rnic.Simulation(outside, "IRN") as simulation:
        numbers = []
        for until in range(0, 36, 3):
            now = [flow for flow in flows if until <= flow[0] < until + 3]
            assert simulation.submit(now) == range(len(numbers), len(numbers) + len(now))
            numbers += now
            simulation.advance(until + 3)
        done = simulation.completions()
        assert set(done.columns) == {"flow", "visible_us", "delivered_us", "known_us"}
        assert all(time <= 36 for time in done["visible_us"])
        results = simulation.finish()
    listed = rnic.Scenario(fabric=FABRIC, flows=flows, run=RUNS).run("IRN")
    columns = ["start_us", "src", "dst", "bytes", "fct_us", "retransmitted"]
    assert all(results.flows()[name] == listed.flows()[name] for name in columns)
    assert results.ports()["tx_bytes"] == listed.ports()["tx_bytes"]


def test_completions_cause_flows(outside):
    with rnic.Simulation(outside, "RoCE", threads=2) as simulation:
        assert (simulation.hosts, simulation.now_us, simulation.under_way) == (4, 0.0, 0)
        assert simulation.submit(src=[0, 1], dst=[2, 3], bytes=[1000, 2000]) == range(2)
        assert simulation.advance_to_completion() == simulation.now_us
        first = simulation.completions()
        assert first["flow"] == [0] and first["visible_us"] == [simulation.now_us] and simulation.under_way == 1
        assert abs(first["visible_us"][0] - first["delivered_us"][0] - simulation.reaction_us) < 1e-9
        at, ports = simulation.ports()
        assert at <= simulation.now_us and len(ports) == 8 and ports["node"][0] == "h0"
        assert simulation.advance_to_completion(1e3) is not None
        assert simulation.submit(start_us=simulation.now_us + 1, src=2, dst=0, bytes=64) == range(2, 3)
        assert simulation.finish()["RoCE"].flows.completed == 3


def test_arrays_and_tables(outside):
    numpy, pyarrow = needs("numpy"), needs("pyarrow")
    with rnic.Simulation(outside, "IRN") as simulation:
        hosts = numpy.arange(1000) % 3
        assert simulation.submit(start_us=numpy.linspace(0, 99, 1000), src=hosts, dst=3, bytes=500) == range(1000)
        table = pyarrow.table({"start_us": [100.0], "src": [0], "dst": [1], "bytes": [10]})
        assert simulation.submit(table) == range(1000, 1001)
        with pytest.raises(ValueError, match="column `dst` is missing"):
            simulation.submit(table.drop(["dst"]))
        simulation.advance(1e3)
        assert pyarrow.table(simulation.completions()).num_rows == 1001


def test_wrong_calls(outside, small):
    with pytest.raises(rnic.ScenarioError, match='pattern = "outside"'):
        rnic.Simulation(small, "IRN")
    with pytest.raises(ValueError, match="several runs"):
        rnic.Simulation(outside)
    with pytest.raises(rnic.RunError, match="another program submits the flows"):
        outside.run("IRN")
    simulation = rnic.Simulation(outside, "IRN")
    simulation.advance(5)
    for flows, message in [
        ([(4.9, 0, 1, 10)], "flow 0: starts at 4.9 us .* accepted: 5 us"),
        ([(5, 0, 1, 10), (5, 0, 0, 10)], "flow 1: from host 0 to host 0"),
        ([(5, 0, 1, 10**7)], "accepted: 1 to 1000000"),
        ([(5, 0, 1.5, 10)], "flow 0: dst is 1.5"),
        ([(-1, 0, 1, 10)], "start_us = -1 us"),
        ([(5, 0, 1)], "flow 0 has 3 values"),
    ]:
        with pytest.raises(ValueError, match=message):
            simulation.submit(flows)
    with pytest.raises(ValueError, match="`dst` has 1 values, but `src` has 2"):
        simulation.submit(src=[0, 1], dst=[2], bytes=10)
    with pytest.raises(TypeError, match="`bytes` is missing"):
        simulation.submit(src=0, dst=1)
    with pytest.raises(ValueError, match="is 5 us already"):
        simulation.advance(4)
    assert simulation.under_way == 0
    simulation.finish()
    with pytest.raises(RuntimeError, match="has been finished"):
        simulation.advance(6)
