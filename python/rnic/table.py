"""Tables of records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import _rnic


class Table:
    """A table with named columns, in the memory format of Apache Arrow.

    A table has the PyCapsule interface of Arrow, so other libraries read its columns without a copy:
    `polars.DataFrame(table)`, `pyarrow.table(table)`, `pandas.DataFrame.from_arrow(table)` (pandas 3), and DuckDB
    after `pyarrow.table`. Without any of them, `table["fct_us"]` is a list.

    The units of a column are the end of its name; columns without a unit are counts or names. A missing value (for
    example, the completion time of a flow that has not finished) is a null, and `None` in lists.
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
        return self._table.column(column)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows as dictionaries. For many rows, one of the libraries above is faster."""
        names = self.columns
        for row in zip(*(self[name] for name in names)):
            yield dict(zip(names, row))

    def __repr__(self) -> str:
        return f"<rnic.Table: {len(self):,} rows of {', '.join(self.columns)}>"

    def to_dict(self) -> dict[str, list[Any]]:
        """The columns as lists, by name."""
        return {name: self[name] for name in self.columns}

    def to_pandas(self) -> Any:
        """The table as a pandas DataFrame. It needs pandas; with pyarrow or pandas 3, numbers are not converted."""
        import pandas

        try:
            import pyarrow
        except ImportError:
            return pandas.DataFrame(self.to_dict())
        return pyarrow.table(self).to_pandas()
