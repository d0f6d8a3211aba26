"""Helpers of all tests."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rnic

#: The command of the wheel.
COMMAND = [sys.executable, "-m", "rnic"]


def needs(module: str):
    """The module, which the package does not depend on. Without it the test is skipped, but fails in CI."""
    try:
        return importlib.import_module(module)
    except ImportError:
        if os.environ.get("RNIC_TEST_ALL"):
            raise
        pytest.skip(f"{module} is not installed")


def command(*arguments: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, **options
    )


def other_command() -> list[str] | None:
    """The command that Cargo built, if the environment variable RNIC names it or it is installed."""
    found = os.environ.get("RNIC") or shutil.which("rnic")
    return [found] if found else None


#: Four hosts, two runs: simulated in milliseconds.
SMALL = {
    "fabric": {"topology": "single-switch", "hosts": 4, "rate": "100 Gbps", "delay": "1 us"},
    "traffic": {"pattern": "poisson", "load": 0.6, "sizes": "fixed 64 KB", "flows": 200, "warmup": 20},
    "run": [
        {"name": "IRN", "transport": "irn"},
        {"name": "RoCE + PFC", "transport": "roce", "pfc": True},
    ],
}


@pytest.fixture
def small() -> rnic.Scenario:
    return rnic.Scenario(name="small", **SMALL)


@pytest.fixture(scope="session")
def results() -> rnic.Results:
    return rnic.Scenario(name="small", **SMALL).run()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path
