"""Throughput over memory ports by entries, frame size and cores, as the study of a VXLAN gateway did with NFPA.

There is no wire: packets come from memory and leave to memory, so this is the speed of the program, without interfaces.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import gateway_workload
from .errors import LabError
from .runner import Experiment, Run
from .store import MODELLED
from .switches.p4jet import programs_folder
from .tester import p4jet_binary

FRAMING = 20
"""Bytes of preamble and gap. Frame sizes of this experiment include the frame check sequence, as in RFC 2544."""
P4JET = "p4jet"
OFF_AXIS = "not on an axis: --full measures all combinations"
CAPTURE_MAX = 256 << 20
"""Bytes of a capture; larger points are left out."""


@dataclass(frozen=True)
class Workload:
    """A program with entries and packets for it."""

    program: str
    """A folder and file of the checkout's `programs`."""
    size_min: int
    protocol: str | None = None
    """Of `p4jet gen`; ``None``: :mod:`~p4jet.lab.gateway_workload`."""
    direction: str = ""
    entries_max: int = 1_000_000


WORKLOADS = {
    "gateway-inbound": Workload("vxlan_gateway", 64, None, "inbound"),
    "gateway-outbound": Workload("vxlan_gateway", 114, None, "outbound"),
    "l2": Workload("basic_l2", 64, "l2"),
    "router": Workload("simple_router", 64, "ipv4"),
}
"""The gateway's directions are those of the study: a tunnel begins (inbound) or ends (outbound)."""


@dataclass(frozen=True)
class Options:
    """What to sweep. Points vary one variable at a time from the smallest values, unless `full`."""

    workloads: Sequence[str] = ("gateway-inbound", "gateway-outbound")
    entries: Sequence[int] = (100, 1000, 10_000, 100_000)
    sizes: Sequence[int] = (64, 128, 256, 512, 1024, 1280, 1518)
    cores: Sequence[int] = (1, 2)
    repetitions: int = 6
    seconds: float = 0.5
    full: bool = False
    programs: Path | None = None
    peers: Mapping[str, str] = field(default_factory=dict)
    """Other switches by name: a shell command for each. It finds ENTRIES (entries.swx), COMMANDS (runtime commands), PACKETS (a
    capture) and DURATION (seconds) in its environment, and its last line is a JSON object with ``mpps``."""
    peer_entries_max: int = 10_000
    """Peers may take minutes to load more."""


def experiment(options: Options, folder: Path) -> Experiment:
    """Returns the experiment; `folder` holds entries and packets while it runs."""
    for name in options.workloads:
        if name not in WORKLOADS:
            raise LabError(f"unknown workload {name}; there are: {', '.join(WORKLOADS)}")
    programs = programs_folder(options.programs)
    least = {"entries": min(options.entries), "cores": min(options.cores)}

    def skip(values: Mapping[str, object]) -> str | None:
        workload = WORKLOADS[str(values["workload"])]
        entries, size, cores = (int(str(values[name])) for name in ("entries", "size", "cores"))
        # A size too small for a tunnel stands for the smallest that fits one.
        least_size = workload.size_min if workload.size_min in options.sizes else min(options.sizes)
        if size < workload.size_min and size != least_size:
            return f"a frame needs {workload.size_min} bytes"
        if values["switch"] != P4JET and (cores > 1 or entries > options.peer_entries_max):
            return f"peers are measured on one core with at most {options.peer_entries_max} entries"
        if entries > workload.entries_max:
            return f"at most {workload.entries_max} entries"
        if workload.protocol and entries * (size + 12) > CAPTURE_MAX:
            return f"the capture would be larger than {CAPTURE_MAX >> 20} MiB"
        at = [entries != least["entries"], size != max(least_size, min(options.sizes)), cores != least["cores"]]
        # Cores also with the most entries, which do not fit the caches.
        if at == [True, False, True] and entries == max(options.entries):
            return None
        return OFF_AXIS if sum(at) > 1 and not options.full else None

    def measure(run: Run) -> None:
        workload = WORKLOADS[str(run.values["workload"])]
        entries, size, cores = (int(str(run.values[name])) for name in ("entries", "size", "cores"))
        commands, capture = inputs(run, workload, str(run.values["workload"]), entries, max(size, workload.size_min), folder)
        if run.values["switch"] != P4JET:
            mpps = peer(run, options.peers[str(run.values["switch"])], commands, capture, options.seconds)
            run.metric("rate", mpps, "Mpps")
            run.metric("wire_rate", mpps * 8 * (max(size, workload.size_min) + FRAMING) / 1e3, "Gbit/s", MODELLED)
            return
        source = programs / workload.program / f"{workload.program}.p4"
        report = bench(run, source, commands, capture, options.seconds, cores)
        if report["drops"]:
            raise LabError(f"{report['drops']} of {report['packets']} packets were dropped, expected none")
        run.metric("rate", report["mpps"], "Mpps")
        run.metric("wire_rate", report["mpps"] * 8 * (max(size, workload.size_min) + FRAMING) / 1e3, "Gbit/s", MODELLED)
        run.metric("memory", report["memory_bytes"] / 2**20, "MiB")
        run.metric("load_time", report["load_ms"] / 1e3, "s")

    return Experiment(
        "sweep",
        {
            # The switches alternate fastest, so that drift of the machine hits them alike.
            "switch": [P4JET, *options.peers],
            "workload": options.workloads,
            "entries": options.entries,
            "size": options.sizes,
            "cores": options.cores,
        },
        {"bench": measure},
        repetitions=options.repetitions,
        timeout=300,
        skip=skip,
        source=repr(options),
    )


def inputs(run: Run, workload: Workload, name: str, entries: int, size: int, folder: Path) -> tuple[Path, Path]:
    """Returns the files of runtime commands and packets, which it creates if they are missing."""
    place = folder / f"{name}-{entries}-{size}"
    if workload.protocol is None:
        if not place.exists():
            # As many packets as fill a second-level cache.
            with tempfile.TemporaryDirectory(dir=folder) as new:
                gateway_workload.write(Path(new), workload.direction, entries, size, packets=max(2048, (1 << 22) // size))
                Path(new).rename(place)
                Path(new).mkdir()
        return place / "entries.cmd", place / "packets.pcap"
    commands, capture = place / f"w.{workload.program}.cmd", place / f"w.{size}bytes.pcap"
    if not (commands.exists() and capture.exists()):
        place.mkdir(exist_ok=True)
        command = [p4jet_binary(), "gen", "-p", workload.protocol, "-n", str(entries), "--sizes", str(size)]
        command += ["--random", "ip,mac", "--entries-for", workload.program, "--name", "w", "-o", str(place)]
        run.script(command, role="gen", timeout=120)
        if not commands.exists():
            raise LabError(f"p4jet gen writes no {entries} entries for {workload.program}: its tables are too small")
    return commands, capture


def bench(run: Run, program: Path, commands: Path, capture: Path, seconds: float, cores: int) -> dict[str, float]:
    """Returns the report of `p4jet bench`."""
    command = [p4jet_binary(), "bench", str(program), "--commands", str(commands), "--pcap", str(capture)]
    command += ["--seconds", str(seconds), "--cores", str(cores), "--json"]
    return _last_object(run.script(command, role="bench", timeout=240), command[0])


def peer(run: Run, command: str, commands: Path, capture: Path, seconds: float) -> float:
    """Returns the million packets per second that another switch reports."""
    files = {"ENTRIES": commands.with_name("entries.swx"), "COMMANDS": commands, "PACKETS": capture, "DURATION": seconds}
    env = {name: str(value) for name, value in files.items()}
    output = run.script(["bash", "-c", command], role="peer", timeout=240, env=env)
    try:
        return float(_last_object(output, command)["mpps"])
    except (ValueError, LookupError, TypeError):
        raise LabError(f"{command}: found {output[-300:]!r}; the last line must be a JSON object with `mpps`") from None


def _last_object(output: str, program: str) -> dict[str, Any]:
    """Returns the JSON object in the last line of an output that is one: messages on standard error may follow it."""
    for line in reversed(output.splitlines()):
        if line.startswith("{"):
            try:
                found: dict[str, Any] = json.loads(line)
            except (ValueError, RecursionError):
                break
            return found
    raise LabError(f"{program}: found {output[-300:]!r}; the last line must be a JSON object with `mpps`")
