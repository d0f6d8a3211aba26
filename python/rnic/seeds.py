"""Results of several seeds, with confidence intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from . import _html, _rnic
from .metrics import Metrics, flattened, unknown
from .results import Results
from .table import Table

#: The metrics that notebooks show, with their headings.
SHOWN = (
    ("slowdown.mean", "slowdown"),
    ("slowdown.p99", "p99"),
    ("fct_us.mean", "FCT, us"),
    ("fct_us.p99", "p99, us"),
    ("packets.dropped", "dropped"),
)


class Estimate(Metrics):
    """The mean of a metric over seeds, with its confidence interval by Student's t distribution.

    `half_width` is half of the width of the interval, or None with a single seed; `seeds` is the number of values, and
    `samples` has the values in the order of the seeds.
    """

    __slots__ = ()

    mean: float
    half_width: float | None
    confidence: float
    seeds: int
    samples: list[float]

    @property
    def interval(self) -> tuple[float, float]:
        """The ends of the confidence interval; both are the mean with a single seed."""
        half = self.half_width or 0.0
        return (self.mean - half, self.mean + half)

    def __float__(self) -> float:
        return self.mean

    def __str__(self) -> str:
        half = "" if self.half_width is None else f" ± {self.half_width:.2g}"
        return f"{self.mean:.4g}{half}"

    def __repr__(self) -> str:
        return f"<rnic.Estimate {self}; {self.confidence * 100:g} %, {self.seeds} seeds>"


class RunEstimates(Mapping[str, Estimate]):
    """The metrics of one run over seeds: `run["slowdown.p99"]` is an `Estimate`.

    The metrics are the numbers of `summary.json`, with their keys joined by dots, as in campaigns. Failed runs are left
    out; `failed` is their number.
    """

    def __init__(self, name: str, results: list[Results], confidence: float) -> None:
        runs = [part[name] for part in results]
        completed = [run for run in runs if run.status == "completed"]
        self._name = name
        self._confidence = confidence
        self.failed = len(runs) - len(completed)
        self._values: dict[str, list[float]] = {}
        for run in completed:
            for metric, value in flattened(run).items():
                self._values.setdefault(metric, []).append(value)

    @property
    def name(self) -> str:
        """Name of the run."""
        return self._name

    def __getitem__(self, metric: str) -> Estimate:
        if metric not in self._values:
            raise KeyError(f'run "{self._name}": {unknown(str(metric), self._values)}')
        values = self._values[metric]
        found = _rnic.estimate(values, self._confidence)
        mean, half = found if found is not None else (float("nan"), None)
        return Estimate(
            {
                "mean": mean,
                "half_width": half,
                "confidence": self._confidence,
                "seeds": len(values),
                "samples": list(values),
            }
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def to_dict(self) -> dict[str, Any]:
        """The estimates as dictionaries, by metric."""
        return {metric: self[metric].to_dict() for metric in self}

    def __repr__(self) -> str:
        shown = [f"{metric} {self[metric]}" for metric, _ in SHOWN[:2] if metric in self]
        return f"<rnic.RunEstimates {self._name!r}: {', '.join([*shown, f'{len(self)} metrics'])}>"


class SeedResults(Mapping[str, RunEstimates]):
    """The results of a scenario with several seeds: `results["IRN"]["slowdown.p99"]` is the mean over the seeds.

    `results.at(seed)` are the `Results` of one seed, and `results.parts` the results of each seed. `estimates` is a
    table with a row for each run, as for campaigns.
    """

    def __init__(self, parts: list[Results], confidence: float) -> None:
        self._parts = parts
        self._confidence = confidence
        self._runs: dict[str, RunEstimates] = {}
        for name in parts[0]:
            self._runs[name] = RunEstimates(name, parts, confidence)

    def __getitem__(self, run: str) -> RunEstimates:
        if run not in self._runs:
            known = ", ".join(f'"{name}"' for name in self._runs)
            raise KeyError(f'unknown run "{run}"; accepted: {known}')
        return self._runs[run]

    def __iter__(self) -> Iterator[str]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, SeedResults) and self._confidence == other._confidence
        return same and self._parts == other._parts  # type: ignore[attr-defined]

    __hash__ = None  # type: ignore[assignment]

    @property
    def seeds(self) -> list[int]:
        """The seeds."""
        return [part.seed for part in self._parts]

    @property
    def parts(self) -> list[Results]:
        """The results of each seed."""
        return list(self._parts)

    def at(self, seed: int) -> Results:
        """The results of one seed. Raises KeyError if it was not simulated."""
        for part in self._parts:
            if part.seed == seed:
                return part
        raise KeyError(f"there is no seed {seed}; accepted: {', '.join(map(str, self.seeds))}")

    def estimates(self, metric: str = "slowdown.mean") -> Table:
        """The mean of a metric over the seeds, a row for each run.

        The columns are `metric`, `run` (the name of the run in the scenario file), the swept keys, `transport`, `cc`,
        `pfc`, `seeds` (number of values), `failed`, `mean`, `half_width`, and `point` (the name with the swept values),
        as in the table of a campaign. Raises KeyError if no run has the metric.
        """
        if not any(metric in run for run in self.values()):
            raise KeyError(unknown(metric, next(iter(self.values()), {})))
        rows: list[dict[str, Any]] = []
        for name, estimates in self.items():
            run = self._parts[0][name]
            found = estimates[metric] if metric in estimates else None
            rows.append(
                {
                    "metric": metric,
                    "run": run.get("base", name),
                    **run.get("point", {}),
                    "transport": run.transport,
                    "cc": run.cc,
                    "pfc": run.pfc,
                    "seeds": 0 if found is None else found.seeds,
                    "failed": estimates.failed,
                    "mean": None if found is None else found.mean,
                    "half_width": None if found is None else found.half_width,
                    "point": name,
                }
            )
        columns = {key: None for row in rows for key in row}
        return Table(_rnic.table_of_columns([(key, [row.get(key) for row in rows]) for key in columns]))

    def to_dict(self) -> dict[str, Any]:
        """The estimates as dictionaries, by run and metric."""
        return {name: run.to_dict() for name, run in self.items()}

    def __repr__(self) -> str:
        first, last = self.seeds[0], self.seeds[-1]
        return f"<rnic.SeedResults of {self._parts[0].scenario!r}: {len(self)} runs, seeds {first} to {last}>"

    def _repr_html_(self) -> str:
        def cells(run: RunEstimates) -> list[object]:
            return [run.name, *(str(run[metric]) if metric in run else None for metric, _ in SHOWN), run.failed]

        percent = f"{self._confidence * 100:g}"
        caption = f"{self._parts[0].scenario}: mean over {len(self._parts)} seeds ± half of the {percent} % interval"
        head = ["run", *(heading for _, heading in SHOWN), "failed"]
        return _html.table(head, map(cells, self.values()), caption=caption, count=len(self))
