"""Simulation and its results."""

import json
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time

import pytest
from conftest import command, needs, other_command

import rnic


def test_metrics_are_attributes(results):
    run = results["IRN"]
    assert run.status == "completed" and run.failure is None and run["status"] == "completed"
    assert run.flows.offered == run.flows.completed == 200 and run.flows.measured == 180
    assert 1 <= run.slowdown.p50 <= run.slowdown.p99 <= run.slowdown.p999
    assert isinstance(run.slowdown, rnic.Distribution) and isinstance(run.sizes[0], rnic.Group)
    assert run.packets.data > 200 and run.wall_s > 0
    with pytest.raises(AttributeError, match="no metric `p98`; did you mean `p99`. accepted: mean, p50"):
        run.slowdown.p98
    with pytest.raises(KeyError, match='unknown run "TCP"; accepted: "IRN", "RoCE \\+ PFC"'):
        results["TCP"]
    with pytest.raises(AttributeError, match="no metric `slowdwon`; did you mean `slowdown`"):
        run.slowdwon
    assert list(results) == ["IRN", "RoCE + PFC"] and "average" in str(results)


def test_runs_can_be_selected(small):
    assert list(small.run("IRN")) == ["IRN"]
    with pytest.raises(KeyError, match="unknown run"):
        small.run(["IRN", "TCP"])
    with pytest.raises(ValueError, match="threads = 0"):
        small.run(threads=0)
    with pytest.raises(TypeError, match="runs = 5; accepted: the name of a run"):
        small.run(5)


def test_results_do_not_depend_on_threads_but_on_the_seed(small):
    summary = small.run(threads=1).summary()
    assert small.run(threads=2).summary() == summary
    assert small.with_(seed=2).run().summary() != summary


#: The sentence of a report that quotes the command; a report that Python code wrote has no command.
COMMAND = re.compile(rb'<p class="meta">(All figures and tables|These figures) again: <code>[^<]*</code></p>\n?')


def files(folder):
    return {path.name: COMMAND.sub(b"", path.read_bytes()) for path in folder.iterdir() if path.name != "command.json"}


def assert_equal(found, expected, program):
    """Names the files that differ; their contents would be megabytes."""
    assert [name for name in expected.keys() | found.keys() if found.get(name) != expected.get(name)] == [], program


@pytest.mark.parametrize("scenario", ["irn/default", "rogue/rpc"])
def test_files_equal_those_of_the_command(folder, scenario):
    changes = {"irn/default": {"traffic.flows": 600, "traffic.warmup": 60}, "rogue/rpc": {"traffic.flows": 60, "traffic.warmup": 6}}[scenario]
    made = rnic.Scenario.load(scenario).with_(changes, seed=7)
    made.run(threads=2).write(folder / "python", flows=("csv", "parquet"))
    expected = files(folder / "python")
    assert {"summary.json", "report.html", "ports.csv", "flows.csv", "flows.parquet"} <= expected.keys()
    sets = [word for path, value in changes.items() for word in ("--set", f"{path}={value}")]
    commands = [[sys.executable, "-m", "rnic"]] + [found for found in [other_command()] if found]
    for number, program in enumerate(commands):
        out = folder / str(number)
        arguments = ["run", scenario, *sets, "--seed", "7", "--quiet", "--out", out, "--flows", "csv", "--flows", "parquet"]
        subprocess.run([*program, *arguments], check=True, stdout=subprocess.DEVNULL, timeout=300)
        assert b"All figures and tables again: <code>rnic run" in (out / made.name / "report.html").read_bytes()
        assert_equal(files(out / made.name), expected, program)


def test_the_summary_of_the_object_is_that_of_the_file(small, folder):
    results = small.run()
    results.write(folder)
    assert json.loads((folder / "summary.json").read_text()) == results.summary()


def test_progress_is_reported(small):
    states = []
    small.with_({"traffic.flows": 30000}).run(progress=lambda state: states.append(state))
    assert [row["run"] for row in states[0]] == ["IRN", "RoCE + PFC"]
    assert all(row["fraction"] == 1.0 for row in states[-1])
    assert len(states) > 1


def test_a_bar_without_tqdm_is_a_line_on_stderr(small, monkeypatch, capsys):
    for module in ("tqdm", "tqdm.auto"):
        monkeypatch.setitem(sys.modules, module, None)
    small.run(progress=True)
    output = capsys.readouterr()
    assert output.out == "" and "100%" in output.err and output.err.endswith("\n")


def test_a_bar_of_tqdm(small, capsys):
    needs("tqdm")
    small.run(progress=True)
    assert "100%" in capsys.readouterr().err


def long(small):
    return small.with_({"traffic.flows": 3_000_000})


def test_ctrl_c_ends_the_simulation_soon(small):
    sent = []

    def interrupt():
        time.sleep(0.5)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        long(small).run()
    assert time.monotonic() - sent[0] < 0.5


def test_other_threads_go_on(small):
    counted, ended = [0], threading.Event()

    def count():
        while not ended.is_set():
            counted[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    start = time.monotonic()
    small.with_({"traffic.flows": 60_000}).run()
    took, during = time.monotonic() - start, counted[0]
    ended.set()
    thread.join()
    assert took > 0.1 and during > 20 * took


def test_an_exception_of_the_progress_function_ends_the_simulation(small):
    def fail(_):
        raise ZeroDivisionError

    start = time.monotonic()
    with pytest.raises(ZeroDivisionError):
        long(small).run(progress=fail)
    assert time.monotonic() - start < 2


def test_failed_runs_raise_with_their_results(small):
    doomed = small.with_({"limits.max_time": "20 us"})
    with pytest.raises(rnic.RunError, match="the time limit was reached") as raised:
        doomed.run()
    results = raised.value.results
    assert results["IRN"].status == "failed" and results["IRN"]["slowdown"] is None
    assert "time limit" in results["IRN"].failure
    with pytest.raises(AttributeError, match='run "IRN" has no `slowdown`: it failed: .*time limit'):
        results["IRN"].slowdown
    with pytest.raises(AttributeError, match="a failed run has no utilisation"):
        results["IRN"].utilisation.hosts
    again = pickle.loads(pickle.dumps(raised.value))
    assert str(again) == str(raised.value) and again.results == results
    assert list(doomed.run(check=False)) == ["IRN", "RoCE + PFC"]


def test_the_report_is_one_page(results):
    page = results.report()
    assert page.lower().startswith("<!doctype html>") and "RoCE + PFC" in page
    shown = page._repr_html_()
    assert shown.startswith("<iframe srcdoc=") and "<script" not in shown


def test_the_command_has_the_exit_codes_of_the_program(folder):
    assert command("--version").stdout == f"rnic {rnic.__version__}\n"
    refused = command("run", "none.toml")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("error: cannot read `none.toml`")
    assert command("nothing").returncode == 2
    listed = command("list", "scenarios")
    assert listed.returncode == 0 and listed.stdout.count("\n") == len(rnic.scenarios())


def test_the_command_ends_with_ctrl_c_and_code_130(folder):
    process = subprocess.Popen(
        [sys.executable, "-m", "rnic", "run", "irn/default", "--set", "traffic.flows=1000000", "--out", "out"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    # The command makes the folder of its results after it has begun to listen to signals.
    while not os.path.exists("out"):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130 and b"interrupted" in errors and b"Traceback" not in errors


def test_a_closed_output_is_no_error(folder):
    listed = subprocess.run(f"{sys.executable} -m rnic schema | head -c 10", shell=True, capture_output=True, timeout=60)
    assert (listed.returncode, listed.stderr, len(listed.stdout)) == (0, b"", 10)
