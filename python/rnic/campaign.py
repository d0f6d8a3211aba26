"""Campaigns: many runs, on any engine, with results in one folder."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
import uuid
import weakref
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from . import _html, _rnic
from .engines import Engine, engine_of
from .scenario import Scenario, _names
from .table import Table

if TYPE_CHECKING:
    import pandas

#: Seconds of CPU time that a batch of runs takes, so that the cost of an engine's task (about 1 ms) is below 1 %.
BATCH_S = 0.2
#: Maximum number of runs of a batch.
BATCH = 256
#: Batches that are submitted for each worker, so that none waits for the coordinator.
BATCHES_PER_WORKER = 3
#: Interval in seconds at which the coordinator checks running batches and updates the bar.
POLL_S = 0.5
#: Number of losses of a run of a store without journals after which the run counts as started.
MAX_UNCERTAIN_LOSSES = 3


class Campaign:
    """Many runs whose results are kept in a folder, each simulated once, on any engine.

    `scenarios` is a scenario, whose runs (with each point of its sweep) are the points of the campaign; a mapping of
    labels to scenarios; or an iterable of scenarios. `name` is the name of the campaign: letters, digits, `-`, `_` and
    `.`. `runs` selects runs by name. `seeds` is the number of seeds of each point, beginning with the point's own seed.
    `until` adds seeds until the confidence interval of a metric's mean is narrow enough, such as
    `"slowdown.mean ± 5 %"` or `"fct_us.p99 ± 20"`; `seeds` is then the initial number of seeds of a point (default: 5),
    `max_seeds` the maximum, and `confidence` the probability of the interval. With `records`, the complete record of
    each run is stored too, with its flows (64 bytes each)::

        campaign = rnic.Campaign(rnic.Scenario.load("sweep.toml"), name="sweep", until="slowdown.mean ± 5 %")
        results = campaign.run("sweep.results", "processes", progress=True)
        results.estimates().to_pandas()

    Raises ValueError if a value is not possible.
    """

    _campaign: _rnic.Campaign

    def __init__(
        self,
        scenarios: Scenario | Mapping[str, Scenario] | Iterable[Scenario],
        *,
        name: str,
        runs: str | Iterable[str] = (),
        seeds: int | None = None,
        until: str | None = None,
        max_seeds: int | None = None,
        confidence: float | None = None,
        records: bool = False,
    ) -> None:
        if until is None and (max_seeds is not None or confidence is not None):
            raise ValueError("`max_seeds` and `confidence` have no effect without `until`")
        if seeds is not None and seeds < 1:
            raise ValueError(f"seeds = {seeds}; accepted: 1 or more")
        if until is not None and not isinstance(until, str):
            raise TypeError(f"until = {until!r}; accepted: a condition as text, such as 'slowdown.mean ± 5 %'")
        names = _names(runs)
        documents = [
            (label, document)
            for label, scenario in _labelled(scenarios)
            for document in _documents(scenario, names)
        ]
        self._campaign = _rnic.Campaign(
            name,
            documents,
            seeds if seeds is not None else (1 if until is None else 5),
            until,
            100 if max_seeds is None else max_seeds,
            0.95 if confidence is None else confidence,
            records,
        )

    @classmethod
    def _of_state(cls, state: bytes) -> Campaign:
        made = cls.__new__(cls)
        made._campaign = _rnic.Campaign.of_state(state)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return Campaign._of_state, (self._campaign.state(),)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Campaign:
        """Reads a manifest, which `save` or `rnic campaign plan` wrote.

        Raises ValueError if it is not a manifest of this version, and OSError if it cannot be read.
        """
        made = cls.__new__(cls)
        made._campaign = _rnic.Campaign.load(os.fspath(path))
        return made

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the manifest, for `rnic campaign run` on other machines."""
        self._campaign.save(os.fspath(path))

    @property
    def name(self) -> str:
        """Name of the campaign."""
        return self._campaign.name

    @property
    def points(self) -> list[str]:
        """Names of the points, in the order of the manifest."""
        return self._campaign.points

    @property
    def seeds(self) -> int:
        """Number of seeds of each point; with `until`, the number with which it begins."""
        return self._campaign.seeds

    @property
    def until(self) -> str | None:
        """The condition that ends a point, or None for a fixed number of seeds."""
        return self._campaign.until

    def run(
        self,
        store: str | os.PathLike[str],
        engine: str | Executor | Any = "processes",
        *,
        workers: int | None = None,
        progress: bool = False,
        retries: int = 2,
        retry_failed: bool = False,
        replace: bool = False,
        check: bool = True,
    ) -> CampaignResults:
        """Simulates the runs that have no result, stores their results in the folder `store`, and returns all results.

        `engine` is `"processes"`, `"threads"`, any `concurrent.futures.Executor` (loky, `mpi4py.futures`, Parsl), a
        client of `dask.distributed`, or `rnic.engines.RayExecutor()`. `workers` is the number of batches that are
        simulated at the same time, if the engine does not report it. All workers need the same version of rnic, and the
        folder `store` at the same path. `store` may also be a URL of fsspec such as `s3://bucket/sweep`; results are
        then transferred through it, and the store has no journals.

        A run whose worker was killed starts again, `retries` times. A run that fails (it cannot be set up, or does not
        complete) is stored as failed, and simulated again only with `retry_failed`. `replace` replaces another campaign
        with this name in the folder. The same call continues after an interruption.

        `progress` shows a bar. Raises `RunError` if runs failed (unless `check` is false): its attribute `results` has
        the results. Raises OSError if a result cannot be stored. Ctrl-C raises KeyboardInterrupt; results of runs that
        have ended are stored.
        """
        if retries < 0:
            raise ValueError(f"retries = {retries}; accepted: 0 or more")
        chosen = engine_of(engine, workers)
        with _Store(store) as where:
            where.pull(["manifests/*", "runs/*"])
            self._campaign.register(where.path, replace)
            where.push([f"manifests/{self.name}.jsonl"])
            coordinator = self._campaign.coordinate(where.path, chosen.name, retries, retry_failed)
            _Submitter(self, coordinator, chosen, where, progress, retries).run()
        results = load_campaign(store, self.name)
        failed = results.failures
        if check and len(failed):
            listed = "; ".join(f'run "{f["point"]}" seed {f["seed"]}: {f["failure"]}' for f in list(failed)[:5])
            more = f"; and {len(failed) - 5} more" if len(failed) > 5 else ""
            error = _rnic.RunError(listed + more)
            error.results = results
            raise error
        return results

    def __repr__(self) -> str:
        until = "" if self.until is None else f", until {self.until}"
        return f"<rnic.Campaign {self.name!r}: {len(self.points)} points, {self.seeds} seeds{until}>"


def _labelled(scenarios: object) -> Iterator[tuple[str | None, Scenario]]:
    if isinstance(scenarios, Scenario):
        yield None, scenarios
    elif isinstance(scenarios, Mapping):
        for label, scenario in scenarios.items():
            yield str(label), _scenario(scenario)
    elif isinstance(scenarios, Iterable) and not isinstance(scenarios, (str, bytes)):
        for scenario in scenarios:
            yield None, _scenario(scenario)
    else:
        _scenario(scenarios)


def _scenario(scenario: object) -> Scenario:
    if not isinstance(scenario, Scenario):
        raise TypeError(
            f"{type(scenario).__name__} instead of a scenario; accepted: a Scenario, an iterable of scenarios, or a "
            "mapping of labels to scenarios"
        )
    return scenario


def _documents(scenario: Scenario, names: list[str]) -> Iterator[str]:
    selected = set(scenario._scenario.selection(names))
    for run, document in zip(scenario.runs, scenario.specs()):
        if run in selected:
            if json.loads(document)["run"]["transport"]["cc"]["name"] == "python":
                raise ValueError(
                    f'run "{run}" has cc = "python"; accepted: a congestion control in Rust, because a class of this '
                    "program is unknown to workers and to the fingerprints of results"
                )
            yield document


class _Store:
    """The folder of results: a local one, or a URL with a temporary folder beside it."""

    def __init__(self, store: str | os.PathLike[str]) -> None:
        text = os.fspath(store)
        self.url: str | None = text if "://" in text else None
        self._temporary = None if self.url is None else tempfile.mkdtemp(prefix="rnic-campaign-")
        self.path = text if self._temporary is None else self._temporary
        #: Length in bytes of each pack of results when it was copied.
        self._lengths: dict[str, int] = {}

    def __enter__(self) -> _Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def pull(self, patterns: list[str]) -> None:
        """Copies files of the URL into the temporary folder."""
        if self.url is None:
            return
        files, root = _filesystem(self.url)
        for pattern in patterns:
            for path in files.glob(f"{root}/{pattern}"):
                local = Path(self.path) / path[len(root) :].lstrip("/")
                if not local.exists():
                    local.parent.mkdir(parents=True, exist_ok=True)
                    partial = local.with_name(local.name + ".tmp")
                    files.get_file(path, str(partial))
                    partial.replace(local)
                    self._lengths[local.name] = local.stat().st_size

    def push(self, names: list[str]) -> None:
        """Copies files of the temporary folder to the URL."""
        if self.url is not None:
            push(self.url, self.path, {name: name for name in names})

    def push_results(self) -> None:
        """Copies the packs of results to the URL to which this process has appended."""
        if self.url is None:
            return
        for pack in sorted(Path(self.path).glob("runs/*.results")):
            length = pack.stat().st_size
            if self._lengths.get(pack.name) != length:
                self.push([f"runs/{pack.name}"])
                self._lengths[pack.name] = length


def _filesystem(url: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise ImportError(f"`{url}` needs the package fsspec; install it, or use a folder") from None
    files, root = url_to_fs(url)
    return files, root.rstrip("/")


def push(url: str, folder: str, names: dict[str, str]) -> None:
    """Copies files of a folder to a URL, under other names: `names` has the new name of each. A copy is complete or
    missing, as far as the file system of the URL says so; incomplete results are found by their checksums, and their
    runs are simulated again."""
    files, root = _filesystem(url)
    for name, new in names.items():
        path = Path(folder) / name
        if path.exists():
            target = f"{root}/{new}"
            files.makedirs(target.rsplit("/", 1)[0], exist_ok=True)
            files.put_file(str(path), target)


#: JSON documents, and for each run its key, the index of its document, and its seed.
Batch = tuple[list[str], list[tuple[str, int, int]]]
#: How a run ended on a worker. A run that was interrupted has no result.
RunEnd = Literal["completed", "failed", "lost", "interrupted"]
#: The runs that a worker has ended: key, end, value of the metric, and CPU seconds.
Reports = list[tuple[str, RunEnd, "float | None", float]]


def work(
    store: str,
    url: str | None,
    name: str,
    engine: str,
    records: bool,
    batch: Batch,
    metric: str | None,
    code: str,
    stop: _rnic.Stop | None = None,
) -> Reports:
    """Simulates a batch of runs on a worker. It is the function that engines execute. `stop` ends it in threads of
    this process."""
    if url is None:
        return _rnic.work(store, name, engine, records, batch, metric, code, stop)
    with tempfile.TemporaryDirectory(prefix="rnic-worker-") as folder:
        reports = _rnic.work(folder, name, engine, records, batch, metric, code, stop)
        # Records come before results, so that a result without its record cannot be found. No other worker has a pack
        # of the same name.
        for ending in ("runs", "results"):
            packs = sorted(Path(folder).glob(f"runs/*.{ending}"))
            push(url, folder, {f"runs/{pack.name}": f"runs/{uuid.uuid4().hex}.{ending}" for pack in packs})
        return reports


class _Submitter:
    """Submits batches of missing runs to an engine until no run is missing."""

    def __init__(
        self,
        campaign: Campaign,
        coordinator: _rnic.Coordinator,
        engine: Engine,
        store: _Store,
        progress: bool,
        retries: int,
    ) -> None:
        self._campaign = campaign
        self._coordinator = coordinator
        self._engine = engine
        self._store = store
        self._running: dict[Future[Reports], tuple[Batch, float]] = {}
        self._expected = 0.0
        self._real = 0.0
        self._losses: dict[str, int] = {}
        self._alone: set[str] = set()
        self._bar = _Bar(campaign.name) if progress else None
        self._limit = retries + MAX_UNCERTAIN_LOSSES

    def run(self) -> None:
        try:
            self._show()
            while True:
                self._submit()
                if not self._running:
                    return
                done, _ = wait(self._running, timeout=POLL_S, return_when=FIRST_COMPLETED)
                for future in done:
                    self._add_results(future)
                self._show()
        except BaseException:
            for future in self._running:
                future.cancel()
            self._engine.interrupt()
            raise
        finally:
            self._engine.close()
            if self._bar is not None:
                self._bar.close()

    def _submit(self) -> None:
        maximum = self._engine.workers * BATCHES_PER_WORKER
        while len(self._running) < maximum and self._coordinator.missing:
            # At the end, batches become smaller, so that all workers end at about the same time. After a loss, runs are
            # alone in their batches, so that the one that kills its worker is found.
            share = max(1, self._coordinator.missing // maximum)
            count = 1 if self._alone else min(BATCH, share)
            scale = self._real / self._expected if self._expected > 0 else 1.0
            batch, expected = self._coordinator.next_batch(count, BATCH_S, scale)
            if not batch[1]:
                return
            arguments = (
                self._store.path,
                self._store.url,
                self._campaign.name,
                self._engine.name,
                self._campaign._campaign.records,
                batch,
                self._coordinator.metric,
                _rnic.code(),
            )
            try:
                future = self._engine.submit(work, *arguments)
            except BrokenExecutor as error:
                self._coordinator.add_losses([key for key, *_ in batch[1]], False)
                self._restart(error)
                continue
            self._running[future] = (batch, expected)

    def _add_results(self, future: Future[Reports]) -> None:
        batch, expected = self._running.pop(future)
        try:
            reports = future.result()
        except Exception as error:
            if not self._engine.is_lost(error):
                raise
            self._add_losses(batch)
            self._restart(error)
            return
        for key, end, metric, seconds in reports:
            self._real += seconds
            self._alone.discard(key)
            self._coordinator.add_result(key, end, metric)
        self._expected += expected
        if len(reports) < len(batch[1]):
            ended = {key for key, *_ in reports}
            for key, *_ in batch[1]:
                if key not in ended:
                    self._coordinator.add_result(key, "interrupted", None)

    def _add_losses(self, batch: Batch) -> None:
        keys = [key for key, *_ in batch[1]]
        self._alone.update(keys)
        for key in keys:
            self._losses[key] = self._losses.get(key, 0) + 1
            # Journals tell which run of a batch had started. Without them, a run that is lost repeatedly counts.
            certain = len(keys) == 1 and (self._store.url is not None or self._losses[key] > self._limit)
            self._coordinator.add_losses([key], certain)
            # A run that was lost too often has a result now.
            self._store.push_results()

    def _restart(self, error: BaseException) -> None:
        if not self._engine.restart():
            done, _, _, wanted = self._coordinator.progress
            raise RuntimeError(
                f"the engine lost its workers ({error or type(error).__name__}); {done} of {wanted} runs have a result, "
                "and the same call with a new engine continues"
            ) from error

    def _show(self) -> None:
        if self._bar is not None:
            self._bar.show(self._coordinator.progress)


class _Bar:
    """A bar over all runs of a campaign: of tqdm if it is installed, else a line of text on stderr."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._last = 0.0
        self._start = time.monotonic()
        self._tqdm: Any = None
        try:
            from tqdm.auto import tqdm
        except ImportError:
            return
        self._tqdm = tqdm(desc=name, unit="run")

    def show(self, progress: tuple[int, int, int, int]) -> None:
        done, failed, _, wanted = progress
        if done < wanted and time.monotonic() < self._last + 0.1:
            return
        self._last = time.monotonic()
        if self._tqdm is not None:
            self._tqdm.total = wanted
            self._tqdm.n = done
            if failed:
                self._tqdm.set_postfix_str(f"{failed} failed", refresh=False)
            self._tqdm.refresh()
        else:
            elapsed = self._last - self._start
            sys.stderr.write(f"\r{self._name}: {done:,} of {wanted:,} runs, {failed} failed  {elapsed:.0f} s ")
            sys.stderr.flush()

    def close(self) -> None:
        if self._tqdm is not None:
            self._tqdm.close()
        else:
            sys.stderr.write("\n")


class CampaignResults:
    """The results of the campaigns in a folder. They can be pickled; unpickling opens the folder."""

    def __init__(self, folder: _rnic.CampaignFolder, store: str, name: str | None) -> None:
        self._folder = folder
        self._store = store
        self._name = name

    def __reduce__(self) -> tuple[Any, ...]:
        store = self._store if "://" in self._store else os.path.abspath(self._store)
        return load_campaign, (store, self._name)

    @property
    def names(self) -> list[str]:
        """Names of the campaigns."""
        return self._folder.names

    def table(self, *, provenance: bool = False) -> Table:
        """A row for each run with a result, in the order of the manifest and of the seeds.

        The columns are `campaign`, `run` (the name of the run in its scenario), the swept keys (and `label`), `seed`,
        `transport`, `cc`, `pfc`, `status` (completed, failed, lost), `failure` (the reason, or null), the numbers of
        the run in `summary.json` with keys joined by dots (`slowdown.p99`; their units are at the ends of their names),
        `point` (one of `Campaign.points`: the name of the run with its label and swept values), and `key`, the
        fingerprint of everything that determined the result. So
        `to_pandas().pivot_table("slowdown.p99", "run", "traffic.load")` has a row for each run and a column for each
        load. With `provenance`, further columns contain when, where and by which version of rnic the run was simulated;
        only these columns differ from one execution to the next.
        """
        return Table(self._folder.rows(provenance))

    @property
    def failures(self) -> Table:
        """Table of the failed and lost runs. Its columns are `campaign`, `point`, `seed`, `status`, `failure`."""
        return Table(self._folder.failures())

    def estimates(self, metric: str | None = None, *, confidence: float = 0.95) -> Table:
        """The mean of a metric over the seeds, a row for each point.

        `metric` is a number of `summary.json` with keys joined by dots, by default the metric of the campaign's
        `until`, or `slowdown.mean` without `until`. `half_width` is half of the width of the confidence interval
        (Student's t), or null with fewer than two seeds; `seeds`, `failed` and `missing` are numbers of runs; `verdict`
        is `done`, `open` (runs are missing), `wide` (the maximum of seeds is reached) or `undetermined` (a run failed
        or has no value). The columns `run`, the swept keys and `point` are the same as in `table`.
        """
        return Table(self._folder.estimates(metric, confidence))

    def flows(self, run: str, seed: int) -> Table:
        """The flows of a run, with the columns of `Results.flows`: `run` is the name of its point. The campaign must
        have `records=True`.

        Raises ValueError if the record of the run is not stored.
        """
        return Table(self._folder.flows(run, seed))

    def status(self) -> list[dict[str, Any]]:
        """The state of each campaign: numbers of runs, failures with reasons, workers, and `content`, a hash of all
        results, which is the same for every engine."""
        status: list[dict[str, Any]] = json.loads(self._folder.status())
        return status

    def write(self, path: str | os.PathLike[str], *, provenance: bool = False) -> None:
        """Writes `table()` to one file, as Parquet or CSV by its ending. The whole table is never in memory."""
        self._folder.write(os.fspath(path), provenance)

    def gc(self, *, dry_run: bool = False) -> dict[str, int]:
        """Removes results that no campaign of the folder contains, damaged files, and journals of ended workers.

        Returns the numbers of removed results (`unused`), damaged files (`damaged`) and journals (`journals`), and
        their `bytes`. With `dry_run` it only counts. It needs all campaigns of the folder, so `name` must not be given.
        """
        keys = ("unused", "damaged", "journals", "bytes")
        return dict(zip(keys, self._folder.clean(dry_run)))

    def to_pandas(self) -> pandas.DataFrame:
        """`table()` as a pandas DataFrame."""
        return self.table().to_pandas()

    def to_dict(self) -> dict[str, list[Any]]:
        """The columns of `table()` as lists, by name."""
        return self.table().to_dict()

    def __len__(self) -> int:
        """The number of runs with a result."""
        return len(self.table())

    def __repr__(self) -> str:
        states = [f"{s['name']}: {s['completed']} completed, {s['failed']} failed, {s['missing']} missing" for s in self.status()]
        return f"<rnic.CampaignResults {'; '.join(states)}>"

    def _repr_html_(self) -> str:
        head = ("campaign", "points", "runs", "completed", "failed", "missing")
        rows = ([state["name"], *(state[key] for key in head[1:])] for state in self.status())
        return _html.table(head, rows, count=len(self.names))


def load_campaign(store: str | os.PathLike[str], name: str | None = None) -> CampaignResults:
    """Opens the results in a folder, of the campaign `name` or of all campaigns. A URL of fsspec is copied first.

    Raises ValueError if the folder has no campaigns or none of this name.
    """
    text = os.fspath(store)
    if "://" not in text:
        return CampaignResults(_rnic.CampaignFolder(text, name), text, name)
    where = _Store(text)
    where.pull(["manifests/*", "runs/*"])
    results = CampaignResults(_rnic.CampaignFolder(where.path, name), text, name)
    # The copy lives as long as the results.
    weakref.finalize(results, where.close)
    return results
