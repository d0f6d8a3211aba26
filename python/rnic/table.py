"""Tables of records."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, overload

from . import _html, _rnic

if TYPE_CHECKING:
    import pandas
    from typing_extensions import Self

#: Maximum number of columns whose names the representation of a table has.
NAMED = 8


class Table:
    """A table with named columns, in the memory format of Apache Arrow.

    A table has the PyCapsule interface of Arrow, so other libraries read its columns without a copy:
    `polars.DataFrame(table)`, `pyarrow.table(table)`, `pandas.DataFrame.from_arrow(table)` (pandas 3), and DuckDB
    after `pyarrow.table`. Without any of them, `table["fct_us"]` is a list. Tables can be copied, pickled and compared
    by value.

    The name of a column ends in its unit; columns without a unit are counts or names. A missing value (for example, the
    completion time of a flow that has not finished) is a null, and `None` in lists.
    """

    def __init__(self, table: _rnic.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The table as a stream of record batches (Arrow PyCapsule interface). `requested_schema` has no effect."""
        return self._table.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """The names and types of the columns (Arrow PyCapsule interface)."""
        return self._table.__arrow_c_schema__()

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self._table.column_names

    def __len__(self) -> int:
        """The number of rows."""
        return self._table.num_rows

    def __getitem__(self, column: str) -> list[Any]:
        """The values of a column as a list, with a length of `len(self)`.

        Raises KeyError if there is no such column.
        """
        if not isinstance(column, str):
            raise TypeError(
                f"table[{column!r}]: accepted is the name of a column, as in table[{self.columns[0]!r}]; the rows are "
                "list(table)"
                if self.columns
                else f"table[{column!r}]: the table has no columns"
            )
        return self._table.column(column)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows as dictionaries. For many rows, one of the libraries above is faster."""
        names = self.columns
        for row in zip(*(self._table.column(name) for name in names)):
            yield dict(zip(names, row))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self._table.equals(other._table)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self._table.state())

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __repr__(self) -> str:
        names = self.columns
        more = f", and {len(names) - NAMED} more columns" if len(names) > NAMED else ""
        return f"<rnic.{type(self).__name__}: {len(self):,} rows of {', '.join(names[:NAMED])}{more}>"

    def _repr_html_(self) -> str:
        first = itertools.islice(self, _html.ROWS)
        return _html.table(self.columns, (list(row.values()) for row in first), count=len(self))

    def to_dict(self) -> dict[str, list[Any]]:
        """The columns as lists, by name."""
        return {name: self._table.column(name) for name in self.columns}

    def to_pandas(self) -> pandas.DataFrame:
        """The table as a pandas DataFrame. It needs pandas; with pyarrow or pandas 3, numbers are not converted."""
        import pandas

        try:
            import pyarrow
        except ImportError:
            return pandas.DataFrame(self.to_dict())
        frame: pandas.DataFrame = pyarrow.table(self).to_pandas()
        return frame


def _restored(kind: type[Table], state: Any) -> Table:
    return kind(_rnic.Table.of_state(state))


# The tables of result files. The overloads have their columns, so that type checkers find misspelt names; a test
# compares them with the columns. A program with the name of a column in a variable declares the table as `Table`.


class FlowTable(Table):
    """The flows of runs: a row for each flow. A flow that has not finished has no completion time."""

    if TYPE_CHECKING:

        @overload  # type: ignore[override]
        def __getitem__(self, column: Literal["run", "traffic"]) -> list[str]: ...

        @overload
        def __getitem__(
            self,
            column: Literal[
                "flow", "src", "dst", "bytes", "retransmitted", "timeouts", "delivered_bytes",
            ],
        ) -> list[int]: ...

        @overload
        def __getitem__(self, column: Literal["start_us", "ideal_us"]) -> list[float]: ...

        @overload
        def __getitem__(
            self,
            column: Literal[
                "finish_us", "fct_us", "slowdown", "goodput_bps",
            ],
        ) -> list[float | None]: ...

        @overload
        def __getitem__(self, column: Literal["request"]) -> list[int | None]: ...

        @overload
        def __getitem__(self, column: Literal["measured"]) -> list[bool]: ...

        def __getitem__(self, column: Any) -> Any: ...


class PortTable(Table):
    """Counters of ports: a row for each port and priority."""

    if TYPE_CHECKING:

        @overload  # type: ignore[override]
        def __getitem__(self, column: Literal["run", "node", "peer"]) -> list[str]: ...

        @overload
        def __getitem__(
            self,
            column: Literal[
                "port", "priority", "tx_packets", "tx_bytes", "drops",
                "lost", "pause_sent", "pause_received", "queue_high_water_bytes", "trimmed", "returned",
            ],
        ) -> list[int]: ...

        @overload
        def __getitem__(self, column: Literal["rate_gbps", "paused_us"]) -> list[float]: ...

        @overload
        def __getitem__(self, column: Literal["utilisation"]) -> list[float | None]: ...

        def __getitem__(self, column: Any) -> Any: ...


class QueueTable(Table):
    """Sampled queue lengths: a row for each sample of each queue."""

    if TYPE_CHECKING:

        @overload  # type: ignore[override]
        def __getitem__(self, column: Literal["run", "queue"]) -> list[str]: ...

        @overload
        def __getitem__(self, column: Literal["time_us"]) -> list[float]: ...

        @overload
        def __getitem__(self, column: Literal["bytes"]) -> list[int]: ...

        def __getitem__(self, column: Any) -> Any: ...


class LinkTable(Table):
    """Sampled utilisation of links: a row for each sample of each direction, from the second sample on."""

    if TYPE_CHECKING:

        @overload  # type: ignore[override]
        def __getitem__(self, column: Literal["run", "link"]) -> list[str]: ...

        @overload
        def __getitem__(self, column: Literal["time_us", "utilisation"]) -> list[float]: ...

        def __getitem__(self, column: Any) -> Any: ...


class GoodputTable(Table):
    """Sampled goodput: a row for each sample of each flow that was active."""

    if TYPE_CHECKING:

        @overload  # type: ignore[override]
        def __getitem__(self, column: Literal["run"]) -> list[str]: ...

        @overload
        def __getitem__(self, column: Literal["time_us", "goodput_gbps"]) -> list[float]: ...

        @overload
        def __getitem__(self, column: Literal["flow", "src", "dst"]) -> list[int]: ...

        def __getitem__(self, column: Any) -> Any: ...


class PauseTable(Table):
    """PFC pauses: a row for each pause of a transmitter."""

    if TYPE_CHECKING:

        @overload  # type: ignore[override]
        def __getitem__(self, column: Literal["run", "node", "peer"]) -> list[str]: ...

        @overload
        def __getitem__(self, column: Literal["root_kind", "root"]) -> list[str | None]: ...

        @overload
        def __getitem__(self, column: Literal["port", "priority"]) -> list[int]: ...

        @overload
        def __getitem__(self, column: Literal["from_us"]) -> list[float]: ...

        @overload
        def __getitem__(self, column: Literal["to_us"]) -> list[float | None]: ...

        def __getitem__(self, column: Any) -> Any: ...


class VictimTable(Table):
    """Flows that PFC delays although they cause no congestion: a row for each flow."""

    if TYPE_CHECKING:

        @overload  # type: ignore[override]
        def __getitem__(self, column: Literal["run"]) -> list[str]: ...

        @overload
        def __getitem__(self, column: Literal["root_kind", "root"]) -> list[str | None]: ...

        @overload
        def __getitem__(self, column: Literal["flow", "src", "dst"]) -> list[int]: ...

        @overload
        def __getitem__(self, column: Literal["victim_us"]) -> list[float]: ...

        @overload
        def __getitem__(self, column: Literal["goodput_bps"]) -> list[float | None]: ...

        @overload
        def __getitem__(self, column: Literal["finished"]) -> list[bool]: ...

        def __getitem__(self, column: Any) -> Any: ...


class MeshTable(Table):
    """Round-trip times of probes: a row for each mesh and time."""

    if TYPE_CHECKING:

        @overload  # type: ignore[override]
        def __getitem__(self, column: Literal["run", "mesh"]) -> list[str]: ...

        @overload
        def __getitem__(self, column: Literal["from_us"]) -> list[float]: ...

        @overload
        def __getitem__(self, column: Literal["p50_us", "p99_us", "p999_us", "max_us"]) -> list[float | None]: ...

        @overload
        def __getitem__(self, column: Literal["probes", "unanswered"]) -> list[int]: ...

        def __getitem__(self, column: Any) -> Any: ...


class CollectiveTable(Table):
    """Collective operations: a row for each operation of a group, or of a communicator of a program of tasks. An
    operation that did not complete has no end. Only operations of tasks have a step and a kind."""

    if TYPE_CHECKING:

        @overload  # type: ignore[override]
        def __getitem__(self, column: Literal["run", "traffic", "operation", "algorithm"]) -> list[str]: ...

        @overload
        def __getitem__(self, column: Literal["kind"]) -> list[str | None]: ...

        @overload
        def __getitem__(self, column: Literal["ranks", "bytes", "group", "repeat"]) -> list[int]: ...

        @overload
        def __getitem__(self, column: Literal["step"]) -> list[int | None]: ...

        @overload
        def __getitem__(self, column: Literal["start_us", "last_start_us"]) -> list[float]: ...

        @overload
        def __getitem__(
            self,
            column: Literal[
                "end_us",
                "time_us",
                "algbw_GBps",
                "busbw_GBps",
                "late_us",
                "network_us",
                "excess_us",
                "queueing_us",
                "pause_us",
                "retransmission_us",
            ],
        ) -> list[float | None]: ...

        def __getitem__(self, column: Any) -> Any: ...


class MatrixTable(Table):
    """Payload between groups of hosts: a row for each interval and pair of groups in which messages arrived."""

    if TYPE_CHECKING:

        @overload  # type: ignore[override]
        def __getitem__(self, column: Literal["run", "traffic"]) -> list[str]: ...

        @overload
        def __getitem__(self, column: Literal["start_us", "end_us"]) -> list[float]: ...

        @overload
        def __getitem__(
            self, column: Literal["first_src", "last_src", "first_dst", "last_dst", "messages", "bytes"]
        ) -> list[int]: ...

        def __getitem__(self, column: Any) -> Any: ...


class StepTable(Table):
    """Training steps: a row for each step. A step that did not complete has no end."""

    if TYPE_CHECKING:

        @overload  # type: ignore[override]
        def __getitem__(self, column: Literal["run", "traffic"]) -> list[str]: ...

        @overload
        def __getitem__(self, column: Literal["step"]) -> list[int]: ...

        @overload
        def __getitem__(self, column: Literal["measured"]) -> list[bool]: ...

        @overload
        def __getitem__(self, column: Literal["start_us"]) -> list[float]: ...

        @overload
        def __getitem__(
            self,
            column: Literal[
                "end_us",
                "time_us",
                "computing",
                "late_us",
                "compute_us",
                "imbalance_us",
                "bubble_us",
                "network_us",
                "excess_us",
                "queueing_us",
                "pause_us",
                "retransmission_us",
            ],
        ) -> list[float | None]: ...

        def __getitem__(self, column: Any) -> Any: ...


class StepLinkTable(Table):
    """The busiest links of training steps: a row for each step and link, the busiest links of a step first."""

    if TYPE_CHECKING:

        @overload  # type: ignore[override]
        def __getitem__(self, column: Literal["run", "traffic", "link"]) -> list[str]: ...

        @overload
        def __getitem__(self, column: Literal["step", "bytes"]) -> list[int]: ...

        @overload
        def __getitem__(self, column: Literal["busy_us", "utilisation", "start_us", "end_us"]) -> list[float]: ...

        def __getitem__(self, column: Any) -> Any: ...


class RequestTable(Table):
    """Requests of inferences: a row for each request. A request that was not answered has no end."""

    if TYPE_CHECKING:

        @overload  # type: ignore[override]
        def __getitem__(self, column: Literal["run", "traffic"]) -> list[str]: ...

        @overload
        def __getitem__(self, column: Literal["request"]) -> list[int]: ...

        @overload
        def __getitem__(self, column: Literal["arrival_us"]) -> list[float]: ...

        @overload
        def __getitem__(
            self,
            column: Literal[
                "begin_us", "first_token_us", "end_us", "time_to_first_token_us", "time_per_output_token_us"
            ],
        ) -> list[float | None]: ...

        def __getitem__(self, column: Any) -> Any: ...


class TimelineTable(Table):
    """Tasks of ranks in a training step: a row for each task that completed."""

    if TYPE_CHECKING:

        @overload  # type: ignore[override]
        def __getitem__(self, column: Literal["run", "traffic", "task", "kind"]) -> list[str]: ...

        @overload
        def __getitem__(self, column: Literal["rank"]) -> list[int]: ...

        @overload
        def __getitem__(self, column: Literal["start_us", "end_us"]) -> list[float]: ...

        def __getitem__(self, column: Any) -> Any: ...


class WatchdogTable(Table):
    """Pause storms that watchdogs found: a row for each storm. A storm that lasts to the end of the run was not
    restored."""

    if TYPE_CHECKING:

        @overload  # type: ignore[override]
        def __getitem__(self, column: Literal["run", "action"]) -> list[str]: ...

        @overload
        def __getitem__(self, column: Literal["port"]) -> list[str]: ...

        @overload
        def __getitem__(self, column: Literal["priority", "dropped"]) -> list[int]: ...

        @overload
        def __getitem__(self, column: Literal["detected_us"]) -> list[float]: ...

        @overload
        def __getitem__(self, column: Literal["restored_us"]) -> list[float | None]: ...

        def __getitem__(self, column: Any) -> Any: ...
