#!/usr/bin/env python3
"""Compares ways to move data between two network namespaces over a virtual cable, side by side in one run.

    cargo build --release -p rnic-endpoint --example raw_udp
    sudo apt-get install libfabric-bin ucx-utils iproute2
    sudo crates/rnic-endpoint/benches/compare.py

What is measured, each several times in turns, so that what else the machine does strikes all:

    bandwidth   GB/s (10^9 bytes) of payload, messages of 1 MiB
    rate        million messages of 64 B per second
    latency     us, half a round trip of 64 B

A cell holds the median and, in brackets, the smallest and the largest value. A contender that is not installed is left out.
Only the Python standard library is needed. To add a contender, add its entry to CONTENDERS.
"""

import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

ROOT = Path(__file__).resolve().parents[3]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
RAW_UDP = TARGET / "release" / "examples" / "raw_udp"
SERVER, CLIENT = "10.79.0.2", "10.79.0.1"
# BTH, RETH and ICRC, with which a RoCEv2 packet is longer than its payload.
ROCE_HEADERS = 12 + 16 + 4


class Failed(Exception):
    """A contender did not give a result."""


@dataclass
class Test:
    """How one value is measured: the two commands, and how to read the client's output."""

    server: list[str]
    port: int
    client: list[str]
    parse: Callable[[str], float]


@dataclass
class Contender:
    """A program, and how it measures each value at an MTU. A value that it does not have is left out."""

    name: str
    program: str
    package: str
    tests: Callable[[int], dict[str, Test]]
    environment: dict[str, str] = field(default_factory=dict)
    note: str = ""


def raw_tests(mtu: int) -> dict[str, Test]:
    # The largest RoCEv2 path MTU that fits, so that its packets are compared with equal datagrams.
    payload = max(size for size in (1024, 2048, 4096) if size + ROCE_HEADERS + 28 <= mtu)
    serve = [str(RAW_UDP), "serve", f"{SERVER}:18515"]
    measure = [str(RAW_UDP), "measure", f"{SERVER}:18515", "--repeat", "1", "--modes", "gso+gro"]

    def column(index: int, scale: float = 1.0) -> Callable[[str], float]:
        return lambda text: float(find(r"^gso\+gro\t.*$", text).split("\t")[index]) * scale

    def rate(size: int) -> list[str]:
        return measure + ["--sizes", str(size), "--round-trips", "0"]

    half = lambda text: float(find(r"median ([0-9.]+) us", text)) / 2
    share = payload / (payload + ROCE_HEADERS)
    trips = measure + ["--sizes", "64", "--milliseconds", "1"]
    return {
        "bandwidth": Test(serve, 18515, rate(payload + ROCE_HEADERS), column(3, share)),
        "rate": Test(serve, 18515, rate(64 + ROCE_HEADERS), column(2)),
        "latency": Test(serve, 18515, trips, half),
    }


def libfabric_tests(_mtu: int) -> dict[str, Test]:
    command = ["fi_pingpong", "-p", "udp;ofi_rxd", "-e", "rdm"]

    def test(size: int, count: int, parse: Callable[[list[str]], float]) -> Test:
        options = ["-S", str(size), "-I", str(count)]
        # bytes #sent #ack total time MB/sec usec/xfer Mxfers/sec
        read = lambda text: parse(find(r"^[0-9]+[a-z]?\s.*$", text).split())
        return Test(command + options, 47592, command + options + [SERVER], read)

    return {
        "bandwidth": test(1 << 20, 100, lambda row: (1 << 20) / float(row[6]) / 1e3),
        "rate": test(64, 5000, lambda row: 1 / float(row[6])),
        "latency": test(64, 5000, lambda row: float(row[6])),
    }


def ucx_tests(_mtu: int) -> dict[str, Test]:
    def test(kind: str, size: int, count: int, column: str, scale: float) -> Test:
        options = ["-t", kind, "-s", str(size), "-n", str(count), "-w", "100", "-f", "-v"]

        def read(text: str) -> float:
            lines = text.strip().splitlines()
            heads = [at for at, line in enumerate(lines) if line.startswith("iterations,")]
            if not heads or heads[0] + 1 >= len(lines):
                raise Failed(f"no result in: {text.strip()[-200:]}")
            row = dict(zip(lines[heads[0]].split(","), lines[heads[0] + 1].split(",")))
            return float(row[column]) * scale

        return Test(["ucx_perftest"], 13337, ["ucx_perftest", SERVER] + options, read)

    return {
        # Its megabytes are 2^20 bytes.
        "bandwidth": test("ucp_put_bw", 1 << 20, 2000, "overall_bw", (1 << 20) / 1e9),
        "rate": test("ucp_am_bw", 64, 500_000, "overall_mr", 1e-6),
        "latency": test("ucp_am_lat", 64, 20_000, "50.0_percentile_lat", 1.0),
    }


CONTENDERS = [
    Contender(
        "raw UDP, GSO+GRO", str(RAW_UDP), "built by cargo build --release -p rnic-endpoint --example raw_udp", raw_tests,
        note="datagrams of a RoCEv2 packet's length without any protocol; nothing is acknowledged or checked",
    ),
    Contender(
        "libfabric udp;ofi_rxd", "fi_pingpong", "libfabric-bin", libfabric_tests,
        note="one message on the way at a time",
    ),
    Contender(
        "UCX over TCP", "ucx_perftest", "ucx-utils", ucx_tests,
        environment={"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "veth"},
        note="put for bandwidth, active messages for rate and latency",
    ),
]
UNITS = {"bandwidth": "GB/s", "rate": "M/s", "latency": "us"}


def find(pattern: str, text: str) -> str:
    """The first match, or its group if it has one."""
    match = re.search(pattern, text, re.MULTILINE)
    if match is None:
        raise Failed(f"no result in: {text.strip()[-200:]}")
    return match.group(match.lastindex or 0)


def ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"`ip {' '.join(arguments)}` failed: {done.stderr.strip()}")


class Namespaces:
    """Two namespaces joined by a virtual cable; gone at the end of a `with` block."""

    def __init__(self, mtu: int):
        self.mtu = mtu
        self.client, self.server = (f"rnic-compare-{os.getpid()}-{side}" for side in "ab")

    def __enter__(self) -> "Namespaces":
        for name in (self.client, self.server):
            ip("netns", "add", name)
        mtu = str(self.mtu)
        ip("-n", self.client, "link", "add", "veth", "mtu", mtu, "type", "veth",
           "peer", "name", "veth", "mtu", mtu, "netns", self.server)
        for name, address in ((self.client, CLIENT), (self.server, SERVER)):
            ip("-n", name, "address", "add", f"{address}/24", "dev", "veth")
            for device in ("lo", "veth"):
                ip("-n", name, "link", "set", device, "up")
        # The kernel brings up the cable some time after it was told.
        deadline = time.monotonic() + 10
        while not all(self.is_up(name) for name in (self.client, self.server)):
            if time.monotonic() > deadline:
                sys.exit("the virtual cable does not come up")
            time.sleep(0.05)
        return self

    def __exit__(self, *_exception: object) -> None:
        for name in (self.client, self.server):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)

    @staticmethod
    def is_up(name: str) -> bool:
        shown = subprocess.run(["ip", "-n", name, "link", "show", "veth"], capture_output=True, text=True)
        return "state UP" in shown.stdout

    @staticmethod
    def inside(name: str, command: list[str]) -> list[str]:
        return ["ip", "netns", "exec", name, *command]

    def listens(self, port: int) -> bool:
        command = self.inside(self.server, ["cat", "/proc/net/tcp", "/proc/net/tcp6"])
        tables = subprocess.run(command, capture_output=True, text=True).stdout
        return re.search(rf":{port:04X} [0-9A-F]+:0000 0A ", tables) is not None


def measure(spaces: Namespaces, contender: Contender, test: Test, timeout: float) -> float:
    environment = os.environ | contender.environment
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment}
    server = subprocess.Popen(spaces.inside(spaces.server, test.server), **quiet)
    try:
        deadline = time.monotonic() + timeout
        while not spaces.listens(test.port):
            if server.poll() is not None or time.monotonic() > deadline:
                raise Failed("the server did not start")
            time.sleep(0.05)
        client = subprocess.run(
            spaces.inside(spaces.client, test.client), capture_output=True, text=True, timeout=timeout, env=environment
        )
        if client.returncode != 0:
            raise Failed(f"exit code {client.returncode}: {client.stderr.strip()[-200:]}")
        return test.parse(client.stdout)
    except subprocess.TimeoutExpired:
        raise Failed(f"no result within {timeout:.0f} s") from None
    finally:
        server.kill()
        server.wait()


def run(mtu: int, repeat: int, timeout: float) -> dict[str, dict[str, list[float]]]:
    """Values by contender and by what was measured."""
    present = []
    for contender in CONTENDERS:
        if shutil.which(contender.program):
            present.append(contender)
        else:
            print(f"{contender.name}: {contender.program} is missing ({contender.package})", file=sys.stderr)
    values: dict[str, dict[str, list[float]]] = {contender.name: {} for contender in present}
    with Namespaces(mtu) as spaces:
        for turn in range(repeat):
            for contender in present:
                for what, test in contender.tests(mtu).items():
                    if sys.stderr.isatty():
                        print(f"\r\x1b[KMTU {mtu}, {turn + 1}/{repeat}: {contender.name}, {what}", end="", file=sys.stderr)
                    try:
                        value = measure(spaces, contender, test, timeout)
                        values[contender.name].setdefault(what, []).append(value)
                    except Failed as reason:
                        print(f"\n{contender.name}, {what}: {reason}", file=sys.stderr)
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    return values


def cell(values: list[float] | None, repeat: int) -> str:
    if not values:
        return "-"
    text = f"{statistics.median(values):.3f} ({min(values):.3f}..{max(values):.3f})"
    return text if len(values) == repeat else f"{text}, {repeat - len(values)} failed"


def table(values: dict[str, dict[str, list[float]]], repeat: int) -> str:
    rows = [["", *(f"{what} {unit}" for what, unit in UNITS.items())]]
    rows += [[name, *(cell(found.get(what), repeat) for what in UNITS)] for name, found in values.items()]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return "\n".join("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mtu", type=int, nargs="+", default=[1500, 9000], help="IP packet sizes of the cable")
    parser.add_argument("--repeat", type=int, default=5, help="measurements of each value")
    parser.add_argument("--timeout", type=float, default=120, help="seconds for one measurement")
    parser.add_argument("--json", type=Path, help="also write all values to this file")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("named network namespaces need root: run it with sudo")
    # So that the namespaces go when the script is told to.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))

    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    results = {}
    for mtu in options.mtu:
        results[mtu] = run(mtu, options.repeat, options.timeout)
        print(f"\nMTU {mtu}, median (smallest..largest) of {options.repeat}\n{table(results[mtu], options.repeat)}")
    print()
    for contender in CONTENDERS:
        print(f"{contender.name}: {contender.note}")
    if load > 0.5:
        print(f"The load average was {load:.1f} on {cores} cores at the start: other work shared the machine.")
    if options.json:
        options.json.write_text(json.dumps({"load": load, "cores": cores, "results": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
