#!/usr/bin/env python3
"""Simulates scenarios of this repository with and without `fast_forward`, and writes the errors and the gain.

Usage: compare-fast-forward.py RNIC OUTPUT.json, with the path of the program rnic. The script needs to run in the root
of the repository. It writes a record for the pages of the documentation (docs/results/data/fast-forward.json).

The CPU times of both runs of a row are measured one after the other on one thread, so their ratio means more than
either of them.
"""

import datetime
import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

BOUND = 0.01
INCAST = ['traffic={ pattern = "incast", senders = 8, total = "4 GB", receiver = "random", repeats = 2, interval = "1 ms" }']
FEW = ["traffic.flows=5000"]
FLOWS_ONLY = ['watch={ interval = "1 ms", flows = true }']
# Scenario, run, changes by `--set`, and what the row shows.
ROWS = [
    ("bench/long-flows", "IRN", [], "64 flows of 1 GB, each alone"),
    ("bench/long-flows", "RoCE + PFC", [], "the same with RoCE"),
    ("bench/long-flows", "RoCE + PFC + DCQCN", [], "the same with DCQCN"),
    ("bench/long-flows", "IRN + Swift", [], "the same with Swift"),
    ("bench/long-flows", "RoCE + PFC", INCAST, "two incasts of 8 x 500 MB, pauses"),
    ("bench/long-flows", "RoCE + PFC + DCQCN", INCAST, "the same with DCQCN"),
    ("bench/long-flows", "IRN + Swift", INCAST, "the same with Swift"),
    ("bench/long-flows", "IRN + HPCC", INCAST, "the same with HPCC"),
    ("dcqcn/parking-lot", "RED-like marking", [], "two bottlenecks, DCQCN"),
    ("pfc/head-of-line", "IRN without PFC", FLOWS_ONLY, "head-of-line blocking without PFC"),
    ("pfc/head-of-line", "RoCE + PFC", FLOWS_ONLY, "head-of-line blocking"),
    ("bench/permutation-1024", "IRN", [], "collisions that lose packets: no steady state"),
    ("irn/default", "IRN", FEW, "flows that come and go: no steady state"),
    ("irn/default", "RoCE + PFC", FEW, "the same with PFC"),
]


def simulate(rnic, scenario, run, changes, bound):
    """The run's part of the result of `rnic run`, or None."""
    changes = [*changes, f"fast_forward={bound}"] if bound else changes
    sets = [word for change in changes for word in ("--set", change)]
    with tempfile.TemporaryDirectory() as folder:
        command = [rnic, "run", f"scenarios/{scenario}.toml", "--run", run, "--format", "json"]
        command += ["--quiet", "--threads", "1", "--out", folder, *sets]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        return json.loads(done.stdout)["runs"][0]
    except (json.JSONDecodeError, KeyError, IndexError):
        print(f"{scenario}, {run}: {done.stderr.strip()}", file=sys.stderr)
        return None


def row(rnic, scenario, run, changes, shows):
    exact = simulate(rnic, scenario, run, changes, 0)
    fast = simulate(rnic, scenario, run, changes, BOUND)
    if not exact or not fast:
        return None

    def error(*path):
        a, b = exact, fast
        for key in path:
            a, b = (a or {}).get(key), (b or {}).get(key)
        return None if not a or b is None else round(100 * (b / a - 1), 2)

    forward = fast["fast_forward"]
    share = round(100 * forward["skipped_us"] / fast["sim_time_us"], 1)
    deviation = round(100 * forward["largest_deviation"], 2) if forward["checked"] else None
    faster = round(exact["cpu_s"] / max(fast["cpu_s"], 1e-6), 1)
    figures = [error("fct_us", "mean"), error("fct_us", "p99"), error("goodput_bps", "mean")]
    figures += [share, forward["skips"], forward["checked"], deviation, faster]
    print(scenario, run, shows, figures, exact["cpu_s"], fast["cpu_s"], flush=True)
    return [f"{scenario}, {run}: {shows}", *figures]


def main():
    rnic, output = sys.argv[1:]
    percent = [{"name": name, "suffix": " %", "right": True} for name in ("average FCT", "p99 FCT", "goodput", "skipped")]
    counts = [{"name": name, "right": True} for name in ("skips", "checked")]
    rest = [{"name": "largest deviation", "suffix": " %", "right": True}, {"name": "faster", "suffix": "x", "right": True}]
    rows = [row(rnic, *each) for each in ROWS]
    version = subprocess.run([rnic, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    commit = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=False)
    record = {
        "schema": 1,
        "title": "Errors and gain of fast_forward",
        "command": "scenarios/compare/compare-fast-forward.py target/release/rnic-simulator docs/results/data/fast-forward.json",
        "date": datetime.date.today().isoformat(),
        "version": version,
        "commit": commit.stdout.strip() or None,
        "machine": f"a virtual machine, {platform.machine()}",
        "imported": True,
        "values": {"scenarios": sum(1 for each in rows if each), "bound": BOUND},
        "tables": {"runs": {"columns": ["scenario", *percent, *counts, *rest], "rows": [each for each in rows if each]}},
    }
    Path(output).write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n")


main()
