"""The P4 tutorials' ``sN-runtime.json`` as runtime commands."""

from __future__ import annotations

import ipaddress
import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import CompileError
from ..program import Program, Table
from .errors import LabError

KEYS = ("target", "p4info", "bmv2_json", "table_entries", "multicast_group_entries", "clone_session_entries")
"""Of a file, as utils/p4runtime_lib/simple_controller.py of the tutorials reads them."""
PRIORITY_MAX = 2147483647
"""Runtime commands prefer the smaller priority, P4Runtime the larger: they add up to this."""


def runtime_commands(program: Path, file: Path) -> str:
    """Returns the entries, multicast groups and clone sessions of a file as runtime commands for a program.

    Raises :class:`LabError` if the program does not compile or does not have what the file names.
    """
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise LabError(f"{file}: {error.strerror}") from error
    except ValueError as error:
        raise LabError(f"{file}: it is not JSON: {error}") from error
    except RecursionError as error:
        raise LabError(f"{file}: its tables or lists are nested too deeply") from error
    if not isinstance(document, dict):
        raise LabError(f"{file}: found {str(document)[:40]}, expected a JSON object with the keys {', '.join(KEYS)}")
    for key, value in document.items():
        if key not in KEYS:
            raise LabError(f"{file}: unknown key {key!r}; there are: {', '.join(KEYS)}")
        if key.endswith("_entries") and not isinstance(value, list):
            raise LabError(f"{file}: {key}: found {str(value)[:40]}, expected a list of objects")
    try:
        tables = Program(program).tables
    except CompileError as error:
        raise LabError(f"{program} does not compile:\n{error}") from error
    nodes = itertools.count()
    lines = []
    kinds: dict[str, Callable[[Any], list[str]]] = {
        "table_entries": lambda entry: [_entry(tables, entry)],
        "multicast_group_entries": lambda entry: _group(entry, nodes),
        "clone_session_entries": _session,
    }
    for kind, convert in kinds.items():
        for number, entry in enumerate(document.get(kind, []), start=1):
            if not isinstance(entry, dict):
                raise LabError(f"{file}: entry {number} of {kind}: found {str(entry)[:40]}, expected an object")
            try:
                lines += convert(entry)
            except KeyError as error:
                raise LabError(f"{file}: entry {number} of {kind}: the key {error} is missing") from error
            except (LabError, ValueError, TypeError, AttributeError, IndexError) as error:
                raise LabError(f"{file}: entry {number} of {kind}: {error}") from error
    return "".join(line + "\n" for line in lines)


def _entry(tables: Mapping[str, Table], entry: Mapping[str, Any]) -> str:
    table = _choose("table", entry["table"], tables)
    action = _choose("action", entry["action_name"], {action.name: action for action in table.actions})
    given = dict(entry.get("action_params") or {})
    arguments = [_value(_take("parameter", param.name, given)) for param in action.params]
    _refuse_rest("parameter", given, [param.name for param in action.params])
    if entry.get("default_action"):
        return " ".join(["table_set_default", table.name, action.name, *arguments])
    match = dict(entry.get("match") or {})
    key = []
    for field in table.key:
        value = match.pop(field.name, None)
        top = (1 << field.width) - 1
        if field.kind == "exact":
            if value is None:
                raise LabError(f"table {table.name}: the match of {field.name} is missing")
            key.append(_value(value))
        elif field.kind == "lpm":
            key.append("0/0" if value is None else f"{_value(value[0])}/{int(value[1])}")
        elif field.kind == "range":
            key.append(f"0->{top}" if value is None else f"{_value(value[0])}->{_value(value[1])}")
        elif value is None:
            key.append("0&&&0")
        elif isinstance(value, list):
            key.append(f"{_value(value[0])}&&&{_value(value[1])}")
        else:
            key.append(f"{_value(value)}&&&{top:#x}")
    _refuse_rest("match field", match, [field.name for field in table.key])
    words = ["table_add", table.name, action.name, *key, "=>", *arguments]
    if any(field.kind not in ("exact", "lpm") for field in table.key):
        words.append(str(PRIORITY_MAX - int(entry["priority"])))
    return " ".join(words)


def _group(entry: Mapping[str, Any], nodes: Iterator[int]) -> list[str]:
    """Replicas of one instance become one node of the group; `nodes` counts the handles that the switch gives to nodes."""
    group = int(entry["multicast_group_id"])
    ports: dict[int, list[str]] = {}
    for replica in entry["replicas"]:
        ports.setdefault(int(replica["instance"]), []).append(str(int(replica["egress_port"])))
    lines = [f"mc_mgrp_create {group}"]
    for (instance, members), node in zip(ports.items(), nodes):
        lines += [f"mc_node_create {instance} {' '.join(members)}", f"mc_node_associate {group} {node}"]
    return lines


def _session(entry: Mapping[str, Any]) -> list[str]:
    session, replicas = int(entry["clone_session_id"]), entry["replicas"]
    if len(replicas) != 1:
        raise LabError(f"found {len(replicas)} replicas of clone session {session}; expected 1")
    length = int(entry.get("packet_length_bytes") or 0)
    return [f"mirroring_add {session} {int(replicas[0]['egress_port'])}{f' {length}' if length else ''}"]


def _choose(what: str, name: object, among: Mapping[str, Any]) -> Any:
    """Finds an object by its full name or an unambiguous last part."""
    found = [of for full, of in among.items() if full == name] or [of for full, of in among.items() if full.endswith(f".{name}")]
    if len(found) != 1:
        raise LabError(f"found {what} {name!r}; the program has: {', '.join(among)}")
    return found[0]


def _take(what: str, name: str, given: dict[str, Any]) -> Any:
    if name not in given:
        raise LabError(f"the {what} {name} is missing")
    return given.pop(name)


def _refuse_rest(what: str, rest: Mapping[str, Any], known: list[str]) -> None:
    if rest:
        raise LabError(f"unknown {what} {', '.join(map(repr, rest))}; there are: {', '.join(known) or 'none'}")


def _value(value: object) -> str:
    """A number, an IPv4 or MAC address, as runtime commands take it."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str) and value and not any(c.isspace() for c in value):
        return str(int(ipaddress.IPv6Address(value))) if value.count(":") > 1 and value.count(":") != 5 else value
    raise LabError(f"found value {value!r}; expected a number or an address")
