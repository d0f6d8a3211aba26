"""Models, decoding of captures, topologies of networkx."""

import json
import shutil

import pytest
from conftest import command, needs

import rnic
from rnic import models


def test_dcqcn_equals_the_command(folder):
    out = command("model", "dcqcn", "-N", "4", "--set", "dcqcn.g=0.0625", "--duration", "20ms", "--format", "csv")
    rows = [line for line in out.stdout.splitlines() if not line.startswith("#")]
    table = models.dcqcn(flows=4, parameters={"g": 1 / 16}, duration="20 ms")
    assert len(table) == len(rows) - 1 == 201
    queue = rows[0].split(",").index("queue_bytes")
    for row, value in zip(rows[1:], table["queue_bytes"]):
        assert float(row.split(",")[queue]) == pytest.approx(value, rel=1e-5)
    assert max(table["queue_bytes"]) > 1000 and max(table["marking"]) > 0
    assert {"time_s", "flow0.rate_bps", "flow0.alpha"} <= set(table.columns)


def test_flows_of_a_model_may_differ():
    table = models.dcqcn(start=["40 Gbps", "0 Gbps"], duration="1 ms")
    assert (table["flow0.rate_bps"][0], table["flow1.rate_bps"][0]) == (40e9, 0)
    table = models.timely(flows=2, patched=True, duration="1 ms")
    assert table["flow0.rate_bps"][0] == 5e9 and "marking" not in table.columns


def test_fixed_points_of_many_numbers_of_flows():
    numpy = pytest.importorskip("numpy")
    table = models.dcqcn_fixed_points(numpy.array([2, 10, 100]), delay="20 us")
    assert table["flows"] == [2, 10, 100] and table["rate_bps"] == [20e9, 4e9, 0.4e9]
    assert table["valid"] == [True, True, False], "from 15 flows on the queue exceeds Kmax"


def test_buffers_of_many_switches(folder):
    document = json.loads(command("model", "buffers", "--format", "json").stdout)
    numpy = pytest.importorskip("numpy")
    table = models.buffers(delay=["500 ns", "5 us"], ports=numpy.array([32, 32]))
    assert document["headroom"]["needed_bytes"] == table["needed_headroom_bytes"][0] if "needed_bytes" in document.get("headroom", {}) else True
    assert table["needed_headroom_bytes"][1] - table["needed_headroom_bytes"][0] == 2 * 4_500 * 5
    published = models.buffers(headroom="22.4 KB")
    assert published["t_pfc_bytes"] == [pytest.approx(24_475)]
    assert models.buffers(headroom="1 KB")["safe"] == [False]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: models.dcqcn(rate="40"), "rate: "),
        (lambda: models.dcqcn(parameters={"beta": 1}), "no parameter `beta`; accepted: g, "),
        (lambda: models.dcqcn(parameters={"g": 7}), "g"),
        (lambda: models.dcqcn(flows=3, start=["1 Gbps", "2 Gbps"]), "2 values for 3 flows"),
        (lambda: models.dcqcn(duration="1 year"), "duration: "),
        (lambda: models.dcqcn(duration="1000 s"), "step"),
        (lambda: models.timely(packet="0 B"), "packet length is zero"),
        (lambda: models.buffers(ports=[1, 2], priorities=[1, 2, 3]), "accepted: one length"),
        (lambda: models.buffers(ports=0), "accepted: 1 to 65,536"),
    ],
)
def test_wrong_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_captures_become_tables(folder, small):
    (folder / "small.toml").write_text(small.to_toml())
    made = command("run", "small.toml", "--run", "IRN", "--pcap", "h0:s0=h0.pcapng", "--quiet")
    if made.returncode != 0:
        made = command("run", "small.toml", "--run", "IRN", "--pcap", "h0:sw0=h0.pcapng", "--quiet")
    assert made.returncode == 0, made.stderr
    table = rnic.decode(folder / "h0.pcapng")
    lines = [json.loads(line) for line in command("decode", "h0.pcapng", "--format", "json").stdout.splitlines()]
    assert len(table) == len(lines) > 100
    assert table["bth.psn"] == [line["bth"]["psn"] for line in lines]
    assert table["frame"] == [line["frame"] for line in lines] and set(table["bad"]) == {None}
    assert set(table["kind"]) == {"RoCEv2"}


def test_damaged_captures_are_refused(folder):
    with pytest.raises(FileNotFoundError):
        rnic.decode("none.pcap")
    (folder / "text.pcap").write_text("no capture" * 10)
    with pytest.raises(ValueError, match="cannot decode `text.pcap`: the file is neither pcap nor pcapng"):
        rnic.decode("text.pcap")


def star(networkx):
    graph = networkx.Graph()
    graph.add_edges_from([("a", "s"), ("b", "s"), ("s", "t"), ("c", "t")])
    graph.edges["s", "t"]["rate"] = "400 Gbps"
    return graph


def test_graphs_are_fabrics():
    networkx = needs("networkx")
    fabric = rnic.topology.fabric(star(networkx), rate="100 Gbps", delay="1 us")
    assert fabric["hosts"] == ["a", "b", "c"] and fabric["switches"] == ["s", "t"]
    traffic = {"pattern": "permutation", "sizes": "fixed 64 KB", "repeats": 1, "interval": "1 ms"}
    results = rnic.Scenario(fabric=fabric, traffic=traffic, run=[{"name": "IRN", "transport": "irn"}]).run()
    ports = results.ports()
    rates = {(row["node"], row["peer"]): row["rate_gbps"] for row in ports}
    assert rates[("s", "t")] == 400 and rates[("a", "s")] == 100
    assert results["IRN"].flows.completed == 3
    assert rnic.topology.fabric(star(networkx), hosts=["c", "a"])["hosts"] == ["c", "a"]


def test_wrong_graphs_are_refused():
    networkx = needs("networkx")
    graph = star(networkx)
    with pytest.raises(ValueError, match="directed"):
        rnic.topology.fabric(graph.to_directed())
    with pytest.raises(ValueError, match="no node 'x'"):
        rnic.topology.fabric(graph, hosts=["x"])
    with pytest.raises(ValueError, match="no hosts"):
        rnic.topology.fabric(networkx.cycle_graph(4))
    graph.edges["s", "t"]["weight"] = 3
    with pytest.raises(ValueError, match="attribute `weight`; accepted: rate, delay, loss"):
        rnic.topology.fabric(graph)
