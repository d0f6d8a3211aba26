"""Scenarios: what to simulate, on which fabric and with which traffic."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from . import _rnic
from .congestion import CongestionControl
from .progress import listener
from .results import Results
from .stream import Stream

#: Name of a scenario that is not in a file, in messages and as the folder of its result files.
UNNAMED = "scenario"


def scenarios() -> list[str]:
    """The names of the built-in scenarios, such as `irn/default`, in alphabetical order."""
    return _rnic.builtin_scenarios()


class _FlowFile:
    """A flow list in a temporary file, which is removed with the last scenario that uses it."""

    def __init__(self, flows: object) -> None:
        descriptor, self.path = tempfile.mkstemp(prefix="rnic-flows-", suffix=".csv")
        os.close(descriptor)
        try:
            if hasattr(flows, "__arrow_c_stream__"):
                self.count = _rnic.csv_of_arrow(flows, self.path)
            elif isinstance(flows, Iterable) and not isinstance(flows, (str, bytes, Mapping)) and not hasattr(flows, "columns"):
                self.count = _rnic.csv_of_rows(flows, self.path)
            else:
                raise TypeError(
                    f"flows of the type {type(flows).__name__}; accepted: an iterable of tuples (start_us, src, dst, "
                    "bytes[, request[, measured]]) or of dictionaries, or a DataFrame with these columns and the "
                    "method `__arrow_c_stream__` (polars, pyarrow, pandas from 2.2 with pyarrow)"
                )
            if self.count == 0:
                raise ValueError("there are no flows; give at least one")
        except BaseException:
            self.__del__()
            raise

    def __del__(self) -> None:
        try:
            os.unlink(self.path)
        except OSError:
            pass


class Scenario:
    """A scenario: a fabric, traffic, and the runs to compare. It cannot be changed; `with_` returns a changed copy.

    The keyword arguments are the tables and keys of a scenario file, with the same names, and quantities with their
    units in strings (see the reference of scenario files)::

        Scenario(
            fabric={"topology": "fat-tree", "k": 4, "rate": "40 Gbps", "delay": "2 us"},
            traffic={"pattern": "poisson", "load": 0.7, "sizes": "irn-heavy-tailed", "flows": 2000},
            run=[{"name": "IRN", "transport": "irn"}, {"name": "RoCE", "transport": "roce", "pfc": True}],
        )

    `name` is the name of the scenario, of the folder of its result files, and in error messages. `flows` replaces
    `traffic` by a list of flows, see `with_flows`.

    Raises `ScenarioError` if the scenario has mistakes; it says where, and what would be accepted. All values are
    checked when the scenario is made, except for those that depend on the whole fabric, which `run` checks.
    """

    _scenario: _rnic.Scenario
    _flows: _FlowFile | None

    def __init__(self, *, name: str = UNNAMED, flows: object = None, **tables: Any) -> None:
        if flows is not None:
            if "traffic" in tables:
                raise TypeError("`flows` and `traffic` exclude each other: give one of them")
            file = _FlowFile(flows)
            tables = {**tables, "traffic": {"pattern": "list", "file": file.path}}
            self._flows = file
        else:
            self._flows = None
        text = _rnic.document(tables)
        self._scenario = _rnic.Scenario.from_toml(text, name, os.getcwd())

    @classmethod
    def _of(cls, scenario: _rnic.Scenario, flows: _FlowFile | None = None) -> Scenario:
        made = cls.__new__(cls)
        made._scenario = scenario
        made._flows = flows
        return made

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

        Runs and traffic sources are selected by index, from 0, or by name; a name with a dot needs quotes. The
        changes do the same as `--set` of the command, and `seed` the same as `--seed`.

        Raises `ScenarioError` if a change is refused; its `file` is then the change.
        """
        all_changes = [*(changes or {}).items(), *more.items()]
        return Scenario._of(self._scenario.changed(all_changes, seed), self._flows)

    def with_flows(self, flows: object) -> Scenario:
        """A copy whose traffic is a list of flows.

        `flows` is an iterable of tuples `(start_us, src, dst, bytes[, request[, measured]])` or of dictionaries with
        these keys, or a DataFrame (any object with `__arrow_c_stream__`) with these columns. `start_us` is the start
        in microseconds, at most 30 days; `src` and `dst` are hosts, numbered from 0; `bytes` is the payload, 1 to
        10^15; `request` is the number of the request that the flow belongs to, or None; flows with `measured` false
        do not count in the statistics. The columns of `Results.flows` that are not named here are ignored, so the
        flows of one run can be given to another scenario. They need not be sorted. They are kept in a temporary file.

        Raises ValueError or TypeError if a flow has a wrong form, and `ScenarioError` if a host does not exist.
        """
        file = _FlowFile(flows)
        changed = self._scenario.changed([("traffic", {"pattern": "list", "file": file.path})], None)
        return Scenario._of(changed, file)

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
        """Names of the runs, in the order of the scenario; in a sweep there is one for each point and run."""
        return self._scenario.runs

    def specs(self) -> list[str]:
        """The complete description of each run as a JSON document, as `rnic run --print-spec` prints it."""
        return self._scenario.specs()

    def to_toml(self, flows_file: str | os.PathLike[str] | None = None) -> str:
        """The scenario as the text of a scenario file, with all changes, and without `extends`.

        Inherited keys that have no effect are left out. Relative paths of existing files become absolute; files that a built-in scenario names keep their names. If
        the flows are from `with_flows`, `flows_file` names the file into which they are written.

        Raises ValueError if the flows are in memory and `flows_file` is missing.
        """
        text = self._scenario.to_toml()
        if self._flows is None:
            if flows_file is not None:
                raise ValueError("`flows_file` has no effect: the flows of this scenario are not from Python")
            return text
        if flows_file is None:
            raise ValueError("the flows of this scenario are from Python: give the name of a file for them, `flows_file`")
        flows_file = Path(flows_file).absolute()
        flows_file.write_bytes(Path(self._flows.path).read_bytes())
        changed = self._scenario.changed([("traffic.file", str(flows_file))], None)
        return changed.to_toml()

    def run(
        self,
        runs: str | Iterable[str] = (),
        *,
        threads: int | None = None,
        progress: bool | Callable[[list[dict[str, Any]]], None] = False,
        check: bool = True,
        congestion: type[CongestionControl] | None = None,
    ) -> Results:
        """Simulates all runs of the scenario, or those called `runs`, and returns their results.

        `threads` is the number of threads, by default that of the processors; it does not change the results. With
        `progress=True`, a bar shows the progress: of tqdm if it is installed, else a line of text on stderr. A
        function as `progress` is called about every 0.1 s with a list that has a dictionary for each run: `run`,
        `fraction` (0 to 1), `flows_done`, `flows_total` (None if unknown) and `time_us` (simulated time).

        Other threads of Python go on meanwhile (the GIL is released), and Ctrl-C ends the simulation with
        KeyboardInterrupt.

        `congestion` is the class of the runs with `cc = "python"`, see `CongestionControl`. One such simulation can run
        at a time, in one thread.

        Raises `ScenarioError` if a run cannot be set up on this fabric. Raises `RunError` if a run failed; its
        attribute `results` has the results of all runs. With `check=False`, failed runs raise nothing, see
        `RunResult.failure`. Raises KeyError if there is no run of a name in `runs`.
        """
        if threads is not None and threads < 1:
            raise ValueError(f"threads = {threads}; accepted: 1 or more")
        names = [runs] if isinstance(runs, str) else list(runs)
        bar = listener(progress, self._scenario.selection(names))
        try:
            results = Results(self._scenario.run(names, threads, bar, congestion))
        finally:
            if bar is not None:
                bar.close()
        failures = results._results.failures()
        if check and failures:
            error = _rnic.RunError("; ".join(f'run "{run}" failed: {why}' for run, why in failures))
            error.results = results
            raise error
        return results

    def stream(self, run: str | None = None, *, until: str | None = None) -> Stream:
        """Simulates one run, by default the first, and yields its events while they happen::

            for event in scenario.stream("IRN", until="5 ms"):
                if event.event == "sample" and max(event.queue_bytes) > 100_000:
                    break

        Samples and pauses are events if the scenario has the table `watch`. `until` ends the run at this simulated
        time, as `duration` in `[limits]` does. Drops of single packets are no events.

        Raises `ScenarioError` if the run cannot be set up, KeyError if there is no run of this name, and ValueError if
        `until` is no time.
        """
        return Stream(self._scenario.stream(run, until))

    def __repr__(self) -> str:
        return f"<rnic.Scenario {self.name!r}: {self.title}; seed {self.seed}; {len(self.runs)} runs>"
