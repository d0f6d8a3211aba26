"""Small tables in HTML, which notebooks show."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

#: Maximum number of rows of a table that a notebook shows.
ROWS = 20


def cell(value: object) -> str:
    """A value as the text of a cell: numbers with four digits, and an empty cell for None."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)


def table(head: Sequence[str], rows: Iterable[Sequence[object]], *, caption: str = "", count: int | None = None) -> str:
    """A table with at most `ROWS` rows of `count` rows. All text is escaped."""
    shown: list[str] = []
    for row in rows:
        if len(shown) == ROWS:
            break
        cells = "".join(
            f'<td style="text-align: {"right" if isinstance(value, (int, float)) else "left"}">'
            f"{html.escape(cell(value))}</td>"
            for value in row
        )
        shown.append(f"<tr>{cells}</tr>")
    heads = "".join(f"<th>{html.escape(name)}</th>" for name in head)
    above = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    more = "" if count is None or count <= len(shown) else f"<p>{count - len(shown):,} more rows</p>"
    return f"<table>{above}<thead><tr>{heads}</tr></thead><tbody>{''.join(shown)}</tbody></table>{more}"
