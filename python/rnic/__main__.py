"""The `rnic` command, as the console script `rnic` and as `python -m rnic`."""

from __future__ import annotations

import signal
import sys

from ._rnic import command


def main() -> int:
    """Runs the command with the arguments of this process and returns its exit code."""
    # Python's own handler would only note the signal. The command handles Ctrl-C itself, as the program in Rust does.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.stdout.flush()
    return command(["rnic", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
