#!/usr/bin/env python3
"""Simulates scenarios of this repository with packets and with fluids, and writes the errors of the fluids.

Usage: compare-fidelity.py RNIC OUTPUT.json, with the path of the program rnic. The script needs to run in the root of
the repository. It writes a record for the pages of the documentation (docs/results/data/fidelity.json).

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

FEW = ["traffic.flows=5000"]
FLOWS_ONLY = ['watch={ interval = "1 ms", flows = true }']
LARGE = ['traffic.size="256 MB"', "traffic.repeats=1"]
COLLECTIVE = 'traffic={{ pattern = "collective", {}, repeats = 1, placement = "random" }}'
TREE = [COLLECTIVE.format('operation = "all-reduce", algorithm = "tree", size = "32 MB"')]
ALL_TO_ALL = [COLLECTIVE.format('operation = "all-to-all", size = "64 MB"')]
BURSTS = ["traffic.0.flows=3000"]
# Groups of rows, each with scenario, run, changes by `--set`, and what the row shows.
GROUPS = {
    "collectives": [
        ("collectives/all-reduce", "RoCE + PFC", [], "ring all-reduce, 32 MB"),
        ("collectives/all-reduce", "RoCE + PFC + DCQCN", [], "the same with DCQCN"),
        ("collectives/all-reduce", "IRN", [], "the same with IRN"),
        ("collectives/all-reduce", "IRN", LARGE, "256 MB"),
        ("collectives/all-reduce", "IRN", TREE, "tree all-reduce"),
        ("collectives/all-reduce", "IRN", ALL_TO_ALL, "all-to-all, 64 MB"),
        ("collectives/all-reduce", "IRN", [*ALL_TO_ALL, 'fabric.paths="spray"'], "all-to-all, sprayed"),
    ],
    "large": [
        ("bench/permutation-1024", "RoCE + PFC", [], "flows of 5 MB"),
        ("bench/permutation-1024", "IRN", [], "flows of 5 MB"),
        ("bench/permutation-1024", "IRN", ['fabric.paths="spray"'], "flows of 5 MB, sprayed"),
        ("irn/uniform", "IRN", ["traffic.flows=2000"], "500 KB to 5 MB"),
        ("irn/uniform", "RoCE + PFC", ["traffic.flows=2000"], "500 KB to 5 MB"),
        ("compare/roce", "RoCE + PFC", [], "large flows"),
        ("dcqcn/parking-lot", "RED-like marking", FLOWS_ONLY, "two bottlenecks, DCQCN"),
        ("dcqcn/unfairness", "DCQCN", FLOWS_ONLY, "unfairness"),
        ("dcqcn/unfairness", "PFC only", FLOWS_ONLY, "unfairness of PFC"),
        ("faults/link-down", "RoCE + PFC, DCQCN", [], "a link that fails"),
        ("rogue/sharing", "RoCE", [], "two flows"),
    ],
    "mixed": [
        ("irn/default", "IRN", [*FEW, "traffic.load=0.3"], "load 0.3"),
        ("irn/default", "IRN", FEW, "load 0.7"),
        ("irn/default", "IRN", [*FEW, 'fabric.paths="spray"'], "load 0.7, sprayed"),
        ("irn/default", "IRN", [*FEW, "fabric.loss=0.001"], "0.1 % random loss"),
        ("irn/default", "RoCE + PFC", FEW, "PFC at load 0.7"),
        ("irn/default", "RoCE, no PFC", FEW, "go-back-N without PFC"),
        ("bench/websearch-54", "IRN", FEW, "WebSearch"),
        ("bench/websearch-54", "RoCE + PFC", FEW, "WebSearch, PFC"),
        ("traffic/racks", "uniform", FEW, "uniform receivers"),
        ("traffic/racks", "half within racks", FEW, "locality"),
        ("traffic/bursts", "Poisson", BURSTS, "Poisson arrivals"),
        ("traffic/bursts", "on-off", BURSTS, "bursts"),
        ("pfc/head-of-line", "RoCE + PFC", FLOWS_ONLY, "head-of-line blocking"),
        ("pfc/head-of-line", "IRN without PFC", FLOWS_ONLY, "the same without PFC"),
        ("irn/incast", "IRN", ["traffic.repeats=20"], "incast"),
        ("irn/incast", "RoCE + PFC", ["traffic.repeats=20"], "incast, PFC"),
        ("irn/iwarp", "iWARP", FEW, "slow start"),
    ],
}
METRICS = [
    "average FCT",
    "99th percentile FCT",
    "average slowdown",
    "median slowdown",
    "mean goodput",
    "average request time",
    "average time of a collective",
]
TITLES = ["average FCT", "p99 FCT", "average slowdown", "median slowdown", "goodput", "request", "collective"]


def measure(rnic, scenario, run, changes):
    """The result of `rnic run --fidelity both` as (document, reason why there is none)."""
    sets = [word for change in changes for word in ("--set", change)]
    with tempfile.TemporaryDirectory() as folder:
        command = [rnic, "run", f"scenarios/{scenario}.toml", "--run", run, "--fidelity", "both", "--format", "json"]
        command += ["--quiet", "--threads", "1", "--out", folder, *sets]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        return json.loads(done.stdout), done.stderr.strip()
    except json.JSONDecodeError:
        return None, done.stderr.strip()


def row(rnic, scenario, run, changes, shows):
    document, why = measure(rnic, scenario, run, changes)
    if document is None or "fidelity_errors" not in document:
        print(f"{scenario}, {run}: {why}", file=sys.stderr)
        return None
    first = document["runs"][0]["name"]
    errors = {e["metric"]: e["error"] for e in document["fidelity_errors"] if e["run"] == first}
    packet = document["runs"][0]
    flow = next(run for run in document["runs"] if run["name"] == first + ", flow")
    percents = [None if errors.get(metric) is None else round(100 * errors[metric], 1) for metric in METRICS]
    faster = round(packet["cpu_s"] / max(flow["cpu_s"], 1e-6), 1)
    print(scenario, run, changes, percents, packet["cpu_s"], flow["cpu_s"], flush=True)
    return [f"{scenario}, {run}: {shows}", *percents, faster]


def main():
    rnic, output = sys.argv[1:]
    columns = ["scenario"]
    columns += [{"name": title, "suffix": " %", "right": True} for title in TITLES]
    columns += [{"name": "faster", "suffix": "x", "right": True}]
    tables = {}
    for name, rows in GROUPS.items():
        measured = [row(rnic, *each) for each in rows]
        measured = [each for each in measured if each]
        used = [0, *(i for i in range(1, len(columns)) if any(each[i] is not None for each in measured))]
        tables[name] = {
            "columns": [columns[i] for i in used],
            "rows": [[each[i] for i in used] for each in measured],
        }
    version = subprocess.run([rnic, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    commit = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=False)
    record = {
        "schema": 1,
        "title": "Errors of flows as fluids",
        "command": "scenarios/compare/compare-fidelity.py target/release/rnic docs/results/data/fidelity.json",
        "date": datetime.date.today().isoformat(),
        "version": version,
        "commit": commit.stdout.strip() or None,
        "machine": f"a virtual machine, {platform.machine()}",
        "imported": True,
        "values": {"scenarios": sum(len(table["rows"]) for table in tables.values())},
        "tables": tables,
    }
    Path(output).write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n")


main()
