"""Figures of results with matplotlib, in the style of papers. They need the extra `rnic[plot]`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .results import Results
    from .table import Table

#: Colours that readers with colour blindness can tell apart (Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
#: Styles of the lines, so that a figure can be read without colours.
LINES = ("-", "--", "-.", ":")

#: Settings of matplotlib: a column of a paper is 3.3 inches wide.
STYLE: Any = {
    "figure.figsize": (3.3, 2.3),
    "figure.constrained_layout.use": True,
    "font.size": 8,
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.linewidth": 0.4,
    "grid.alpha": 0.5,
    "legend.frameon": False,
    "legend.fontsize": 7,
    "lines.linewidth": 1.2,
    "lines.markersize": 4,
    "figure.dpi": 200,
    "pdf.fonttype": 42,
}


def _styled(draw: Callable[..., Any]) -> Callable[..., Any]:
    """Draws in the style of this module, unless the caller gives axes of its own."""

    @functools.wraps(draw)
    def styled(*arguments: Any, ax: Any = None, **keywords: Any) -> Any:
        if ax is not None:
            return draw(*arguments, ax=ax, **keywords)
        try:
            import matplotlib.pyplot as pyplot
        except ImportError as error:
            raise ImportError("figures need matplotlib: pip install 'rnic[plot]'") from error
        with pyplot.rc_context(STYLE):
            figure, ax = pyplot.subplots()
            try:
                return draw(*arguments, ax=ax, **keywords)
            except BaseException:
                pyplot.close(figure)
                raise

    return styled


class Plot:
    """Figures of the results of a scenario. Each method returns a figure of matplotlib, with a line for each run.

    `runs` selects runs by name; by default all are shown, except for failed ones. Save a figure with
    `figure.savefig("fct.pdf")`. With `ax`, a method draws into these axes and returns their figure.
    """

    def __init__(self, results: Results) -> None:
        self._results = results

    def _runs(self, runs: Iterable[str] | None) -> list[str]:
        if runs is None:
            return [name for name, run in self._results.items() if run["slowdown"] is not None]
        return [self._results[name].name for name in runs]

    def _cdf(self, column: str, label: str, runs: Iterable[str] | None, ax: Any, tail: bool) -> Any:
        for number, run in enumerate(self._runs(runs)):
            table: Table = self._results.flows(run)
            values = sorted(
                value for value, measured in zip(table[column], table["measured"]) if measured and value is not None
            )
            if not values:
                continue
            count = len(values)
            shares = [(count - rank if tail else rank + 1) / count for rank in range(count)]
            ax.plot(values, shares, _line(number), color=_colour(number), label=run, drawstyle="steps-post")
        ax.set_xscale("log")
        if tail:
            ax.set_yscale("log")
        ax.set_xlabel(label)
        ax.set_ylabel("CCDF" if tail else "CDF")
        ax.legend()
        return ax.figure

    @_styled
    def fct_cdf(self, runs: Iterable[str] | None = None, *, ax: Any = None, tail: bool = False) -> Any:
        """The distribution of the completion times of measured flows, in microseconds; with `tail`, the share of
        flows that take longer, on a logarithmic axis."""
        return self._cdf("fct_us", "flow completion time [us]", runs, ax, tail)

    @_styled
    def slowdown_cdf(self, runs: Iterable[str] | None = None, *, ax: Any = None, tail: bool = False) -> Any:
        """The distribution of the slowdown of measured flows; `tail` as for `fct_cdf`."""
        return self._cdf("slowdown", "slowdown", runs, ax, tail)

    @_styled
    def slowdown_by_size(
        self, runs: Iterable[str] | None = None, *, percentile: str = "p99", ax: Any = None
    ) -> Any:
        """The slowdown by size of the flows: `percentile` is "mean", "p50", "p95", "p99" or "p999".

        The size classes are those of `RunResult.sizes`.
        """
        if percentile not in ("mean", "p50", "p95", "p99", "p999"):
            raise ValueError(f'percentile "{percentile}"; accepted: mean, p50, p95, p99, p999')
        names: list[str] = []
        for number, run in enumerate(self._runs(runs)):
            sizes = [size for size in self._results[run].sizes if size["slowdown"] is not None]
            names = max(names, [size.name for size in sizes], key=len)
            values = [size.slowdown[percentile] for size in sizes]
            ax.plot([size.name for size in sizes], values, _line(number), color=_colour(number), marker=".", label=run)
        ax.set_yscale("log")
        ax.set_xlabel("flow size")
        label = "average slowdown" if percentile == "mean" else f"slowdown, {percentile.replace('p999', 'p99.9')}"
        ax.set_ylabel(label)
        ax.tick_params(axis="x", rotation=45)
        ax.legend()
        return ax.figure

    @_styled
    def queues(self, run: str, *, longest: int = 7, ax: Any = None) -> Any:
        """The sampled queues of a run over time, in KB; the scenario needs `[watch]` with `queues`.

        It shows the `longest` queues by their maximum; the title contains the number of all queues.
        """
        if longest < 1:
            raise ValueError(f"longest = {longest}; accepted: 1 or more")
        name = self._results[run].name
        table = self._results.queues()
        lines: dict[str, tuple[list[float], list[float]]] = {}
        for of, time, queue, size in zip(table["run"], table["time_us"], table["queue"], table["bytes"]):
            if of == name:
                times, sizes = lines.setdefault(queue, ([], []))
                times.append(time)
                sizes.append(size / 1000)
        if not lines:
            raise ValueError(f'the run "{name}" has no samples of queues; give the scenario [watch] with `queues`')
        # Sorting is stable, so queues of the same length stay in the order of the scenario.
        shown = sorted(lines.items(), key=lambda line: -max(line[1][1]))[:longest]
        for number, (queue, (times, sizes)) in enumerate(shown):
            # A line has its style for all queues of a colour, so that more queues than colours can be told apart.
            ax.plot(times, sizes, LINES[number // len(COLOURS) % len(LINES)], color=_colour(number), label=queue)
        ax.set_xlabel("time [us]")
        ax.set_ylabel("queue [KB]")
        if len(shown) < len(lines):
            ax.set_title(f"{len(shown)} longest of {len(lines)} queues", fontsize="medium")
        ax.legend(ncols=1 + (len(shown) - 1) // 10)
        return ax.figure


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def _line(number: int) -> str:
    return LINES[number % len(LINES)]
