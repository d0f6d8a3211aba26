"""Campaigns: engines, faults, and what is refused."""

from __future__ import annotations

import concurrent.futures
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterable
from pathlib import Path

import pytest

import rnic
from conftest import COMMAND, SMALL, command, needs

#: Runs of the campaign that each engine executes. `RNIC_CAMPAIGN_RUNS=2000` is the long version.
RUNS = int(os.environ.get("RNIC_CAMPAIGN_RUNS", "40"))


def small(flows: int = 40) -> rnic.Scenario:
    return rnic.Scenario(name="small", **SMALL).with_({"traffic.flows": flows, "traffic.warmup": 4})


def campaign(name: str = "load", runs: int = RUNS, **more) -> rnic.Campaign:
    scenarios = {f"load {load}": small().with_({"traffic.load": load}) for load in (0.3, 0.6)}
    return rnic.Campaign(scenarios, name=name, **{"seeds": runs // 4, **more})


def content(results: rnic.CampaignResults) -> str:
    return results.status()[0]["content"]


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[dict]]:
    """The results of a loop without an engine: `rnic campaign run` with one thread."""
    folder = tmp_path_factory.mktemp("reference")
    campaign().save(folder / "load.jsonl")
    done = command("campaign", "run", str(folder / "load.jsonl"), "--threads", "1")
    assert done.returncode == 0, done.stderr
    results = rnic.load_campaign(folder / "load.results")
    assert len(results) == RUNS
    return content(results), list(results.table())


def check(results: rnic.CampaignResults, reference: tuple[str, list[dict]], engine: str) -> None:
    assert content(results) == reference[0]
    assert list(results.table()) == reference[1]
    table = results.table(provenance=True)
    assert set(table["provenance.engine"]) == {engine}
    assert set(table["provenance.code"]) == {rnic._rnic.code()}


@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_own_engines(engine: str, folder: Path, reference) -> None:

    results = campaign().run("results", engine, workers=2)
    check(results, reference, engine)
    again = campaign().run("results", engine, workers=2)
    assert len(again) == RUNS


def test_an_executor_of_the_user(folder: Path, reference) -> None:
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        check(campaign().run("results", pool), reference, "executor")


def test_shards_of_slurm(folder: Path, reference) -> None:
    campaign().save("load.jsonl")
    rnic_command = " ".join(COMMAND)
    script = command(
        "campaign", "submit", "load.jsonl", "--engine", "slurm", "--shards", "3", "--command", rnic_command,
        "--time", "1:00:00", "--option=--partition=cpu",
    )
    assert script.returncode == 0, script.stderr
    assert "#SBATCH --array=1-3\n" in script.stdout and "#SBATCH --partition=cpu\n" in script.stdout
    for task in range(1, 4):
        environment = {**os.environ, "SLURM_ARRAY_TASK_ID": str(task)}
        done = subprocess.run(["bash"], input=script.stdout, text=True, capture_output=True, env=environment)
        assert done.returncode == 0, done.stderr
        runs = len(rnic.load_campaign("load.results"))
        assert (runs < RUNS) == (task < 3), f"{runs} runs after task {task}"
    check(rnic.load_campaign("load.results"), reference, "threads")
    no_task = subprocess.run(["bash"], input=script.stdout, text=True, capture_output=True)
    assert no_task.returncode != 0 and "is set in a task of a job array" in no_task.stderr


def test_hyperqueue(folder: Path, reference) -> None:
    needs("hyperqueue")
    from hyperqueue.cluster import LocalCluster, WorkerConfig

    campaign().save("load.jsonl")
    with LocalCluster() as cluster:
        cluster.start_worker(WorkerConfig(cores=2))
        client = cluster.client()
        job = rnic.engines.submit_hyperqueue(client, "load.jsonl", "results", 3, command=COMMAND)
        client.wait_for_jobs([job])
        # Tasks leave no files in the current folder. The standard error of failed tasks stays in the store.
        assert sorted(path.name for path in folder.iterdir()) == ["load.jsonl", "results"]
        assert list((folder / "results/logs").iterdir()) == []
        job = rnic.engines.submit_hyperqueue(client, "missing.jsonl", "other", 1, command=COMMAND)
        with pytest.raises(Exception, match="have failed"):
            client.wait_for_jobs([job])
    check(rnic.load_campaign("results"), reference, "threads")
    [log] = (folder / "other/logs").iterdir()
    assert "missing.jsonl" in log.read_text()
    assert sorted(path.name for path in folder.iterdir()) == ["load.jsonl", "other", "results"]


def test_task_array_of_hyperqueue(folder: Path, reference) -> None:
    """The command `hq` is not on PyPI: a script does what its task array does."""
    campaign().save("load.jsonl")
    (folder / "bin").mkdir()
    hq = folder / "bin" / "hq"
    hq.write_text(
        "#!/bin/bash\nprintf '%s\\n' \"$@\" > submitted\nwhile [ \"$1\" != -- ]; do\n"
        '    if [ "$1" = --stderr ]; then stderr=$2; fi\n    shift\ndone\nshift\n'
        'for HQ_TASK_ID in 1 2 3; do export HQ_TASK_ID; "$@" 2> "$stderr" || exit; done\n'
    )
    hq.chmod(0o755)
    arguments = ["load.jsonl", "--engine", "hq", "--shards", "3", "--store", "my results", "--command", " ".join(COMMAND)]
    done = command("campaign", "submit", *arguments, "--go", env={"PATH": f"{folder}/bin:{os.environ['PATH']}"})
    assert done.returncode == 0, done.stderr
    submitted = (folder / "submitted").read_text().splitlines()
    stderr = f"{folder}/my results/logs/hq-%{{SERVER_UID}}-%{{JOB_ID}}-%{{TASK_ID}}.stderr"
    expected = ["submit", "--name", "rnic-load", "--array", "1-3", "--cpus", "1", "--stdout", "none", "--stderr", stderr]
    assert submitted[: len(expected) + 3] == [*expected, "--", "bash", "-c"]
    check(rnic.load_campaign("my results"), reference, "threads")
    own = command("campaign", "submit", *arguments, "--option=--stderr=mine", "--option=--stdout=too")
    assert "--cpus 1 --stderr=mine --stdout=too -- bash -c '" in own.stdout
    refused = command("campaign", "submit", "load.jsonl", "--engine", "hq", "--shards", "3", "--go", env={"PATH": "/nowhere"})
    assert refused.returncode == 2 and "there is no command `hq` here" in refused.stderr


def test_dask_with_a_killed_worker(folder: Path, reference) -> None:
    distributed = needs("distributed")
    with distributed.LocalCluster(
        n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster, distributed.Client(cluster) as client:
        store = folder / "results"

        def kill() -> None:
            while not any(pack.stat().st_size for pack in store.glob("runs/*.results")):
                time.sleep(0.005)
            os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        results = campaign().run(store, client)
        killer.join()
    check(results, reference, "dask")


@pytest.mark.skipif(not os.environ.get("RNIC_TEST_ALL"), reason="the start of Ray takes several seconds")
def test_ray(folder: Path, reference) -> None:
    ray = needs("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        check(campaign().run("results", rnic.engines.RayExecutor()), reference, "ray")
    finally:
        ray.shutdown()


def test_mpi(folder: Path, reference) -> None:
    """Two workers and a coordinator as three ranks of MPI."""
    if not shutil.which("mpirun") or subprocess.run([sys.executable, "-c", "from mpi4py import MPI"]).returncode:
        pytest.skip("mpirun or mpi4py is not installed")
    campaign().save("load.jsonl")
    Path("main.py").write_text(
        "import rnic\nfrom mpi4py.futures import MPIPoolExecutor\n"
        "if __name__ == '__main__':\n"
        "    with MPIPoolExecutor() as pool:\n"
        "        rnic.Campaign.load('load.jsonl').run('results', pool)\n"
    )
    start = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "3", sys.executable, "-m", "mpi4py.futures"]
    done = subprocess.run([*start, "main.py"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    check(rnic.load_campaign("results"), reference, "mpi4py")


def test_a_store_at_a_url(folder: Path, reference) -> None:
    fsspec = needs("fsspec")
    results = campaign().run("memory://bucket/load", "threads", workers=2)
    check(results, reference, "threads")
    files = fsspec.filesystem("memory")
    names = files.glob("/bucket/load/runs/*.results")
    assert 2 <= len(names) <= RUNS, "a file for each batch"
    files.pipe_file(names[0], files.cat_file(names[0])[:-3])
    files.rm(names[1])
    check(campaign().run("memory://bucket/load", "threads"), reference, "threads")


def test_killed_processes_lose_nothing(folder: Path, reference) -> None:
    """A worker is killed in the middle of a run that would take minutes; its run starts repeatedly, until it
    counts as lost. All others complete."""
    long = small(flows=50_000_000)
    scenarios = {f"load {load}": small().with_({"traffic.load": load}) for load in (0.3, 0.6)}
    both = rnic.Campaign({**scenarios, "long": long}, name="killed", runs="IRN", seeds=4 if RUNS > 16 else 1)
    ended = threading.Event()

    def kill() -> None:
        while not ended.wait(0.02):
            # Workers that are in the middle of a long run.
            for path in Path("results/workers").glob("*.jsonl") if Path("results/workers").exists() else ():
                lines = path.read_text().splitlines()
                last = json.loads(lines[-1]) if lines else {}
                if last.get("start", {}).get("run", "").startswith("long") and time.time() > last["start"]["at_s"] + 0.1:
                    try:
                        os.kill(json.loads(lines[0])["worker"]["pid"], signal.SIGKILL)
                    except ProcessLookupError:
                        pass

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        results = both.run("results", "processes", workers=2, retries=0, check=False)
    finally:
        ended.set()
        killer.join()
    rows = list(results.table())
    assert {row["status"] for row in rows if row["label"] == "long"} == {"lost"}
    assert {row["status"] for row in rows if row["label"] != "long"} == {"completed"}
    assert "were killed" in results.failures["failure"][0]
    known = {row["key"]: row for row in reference[1]}
    for row in rows:
        if row["key"] in known:
            assert row["slowdown.mean"] == known[row["key"]]["slowdown.mean"]


def test_a_killed_command_continues(folder: Path, reference) -> None:
    campaign().save("load.jsonl")
    start = subprocess.Popen([*COMMAND, "campaign", "run", "load.jsonl", "--threads", "2", "--quiet"])
    while not any(pack.stat().st_size for pack in Path("load.results").glob("runs/*.results")):
        time.sleep(0.002)
    start.kill()
    start.wait()
    before = len(rnic.load_campaign("load.results"))
    done = command("campaign", "run", "load.jsonl", "--threads", "2")
    assert done.returncode == 0, done.stderr
    assert f"{RUNS} of {RUNS} runs done, {before} of them before" in done.stderr
    check(rnic.load_campaign("load.results"), reference, "threads")


def stored(store: str, ending: str = "results") -> int:
    """Number of results in the packs of the folder `store`; of their records, if `ending` is "runs"."""
    packs = [path.read_bytes() for path in Path(store, "runs").glob(f"*.{ending}")]
    return sum(pack.count(b"\xf5rnic-1\n") for pack in packs)


def wait_for_runs(store: str, count: int, going: subprocess.Popen | None = None) -> None:
    """Returns when as many workers have begun a run in the folder `store`; the process `going` must live."""
    deadline = time.monotonic() + 60
    while sum("start" in path.read_text() for path in Path(store).glob("workers/*")) < count:
        assert going is None or going.poll() is None
        assert time.monotonic() < deadline, "the workers begin no run"
        time.sleep(0.01)


@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_ctrl_c_ends_the_runs(folder: Path, engine: str) -> None:
    """Only the coordinator gets the signal. Runs that it ends are not lost, because nobody killed their workers."""
    rnic.Campaign(small(flows=50_000_000), name="long").save("long.jsonl")
    Path("main.py").write_text(
        "import rnic\n"
        f"if __name__ == '__main__':\n    rnic.Campaign.load('long.jsonl').run('results', {engine!r}, workers=2)\n"
    )
    going = subprocess.Popen([sys.executable, "main.py"], stderr=subprocess.PIPE, text=True, start_new_session=True)
    wait_for_runs("results", 2, going)
    going.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in going.communicate(timeout=30)[1]
    assert going.returncode != 0
    status = rnic.load_campaign("results").status()[0]
    assert (status["missing"], status["workers"]) == (2, [])


def test_ctrl_c_while_a_thread_starts_ends_its_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The executor does not know the thread that Ctrl-C met at its start."""
    started: list[threading.Thread] = []
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        # The bar of tqdm has a thread too.
        if not thread.name.startswith("ThreadPoolExecutor"):
            return
        started.append(thread)
        if len(started) == 2:
            wait_for_runs("results", 2)
            raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        rnic.Campaign(small(flows=50_000_000), name="long").run("results", "threads", workers=2)
    for thread in started:
        thread.join(30)
    assert not any(thread.is_alive() for thread in started)
    assert rnic.load_campaign("results").status()[0]["missing"] == 2


def test_journals_are_in_the_folder_of_their_campaign(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two folders have the same relative name: the program changes its current folder."""
    for name in ("first", "second"):
        Path(name).mkdir()
        with monkeypatch.context() as inside:
            inside.chdir(name)
            campaign().run("results", "threads", workers=1)
    for name in ("first", "second"):
        journals = [path.read_text() for path in Path(name, "results/workers").iterdir()]
        assert sum(text.count('"end"') for text in journals) == RUNS


def test_a_full_disk_leaves_no_half_result(folder: Path) -> None:
    campaign(runs=8).save("load.jsonl")
    # Files may have at most 1024 bytes: the results are larger.
    limited = f"trap '' XFSZ; ulimit -f 1; exec {' '.join(COMMAND)} campaign run load.jsonl --store results"
    Path("results/manifests").mkdir(parents=True)
    shutil.copy("load.jsonl", "results/manifests/load.jsonl")
    done = subprocess.run(["bash", "-c", limited], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, done.stderr
    assert "cannot store a result in `results`" in done.stderr and "File too large" in done.stderr
    assert rnic.load_campaign("results").status()[0]["missing"] == 8
    assert command("campaign", "run", "load.jsonl", "--store", "results").returncode == 0
    assert len(rnic.load_campaign("results")) == 8


def test_damaged_results_are_simulated_again(folder: Path, reference) -> None:
    campaign().run("results", "threads", workers=1)
    [pack] = Path("results/runs").iterdir()
    damaged = bytearray(pack.read_bytes()[:-1])
    damaged[len(damaged) // 2] ^= 1
    pack.write_bytes(damaged)
    assert rnic.load_campaign("results").status()[0]["missing"] == 2
    check(campaign().run("results", "threads"), reference, "threads")


def test_failures_are_recorded(folder: Path) -> None:
    """A deadline that cannot be met fails each time."""
    late = small().with_({"limits.max_time": "20 us"})
    fails = rnic.Campaign({"good": small(), "late": late}, name="fails", runs="IRN")
    with pytest.raises(rnic.RunError, match="late: IRN") as raised:
        fails.run("results", "threads")
    assert list(raised.value.results.table()["status"]) == ["completed", "failed"]
    failure = list(raised.value.results.failures)
    assert [(f["point"], f["status"]) for f in failure] == [("late: IRN", "failed")]
    assert stored("results") == 2
    results = fails.run("results", "threads", check=False)
    assert stored("results") == 2, "it is not simulated again"
    assert results.estimates()["verdict"] == ["done", "undetermined"]
    shown = command("campaign", "status", "results")
    assert "1 completed, 1 failed, 0 missing" in shown.stdout and "late: IRN (seed 1, failed)" in shown.stdout
    fails.run("results", "threads", check=False, retry_failed=True)
    assert stored("results") == 3
    fails.save("fails.jsonl")
    done = command("campaign", "run", "fails.jsonl", "--store", "results")
    assert done.returncode == 1 and 'error: run "late: IRN", seed 1: failed:' in done.stderr


def test_seeds_until_the_interval_is_narrow(folder: Path) -> None:
    wanted = campaign(name="until", seeds=3, until="slowdown.mean ± 10 %", max_seeds=20)
    results = wanted.run("a", "threads", workers=2)
    points = list(results.estimates())
    assert len({row["seeds"] for row in points}) > 1, "the points need different numbers of seeds"
    for row in points:
        assert row["metric"] == "slowdown.mean"
        narrow = row["half_width"] <= 0.1 * row["mean"]
        assert row["verdict"] == ("done" if narrow else "wide") and (narrow or row["seeds"] == 20)
    wanted.save("until.jsonl")
    for shard in ("1/2", "2/2"):
        assert command("campaign", "run", "until.jsonl", "--store", "b", "--shard", shard).returncode == 0
    assert content(rnic.load_campaign("b")) == content(results)
    more = campaign(name="more", seeds=3, until="slowdown.mean ± 5 %", max_seeds=30).run("a", "threads")
    assert stored("a") == len(more), "the other campaign's runs are among them"


def test_the_settings_of_points_are_columns(folder: Path) -> None:
    swept = small().with_({"sweep": {"traffic.load": [0.3, 0.6]}})
    results = rnic.Campaign(swept, name="sweep", seeds=2).run("results", "threads")
    table = results.table()
    assert set(table["run"]) == {"IRN", "RoCE + PFC"} and set(table["traffic.load"]) == {0.3, 0.6}
    assert sorted(set(table["point"])) == sorted(swept.runs)
    assert table.columns[:4] == ["campaign", "run", "traffic.load", "seed"]
    points = results.estimates("slowdown.p99")
    assert points["run"] == ["IRN", "RoCE + PFC"] * 2 and points["point"] == swept.runs
    with pytest.raises(KeyError, match="`base` is now `run`, and the name with the swept values is `point`"):
        points["base"]
    needs("pandas")
    frame = results.to_pandas().pivot_table("slowdown.p99", "run", "traffic.load")
    assert frame.shape == (2, 2) and frame.notna().all(axis=None)
    wide = points.to_pandas().pivot(index="run", columns="traffic.load", values="mean")
    assert wide.loc["IRN", 0.6] == pytest.approx(frame.loc["IRN", 0.6])


def test_campaigns_and_their_results_can_be_pickled(folder: Path) -> None:
    wanted = campaign("stored", 4)
    again = pickle.loads(pickle.dumps(wanted))
    assert (again.name, again.points, again.seeds) == (wanted.name, wanted.points, wanted.seeds)
    results = again.run("results", "threads")
    other = pickle.loads(pickle.dumps(results))
    assert other.table() == results.table() and other.names == ["stored"]
    assert "<td" in results._repr_html_() and len(results._repr_html_()) < 1000


def test_two_campaigns_share_a_folder(folder: Path) -> None:
    one, two = campaign("one", 8), campaign("two", 16)
    one.run("results", "threads")
    results = two.run("results", "threads")
    assert len(results) == 16 and len(rnic.load_campaign("results")) == 24
    assert stored("results") == 16
    assert rnic.load_campaign("results", "one").names == ["one"]
    with pytest.raises(ValueError, match="has no campaign `three`; accepted: one, two"):
        rnic.load_campaign("results", "three")
    other = campaign("two", 4)
    with pytest.raises(ValueError, match="another campaign with the name `two`.*replace=True"):
        other.run("results", "threads")
    other.run("results", "threads", replace=True)
    everything = rnic.load_campaign("results")
    assert everything.gc(dry_run=True)["unused"] == 8
    assert everything.gc()["unused"] == 8
    assert stored("results") == 8 and len(everything) == 12


def test_results_are_not_removed_while_workers_simulate(folder: Path) -> None:
    rnic.Campaign(small(flows=50_000_000), name="long", runs="IRN").save("long.jsonl")
    going = subprocess.Popen([*COMMAND, "campaign", "run", "long.jsonl", "--quiet"])
    try:
        wait_for_runs("long.results", 1, going)
        status = rnic.load_campaign("long.results").status()[0]
        assert [worker["current"]["run"] for worker in status["workers"] if worker["alive"]] == ["IRN"]
        assert "run \"IRN\" seed" in command("campaign", "status", "long.results").stdout
        refused = command("campaign", "gc", "long.results")
        assert refused.returncode == 2 and "1 workers are simulating" in refused.stderr
    finally:
        going.send_signal(signal.SIGINT)
    assert going.wait(30) == 130
    assert command("campaign", "gc", "long.results").returncode == 0


def test_records_have_flows(folder: Path) -> None:
    results = campaign("flows", 4, records=True).run("results", "threads")
    flows = results.flows("load 0.3: IRN", 1)
    expected = small().with_({"traffic.load": 0.3}).run("IRN").flows("IRN")
    assert flows["fct_us"] == expected["fct_us"] and len(flows) == 40
    with pytest.raises(ValueError, match="is not stored; accepted"):
        campaign("none", 4).run("none", "threads").flows("load 0.3: IRN", 1)
    next(Path("results/runs").glob("*.runs")).unlink()
    assert stored("results", "runs") < 4
    campaign("flows", 4, records=True).run("results", "threads")
    assert stored("results", "runs") == 4


def test_one_dataset(folder: Path) -> None:
    pyarrow = needs("pyarrow")
    import pyarrow.parquet

    results = campaign().run("results", "threads")
    results.write("all.parquet")
    table = pyarrow.parquet.read_table("all.parquet")
    assert table.to_pydict()["slowdown.p99"] == results.table()["slowdown.p99"]
    done = command("campaign", "results", "results", "--out", "command.parquet")
    assert done.returncode == 0 and Path("command.parquet").read_bytes() == Path("all.parquet").read_bytes()
    results.write("all.csv")
    assert Path("all.csv").read_text().count("\n") == RUNS + 1
    assert len(results.to_pandas()) == RUNS
    with pytest.raises(ValueError, match="accepted: .parquet, .csv"):
        results.write("all.xlsx")


def checksum(lines: Iterable[str]) -> dict[str, str]:
    """The last line of a manifest with these lines."""
    return {"crc32": f"{zlib.crc32(''.join(lines).encode()):08x}"}


def test_a_manifest_is_checked(folder: Path) -> None:
    campaign().save("good.jsonl")
    *good, last = Path("good.jsonl").read_text().splitlines(keepends=True)
    assert json.loads(last) == checksum(good)
    head = json.loads(good[0])

    def edited(*lines: str) -> str:
        return "".join([*lines, json.dumps(checksum(lines)) + "\n"])

    Path("old.jsonl").write_text(edited(json.dumps({**head, "code": "0.0.1 1234"}) + "\n", *good[1:]))
    done = command("campaign", "run", "old.jsonl")
    assert done.returncode == 0 and "was written by rnic 0.0.1 1234, and this is rnic" in done.stderr
    assert rnic.Campaign.load("good.jsonl").points == campaign().points
    wrong = {
        "": "the file is empty",
        "hello": "this is no manifest",
        json.dumps({**head, "rnic_campaign": 3}): "this is a manifest of version 3; accepted: .* of version 1 or 2",
        json.dumps({**head, "other": 2}): "unknown field `other`",
        json.dumps({"name": "x"}): "this is no manifest",
        "".join(good[:-1]): "the file is truncated: it has 3 of 4 runs",
        "".join(good): "the file is truncated: it has no checksum at the end",
        "".join([*good, last]).replace("IRN", "irn"): "the file is damaged or was edited: the checksum of its lines is",
        "".join([*good, last, last]): "line 7: the file continues after its checksum",
        edited(*good, good[-1]): "line 6: there are more than the 4 runs",
        edited(*good[:-1], good[-1][:-20] + "\n"): "line 5: ",
        edited(*good[:-1], good[1]): "two runs have the name",
        edited(json.dumps({**head, "name": "../x"}) + "\n", *good[1:]): "is no name of a campaign",
        edited(json.dumps({**head, "runs": 2**40}) + "\n", *good[1:]): "line 1",
    }
    for text, message in wrong.items():
        Path("wrong.jsonl").write_text(text)
        with pytest.raises(ValueError, match=message):
            rnic.Campaign.load("wrong.jsonl")
        assert command("campaign", "run", "wrong.jsonl").returncode == 2
    with pytest.raises(OSError):
        rnic.Campaign.load("missing.jsonl")


def test_wrong_values_are_refused(folder: Path) -> None:
    for more, message in [
        ({"name": "a/b"}, "is no name of a campaign; accepted: 1 to 64"),
        ({"seeds": 0}, "seeds = 0; accepted: 1 or more"),
        ({"until": "slowdown ± 5 %"}, "there is no metric `slowdown`; accepted: slowdown.mean"),
        ({"until": "slowdown.mean"}, "accepted: a metric and a width"),
        ({"until": "slowdown.mean ± 5 %", "seeds": 1}, "1 seeds have no confidence interval; accepted: 2"),
        ({"until": "slowdown.mean ± 5 %", "confidence": 2.0}, "is no probability"),
        ({"max_seeds": 4}, "have no effect without `until`"),
    ]:
        with pytest.raises(ValueError, match=message):
            campaign(**more)
    with pytest.raises(ValueError, match='two runs have the name "IRN"'):
        rnic.Campaign([small(), small().with_({"traffic.load": 0.1})], name="x")
    with pytest.raises(ValueError, match='has cc = "python"'):
        rnic.Campaign(small().with_({"run.IRN.cc": "python"}), name="x")
    with pytest.raises(KeyError, match="unknown run"):
        rnic.Campaign(small(), name="x", runs="nothing")
    with pytest.raises(TypeError, match="int instead of a scenario"):
        rnic.Campaign(7, name="x")
    with pytest.raises(TypeError, match="until = 5; accepted: a condition as text"):
        campaign(until=5)
    with pytest.raises(TypeError, match="is no engine; accepted"):
        campaign().run("results", "slurm")
    with pytest.raises(ValueError, match="workers = 0"):
        campaign().run("results", workers=0)
    with pytest.raises(ValueError, match="retries = -1"):
        campaign().run("results", retries=-1)
    with pytest.raises(ValueError, match="`results` has no campaigns; accepted"):
        rnic.load_campaign("results")
    campaign().save("load.jsonl")
    for shard in ("0/3", "4/3", "1", "a/b", "-1/2"):
        refused = command("campaign", "run", "load.jsonl", f"--shard={shard}")
        assert refused.returncode == 2 and "accepted: i/n with i from 1 to n" in refused.stderr


def test_a_worker_of_another_version_is_refused(folder: Path) -> None:
    with pytest.raises(RuntimeError, match="a worker has the version .* install the same version for both"):
        rnic._rnic.work("results", "x", "threads", False, ([], []), None, "0.0.1 1234")


@pytest.mark.skipif("RNIC_CAMPAIGN_RUNS" not in os.environ, reason="10,000 runs: set RNIC_CAMPAIGN_RUNS")
def test_memory_is_flat_while_results_stream_in(folder: Path) -> None:
    program = """
import resource, rnic, sys
sys.path.insert(0, sys.argv[1])
from test_campaign import campaign
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
campaign("warm", 1000).run("results", "threads", workers=2)
before = peak()
campaign("many", 10000).run("results", "threads", workers=2)
print(before, peak())
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(Path(__file__).parent)], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    before, after = map(int, done.stdout.split())
    print(f"peak memory: {before} KiB after 1,000 runs, {after} KiB after 10,000")
    assert after < 1.25 * before
