"""Results of scenarios."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _html, _rnic
from .metrics import Distribution, Group, Metrics, RunResult
from .table import (
    CollectiveTable,
    FlowTable,
    GoodputTable,
    LinkTable,
    MatrixTable,
    MeshTable,
    PauseTable,
    PortTable,
    QueueTable,
    RequestTable,
    StepLinkTable,
    StepTable,
    Table,
    TimelineTable,
    VictimTable,
    WatchdogTable,
)

if TYPE_CHECKING:
    from .plot import Plot

__all__ = ["Distribution", "Group", "Metrics", "Report", "Results", "RunResult"]

#: The columns of the table that notebooks show, with their values.
SHOWN: tuple[tuple[str, Callable[[RunResult], object]], ...] = (
    ("run", lambda run: run.name),
    ("transport", lambda run: run.transport),
    ("cc", lambda run: run.cc),
    ("PFC", lambda run: "yes" if run.pfc else "no"),
    ("status", lambda run: run.status),
    ("slowdown", lambda run: (run["slowdown"] or {}).get("mean")),
    ("p99", lambda run: (run["slowdown"] or {}).get("p99")),
    ("FCT, us", lambda run: (run["fct_us"] or {}).get("mean")),
    ("p99, us", lambda run: (run["fct_us"] or {}).get("p99")),
    ("retransmitted", lambda run: run.packets.retransmitted),
    ("dropped", lambda run: run.packets.dropped),
)


class Report(str):
    """The HTML report of results: one page that needs no network. A notebook shows it in a frame."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        page = html.escape(self, quote=True)
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 800px; border: 0"></iframe>'

    def __repr__(self) -> str:
        return f"<rnic.Report: {len(self):,} characters of HTML; save them in a file, or show them in a notebook>"


class Results(Mapping[str, RunResult]):
    """The results of a scenario: `results["IRN"]` is the result of the run called IRN.

    Results can be copied and pickled, and compared by value: they are equal if the scenarios are equal and the runs had
    the same results; the time that the simulations took is ignored. `print(results)` prints the table of `rnic run`,
    and a notebook shows a table with a row for each run; `report()` as the last line of a cell shows the whole report.
    """

    def __init__(self, results: _rnic.Results) -> None:
        self._results = results
        self._summary: dict[str, Any] = json.loads(results.summary(True))
        self._runs = {run["name"]: RunResult(run) for run in self._summary["runs"]}

    def __getitem__(self, run: str) -> RunResult:
        try:
            return self._runs[run]
        except (KeyError, TypeError):
            known = ", ".join(f'"{name}"' for name in self._runs)
            raise KeyError(f'unknown run "{run}"; accepted: {known}') from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Results) and self._results.equals(other._results)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._results.state(),)

    def __copy__(self) -> Results:
        return self

    def __deepcopy__(self, memo: object) -> Results:
        return self

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

    def to_dict(self) -> dict[str, Any]:
        """The same as `summary()`: dictionaries, lists, numbers and text, which `json.dumps` accepts."""
        return self.summary()

    def _index(self, run: str | None) -> int | None:
        return None if run is None else list(self).index(self[run].name)

    def flows(self, run: str | None = None) -> FlowTable:
        """The flows of a run, or of all runs, in order of their start: a row for each flow.

        The columns are those of `flows.csv`: `run`, `flow`, `src`, `dst`, `bytes`, `start_us`, `finish_us`, `fct_us`,
        `ideal_us`, `slowdown`, `retransmitted`, `timeouts`, `request`, `traffic`, `measured`, `delivered_bytes`,
        `goodput_bps`. Columns of a flow that has not finished are null.
        """
        return FlowTable(self._results.flows(self._index(run)))

    def ports(self) -> PortTable:
        """Counters of each port and priority of all runs, as in `ports.csv`."""
        return PortTable(self._results.file("ports"))

    def queues(self) -> QueueTable:
        """Sampled queue lengths, as in `queues.csv`; no rows unless the scenario has `[watch]` with `queues`."""
        return QueueTable(self._results.file("queues"))

    def links(self) -> LinkTable:
        """Sampled utilisation of links, as in `links.csv`; no rows unless the scenario has `[watch]` with `links`."""
        return LinkTable(self._results.file("links"))

    def goodput(self) -> GoodputTable:
        """Sampled goodput of flows, as in `goodput.csv`; no rows unless the scenario has `[watch]` with `flows`."""
        return GoodputTable(self._results.file("goodput"))

    def pauses(self) -> PauseTable:
        """PFC pauses, as in `pauses.csv`; no rows unless the scenario has `[watch]` with `pauses`."""
        return PauseTable(self._results.file("pauses"))

    def victims(self) -> VictimTable:
        """Flows that PFC delays although they cause no congestion, as in `victims.csv`; needs `[watch]`, too."""
        return VictimTable(self._results.file("victims"))

    def meshes(self) -> MeshTable:
        """Round-trip times of the probes of meshes, as in `mesh.csv`."""
        return MeshTable(self._results.file("mesh"))

    def collectives(self) -> CollectiveTable:
        """Times and bandwidths of collective operations, as in `collectives.csv`."""
        return CollectiveTable(self._results.file("collectives"))

    def steps(self) -> StepTable:
        """Times of training steps, as in `steps.csv`."""
        return StepTable(self._results.file("steps"))

    def step_links(self) -> StepLinkTable:
        """The busiest links of each training step, as in `step_links.csv`."""
        return StepLinkTable(self._results.file("step_links"))

    def requests(self) -> RequestTable:
        """Times of the requests of inferences, as in `requests.csv`."""
        return RequestTable(self._results.file("requests"))

    def timeline(self) -> TimelineTable:
        """Tasks of ranks in the step that the traffic's `timeline` names, as in `timeline.csv`."""
        return TimelineTable(self._results.file("timeline"))

    def matrix(self) -> MatrixTable:
        """Payload between groups of hosts over time, as in `matrix.csv`; no rows without programs."""
        return MatrixTable(self._results.file("matrix"))

    def watchdog(self) -> WatchdogTable:
        """Pause storms that watchdogs found, as in `watchdog.csv`."""
        return WatchdogTable(self._results.file("watchdog"))

    def sweep(self) -> Table:
        """A row for each run of a sweep, with the swept values and the statistics, as in `sweep.csv`."""
        return Table(self._results.file("sweep"))

    def report(self) -> Report:
        """The HTML report: one page that needs no network. As the last line of a cell, a notebook shows it."""
        return Report(self._results.report())

    def write(self, folder: str | os.PathLike[str], flows: str | tuple[str, ...] = ()) -> list[Path]:
        """Writes the result files of `rnic run` into `folder`, and returns their paths.

        These are `summary.json`, `ports.csv`, `report.html`, and others if the scenario asks for them; `flows` adds
        `flows.csv` ("csv") or `flows.parquet` ("parquet"). The files have the same bytes as the files of the command,
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

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        names = list(self)
        more = f", and {len(names) - 4} more" if len(names) > 4 else ""
        runs = ", ".join(repr(name) for name in names[:4])
        return f"<rnic.Results of {self.scenario!r}, seed {self.seed}: {runs}{more}>"

    def _repr_html_(self) -> str:
        rows = ([of(run) for _, of in SHOWN] for run in self.values())
        caption = f"{self.scenario}, seed {self.seed}"
        return _html.table([name for name, _ in SHOWN], rows, caption=caption, count=len(self))


def _restored(state: Any) -> Results:
    return Results(_rnic.Results.of_state(state))
