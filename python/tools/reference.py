"""Writes the reference of the package from its docstrings: `python3 python/tools/reference.py > docs/reference/python.md`."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import rnic

HEAD = """# The Python package

This page is generated from the docstrings of the package `rnic`. [rnic from Python](../guides/python.md) and [Thousands of runs](../guides/campaigns.md) are
guides to it.
"""

#: The documented modules, with the names that each of them documents; None: all public functions and classes.
MODULES: dict[str, list[str] | None] = {
    "rnic": [name for name in rnic.__all__ if not inspect.ismodule(getattr(rnic, name)) and name != "__version__"],
    "rnic.metrics": [
        name
        for name, value in vars(rnic.metrics).items()
        if inspect.isclass(value) and issubclass(value, rnic.Metrics) and name not in rnic.__all__
    ],
    "rnic.models": None,
    "rnic.topology": None,
    "rnic.engines": ["RayExecutor", "submit_hyperqueue"],
    "rnic.plot": ["Plot"],
}


def markdown(text: str | None) -> str:
    """A docstring as Markdown: a block after `::` becomes a block of code."""
    lines = inspect.cleandoc(text or "").splitlines()
    out: list[str] = []
    code = False
    for index, line in enumerate(lines):
        if code and line and not line.startswith("    "):
            while out and not out[-1]:
                out.pop()
            out += ["```", ""]
            code = False
        if not code and line.endswith("::"):
            out += [line[:-1] if line != "::" else "", "", "```python"]
            code = True
        elif code and out[-1] == "```python" and not line:
            continue
        else:
            out.append(line[4:] if code else line)
    if code:
        out.append("```")
    return "\n".join(out)


def signature(name: str, value: Any) -> str:
    try:
        text = str(inspect.signature(value))
    except (TypeError, ValueError):
        return name
    text = text.replace("(self, ", "(").replace("(self)", "()").replace("'", "")
    text = re.sub(r"\b(rnic|collections\.abc|typing)\.(\w+\.)?(?=[A-Z])", "", text)
    return name + text


def attributes(cls: type) -> str:
    """The keys of a class of metrics with their types, as a table in Markdown."""
    own = {name: kind for name, kind in inspect.get_annotations(cls).items() if not name.startswith("_")}
    if not issubclass(cls, rnic.Metrics) or not own:
        return ""
    rows = [f"| `{name}` | {kind.replace('|', 'or')} |" for name, kind in own.items()]
    return "\n".join(["| attribute | type |", "|---|---|", *rows])


def members(cls: type) -> Iterator[tuple[str, str, str]]:
    """The public members that the class itself defines: their heading, kind, and docstring."""
    # The attributes of classes in Rust have no order.
    members = sorted(vars(cls).items(), key=lambda member: member[0] if inspect.isgetsetdescriptor(member[1]) else "")
    for name, value in members:
        if name.startswith("_") and name != "__getitem__":
            continue
        if isinstance(value, property):
            yield name, "property", value.__doc__ or ""
        elif inspect.isgetsetdescriptor(value):
            yield name, "attribute", value.__doc__ or ""
        elif isinstance(value, (classmethod, staticmethod)):
            yield signature(f"{cls.__name__}.{name}", getattr(cls, name)), "", value.__doc__ or ""
        elif inspect.isfunction(value) and value.__doc__:
            yield signature(name, value), "", value.__doc__


def module(name: str, names: list[str] | None) -> Iterator[str]:
    found: ModuleType = importlib.import_module(name)
    if names is None:
        is_own = lambda value: getattr(value, "__module__", None) == name  # noqa: E731
        names = [key for key, value in vars(found).items() if not key.startswith("_") and is_own(value)]
    yield f"## `{name}`"
    yield markdown(found.__doc__)
    for key in names:
        value = getattr(found, key)
        yield f"### `{key}`"
        if inspect.isclass(value):
            if "__init__" in vars(value) and not issubclass(value, BaseException):
                yield f"```python\n{signature(key, value.__init__).replace(' -> None', '')}\n```"
            yield markdown(value.__doc__)
            yield attributes(value)
            for heading, kind, doc in members(value):
                yield f"**`{heading}`**" + (f" ({kind})" if kind else "")
                yield markdown(doc)
        else:
            yield f"```python\n{signature(key, value)}\n```"
            yield markdown(value.__doc__)


def reference() -> str:
    parts = [HEAD.strip()]
    for name, names in MODULES.items():
        parts += [part for part in module(name, names) if part]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    print(reference(), end="")
