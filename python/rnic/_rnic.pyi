"""The part of the package in Rust."""

from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from typing import Any, Literal

__version__: str

class ScenarioError(ValueError):
    """A scenario has mistakes, or describes something that cannot be simulated.

    The attributes describe the first mistake; `mistakes` has all of them.
    """

    file: str
    line: int | None
    column: int | None
    message: str
    accepted: str | None
    mistakes: list[ScenarioError]

class RunError(RuntimeError):
    """At least one run of a scenario failed. `results` has the results of all runs."""

    results: Any

Progress = list[tuple[float, int, int | None, float]]

class Scenario:
    name: str
    title: str
    seed: int
    runs: list[str]
    @staticmethod
    def load(path: str | PathLike[str]) -> Scenario: ...
    @staticmethod
    def from_toml(text: str, name: str, folder: str | PathLike[str]) -> Scenario: ...
    def changed(self, changes: Sequence[tuple[str, Any]], seed: int | None) -> Scenario: ...
    def to_toml(self) -> str: ...
    def selection(self, names: list[str]) -> list[str]: ...
    def specs(self) -> list[str]: ...
    def run(
        self,
        names: list[str],
        threads: int | None,
        listener: Callable[[Progress], None] | None,
        control: type | None,
    ) -> Results: ...

    def stream(self, name: str | None, until: str | None) -> Stream: ...

class Stream:
    def next(self) -> str | None: ...
    def close(self) -> None: ...
    def results(self) -> Results | None: ...

class Results:
    def summary(self, timing: bool) -> str: ...
    def failures(self) -> list[tuple[str, str]]: ...
    def table(self, width: int) -> str: ...
    def report(self) -> str: ...
    def write(self, folder: str | PathLike[str], flows: list[str]) -> list[str]: ...
    def flows(self, run: int | None) -> Table: ...
    def file(self, name: str) -> Table: ...

class AckSample:
    """The measurements that an ACK or NACK gives to a congestion control."""

    now_us: float
    rtt_us: float
    acked: int
    in_flight: int
    marked: bool

class Flow:
    """What a congestion control knows of its flow and of the fabric."""

    line_rate_bps: int
    base_rtt_us: float
    bdp: int
    mtu: int
    header: int

class Table:
    num_rows: int
    column_names: list[str]
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...
    def column(self, name: str) -> list[Any]: ...

class Campaign:
    name: str
    seeds: int
    until: str | None
    records: bool
    points: list[str]
    def __init__(
        self,
        name: str,
        runs: Sequence[tuple[str | None, str]],
        seeds: int,
        until: str | None,
        max_seeds: int,
        confidence: float,
        records: bool,
    ) -> None: ...
    @staticmethod
    def load(path: str | PathLike[str]) -> Campaign: ...
    def save(self, path: str | PathLike[str]) -> None: ...
    def register(self, store: str | PathLike[str], replace: bool) -> None: ...
    def coordinate(
        self, store: str | PathLike[str], engine: str, retries: int, retry_failed: bool
    ) -> Coordinator: ...

Batch = tuple[list[str], list[tuple[str, int, int]]]
RunEnd = Literal["completed", "failed", "lost", "interrupted"]

class Coordinator:
    missing: int
    progress: tuple[int, int, int, int]
    metric: str | None
    def next_batch(self, count: int, seconds: float, scale: float) -> tuple[Batch, float]: ...
    def add_result(self, key: str, end: RunEnd, metric: float | None) -> None: ...
    def add_losses(self, keys: list[str], certain: bool) -> None: ...

class CampaignFolder:
    names: list[str]
    def __init__(self, store: str | PathLike[str], name: str | None) -> None: ...
    def rows(self, provenance: bool) -> Table: ...
    def estimates(self, metric: str | None, confidence: float) -> Table: ...
    def failures(self) -> Table: ...
    def flows(self, run: str, seed: int) -> Table: ...
    def status(self) -> str: ...
    def write(self, path: str | PathLike[str], provenance: bool) -> None: ...
    def clean(self, dry: bool) -> tuple[int, int, int, int]: ...

def work(
    store: str | PathLike[str],
    campaign: str,
    engine: str,
    records: bool,
    batch: Batch,
    metric: str | None,
    code: str,
    stop: Stop | None = None,
) -> list[tuple[str, RunEnd, float | None, float]]: ...

class Stop:
    def __init__(self) -> None: ...
    def set(self) -> None: ...

def code() -> str: ...
def result_files(key: str, records: bool) -> list[str]: ...
def command(arguments: list[str], start: list[str], libraries: str | PathLike[str]) -> int: ...
def builtin_scenarios() -> list[str]: ...
def document(table: dict[str, Any]) -> str: ...
def csv_of_arrow(source: object, path: str | PathLike[str]) -> int: ...
def csv_of_rows(rows: Iterable[Any], path: str | PathLike[str]) -> int: ...
def decode(path: str | PathLike[str], checksums: bool) -> Table: ...

Pairs = list[tuple[str, str]]
Times = tuple[str, str, str]
Switch = tuple[int, str, str, int, str, str, str | None, str | None, float]

def dcqcn_solve(
    rate: str,
    delay: str,
    packet: str,
    parameters: Pairs,
    marking: Pairs,
    flows: int,
    start: list[str],
    begin: list[str],
    times: Times,
) -> Table: ...
def dcqcn_fixed_points(
    rate: str, delay: str, packet: str, parameters: Pairs, marking: Pairs, flows: list[int]
) -> Table: ...
def timely_solve(
    rate: str,
    patched: bool,
    delay: str | None,
    packet: str,
    parameters: Pairs,
    flows: int,
    start: list[str],
    begin: list[str],
    times: Times,
) -> Table: ...
def buffers(switches: list[Switch], headroom: list[str | None]) -> Table: ...
