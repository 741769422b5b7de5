"""Ends every process of a run, also those that left its process group, and also after the runner itself was killed.

Scripts of a run carry a token in their environment, which their children inherit. Run as a program, this file waits until its
standard input ends, which happens when the runner ends for whatever reason, and then ends the processes with the token. It needs
only the standard library.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

VARIABLE = "P4JET_LAB_RUN"
"""The environment variable with the token."""

ROUNDS = 50
"""Maximum number of searches: a process may start others while it is being ended."""


def end_processes(token: str) -> int:
    """Kills all processes whose token starts with `token`. Returns the number of those that are left after :data:`ROUNDS` searches."""
    left: list[int] = []
    for _ in range(ROUNDS):
        left = _with_token(token)
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # It has just ended.
        if not left:
            return 0
        time.sleep(0.02)
    return len(left)


def _with_token(token: str) -> list[int]:
    wanted = f"{VARIABLE}={token}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        if int(folder.name) == os.getpid():
            continue
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # It has ended, or belongs to another user and so not to this run.
        if any(variable.startswith(wanted) for variable in variables):
            found.append(int(folder.name))
    return found


if __name__ == "__main__":
    sys.stdin.buffer.read()
    end_processes(sys.argv[1])
