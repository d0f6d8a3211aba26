"""RDMA simulation from Python.

Three lines compare RoCE with IRN on the fabric of the IRN paper::

    import rnic
    results = rnic.Scenario.load("irn/default").with_(**{"traffic.flows": 2000, "traffic.warmup": 200}).run()
    print(results["IRN"].slowdown.p99, results["RoCE + PFC"].slowdown.p99)

`Scenario` describes what to simulate, `Results` has the statistics of each run, and `Table` the records behind them,
which pandas, polars, pyarrow and DuckDB read without a copy.
"""

from ._rnic import RunError, ScenarioError, __version__
from .results import Distribution, Group, Metrics, Results, RunResult
from .scenario import Scenario, scenarios
from .table import Table

__all__ = [
    "Distribution",
    "Group",
    "Metrics",
    "Results",
    "RunError",
    "RunResult",
    "Scenario",
    "ScenarioError",
    "Table",
    "__version__",
    "scenarios",
]
