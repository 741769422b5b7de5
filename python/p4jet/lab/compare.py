"""The MAC mirror on every switch type that can run here: loss, throughput, offered rate and latency by frame size.

This repeats the study in `data/thesis.json` on one machine, over veth pairs. A switch returns each frame through the port it came
from, with its MAC addresses exchanged. The function `forward` sends it out by a second port instead;
`gateway-inbound` and `gateway-outbound` also begin and end VXLAN tunnels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from . import gateway_workload, probe
from .dut import CABLE, Bed, DeviceUnderTest
from .errors import LabError
from .runner import Experiment, Run
from .store import LIMITED, MODELLED, both_qualities
from .switches import SwitchType
from .tester import DST, SRC, Measurement, Tester, Trace
from .thesis import FRAMING

FUNCTIONS = ("mac-mirror", "forward", "gateway-inbound", "gateway-outbound")
"""What switches do."""
GATEWAY_ENTRIES = 100
"""Virtual addresses, and routes, of the gateway."""
GATEWAY_PACKETS = 1024
TUNNEL = 50
"""Bytes of the outer Ethernet, IPv4, UDP and VXLAN headers."""
SIZES = (64, 128, 256, 512, 1024, 1500)
QUICK_SIZES = (64, 512, 1500)
QUICK_SECONDS = 260.0
"""Time for the runs of a quick comparison."""
QUICK_SECONDS_MIN = 0.2
"""The shortest traffic of one run."""
SECONDS_MIN = 0.1
"""Traffic that is shorter may fall into a pause of the scheduler."""
START_SECONDS = 3.0
"""To create the namespaces and start a switch, about."""
POINT_SECONDS = 1.8
"""Of one run, in addition to its traffic: the check, the wait for late frames, the programs' starts."""
TRAFFIC_SHARE = 1.1 * (1 + 0.3 + 0.5)
"""Traffic of one run, of `seconds`: full speed, overload, and below saturation, each with a warm-up."""

STATISTICS = ("mean", "sd", "min", "p1", "p25", "p50", "p75", "p99", "max")
"""Of latencies."""


@dataclass(frozen=True)
class Options:
    """What to compare."""

    switches: Sequence[str]
    """Names of switch types; :data:`~p4jet.lab.dut.CABLE` comes in addition."""
    function: str = "mac-mirror"
    """One of :data:`FUNCTIONS`."""
    sizes: Sequence[int] = SIZES
    """Bytes of a frame without its frame check sequence."""
    repetitions: int = 6
    seconds: float = 2.0
    """Of traffic at full speed. Overload takes 0.3 of that, latency below saturation 0.5."""
    latency_rate: float = 10_000.0
    """Frames per second, below saturation."""
    clients: int = 10_000
    flows: int = 1
    packets: int = 128
    switch_cpu: int = 0
    tester_cpu: int = 1

    def quick(self) -> Options:
        """Returns options for a comparison within five minutes."""
        sizes = [size for size in self.sizes if size in QUICK_SIZES] or list(self.sizes)[:3]
        # Of many types two repetitions, so that a run is not too short.
        for repetitions in (3, 2):
            starts = repetitions * (len(self.switches) + 1)
            runs = starts * len(sizes)
            seconds = (QUICK_SECONDS - starts * START_SECONDS - runs * POINT_SECONDS) / runs / TRAFFIC_SHARE
            if seconds >= QUICK_SECONDS_MIN:
                break
        return replace(self, sizes=sizes, repetitions=repetitions, seconds=round(min(1.0, max(QUICK_SECONDS_MIN, seconds)), 2))


def experiment(options: Options, bed: Bed) -> Experiment:
    """Returns the experiment. `bed` keeps the network, and its folder gets traces and logs."""
    traces: dict[tuple[int, str, str], Trace] = {}

    def prepare(switch: SwitchType) -> None:
        if options.function == "mac-mirror":
            switch.mac_mirror(1, DST, SRC)
        elif options.function == "forward":
            switch.forward(1, 2)
        else:
            direction = options.function.removeprefix("gateway-")
            switch.gateway(direction, gateway_files(bed.folder, direction, 0) / "entries.cmd")

    def traffic(dut: DeviceUnderTest, size: int) -> tuple[Tester, Trace]:
        if options.function.startswith("gateway-"):
            direction = options.function.removeprefix("gateway-")
            path = gateway_files(bed.folder, direction, size) / "packets.pcap"
            grows = TUNNEL if direction == "inbound" else -TUNNEL
            length = len(next(probe.frames(str(path))))
            return dut.tester(back=("", ""), grows=0 if dut.name == CABLE else grows), Trace(path, length, clients=GATEWAY_PACKETS)
        (dst, src), back = addresses(dut, options.function)
        key = size, dst, src
        if key not in traces:
            path = bed.folder / f"trace-{len(traces)}.pcap"
            traces[key] = Trace(path, size, options.clients, options.flows, options.packets, dst, src).write()
        return dut.tester(back=back), traces[key]

    def measure(run: Run) -> None:
        name, size = str(run.values["switch"]), int(str(run.values["size"]))
        with bed.use(name, prepare) as dut:
            point(run, dut, *traffic(dut, size), options)

    # The size alternates fastest, so that a switch starts once for all sizes; then the switch, then the repetition.
    return Experiment(
        "compare" if options.function == "mac-mirror" else f"compare-{options.function}",
        {"size": list(options.sizes), "switch": [CABLE, *options.switches]},
        {"tester": measure},
        repetitions=options.repetitions,
        timeout=90 + 6 * options.seconds,
        source=repr(options),
    )


def bed(options: Options, folder: Path) -> Bed:
    """Returns the networks that the experiment needs."""
    is_gateway = options.function.startswith("gateway-")
    return Bed(
        folder,
        switch_cpu=options.switch_cpu,
        tester_cpu=options.tester_cpu,
        links=1 if options.function == "mac-mirror" else 2,
        # The entries of the gateway are for the ports 0 and 1.
        first_port=0 if is_gateway else 1,
        mtu=1500 + TUNNEL if is_gateway else 1500,
    )


def gateway_files(folder: Path, direction: str, size: int) -> Path:
    """Returns a folder with entries and packets for the gateway; too small a size stands for the smallest."""
    size = max(size + gateway_workload.FCS, gateway_workload.SIZE_MIN[direction])
    place = folder / f"{direction}-{size}"
    if not place.exists():
        gateway_workload.write(place, direction, GATEWAY_ENTRIES, size, packets=GATEWAY_PACKETS)
    return place


def addresses(dut: DeviceUnderTest, function: str) -> tuple[tuple[str, str], tuple[str, str]]:
    """Returns destination and source MAC address of the frames that are sent, and of those that come back."""
    if dut.switch is not None and function == "mac-mirror":
        return (DST, SRC), (SRC, DST)
    if dut.switch is not None and dut.switch.is_router:
        return (dut.switch.node.macs[1], SRC), (dut.node.macs[2], dut.switch.node.macs[2])
    return (DST, SRC), (DST, SRC)


def point(run: Run, dut: DeviceUnderTest, tester: Tester, trace: Trace, options: Options) -> None:
    """Measures one switch with one frame size."""
    checked = tester.check(trace)
    fault = checked.fault()
    if fault:
        raise LabError(f"pre-flight check of {dut.name} with {trace.size} bytes: {fault}")
    run.metric("check_bad_mac", checked.bad_mac, "frames")
    run.metric("check_lost", checked.lost, "frames")
    dut.warm_up(tester, trace)
    full = tester.measure(trace, options.seconds)
    quality = LIMITED if full.is_limited else "measured"
    run.metric("offered_rate", full.offered_pps / 1e3, "kpps")
    run.metric("received_rate", full.received_pps / 1e3, "kpps", quality)
    run.metric("loss", 100 * full.loss, "%", quality)
    run.metric("refused", 100 * full.refused / max(full.sent, 1), "%")
    # No wire carries the framing.
    run.metric("offered", full.offered(FRAMING) / 1e9, "Gbit/s", MODELLED)
    run.metric("throughput", full.throughput(FRAMING) / 1e9, "Gbit/s", both_qualities(MODELLED, quality))
    run.metric("throughput_of_frames", full.throughput() / 1e9, "Gbit/s", quality)
    low = tester.sample(trace, max(SECONDS_MIN, 0.5 * options.seconds), options.latency_rate)
    latency(run, "latency", low)
    overload = tester.sample(trace, max(SECONDS_MIN, 0.3 * options.seconds), expected_pps=full.offered_pps)
    latency(run, "latency_overload", overload)


def latency(run: Run, name: str, measured: Measurement) -> None:
    """Stores latencies in microseconds, the loss while they were measured, and frames with wrong addresses."""
    run.metric(f"{name}_loss", 100 * measured.loss, "%")
    run.metric(f"{name}_bad_mac", measured.bad_mac, "frames")
    if len(measured.latencies) == 0:
        return
    found = summary(measured.latencies.tolist())
    for statistic in STATISTICS:
        run.metric(f"{name}_{statistic}", 1e6 * found[statistic], "µs")
    run.sample(name, (1e6 * measured.latencies).tolist(), "µs")


def summary(values: Sequence[float]) -> Mapping[str, float]:
    """Returns :data:`STATISTICS` of values."""
    from . import stats

    found = {f"p{percent}": stats.percentile(values, percent) for percent in (1, 25, 50, 75, 99)}
    return {"mean": stats.mean(values), "sd": stats.sd(values), "min": min(values), "max": max(values), **found}
