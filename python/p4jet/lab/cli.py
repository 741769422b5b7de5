"""The command `p4jet-lab`."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence

from .errors import LabError, describe

PARTS = ("commands_network", "commands_results", "commands_experiments")
"""Modules with a function ``register(subparsers)`` that adds their subcommands."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command line and returns the exit status: 0, 1 for an error, 2 for wrong usage; `exec` returns its program's."""
    parser = argparse.ArgumentParser(prog="p4jet-lab", description="Networks from a file, and experiments with switches.")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for part in PARTS:
        if importlib.util.find_spec(f"p4jet.lab.{part}") is not None:
            importlib.import_module(f"p4jet.lab.{part}").register(subparsers)
    args = parser.parse_args(argv)
    try:
        os.getcwd()
    except FileNotFoundError:
        print("error: the current folder has been removed: change to another one", file=sys.stderr)
        return 1
    try:
        status: int = args.action(args) or 0
        return status
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # Whoever reads the output has left, as in `p4jet-lab types | head -1`.
        sys.stderr.close()
        return 1
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        print(f"error: {describe(error)}", file=sys.stderr)
        return 1
