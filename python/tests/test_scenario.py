"""Scenarios: loading, changing, writing, and their mistakes."""

import pytest
from conftest import SMALL

import rnic


def test_every_built_in_scenario_can_be_loaded():
    names = rnic.scenarios()
    assert len(names) > 40 and names == sorted(names)
    for name in names:
        assert rnic.Scenario.load(name).runs, name


def test_files_and_built_in_scenarios_are_found_by_name(folder):
    scenario = rnic.Scenario.load("irn/default")
    assert (scenario.name, scenario.seed) == ("default", 1)
    assert "IRN" in scenario.runs and scenario.title == "IRN and RoCE, default case"
    (folder / "mine.toml").write_text(rnic.Scenario(name="small", **SMALL).to_toml())
    assert rnic.Scenario.load(folder / "mine.toml").runs == ["IRN", "RoCE + PFC"]
    with pytest.raises(rnic.ScenarioError, match="neither a file nor a built-in scenario.*irn/default"):
        rnic.Scenario.load("irn/defalt")
    with pytest.raises(FileNotFoundError) as error:
        rnic.Scenario.load("none.toml")
    assert error.value.filename == "none.toml"


def test_changes_make_a_copy(small):
    changed = small.with_({"traffic.flows": 50}, seed=9, **{"title": "changed"})
    assert (changed.seed, changed.title, small.seed) == (9, "changed", 1)
    assert changed.with_({"traffic.load": 0.1}).seed == 9, "a further copy keeps the changes"
    text = changed.to_toml()
    assert "seed = 9" in text and "flows = 50" in text and "flows = 200" in small.to_toml()


def test_toml_keeps_the_meaning(small):
    for scenario in (small, rnic.Scenario.load("irn/congestion"), rnic.Scenario.load("dcqcn/benchmark")):
        again = rnic.Scenario.from_toml(scenario.to_toml(), name=scenario.name)
        assert again.specs() == scenario.specs()
        assert len(again.specs()) == len(scenario.runs)
    for name in rnic.scenarios():
        scenario = rnic.Scenario.load(name)
        if ".csv" not in scenario.to_toml() and ".cdf" not in scenario.to_toml() and ".p4" not in scenario.to_toml():
            assert rnic.Scenario.from_toml(scenario.to_toml()).runs == scenario.runs, name


@pytest.mark.parametrize(
    ("path", "maximum", "beyond", "accepted"),
    [
        ("fabric.rate", "10 Tbps", "10001 Gbps", "more than zero, at most 10 Tbps"),
        ("fabric.mtu", "9 KB", "9001 B", "64 B to 9 KB"),
        ("fabric.clock_skew_ppm", 100_000, 100_001, "0 to 100000"),
        ("traffic.load", 1.0, 1.0001, "more than 0, at most 1"),
        ("limits.max_time", "2592000 s", "2592001 s", "at most 30 days"),
    ],
)
def test_values_have_the_ranges_of_scenario_files(small, path, maximum, beyond, accepted):
    assert small.with_({path: maximum}).runs == small.runs
    with pytest.raises(rnic.ScenarioError, match=f"accepted: {accepted}"):
        small.with_({path: beyond})


def test_values_of_numpy_are_values(small):
    numpy = pytest.importorskip("numpy")
    changed = small.with_({"traffic.load": numpy.float64(0.25), "traffic.flows": numpy.int32(70)})
    assert "load = 0.25" in changed.to_toml() and "flows = 70" in changed.to_toml()


def test_mistakes_have_positions(folder):
    text = rnic.Scenario(name="small", **SMALL).to_toml().replace("100 Gbps", "100 Gbit")
    (folder / "wrong.toml").write_text(text)
    with pytest.raises(rnic.ScenarioError) as raised:
        rnic.Scenario.load("wrong.toml")
    error = raised.value
    line = text.splitlines()[error.line - 1]
    assert error.file == "wrong.toml" and line[error.column - 1 :].startswith('"100 Gbit"')
    assert "100 Gbit" in error.message and "Gbps" in error.accepted
    assert str(error).startswith(f"wrong.toml:{error.line}:{error.column}: ")
    assert isinstance(error, ValueError) and [m.message for m in error.mistakes] == [error.message]


def test_all_mistakes_are_reported():
    tables = {**SMALL, "fabric": {**SMALL["fabric"], "rte": 1}, "traffic": {**SMALL["traffic"], "load": 7}}
    with pytest.raises(rnic.ScenarioError) as raised:
        rnic.Scenario(name="two", **tables)
    assert len(raised.value.mistakes) == 2
    assert str(raised.value).count("\n") == 1
    assert "did you mean `rate`" in raised.value.mistakes[0].accepted


def test_mistakes_of_changes_name_the_change(small):
    with pytest.raises(rnic.ScenarioError) as raised:
        small.with_({"traffic.load": 2})
    error = raised.value
    assert (error.file, error.line, error.column) == ("traffic.load=2", None, None)
    assert "--set" not in str(error)


@pytest.mark.parametrize(
    ("value", "wrong"),
    [(None, TypeError), (object(), TypeError), ({1: 2}, TypeError), (2**70, ValueError), ({1, 2}, TypeError)],
)
def test_values_that_are_not_toml_are_refused(small, value, wrong):
    with pytest.raises(wrong, match="traffic.load"):
        small.with_({"traffic.load": value})


def test_nested_values_are_bounded(small):
    value = []
    for _ in range(100):
        value = [value]
    with pytest.raises(ValueError, match="nested more than 32 levels"):
        small.with_({"traffic.load": value})


def test_runs_that_the_fabric_does_not_allow_are_scenario_errors(small):
    with pytest.raises(rnic.ScenarioError):
        small.with_({"fabric.switch.buffer": "1 KB"}).run()
