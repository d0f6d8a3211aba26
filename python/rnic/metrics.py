"""Metrics of runs: the parts of a run's summary, with the types of their keys.

The annotations of the classes are the keys of `summary.json`, so that type checkers and editors know them; a test
compares both.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

#: Keys of the resources that a simulation used. They differ from one execution to the next.
TIMING = ("wall_s", "cpu_s", "peak_rss_bytes")


def unknown(name: str, known: Iterable[str], kind: str = "metric") -> str:
    """A sentence about an unknown name, with the name that was probably meant."""
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    meant = f"did you mean `{close[0]}`? " if close else ""
    return f"there is no {kind} `{name}`; {meant}accepted: {', '.join(known)}"


class Metrics(dict[str, Any]):
    """A part of a summary: its keys are also attributes, `packets["dropped"]` is `packets.dropped`.

    The keys are those of `summary.json`, which the reference of result files describes, with their units. It is a
    dictionary that cannot be changed, so that `json.dumps` and `pandas.json_normalize` accept it; `to_dict()` returns a
    dictionary that can be changed.
    """

    __slots__ = ()

    #: The classes of keys with metrics of their own, or with a list of them.
    _parts: ClassVar[dict[str, type[Metrics]]] = {}
    #: Keys whose attribute raises an error if the value is missing, because nearly all runs have them.
    _expected: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__({key: self._wrapped(key, value) for key, value in values.items()})

    @classmethod
    def _wrapped(cls, key: str, value: Any) -> Any:
        if isinstance(value, Mapping):
            return cls._parts.get(key, Metrics)(value)
        if isinstance(value, (list, tuple)):
            return [cls._wrapped(key, element) for element in value]
        return value

    if not TYPE_CHECKING:  # Type checkers know the attributes by their annotations.

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            if name not in self:
                raise AttributeError(self._absent(name))
            value = self[name]
            if value is None and name in self._expected:
                raise AttributeError(self._missing(name))
            return value

    def _absent(self, name: str) -> str:
        return unknown(name, self)

    def _missing(self, name: str) -> str:
        return f'there is no `{name}`, because no flow was measured; ["{name}"] is None then'

    def _fixed(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("results cannot be changed; to_dict() returns a dictionary that can")

    __setitem__ = __delitem__ = __ior__ = update = pop = popitem = clear = setdefault = _fixed

    def to_dict(self) -> dict[str, Any]:
        """A copy as dictionaries, lists, numbers and text."""
        return {key: _plain(value) for key, value in self.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.to_dict(),)

    def __copy__(self) -> Metrics:
        return self

    def __deepcopy__(self, memo: object) -> Metrics:
        return self

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{key}={_short(value)}' for key, value in self.items())})"


def _plain(value: Any) -> Any:
    if isinstance(value, Metrics):
        return value.to_dict()
    return [_plain(element) for element in value] if isinstance(value, list) else value


def _short(value: Any) -> str:
    if isinstance(value, list) and len(value) > 4:
        return f"[{len(value)} values]"
    return f"{value:.6g}" if isinstance(value, float) else repr(value)


class Distribution(Metrics):
    """Statistics of a metric over the measured flows: mean, and nearest-rank percentiles."""

    __slots__ = ()

    mean: float
    p50: float
    p95: float
    p99: float
    p999: float


class QueueDistribution(Distribution):
    """Statistics of the samples of a queue."""

    __slots__ = ()

    max: float


class FlowCounts(Metrics):
    """Numbers of flows that started, that finished, that count in the statistics, and that the transport aborted."""

    __slots__ = ()

    offered: int
    completed: int
    measured: int
    aborted: int


class Packets(Metrics):
    """Numbers of packets over the whole fabric. `flooded` and `probes` exist only if they are not 0."""

    __slots__ = ()

    data: int
    control: int
    retransmitted: int
    dropped: int
    lost: int
    marked: int
    cnps: int
    delivered: int
    in_flight: int
    hops: int
    trimmed: int
    returned: int
    flooded: int
    probes: int


class PauseTotals(Metrics):
    """Number of PFC pause frames, and the time that all ports were paused."""

    __slots__ = ()

    frames: int
    time_us: float


class Utilisation(Metrics):
    """Share of the run for which links were sending, 0 to 1."""

    __slots__ = ()

    mean: float
    max: float


class Tier(Metrics):
    """The links from one kind of nodes to another: their number, bytes and utilisation, and the busiest link."""

    __slots__ = ()

    sender: str
    receiver: str
    links: int
    bytes: int
    utilisation: Utilisation
    busiest: str

    _parts = {"utilisation": Utilisation}


class Utilisations(Metrics):
    """Utilisation of the links between hosts and switches, and of all links."""

    __slots__ = ()

    hosts: Utilisation
    links: Utilisation

    _parts = {"hosts": Utilisation, "links": Utilisation}
    _expected = frozenset(_parts)

    def _missing(self, name: str) -> str:
        return f'a failed run has no utilisation of `{name}`; utilisation["{name}"] is None then'


class HostCpu(Metrics):
    """Time that hosts needed to send and to receive packets, in microseconds of simulated CPU time."""

    __slots__ = ()

    send: float
    receive: float


class Requests(Metrics):
    """Completion times of requests, in microseconds, and their number."""

    __slots__ = ()

    count: int
    mean: float
    p50: float
    p99: float
    max: float


class Goodput(Metrics):
    """Goodput of the measured flows in bit/s, and their number."""

    __slots__ = ()

    flows: int
    mean: float
    min: float
    p10: float
    p50: float
    max: float


class Truncation(Metrics):
    """The time at which the run was ended, and the numbers of flows that had not finished and not started at this
    time."""

    __slots__ = ()

    at_us: float
    unfinished: int
    not_started: int | None


class Group(Metrics):
    """A group of flows, of a size class or of a traffic source."""

    __slots__ = ()

    name: str
    flows: int
    slowdown: Distribution
    fct_us: Distribution

    _parts = {"slowdown": Distribution, "fct_us": Distribution, "goodput_bps": Goodput}
    _expected = frozenset(("slowdown", "fct_us", "goodput_bps"))


class SizeClass(Group):
    """The measured flows whose sizes lie in a range; `max_bytes` is None if the range has no end."""

    __slots__ = ()

    min_bytes: int
    max_bytes: int | None


class TrafficClass(Group):
    """The measured flows of a traffic source."""

    __slots__ = ()

    unfinished: int
    goodput_bps: Goodput


class QueueResult(Metrics):
    """The sampled lengths of a queue, in bytes."""

    __slots__ = ()

    queue: str
    bytes: QueueDistribution

    _parts = {"bytes": QueueDistribution}


class LinkResult(Metrics):
    """The sampled utilisation of one direction of a link, 0 to 1."""

    __slots__ = ()

    link: str
    utilisation: QueueDistribution

    _parts = {"utilisation": QueueDistribution}


class PauseRoot(Metrics):
    """A cause of pauses: a port that kept other ports paused, with start, duration and maximum number of these
    ports."""

    __slots__ = ()

    kind: str
    port: str
    priority: int
    first_us: float
    held_us: float
    max_ports: int


class PauseCycle(Metrics):
    """Ports that wait for each other."""

    __slots__ = ()

    first_us: float
    ports: list[str]
    at_end: bool


class PauseVictim(Metrics):
    """A flow that was held up although it caused no congestion."""

    __slots__ = ()

    flow: int
    src: int
    dst: int
    victim_us: float
    root: str
    finished: bool
    goodput_bps: float


class PausedPort(Metrics):
    """A port in the sample with the most paused ports."""

    __slots__ = ()

    port: str
    priority: int
    paused: bool
    since_us: float
    held_bytes: int
    waits_for: list[str]
    depth: int
    root: str


class PauseMoment(Metrics):
    """The sample with the most paused ports."""

    __slots__ = ()

    at_us: float
    paused: int
    ports: list[PausedPort]

    _parts = {"ports": PausedPort}


class Pauses(Metrics):
    """Which ports PFC paused, and why. Times are in microseconds."""

    __slots__ = ()

    interval_us: float
    samples: int
    max_paused: int
    roots: list[PauseRoot]
    cycle: PauseCycle | None
    victims: int
    longest_victims: list[PauseVictim]
    worst: PauseMoment | None

    _parts = {"roots": PauseRoot, "cycle": PauseCycle, "longest_victims": PauseVictim, "worst": PauseMoment}


class Storm(Metrics):
    """A pause storm that a watchdog found; `restored_us` is None if it lasted to the end."""

    __slots__ = ()

    port: str
    priority: int
    action: str
    detected_us: float
    restored_us: float | None
    dropped: int


class CollectiveTimes(Metrics):
    """Completion times of collective operations, in microseconds; None if no operation completed."""

    __slots__ = ()

    mean: float | None
    p50: float | None
    p99: float | None
    max: float | None


class CollectiveParts(Metrics):
    """The mean durations of the parts of a collective operation's critical path, in microseconds; their sum is the mean
    time of the operation."""

    __slots__ = ()

    late: float
    network: float
    excess: float


class CollectiveResult(Metrics):
    """The collective operations of a traffic source; bandwidths are in 10^9 bytes per second, as in nccl-tests."""

    __slots__ = ()

    traffic: str
    operation: str
    algorithm: str
    bytes: int
    ranks: int
    operations: int
    completed: int
    time_us: CollectiveTimes
    path_us: CollectiveParts | None
    algbw_GBps: float | None
    busbw_GBps: float | None

    _parts = {"time_us": CollectiveTimes, "path_us": CollectiveParts}


class OperationResult(Metrics):
    """The operations of one kind of a program of tasks, of all steps; bandwidths are in 10^9 bytes per second, as in
    nccl-tests. `ranks` is None for messages."""

    __slots__ = ()

    kind: str
    operation: str
    ranks: int | None
    count: int
    bytes: int
    time_us: CollectiveTimes
    algbw_GBps: float | None
    busbw_GBps: float | None

    _parts = {"time_us": CollectiveTimes}


class StepLink(Metrics):
    """A link that was busy in the training steps of a traffic source: its bytes per step on average, and the fraction
    of the time of the steps for which it was sending."""

    __slots__ = ()

    link: str
    bytes: float
    utilisation: float


class StepParts(Metrics):
    """The mean durations of the parts of a step's critical path, in microseconds; their sum is the mean time of the
    step."""

    __slots__ = ()

    late: float
    compute: float
    imbalance: float
    bubble: float
    network: float
    excess: float


class ExcessParts(Metrics):
    """Why the messages on the critical path of a step are slower than on an empty fabric: the parts of the excess in
    microseconds, on average over the steps. `sender` is the rest: messages wait at their senders."""

    __slots__ = ()

    queueing: float
    pause: float
    retransmission: float
    sender: float


class StepResult(Metrics):
    """The training steps of a traffic source; `computing` is the fraction of the time for which a rank computes."""

    __slots__ = ()

    traffic: str
    ranks: int
    steps: int
    completed: int
    time_us: CollectiveTimes
    computing: float | None
    path_us: StepParts | None
    excess_us: ExcessParts | None
    links: list[StepLink]
    operations: list[OperationResult]

    _parts = {
        "time_us": CollectiveTimes,
        "path_us": StepParts,
        "excess_us": ExcessParts,
        "links": StepLink,
        "operations": OperationResult,
    }


class ProbeTimes(Metrics):
    """Round-trip times of probes, in microseconds."""

    __slots__ = ()

    p50: float
    p99: float
    p999: float
    max: float


class MeshResult(Metrics):
    """The measurements of a mesh of probes."""

    __slots__ = ()

    name: str
    probes: int
    unanswered: int
    rtt_us: ProbeTimes

    _parts = {"rtt_us": ProbeTimes}


#: Keys that a run has only if the scenario asks for them, and what asks for them.
ON_REQUEST = {
    "base": "the scenario has no [sweep]",
    "point": "the scenario has no [sweep]",
    "truncated": "the run was not ended before its flows",
    "traffic": "the run has a single traffic source",
    "host_cpu_us": "the transport of the run has no CPU time of hosts",
    "queues": "give the scenario [watch] with `queues`",
    "links": "give the scenario [watch] with `links`",
    "pauses": "give the scenario [watch] with `pauses`",
    "collectives": "no traffic source has the pattern `collective`",
    "steps": "no traffic source has the pattern `training`, `inference` or `trace`",
    "watchdog": "no watchdog found a storm",
    "meshes": "give the scenario [[fabric.mesh]]",
    "failure": "the run did not fail",
}


class RunResult(Metrics):
    """The statistics of one run, as attributes: the same as in `summary.json`, rounded to six digits.

    The statistics of flows (`slowdown`, `fct_us`, `goodput_bps`) exist unless the run failed or measured no flow: their
    attributes then raise AttributeError, and `run["slowdown"]` is None. `base`, `point`, `truncated`, `traffic`,
    `host_cpu_us`, `queues`, `pauses`, `watchdog` and `meshes` exist only if the run has them.

    Two results are equal if they differ in `wall_s`, `cpu_s` and `peak_rss_bytes` at most.
    """

    __slots__ = ()

    #: Name of the run.
    name: str
    #: In a sweep: name of the run in the scenario file.
    base: str
    #: In a sweep: the swept keys, with their values in this run.
    point: Metrics
    #: Seed of the run, if it is not the scenario's.
    seed: int
    #: Name of the transport.
    transport: str
    #: Name of the congestion control.
    cc: str
    #: Whether the fabric uses PFC.
    pfc: bool
    #: How the run ended: "completed", "failed" or "interrupted".
    status: str
    #: When the run was ended, if it was ended before its flows.
    truncated: Truncation
    #: Numbers of flows.
    flows: FlowCounts
    #: Slowdown of the measured flows: their completion time, divided by that on an empty fabric.
    slowdown: Distribution
    #: Flow completion time of the measured flows, in microseconds.
    fct_us: Distribution
    #: The measured flows by size.
    sizes: list[SizeClass]
    #: The measured flows by traffic source, if there are several.
    traffic: list[TrafficClass]
    #: Numbers of packets.
    packets: Packets
    #: Share of the sent data packets that was dropped, 0 to 1.
    drop_rate: float | None
    #: PFC pauses: frames, and time_us summed over all ports.
    pause: PauseTotals
    #: Utilisation of links.
    utilisation: Utilisations
    #: The links by tier and direction.
    tiers: list[Tier]
    #: Number of retransmission timeouts.
    timeouts: int | None
    #: Simulated CPU time of hosts.
    host_cpu_us: HostCpu
    #: Mean completion time of requests, in microseconds.
    rct_us: float | None
    #: Completion times of requests; None without requests.
    requests: Requests | None
    #: Goodput of the measured flows, in bit/s.
    goodput_bps: Goodput
    #: Simulated time at the end, in microseconds.
    sim_time_us: float
    #: The settings in effect, both given and derived ones, as text with units.
    parameters: Metrics
    #: Warnings for readers of the results, one sentence each.
    warnings: list[str]
    #: The sampled queues, if the scenario has `[watch]` with `queues`.
    queues: list[QueueResult]
    #: The sampled links, if the scenario has `[watch]` with `links`.
    links: list[LinkResult]
    #: Pauses and their causes, if the scenario has `[watch]` with `pauses`.
    pauses: Pauses
    #: The collective operations, by traffic source.
    collectives: list[CollectiveResult]
    #: The training steps, by traffic source.
    steps: list[StepResult]
    #: The pause storms that watchdogs found.
    watchdog: list[Storm]
    #: The measurements of meshes of probes.
    meshes: list[MeshResult]
    #: Duration of the simulation in seconds; it differs from run to run.
    wall_s: float
    #: CPU time of the simulation in seconds.
    cpu_s: float
    #: Maximum memory of the process, in bytes.
    peak_rss_bytes: int

    _parts = {
        "truncated": Truncation,
        "flows": FlowCounts,
        "slowdown": Distribution,
        "fct_us": Distribution,
        "sizes": SizeClass,
        "traffic": TrafficClass,
        "packets": Packets,
        "pause": PauseTotals,
        "utilisation": Utilisations,
        "tiers": Tier,
        "host_cpu_us": HostCpu,
        "requests": Requests,
        "goodput_bps": Goodput,
        "queues": QueueResult,
        "links": LinkResult,
        "pauses": Pauses,
        "collectives": CollectiveResult,
        "steps": StepResult,
        "watchdog": Storm,
        "meshes": MeshResult,
    }
    _expected = frozenset(("slowdown", "fct_us", "goodput_bps"))

    @property
    def failure(self) -> str | None:
        """Why the run failed, one sentence; None if it did not."""
        reason = self.get("failure")
        return None if reason is None else str(reason)

    def _absent(self, name: str) -> str:
        if name in ON_REQUEST:
            return f'run "{self["name"]}" has no `{name}`: {ON_REQUEST[name]}'
        return super()._absent(name)

    def _missing(self, name: str) -> str:
        why = "no flow was measured" if self.failure is None else f"it failed: {self.failure}"
        return f'run "{self["name"]}" has no `{name}`: {why} (run["{name}"] is None then)'

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunResult) and _timeless(self) == _timeless(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        slowdown = self["slowdown"]
        found = "" if slowdown is None else f"; slowdown mean {slowdown['mean']:.4g}, p99 {slowdown['p99']:.4g}"
        flows = self["flows"]
        done = f"{flows['completed']:,} of {flows['offered']:,} flows"
        return f"<rnic.RunResult {self['name']!r}: {self['transport']}, {self['status']}, {done}{found}>"


def _timeless(run: RunResult) -> dict[str, Any]:
    return {key: value for key, value in run.items() if key not in TIMING}


def flattened(values: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """The numbers of a run, with keys joined by dots: the names of metrics."""
    flat: dict[str, float] = {}
    for key, value in values.items():
        name = f"{prefix}.{key}" if prefix else key
        if isinstance(value, Mapping):
            if key not in ("parameters", "point"):
                flat.update(flattened(value, name))
        elif isinstance(value, (int, float)) and not isinstance(value, bool) and key not in (*TIMING, "seed"):
            flat[name] = value
    return flat
