"""The events of a run while it is simulated."""

from __future__ import annotations

import json
from types import TracebackType

from . import _rnic
from .metrics import Metrics
from .results import Results


class DropRow(Metrics):
    """Packets of a port and priority that were dropped and lost since the last sample."""

    __slots__ = ()

    port: int
    priority: int
    dropped: int
    lost: int


class Event(Metrics):
    """An event of a run; its keys are attributes. The key `event` names its kind, and the other keys depend on the
    kind.

    `started` (run, seed, parameters, warnings), `progress` (flows_done, flows_total, hops), `sample` (queue_bytes,
    delivered: payload bytes so far as pairs of flow and bytes), `drops` (after a sample: ports, a list of port,
    priority, and the packets dropped and lost since the last sample), `pause` (port, priority, from, to, root),
    `finished`, `interrupted` (flows_done), `failed` (reason). The reference of run documents has the schema. Times end
    in `_ps` (picoseconds); `event["from"]` and `event["to"]` of a pause are picoseconds, too. An attribute that the
    kind of the event does not have raises AttributeError.
    """

    __slots__ = ()

    #: Kind of the event.
    event: str
    run: str
    seed: int
    parameters: list[list[str]]
    warnings: list[str]
    flows_done: int
    flows_total: int | None
    flows_started: int
    hops: int
    time_ps: int
    duration_ps: int | None
    queue_bytes: list[int]
    delivered: list[list[int]]
    ports: list[DropRow]
    port: int
    priority: int
    root: int | None
    reason: str

    _parts = {"ports": DropRow}

    @property
    def time_us(self) -> float | None:
        """Simulated time of the event in microseconds; None for `started` and `failed`. For a pause, it is the end of
        the pause."""
        for key in ("time_ps", "to", "from"):
            if self.get(key) is not None:
                return float(self[key]) / 1e6
        return None


class Stream:
    """An iterator over the events of a run. The run is simulated in another thread, at most 256 events ahead.

    The run ends when the loop over its events is left and the iterator is closed or no longer used, so a program can
    stop it as soon as it has seen enough.
    """

    def __init__(self, stream: _rnic.Stream) -> None:
        self._stream = stream

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Event:
        text = self._stream.next()
        if text is None:
            raise StopIteration
        return Event(json.loads(text))

    def close(self) -> None:
        """Ends the run; there are no further events."""
        self._stream.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def results(self) -> Results:
        """The results of the run, after its last event; partial if `until` ended it.

        Raises RuntimeError before the last event.
        """
        results = self._stream.results()
        if results is None:
            raise RuntimeError("the run has not ended: read its events to the last one first")
        return Results(results)
