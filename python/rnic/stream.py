"""The events of a run while it is simulated."""

from __future__ import annotations

import json
from types import TracebackType

from . import _rnic
from .results import Metrics, Results


class Event(Metrics):
    """An event of a run; its keys are attributes. The key `event` names its kind, the others depend on it.

    `started` (run, seed, parameters, warnings), `progress` (flows_done, flows_total, hops), `sample` (queue_bytes,
    delivered: payload bytes so far as pairs of flow and bytes), `drops` (after a sample: ports, a list of port,
    priority, and the packets dropped and lost since the last sample), `pause` (port, priority, from, to, root),
    `finished`, `interrupted` (flows_done), `failed` (reason). The reference of run documents has the schema. Times end
    in `_ps` (picoseconds); `from` and `to` of a pause are picoseconds, too.
    """

    event: str

    @property
    def time_us(self) -> float | None:
        """Simulated time of the event in microseconds; None for `started` and `failed`. Of a pause it is the end."""
        for key in ("time_ps", "to", "from"):
            if self._values.get(key) is not None:
                return float(self._values[key]) / 1e6
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
