"""Scenarios: what to simulate, on which fabric and with which traffic."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, overload

from . import _html, _rnic
from .congestion import CongestionControl, Flow
from .progress import listener
from .results import Results
from .seeds import SeedResults
from .stream import Stream

#: Name of a scenario that is not in a file, in messages and as the folder of its result files.
UNNAMED = "scenario"


def scenarios() -> list[str]:
    """The names of the built-in scenarios, such as `irn/default`, in alphabetical order."""
    return _rnic.builtin_scenarios()


def _flows(flows: object) -> _rnic.Flows:
    """The flows of the argument `flows`."""
    if hasattr(flows, "__arrow_c_stream__"):
        return _rnic.Flows.of_arrow(flows)
    is_other = isinstance(flows, (str, bytes, Mapping)) or hasattr(flows, "columns")
    if isinstance(flows, Iterable) and not is_other:
        return _rnic.Flows.of_rows(flows)
    raise TypeError(
        f"flows of the type {type(flows).__name__}; accepted: an iterable of tuples (start_us, src, dst, "
        "bytes[, request[, measured]]) or of dictionaries, or a DataFrame with these columns and the "
        "method `__arrow_c_stream__` (polars, pyarrow, pandas from 2.2 with pyarrow)"
    )


def _seed(seed: object) -> int | None:
    """The argument `seed`, which may be an integer of numpy."""
    try:
        number = None if seed is None else operator.index(seed)  # type: ignore[arg-type]
    except TypeError:
        number = -1
    if number is not None and not 0 <= number < 2**64:
        raise ValueError(f"seed = {seed!r}; accepted: an integer from 0 to {2**64 - 1}")
    return number


def _names(runs: str | Iterable[str]) -> list[str]:
    """The argument `runs`: one name, or several."""
    names = [runs] if isinstance(runs, str) else list(runs) if isinstance(runs, Iterable) else [runs]
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"runs = {runs!r}; accepted: the name of a run, or several in a list")
    return names


class Scenario:
    """A scenario: a fabric, traffic, and the runs to compare. It cannot be changed; `with_` returns a changed copy.

    The keyword arguments are the tables and keys of a scenario file, with the same names, and quantities with their
    units in strings (see the reference of scenario files)::

        Scenario(
            fabric={"topology": "fat-tree", "k": 4, "rate": "40 Gbps", "delay": "2 us"},
            traffic={"pattern": "poisson", "load": 0.7, "sizes": "irn-heavy-tailed", "flows": 2000},
            run=[{"name": "IRN", "transport": "irn"}, {"name": "RoCE", "transport": "roce", "pfc": True}],
        )

    `name` is the name of the scenario and of the folder of its result files. `flows` replaces `traffic` by a list of
    flows, see `with_flows`. Values are strings, numbers, booleans, paths, dictionaries and sequences, also of numpy.

    Scenarios can be copied, pickled, compared by value and used as keys of dictionaries: they are equal if they have
    the same name, title, seed and runs, and so give the same result files. A pickled scenario contains its text and its
    flows from Python; other files that it names must exist on the machine that unpickles it.

    Raises `ScenarioError` if the scenario has mistakes; the error contains the position and what would be accepted. All
    values are checked when the scenario is made, except for those that depend on the whole fabric, which `run` checks.
    """

    _scenario: _rnic.Scenario

    def __init__(self, *, name: str = UNNAMED, flows: object = None, **tables: Any) -> None:
        if flows is not None and "traffic" in tables:
            raise TypeError("`flows` and `traffic` exclude each other: give one of them")
        if not isinstance(name, str):
            raise TypeError(f"name = {name!r}; accepted: the name of the scenario as text")
        own = None if flows is None else _flows(flows)
        self._scenario = _rnic.Scenario.of_tables(tables, name, os.getcwd(), own)

    @classmethod
    def _of(cls, scenario: _rnic.Scenario) -> Scenario:
        made = cls.__new__(cls)
        made._scenario = scenario
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scenario) and self._scenario.identity == other._scenario.identity

    def __hash__(self) -> int:
        return hash(self._scenario.identity)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._scenario.state(),)

    def __copy__(self) -> Scenario:
        return self

    def __deepcopy__(self, memo: object) -> Scenario:
        return self

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Scenario:
        """Reads a scenario file, or the built-in scenario of this name (see `scenarios`) if there is no such file.

        Raises `ScenarioError` if it has mistakes, and `OSError` if the file cannot be read.
        """
        return cls._of(_rnic.Scenario.load(os.fspath(path)))

    @classmethod
    def from_toml(cls, text: str, name: str = UNNAMED, folder: str | os.PathLike[str] = ".") -> Scenario:
        """Reads a scenario from the text of a scenario file. Relative paths in it start at `folder`.

        Raises `ScenarioError` if it has mistakes; their positions are positions in `text`.
        """
        return cls._of(_rnic.Scenario.from_toml(text, name, os.fspath(folder)))

    def with_(self, changes: Mapping[str, Any] | None = None, *, seed: int | None = None, **more: Any) -> Scenario:
        """A copy with changes, each a dotted path in the scenario and a value::

            scenario.with_({"traffic.load": 0.9, "run.IRN.bdp_cap": 50}, seed=7)
            scenario.with_(seed=7, **{"traffic.load": 0.9})

        Runs and traffic sources are selected by index, from 0, or by name; a name with a dot needs quotes. The changes
        do the same as `--set` of the command, and `seed` the same as `--seed`. A dictionary as a value replaces the
        whole table: `{"traffic.load": 0.9}` changes one key, `{"traffic": {"load": 0.9}}` also removes all other keys.

        Raises `ScenarioError` if a change is refused; its `path` is then the path of the change, and its `file` the
        path with the value. Raises ValueError if `seed` is not from 0 to 2^64 - 1.
        """
        all_changes = [*(changes or {}).items(), *more.items()]
        for path, _ in all_changes:
            if not isinstance(path, str):
                raise TypeError(f"the change {path!r}; accepted: a dotted path as text, such as 'traffic.load'")
        try:
            return Scenario._of(self._scenario.changed(all_changes, _seed(seed), None))
        except _rnic.ScenarioError as error:
            replaced = [path for path, value in all_changes if isinstance(value, Mapping) and error.path == path]
            for path in replaced[:1]:
                key = next(iter(dict(all_changes)[path]), "key")
                note = f'the value of "{path}" replaces the whole table; "{path}.{key}" changes one key only'
                error.args = (f"{error}\n{note}",)
            raise

    def with_flows(self, flows: object) -> Scenario:
        """A copy whose traffic is a list of flows.

        `flows` is an iterable of tuples `(start_us, src, dst, bytes[, request[, measured]])` or of dictionaries with
        these keys, or a DataFrame (any object with `__arrow_c_stream__`) with these columns. `start_us` is the start in
        microseconds, at most 30 days; `src` and `dst` are hosts, numbered from 0; `bytes` is the payload, 1 to 10^15;
        `request` is the number of the request that the flow belongs to, or None; flows with `measured` false do not
        count in the statistics. Other columns of `Results.flows` are ignored, so the flows of one run can be passed to
        another scenario. The flows need not be sorted. They are kept in a temporary file.

        Raises ValueError or TypeError if a flow has a wrong form, and `ScenarioError` if a host does not exist.
        """
        return Scenario._of(self._scenario.changed([], None, _flows(flows)))

    @property
    def name(self) -> str:
        """Name of the scenario: of its file without the ending."""
        return self._scenario.name

    @property
    def title(self) -> str:
        """Title of the scenario."""
        return self._scenario.title

    @property
    def seed(self) -> int:
        """Seed of the random streams."""
        return self._scenario.seed

    @property
    def runs(self) -> list[str]:
        """Names of the runs, in the order of the scenario; in a sweep, one name for each point and run."""
        return self._scenario.runs

    def specs(self) -> list[str]:
        """The complete description of each run as a JSON document, as `rnic run --print-spec` prints it."""
        return self._scenario.specs()

    def to_toml(self, flows_file: str | os.PathLike[str] | None = None) -> str:
        """The scenario as the text of a scenario file, with all changes, and without `extends`.

        Inherited keys that have no effect are left out. Relative paths of existing files become absolute; files that a
        built-in scenario names keep their names. If the flows are from `with_flows`, `flows_file` names the file into
        which they are written.

        Raises ValueError if the flows are in memory and `flows_file` is missing.
        """
        return self._with_flows_file(flows_file).to_toml()

    def to_dict(self, flows_file: str | os.PathLike[str] | None = None) -> dict[str, Any]:
        """The tables of the scenario as dictionaries, lists, numbers and text, with all changes, and without `extends`.

        `Scenario(name=scenario.name, **scenario.to_dict())` is equal to `scenario`, if the scenario has a title.
        `flows_file` as for `to_toml`.

        Raises ValueError if the flows are in memory and `flows_file` is missing.
        """
        return self._with_flows_file(flows_file).to_dict()

    def _with_flows_file(self, flows_file: str | os.PathLike[str] | None) -> _rnic.Scenario:
        flows = self._scenario.flows()
        if flows is None:
            if flows_file is not None:
                raise ValueError("`flows_file` has no effect: the flows of this scenario are not from Python")
            return self._scenario
        if flows_file is None:
            raise ValueError("the flows of this scenario are from Python: name a file for them with `flows_file`")
        path = Path(flows_file).absolute()
        path.write_bytes(flows.content())
        return self._scenario.changed([("traffic.file", str(path))], None, None)

    @overload
    def run(
        self,
        runs: str | Iterable[str] = (),
        *,
        seeds: None = None,
        threads: int | None = None,
        progress: bool | Callable[[list[dict[str, Any]]], None] = False,
        check: bool = True,
        congestion: type[CongestionControl] | Callable[[Flow, float], CongestionControl] | None = None,
    ) -> Results: ...

    @overload
    def run(
        self,
        runs: str | Iterable[str] = (),
        *,
        seeds: int,
        confidence: float = 0.95,
        threads: int | None = None,
        progress: bool | Callable[[list[dict[str, Any]]], None] = False,
        check: bool = True,
        congestion: type[CongestionControl] | Callable[[Flow, float], CongestionControl] | None = None,
    ) -> SeedResults: ...

    def run(
        self,
        runs: str | Iterable[str] = (),
        *,
        seeds: int | None = None,
        confidence: float | None = None,
        threads: int | None = None,
        progress: bool | Callable[[list[dict[str, Any]]], None] = False,
        check: bool = True,
        congestion: type[CongestionControl] | Callable[[Flow, float], CongestionControl] | None = None,
    ) -> Results | SeedResults:
        """Simulates all runs of the scenario, or those called `runs`, and returns their results.

        With `seeds`, each run is simulated with this number of seeds, beginning with its own seed, and the results are
        `SeedResults`: `scenario.run(seeds=5)["IRN"]["slowdown.p99"]` is a mean with its confidence interval, whose
        probability is `confidence` (default: 0.95).

        `threads` is the number of threads, by default the number of processors; it does not change the results. With
        `progress=True`, a bar shows the progress: of tqdm if it is installed, else a line of text on stderr. A function
        as `progress` is called about every 0.1 s with a list that has a dictionary for each run: `run`, `fraction` (0
        to 1), `flows_done`, `flows_total` (None if unknown) and `time_us` (simulated time).

        Other threads of Python continue to run (the GIL is released), and Ctrl-C ends the simulation with
        KeyboardInterrupt.

        `congestion` is the class of the runs with `cc = "python"`, or a function that returns an object of such a
        class, see `CongestionControl`. Such simulations use one thread, and wait for each other.

        Raises `ScenarioError` if a run cannot be set up on this fabric. Raises `RunError` if a run failed; its
        attribute `results` has the results of all runs. With `check=False`, failed runs do not raise an exception; see
        `RunResult.failure`. Raises KeyError if `runs` contains a name that no run has.
        """
        if threads is not None and threads < 1:
            raise ValueError(f"threads = {threads}; accepted: 1 or more")
        if seeds is not None and not 1 <= seeds < 2**32:
            raise ValueError(f"seeds = {seeds}; accepted: 1 or more")
        if seeds is None and confidence is not None:
            raise ValueError("`confidence` has no effect without `seeds`")
        if confidence is not None and not 0 < confidence < 1:
            raise ValueError(f"confidence = {confidence}; accepted: a probability above 0 and below 1, such as 0.95")
        names = _names(runs)
        selected = self._scenario.selection(names)
        if seeds is not None:
            selected = [f"{run} (seed {self.seed + number})" for number in range(seeds) for run in selected]
        bar = listener(progress, selected)
        try:
            found = self._scenario.run(names, seeds or 1, threads, bar, congestion)
        finally:
            if bar is not None:
                bar.close()
        parts = [Results(part) for part in found]
        results = parts[0] if seeds is None else SeedResults(parts, 0.95 if confidence is None else confidence)
        failures = [
            f'run "{run}"{"" if seeds is None else f" seed {part.seed}"} failed: {why}'
            for part in parts
            for run, why in part._results.failures()
        ]
        if check and failures:
            error = _rnic.RunError("; ".join(failures))
            error.results = results
            raise error
        return results

    def stream(self, run: str | None = None, *, until: str | None = None) -> Stream:
        """Simulates one run, by default the first, and yields its events while they happen::

            for event in scenario.stream("IRN", until="5 ms"):
                if event.event == "sample" and max(event.queue_bytes) > 100_000:
                    break

        Samples and pauses are events if the scenario has the table `watch`. `until` ends the run at this simulated
        time, as `duration` in `[limits]` does. Drops of single packets are not events.

        Raises `ScenarioError` if the run cannot be set up, KeyError if there is no run of this name, and ValueError if
        `until` is not a time.
        """
        if until is not None and not isinstance(until, str):
            raise TypeError(f"until = {until!r}; accepted: a time with its unit as text, such as '5 ms'")
        if run is not None and not isinstance(run, str):
            raise TypeError(f"run = {run!r}; accepted: the name of a run")
        return Stream(self._scenario.stream(run, until))

    def __repr__(self) -> str:
        return f"<rnic.Scenario {self.name!r}: {self.title}; seed {self.seed}; {len(self.runs)} runs>"

    def _repr_html_(self) -> str:
        rows = ((name, transport, cc, "yes" if pfc else "no") for name, transport, cc, pfc in self._scenario.about())
        caption = f"{self.name}: {self.title}; seed {self.seed}"
        return _html.table(("run", "transport", "cc", "PFC"), rows, caption=caption, count=len(self.runs))


def _restored(state: Any) -> Scenario:
    return Scenario._of(_rnic.Scenario.of_state(state))
