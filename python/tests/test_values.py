"""Scenarios, results and tables are values: they can be copied, pickled, compared, and written as JSON."""

from __future__ import annotations

import concurrent.futures
import copy
import inspect
import json
import multiprocessing
import os
import pickle
import subprocess
import sys

import pytest
from conftest import SMALL

import rnic
from rnic.metrics import ON_REQUEST, TIMING, Metrics, RunResult, flattened

FLOWS = [(0, 0, 1, 100_000), (1.5, 2, 1, 50_000), (0.000001, 3, 0, 1, 7, False)]


def copies(value):
    yield copy.copy(value)
    yield copy.deepcopy(value)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        yield pickle.loads(pickle.dumps(value, protocol))


def all_scenarios(small):
    (one, two) = (small.with_({"traffic.load": 0.25}, seed=2**64 - 1), small.with_flows(FLOWS))
    return [
        small,
        one,
        two,
        two.with_({"title": "x", "fabric.rate": "40 Gbps"}),
        rnic.Scenario.load("irn/default"),
        rnic.Scenario.load("irn/default").with_({"traffic.flows": 3000}, seed=3),
        rnic.Scenario.from_toml(small.to_toml(), name="text.toml"),
        rnic.Scenario(name="swept", **SMALL, sweep={"traffic.load": [0.5, 0.25]}),
    ]


def test_scenarios_are_values(small):
    scenarios = all_scenarios(small)
    assert len(set(scenarios)) == len(scenarios)
    for scenario in scenarios:
        for other in copies(scenario):
            assert other == scenario and hash(other) == hash(scenario) and {other: 1}[scenario] == 1
            assert other.specs() == scenario.specs() and repr(other) == repr(scenario)
    again = all_scenarios(rnic.Scenario(name="small", **SMALL))
    assert again == scenarios, "equal, although they were made independently"
    assert small != rnic.Scenario(name="other", **SMALL) and small != "small" and small != None  # noqa: E711


def test_a_pickled_scenario_can_be_changed_and_run(small):
    stored = pickle.dumps(small.with_flows(FLOWS))
    other = pickle.loads(stored)
    assert other.with_({"traffic.warmup": 0}, seed=4).run() == small.with_flows(FLOWS).with_({"traffic.warmup": 0}, seed=4).run()
    with pytest.raises(rnic.ScenarioError, match="^fabric.hosts=0: "):
        pickle.loads(pickle.dumps(rnic.Scenario(name="small", **SMALL))).with_({"fabric.hosts": 0})


def test_another_process_from_another_folder_reads_a_pickled_scenario(small, folder):
    (folder / "sizes.csv").write_text("bytes,cdf\n1000,0.5\n64000,1\n")
    (folder / "base.toml").write_text(small.to_toml())
    (folder / "mine.toml").write_text('extends = "base.toml"\n[traffic]\nload = 0.3\n')
    scenarios = [rnic.Scenario.load("mine.toml"), small.with_flows(FLOWS)]
    (folder / "stored").write_bytes(pickle.dumps(scenarios))
    (folder / "elsewhere").mkdir()
    program = "import pickle, sys; print([s.run('IRN').summary() for s in pickle.load(open(sys.argv[1], 'rb'))])"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder / "stored")],
        cwd=folder / "elsewhere", env=environment, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str([scenario.run("IRN").summary() for scenario in scenarios])


def simulate(scenario):
    return scenario.run("IRN")


def test_scenarios_go_to_other_processes_and_results_return(small):
    scenarios = [small, small.with_flows(FLOWS), small.with_(seed=5)]
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        found = list(pool.map(simulate, scenarios))
    assert found == [simulate(scenario) for scenario in scenarios]


def test_results_are_values(small, results):
    for other in copies(results):
        assert other == results and other.summary() == results.summary()
        assert other.flows() == results.flows() and other.report() == results.report()
        assert other.ports() == results.ports() and str(other) == str(results)
    assert small.run(threads=1) == results, "another execution"
    assert small.run(threads=1)["IRN"] == results["IRN"] and not small.run()["IRN"] != results["IRN"]
    assert small.with_(seed=2).run() != results and small.run("IRN") != results and results != 5
    with pytest.raises(TypeError, match="unhashable"):
        hash(results)
    swept = small.with_({"sweep": {"traffic.load": [0.2, 0.4]}, "watch": {"interval": "20 us", "queues": "all", "pauses": True}})
    watched = swept.run()
    again = pickle.loads(pickle.dumps(watched))
    assert again == watched and again.sweep() == watched.sweep() and again.queues() == watched.queues()
    failed = small.with_({"limits.max_time": "20 us"}).run(check=False)
    assert pickle.loads(pickle.dumps(failed)) == failed
    with pytest.raises(ValueError, match="the stored results are damaged"):
        title, name, seed, runs = results._results.state()
        rnic._rnic.Results.of_state((title, name, seed, [(runs[0][0], runs[0][1][:100])]))


def test_tables_are_values(small, results):
    flows = small.with_flows(FLOWS).run().flows()
    assert flows["request"] == [None, 7, None] * 2
    empty = small.run().queues()
    for table in (flows, results.flows("IRN"), results.ports(), empty, rnic.models.dcqcn(duration="1 ms")):
        for other in copies(table):
            assert other == table and type(other) is type(table) and other.to_dict() == table.to_dict()
            assert other.columns == table.columns and len(other) == len(table)
    assert results.flows("IRN") != results.flows() and results.flows() != results.ports() and flows != 5
    with pytest.raises(ValueError, match="the stored table is damaged"):
        columns, batches = flows._table.state()
        rnic._rnic.Table.of_state((columns, [batch[:3] for batch in batches]))


def test_metrics_are_json(small, results):
    run = results["IRN"]
    assert json.loads(json.dumps(run.slowdown)) == run.slowdown == run.slowdown.to_dict()
    assert json.loads(json.dumps(run)) == run.to_dict() and json.loads(json.dumps(dict(results))) == {
        name: found.to_dict() for name, found in results.items()
    }
    assert json.loads(json.dumps(results.to_dict())) == results.summary()
    assert json.loads(json.dumps(results.flows().to_dict())) == results.flows().to_dict()
    assert json.loads(json.dumps(list(results.ports()))) == list(results.ports())
    assert json.loads(json.dumps(next(small.stream())))["event"] == "started"
    plain = run.to_dict()
    plain["slowdown"]["mean"] = 0
    assert type(plain["packets"]) is dict and run.slowdown.mean > 0
    for other in copies(run):
        assert other == run and isinstance(other, RunResult) and isinstance(other.slowdown, rnic.Distribution)
    for change in (lambda: run.update(name="x"), lambda: run.slowdown.pop("mean"), lambda: run.packets.clear()):
        with pytest.raises(TypeError, match="results cannot be changed; to_dict"):
            change()
    with pytest.raises(TypeError, match="cannot be changed"):
        run["name"] = "x"


def test_a_scenario_as_dictionaries_makes_the_scenario(small, folder):
    for scenario in [*all_scenarios(small)[:2], rnic.Scenario(name="swept", **SMALL, sweep={"traffic.load": [0.5, 0.25]}, title="x")]:
        tables = json.loads(json.dumps(scenario.to_dict()))
        made = rnic.Scenario(name=scenario.name, **tables)
        assert made.specs() == scenario.specs() and made.runs == scenario.runs and made.seed == scenario.seed
    assert small.to_dict()["traffic"]["flows"] == 200 and list(small.to_dict()["run"][0]) == ["name", "transport"]
    with pytest.raises(ValueError, match="flows_file"):
        small.with_flows(FLOWS).to_dict()
    made = rnic.Scenario(name="small", **small.with_flows(FLOWS).to_dict("flows.csv"))
    assert made.specs() == small.with_flows(FLOWS).specs()


def test_representations_are_short(small, results):
    assert repr(results) == "<rnic.Results of 'small', seed 1: 'IRN', 'RoCE + PFC'>"
    assert repr(small) == "<rnic.Scenario 'small': small; seed 1; 2 runs>"
    run = results["IRN"]
    assert repr(run).startswith("<rnic.RunResult 'IRN': irn, completed, 200 of 200 flows; slowdown mean ")
    assert repr(run.slowdown).startswith("Distribution(mean=") and repr(run.pause) == "PauseTotals(frames=0, time_us=0)"
    for value in (results, small, results.flows(), results.ports()):
        page = value._repr_html_()
        assert page.startswith("<table>") and len(page) < 50_000 and "<script" not in page
    assert len(results._repr_html_()) < 3_000 and "RoCE + PFC" in results._repr_html_()
    hostile = small.with_({"title": "<script>", "run.IRN.name": "<b>"})
    assert "<script" not in hostile._repr_html_() and "<b>" not in hostile.run()._repr_html_()
    failed = small.with_({"limits.max_time": "20 us"}).run(check=False)
    assert "failed" in failed._repr_html_() and "failed" in repr(failed["IRN"])
    many = small.with_({"sweep": {"traffic.load": [0.1 + number / 100 for number in range(30)]}})
    assert "40 more rows" in many._repr_html_()
    assert len(repr(results.report())) < 100


def known(cls: type) -> set[str]:
    return {name for base in cls.__mro__ for name in inspect.get_annotations(base) if not name.startswith("_")}


def undeclared(metrics: Metrics, path: str) -> set[str]:
    """The keys of metrics that their classes do not declare, so that type checkers would refuse them."""
    found = set()
    if type(metrics) is not Metrics:
        found = {f"{path}.{key}" for key in metrics if key not in known(type(metrics)) | {"failure"}}
    for key, value in metrics.items():
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, Metrics):
                assert type(part) is not Metrics or key in ("parameters", "point"), f"{path}.{key} has no class"
                found |= undeclared(part, f"{path}.{key}")
    return found


RICH = {
    "watch.interval": "10 us",
    "watch.queues": "all",
    "watch.pauses": True,
    "sweep": {"traffic.load": [0.2, 0.8]},
    "limits.duration": "300 us",
}


def test_type_checkers_know_all_metrics(small):
    seen: set[str] = set()
    scenarios = [
        small.with_(RICH),
        rnic.Scenario.load("rogue/rpc").with_({"traffic.flows": 60, "traffic.warmup": 6}),
        rnic.Scenario.load("irn/default").with_({"traffic.flows": 300, "traffic.warmup": 30}),
    ]
    for scenario in scenarios:
        for name, run in scenario.run(check=False).items():
            assert undeclared(run, name) == set()
            seen |= run.keys()
    assert {"point", "truncated", "queues", "pauses"} <= seen <= known(RunResult) | {"failure"}
    assert set(TIMING) < seen and set(ON_REQUEST) < known(RunResult) | {"failure"}


def test_type_checkers_know_the_metrics_of_campaigns(small):
    """The metrics that the simulator declares are attributes with declared types."""
    run = small.run("IRN")["IRN"]
    numbers = flattened(run)
    for metric in rnic._rnic.metrics():
        value: type = RunResult
        *parts, last = metric.split(".")
        for part in parts:
            assert part in known(value), metric
            value = value._parts[part]
        assert last in known(value), metric
        assert metric in numbers or metric.startswith(("requests", "rct_us")), metric
