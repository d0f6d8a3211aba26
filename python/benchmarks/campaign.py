"""The cost of engines: a campaign of short runs on each of them, beside a bare loop over the same runs.

    python3 python/benchmarks/campaign.py [--workers N] [RUNS [ENGINE ...]]

With one worker less than processors, the engine's own processes (schedulers, servers) do not take the workers' time.
It prints a Markdown table. The time outside of simulations is that for reading specifications, statistics, files, and
the engine; the bare loop has the first two of these as well. It fails if an engine has other results than the others. Engines whose
packages are missing are left out.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import rnic

WORKERS = os.cpu_count() or 1
ENGINES = ["threads", "processes", "dask", "ray", "hyperqueue", "shards"]


def scenario(load: float) -> rnic.Scenario:
    """A run of a few milliseconds, so that the cost of the engines is seen."""
    return rnic.Scenario(
        name="short",
        fabric={"topology": "single-switch", "hosts": 8, "rate": "100 Gbps", "delay": "1 us"},
        traffic={"pattern": "poisson", "load": load, "sizes": "fixed 64 KB", "flows": 200, "warmup": 20},
        run=[{"name": "IRN", "transport": "irn"}, {"name": "RoCE + PFC", "transport": "roce", "pfc": True}],
    )


def campaign(runs: int) -> rnic.Campaign:
    loads = {f"load {load}": scenario(load) for load in (0.3, 0.6)}
    return rnic.Campaign(loads, name="short", seeds=max(1, runs // 4))


def bare(runs: int) -> None:
    for load in (0.3, 0.6):
        for seed in range(1, runs // 4 + 1):
            for run in ("IRN", "RoCE + PFC"):
                scenario(load).with_(seed=seed).run(run, threads=1)


def execute(engine: str, runs: int, store: str) -> float:
    """Seconds of the campaign, without the start of the engine."""
    work = campaign(runs)
    if engine == "dask":
        import distributed

        with distributed.LocalCluster(
            n_workers=WORKERS, threads_per_worker=1, dashboard_address=None
        ) as cluster, distributed.Client(cluster) as client:
            # The first task of a worker imports rnic.
            client.run(lambda: __import__("rnic").__version__)
            start = time.monotonic()
            work.run(store, client)
            return time.monotonic() - start
    if engine == "ray":
        import ray

        ray.init(num_cpus=WORKERS, include_dashboard=False, log_to_driver=False)
        pool = rnic.engines.RayExecutor()
        [future.result() for future in [pool.submit(time.sleep, 0.1) for _ in range(4 * WORKERS)]]
        start = time.monotonic()
        work.run(store, pool)
        end = time.monotonic() - start
        ray.shutdown()
        return end
    if engine == "hyperqueue":
        from hyperqueue.cluster import LocalCluster, WorkerConfig

        with LocalCluster() as cluster:
            cluster.start_worker(WorkerConfig(cores=WORKERS))
            work.save(f"{store}.jsonl")
            start = time.monotonic()
            client = cluster.client()
            client.wait_for_jobs([rnic.engines.submit_hyperqueue(client, f"{store}.jsonl", store, 2 * WORKERS)])
            return time.monotonic() - start
    if engine == "shards":
        work.save(f"{store}.jsonl")
        start = time.monotonic()
        command = [sys.executable, "-m", "rnic", "campaign", "run", f"{store}.jsonl", "--store", store, "--quiet"]
        command.append(f"--threads={WORKERS}")
        if os.spawnv(os.P_WAIT, sys.executable, command) != 0:
            raise RuntimeError("rnic campaign run failed")
        return time.monotonic() - start
    start = time.monotonic()
    work.run(store, engine, workers=WORKERS)
    return time.monotonic() - start


def main() -> None:
    global WORKERS
    parser = argparse.ArgumentParser(description="The cost of a campaign's engines.")
    parser.add_argument("runs", nargs="?", type=int, default=2000)
    parser.add_argument("engines", nargs="*", choices=[*ENGINES, []])
    parser.add_argument("--workers", type=int, default=WORKERS, help="workers of each engine (default: processors)")
    arguments = parser.parse_args()
    WORKERS = arguments.workers
    runs = max(arguments.runs - arguments.runs % 4, 4)
    start = time.monotonic()
    bare(runs)
    loop = time.monotonic() - start
    print(f"{runs} runs, {WORKERS} workers\n")
    print("| engine | seconds | worker's time per run | of it in the simulation | outside |")
    print("|---|---|---|---|---|")
    print(f"| bare loop, one thread | {loop:.2f} | {loop / runs * 1e3:.2f} ms | | |")
    contents = {}
    with tempfile.TemporaryDirectory() as folder:
        for engine in arguments.engines or ENGINES:
            store = str(Path(folder) / engine)
            try:
                seconds = execute(engine, runs, store)
            except ImportError:
                continue
            results = rnic.load_campaign(store)
            contents[engine] = (results.status()[0]["content"], len(results))
            per_run = seconds * WORKERS / runs
            # On a machine that does other things too, both become longer by the same factor.
            simulated = sum(results.table(provenance=True)["provenance.wall_s"]) / runs
            outside = 1 - simulated / per_run
            row = f"{seconds:.2f} | {per_run * 1e3:.2f} ms | {simulated * 1e3:.2f} ms | {outside:.1%}"
            print(f"| {engine} | {row} |", flush=True)
    if len(set(contents.values())) != 1:
        raise SystemExit(f"the engines have different results: {contents}")
    print(f"\nThe same {runs} results on each engine: {next(iter(contents.values()))[0]}")


if __name__ == "__main__":
    main()
