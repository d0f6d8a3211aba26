#!/usr/bin/env python3
"""Simulates the same flows with rnic and with htsim, and prints the flow completion times.

Usage: compare-htsim.py RNIC FOLDER, with the path of the program rnic, and the folder with the programs htsim_ndp and
htsim_roce. The script needs to run in its own folder, which also has the scenarios ndp.toml and roce.toml.

htsim sends whole packets only, so the script rounds the sizes of flows up to whole packets. A flow ends in htsim when
the last acknowledgement arrives at the sender, in rnic when the last byte arrives at the receiver; the script subtracts
the time that the acknowledgement takes on an idle path.
"""

import csv
import re
import subprocess
import sys
import tempfile
from pathlib import Path

RATE = 100e3  # bits per microsecond
DELAY = 1  # microseconds per link
ACK = 64  # bytes
SIZE = 900_000  # bytes of a flow in a permutation or incast

NDP = {
    "scenario": "ndp",
    "program": "htsim_ndp",
    "packet": 9000,
    "options": "-strat perm -q 8 -cwnd 22 -mtu 9000",
    "flow": r"flow_id (\d+) finished at ([\d.e+]+)",
}
ROCE = {
    "scenario": "roce",
    "program": "htsim_roce",
    "packet": 4000,
    "options": "-strat ecmp_host -paths 1 -queue_type lossless_input -q 1000 -mtu 4000",
    "flow": r"Flow Roce_(\d+)_\d+ \d+ finished at ([\d.e+]+)",
}
PERMUTATION = f'traffic={{ pattern = "permutation", sizes = "fixed {SIZE} B" }}'
POISSON = 'traffic={ pattern = "poisson", load = 0.5, sizes = "websearch", flows = 1000 }'


def incast(senders):
    total = senders * SIZE
    return f'traffic={{ pattern = "incast", senders = {senders}, total = "{total} B", receiver = 0 }}'


CASES = (
    [("NDP, one flow", NDP, 1, [incast(1)])]
    + [("NDP, permutation", NDP, seed, []) for seed in (1, 2, 3)]
    + [(f"NDP, incast of {senders}", NDP, 1, [incast(senders)]) for senders in (2, 5, 15)]
    + [("NDP, WebSearch, load 0.5", NDP, seed, [POISSON]) for seed in (1, 2, 3)]
    + [("RoCE, one flow", ROCE, 1, [incast(1)])]
    + [(f"RoCE, incast of {senders}", ROCE, 1, [incast(senders)]) for senders in (2, 5, 15)]
    + [("RoCE, permutation", ROCE, seed, [PERMUTATION]) for seed in (1, 2, 3)]
)


def output(*command, cwd=None):
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=cwd).stdout


def links(transport, src, dst):
    """Number of links between two hosts: of a fat-tree with k = 4 (NDP), or of leaves with 4 hosts each (RoCE)."""
    same_pod = src // 4 == dst // 4
    if transport is ROCE:
        return 2 if same_pod else 4
    if src // 2 == dst // 2:
        return 2
    return 4 if same_pod else 6


def compare(rnic, programs, transport, seed, settings, folder):
    """Completion times of all flows in microseconds: of rnic and of htsim, in the same order."""
    scenario, packet = transport["scenario"], transport["packet"]
    seed = ["--seed", str(seed)]
    generate = [word for setting in settings for word in ("--set", setting)]
    flows = csv.DictReader(output(rnic, "flows", f"{scenario}.toml", *seed, *generate).splitlines())
    with open(folder / "flows.csv", "w", newline="") as file:
        rounded = csv.DictWriter(file, ["start_us", "src", "dst", "bytes"], extrasaction="ignore")
        rounded.writeheader()
        for flow in flows:
            rounded.writerow(flow | {"bytes": -(-int(flow["bytes"]) // packet) * packet})
    traffic = f'traffic={{ pattern = "list", file = "{folder}/flows.csv" }}'
    selection = [f"{scenario}.toml", *seed, "--set", traffic]
    (folder / "topology").write_text(output(rnic, "topology", *selection, "--format", "htsim"))
    (folder / "flows").write_text(output(rnic, "flows", *selection, "--format", "htsim"))
    common = f"-nodes 16 -topo {folder}/topology -tm {folder}/flows -end 1000000 -o {folder}/log"
    options = common.split() + transport["options"].split()
    log = output(programs / transport["program"], *options, cwd=folder)  # it writes files into its working directory
    finished = {int(flow): float(at) for flow, at in re.findall(transport["flow"], log)}
    output(rnic, "run", *selection, "--quiet", "--flows", "csv", "--out", folder)
    with open(folder / scenario / "flows.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    ours, theirs = [], []
    for number, row in enumerate(rows, 1):
        src, dst = int(row["src"]), int(row["dst"])
        # htsim's program for NDP prints the number of a flow in the list, that for RoCE only its two hosts.
        end = finished[number if transport is NDP else src]
        ours.append(float(row["fct_us"]))
        theirs.append(end - float(row["start_us"]) - links(transport, src, dst) * (DELAY + ACK * 8 / RATE))
    return ours, theirs


def main():
    rnic, programs = (Path(path).resolve() for path in sys.argv[1:])
    print("| flows | seed | mean FCT, rnic | htsim | rnic / htsim | median | 95th percentile | last flow |")
    print("|---|---|---|---|---|---|---|---|")
    for name, transport, seed, settings in CASES:
        with tempfile.TemporaryDirectory() as folder:
            ours, theirs = compare(rnic, programs, transport, seed, settings, Path(folder))
        means = [sum(times) / len(times) for times in (ours, theirs)]
        ours.sort()
        theirs.sort()
        at = [int(len(ours) * 0.5), int(len(ours) * 0.95), -1]
        ratios = [means[0] / means[1]] + [ours[rank] / theirs[rank] for rank in at]
        values = [f"{mean:.1f} us" for mean in means] + [f"{ratio:.3f}" for ratio in ratios]
        print("| " + " | ".join([name, str(seed)] + values) + " |")


if __name__ == "__main__":
    main()
