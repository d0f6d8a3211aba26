"""Results of scenarios."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _rnic
from .table import Table

if TYPE_CHECKING:
    from .plot import Plot


class Metrics(Mapping[str, Any]):
    """A part of a summary: its keys are also attributes, `packets["dropped"]` is `packets.dropped`.

    The keys are those of `summary.json`, which the reference of result files describes, with their units.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getitem__(self, key: str) -> Any:
        return _wrapped(self._values[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError:
            known = ", ".join(self._values)
            raise AttributeError(f"there is no metric `{name}`; accepted: {known}") from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._values]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({json.dumps(self._values, ensure_ascii=False)})"


class Distribution(Metrics):
    """Statistics of a metric over the measured flows: mean, and nearest-rank percentiles."""

    mean: float
    p50: float
    p95: float
    p99: float
    p999: float


class Group(Metrics):
    """A group of flows, of a size class or of a traffic source."""

    name: str
    flows: int
    slowdown: Distribution | None
    fct_us: Distribution | None


def _wrapped(value: Any) -> Any:
    if isinstance(value, dict):
        if {"mean", "p50", "p99", "p999"} <= value.keys():
            return Distribution(value)
        if {"name", "flows", "slowdown", "fct_us"} <= value.keys():
            return Group(value)
        return Metrics(value)
    if isinstance(value, list):
        return [_wrapped(element) for element in value]
    return value


class RunResult(Metrics):
    """The statistics of one run, as attributes: those of `summary.json`, rounded to six digits as there.

    Besides the attributes that are listed here, a run has `sizes` and `traffic` (lists of `Group`), `utilisation`,
    `requests`, `goodput_bps`, `parameters`, and, if the scenario asks for them, `queues`, `pauses`, `watchdog` and
    `meshes`. Values that a run does not have are None, such as `slowdown` of a failed run.
    """

    #: Name of the run.
    name: str
    #: Name of the transport.
    transport: str
    #: Name of the congestion control.
    cc: str
    #: Whether the fabric uses PFC.
    pfc: bool
    #: How the run ended: "completed", "failed" or "interrupted".
    status: str
    #: Numbers of flows: offered, completed, measured, aborted.
    flows: Metrics
    #: Slowdown of the measured flows: their completion time, divided by that on an empty fabric.
    slowdown: Distribution | None
    #: Flow completion time of the measured flows, in microseconds.
    fct_us: Distribution | None
    #: Numbers of packets: data, control, retransmitted, dropped, lost, marked, hops, ...
    packets: Metrics
    #: Share of the sent data packets that was dropped, 0 to 1.
    drop_rate: float | None
    #: PFC pauses: frames, and time_us summed over all ports.
    pause: Metrics
    #: Number of retransmission timeouts.
    timeouts: int
    #: Mean completion time of requests, in microseconds.
    rct_us: float | None
    #: Simulated time at the end, in microseconds.
    sim_time_us: float
    #: Warnings for readers of the results, one sentence each.
    warnings: list[str]
    #: Duration of the simulation in seconds; it differs from run to run.
    wall_s: float
    #: CPU time of the simulation in seconds.
    cpu_s: float

    @property
    def failure(self) -> str | None:
        """Why the run failed, one sentence; None if it did not."""
        reason = self._values.get("failure")
        return None if reason is None else str(reason)


class Results(Mapping[str, RunResult]):
    """The results of a scenario: `results["IRN"]` is the result of the run called IRN."""

    def __init__(self, results: _rnic.Results) -> None:
        self._results = results
        self._summary: dict[str, Any] = json.loads(results.summary(True))
        self._runs = {run["name"]: RunResult(run) for run in self._summary["runs"]}

    def __getitem__(self, run: str) -> RunResult:
        try:
            return self._runs[run]
        except KeyError:
            known = ", ".join(f'"{name}"' for name in self._runs)
            raise KeyError(f'unknown run "{run}"; accepted: {known}') from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def scenario(self) -> str:
        """Name of the scenario."""
        return str(self._summary["scenario"])

    @property
    def seed(self) -> int:
        """Seed of the scenario."""
        return int(self._summary["seed"])

    def summary(self) -> dict[str, Any]:
        """All statistics as the document of `summary.json`: the same scenario and seed give the same document."""
        document: dict[str, Any] = json.loads(self._results.summary(False))
        return document

    def _index(self, run: str | None) -> int | None:
        return None if run is None else list(self).index(self[run].name)

    def flows(self, run: str | None = None) -> Table:
        """The flows of a run, or of all runs, in order of their start: a row for each flow.

        The columns are those of `flows.csv`: `run`, `flow`, `src`, `dst`, `bytes`, `start_us`, `finish_us`, `fct_us`,
        `ideal_us`, `slowdown`, `retransmitted`, `timeouts`, `request`, `traffic`, `measured`, `delivered_bytes`,
        `goodput_bps`. Columns of a flow that has not finished are null.
        """
        return Table(self._results.flows(self._index(run)))

    def ports(self) -> Table:
        """Counters of each port and priority of all runs, as in `ports.csv`."""
        return Table(self._results.file("ports"))

    def queues(self) -> Table:
        """Sampled queue lengths, as in `queues.csv`; no rows unless the scenario has `[watch]` with `queues`."""
        return Table(self._results.file("queues"))

    def goodput(self) -> Table:
        """Sampled goodput of flows, as in `goodput.csv`; no rows unless the scenario has `[watch]` with `flows`."""
        return Table(self._results.file("goodput"))

    def pauses(self) -> Table:
        """PFC pauses, as in `pauses.csv`; no rows unless the scenario has `[watch]` with `pauses`."""
        return Table(self._results.file("pauses"))

    def victims(self) -> Table:
        """Flows that PFC delays although they cause no congestion, as in `victims.csv`; needs `[watch]`, too."""
        return Table(self._results.file("victims"))

    def meshes(self) -> Table:
        """Round-trip times of the probes of meshes, as in `mesh.csv`."""
        return Table(self._results.file("mesh"))

    def watchdog(self) -> Table:
        """Pause storms that watchdogs found, as in `watchdog.csv`."""
        return Table(self._results.file("watchdog"))

    def sweep(self) -> Table:
        """A row for each run of a sweep with the swept values and the statistics, as in `sweep.csv`."""
        return Table(self._results.file("sweep"))

    def report(self) -> str:
        """The HTML report: one page that needs no network. A notebook shows the results as this report."""
        return self._results.report()

    def write(self, folder: str | os.PathLike[str], flows: str | tuple[str, ...] = ()) -> list[Path]:
        """Writes the result files of `rnic run` into `folder`, and returns their paths.

        These are `summary.json`, `ports.csv`, `report.html`, and others if the scenario asks for them; `flows` adds
        `flows.csv` ("csv") or `flows.parquet` ("parquet"). The files have the same bytes as those of the command,
        which also writes `command.json`.
        """
        formats = [flows] if isinstance(flows, str) else list(flows)
        return [Path(path) for path in self._results.write(os.fspath(folder), formats)]

    def table(self, width: int = 100) -> str:
        """The table that `rnic run` prints, at most `width` columns wide."""
        return self._results.table(width)

    @property
    def plot(self) -> Plot:
        """Figures with matplotlib: `results.plot.fct_cdf()` and others, see `rnic.plot.Plot`."""
        from .plot import Plot

        return Plot(self)

    def __repr__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        import html

        page = html.escape(self.report(), quote=True)
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 800px; border: 0"></iframe>'
