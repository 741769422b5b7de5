"""Files: profiles of device types, catalogues of functions, clouds, workloads and plans.

Files may be TOML or JSON, whatever their content shows; profiles are TOML. What this module writes is JSON. Every error names the place in
the file, what was found and what was expected.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .errors import PlaceError
from .model import (
    ARCHITECTURES,
    CONSTRUCTS,
    KINDS,
    Chain,
    Cloud,
    Device,
    DeviceType,
    Embedding,
    Event,
    Extern,
    FixedSwitch,
    Function,
    Instance,
    Link,
    Plan,
    Rule,
    Workload,
    architecture,
)

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

VERSION = 1
FILE_BYTES_MAX = 256 * 1024 * 1024
DATA = Path(__file__).parent / "data"
PROVENANCES = ("measured", "fitted", "assumed")
CATALOGUE = "thesis"
"""The functions of Table 5.5 of the thesis."""


class Section:
    """A table of a file, whose values are read once each with a check."""

    def __init__(self, data: object, place: str) -> None:
        if not isinstance(data, Mapping):
            raise PlaceError(f"{place}: found {_kind(data)}, expected a table")
        self.data: dict[str, Any] = dict(data)
        self.place = place
        self._known: set[str] = set()

    def has(self, key: str) -> bool:
        self._known.add(key)
        return key in self.data

    def raw(self, key: str) -> Any:
        if not self.has(key):
            raise PlaceError(f"{self.place}: found no {key}, expected one")
        return self.data[key]

    def number(self, key: str, *, low: float = -math.inf, high: float = math.inf, above: float | None = None) -> float:
        return _number(self.raw(key), f"{self.place}.{key}", low, high, above)

    def count(self, key: str, *, low: int = 0) -> int:
        return _count(self.raw(key), f"{self.place}.{key}", low)

    def text(self, key: str, choices: tuple[str, ...] = ()) -> str:
        value = self.raw(key)
        if not isinstance(value, str) or not value:
            raise PlaceError(f"{self.place}.{key}: found {_kind(value)}, expected text")
        if choices and value not in choices:
            raise PlaceError(f"{self.place}.{key}: found {value!r}, expected one of: {', '.join(choices)}")
        return value

    def texts(self, key: str) -> list[str]:
        value = self.raw(key)
        if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
            raise PlaceError(f"{self.place}.{key}: found {_kind(value)}, expected a list of texts")
        return list(value)

    def section(self, key: str) -> Section:
        return Section(self.raw(key), f"{self.place}.{key}")

    def sections(self, key: str) -> Iterator[Section]:
        value = self.raw(key)
        if not isinstance(value, list):
            raise PlaceError(f"{self.place}.{key}: found {_kind(value)}, expected a list of tables")
        for number, item in enumerate(value):
            yield Section(item, f"{self.place}.{key}[{number}]")

    def names(self) -> list[str]:
        """Returns all keys, each of which is known then."""
        self._known |= self.data.keys()
        return list(self.data)

    def done(self) -> None:
        """Raises :class:`PlaceError` if the file has a key that nothing asked for."""
        for key in self.data:
            if key not in self._known:
                raise PlaceError(f"{self.place}: found unknown key {key!r}, expected one of: {', '.join(sorted(self._known))}")


def read(path: str | os.PathLike[str]) -> Section:
    """Reads a TOML or JSON file."""
    file = Path(path)
    try:
        if file.stat().st_size > FILE_BYTES_MAX:
            raise PlaceError(f"{file}: found {file.stat().st_size} bytes, expected at most {FILE_BYTES_MAX}")
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise PlaceError(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PlaceError(f"{file}: found bytes that are not UTF-8 at {error.start}, expected TOML or JSON") from error
    try:
        # A TOML file with a brace in front would be no TOML.
        data = json.loads(text) if text.lstrip().startswith("{") else tomllib.loads(text)
    except (json.JSONDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise PlaceError(f"{file}: {error}; expected TOML or JSON") from error
    return Section(data, str(file))


def shipped_profiles() -> list[str]:
    """Returns the names of the profiles that come with the package."""
    return sorted(file.stem for file in (DATA / "profiles").glob("*.toml"))


def load_profile(name: str, *, folder: Path | None = None, frame_bytes: int) -> DeviceType:
    """Reads a device type from a profile: a shipped one by its name, or a file that ends in ``.toml``, relative to `folder`.

    Besides what every profile has, placement needs ``[limits]`` with rate_gbps and constructs, and ``[economy]`` with power_w and
    price_usd.
    """
    if name.endswith(".toml"):
        file = (folder or Path()) / name
    elif name in shipped_profiles():
        file = DATA / "profiles" / f"{name}.toml"
    else:
        raise PlaceError(f"profile: found {name!r}, expected a file that ends in .toml or one of: {', '.join(shipped_profiles())}")
    top = read(file)
    version = top.count("version")
    if version != VERSION:
        raise PlaceError(f"{file}.version: found {version}, expected {VERSION}")
    assumed: list[str] = []

    def value(section: Section, key: str, low: float = -math.inf) -> float:
        inner = section.section(key)
        number = inner.number("value", low=low)
        if inner.text("provenance", PROVENANCES) == "assumed":
            assumed.append(f"{section.place.removeprefix(str(file)).strip('.')}.{key}".strip("."))
        if inner.has("note"):
            inner.text("note")
        inner.done()
        return number

    kind = top.text("kind", KINDS)
    bases = top.section("base_us")
    sizes = {}
    for key in bases.names():
        if not key.isdecimal():
            raise PlaceError(f"{bases.place}: found {key!r}, expected a frame size in bytes")
        sizes[int(key)] = value(bases, key, 0)
    if frame_bytes not in sizes:
        raise PlaceError(
            f"{bases.place}: found frame sizes {', '.join(map(str, sorted(sizes))) or '(none)'}, expected {frame_bytes}, that of the cloud"
        )
    costs = top.section("cost_us")
    cost_us = {construct: value(costs, construct) for construct in CONSTRUCTS}
    costs.done()
    rules = []
    for item in top.sections("rules") if top.has("rules") else ():
        amounts = {key: value(item, key) for key in ("each_us", "once_us") if item.has(key)}
        if not amounts:
            raise PlaceError(f"{item.place}: found neither each_us nor once_us, expected one of them")
        rules.append(Rule(item.text("construct", CONSTRUCTS), item.count("above"), amounts.get("each_us"), amounts.get("once_us")))
        item.done()
    externs = {}
    if top.has("externs"):
        for key in (tables := top.section("externs")).names():
            item = tables.section(key)
            externs[key] = Extern(value(item, "rate_gbps", 0), value(item, "latency_us", 0))
            item.done()
    architectures = _architectures(top) if top.has("architectures") else frozenset()
    if not architectures:
        raise PlaceError(f"{file}: found no architectures, expected some of: {', '.join(ARCHITECTURES)} (placement needs them)")
    for key, wanted in (("limits", "rate_gbps and constructs"), ("economy", "power_w and price_usd")):
        if not top.has(key):
            raise PlaceError(f"{file}: found no [{key}], expected it with {wanted}, which placement needs")
    limits, economy = top.section("limits"), top.section("economy")
    device_type = DeviceType(
        name=top.text("name"),
        kind=kind,
        architectures=architectures,
        base_us=sizes[frame_bytes],
        cost_us=cost_us,
        rate_gbps=value(limits, "rate_gbps", 0),
        constructs=int(value(limits, "constructs", 0)),
        entries=int(value(limits, "entries", 0)) if limits.has("entries") else None,
        power_w=value(economy, "power_w", 0),
        price_usd=value(economy, "price_usd", 0),
        externs=externs,
        rules=tuple(rules),
        assumed=tuple(assumed),
    )
    limits.done()
    economy.done()
    for key in ("description", "source"):
        if top.has(key):
            top.text(key)
    if top.has("deviation_us"):
        value(top, "deviation_us", 0)
    top.has("p4jet")
    top.done()
    return device_type


def load_functions(name: str, *, entries: int | None, folder: Path | None = None) -> dict[str, Function]:
    """Reads a catalogue of functions: ``thesis`` (Table 5.5) or a file.

    `entries` is the number of table entries of each function that has none in the catalogue; Table 5.5 has none at all.
    """
    file = DATA / "functions.toml" if name == CATALOGUE else (folder or Path()) / name
    top = read(file)
    found = _functions(top.section("functions"), entries)
    if top.has("source"):
        top.text("source")
    top.done()
    return found


def _functions(section: Section, entries: int | None) -> dict[str, Function]:
    found = {}
    for name in section.names():
        item = section.section(name)
        constructs = {construct: item.count(construct) if item.has(construct) else 0 for construct in CONSTRUCTS}
        if item.has("entries"):
            needed = item.count("entries")
        elif entries is not None:
            needed = entries
        else:
            raise PlaceError(f"{item.place}: found no entries, expected the number of table entries that each instance needs")
        externs = frozenset(item.texts("externs")) if item.has("externs") else frozenset()
        found[name] = Function(name, constructs, _architectures(item), externs, needed)
        item.done()
    return found


def _architectures(section: Section) -> frozenset[str]:
    found = set()
    for name in section.texts("architectures"):
        try:
            found.add(architecture(name))
        except PlaceError as error:
            raise PlaceError(f"{section.place}.architectures: {error}") from error
    return frozenset(found)


def load_cloud(path: str | os.PathLike[str]) -> Cloud:
    """Reads a cloud and its profiles, and checks it."""
    top = read(path)
    _expect(top, "cloud")
    folder = Path(path).parent
    frame_bytes = top.count("frame_bytes", low=1)
    profiles = top.texts("profiles")
    types: dict[str, DeviceType] = {}
    for profile in profiles:
        device_type = load_profile(profile, folder=folder, frame_bytes=frame_bytes)
        if device_type.name in types:
            raise PlaceError(f"{top.place}.profiles: found two profiles named {device_type.name!r}, expected different names")
        types[device_type.name] = device_type
    cloud = Cloud(top.text("name"), types, profiles=profiles, frame_bytes=frame_bytes)
    nodes: set[str] = set()

    def new(item: Section) -> str:
        name = item.text("name")
        if name in nodes:
            raise PlaceError(f"{item.place}: found a second node {name!r}, expected different names")
        nodes.add(name)
        return name

    for item in top.sections("devices"):
        name = new(item)
        cloud.devices[name] = Device(name, item.text("type"), item.text("rack") if item.has("rack") else None)
        item.done()
    for item in top.sections("switches") if top.has("switches") else ():
        name = new(item)
        cloud.switches[name] = FixedSwitch(name, item.number("delay_us", low=0), item.text("rack") if item.has("rack") else None)
        item.done()
    for item in top.sections("links") if top.has("links") else ():
        ends = item.texts("ends")
        if len(ends) != 2:
            raise PlaceError(f"{item.place}.ends: found {len(ends)} nodes, expected two")
        cloud.links.append(Link(ends[0], ends[1], item.number("rate_gbps", low=0)))
        item.done()
    if top.has("inputs"):
        cloud.inputs = top.section("inputs").data
    top.done()
    cloud.check()
    return cloud


def save_cloud(cloud: Cloud, path: str | os.PathLike[str]) -> None:
    """Writes a cloud as JSON."""
    _write(
        path,
        {
            **_head("cloud", cloud.name),
            "inputs": cloud.inputs,
            "frame_bytes": cloud.frame_bytes,
            "profiles": cloud.profiles,
            "devices": [{"name": d.name, "type": d.type, **({"rack": d.rack} if d.rack else {})} for d in cloud.devices.values()],
            "switches": [{"name": s.name, "delay_us": s.delay_us, **({"rack": s.rack} if s.rack else {})} for s in cloud.switches.values()],
            "links": [{"ends": [link.one, link.other], "rate_gbps": link.rate_gbps} for link in cloud.links],
        },
    )


def load_workload(path: str | os.PathLike[str]) -> Workload:
    """Reads a workload and checks it."""
    top = read(path)
    _expect(top, "workload")
    workload = Workload(top.text("name"), _functions(top.section("functions"), None))
    workload.obligatory = tuple(top.texts("obligatory")) if top.has("obligatory") else ()
    if top.has("obligatory_rate_gbps"):
        workload.obligatory_rate_gbps = top.number("obligatory_rate_gbps", low=0)
    for item in top.sections("chains") if top.has("chains") else ():
        functions = tuple(item.texts("functions"))
        rate, bound = item.number("rate_gbps", above=0), item.number("delay_us", above=0)
        workload.chains.append(Chain(item.text("name"), functions, rate, bound))
        item.done()
    for item in top.sections("instances") if top.has("instances") else ():
        workload.instances.append(Instance(item.text("name"), item.text("function"), item.number("rate_gbps", low=0)))
        item.done()
    for item in top.sections("events") if top.has("events") else ():
        workload.events.append(Event(item.number("time_s"), item.text("chain"), item.text("kind", ("arrival", "departure")) == "arrival"))
        item.done()
    if top.has("inputs"):
        workload.inputs = top.section("inputs").data
    top.done()
    workload.check()
    return workload


def save_workload(workload: Workload, path: str | os.PathLike[str]) -> None:
    """Writes a workload as JSON."""
    functions = {
        function.name: {
            **{construct: function.counts[construct] for construct in CONSTRUCTS},
            "entries": function.entries,
            "externs": sorted(function.externs),
            "architectures": sorted(function.architectures),
        }
        for function in workload.functions.values()
    }
    _write(
        path,
        {
            **_head("workload", workload.name),
            "inputs": workload.inputs,
            "functions": functions,
            "obligatory": list(workload.obligatory),
            "obligatory_rate_gbps": workload.obligatory_rate_gbps,
            "chains": [
                {"name": c.name, "functions": list(c.functions), "rate_gbps": c.rate_gbps, "delay_us": c.delay_us} for c in workload.chains
            ],
            "instances": [{"name": i.name, "function": i.function, "rate_gbps": i.rate_gbps} for i in workload.instances],
            "events": [
                {"time_s": e.time_s, "chain": e.chain, "kind": "arrival" if e.is_arrival else "departure"} for e in workload.events
            ],
        },
    )


def load_plan(path: str | os.PathLike[str]) -> Plan:
    """Reads a plan. Whether it fits a cloud and a workload is for :func:`p4jet.place.check.violations` to say."""
    top = read(path)
    _expect(top, "plan")
    plan = Plan(top.text("cloud"), top.text("workload"), top.text("method"))
    chains = top.section("chains")
    for name in chains.names():
        item = chains.section(name)
        routes = item.raw("routes")
        if not isinstance(routes, list) or not all(isinstance(r, list) and all(isinstance(n, str) for n in r) for r in routes):
            raise PlaceError(f"{item.place}.routes: found {_kind(routes)}, expected a list of lists of nodes")
        plan.chains[name] = Embedding(tuple(item.texts("devices")), tuple(tuple(route) for route in routes))
        item.done()
    instances = top.section("instances")
    plan.instances = {name: instances.text(name) for name in instances.names()}
    plan.rejected = top.texts("rejected")
    proven = top.raw("proven")
    if not isinstance(proven, bool):
        raise PlaceError(f"{top.place}.proven: found {_kind(proven)}, expected true or false")
    plan.proven = proven
    top.done()
    return plan


def save_plan(plan: Plan, path: str | os.PathLike[str]) -> None:
    """Writes a plan as JSON."""
    _write(
        path,
        {
            "version": VERSION,
            "kind": "plan",
            "cloud": plan.cloud,
            "workload": plan.workload,
            "method": plan.method,
            "proven": plan.proven,
            "chains": {
                name: {"devices": list(e.devices), "routes": [list(route) for route in e.routes]} for name, e in plan.chains.items()
            },
            "instances": plan.instances,
            "rejected": plan.rejected,
        },
    )


def _head(kind: str, name: str) -> dict[str, object]:
    return {"version": VERSION, "kind": kind, "name": name}


def _expect(top: Section, kind: str) -> None:
    found = top.text("kind", ("cloud", "workload", "plan"))
    if found != kind:
        raise PlaceError(f"{top.place}.kind: found {found!r}, expected {kind!r}")
    version = top.count("version")
    if version != VERSION:
        raise PlaceError(f"{top.place}.version: found {version}, expected {VERSION}")


def _write(path: str | os.PathLike[str], data: Mapping[str, object]) -> None:
    """Writes one line for each item of a list or table, so that files can be compared."""
    lines = []
    for key, value in data.items():
        if isinstance(value, list) and value:
            text = "[\n    " + ",\n    ".join(json.dumps(item) for item in value) + "\n  ]"
        elif isinstance(value, dict) and value:
            text = "{\n    " + ",\n    ".join(f"{json.dumps(name)}: {json.dumps(item)}" for name, item in value.items()) + "\n  }"
        else:
            text = json.dumps(value)
        lines.append(f"  {json.dumps(key)}: {text}")
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    except OSError as error:
        raise PlaceError(f"{error.filename or target}: {error.strerror}") from error


def _number(value: object, place: str, low: float, high: float, above: float | None) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise PlaceError(f"{place}: found {_kind(value)}, expected a number")
    if not low <= value <= high or (above is not None and value <= above):
        limit = f"above {above:g}" if above is not None else f"at least {low:g}" if high == math.inf else f"{low:g} to {high:g}"
        raise PlaceError(f"{place}: found {value}, expected a number {limit}")
    return float(value)


def _count(value: object, place: str, low: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise PlaceError(f"{place}: found {_kind(value)}, expected a whole number")
    if value < low:
        raise PlaceError(f"{place}: found {value}, expected a whole number of at least {low}")
    return value


def _kind(value: object) -> str:
    if isinstance(value, (str, int, float)):
        return repr(value)
    return "a table" if isinstance(value, dict) else "a list" if isinstance(value, list) else type(value).__name__
