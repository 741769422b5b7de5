"""The subcommands of `p4jet-lab` for networks: up, down, list, exec, shell, capture, graph, types."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import signal
import sys
import time
from pathlib import Path
from typing import Any

from .capture import capture
from .errors import LabError, describe
from .network import Lab, Node, Process, Running, networks
from .switches import types
from .topology import Topology, set_programs

PING_SECONDS = 1
SECONDS_MAX = 1e6
"""Of a capture."""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the subcommands."""

    def add(name: str, action: Any, help: str, *, network: bool = True) -> argparse.ArgumentParser:
        parser = subparsers.add_parser(name, help=help, description=help)
        parser.set_defaults(action=action)
        if network:
            parser.add_argument("-n", "--network", metavar="NAME", help="which network; needed if `p4jet-lab up` has brought up several, and for networks of Python programs")
        return parser

    def add_file(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="a topology in TOML, or a topology.json of the P4 tutorials")

    up = add("up", _up, "Brings up the network that a file describes.", network=False)
    add_file(up)
    up.add_argument("--name", help="a name for the network other than the file's")
    up.add_argument("--program", action="append", default=[], metavar="[SWITCH=]FILE", help="the P4 program, of all switches or of one")
    up.add_argument("--type", action="append", default=[], metavar="[SWITCH=]TYPE", help="the type, of all switches or of one")
    up.add_argument("--foreground", action="store_true", help="runs until Ctrl-C or `p4jet-lab down` instead of in the background")

    down = add("down", _down, "Ends a network.")
    down.add_argument("--all", action="store_true", help="ends all networks of this user, also those of Python programs and experiments")
    add("list", _list, "Lists the networks that are up, with their nodes.", network=False)

    execute = add("exec", _exec, "Runs a program in a host or switch.")
    execute.add_argument("node", help="the host or switch")
    execute.add_argument("command", nargs=argparse.REMAINDER, help="the program and its arguments")

    add("shell", _shell, "Prompts for commands: `h1 ping -c1 h2` runs one in a node; `help` lists the others.")

    capture = add("capture", _capture, "Captures the frames of a port in a pcap file, until Ctrl-C or a limit.")
    capture.add_argument("node", help="the host or switch")
    capture.add_argument("port", type=int, help="its port")
    capture.add_argument("output", type=Path, help="the pcap file")
    capture.add_argument("--count", type=_count, help="ends after this many frames")
    capture.add_argument("--seconds", type=_seconds, help="ends after this time")

    graph = add("graph", _graph, "Draws a topology as SVG.", network=False)
    add_file(graph)
    graph.add_argument("-o", "--output", type=Path, help="a file instead of standard output")

    add("types", _types, "Lists the types of switches, and why a type cannot run here.", network=False)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 16 and int(text) > 0):
        raise argparse.ArgumentTypeError(f"`{text[:40]}`: expected a whole number above 0")
    return int(text)


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found <= SECONDS_MAX:
        raise argparse.ArgumentTypeError(f"`{text[:40]}`: expected a number of seconds above 0, up to {SECONDS_MAX:g}")
    return found


# ---- up and down ----


def _load(args: argparse.Namespace) -> Topology:
    topology = Topology.load(args.file)
    set_programs(topology, args.program)
    for text in sorted(args.type, key=lambda text: "=" in text):
        name, equals, kind = text.rpartition("=")
        if equals and name not in topology.switches:
            raise LabError(f"--type {text}: unknown switch {name!r}; there are: {', '.join(topology.switches)}")
        for switch in topology.switches.values():
            if not equals or switch.name == name:
                switch.type = kind
                if kind in types() and "p4" not in types()[kind].functions:
                    switch.program = switch.commands = switch.runtime = None
                    switch.options.clear()
    topology.name = args.name or topology.name
    return topology


def _up(args: argparse.Namespace) -> int:
    topology = _load(args)
    # Reports all faults before anything starts.
    lab = Lab(topology, is_from_up=True)
    if args.foreground:
        return _hold(lab, None)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        _in_background(lab, read, write)
    os.close(write)
    with open(read, encoding="utf-8") as pipe:
        answer = pipe.read()
    os.waitpid(pid, 0)
    if answer != "up":
        raise LabError(answer.removeprefix("error: ") or "the network has ended before it was up")
    for running in networks():
        if running.is_from_up and running.name == topology.name:
            _show(running)
    return 0


def _in_background(lab: Lab, read: int, write: int) -> None:
    """Never returns: holds the network in a process of its own, which no terminal ends."""
    os.close(read)
    os.setsid()
    if os.fork() > 0:
        os._exit(0)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    status = 1
    try:
        status = _hold(lab, write)
    except BaseException as error:
        # Whatever it is, the process that waits has to learn it. After "up", nobody reads any more.
        with contextlib.suppress(OSError):
            os.write(write, f"error: {describe(error)}".encode())
    os._exit(status)


def _hold(lab: Lab, ready: int | None) -> int:
    """Brings a network up and keeps it until SIGINT, SIGTERM, or its end."""
    stop = {signal.SIGINT, signal.SIGTERM}
    with lab:
        # Not before: programs of the network would inherit the mask.
        signal.pthread_sigmask(signal.SIG_BLOCK, stop)
        if ready is not None:
            os.write(ready, b"up")
            os.close(ready)
        else:
            _show(next(running for running in networks() if running.runtime == lab.runtime))
            print("Ctrl-C ends it", flush=True)
        while signal.sigtimedwait(stop, 1.0) is None:
            if not lab.is_up():
                print(f"network {lab.topology.name} has ended", file=sys.stderr)
                return 1
    return 0


def _down(args: argparse.Namespace) -> int:
    chosen = networks() if args.all else [_choose(args.network)]
    for running in chosen:
        print(f"ends {running.name}, {_holder(running)}", flush=True)
        # The name was read while the process held its lock, so the id is still its own.
        with contextlib.suppress(ProcessLookupError):
            os.kill(running.pid, signal.SIGTERM)
    end = time.monotonic() + 20.0
    left = {running.runtime for running in chosen}
    while left:
        left &= {running.runtime for running in networks()}
        if time.monotonic() > end:
            raise LabError(f"{', '.join(running.name for running in chosen if running.runtime in left)} is still up after 20 s; kill -9 its process")
        time.sleep(0.05)
    return 0


def _choose(name: str | None, node: str | None = None) -> Running:
    """Returns the network of this name; without a name the only one from `p4jet-lab up`, or else the only one that has the node."""
    all_networks = networks()
    found = [running for running in all_networks if running.name == name] if name is not None else all_networks
    from_up = [running for running in found if running.is_from_up]
    if len(from_up) > 1:
        with_node = [running for running in from_up if node in running.nodes]
        from_up = with_node if len(with_node) == 1 else from_up
    if name is None and not from_up:
        found = [running for running in found if node in running.nodes]
    chosen = from_up or found
    if len(chosen) == 1:
        return chosen[0]
    have = ", ".join(running.name for running in all_networks)
    if not all_networks:
        raise LabError("no network is up: p4jet-lab up FILE")
    if name is None:
        few = "several networks are up" if chosen else "no network is from p4jet-lab up" + (f", and none has a node {node}" if node else "")
        raise LabError(f"{few}: choose one with --network; there are: {have}")
    if not found:
        raise LabError(f"no network {name!r} is up; there are: {have}")
    raise LabError(f"{len(found)} networks are named {name}; end them with p4jet-lab down --all, or their programs")


def _list(args: argparse.Namespace) -> int:
    for running in networks():
        _show(running)
    return 0


def _show(running: Running) -> None:
    print(f"{running.name}: {_holder(running)}, logs in {running.folder}")
    for name, kind in running.kinds.items():
        interfaces = ", ".join(running.nodes[name].interfaces.values()) or "no interfaces"
        notes = ["its program has ended"] if running.has_ended(name) else running.addresses[name]
        print(f"  {name:10} {kind:16} {interfaces:24} {' '.join(notes)}".rstrip())


def _holder(running: Running) -> str:
    return f"process {running.pid}" + ("" if running.is_from_up else " (not from p4jet-lab up)")


# ---- in nodes ----


def _exec(args: argparse.Namespace) -> int:
    # argparse keeps a leading -- of the rest.
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise LabError("exec: found no program; expected p4jet-lab exec NODE PROGRAM …")
    return _run(_choose(args.network, args.node).node(args.node), command)


def _run(node: Node, command: list[str]) -> int:
    """Runs a program with the standard streams of this one and returns its status as a shell does."""
    sys.stdout.flush()
    process: Process | None = None
    early: list[int] = []
    """Signals that came before the program had started."""

    def forward(number: int, _: object) -> None:
        if process is None:
            early.append(number)
        else:
            process.signal(number)

    old = {number: signal.signal(number, forward) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        process = node.start(command, (0, 1, 2))
        for number in early:
            process.signal(number)
        status = None
        while status is None:
            status = process.poll_for(1.0)
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
    return status if status >= 0 else 128 - status


def _capture(args: argparse.Namespace) -> int:
    node = _choose(args.network, args.node).node(args.node)
    print(f"capturing at port {args.port} of {args.node}", file=sys.stderr)
    captured, dropped = capture(node, args.port, args.output, count=args.count, seconds=args.seconds)
    print(f"{captured} frames captured, {dropped} dropped by the kernel", file=sys.stderr)
    return 0


SHELL_HELP = """\
NODE COMMAND …    runs a command in a node; names of hosts stand for their addresses
nodes             lists the nodes
links             lists the links
pingall           pings from every host to every other
exit, Ctrl-D      leaves the shell; the network stays up"""


def _shell(args: argparse.Namespace) -> int:
    running = _choose(args.network)
    if sys.stdin.isatty():
        import readline  # noqa: F401  Gives input() a history.
    status = 0
    while True:
        try:
            line = input(f"{running.name}> " if sys.stdin.isatty() else "")
        except EOFError:
            return status
        except KeyboardInterrupt:
            print()
            continue
        try:
            words = shlex.split(line, comments=True)
            if words in (["exit"], ["quit"]):
                return status
            status = _shell_line(running, words) if words else status
        except (LabError, ValueError) as error:
            print(f"error: {error}", file=sys.stderr)
            status = 1


def _shell_line(running: Running, words: list[str]) -> int:
    if words == ["help"]:
        print(SHELL_HELP)
    elif words == ["nodes"]:
        _show(running)
    elif words == ["links"]:
        for one, one_port, other, other_port, properties in running.links:
            print(f"{one}:{one_port} - {other}:{other_port} {properties}".rstrip())
    elif words == ["pingall"]:
        return _ping_all(running)
    elif words[0] in running.nodes and len(words) > 1:
        addresses = {name: found[0].partition("/")[0] for name, found in running.addresses.items() if found}
        return _run(running.node(words[0]), [words[1], *(addresses.get(word, word) for word in words[2:])])
    else:
        raise LabError(f"found {' '.join(words)!r}; expected a node ({', '.join(running.nodes)}) and a command, nodes, links, pingall, help or exit")
    return 0


def _ping_all(running: Running) -> int:
    """Pings between all hosts with addresses. Returns 1 if an answer is missing."""
    hosts = {name: found[0].partition("/")[0] for name, found in running.addresses.items() if found}
    lost = 0
    for name in hosts:
        answers = []
        for other, address in hosts.items():
            if other != name:
                ping = running.node(name).run(["ping", "-c1", f"-W{PING_SECONDS}", address], check=False, timeout=10.0)
                lost += ping.returncode != 0
                answers.append(other if ping.returncode == 0 else "X")
        print(f"{name} -> {' '.join(answers)}", flush=True)
    pings = len(hosts) * (len(hosts) - 1)
    print(f"{pings - lost} of {pings} answered")
    return int(lost > 0)


# ---- without a network ----


def _graph(args: argparse.Namespace) -> int:
    topology = Topology.load(args.file)
    topology.check()
    svg = topology.to_svg()
    if args.output is None:
        print(svg, end="")
    else:
        args.output.write_text(svg, encoding="utf-8")
    return 0


def _types(args: argparse.Namespace) -> int:
    for name, kind in types().items():
        why = kind.missing()
        print(f"{name:17} {kind.title:28} {kind.version() if why is None else f'cannot run here: {why}'}")
    return 0
