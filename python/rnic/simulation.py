"""A simulation that the program drives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, overload

from . import _rnic
from .results import Results
from .scenario import Scenario
from .table import Table

_COLUMNS = ("start_us", "src", "dst", "bytes")


class CompletionTable(Table):
    """Completions of submitted flows: a row for each, in order of the time at which they became visible."""

    if TYPE_CHECKING:

        @overload  # type: ignore[override]
        def __getitem__(self, column: Literal["flow"]) -> list[int]: ...

        @overload
        def __getitem__(self, column: Literal["visible_us", "delivered_us", "known_us"]) -> list[float]: ...

        def __getitem__(self, column: Any) -> Any: ...


class PortStateTable(Table):
    """The state of the ports of a simulation: a row for each port."""

    if TYPE_CHECKING:

        @overload  # type: ignore[override]
        def __getitem__(self, column: Literal["node", "peer"]) -> list[str]: ...

        @overload
        def __getitem__(self, column: Literal["port", "queued_bytes", "sent_bytes", "paused"]) -> list[int]: ...

        @overload
        def __getitem__(self, column: Literal["utilisation"]) -> list[float]: ...

        def __getitem__(self, column: Any) -> Any: ...


class Simulation:
    """A simulation that the program drives: it submits flows, advances simulated time, and learns of completions::

        with rnic.Simulation(scenario) as simulation:
            simulation.submit(start_us=0, src=[0, 1], dst=[2, 3], bytes=1_000_000)
            while simulation.advance_to_completion() is not None:
                print(simulation.completions()["flow"])
            results = simulation.finish()

    The scenario has traffic of the pattern `outside`. `run` selects a run if the scenario has several; results do not
    depend on `threads`. Times are microseconds of simulated time.

    `advance(until_us)` promises that all flows submitted later start at `until_us` or later. A completion is visible
    `reaction_us` after the last byte has arrived; the program can take it from this time on. The results are the same
    as for a scenario with the same list of flows, whatever the steps by which the program advances.

    Raises `ScenarioError` if the scenario cannot be simulated or has no such traffic, KeyError if there is no run of
    this name.
    """

    def __init__(self, scenario: Scenario, run: str | None = None, *, threads: int = 1) -> None:
        if not isinstance(scenario, Scenario):
            raise TypeError(f"scenario = {scenario!r}; accepted: a rnic.Scenario")
        if run is not None and not isinstance(run, str):
            raise TypeError(f"run = {run!r}; accepted: the name of a run")
        if not isinstance(threads, int) or not 1 <= threads <= 32:
            raise ValueError(f"threads = {threads!r}; accepted: 1 to 32")
        if run is None and len(scenario.runs) > 1:
            raise ValueError(f"the scenario has several runs; accepted as `run`: {', '.join(map(repr, scenario.runs))}")
        self._simulation = scenario._scenario.simulation(run, threads)
        self._hosts, self._reaction_us, _ = self._simulation.facts()

    def submit(
        self,
        flows: Any = None,
        *,
        start_us: float | Sequence[float] | None = None,
        src: int | Sequence[int] | None = None,
        dst: int | Sequence[int] | None = None,
        bytes: int | Sequence[int] | None = None,
    ) -> range:
        """Submits flows, all or none, and returns their numbers: flows are numbered from 0.

        `flows` is a DataFrame or an Arrow table with the columns `start_us`, `src`, `dst` and `bytes`, or an iterable of
        tuples in this order. Instead, the four arguments of these names are lists or arrays of equal length, or single
        numbers for all flows; without `start_us`, flows start now. Flows that start at the same time from the same host
        start in order of their numbers.

        Raises ValueError if a flow is impossible or starts before `now_us`, and RuntimeError if the simulation has
        ended.
        """
        given = {"start_us": start_us, "src": src, "dst": dst, "bytes": bytes}
        if flows is not None:
            named = [name for name, value in given.items() if value is not None]
            if named:
                raise TypeError(f"`flows` and `{named[0]}` are both given; accepted: one of them")
            return self._submit_rows(flows)
        given["start_us"] = self.now_us if start_us is None else start_us
        columns = _columns(given)
        first = self._simulation.submit(columns)
        return range(first, first + len(columns[0]))

    def _submit_rows(self, flows: Any) -> range:
        if hasattr(flows, "__arrow_c_stream__"):
            first, count = self._simulation.submit_arrow(flows)
            return range(first, first + count)
        columns: list[list[float]] = [[], [], [], []]
        for index, row in enumerate(flows):
            values = tuple(row)
            if len(values) != len(_COLUMNS):
                raise ValueError(f"flow {index} has {len(values)} values; accepted: {', '.join(_COLUMNS)}")
            for column, value in zip(columns, values):
                column.append(value)
        first = self._simulation.submit(columns)
        return range(first, first + len(columns[0]))

    def advance(self, until_us: float) -> None:
        """Advances simulated time to `until_us`.

        Raises ValueError if this time has passed, RuntimeError if the run fails, and KeyboardInterrupt on Ctrl-C, which
        ends the simulation.
        """
        self._simulation.advance(until_us)

    def advance_to_completion(self, limit_us: float | None = None) -> float | None:
        """Advances simulated time to the first time at which a completion is visible, and returns it.

        Returns None if no completion becomes visible until `limit_us`; simulated time is then `limit_us`, or unchanged
        without a limit. Raises as `advance`.
        """
        return self._simulation.advance_to_completion(limit_us)

    def completions(self) -> CompletionTable:
        """Takes the completions that are visible and were not taken before.

        Columns: `flow` (the number), `visible_us`, `delivered_us` (the last byte had arrived), and `known_us` (the
        sender can know it).
        """
        return CompletionTable(self._simulation.completions())

    def ports(self) -> tuple[float, PortStateTable]:
        """The state of all ports at the end of the latest window of simulated time, and this time in microseconds.

        Columns: `node`, `port`, `peer`, `queued_bytes`, `sent_bytes`, `utilisation` (share of the time so far in which
        the port was transmitting), and `paused` (bitmap of priorities).
        """
        at, table = self._simulation.ports()
        return at, PortStateTable(table)

    @property
    def now_us(self) -> float:
        """Simulated time: flows may start at this time or later."""
        return self._simulation.now_us()

    @property
    def under_way(self) -> int:
        """Number of submitted flows whose completion has not been taken."""
        return self._simulation.facts()[2]

    @property
    def hosts(self) -> int:
        """Number of hosts."""
        return self._hosts

    @property
    def reaction_us(self) -> float:
        """Time from the arrival of a flow's last byte until its completion is visible."""
        return self._reaction_us

    def finish(self) -> Results:
        """Simulates all submitted flows to their end, and returns the results. The simulation accepts no further call."""
        return Results(self._simulation.finish())

    def close(self) -> None:
        """Ends the simulation without results, if it has not been finished."""
        self._simulation.close()

    def __enter__(self) -> Simulation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _columns(given: dict[str, Any]) -> list[list[float]]:
    """The columns as lists of equal length."""
    lists: dict[str, list[float]] = {}
    for name, value in given.items():
        if value is None:
            raise TypeError(f"`{name}` is missing; give a number, a list or an array")
        if hasattr(value, "tolist"):
            value = value.tolist()
        if isinstance(value, Iterable):
            lists[name] = list(value)
    lengths = {name: len(values) for name, values in lists.items()}
    length = max(lengths.values(), default=1)
    wrong = next((name for name, own in lengths.items() if own != length), None)
    if wrong is not None:
        longest = max(lengths, key=lambda name: lengths[name])
        raise ValueError(f"`{wrong}` has {lengths[wrong]} values, but `{longest}` has {length}")
    return [lists[name] if name in lists else [given[name]] * length for name in _COLUMNS]
