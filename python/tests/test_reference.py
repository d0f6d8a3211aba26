"""The reference in `docs/reference/python.md` is that of the docstrings."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

PYTHON = Path(__file__).parents[1]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="signatures are written in another way")
def test_the_reference_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("reference", PYTHON / "tools" / "reference.py")
    assert spec is not None and spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    expected = generator.reference()
    assert "**`run(" in expected and "### `Campaign`" in expected
    stored = (PYTHON.parent / "docs" / "reference" / "python.md").read_text()
    assert stored == expected, "write it again: python3 python/tools/reference.py > docs/reference/python.md"
