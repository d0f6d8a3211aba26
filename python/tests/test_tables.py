"""Tables out and flows in."""

import csv
import gc
import math
import os

import pytest
from conftest import SMALL, needs

import rnic


def test_a_table_has_the_values_of_the_file(results, folder):
    results.write(folder, flows="csv")
    with open(folder / "flows.csv", newline="") as file:
        expected = list(csv.DictReader(file))
    table = results.flows()
    assert len(table) == len(expected) == 400 and table.columns == list(expected[0])
    assert [row["run"] for row in table] == [row["run"] for row in expected]
    for name in ("flow", "src", "dst", "bytes", "delivered_bytes"):
        assert table[name] == [int(row[name]) for row in expected], name
    for name in ("start_us", "fct_us", "slowdown", "goodput_bps"):
        values = [float(row[name]) for row in expected]
        assert all(math.isclose(a, b, rel_tol=1e-12) for a, b in zip(table[name], values)), name
    assert set(table["traffic"]) == {"poisson"} and set(table["request"]) == {None}
    assert sum(table["measured"]) == 360
    with pytest.raises(KeyError, match='no column "fct"; accepted: run, flow'):
        table["fct"]


def test_other_libraries_read_tables(results):
    pyarrow, polars, pandas, duckdb = (needs(name) for name in ("pyarrow", "polars", "pandas", "duckdb"))
    table = results.flows("IRN")
    arrow = pyarrow.table(table)
    assert arrow.column("fct_us").to_pylist() == table["fct_us"]
    assert arrow.schema.field("bytes").type == pyarrow.uint64()
    frame = polars.DataFrame(table)
    assert frame["slowdown"].to_list() == table["slowdown"] and frame.columns == table.columns
    assert list(table.to_pandas()["run"]) == ["IRN"] * 200
    assert duckdb.sql("select count(*) from arrow").fetchall() == [(200,)]
    if hasattr(pandas.DataFrame, "from_arrow"):
        assert list(pandas.DataFrame.from_arrow(table)["dst"]) == table["dst"]
    both = pyarrow.table(results.flows()).to_pandas()
    assert dict(both.groupby("run", observed=True).size()) == {"IRN": 200, "RoCE + PFC": 200}


def test_a_table_shares_its_memory(results):
    pyarrow = needs("pyarrow")
    table = results.flows("IRN")
    address = [pyarrow.table(table).column("fct_us").chunk(0).buffers()[1].address for _ in range(2)]
    assert address[0] == address[1], "two readers see the same memory: nothing is copied"
    arrow = pyarrow.table(table)
    expected = table["fct_us"]
    del table
    gc.collect()
    assert arrow.column("fct_us").to_pylist() == expected, "the memory lives as long as its readers"


def test_schema_and_stream_agree(results):
    pyarrow = needs("pyarrow")
    for table in (results.flows(), results.ports(), results.queues(), results.sweep()):
        assert pyarrow.schema(table) == pyarrow.table(table).schema


def test_tables_of_samples_and_pauses(small):
    watch = {"watch.interval": "10 us", "watch.queues": "all", "watch.links": "all", "watch.flows": True, "watch.pauses": True}
    results = small.with_(watch).run()
    assert len(results.queues()) > 10 and set(results.queues()["run"]) == {"IRN", "RoCE + PFC"}
    assert len(results.goodput()) > 10 and all(type(value) is float for value in results.goodput()["goodput_gbps"])
    assert results.pauses().columns[:3] == ["run", "node", "port"]
    ports = results.ports()
    assert all(type(value) is int for value in ports["tx_packets"]) and sum(ports["tx_packets"]) > 0


def test_a_sweep_has_a_row_for_each_run(small):
    swept = small.with_({"sweep": {"traffic.load": [0.2, 0.4]}})
    assert len(swept.runs) == 4
    table = swept.run().sweep()
    assert len(table) == 4 and table["traffic.load"] == [0.2, 0.2, 0.4, 0.4]
    assert list(swept.run("IRN")) == [name for name in swept.runs if name.startswith("IRN")]


FLOWS = [(0, 0, 1, 100_000), (1.5, 2, 1, 50_000), (0.000001, 3, 0, 1, 7, False)]


def test_flows_from_an_iterable(small):
    results = small.with_flows(flow for flow in FLOWS).run()
    table = results.flows("IRN")
    assert table["start_us"] == [0.0, 0.000001, 1.5] and table["bytes"] == [100_000, 1, 50_000]
    assert table["request"] == [None, 7, None] and table["measured"] == [True, False, True]
    keys = ("start_us", "src", "dst", "bytes", "request", "measured")
    dictionaries = [dict(zip(keys, flow)) for flow in FLOWS]
    assert small.with_flows(dictionaries).run().summary() == results.summary()


def test_flows_from_frames(small):
    pandas, polars = needs("pandas"), needs("polars")
    expected = small.with_flows(FLOWS[:2]).run().summary()
    columns = {"start_us": [0.0, 1.5], "src": [0, 2], "dst": [1, 1], "bytes": [100_000, 50_000]}
    for frame in (pandas.DataFrame(columns), polars.DataFrame(columns)):
        assert small.with_flows(frame).run().summary() == expected
    optional = polars.DataFrame({**columns, "request": [None, 3], "measured": [True, False]})
    table = small.with_flows(optional).run().flows("IRN")
    assert table["request"] == [None, 3] and table["measured"] == [True, False]


def test_the_flows_of_a_run_are_flows_of_another(small, results):
    again = small.with_flows(results.flows("IRN")).run("IRN")
    assert again.flows()["fct_us"] == results.flows("IRN")["fct_us"]


def test_flows_can_replace_traffic_and_go_to_a_file(small, folder):
    tables = {"fabric": {"topology": "single-switch", "hosts": 4, "rate": "100 Gbps", "delay": "1 us"}}
    made = rnic.Scenario(flows=FLOWS, run=[{"name": "IRN", "transport": "irn"}], **tables)
    assert made.run()["IRN"].flows.offered == 3
    with pytest.raises(ValueError, match="flows_file"):
        made.to_toml()
    text = made.to_toml(flows_file="flows.csv")
    assert rnic.Scenario.from_toml(text, name=made.name).run().summary() == made.run().summary()
    with pytest.raises(ValueError, match="no effect"):
        small.to_toml(flows_file="flows.csv")
    with pytest.raises(TypeError, match="exclude each other"):
        rnic.Scenario(flows=FLOWS, traffic={}, run=[])


def test_the_file_of_the_flows_is_removed(small):
    made = small.with_flows(FLOWS)
    path, changed = made._scenario.flows().path, made.with_({"title": "x"})
    del made
    gc.collect()
    assert os.path.exists(path) and changed.run()["IRN"].flows.offered == 3
    del changed
    gc.collect()
    assert not os.path.exists(path)


def test_other_traffic_replaces_the_flows(small):
    other = small.with_flows(FLOWS).with_({"traffic": SMALL["traffic"]})
    assert "poisson" in other.to_toml() and other == small


@pytest.mark.parametrize(
    ("flows", "wrong", "message"),
    [
        ([], ValueError, "no flows"),
        ("flows.csv", TypeError, "flows of the type str"),
        (7, TypeError, "flows of the type int"),
        ([(0, 0, 1)], ValueError, "flow 0: it has no `bytes`"),
        ([(0, 0, 1, 5), (0, 0, 1, 5, None, True, 3)], ValueError, "flow 1: it has more than six values"),
        ([{"start": 0}], ValueError, "unknown key `start`"),
        ([(0, "a", 1, 5)], TypeError, "flow 0: `src` is of the type"),
        ([(0, 0, 1, 5), (0, 0, 9, 5)], rnic.ScenarioError, "^flows: flow 1: .*9"),
        ([(0, 0, 1, -5)], rnic.ScenarioError, "^flows: flow 0: .*-5"),
        ([(float("nan"), 0, 1, 5)], ValueError, "no `start_us`"),
        ([(float("inf"), 0, 1, 5)], rnic.ScenarioError, "^flows: flow 0: start_us"),
        ([(0, 0, 1, 1.5)], rnic.ScenarioError, "^flows: flow 0: .*1.5"),
    ],
)
def test_wrong_flows_are_refused(small, flows, wrong, message):
    with pytest.raises(wrong, match=message) as raised:
        small.with_flows(flows)
    assert "rnic-flows" not in str(raised.value) and "csv" not in str(raised.value).replace("flows.csv", "")


def test_wrong_columns_are_refused(small):
    polars = needs("polars")
    columns = {"start_us": [0.0], "src": [0], "dst": [1], "bytes": [5]}
    for frame, message in (
        ({**columns, "sorce": [0]}, "unknown column `sorce`"),
        ({name: columns[name] for name in ("start_us", "src", "dst")}, "column `bytes` is missing"),
        ({**columns, "src": ["a"]}, "column `src` has the type"),
        ({**columns, "src": polars.Series([None], dtype=polars.Int64)}, "flow 0 has no `src`"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            small.with_flows(polars.DataFrame(frame))


def test_a_table_says_what_it_accepts(results):
    flows = results.flows()
    with pytest.raises(TypeError, match=r'table\[0\]: accepted is the name of a column, as in table\[.run.\]'):
        flows[0]
    assert repr(flows) == "<rnic.FlowTable: 400 rows of run, flow, src, dst, bytes, start_us, finish_us, fct_us, and 9 more columns>"
    shown = flows._repr_html_()
    assert shown.count("<tr>") == 21 and "380 more rows" in shown and len(shown) < 40_000
    assert "&lt;b&gt;" in rnic._html.table(["<b>"], [["<b>"]]) and "<b>" not in rnic._html.table(["<b>"], [["<b>"]])


def declared() -> dict[str, dict[str, str]]:
    """The columns of each table that type checkers know, with the types of their values: the overloads in the source."""
    import ast
    import inspect

    tables: dict[str, dict[str, str]] = {}
    for node in ast.parse(inspect.getsource(rnic.table)).body:
        if not isinstance(node, ast.ClassDef) or node.name == "Table":
            continue
        for function in (inner for inner in ast.walk(node) if isinstance(inner, ast.FunctionDef)):
            annotation = function.args.args[1].annotation
            if isinstance(annotation, ast.Subscript):
                names = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
                kind = ast.unparse(function.returns)[len("list[") : -1]
                tables.setdefault(node.name, {}).update({name.value: kind for name in names})
    return tables


def test_type_checkers_know_the_columns(small):
    watch = {"watch.interval": "10 us", "watch.queues": "all", "watch.flows": True, "watch.pauses": True}
    results = small.with_({**watch, "fabric.switch.xoff": "20 KB"}).run()
    samples = ("queues", "links", "goodput", "pauses", "victims")
    programs = ("collectives", "matrix", "steps", "step_links", "requests", "timeline")
    names = ("flows", "ports", *samples, "meshes", *programs, "watchdog")
    tables = [getattr(results, name)() for name in names]
    assert {type(table).__name__ for table in tables} == declared().keys()
    filled = 0
    for table in tables:
        kinds = declared()[type(table).__name__]
        assert set(kinds) == set(table.columns), table
        for name, kind in kinds.items():
            found = {type(value).__name__.replace("NoneType", "None") for value in table[name]}
            assert found <= set(kind.split(" | ")), (table, name, found)
            filled += bool(found)
    assert filled > 40


class Broken:
    def __init__(self, capsule):
        self.capsule = capsule

    def __arrow_c_stream__(self, requested_schema=None):
        return self.capsule


def test_a_false_stream_is_refused(small, results):
    schema = results.flows().__arrow_c_schema__()
    used = results.flows().__arrow_c_stream__()
    small.with_flows(Broken(used))
    for capsule in (None, 7, schema, used):
        with pytest.raises((TypeError, ValueError)):
            small.with_flows(Broken(capsule))
