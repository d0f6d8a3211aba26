"""What type checkers see."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from conftest import needs

#: A program with a correct use of each part of the package.
GOOD = """
import functools
import rnic

class Halving(rnic.CongestionControl):
    def __init__(self, flow: rnic.Flow, now_us: float, gain: float = 0.5) -> None:
        super().__init__(flow, now_us)
        self.gain = gain

    def on_ack(self, sample: rnic.AckSample) -> None:
        self.rate_bps += 1e6 * sample.acked

scenario = rnic.Scenario.load("irn/default")
results: rnic.Results = scenario.run(congestion=functools.partial(Halving, gain=0.1))
run = results["IRN"]
mean: float = run.slowdown.mean + run.sizes[0].fct_us.p99 + run.utilisation.links.max
dropped: int = run.packets.dropped
times: list[float | None] = results.flows()["fct_us"]
sizes: list[int] = results.flows("IRN")["bytes"]
half: float | None = scenario.run(seeds=3)["IRN"]["slowdown.p99"].half_width
cache: dict[rnic.Scenario, rnic.Results] = {scenario: results}
event_bytes = [max(event.queue_bytes) for event in scenario.stream() if event.event == "sample"]
scenario.run(congestion=Halving)
"""

#: Mistakes, each a line of a program, and a part of what mypy says about it.
WRONG = {
    "run.slowdwon": "has no attribute",
    "run.slowdown.p98": "has no attribute",
    "run.packets.droped": "has no attribute",
    "run.sizes[0].slowdown.man": "has no attribute",
    'results.flows()["fct"]': "No overload variant",
    'results.ports()["bytes"]': "No overload variant",
    'text: list[str] = results.flows()["bytes"]': "Incompatible types",
    "scenario.run(seeds=3).flows()": "has no attribute",
    "scenario.run(congestion=int)": "incompatible type",
    "rnic.AckSample.rtt": "has no attribute",
}


def mypy(folder: Path, text: str) -> list[str]:
    """What mypy says about a program."""
    (folder / "program.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(folder / "cache"), "program.py"],
        cwd=folder, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    # Without stubs of other packages, mypy has something to say about these.
    return [line for line in done.stdout.splitlines() if line.startswith("program.py:")]


def test_mypy_accepts_a_program_and_finds_its_mistakes(tmp_path: Path) -> None:
    needs("mypy")
    assert mypy(tmp_path, GOOD) == []
    said = mypy(tmp_path, GOOD + "\n".join(WRONG) + "\n")
    first = GOOD.count("\n") + 1
    for number, (line, expected) in enumerate(WRONG.items(), first):
        found = [text for text in said if text.startswith(f"program.py:{number}: error")]
        assert found and expected in found[0], (line, said)
