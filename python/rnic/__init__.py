"""RDMA simulation from Python.

Three lines compare RoCE with IRN on the fabric of the IRN paper::

    import rnic
    results = rnic.Scenario.load("irn/default").with_(**{"traffic.flows": 2000, "traffic.warmup": 200}).run()
    print(results["IRN"].slowdown.p99, results["RoCE + PFC"].slowdown.p99)

`Scenario` describes the simulation, `Results` has the statistics of each run, and `Table` the records of flows, ports
and so on, which pandas, polars, pyarrow and DuckDB read without a copy.
"""

import os

from . import _rnic, engines, models, topology
from ._rnic import RunError, ScenarioError, __version__
from .campaign import Campaign, CampaignResults, load_campaign
from .congestion import AckSample, CongestionControl, Flow
from .metrics import Distribution, Group, Metrics, RunResult
from .results import Report, Results
from .scenario import Scenario, scenarios
from .seeds import Estimate, RunEstimates, SeedResults
from .simulation import CompletionTable, PortStateTable, Simulation
from .stream import Event, Stream
from .table import (
    CollectiveTable,
    FlowTable,
    GoodputTable,
    LinkTable,
    MatrixTable,
    MeshTable,
    PauseTable,
    PortTable,
    QueueTable,
    RequestTable,
    StepLinkTable,
    StepTable,
    Table,
    TimelineTable,
    VictimTable,
    WatchdogTable,
)


def decode(path: str | os.PathLike[str], *, checksums: bool = False) -> Table:
    """Decodes a capture file (pcap or pcapng): a row for each RoCE packet and PFC frame.

    Columns are `frame` (number in the file, from 1), `time` (seconds since 1970, as text with nine decimals),
    `interface`, `kind` (RoCEv2, RoCEv1, PFC, malformed), `frame_bytes`, the fields of each header as `header.field`
    (such as `bth.psn`), `payload_bytes`, `icrc.ok`, and `bad`: what is wrong with the packet, or null. `checksums` also
    checks the checksums of IPv4 headers and of UDP. The fields are the same as in `rnic decode --format json`.

    Raises OSError if the file cannot be read, ValueError if it is damaged or not a capture file.
    """
    return Table(_rnic.decode(os.fspath(path), checksums))


__all__ = [
    "AckSample",
    "Campaign",
    "CampaignResults",
    "CollectiveTable",
    "CompletionTable",
    "CongestionControl",
    "Distribution",
    "Estimate",
    "Event",
    "Flow",
    "FlowTable",
    "GoodputTable",
    "Group",
    "LinkTable",
    "MatrixTable",
    "MeshTable",
    "Metrics",
    "PauseTable",
    "PortStateTable",
    "PortTable",
    "QueueTable",
    "Report",
    "RequestTable",
    "Results",
    "RunError",
    "RunEstimates",
    "RunResult",
    "Scenario",
    "ScenarioError",
    "SeedResults",
    "Simulation",
    "StepLinkTable",
    "StepTable",
    "Stream",
    "Table",
    "TimelineTable",
    "VictimTable",
    "WatchdogTable",
    "__version__",
    "decode",
    "engines",
    "load_campaign",
    "models",
    "scenarios",
    "topology",
]
