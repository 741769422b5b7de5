"""The subcommands `compare`, `scale`, `update`, `sweep`, `constructs`, `queue`, `thesis` and `workload` of `p4jet-lab`."""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from . import compare, compare_report, construct_costs, construct_report, gateway_workload, modelled, performance_report, queue_node, queueing
from . import scale, study_reports, sweep, update
from .constructs import FAMILIES
from .dut import Bed, available, processors
from .errors import LabError
from .rules import COUNT_MAX, KINDS
from .runner import Experiment, execute
from .store import Store, default_path
from .tester import SIZE_MAX, SIZE_MIN, p4jet_binary

Options = TypeVar("Options", compare.Options, scale.Options, update.Options, sweep.Options, construct_costs.Options, queueing.Options)
Place = TypeVar("Place")
"""What an experiment runs in: networks, or a folder."""


def register(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Adds the subcommands. The function in `action` of the parsed arguments executes one and returns the exit status."""
    compared = subparsers.add_parser("compare", help="the MAC mirror on every switch type", description=compare.__doc__)
    _add_common(compared, quick="within five minutes: fewer sizes, 3 repetitions, shorter runs")
    _add_switches(compared)
    compared.add_argument("--function", choices=compare.FUNCTIONS, default="mac-mirror", help="(default: mac-mirror)")
    compared.add_argument("--sizes", type=_sizes, metavar="B,…", help="frame sizes (default: 64,128,256,512,1024,1500)")
    compared.add_argument("--seconds", type=_number(0.05, 600), default=2.0, metavar="S", help="of traffic at full speed (default: 2)")
    compared.add_argument("--latency-rate", type=_number(1, 1e7), default=10_000.0, metavar="N", help="frames per second (default: 10000)")
    compared.add_argument("--clients", type=_whole(1, 1 << 20), default=10_000, metavar="N", help="of the trace (default: 10000)")
    compared.add_argument("--flows", type=_whole(1, 60_000), default=1, metavar="N", help="of each client (default: 1)")
    compared.set_defaults(action=_compare)

    scaled = subparsers.add_parser("scale", help="one rule or the most, one flow or many", description=scale.__doc__)
    _add_common(scaled, quick="at most 16384 rules, 2 repetitions of 0.3 s")
    _add_switches(scaled)
    scaled.add_argument("--kinds", type=_names(KINDS[:3]), metavar="K,…", help=f"of {', '.join(KINDS[:3])} (default: all)")
    scaled.add_argument("--size", type=_whole(SIZE_MIN, SIZE_MAX), default=256, metavar="B", help="frame size (default: 256)")
    scaled.add_argument("--rules-max", type=_whole(1, COUNT_MAX), default=COUNT_MAX, metavar="N", help="where the search begins")
    scaled.add_argument("--seconds", type=_number(0.05, 600), default=1.0, metavar="S", help="of traffic (default: 1)")
    scaled.set_defaults(action=_scale)

    updated = subparsers.add_parser("update", help="rule updates under traffic", description=update.__doc__)
    _add_common(updated, quick="one size and rate, 1 repetition of 20 updates")
    _add_switches(updated)
    updated.add_argument("--kinds", type=_names(KINDS), metavar="K,…", help=f"of {', '.join(KINDS)} (default: all)")
    updated.add_argument("--sizes", type=_sizes, metavar="B,…", help="frame sizes (default: 256,1000,1500)")
    updated.add_argument("--rates", type=_wholes(1, 100_000), metavar="MBIT,…", help="offered Mbit/s (default: 10,50,100)")
    updated.set_defaults(action=_update)

    swept = subparsers.add_parser("sweep", help="entries, frame size and cores, over memory ports", description=sweep.__doc__)
    _add_common(swept, quick="2 repetitions of 0.1 s, three sizes, up to 10,000 entries")
    swept.add_argument("--workloads", type=_names(tuple(sweep.WORKLOADS)), metavar="W,…", help=f"of {', '.join(sweep.WORKLOADS)}")
    swept.add_argument("--entries", type=_wholes(1, 1_000_000), metavar="N,…", help="(default: 100,1000,10000,100000)")
    swept.add_argument("--sizes", type=_wholes(64, 1518), metavar="B,…", help="with frame check sequence (default: 64 to 1518)")
    swept.add_argument("--cores", type=_wholes(1, 64), metavar="N,…", help="(default: 1,2)")
    swept.add_argument("--seconds", type=_number(0.01, 600), default=0.5, metavar="S", help="of one run (default: 0.5)")
    swept.add_argument("--full", action="store_true", help="all combinations, not one variable at a time")
    swept.add_argument("--programs", type=Path, metavar="DIR", help="the folder `programs` of a checkout")
    swept.add_argument("--peer", action="append", default=[], type=_peer, metavar="NAME=COMMAND", help="another switch; see docs/lab-compare.md")
    swept.set_defaults(action=_sweep)

    costs = subparsers.add_parser("constructs", help="micro-benchmarks, and a profile of each switch", description=construct_costs.__doc__)
    _add_common(costs, quick="four counts of each family, 3 repetitions of at most 1000 frames")
    _add_switches(costs)
    costs.add_argument("--profile", action="append", default=[], metavar="NAME|FILE", help="a modelled device that follows this profile; repeatable; without --switches only such devices")
    costs.add_argument("--families", type=_names(tuple(FAMILIES)), metavar="F,…", help=f"of {', '.join(FAMILIES)} (default: all)")
    costs.add_argument("--sizes", type=_wholes(construct_costs.SIZE_MIN, 1500), metavar="B,…", help="frame sizes (default: 256,1000,1500)")
    costs.add_argument("--packets", type=_whole(10, 10_000), default=2000, metavar="N", help="of a program in a round (default: 2000)")
    costs.add_argument("--rate", type=_number(10, 1e5), default=10_000.0, metavar="N", help="frames per second (default: 10000)")
    costs.add_argument("--median", action="store_true", help="medians make the profile instead of means")
    costs.add_argument("--noise", choices=modelled.NOISES, default=modelled.NOISES[0], help="of modelled devices (default: gamma)")
    costs.set_defaults(action=_constructs)

    queued = subparsers.add_parser("queue", help="a switch with a controller, against models of queues", description=queueing.__doc__)
    _add_common(queued, quick="below two minutes: one share, two loads, 2 repetitions of at most 8 s")
    queued.add_argument("--loads", type=_numbers(0.01, 0.95), metavar="L,…", help="of the controller (default: 0.3,0.6,0.8,0.9)")
    queued.add_argument("--shares", type=_numbers(0.01, 1), metavar="P,…", help="of new flows (default: 0.2,1)")
    queued.add_argument("--laws", type=_names(queue_node.LAWS), metavar="LAW,…", help=f"of {', '.join(queue_node.LAWS)} (default: both)")
    queued.add_argument("--service-us", type=_number(200, 100_000), default=2000.0, metavar="US", help="of the controller (default: 2000)")
    queued.add_argument("--seconds", type=_number(0.2, 600), default=20.0, metavar="S", help="of a run at a load of 0.9 (default: 20)")
    queued.add_argument("--switch-cpu", type=_whole(0, 1023), metavar="N", help="processor of the switch (default: the first)")
    queued.add_argument("--tester-cpu", type=_whole(0, 1023), metavar="N", help="of source and controller (default: the second)")
    queued.set_defaults(action=_queue)

    repeated = subparsers.add_parser("thesis", help="tables of the thesis about prediction and placement", description=performance_report.__doc__)
    repeated.add_argument("--out", type=Path, default=Path("lab-thesis"), metavar="DIR", help="of the report (default: %(default)s)")
    repeated.add_argument("--quick", action="store_true", help="few simulated packets and small clouds, below a minute")
    repeated.add_argument("--sections", type=_names(performance_report.SECTIONS), metavar="S,…", help=f"of {', '.join(performance_report.SECTIONS)}")
    repeated.add_argument("--packets", type=_whole(100, 100_000_000), metavar="N", help="of each simulated run (default: 1300000)")
    repeated.add_argument("--runs", type=_whole(2, 100), metavar="N", help="simulated runs of a case (default: 5)")
    repeated.add_argument("--racks", type=_wholes(1, 1000), metavar="N,…", help="clouds of experiment 5 (default: 4,10,20,30)")
    repeated.add_argument("--programs", type=Path, metavar="DIR", help="the folder `programs` of a checkout")
    repeated.set_defaults(action=_thesis)

    loaded = subparsers.add_parser("workload", help="entries and packets for programs/vxlan_gateway", description=gateway_workload.__doc__)
    loaded.add_argument("direction", choices=list(gateway_workload.SIZE_MIN))
    loaded.add_argument("entries", type=_whole(1, gateway_workload.ENTRIES_MAX), help="virtual addresses, and routes")
    loaded.add_argument("folder", type=Path, help="for entries.cmd, entries.swx and packets.pcap")
    loaded.add_argument("--size", type=_whole(64, 9000), metavar="B", help="with frame check sequence (default: the smallest)")
    loaded.add_argument("--packets", type=_whole(1, 10_000_000), default=65536, metavar="N", help="(default: 65536)")
    loaded.add_argument("--seed", type=_whole(0, 1 << 62), default=1, metavar="N", help="(default: 1)")
    loaded.set_defaults(action=_workload)


def _add_common(parser: argparse.ArgumentParser, *, quick: str) -> None:
    name = parser.prog.rpartition(" ")[2]
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--repetitions", type=_whole(1, 1000), metavar="N", help="(default: 6)")
    parser.add_argument("--out", type=Path, default=Path(f"lab-{name}"), metavar="DIR", help="of the report (default: %(default)s)")
    parser.add_argument("--store", type=Path, default=default_path(), metavar="FILE", help="store of results (default: %(default)s)")
    parser.add_argument("--new", action="store_true", help="start a new session instead of continuing an interrupted one")


def _add_switches(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--switches", metavar="A,B", help="names of switch types; by default all that can run here")
    parser.add_argument("--switch-cpu", type=_whole(0, 1023), metavar="N", help="processor of the switch (default: the first)")
    parser.add_argument("--tester-cpu", type=_whole(0, 1023), metavar="N", help="processor of the tester (default: the second)")


def _whole(low: int, high: int) -> Callable[[str], int]:
    def whole(text: str) -> int:
        if not (text.isascii() and text.isdigit() and low <= int(text) <= high):
            raise argparse.ArgumentTypeError(f"`{text}`: expected a whole number from {low} to {high}")
        return int(text)

    return whole


def _number(low: float, high: float) -> Callable[[str], float]:
    def number(text: str) -> float:
        try:
            found = float(text)
        except ValueError:
            found = float("nan")
        if not low <= found <= high:
            raise argparse.ArgumentTypeError(f"`{text}`: expected a number from {low:g} to {high:g}")
        return found

    return number


def _numbers(low: float, high: float) -> Callable[[str], list[float]]:
    one = _number(low, high)

    def numbers(text: str) -> list[float]:
        return list(dict.fromkeys(one(part) for part in text.split(",")))

    return numbers


def _wholes(low: int, high: int) -> Callable[[str], list[int]]:
    one = _whole(low, high)

    def wholes(text: str) -> list[int]:
        return list(dict.fromkeys(one(part) for part in text.split(",")))

    return wholes


_sizes = _wholes(SIZE_MIN, 1500)


def _names(known: Sequence[str]) -> Callable[[str], list[str]]:
    def names(text: str) -> list[str]:
        for name in text.split(","):
            if name not in known:
                raise argparse.ArgumentTypeError(f"`{name}`: expected one of {', '.join(known)}")
        return list(dict.fromkeys(text.split(",")))

    return names


def _peer(text: str) -> tuple[str, str]:
    name, sign, command = text.partition("=")
    if not (sign and name.isidentifier() and command) or name == sweep.P4JET:
        raise argparse.ArgumentTypeError(f"`{text}`: expected NAME=COMMAND, with a name of letters, digits and `_` other than p4jet")
    return name, command


def _chosen(
    arguments: argparse.Namespace, function: str, unsupported: Callable[[str], str | None] = lambda _: None
) -> tuple[list[str], dict[str, str], int, int]:
    """Returns the switches, those left out with the reason, and the processors of switch and tester.

    `unsupported` tells why a type with the function is left out all the same.

    Raises :class:`LabError` if there is no p4jet, which the tester needs.
    """
    wanted = arguments.switches.split(",") if arguments.switches else None
    found, skipped = available(wanted, function, unsupported)
    p4jet_binary()
    for name, why in skipped.items():
        print(f"left out: {name}: {why}", file=sys.stderr)
    return found, skipped, *processors(arguments.switch_cpu, arguments.tester_cpu)


def _given(arguments: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Returns the options that were given."""
    return {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}


@contextmanager
def _workspace(out: Path) -> Iterator[Path]:
    """Gives a folder for files that are needed during an experiment, in the folder of the report.

    It is removed at the end, and if this process is killed, by the next command with the same `out`. Raises :class:`LabError` if
    another process writes to `out`.
    """
    out.mkdir(parents=True, exist_ok=True)
    lock = os.open(out, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LabError(f"another p4jet-lab writes to {out}: wait for its end, or choose another folder (--out)") from None
        folder = out.absolute() / "work"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)


def _run(
    arguments: argparse.Namespace,
    options: Options,
    *,
    quick: Callable[[Options], Options],
    bed: Callable[[Options, Path], AbstractContextManager[Place]],
    experiment: Callable[[Options, Place], Experiment],
    report: Callable[[Store, int, Options], tuple[Path, ...]],
) -> int:
    """Executes an experiment, writes its report and returns the exit status: 1 if a run failed.

    `quick` reduces the options for `--quick`. `bed` gives what `experiment` needs, in a folder that exists as long.
    """
    if arguments.quick:
        options = quick(options)
    options = replace(options, **_given(arguments, "repetitions"))
    with _workspace(arguments.out) as folder, bed(options, folder) as place, Store(arguments.store) as store:
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            session = execute(
                experiment(options, place), store, resume=not arguments.new, progress=_progress, logs=arguments.out / "logs"
            )
        except KeyboardInterrupt:
            print("interrupted; the finished runs are stored, and the same command continues", file=sys.stderr)
            return 130
        finally:
            signal.signal(signal.SIGTERM, before)
        about = store.session(session)
        if not about["ok"]:
            reasons = dict.fromkeys(row["reason"] for row in store.rows(session=session))
            raise LabError("no run succeeded:\n" + "\n".join(reasons))
        for path in report(store, session, options):
            print(f"wrote {path}")
        print(f"session {session} in {store.path}: {about['ok']} runs succeeded, {about['failed']} failed")
        return 1 if about["failed"] else 0


def _progress(line: str) -> None:
    """Prints a line, except about points that are left out by design."""
    if not line.endswith((sweep.OFF_AXIS, scale.NO_RULES, construct_costs.NO_PROGRAM, construct_costs.OTHER_KIND)):
        print(line, flush=True)


def _bed(links: int) -> Callable[[Any, Path], Bed]:
    """Returns the function that makes an experiment's networks; the tester has this number of links to the switch."""
    return lambda options, folder: Bed(folder, switch_cpu=options.switch_cpu, tester_cpu=options.tester_cpu, links=links)


def _compare(arguments: argparse.Namespace) -> int:
    switches, skipped, switch_cpu, tester_cpu = _chosen(arguments, arguments.function.partition("-in")[0].partition("-out")[0])
    options = compare.Options(
        switches, arguments.function, seconds=arguments.seconds, latency_rate=arguments.latency_rate, clients=arguments.clients, flows=arguments.flows,
        switch_cpu=switch_cpu, tester_cpu=tester_cpu, **_given(arguments, "sizes"),
    )  # fmt: skip
    return _run(
        arguments,
        options,
        quick=compare.Options.quick,
        bed=compare.bed,
        experiment=compare.experiment,
        report=lambda store, session, options: compare_report.write(store, session, options, skipped, arguments.out),
    )


def _scale(arguments: argparse.Namespace) -> int:
    switches, skipped, switch_cpu, tester_cpu = _chosen(arguments, "rules")
    options = scale.Options(
        switches, size=arguments.size, rules_max=arguments.rules_max, seconds=arguments.seconds, switch_cpu=switch_cpu,
        tester_cpu=tester_cpu, **_given(arguments, "kinds"),
    )  # fmt: skip
    return _run(
        arguments,
        options,
        quick=lambda options: replace(options, rules_max=min(options.rules_max, 16_384), repetitions=2, seconds=0.3),
        bed=_bed(2),
        experiment=scale.experiment,
        report=lambda store, session, options: study_reports.scale(store, session, options, skipped, arguments.out),
    )


def _update(arguments: argparse.Namespace) -> int:
    switches, skipped, switch_cpu, tester_cpu = _chosen(arguments, "rules")
    options = update.Options(
        switches, switch_cpu=switch_cpu, tester_cpu=tester_cpu, **_given(arguments, "kinds", "sizes", "rates")
    )
    return _run(
        arguments,
        options,
        quick=lambda options: replace(options, sizes=options.sizes[:1], rates=options.rates[:1], repetitions=1),
        bed=_bed(3),
        experiment=update.experiment,
        report=lambda store, session, options: study_reports.update(store, session, options, skipped, arguments.out),
    )


def _sweep(arguments: argparse.Namespace) -> int:
    p4jet_binary()
    options = sweep.Options(
        seconds=arguments.seconds, full=arguments.full, programs=arguments.programs, peers=dict(arguments.peer),
        **_given(arguments, "workloads", "entries", "sizes", "cores"),
    )  # fmt: skip

    def quick(options: sweep.Options) -> sweep.Options:
        entries = [count for count in options.entries if count <= 10_000] or list(options.entries)[:1]
        return replace(options, entries=entries, sizes=list(options.sizes)[::3], repetitions=2, seconds=0.1)

    return _run(
        arguments,
        options,
        quick=quick,
        bed=lambda _, folder: nullcontext(folder),
        experiment=sweep.experiment,
        report=lambda store, session, options: study_reports.sweep(store, session, options, arguments.out),
    )


def _constructs(arguments: argparse.Namespace) -> int:
    p4jet_binary()
    switches: list[str] = []
    skipped: dict[str, str] = {}
    switch_cpu = tester_cpu = 0
    if arguments.switches or not arguments.profile:
        switches, skipped, switch_cpu, tester_cpu = _chosen(arguments, "p4", construct_costs.unsupported)
    options = construct_costs.Options(
        switches, [modelled.ModelledDevice.load(profile) for profile in arguments.profile], packets=arguments.packets, rate=arguments.rate,
        median=arguments.median, noise=arguments.noise, switch_cpu=switch_cpu, tester_cpu=tester_cpu, **_given(arguments, "families", "sizes"),
    )  # fmt: skip
    return _run(
        arguments,
        options,
        quick=construct_costs.Options.quick,
        bed=lambda options, folder: Bed(folder, switch_cpu=options.switch_cpu, tester_cpu=options.tester_cpu, links=2, first_port=0),
        experiment=construct_costs.experiment,
        report=lambda store, session, options: construct_report.write(store, session, options, skipped, arguments.out),
    )


def _queue(arguments: argparse.Namespace) -> int:
    queueing.require()
    switch_cpu, tester_cpu = processors(arguments.switch_cpu, arguments.tester_cpu)
    options = queueing.Options(
        service_us=arguments.service_us, seconds=arguments.seconds, switch_cpu=switch_cpu, tester_cpu=tester_cpu,
        **_given(arguments, "loads", "shares", "laws"),
    )  # fmt: skip
    options.check()
    return _run(
        arguments,
        options,
        quick=queueing.Options.quick,
        bed=queueing.Network,
        experiment=queueing.experiment,
        report=lambda store, session, options: queueing.write(store, session, options, arguments.out),
    )


def _thesis(arguments: argparse.Namespace) -> int:
    options = performance_report.QUICK if arguments.quick else performance_report.Options()
    options = replace(options, **_given(arguments, "packets", "runs", "programs"))
    if arguments.racks:
        options = replace(options, racks=tuple(arguments.racks))
    sections = arguments.sections or performance_report.SECTIONS
    for path in performance_report.write(arguments.out, options, sections, progress=lambda line: print(line, flush=True)):
        print(f"wrote {path}")
    return 0


def _workload(arguments: argparse.Namespace) -> int:
    size = gateway_workload.SIZE_MIN[arguments.direction] if arguments.size is None else arguments.size
    gateway_workload.write(
        arguments.folder, arguments.direction, arguments.entries, size, packets=arguments.packets, seed=arguments.seed
    )
    return 0
