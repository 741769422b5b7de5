"""A switch inside a Python program."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, Union

from . import _native
from .errors import StfError, SwitchError
from .packets import Burst, Frame, Packet, Sent, frame_bytes, frames_bytes
from .program import Action, KeyField, Program, Table
from .trace import Trace
from .values import KeyResult, Match, Value, match_of, match_word, microseconds, number, whole, word

Key: TypeAlias = Union[Mapping[str, Match], Sequence[Match]]
"""A key: matches by field name (full, or its last parts), or in the order of the key."""

Params: TypeAlias = Union[Mapping[str, Value], Sequence[Value]]
"""Action data: values by parameter name, or in the order of the parameters."""

PAGE = 1024


@dataclass(frozen=True)
class Entry:
    """An entry of a table."""

    handle: int
    key: dict[str, KeyResult]
    """The match of each key field: see :data:`p4jet.values.KeyResult`."""
    priority: int | None
    """The smallest number wins; ``None`` in tables without priorities."""
    action: str | None
    """The action's full name; ``None`` if the entry refers to a member or group."""
    params: dict[str, int]
    member: int | None = None
    """The handle of the action profile's member."""
    group: int | None = None
    """The handle of the action selector's group."""
    timeout_ms: int | None = None
    """The idle timeout in milliseconds."""
    is_const: bool = False
    """It is ``const`` in the program."""
    counters: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Packets and bytes of each direct counter."""


@dataclass(frozen=True)
class Digest:
    """A message of the program to the control plane."""

    name: str
    time: float
    """Seconds since the switch started."""
    fields: dict[str, int]


def _named(names: Iterable[str], wanted: str, what: str, of: str) -> str:
    """Finds a name by its last parts, as the binary does."""
    listed = list(names)
    if wanted in listed:
        return wanted
    ends = [name for name in listed if name.endswith("." + wanted)]
    if len(ends) == 1:
        return ends[0]
    problem = "is ambiguous" if ends else "does not exist"
    choices = tuple(ends or listed)
    raise SwitchError(
        f"{what} `{wanted}` of {of} {problem}; choices: {', '.join(choices)}",
        "UNKNOWN_NAME",
        of,
        what,
        choices,
    )


class TableControl:
    """Access to the entries of one table. :meth:`Switch.table` returns it."""

    def __init__(self, switch: Switch, info: Table) -> None:
        self._switch = switch
        self.info = info
        """The table's shape."""

    @property
    def name(self) -> str:
        """The full name."""
        return self.info.name

    def insert(
        self,
        key: Key,
        action: str | None = None,
        params: Params = (),
        *,
        priority: int | None = None,
        member: int | None = None,
        group: int | None = None,
        timeout_ms: int | None = None,
        **named: Value,
    ) -> int:
        """Adds an entry and returns its handle.

        The entry has an `action` with `params` (or the parameters as keyword arguments), or in tables with an action profile a
        `member` or `group`. `priority` is needed if a key field is ternary, range or optional: the smallest number wins.
        `timeout_ms` is an idle timeout in milliseconds.

        Raises :class:`SwitchError`, for instance with the code ``DUPLICATE_ENTRY`` or ``TABLE_FULL``.
        """
        entry: dict[str, Any] = {
            "table": self.name,
            "key": self._key(key),
            "do": self._call(action, params, named, member, group),
        }
        if priority is not None:
            entry["priority"] = priority
        updates: list[dict[str, Any]] = [{"insert": entry}]
        if timeout_ms is not None:
            timeout: dict[str, Any] = {"table": self.name, "entry": {"made": 0}, "timeout_ms": timeout_ms}
            updates.append({"set_timeout": timeout})
        handle = self._switch.write(updates)[0]
        assert handle is not None
        return handle

    def insert_many(
        self, entries: Iterable[tuple[Key, str, Params]], *, priority: int | None = None
    ) -> list[int]:
        """Adds entries, all or none, and returns their handles: for each its key, action and params."""
        updates: list[dict[str, Any]] = []
        for key, action, params in entries:
            call = self._call(action, params, {}, None, None)
            entry: dict[str, Any] = {"table": self.name, "key": self._key(key), "do": call}
            if priority is not None:
                entry["priority"] = priority
            updates.append({"insert": entry})
        return [handle for handle in self._switch.write(updates) if handle is not None]

    def modify(
        self,
        entry: int | Entry | Key,
        action: str | None = None,
        params: Params = (),
        *,
        priority: int | None = None,
        member: int | None = None,
        group: int | None = None,
        **named: Value,
    ) -> None:
        """Replaces the action of an entry, which its handle or its key and `priority` identify."""
        call = self._call(action, params, named, member, group)
        self._switch.write([{"modify": {"table": self.name, "entry": self._entry(entry, priority), "do": call}}])

    def delete(self, entry: int | Entry | Key, *, priority: int | None = None) -> None:
        """Deletes an entry, which its handle or its key and `priority` identify."""
        self._switch.write([{"delete": {"table": self.name, "entry": self._entry(entry, priority)}}])

    def clear(self) -> None:
        """Deletes all entries."""
        self._switch.write([{"clear": {"table": self.name}}])

    def set_default(
        self,
        action: str | None = None,
        params: Params = (),
        *,
        member: int | None = None,
        group: int | None = None,
        **named: Value,
    ) -> None:
        """Sets the default action."""
        call = self._call(action, params, named, member, group)
        self._switch.write([{"set_default": {"table": self.name, "do": call}}])

    def reset_default(self) -> None:
        """Restores the default action that the program declares."""
        self._switch.write([{"reset_default": {"table": self.name}}])

    def default(self) -> tuple[str | None, dict[str, int]]:
        """Returns the default action and its data; ``(None, {})`` if the table has none."""
        for record in self._switch.read({"default": {"table": self.name}}):
            call = record["default"]["do"]
            return call.get("action"), self._params_of(call)
        return None, {}

    def set_timeout(self, entry: int | Entry | Key, timeout_ms: int, *, priority: int | None = None) -> None:
        """Sets the idle timeout of an entry in milliseconds; 0 means none."""
        of = self._entry(entry, priority)
        self._switch.write([{"set_timeout": {"table": self.name, "entry": of, "timeout_ms": timeout_ms}}])

    def entries(self) -> list[Entry]:
        """Returns all entries with their direct counters."""
        return list(self)

    def get(self, entry: int | Key, *, priority: int | None = None) -> Entry:
        """Returns one entry, which its handle or its key and `priority` identify."""
        found = self._entries({"entry": {"table": self.name, "entry": self._entry(entry, priority)}})
        return next(found)

    def __iter__(self) -> Iterator[Entry]:
        return self._entries({"entries": {"table": self.name}})

    def __len__(self) -> int:
        return int(self._switch.command(f"table_num_entries {self.name}"))

    def __repr__(self) -> str:
        return f"<table {self.name}>"

    def _entries(self, selector: dict[str, Any]) -> Iterator[Entry]:
        for records in self._switch._pages(selector):
            counters: dict[int, dict[str, tuple[int, int]]] = {}
            for record in records:
                if "counter" in record:
                    for handle, cell in record["counter"]["cells"].items():
                        counters.setdefault(int(handle), {})[record["counter"]["name"]] = (cell[0], cell[1])
            for record in records:
                if "entry" in record:
                    yield self._entry_of(record["entry"], counters)

    def _entry_of(self, fields: dict[str, Any], counters: dict[int, dict[str, tuple[int, int]]]) -> Entry:
        call = fields["do"]
        found = counters.get(fields["handle"], {})
        return Entry(
            handle=fields["handle"],
            key={of.name: match_of(text, of.kind) for of, text in zip(self.info.key, fields["key"])},
            priority=fields.get("priority"),
            action=call.get("action"),
            params=self._params_of(call),
            member=call.get("member"),
            group=call.get("group"),
            timeout_ms=fields.get("timeout_ms"),
            is_const=fields.get("const", False),
            counters={name: found.get(name, (0, 0)) for name in self.info.direct_counters},
        )

    def _params_of(self, call: dict[str, Any]) -> dict[str, int]:
        action = call.get("action")
        if action is None:
            return {}
        params = self._action(action).params
        return {param.name: number(text) for param, text in zip(params, call.get("params", ()))}

    def _action(self, name: str) -> Action:
        actions = {action.name: action for action in self.info.actions}
        return actions[_named(actions, name, "action", self.name)]

    def _field(self, name: str) -> KeyField:
        fields = {of.name: of for of in self.info.key}
        return fields[_named(fields, name, "key", self.name)]

    def _key(self, key: Key) -> list[str]:
        fields = self.info.key
        if isinstance(key, Mapping):
            given = {self._field(name).name: match for name, match in key.items()}
            optional = ("ternary", "range", "optional", "lpm")
            missing = [of.name for of in fields if of.name not in given and of.kind not in optional]
            if missing:
                raise SwitchError(
                    f"the key of {self.name} lacks {', '.join(missing)}", "BAD_MATCH_KEY", self.name, "key", tuple(missing)
                )
            return [match_word(given.get(of.name), of.kind, of.width, of.name) for of in fields]
        matches: Sequence[Match] = [key] if isinstance(key, (str, bytes, int)) or key is None else key
        if len(matches) != len(fields):
            names = ", ".join(of.name for of in fields)
            raise SwitchError(
                f"found {len(matches)} matches for the key of {self.name}, expected {len(fields)}: {names}",
                "BAD_MATCH_KEY",
                self.name,
                "key",
            )
        return [match_word(match, of.kind, of.width, of.name) for match, of in zip(matches, fields)]

    def _entry(self, entry: int | Entry | Key, priority: int | None) -> Any:
        if isinstance(entry, Entry):
            return entry.handle
        if isinstance(entry, int):
            return entry
        of: dict[str, Any] = {"key": self._key(entry)}
        if priority is not None:
            of["priority"] = priority
        return of

    def _call(
        self,
        action: str | None,
        params: Params,
        named: Mapping[str, Value],
        member: int | None,
        group: int | None,
    ) -> dict[str, Any]:
        if member is not None:
            return {"member": member}
        if group is not None:
            return {"group": group}
        if action is None:
            raise SwitchError("expected an action, a member or a group", entity=self.name, field="action")
        return call_of(self._action(action), params, named)


def call_of(action: Action, params: Params, named: Mapping[str, Value]) -> dict[str, Any]:
    """Returns the wire form of an action with its data."""
    names = [param.name for param in action.params]
    if isinstance(params, Mapping):
        named, params = {**params, **named}, ()
    if named:
        given = {_named(names, name, "parameter", action.name): value for name, value in named.items()}
        missing = [name for name in names[len(params) :] if name not in given]
        if missing or len(params) + len(given) != len(names):
            raise SwitchError(
                f"{action.name} has the parameters {', '.join(names)}; found {len(params)} by position and "
                f"{', '.join(given)}",
                "BAD_ACTION_DATA",
                action.name,
                "params",
                tuple(names),
            )
        params = [*params, *(given[name] for name in names[len(params) :])]
    return {"action": action.name, "params": [word(value) for value in params]}


class Switch:
    """A switch with one worker, which runs on the thread that calls it, and a virtual clock that starts at 0.

    Without output queues, :meth:`send` returns everything that a packet causes. The clock stands still except in :meth:`wait`.
    """

    def __init__(
        self,
        program: Program | str | os.PathLike[str],
        *,
        engine: Literal["jit", "interp"] = "jit",
        queues: int | None = None,
        commands: str | os.PathLike[str] | None = None,
        folder: str | os.PathLike[str] | None = None,
    ) -> None:
        """Creates a switch for a program, its path or its text.

        `engine` is ``jit`` (machine code) or ``interp`` (the reference interpreter). `queues` is the number of output queues of each
        port; without it, packets leave at once. `commands` is a file of runtime commands. Relative paths, also those of :meth:`load`,
        start in `folder`; without it, in the current folder.
        """
        self.folder = folder
        """Where relative paths start; ``None``: in the current folder."""
        self.program = program if isinstance(program, Program) else Program(in_folder(folder, program))
        """The program."""
        self.engine = engine
        if queues is not None:
            queues = whole(queues, "queues", 0, 2**32 - 1, "expected the number of output queues of each port")
        self._native = _native.Switch(self.program._native, engine, queues)
        self._now_us = 0
        self.tables: dict[str, TableControl] = {
            name: TableControl(self, table) for name, table in self.program.tables.items()
        }
        """Access to each table by its full name."""
        if commands is not None:
            self.load(commands)

    # ---- control plane ----

    def request(self, request: dict[str, Any]) -> dict[str, Any]:
        """Carries out a request of the control protocol (docs/control.md) and returns its answer.

        Raises :class:`SwitchError` if the switch refuses it, :class:`TypeError` or :class:`ValueError` if it is no request.
        """
        try:
            answer: dict[str, Any] = json.loads(self._native.request(json.dumps(request, default=_plain)))
        except ValueError as error:
            raise _no_request(str(error)) from None
        if not answer["ok"]:
            refused = [result["error"] for result in answer.get("results", ()) if "error" in result]
            # An update that was not applied because of another one is not the cause.
            refused.sort(key=lambda error: error.get("code") == "ABORTED")
            raise SwitchError._of(answer.get("error") or refused[0], request.get("name"), request.get("commands", ()))
        return answer

    def write(self, updates: Sequence[dict[str, Any]], *, atomic: bool = True) -> list[int | None]:
        """Applies updates in the JSON form of docs/control.md, all or none.

        Returns the handle of the object that each created. With ``atomic=False``, each is applied on its own, and the first refusal
        is raised after all have been tried.
        """
        answer = self.request({"write": list(updates), "atomic": atomic})
        return [result.get("handle") for result in answer.get("results", ())]

    def read(self, selector: dict[str, Any]) -> list[dict[str, Any]]:
        """Returns the records that a selector of docs/control.md chooses, such as ``{"nodes": {}}``."""
        return [record for page in self._pages(selector) for record in page]

    def _pages(self, selector: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
        start: int | None = 0
        while start is not None:
            answer = self.request({"read": selector, "from": start, "max": PAGE})
            yield answer.get("records", [])
            start = answer.get("next")

    def command(self, line: str) -> str:
        """Runs one runtime command, such as ``table_add t a 1 => 2``, and returns its output."""
        output: str = self.request({"command": line})["output"]
        return output

    def load(self, commands: str | os.PathLike[str]) -> str:
        """Runs a file of runtime commands, all or nothing, and returns the output of those that read.

        `commands` is a path, or a text with a line break. Raises :class:`SwitchError` with `file`, `line` and `column`, or
        :class:`OSError` if the file cannot be read.
        """
        name, text = _named_text(commands, "commands", self.folder)
        output: str = self.request({"commands": _lines(text), "name": name})["output"]
        return output

    def table(self, name: str) -> TableControl:
        """Returns access to a table by its full name, or by its last parts if they are unambiguous."""
        return self.tables[_named(self.tables, name, "table", self.program.name)]

    def profile(self, name: str) -> ProfileControl:
        """Returns access to an action profile or selector."""
        profiles = {profile["name"]: profile for profile in self.program._schema["profiles"]}
        return ProfileControl(self, profiles[_named(profiles, name, "profile", self.program.name)])

    def counter(self, name: str) -> CounterControl:
        """Returns access to a counter, indirect or direct."""
        return CounterControl(self, self._array("counters", name, "counter"))

    def register(self, name: str) -> RegisterControl:
        """Returns access to a register."""
        return RegisterControl(self, self._array("registers", name, "register"))

    def meter(self, name: str) -> MeterControl:
        """Returns access to a meter, indirect or direct."""
        return MeterControl(self, self._array("meters", name, "meter"))

    def value_set(self, name: str) -> ValueSetControl:
        """Returns access to a parser value set."""
        sets = self.program.value_sets
        return ValueSetControl(self, sets[_named(sets, name, "set", self.program.name)])

    def _array(self, kind: str, name: str, what: str) -> dict[str, Any]:
        arrays: dict[str, dict[str, Any]] = {array["name"]: array for array in self.program._schema[kind]}
        return arrays[_named(arrays, name, what, self.program.name)]

    def set_multicast_group(self, group: int, replicas: Iterable[tuple[int, int]] | Iterable[int]) -> None:
        """Sets the copies of a multicast group: pairs of port and replication id, or ports with replication id 0."""
        pairs = [replica if isinstance(replica, tuple) else (replica, 0) for replica in replicas]
        self.write([{"set_multicast_group": {"group": group, "replicas": pairs}}])

    def delete_multicast_group(self, group: int) -> None:
        """Deletes a multicast group."""
        self.write([{"set_multicast_group": {"group": group}}])

    def multicast_groups(self) -> dict[int, list[tuple[int, int]]]:
        """Returns the copies of each multicast group: port and replication id."""
        groups: dict[int, list[int]] = {}
        nodes: dict[int, dict[str, Any]] = {}
        lags: dict[int, list[int]] = {}
        for selector in ("multicast_groups", "nodes", "lags"):
            for record in self.read({selector: {}}):
                found = record["multicast"]
                groups.update({int(group): handles for group, handles in found["groups"].items()})
                nodes.update({int(handle): node for handle, node in found["nodes"].items()})
                lags.update({int(lag): ports for lag, ports in found["lags"].items()})
        return {
            group: [
                (port, nodes[handle]["rid"])
                for handle in handles
                for port in [*nodes[handle]["ports"], *(p for lag in nodes[handle]["lags"] for p in lags.get(lag, ())[:1])]
            ]
            for group, handles in groups.items()
        }

    def set_clone_session(
        self,
        session: int,
        port: int | None = None,
        *,
        group: int | None = None,
        bytes: int | None = None,
        replicas: Iterable[tuple[int, int]] | None = None,
    ) -> None:
        """Sets a clone session: copies to a port, to a multicast group, or to pairs of port and replication id.

        `bytes` truncates the copies to this length.
        """
        fields: dict[str, Any] = {"number": session, "port": port, "group": group, "bytes": bytes}
        if replicas is not None:
            fields["replicas"] = list(replicas)
        given = {name: value for name, value in fields.items() if value is not None}
        self.write([{"set_session": given}])

    def delete_clone_session(self, session: int) -> None:
        """Deletes a clone session."""
        self.write([{"delete_session": {"number": session}}])

    def set_queue(
        self,
        port: int | None = None,
        queue: int | None = None,
        *,
        depth: int | None = None,
        packets_per_second: int | None = None,
        bits_per_second: int | None = None,
        weight: int | None = None,
    ) -> None:
        """Configures an output queue, or with ``None`` those of all ports or all priorities.

        `depth` is the number of packets that it holds, `packets_per_second` or `bits_per_second` its rate (0: no limit), `weight` its
        share of the port among queues with a weight. The switch needs ``queues=``.
        """
        of: dict[str, Any] = {name: value for name, value in (("port", port), ("queue", queue)) if value is not None}
        updates: list[dict[str, Any]] = []
        if depth is not None:
            updates.append({"set_queue_depth": {"packets": depth, **of}})
        if weight is not None:
            updates.append({"set_queue_weight": {"weight": weight, **of}})
        rate = _rate(packets_per_second, bits_per_second)
        if rate is not None:
            updates.append({"set_queue_rate": {"rate": rate, **of}})
        self.write(updates)

    def set_port_rate(
        self, port: int | None = None, *, packets_per_second: int | None = None, bits_per_second: int | None = None
    ) -> None:
        """Sets the rate at which a port (``None``: each port) takes packets from its queues; 0 means no limit."""
        rate = _rate(packets_per_second, bits_per_second)
        if rate is None:
            raise ValueError("expected packets_per_second or bits_per_second")
        of = {} if port is None else {"port": port}
        self.write([{"set_port_rate": {"rate": rate, **of}}])

    def digests(self) -> list[Digest]:
        """Returns the digests that the program has sent since the last call."""
        digests = self.program._schema["digests"]
        names = {digest["name"]: [of["name"] for of in digest["fields"]] for digest in digests}
        return [
            Digest(name, time_us / 1e6, dict(zip(names[name], map(int, values))))
            for time_us, name, values in self._native.digests()
        ]

    def dump(self, *, counters: bool = False) -> str:
        """Returns the whole configuration; with `counters`, also the values of counters. :meth:`restore` takes it."""
        return self._native.dump(counters)

    def restore(self, dump: str) -> None:
        """Replaces the whole configuration, all or nothing."""
        self.request({"restore": _lines(dump)})

    # ---- packets ----

    def send(self, frame: Frame, port: int = 0) -> Sent:
        """Processes one packet that arrives at `port`, with all its copies, and returns the packets that leave.

        With output queues, the others leave in :meth:`wait`.
        """
        packets, dropped = self._native.send(self._port(port), frame_bytes(frame))
        return Sent([Packet(port, bytes(data)) for port, data in packets], tuple(dropped))

    def send_many(self, frames: Any, port: int | Sequence[int] = 0, *, length: int | None = None) -> Burst:
        """Processes many packets in batches of 64, without holding Python's interpreter lock.

        `frames` is a sequence of frames, a NumPy array of shape (packets, bytes) and type ``uint8``, or bytes with frames of `length`
        bytes one after the other. `port` is the ingress port of all, or a sequence with the port of each.
        """
        if isinstance(frames, (bytes, bytearray, memoryview)):
            if length is None or length <= 0:
                raise ValueError("bytes with several frames: expected their `length`")
            data, lengths = bytes(frames), _u32([length])
        elif hasattr(frames, "__array_interface__"):
            if frames.ndim != 2 or frames.dtype.itemsize != 1:
                raise ValueError(f"found an array of shape {frames.shape}, expected (packets, bytes) of type uint8")
            data, lengths = frames.tobytes(), _u32([frames.shape[1]])
        else:
            listed = frames_bytes(frames)
            data, lengths = b"".join(listed), _u32([len(frame) for frame in listed])
            if len(listed) == 1 and not listed[0]:
                raise ValueError("found an empty frame")
        ports = _u32([port] if isinstance(port, int) or not hasattr(port, "__len__") else list(port))
        return Burst(*self._native.send_many(data, lengths, ports))

    def trace(self, frame: Frame, port: int = 0) -> Trace:
        """Returns the steps of a packet through the program with the present entries. Nothing in the switch changes."""
        steps, text = self._native.trace(self._port(port), frame_bytes(frame))
        return Trace(steps, text)

    def _port(self, port: int) -> int:
        """Checks the number of a port."""
        high = self._native.port_max
        return whole(port, "port", 0, high, f"this program has ports 0 to {high}")

    @property
    def time(self) -> float:
        """The virtual time in seconds since the switch was created."""
        return self._now_us / 1e6

    def wait(self, seconds: float) -> list[tuple[float, Packet]]:
        """Advances the virtual time. Returns the packets that left output queues meanwhile, each with its time in seconds."""
        return self._advance(self._now_us + microseconds(seconds))

    def _advance(self, to_us: int) -> list[tuple[float, Packet]]:
        if to_us < self._now_us:
            raise ValueError(f"the switch is at {self.time} s and cannot go back to {to_us / 1e6} s")
        left, _ = self._native.advance(to_us)
        self._now_us = to_us
        return [(time_us / 1e6, Packet(port, bytes(data))) for time_us, port, data in left]

    def take_log(self) -> list[str]:
        """Returns what ``log_msg`` and failed assertions wrote since the last call."""
        return self._native.take_log()

    def __repr__(self) -> str:
        return f"<switch with {self.program.name}, {self.engine}, time {self.time} s>"


@dataclass(frozen=True)
class _Object:
    _switch: Switch
    info: dict[str, Any]
    """The object's name and shape."""

    @property
    def name(self) -> str:
        """The full name."""
        name: str = self.info["name"]
        return name


class CounterControl(_Object):
    """Access to the cells of a counter: packets and bytes. A direct counter's cells belong to entries."""

    def __getitem__(self, index: int) -> tuple[int, int]:
        size = self.info.get("size")
        if size is not None and not 0 <= index < size:
            raise IndexError(f"{self.name} has the cells 0 to {size - 1}; found {index}")
        return self.read().get(index, (0, 0))

    def __setitem__(self, index: int, value: tuple[int, int]) -> None:
        cell: dict[str, Any] = {"index": index} if "size" in self.info else {"entry": index}
        update = {"counter": self.name, "cell": cell, "packets": value[0], "bytes": value[1]}
        self._switch.write([{"write_counter": update}])

    def read(self) -> dict[int, tuple[int, int]]:
        """Returns the cells that are not 0, by index or entry handle: packets and bytes."""
        cells: dict[int, tuple[int, int]] = {}
        for record in self._switch.read({"counter": {"counter": self.name}}):
            cells.update({int(index): (cell[0], cell[1]) for index, cell in record["counter"]["cells"].items()})
        return cells

    def reset(self) -> None:
        """Sets all cells to 0."""
        self._switch.write([{"reset_counter": {"counter": self.name}}])


class RegisterControl(_Object):
    """Access to the cells of a register."""

    def __len__(self) -> int:
        return int(self.info["size"])

    def __getitem__(self, index: int) -> int:
        if not 0 <= index < len(self):
            raise IndexError(f"{self.name} has the cells 0 to {len(self) - 1}; found {index}")
        return int(self._switch.command(f"register_read {self.name} {index}").split("=")[1])

    def __setitem__(self, index: int, value: Value) -> None:
        self._switch.write([{"write_register": {"register": self.name, "index": index, "value": word(value)}}])

    def read(self) -> dict[int, int]:
        """Returns the cells that are not 0."""
        cells: dict[int, int] = {}
        for record in self._switch.read({"register": {"register": self.name}}):
            cells.update({int(index): number(text) for index, text in record["register"]["cells"].items()})
        return cells

    def reset(self) -> None:
        """Sets all cells to 0."""
        self._switch.write([{"reset_register": {"register": self.name}}])


class MeterControl(_Object):
    """Access to the rates of a meter."""

    def set(
        self,
        cell: int,
        committed: tuple[float, int] | None,
        peak: tuple[float, int] | None = None,
    ) -> None:
        """Sets the rates of a cell: its index, or the entry's handle in a direct meter.

        Each rate is units (bytes or packets) per second, and the burst in units; `peak` equals `committed` if it is left out. `None`
        removes the rates.
        """
        rates = None
        if committed is not None:
            rates = [f"{rate / 1e6!r}:{burst}" for rate, burst in (committed, peak or committed)]
        of: dict[str, Any] = {"index": cell} if "size" in self.info else {"entry": cell}
        self._switch.write([{"set_meter": {"meter": self.name, "cell": of, "rates": rates}}])

    def read(self) -> dict[int, tuple[tuple[float, int], tuple[float, int]]]:
        """Returns the committed and peak rate of each cell that has some: units per second, and burst."""
        cells: dict[int, tuple[tuple[float, int], tuple[float, int]]] = {}

        def rate(text: str) -> tuple[float, int]:
            per_us, burst = text.split(":")
            return float(per_us) * 1e6, int(burst)

        for record in self._switch.read({"meter": {"meter": self.name}}):
            cells.update({int(index): (rate(low), rate(high)) for index, (low, high) in record["meter"]["cells"].items()})
        return cells


class ValueSetControl:
    """Access to a parser value set."""

    def __init__(self, switch: Switch, info: Table) -> None:
        self._switch = switch
        self._of = TableControl(switch, info)
        self.name = info.name
        """The full name."""

    def add(self, key: Key) -> None:
        """Adds a value."""
        self._switch.write([{"add_to_value_set": {"set": self.name, "key": self._of._key(key)}}])

    def remove(self, key: Key) -> None:
        """Removes a value."""
        self._switch.write([{"remove_from_value_set": {"set": self.name, "key": self._of._key(key)}}])

    def clear(self) -> None:
        """Removes all values."""
        self._switch.write([{"clear_value_set": {"set": self.name}}])

    def read(self) -> list[tuple[KeyResult, ...]]:
        """Returns the values."""
        fields = self._of.info.key
        return [
            tuple(match_of(text, of.kind) for of, text in zip(fields, value))
            for record in self._switch.read({"value_set": {"set": self.name}})
            for value in record["value_set"]["values"]
        ]


class ProfileControl(_Object):
    """Access to the members and groups of an action profile or selector."""

    def _action(self, name: str) -> Action:
        table = self._switch.table(self.info["tables"][0])
        return table._action(name)

    def create_member(self, action: str, params: Params = (), **named: Value) -> int:
        """Creates a member and returns its handle."""
        call = call_of(self._action(action), params, named)
        handle = self._switch.write([{"create_member": {"profile": self.name, "do": call}}])[0]
        assert handle is not None
        return handle

    def modify_member(self, member: int, action: str, params: Params = (), **named: Value) -> None:
        """Replaces the action of a member."""
        call = call_of(self._action(action), params, named)
        self._switch.write([{"modify_member": {"profile": self.name, "member": member, "do": call}}])

    def delete_member(self, member: int) -> None:
        """Deletes a member."""
        self._switch.write([{"delete_member": {"profile": self.name, "member": member}}])

    def create_group(self, members: Iterable[int | tuple[int, int]] = ()) -> int:
        """Creates a group and returns its handle. Its members are handles, or pairs of handle and weight."""
        pairs = [member if isinstance(member, tuple) else (member, 1) for member in members]
        updates: list[dict[str, Any]] = [{"create_group": {"profile": self.name}}]
        if pairs:
            updates.append({"set_group": {"profile": self.name, "group": {"made": 0}, "members": pairs}})
        handle = self._switch.write(updates)[0]
        assert handle is not None
        return handle

    def set_group(self, group: int, members: Iterable[int | tuple[int, int]]) -> None:
        """Replaces the members of a group: handles, or pairs of handle and weight."""
        pairs = [member if isinstance(member, tuple) else (member, 1) for member in members]
        self._switch.write([{"set_group": {"profile": self.name, "group": group, "members": pairs}}])

    def delete_group(self, group: int) -> None:
        """Deletes a group."""
        self._switch.write([{"delete_group": {"profile": self.name, "group": group}}])

    def members(self) -> dict[int, tuple[str, dict[str, int]]]:
        """Returns the action and data of each member by handle."""
        found = {}
        for record in self._switch.read({"members": {"profile": self.name}}):
            member = record["member"]
            call = member["do"]
            params = self._action(call["action"]).params
            values = {param.name: number(text) for param, text in zip(params, call.get("params", ()))}
            found[member["handle"]] = (call["action"], values)
        return found

    def groups(self) -> dict[int, list[tuple[int, int]]]:
        """Returns the members of each group by handle: handle and weight."""
        found = {}
        for record in self._switch.read({"groups": {"profile": self.name}}):
            group = record["group"]
            weights = group.get("places") or [1] * len(group["members"])
            found[group["handle"]] = list(zip(group["members"], weights))
        return found


def in_folder(
    folder: str | os.PathLike[str] | None, source: str | os.PathLike[str], marks: str = "\n{;"
) -> str | os.PathLike[str]:
    """Returns a path that starts in `folder`, or a text as it is: a string with one of these marks."""
    if folder is None or (isinstance(source, str) and any(mark in source for mark in marks)):
        return source
    return os.path.join(folder, source)


def _named_text(
    source: str | os.PathLike[str], name: str, folder: str | os.PathLike[str] | None = None
) -> tuple[str, str]:
    """Returns the path and the content of a file, or `name` and a text with a line break."""
    if isinstance(source, str) and "\n" in source:
        return name, source
    path = os.fspath(in_folder(folder, source, "\n"))
    with open(path, encoding="utf-8") as file:
        return path, file.read()


def _lines(text: str) -> list[str]:
    """Returns the lines of a text. The switch counts them in the same way, unlike :meth:`str.splitlines`."""
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


def _plain(found: Any) -> int:
    """Lets JSON contain whole numbers of other types, such as NumPy's."""
    if not hasattr(found, "__index__"):
        raise TypeError(f"found {found!r} ({type(found).__name__}); expected a whole number or a text")
    return int(found.__index__())


def _no_request(text: str) -> Exception:
    """Returns the exception for arguments of a wrong type or out of range, from what the parser of requests says."""
    text = re.sub(r" at line \d+ column \d+$", "", text)
    wrong = re.fullmatch(r"not a request: (?:write\[\d+\]\.)?(?:([^ ]+): )?invalid (type|value): (.*), expected (.*)", text, re.DOTALL)
    if wrong is None:
        return ValueError(text)
    numbers = {f"u{bits}": f"a whole number from 0 to {2**bits - 1}" for bits in (8, 16, 32, 64)}
    shown = f"{wrong[1] or 'request'}: found {wrong[3]}, expected {numbers.get(wrong[4], wrong[4])}"
    return TypeError(shown) if wrong[2] == "type" else ValueError(shown)


def _rate(packets: int | None, bits: int | None) -> dict[str, int] | None:
    if packets is not None and bits is not None:
        raise ValueError("found packets_per_second and bits_per_second, expected one of them")
    if packets is not None:
        return {"packets_per_second": packets}
    return None if bits is None else {"bits_per_second": bits}


def _u32(numbers: Sequence[Any]) -> bytes:
    try:
        return b"".join(number.to_bytes(4, "little") for number in numbers)
    except (AttributeError, OverflowError):
        # NumPy's numbers, or none.
        expected = "ports and lengths are numbers from 0 to 4294967295"
        return b"".join(whole(number, "found", 0, 2**32 - 1, expected).to_bytes(4, "little") for number in numbers)


def run_stf(
    program: Program | str | os.PathLike[str],
    test: str | os.PathLike[str],
    *,
    engines: Iterable[Literal["jit", "interp"]] = ("interp", "jit"),
    folder: str | os.PathLike[str] | None = None,
) -> int:
    """Runs a packet test (STF): a path, or a text with a line break. Returns the number of checks.

    Relative paths start in `folder`; without it, in the current folder. Raises :class:`StfError` with the differences and the traces of
    the packets, or :class:`SwitchError` with `file`, `line` and `column` if the test is malformed.
    """
    compiled = program if isinstance(program, Program) else Program(in_folder(folder, program))
    name, text = _named_text(test, "test", folder)
    checks = 0
    for engine in engines:
        try:
            failures, checks = _native.run_stf(compiled._native, engine, name, text)
        except ValueError as error:
            shown = str(error).rstrip("\n")
            place = re.search(rf"^ *--> {re.escape(name)}:(\d+)(?::(\d+))?$", shown, re.MULTILINE)
            line, column = (None if place is None or place[group] is None else int(place[group]) for group in (1, 2))
            raise SwitchError(shown, line=line, file=None if place is None else name, column=column) from None
        if failures:
            raise StfError(f"({engine}) {failures.rstrip()}")
    return checks
