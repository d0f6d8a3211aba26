"""Progress bars of simulations."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

State = tuple[float, int, "int | None", float]


def listener(progress: bool | Callable[[list[dict[str, Any]]], None], runs: list[str]) -> Bar | Calls | None:
    """What shows the progress of `runs`: a bar, the caller's function, or nothing."""
    if callable(progress):
        return Calls(progress, runs)
    return Bar(runs) if progress else None


class Calls:
    """Passes the progress to a function of the caller."""

    def __init__(self, function: Callable[[list[dict[str, Any]]], None], runs: list[str]) -> None:
        self._function = function
        self._runs = runs

    def __call__(self, states: list[State]) -> None:
        keys = ("fraction", "flows_done", "flows_total", "time_us")
        self._function(
            [{"run": run, **dict(zip(keys, state))} for run, state in zip(self._runs, states)]
        )

    def close(self) -> None:
        """Nothing remains to be shown."""


class Bar:
    """A bar over all runs: of tqdm if it is installed (a widget in notebooks), else a line of text on stderr."""

    def __init__(self, runs: list[str]) -> None:
        self._runs = runs
        self._start = time.monotonic()
        self._drawn = False
        self._tqdm: Any = None
        try:
            from tqdm.auto import tqdm
        except ImportError:
            return
        self._tqdm = tqdm(total=len(runs), unit="run", bar_format="{l_bar}{bar}| {elapsed}<{remaining}{postfix}")

    def __call__(self, states: list[State]) -> None:
        fraction = sum(state[0] for state in states)
        flows = sum(state[1] for state in states)
        if self._tqdm is not None:
            self._tqdm.n = min(fraction, len(self._runs))
            self._tqdm.set_postfix_str(f"{flows:,} flows", refresh=False)
            self._tqdm.refresh()
            return
        self._drawn = True
        share = fraction / max(len(self._runs), 1)
        filled = int(share * 30)
        elapsed = time.monotonic() - self._start
        bar = "#" * filled + "-" * (30 - filled)
        sys.stderr.write(f"\r[{bar}] {share:4.0%}  {flows:,} flows  {elapsed:.0f} s ")
        sys.stderr.flush()

    def close(self) -> None:
        """Ends the line of the bar."""
        if self._tqdm is not None:
            self._tqdm.close()
        elif self._drawn:
            sys.stderr.write("\n")
