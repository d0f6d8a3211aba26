"""The commands `rnic` and `rnic-run`: console scripts, and `python -m rnic`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from ._rnic import command

#: The folder of `libibverbs.so.1` and `librdmacm.so.1`. Wheels of a release have it.
LIBRARIES = Path(__file__).parent / "lib"


def main() -> int:
    """Runs the command with the arguments of this process and returns its exit code."""
    # Python's own handler would only note the signal. The command handles Ctrl-C itself, as the program in Rust does.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.stdout.flush()
    return command(["rnic", *sys.argv[1:]], [sys.executable, "-m", "rnic"], LIBRARIES)


def run() -> int:
    """Replaces this process by an RDMA program that uses rnic's libraries: `rnic-run PROGRAM ARGS...`."""
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print("usage: rnic-run PROGRAM ARGS...\n\nRuns an RDMA program with rnic's libibverbs and librdmacm.")
        return 0 if len(sys.argv) == 2 else 2
    if not (LIBRARIES / "libibverbs.so.1").exists():
        message = f"{LIBRARIES} has no libibverbs.so.1: this package was built without the libraries; install a release"
        print(f"rnic-run: {message}", file=sys.stderr)
        return 2
    others = os.environ.get("LD_LIBRARY_PATH")
    os.environ["LD_LIBRARY_PATH"] = f"{LIBRARIES}:{others}" if others else str(LIBRARIES)
    try:
        os.execvp(sys.argv[1], sys.argv[1:])
    except OSError as error:
        print(f"rnic-run: {sys.argv[1]} cannot be run: {error.strerror}", file=sys.stderr)
    return 127


if __name__ == "__main__":
    sys.exit(main())
