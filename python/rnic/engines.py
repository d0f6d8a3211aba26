"""Engines that execute the runs of campaigns.

`Campaign.run` accepts the names `"processes"` and `"threads"`, any `concurrent.futures.Executor`, a client of
`dask.distributed`, and the `RayExecutor` of this module.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

from . import _rnic


class Engine:
    """An executor of campaigns: how many workers it has, and whether it can be started again."""

    def __init__(
        self,
        name: str,
        executor: Executor,
        workers: int,
        *,
        make: Callable[[], Executor] | None = None,
        stop: _rnic.Stop | None = None,
    ) -> None:
        self.name = name
        self.workers = max(workers, 1)
        self._executor = executor
        self._make = make
        self._stop = stop

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Submits a batch. `function` has a last parameter `stop`."""
        return self._executor.submit(function, *arguments, self._stop)

    def is_lost(self, error: BaseException) -> bool:
        """Whether the error says that a worker was killed."""
        names = {kind.__name__ for kind in type(error).__mro__}
        lost = {
            "BrokenExecutor",
            "KilledWorker",
            "WorkerCrashedError",
            "OutOfMemoryError",
            "NodeDiedError",
            "ManagerLost",
            "WorkerLost",
            "TerminatedWorkerError",
        }
        return bool(names & lost)

    def restart(self) -> bool:
        """Starts the workers again, if the executor cannot do it alone; false if this is not possible."""
        if self._make is None:
            return not isinstance(self._executor, ProcessPoolExecutor)
        # Batches that were submitted to the broken executor fail, and each of them comes here.
        if getattr(self._executor, "_broken", False):
            self._executor.shutdown(wait=False)
            self._executor = self._make()
        return True

    def interrupt(self) -> None:
        """Ends the batches that go on, if this engine has started their workers. Their runs leave no result."""
        if self._stop is not None:
            self._stop.set()
        elif self._make is not None:
            for pid in list(getattr(self._executor, "_processes", None) or {}):
                try:
                    os.kill(pid, signal.SIGINT)
                except ProcessLookupError:
                    pass

    def close(self) -> None:
        """Ends the workers that this engine has started."""
        if self._make is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)


def _processes(workers: int) -> Executor:
    # A fork of a process that has threads may hang, and these processes load nothing but rnic.
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))


def engine_of(engine: object, workers: int | None) -> Engine:
    """The engine that an argument of `Campaign.run` names."""
    if workers is not None and workers < 1:
        raise ValueError(f"workers = {workers}; accepted: 1 or more")
    count = workers or os.cpu_count() or 1
    if engine == "threads":
        threads = ThreadPoolExecutor(count)
        return Engine("threads", threads, count, make=lambda: ThreadPoolExecutor(count), stop=_rnic.Stop())
    if engine == "processes":
        return Engine("processes", _processes(count), count, make=lambda: _processes(count))
    if hasattr(engine, "get_executor") and hasattr(engine, "nthreads"):
        # A client of dask.distributed. Its tasks are started again when their worker was killed.
        total = sum(engine.nthreads().values())
        return Engine("dask", engine.get_executor(pure=False), workers or total or 1)
    if isinstance(engine, Executor):
        module = type(engine).__module__.split(".")[0]
        known = getattr(engine, "_max_workers", None) or getattr(engine, "num_workers", None)
        client = getattr(engine, "_client", None)
        if known is None and client is not None and hasattr(client, "nthreads"):
            known = sum(client.nthreads().values())
        name = {"distributed": "dask", "concurrent": "executor", "rnic": getattr(engine, "name", "executor")}
        return Engine(name.get(module, module), engine, workers or (known if isinstance(known, int) else None) or count)
    raise TypeError(
        f"{engine!r} is no engine; accepted: \"processes\", \"threads\", an Executor of concurrent.futures, a client of "
        "dask.distributed, or rnic.engines.RayExecutor()"
    )


class RayExecutor(Executor):
    """An executor whose tasks run in a cluster of Ray: `rnic.engines.RayExecutor()`.

    It starts Ray on this machine if it is not connected to a cluster. `options` are options of `ray.remote`, such as
    `num_cpus=1`. If the worker of a task is killed, Ray starts the task again, up to `max_retries` times.
    """

    name = "ray"

    def __init__(self, **options: Any) -> None:
        try:
            import ray
        except ImportError:
            raise ImportError("RayExecutor needs the package ray: pip install rnic[ray]") from None
        self._ray: Any = ray
        if not ray.is_initialized():
            ray.init(include_dashboard=False, log_to_driver=False)
        self._remote = ray.remote(**{"num_cpus": 1, "max_retries": 2, **options})(_call)
        self._max_workers = max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Future[Any]:
        """Starts a task, and returns its future."""
        future: Future[Any] = self._remote.remote(function, arguments, keywords).future()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Does nothing: Ray belongs to its cluster."""


def _call(function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    return function(*arguments, **keywords)


def submit_hyperqueue(
    client: Any, manifest: str | os.PathLike[str], store: str | os.PathLike[str], shards: int, *, command: list[str] | None = None
) -> Any:
    """Submits a manifest to a cluster of HyperQueue, as a job with `shards` tasks, and returns the job.

    `client` is `hyperqueue.Client`. Each task executes `rnic campaign run MANIFEST --store STORE --shard i/n` on one
    processor; `command` is the command of rnic, by default the command of this Python. `client.wait_for_jobs([job])`
    waits for the job. The standard error of a task is in the folder `logs` of the store while the task runs, and
    stays there if the task fails.
    """
    from hyperqueue import Job
    from hyperqueue.output import StdioDef

    if shards < 1:
        raise ValueError(f"shards = {shards}; accepted: 1 or more")
    job = Job()
    store = os.path.abspath(os.fspath(store))
    # Not in the folder from which the job is submitted, where each task would leave two files, most of them empty.
    logs = os.path.join(store, "logs")
    os.makedirs(logs, exist_ok=True)
    errors = StdioDef.remove_if_finished(os.path.join(logs, "hq-%{SERVER_UID}-%{JOB_ID}-%{TASK_ID}.stderr"))
    start = [*(command or [sys.executable, "-m", "rnic"]), "campaign", "run", os.path.abspath(os.fspath(manifest))]
    for shard in range(1, shards + 1):
        arguments = ["--store", store, "--shard", f"{shard}/{shards}", "--threads", "1", "--quiet"]
        job.program([*start, *arguments], name=f"shard-{shard}", stdout=None, stderr=errors)
    return client.submit(job)
