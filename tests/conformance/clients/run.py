#!/usr/bin/env python3
"""Runs P4Runtime clients that were written for other targets against p4jet, unmodified.

    sudo tests/conformance/clients/run.py --p4jet target/release/p4jet --work DIR \\
        --python VENV/bin/python --tutorials DIR [--shell DIR] [--finsy DIR --finsy-python VENV/bin/python]
        [--pi DIR] [--p4-guide DIR] [--p4c DIR] [--sonic-pins DIR] [WORD …]

Each client is a checkout given by its path; those that are not given are left out. They are copied to the work directory,
which may not lie in /tmp, and their output goes to its folder `logs`. Words select the cases whose name contains one.
Everything runs in new namespaces (network, processes, mounts, an empty /tmp), so that nothing outside is touched. The exit
status is 0 if every case passes, cannot run here, or fails for a reason in `explained.txt`. docs/conformance.md says how
to install what the clients need.
"""

import argparse
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from harness import Lab, Report  # noqa: E402

INSIDE = "P4JET_CLIENTS_INSIDE"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    path = os.path.abspath
    parser.add_argument("--p4jet", required=True, type=path, help="the program under test")
    parser.add_argument("--work", required=True, type=path, help="a folder for copies and logs")
    parser.add_argument("--python", required=True, type=path, help="Python with p4runtime, p4runtime-shell, scapy, ptf")
    parser.add_argument("--finsy-python", type=path, help="Python with finsy, shellous, pytest")
    for client in ("tutorials", "shell", "finsy", "pi", "p4-guide", "p4c", "sonic-pins"):
        parser.add_argument(f"--{client}", type=path, help=f"a checkout of {client}")
    parser.add_argument("words", nargs="*")
    return parser.parse_args()


def enter_namespaces():
    """Runs this script again in namespaces of its own; processes in them end with it."""
    os.environ[INSIDE] = "1"
    unshare = ["unshare", "--mount", "--net", "--pid", "--ipc", "--uts", "--fork", "--kill-child", "--mount-proc"]
    os.execvp("unshare", [*unshare, sys.executable, os.path.abspath(__file__), *sys.argv[1:]])


def prepare_namespaces():
    commands = [
        ["mount", "-t", "tmpfs", "tmpfs", "/tmp"],
        ["mount", "-t", "tmpfs", "tmpfs", "/run"],
        ["mount", "-t", "sysfs", "sysfs", "/sys"],
        ["ip", "link", "set", "lo", "up"],
        # finsy asks for the address of the way to 10.254.254.254.
        ["ip", "address", "add", "10.254.254.1/24", "dev", "lo"],
    ]
    # finsy looks for files in these two; what is written there is gone at the end.
    for lower in ("/etc", "/usr/local"):
        upper, work = f"/tmp/overlay{lower}/upper", f"/tmp/overlay{lower}/work"
        commands.append(["mkdir", "-p", upper, work])
        options = f"lowerdir={lower},upperdir={upper},workdir={work}"
        commands.append(["mount", "-t", "overlay", "overlay", "-o", options, lower])
    for command in commands:
        subprocess.run(command, check=True)


def explained(path):
    """Reads lines `CASE: PART OF THE FAILURE: REASON`."""
    with open(path) as file:
        lines = [line.strip().split(": ", 2) for line in file if line.strip() and not line.startswith("#")]
    return {case: (part, reason) for case, part, reason in lines}


def main():
    args = arguments()
    if os.geteuid() != 0:
        sys.exit("must be root: it makes namespaces and interfaces")
    if any(path and path.startswith("/tmp/") for path in (args.p4jet, args.work, args.python, args.tutorials)):
        sys.exit("nothing may lie in /tmp: the clients get an empty one")
    if INSIDE not in os.environ:
        enter_namespaces()
    prepare_namespaces()
    os.makedirs(args.work, exist_ok=True)
    lab = Lab(args.p4jet, args.work, args.python)
    report = Report(lab, explained(os.path.join(os.path.dirname(os.path.abspath(__file__)), "explained.txt")), args.words)
    for cases in suites(lab, args):
        for name, function in cases:
            report.case(name, function)
    return report.finish()


def suites(lab, args):
    if args.tutorials:
        from tutorials import Exercises
        yield Exercises(lab, args.tutorials).cases()
    if args.shell:
        from shell import Shell
        yield Shell(lab, args.shell).cases()
    if args.finsy and args.finsy_python:
        from finsy_client import Finsy
        yield Finsy(lab, args.finsy, args.finsy_python).cases()
    if args.pi:
        from ptf_suites import Pi
        yield Pi(lab, args.pi).cases()
    if args.p4_guide:
        from ptf_suites import Guide
        yield Guide(lab, args.p4_guide).cases()
    if args.p4c:
        from ptf_suites import P4c
        yield P4c(lab, args.p4c).cases()
    if args.sonic_pins:
        from sai import Sai
        yield Sai(lab, args.sonic_pins).cases()


if __name__ == "__main__":
    sys.exit(main())
