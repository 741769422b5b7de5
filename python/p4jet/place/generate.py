"""Clouds and workloads from a file of inputs (§3.15 to 3.17 of the summary).

Every number is in that file: nothing here has a default. The presets in `data/presets` are such files, and :func:`describe` prints them.
"""

from __future__ import annotations

import copy
import importlib
import os
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import PlaceError
from .files import DATA, Section, load_functions, load_profile, read
from .model import Chain, Cloud, Device, Event, FixedSwitch, Instance, Link, Workload

NODES_MAX = 200_000
CHAINS_MAX = 1_000_000
BEST_EFFORT_US = "best-effort"


@dataclass
class Inputs:
    """The content of a file of inputs."""

    name: str
    cloud: dict[str, Any]
    workload: dict[str, Any]
    folder: Path
    """To which names of files are relative."""

    def changed(self, **values: Mapping[str, object]) -> Inputs:
        """Returns a copy with other values: ``inputs.changed(cloud={"racks": 10})``. A new key is an error when it is used."""
        other = copy.deepcopy(self)
        for part, items in values.items():
            getattr(other, part).update(items)
        return other


def presets() -> list[str]:
    """Returns the names of the files of inputs that come with the package."""
    return sorted(file.stem for file in (DATA / "presets").glob("*.toml"))


def load_inputs(name: str | os.PathLike[str]) -> Inputs:
    """Reads a preset by its name, or a file that ends in ``.toml`` or ``.json``."""
    text = os.fspath(name)
    if text.endswith((".toml", ".json")):
        file = Path(text)
    elif text in presets():
        file = DATA / "presets" / f"{text}.toml"
    else:
        raise PlaceError(f"inputs: found {text!r}, expected a file that ends in .toml or .json, or one of: {', '.join(presets())}")
    top = read(file)
    inputs = Inputs(file.stem, top.section("cloud").data, top.section("workload").data, file.parent)
    if top.has("about"):
        top.text("about")
    top.done()
    return inputs


def describe(inputs: Inputs) -> str:
    """Returns all inputs as text, one a line."""
    lines = []
    for part, values in (("cloud", inputs.cloud), ("workload", inputs.workload)):
        for key, value in values.items():
            if isinstance(value, list) and value and isinstance(value[0], dict):
                lines += [f"{part}.{key}[{number}] = {item}" for number, item in enumerate(value)]
            else:
                lines.append(f"{part}.{key} = {value}")
    return "\n".join(lines)


def make_cloud(inputs: Inputs) -> Cloud:
    """Makes a cloud of racks.

    Each rack has a top-of-rack switch, which is a device of type `asic_type` in a share `asic_ratio` of the racks and else fixed, and
    servers. A share `ipu_ratio` of the racks (`ipu_spread = "racks"`) or of all servers, the first ones, (`"servers"`) has IPUs, whose types take
    turns. An IPU is joined to its server and to the switch; its server also has a link to the switch if `server_link` is `"own"`, and
    reaches the network only through the IPU if it is `"ipu"`. Which racks get what is shuffled by `seed`, unless it is 0.

    With `offer`, a number for each device type, there are only devices to buy, without links.
    """
    top = Section(inputs.cloud, f"{inputs.name}.cloud")
    if top.has("offer"):
        return _make_offer(inputs, top)
    racks, servers, seed = top.count("racks", low=1), top.count("servers_per_rack"), top.count("seed")
    ipu_ratio, asic_ratio = top.number("ipu_ratio", low=0, high=1), top.number("asic_ratio", low=0, high=1)
    server_type, ipu_types, asic_type = top.text("server_type"), top.texts("ipu_types"), top.text("asic_type")
    spread = top.text("ipu_spread", ("racks", "servers"))
    server_link = top.text("server_link", ("own", "ipu"))
    tor_us = top.number("fixed_tor_us", low=0)
    pcie, to_server, to_ipu = (top.number(f"{key}_gbps", low=0) for key in ("pcie", "server", "ipu"))
    frame_bytes = top.count("frame_bytes", low=1)
    profiles = top.texts("profiles")
    if ipu_ratio > 0 and not ipu_types:
        raise PlaceError(f"{top.place}.ipu_types: found none, expected at least one for an ipu_ratio of {ipu_ratio:g}")
    if racks * (2 * servers + 1) > NODES_MAX:
        raise PlaceError(f"{top.place}: found {racks * (2 * servers + 1)} nodes, expected at most {NODES_MAX}")
    cloud = _empty(inputs, profiles, frame_bytes)
    order = list(range(racks))
    if seed:
        random.Random(seed).shuffle(order)
    with_asic = set(order[: _share(asic_ratio, racks)])
    with_ipu = sorted(order[: _share(ipu_ratio, racks)]) if spread == "racks" else []
    tors = []
    for rack in range(racks):
        name, tor = f"rack{rack + 1}", f"tor{rack + 1}"
        tors.append(tor)
        if rack in with_asic:
            cloud.devices[tor] = Device(tor, asic_type, name)
        else:
            cloud.switches[tor] = FixedSwitch(tor, tor_us, name)
        for server in range(servers):
            host = f"{name}-server{server + 1}"
            cloud.devices[host] = Device(host, server_type, name)
            turn = with_ipu.index(rack) if rack in with_ipu else -1
            if spread == "servers":
                turn = rack * servers + server if rack * servers + server < _share(ipu_ratio, racks * servers) else -1
            if turn >= 0:
                ipu = f"{name}-ipu{server + 1}"
                cloud.devices[ipu] = Device(ipu, ipu_types[turn % len(ipu_types)], name)
                cloud.links.append(Link(host, ipu, pcie))
                cloud.links.append(Link(ipu, tor, to_ipu))
            if turn < 0 or server_link == "own":
                cloud.links.append(Link(host, tor, to_server))
    _add_fabric(cloud, tors, top, inputs.folder)
    top.done()
    cloud.check()
    return cloud


def _empty(inputs: Inputs, profiles: list[str], frame_bytes: int) -> Cloud:
    loaded = [load_profile(profile, folder=inputs.folder, frame_bytes=frame_bytes) for profile in profiles]
    paths = [str(inputs.folder / profile) if profile.endswith(".toml") else profile for profile in profiles]
    types = {device_type.name: device_type for device_type in loaded}
    return Cloud(f"{inputs.name}-cloud", types, profiles=paths, frame_bytes=frame_bytes, inputs=dict(inputs.cloud))


def _make_offer(inputs: Inputs, top: Section) -> Cloud:
    cloud = _empty(inputs, top.texts("profiles"), top.count("frame_bytes", low=1))
    offer = top.section("offer")
    for name in offer.names():
        count = offer.count(name)
        if count > NODES_MAX:
            raise PlaceError(f"{offer.place}.{name}: found {count}, expected at most {NODES_MAX}")
        for number in range(count):
            device = f"{name}{number + 1}"
            cloud.devices[device] = Device(device, name)
    top.done()
    cloud.check()
    return cloud


def _share(ratio: float, of: int) -> int:
    # 0.25 of 10 is 3 like in print, not 2.
    return int(ratio * of + 0.5)


def _add_fabric(cloud: Cloud, tors: list[str], top: Section, folder: Path) -> None:
    """Joins the racks: by nothing, one switch, spines, a fat tree, or a graph from a file."""
    fabric = top.text("fabric")
    if fabric == "none":
        return
    delay, rate = top.number("fabric_us", low=0), top.number("fabric_gbps", low=0)

    def switch(name: str) -> str:
        cloud.switches[name] = FixedSwitch(name, delay)
        return name

    if fabric == "star":
        core = switch("core1")
        cloud.links += [Link(tor, core, rate) for tor in tors]
    elif fabric == "leaf-spine":
        spines = [switch(f"spine{number + 1}") for number in range(top.count("spines", low=1))]
        cloud.links += [Link(tor, spine, rate) for tor in tors for spine in spines]
    elif fabric == "fat-tree":
        arity = top.count("arity", low=2)
        if arity % 2 or len(tors) > arity * arity // 2:
            expected = f"an even number whose square is {2 * len(tors)} or more"
            raise PlaceError(f"{top.place}.arity: found {arity} for {len(tors)} racks, expected {expected}")
        half = arity // 2
        cores = [switch(f"core{number + 1}") for number in range(half * half)]
        for pod in range(-(-len(tors) // half)):
            for place in range(half):
                above = switch(f"pod{pod + 1}-switch{place + 1}")
                cloud.links += [Link(tor, above, rate) for tor in tors[pod * half : (pod + 1) * half]]
                cloud.links += [Link(above, core, rate) for core in cores[place * half : (place + 1) * half]]
    elif fabric.endswith((".edges", ".graphml")):
        file = folder / fabric
        try:
            # It has no types.
            networkx: Any = importlib.import_module("networkx")
        except ImportError as error:
            raise PlaceError(f"graphs from files need networkx ({error}): pip install 'p4jet[place]'") from error
        try:
            graph = networkx.read_graphml(file) if fabric.endswith(".graphml") else networkx.read_edgelist(file, data=False)
        except (OSError, ValueError, networkx.NetworkXException, SyntaxError) as error:
            raise PlaceError(f"{file}: {error}; expected a graph whose nodes tor1, tor2 … are the racks' switches") from error
        for node in graph.nodes:
            if str(node) not in tors:
                switch(str(node))
        for tor in tors:
            if tor not in graph:
                raise PlaceError(f"{file}: found no node {tor}, expected all of tor1 to tor{len(tors)}")
        cloud.links += [Link(str(one), str(other), rate) for one, other in graph.edges]
    else:
        choices = "none, star, leaf-spine, fat-tree, or a file that ends in .edges or .graphml"
        raise PlaceError(f"{top.place}.fabric: found {fabric!r}, expected {choices}")


def make_workload(inputs: Inputs) -> Workload:
    """Makes chains from templates, in turn or at random, and if asked for single instances and events.

    `arrivals` and `holding_s` give the rate of a Poisson process and the mean of an exponential time; without them there are no events.
    """
    top = Section(inputs.workload, f"{inputs.name}.workload")
    catalogue = top.text("catalogue")
    workload = Workload(
        f"{inputs.name}-workload",
        load_functions(catalogue, entries=top.count("entries_per_function"), folder=inputs.folder),
        inputs=dict(inputs.workload),
    )
    workload.obligatory = tuple(top.texts("obligatory"))
    rng = random.Random(top.count("seed"))
    order = top.text("order", ("in turn", "random"))
    templates = []
    best_effort = top.number("best_effort_us", above=0) if top.has("best_effort_us") else None
    for item in top.sections("templates") if top.has("templates") else ():
        bound = item.raw("delay_us")
        if bound == BEST_EFFORT_US:
            if best_effort is None:
                raise PlaceError(f"{top.place}: found no best_effort_us, expected the delay bound of best effort")
            delay = best_effort
        else:
            delay = item.number("delay_us", above=0)
        templates.append((tuple(item.texts("functions")), item.number("rate_gbps", above=0), delay))
        item.done()
    chains = top.count("chains") if templates else 0
    if chains > CHAINS_MAX:
        raise PlaceError(f"{top.place}.chains: found {chains}, expected at most {CHAINS_MAX}")
    for number in range(chains):
        functions, rate, delay = templates[number % len(templates)] if order == "in turn" else rng.choice(templates)
        workload.chains.append(Chain(f"chain{number + 1}", functions, rate, delay))
    if top.has("instances"):
        item = top.section("instances")
        wanted, rate, number = item.texts("functions"), item.number("rate_gbps", low=0), item.count("count")
        workload.obligatory_rate_gbps = item.number("obligatory_rate_gbps", low=0)
        if not wanted:
            raise PlaceError(f"{item.place}.functions: found none, expected at least one")
        workload.instances = [Instance(f"instance{k + 1}", wanted[k % len(wanted)], rate) for k in range(min(number, CHAINS_MAX))]
        item.done()
    if top.has("arrivals_per_s"):
        arrivals, holding = top.number("arrivals_per_s", above=0), top.number("holding_s", above=0)
        now = 0.0
        for chain in workload.chains:
            now += rng.expovariate(arrivals)
            workload.events.append(Event(now, chain.name, True))
            workload.events.append(Event(now + rng.expovariate(1 / holding), chain.name, False))
        workload.events.sort(key=lambda event: (event.time_s, event.is_arrival))
    top.done()
    workload.check()
    return workload
