"""Scenarios: loading, changing, writing, and their mistakes."""

import collections

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
    assert (error.file, error.path, error.line, error.column) == ("traffic.load=2", "traffic.load", None, None)
    assert "--set" not in str(error) and str(error).startswith("traffic.load=2: ")


def test_mistakes_of_arguments_name_the_argument():
    def wrong(**tables) -> rnic.ScenarioError:
        with pytest.raises(rnic.ScenarioError) as raised:
            rnic.Scenario(**{**SMALL, **tables})
        assert raised.value.line is None and raised.value.column is None and "scenario:" not in str(raised.value)
        return raised.value

    error = wrong(fabric={**SMALL["fabric"], "rate": "100 Gbit"})
    assert error.path == "fabric.rate" and str(error).startswith("fabric.rate: ") and "100 Gbit" in error.message
    assert wrong(fabric={**SMALL["fabric"], "rte": 1}).path == "fabric.rte"
    assert wrong(fabric={"topology": "single-switch", "hosts": 4, "delay": "1 us"}).path == "fabric"
    assert wrong(run=[*SMALL["run"], {"name": "X", "transport": "udp"}]).path == "run.2.transport"
    assert wrong(traffic=[SMALL["traffic"], {**SMALL["traffic"], "name": "b", "load": 7}]).path == "traffic.1.load"
    assert wrong(sweep={"traffic.load": [0.2, 7]}).path == 'sweep."traffic.load".1'
    assert wrong(fabric={**SMALL["fabric"], "switch": {"buffer": "x"}}).path == "fabric.switch.buffer"


def test_a_path_of_a_mistake_is_a_path_of_a_change():
    tables = {**SMALL, "run": [*SMALL["run"], {"name": "X", "transport": "irn", "cc": "dcqnc"}]}
    with pytest.raises(rnic.ScenarioError) as raised:
        rnic.Scenario(**tables)
    fine = rnic.Scenario(**{**tables, "run": [*SMALL["run"], {"name": "X", "transport": "irn", "cc": "dcqcn"}]})
    assert 'cc = "timely"' in fine.with_({raised.value.path: "timely"}).to_toml()


def test_a_text_without_a_name_has_lines():
    text = rnic.Scenario(name="small", **SMALL).to_toml().replace("100 Gbps", "100 Gbit")
    with pytest.raises(rnic.ScenarioError) as raised:
        rnic.Scenario.from_toml(text)
    assert raised.value.line == 1 + text[: text.index("100 Gbit")].count("\n") and raised.value.path is None


def test_a_dictionary_replaces_a_table_and_says_so(small):
    changed = small.with_({"traffic": {"pattern": "permutation", "sizes": "fixed 64 KB"}})
    assert "poisson" not in changed.to_toml()
    with pytest.raises(rnic.ScenarioError, match='the value of "traffic" replaces the whole table; "traffic.load" changes'):
        small.with_({"traffic": {"load": 0.9}})


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, "7", (1,)])
def test_seeds_have_a_range(small, seed):
    with pytest.raises(ValueError, match="seed = .*; accepted: an integer from 0 to 18446744073709551615"):
        small.with_(seed=seed)


def test_numbers_and_sequences_of_python_are_values(small):
    numpy = pytest.importorskip("numpy")
    tables = {**SMALL, "fabric": {**SMALL["fabric"], "hosts": 8 / 2}, "traffic": {**SMALL["traffic"], "flows": 1e2, "load": 1.0}}
    made = rnic.Scenario(name="small", **tables)
    assert "hosts = 4\n" in made.to_toml() and "flows = 100\n" in made.to_toml() and "load = 1.0\n" in made.to_toml()
    assert small.with_({"traffic.flows": numpy.float64(100)}) == small.with_({"traffic.flows": 100})
    with pytest.raises(rnic.ScenarioError, match="4.5"):
        small.with_({"fabric.hosts": 4.5})
    for values in (range(100, 400, 100), (100, 200, 300), numpy.arange(100, 400, 100), numpy.array([100.0, 200, 300])):
        swept = small.with_({"sweep": {"traffic.flows": values}})
        assert swept == small.with_({"sweep": {"traffic.flows": [100, 200, 300]}})
    assert small.with_({"sweep": collections.OrderedDict({"traffic.flows": [100]})}).runs
    assert small.with_(seed=numpy.int64(5)) == small.with_(seed=5) and small.with_({"seed": 2**64 - 1}).seed == 2**64 - 1


def test_paths_are_values(small, folder):
    (folder / "flows.csv").write_text("start_us,src,dst,bytes\n0,0,1,5\n")
    traffic = {"pattern": "list", "file": folder / "flows.csv"}
    assert small.with_({"traffic": traffic}) == small.with_flows([(0, 0, 1, 5)])


def test_flows_cannot_be_selected_by_a_word(small):
    with pytest.raises(rnic.ScenarioError, match="samples all or none.*true"):
        small.with_({"watch.interval": "10 us", "watch.flows": "all"})
    assert small.with_({"watch.interval": "10 us", "watch.flows": True}).runs


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        (None, TypeError),
        (object(), TypeError),
        ({1: 2}, TypeError),
        (2**70, ValueError),
        ({1, 2}, TypeError),
        (b"0.5", TypeError),
    ],
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
